"""Calculator annotations, as GSM8K has them, to training rows with operand columns.

In: rows such as `{"question": ..., "answer": "Natalia sold 48/2 = <<48/2=24>>24 clips."}`. Out: conversational rows
without the marks, whose operand columns are lists with one entry per anchor of the whole row as the trainer will find
them; and a `Report` of what became of each mark. Shapes: L tokens of a row, A anchors, W digits that are looked at.
A row with a wrong annotation is left out: it would be taught as faithfully as a right one. What is right, but beyond
the calculator, is taught as "no arithmetic". Try it: `pytest tests/test_annotations.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from os.path import commonprefix
from typing import Any, NamedTuple

import torch

from .adapters import check_tokenizer
from .anchors import Rules, context_starts, ends_of_sequences, find_anchors
from .calculator import Status
from .columns import COLUMNS, NO_ARITHMETIC, label
from .config import IGCConfig
from .digits import PAD, decode
from .marks import CURRENCY, INTEGER, Mark, plain, read_marks
from .runs import NumberTokens, find_runs
from .tokens import TokenTable


__all__ = ["Converted", "Report", "convert"]

EXAMPLES = 5  # wrong annotations that a report shows

_BETWEEN = re.compile(rf"\s*[{CURRENCY}]?\s*")  # an anchor and the mark
_FUSED = re.compile(r" ?[-\u2212]?")  # the mark and the end of its anchor's token, as in `=-`


@dataclass
class Report:
    """What became of the rows and their annotations.

    Every annotation is counted once: `annotations` is the sum of `supervised`, `refused`, `wrong`, `beside_wrong`,
    `without_anchor` and `unreadable`.
    """

    rows_in: int = 0
    rows_out: int = 0  # the others had a wrong annotation
    annotations: int = 0
    supervised: int = 0  # taught with operator, operands and result
    refused: Counter[str] = field(default_factory=Counter)  # by reason: a refusal by that name, or "none"
    wrong: int = 0  # the expression does not give the stated result, or the text does not go on with it
    beside_wrong: int = 0  # neither wrong nor unreadable, in a row that is left out
    without_anchor: int = 0  # there is no `=`, or it is in a token that goes on: `=$` needs a rule of its own
    unreadable: int = 0  # no expression and result, or not closed; the anchor is not supervised
    bare_anchors: int = 0  # within texts, questions included, without an annotation: not supervised
    examples: list[str] = field(default_factory=list)  # the first wrong annotations, each with its row

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return asdict(self) | {"refused": dict(sorted(self.refused.items()))}

    def format(self) -> str:
        """The report as a table for a terminal."""
        lines = []
        for name, value in self.as_dict().items():
            if name == "refused":
                lines += [f"  {reason:<26}{count:>8,}" for reason, count in value.items()]
            elif name != "examples":
                lines.append(f"{name.replace('_', ' '):<28}{value:>8,}")
        return "\n".join([*lines, *self.examples])


_Entry = tuple[str | None, list[str] | None, str | None]  # of the operand columns


class Converted(NamedTuple):
    """What `convert` gives: rows for `data.to_dataset`, and the report."""

    rows: list[dict[str, Any]]
    report: Report


def convert(
    rows: Iterable[Mapping[str, Any]],
    tokenizer: Any,
    config: IGCConfig,
    question: str = "question",
    answer: str = "answer",
    *,
    on_wrong: str = "drop",
    turns: str | None = NO_ARITHMETIC,
) -> Converted:
    """Turns rows with calculator annotations into training rows.

    Args:
        rows: Each with two strings; other fields are left out.
        tokenizer: That of the training, fast, with its chat template.
        config: The adapter's, with an anchor rule within texts, as `from_tokenizer(..., anchors=[..., "="])` sets it.
        question: Field of the user's message.
        answer: Field of the assistant's message, with the annotations.
        on_wrong: `"drop"` leaves out a row with a wrong annotation, `"raise"` raises.
        turns: Entry of the anchor with which the solution begins, where no number is due: `"none"` teaches that, None
            does not supervise it.

    Raises:
        TypeError: A row or a field of another type.
        ValueError: A missing or empty field; no row is left; a tokenizer, template or config that will not do.
    """
    if on_wrong not in ("drop", "raise"):
        raise ValueError(f'`on_wrong={on_wrong!r}` is unknown. Choose "drop" or "raise".')
    if turns not in (NO_ARITHMETIC, None):
        raise ValueError(f'`turns={turns!r}` is unknown. Choose "none", or None for an anchor without supervision.')
    chats, report = _Chats(tokenizer, config), Report()
    made: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
        where = f"row {index}"
        asked, annotated = _text(row, question, where), _text(row, answer, where)
        solution, marks = read_marks(annotated, config)
        if not solution:
            raise ValueError(f"{where}: `{answer}` is empty without its marks, got {annotated!r}. Leave the row out.")
        report.rows_in += 1
        if not _are_right(marks, report, where, on_wrong == "raise"):
            continue
        prompt, completion = [{"role": "user", "content": asked}], [{"role": "assistant", "content": solution}]
        anchors = chats.anchors(prompt, completion, marks, where)
        entries = _entries(anchors, _owned(anchors, marks, solution, report), config, turns, report)
        columns = {name: [entry[i] for entry in entries] for i, name in enumerate(COLUMNS)}
        made.append({"prompt": prompt, "completion": completion, **columns})
    report.rows_out = len(made)
    if not made:
        shown = f" ({report.examples[0]})" if report.examples else ""
        raise ValueError(f"Of {report.rows_in} rows none is left{shown}. Check the file that they come from.")
    return Converted(made, report)


def _text(row: Any, name: str, where: str) -> str:
    """A field of a row, checked."""
    text = row.get(name) if isinstance(row, Mapping) else None
    if isinstance(text, str) and text.strip():
        return text
    got = f"{row if text is None else text!r}"
    raise (ValueError if isinstance(row, Mapping) and isinstance(text, str | None) else TypeError)(
        f"{where}: the field `{name}` must be a string that is not empty, got {got:.200}. Leave the row out, or name "
        "the fields with `question=...` and `answer=...`."
    )


def _are_right(marks: list[Mark], report: Report, where: str, raises: bool) -> bool:
    """Whether no annotation of a row is wrong; counts what needs no anchor."""
    wrong = [f"{where}: <<{mark.written}>>: {mark.fault}" for mark in marks if mark.fault is not None]
    if wrong and raises:
        raise ValueError(f'{wrong[0]}. Correct the annotation, or pass `on_wrong="drop"`.')
    unreadable = sum(mark.stated is None for mark in marks)
    report.annotations += len(marks)
    report.unreadable += unreadable
    report.wrong += len(wrong)
    report.beside_wrong += len(marks) - len(wrong) - unreadable if wrong else 0
    report.examples += wrong[: EXAMPLES - len(report.examples)]
    return not wrong


class _Anchor(NamedTuple):
    """One anchor: the characters of its token, counted in the solution; whether a rule within texts names it; and the
    numbers that its step reads, without signs."""

    start: int
    end: int
    is_inline: bool
    read: Counter[str]


class _Chats:
    """Finds the anchors of rows with the tokenizer of the training."""

    def __init__(self, tokenizer: Any, config: IGCConfig) -> None:
        self.tokenizer, self.config, self.rules = tokenizer, config, Rules.of(config)
        self.name = type(tokenizer).__name__
        if not self.rules.inline:
            raise ValueError(
                "The config has no anchor rule within texts (`inline_token_ids=None`), so no annotation would have an "
                'anchor. Use `IGCConfig.from_tokenizer(tokenizer, anchors=[..., "="])`.'
            )
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError(
                f"`{self.name}` is a slow tokenizer, which does not tell where its tokens stand in a text. Load a "
                "fast one with `AutoTokenizer.from_pretrained(...)`."
            )
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError(f"`{self.name}` has no chat template. Set `tokenizer.chat_template`.")
        check_tokenizer(config, tokenizer)
        self.numbers = NumberTokens(TokenTable.from_json(config.number_tokens)) if config.number_tokens else None

    def anchors(self, prompt: list[Any], completion: list[Any], marks: list[Mark], where: str) -> list[_Anchor]:
        """The anchors of a row in their order; `marks` tell how long the numbers are that are looked for."""
        apply, rules, solution = self.tokenizer.apply_chat_template, self.rules, completion[0]["content"]
        asked = {"conversation": prompt, "add_generation_prompt": True}
        given = {"conversation": prompt + completion, "tokenizer_kwargs": {"return_offsets_mapping": True}}
        header, text = (apply(**chat, tokenize=False) for chat in (asked, given))
        begin = text.find(solution, len(commonprefix([header, text])))
        if begin < 0:
            raise ValueError(
                f"{where}: the chat template of `{self.name}` changes the solution {solution[:40]!r}, so that its "
                "annotations have no place. Set `tokenizer.chat_template` to one that writes messages as they are."
            )
        before, row = (apply(**chat, tokenize=True, return_dict=True) for chat in (asked, given))
        # As TRL labels a row with `prompt` and `completion`.
        first = len(commonprefix([before["input_ids"], row["input_ids"]]))
        ids = torch.tensor([row["input_ids"]])  # [1, L]
        labels, valid = torch.where(torch.arange(ids.shape[1]) < first, -100, ids), torch.ones_like(ids).bool()
        at = find_anchors(ids, valid, labels, self.config)  # [1, A]
        since = context_starts(self.config.reading_context, rules, ids, valid, at, at[:, :0])[0].tolist()
        inline = ends_of_sequences(ids, valid, rules.inline, ids.shape[1])[0].tolist()
        places = [place for place in at[0].tolist() if place >= 0]
        reads = self._numbers(ids, places, since, marks)
        spans = row["offset_mapping"]
        if self.numbers is None:
            reads = [INTEGER.findall(text[spans[s][0] : spans[p][1]]) for s, p in zip(since, places, strict=False)]
        anchors = []
        for place, read in zip(places, reads, strict=True):
            start, end = (at - begin for at in spans[place])
            is_inline = inline[place] and not (rules.prompt_end and place == first - 1)
            anchors.append(_Anchor(start, end, is_inline, Counter(str(int(plain(number))) for number in read)))
        return anchors

    def _numbers(self, ids: torch.Tensor, places: list[int], since: list[int], marks: list[Mark]) -> list[list[str]]:
        """The numbers among the tokens `ids` [1, L] from `since` to each of the `places`, the longest cut."""
        if self.numbers is None or not places:
            return []
        width = 1 + max((len(number) for mark in marks for number in mark.calculation or ()), default=1)  # W
        valid = torch.arange(ids.shape[1]) <= torch.tensor(places)[:, None]  # [A, L]
        digits = find_runs(self.numbers, ids.expand(len(places), -1), valid, width).digits  # [A, L, W]
        found = [line[first:][line[first:, 0] != PAD] for line, first in zip(digits, since, strict=False)]
        return [decode(numbers, torch.zeros(len(numbers), dtype=torch.int64)) for numbers in found]


def _owned(anchors: list[_Anchor], marks: list[Mark], solution: str, report: Report) -> dict[int, Mark]:
    """The annotation of each anchor that has one, by the anchor's number; the first of several."""
    owned: dict[int, Mark] = {}
    for mark in marks:
        owner = max((i for i, anchor in enumerate(anchors) if _stands_at(mark, anchor, solution)), default=None)
        if owner is not None and owner not in owned:
            owned[owner] = mark
        elif mark.stated is not None:
            report.without_anchor += 1
    return owned


def _stands_at(mark: Mark, anchor: _Anchor, solution: str) -> bool:
    """Whether only white space or a currency sign stands between an anchor and an annotation."""
    if 0 <= anchor.end <= mark.place:
        return _BETWEEN.fullmatch(solution, anchor.end, mark.place) is not None
    return anchor.start < mark.place < anchor.end and _FUSED.fullmatch(solution, mark.place, anchor.end) is not None


def _entries(
    anchors: list[_Anchor], owned: dict[int, Mark], config: Any, turns: str | None, report: Report
) -> list[_Entry]:
    """What the operand columns say at each anchor; counts it."""
    # The last turn that begins before the solution is the assistant's.
    header = max((i for i, anchor in enumerate(anchors) if not anchor.is_inline and anchor.end <= 0), default=0)
    entries: list[_Entry] = []
    for i, anchor in enumerate(anchors):
        if i in owned:
            entries.append(_entry(owned[i], anchor, config, report))
        else:
            report.bare_anchors += anchor.is_inline
            entries.append((turns if i >= header and not anchor.is_inline else None, None, None))
    return entries


def _entry(mark: Mark, anchor: _Anchor, config: Any, report: Report) -> _Entry:
    """What the operand columns say at an anchor with an annotation; counts it."""
    if mark.stated is None:
        return None, None, None
    sign, a, b = mark.calculation or ("", "", "")
    if not sign:
        reason = "not two integers"
    elif mark.is_part:
        reason = "part of a longer expression"
    elif sign not in config.operations:
        reason = "unknown operator"
    elif Counter((a.lstrip("-"), b.lstrip("-"))) - anchor.read:  # two equal ones are two numbers of the text
        reason = "operand not in the text"
    else:
        result = label(sign, a, b, config.num_digits, config.result_digits, config.division)
        if isinstance(result, Status):
            report.refused[result.name.lower()] += 1
            return sign, [a, b], result.name.lower()
        if Fraction(result) == Fraction(mark.stated):
            report.supervised += 1
            return sign, [a, b], result
        reason = "another result"  # the calculator rounds, the text does not
    report.refused[reason] += 1
    return NO_ARITHMETIC, None, None
