"""Converts rows with calculator annotations, as GSM8K has them, to training rows with operand columns.

In: rows such as `{"question": ..., "answer": "Natalia sold 48/2 = <<48/2=24>>24 clips."}`. Out: conversational rows
without the marks, and a `Report` that counts the annotations by outcome. The operand columns are lists with one entry
per anchor of the whole row, in the trainer's order. With a symbol table in the config, an annotation of any form
becomes an expression where the rules read the same value from the text. A row with a wrong annotation is left out,
because the calculator would be trained to reproduce the error. A right calculation that the calculator cannot do is
labelled `"none"`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from os.path import commonprefix
from typing import Any, NamedTuple

from ..data.columns import ALL_COLUMNS, COLUMNS, REFUSALS, WrongType, columns_of, has_number, label
from ..data.exact_values import NotAnExpression, items_of, label_expression
from ..mappings.decisions import said_at
from ..numbers.calculator import NO_ARITHMETIC
from ..numbers.tokenizer_profile import check_tokenizer
from ..text.grammar import evaluate
from ..text.literals import integers
from ..text.values import Limits, Reason, Refused
from ..tuner.anchors import INLINE, Rules, anchors_of_labels, context_starts
from ..tuner.config import IGCConfig


EXAMPLES = 5  # wrong annotations that a report shows
LONGEST_MARK = 200  # characters

_CURRENCY = "$€£¥₹"
_DIGITS = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)"
_NUMBER = rf"(?:{_DIGITS}(?:\.[0-9]+)?|\.[0-9]+)"
_MARK = re.compile(r"<<((?:(?!<<).)*?)>>")
_STATED = re.compile(rf"\s*(-?{_NUMBER})\s*(%?)\s*")
_TWO_INTEGERS = re.compile(rf"\s*(-?{_DIGITS})\s*([-+*/])\s*(-?{_DIGITS})\s*")
_RESULT = re.compile(rf"[^\S\n]*([-\u2212]?)[{_CURRENCY}]?[^\S\n]?([-\u2212]?)({_NUMBER})")
_SIGN = r"[^\S\n]*[-+*/x×÷·\u2212][^\S\n]*"
# Text before a mark that ends in at least three numbers with signs between them, all on one line.
_LONGER = re.compile(
    rf"[\d)%]{_SIGN}[{_CURRENCY}]?{_NUMBER}[%)]?{_SIGN}[-\u2212]?[{_CURRENCY}]?{_NUMBER}"
    rf"[^\S\n]*=?[^\S\n]*[{_CURRENCY}]?\s*$"
)
_BETWEEN = re.compile(rf"\s*[{_CURRENCY}]?\s*")  # text between an anchor and its mark
_FUSED = re.compile(r" ?[-\u2212]?")  # text between a mark and the end of its anchor's token, as in `=-`
_PLAIN = str.maketrans({"×": "*", "÷": "/", "\u2212": "-"} | dict.fromkeys(_CURRENCY))
_LIMITS = Limits(operands=LONGEST_MARK)  # whatever an adapter can do
# Reasons for which the rules leave an anchor to the network.
_NOT_READ = set(Reason) - {Reason.NONE, Reason.INEXACT, Reason.OVERFLOW, Reason.UNDEFINED, Reason.TOO_LONG}

_Entry = dict[str, Any]  # by operand column; None for one that is not there
_NONE: _Entry = {"igc_operator": NO_ARITHMETIC}
_UNKNOWN: _Entry = {}


@dataclass
class Report:
    """Numbers of rows and of annotations by outcome.

    Every annotation is counted once: `annotations` is the sum of `supervised`, `refused`, `wrong`, `beside_wrong`,
    `without_anchor` and `unreadable`.
    """

    rows_in: int = 0
    rows_out: int = 0  # without the rows that have a wrong annotation
    annotations: int = 0
    supervised: int = 0  # labelled with operator, operands and result
    refused: Counter[str] = field(default_factory=Counter)  # by reason: labelled with that status, or as "none"
    wrong: int = 0  # the expression has another result, or the text continues with another number
    beside_wrong: int = 0  # neither wrong nor unreadable, in a row that is left out
    without_anchor: int = 0  # no `=` before the mark, or one in a token such as `=$`, which needs a rule of its own
    unreadable: int = 0  # no expression and result, or no closing `>>`; the anchor is not supervised
    bare_anchors: int = 0  # anchors in texts, questions included, without an annotation; not supervised
    examples: list[str] = field(default_factory=list)  # the first wrong annotations, with their rows

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self) | {"refused": dict(sorted(self.refused.items()))}


class Converted(NamedTuple):
    """Result of `convert`: rows for `data.to_dataset`, and the report."""

    rows: list[dict[str, Any]]
    report: Report


def convert(rows: Iterable[Mapping[str, Any]], tokenizer: Any, config: IGCConfig) -> Converted:
    """Converts rows with calculator annotations to training rows.

    The anchor at which the assistant's turn begins is labelled `"none"`, because no number is due there.

    Args:
        rows: Rows with a `question`, the user's message, and an `answer`, the assistant's with its annotations. Other
            fields are dropped.
        tokenizer: The fast tokenizer of the training, with its chat template.
        config: The adapter's config, with an anchor rule within texts, as set by
            `from_tokenizer(..., anchors=[..., "="])`.

    Raises:
        WrongType: A field is missing, empty or of another type.
        ValueError: No row is left, or tokenizer, template or config are unsuitable.
    """
    _check_tools(tokenizer, config)
    report, made = Report(), list[dict[str, Any]]()
    for index, row in enumerate(rows):
        where = f"row {index}"
        asked, annotated = _text(row, "question", where), _text(row, "answer", where)
        solution, marks = _read_marks(annotated, config)
        if not solution:
            raise ValueError(f"{where}: `answer` is empty without its marks: got {annotated!r}. Leave the row out.")
        wrong = [f"{where}: <<{mark.written}>>: {mark.fault}" for mark in marks if mark.fault is not None]
        report.rows_in += 1
        report.annotations += len(marks)
        report.unreadable += sum(mark.stated is None for mark in marks)
        report.wrong += len(wrong)
        report.examples += wrong[: EXAMPLES - len(report.examples)]
        if wrong:
            report.beside_wrong += sum(mark.fault is None and mark.stated is not None for mark in marks)
            continue
        prompt, completion = [{"role": "user", "content": asked}], [{"role": "assistant", "content": solution}]
        anchors = _anchors(tokenizer, config, prompt, completion, where)
        entries = _entries(anchors, _owned(anchors, marks, solution, report), config, report)
        names = ALL_COLUMNS if config.interface == "tokens" else COLUMNS
        columns = {name: [entry.get(name) for entry in entries] for name in names}
        made.append({"prompt": prompt, "completion": completion, **columns})
    report.rows_out = len(made)
    if not made:
        shown = f" ({report.examples[0]})" if report.examples else ""
        raise ValueError(f"Of {report.rows_in} rows none is left{shown}. Check the file with the rows.")
    return Converted(made, report)


def _check_tools(tokenizer: Any, config: IGCConfig) -> None:
    """Refuses a config and a tokenizer with which no annotation finds its anchor."""
    name = type(tokenizer).__name__
    if not Rules.of(config).inline:
        raise ValueError(
            "The config has no anchor rule within texts (`inline` of `anchors`), so no annotation would have an "
            'anchor. Use `IGCConfig.from_tokenizer(tokenizer, anchors=[..., "="])`.'
        )
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"`{name}` is a slow tokenizer, which does not return the offsets of its tokens. Load a fast one with "
            "`AutoTokenizer.from_pretrained(...)`."
        )
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(f"`{name}` has no chat template. Set `tokenizer.chat_template`.")
    check_tokenizer(config.token_table, tokenizer)


def _text(row: Any, name: str, where: str) -> str:
    """The text of a field that must not be empty."""
    text = row.get(name) if isinstance(row, Mapping) else None
    if isinstance(text, str) and text.strip():
        return text
    got = row if text is None else text
    raise WrongType(
        f"{where}: the field `{name}` must be a string that is not empty, got {got!r:.200}. Leave the row out, or "
        "name its fields `question` and `answer`."
    )


# ------------------------------------------------------------------------------------------ annotations
class _Mark(NamedTuple):
    place: int  # its index in the solution without marks
    written: str  # its content, such as `48/2=24`
    stated: str | None = None  # its result without separators; None: it cannot be read
    calculation: tuple[str, str, str] | None = None  # operator and canonical operands, if these are two integers
    fault: str | None = None  # why it is wrong; None: it is right, or cannot be read
    is_part: bool = False  # part of a longer expression in the text, as in `3+4*12=<<4*12=48>>48`
    expression: str = ""  # its left side in plain symbols


def _read_marks(annotated: str, config: IGCConfig) -> tuple[str, list[_Mark]]:
    """The text without marks, stripped, because some chat templates do that and others do not; and the marks."""
    parts = _MARK.split(annotated)  # text and marks in turn
    # The calculator writes no thousands separators, no zeros at the end of a decimal and one before its point, and so
    # must the text.
    for at in range(2, len(parts), 2):
        if (found := _RESULT.match(parts[at])) and _plain(found[3]) in _plain(parts[at - 1]):
            number = _plain(found[0])
            if config.decimals and "." in number:
                number = re.sub(r"(?<![0-9])\.(?=[0-9])", "0.", number.rstrip("0").rstrip("."))
            parts[at] = number + parts[at][found.end() :]
    whole = "".join(parts[::2])
    solution, lead = whole.strip(), len(whole) - len(whole.lstrip())
    marks, place = [], -lead
    for text, written in zip(parts[::2], parts[1::2], strict=False):
        place += len(text)
        marks.append(_read_mark(max(place, 0), written, solution, config))
    # A mark that is not closed on its line stays in the text, because its end is not known.
    return solution, marks + [_Mark(found.start(), "") for found in re.finditer("<<", solution)]


def _read_mark(place: int, written: str, solution: str, config: IGCConfig) -> _Mark:
    """Parses and checks an annotation at a place in the solution."""
    expression, _, right_side = written.translate(_PLAIN).partition("=")
    match = _STATED.fullmatch(right_side)
    if match is None or len(written) > LONGEST_MARK:
        return _Mark(place, written)
    stated = _plain(match[1])
    two = _TWO_INTEGERS.fullmatch(expression)
    calculation = None if two is None else (two[2], str(int(_plain(two[1]))), str(int(_plain(two[3]))))
    limits = replace(_LIMITS, rounding=Limits.of(config).rounding)
    rounded = calculation and label(calculation[0], calculation[1:], limits)
    follows = _RESULT.match(solution, place)
    result = None if follows is None else "-" * bool(follows[1] or follows[2]) + _plain(follows[3])
    fault = None
    try:
        value = evaluate(items_of(expression), _LIMITS, []).value
    except (Refused, ValueError) as error:
        if not isinstance(error, Refused) or error.reason is not Reason.UNDEFINED:
            return _Mark(place, written)
        fault = "it divides by zero"
    else:
        if not _agrees(value, stated, bool(match[2])) and rounded != stated:
            fault = f"it gives {value if value.denominator == 1 else float(value)}"
        elif result is None or Fraction(result) != Fraction(stated):
            fault = f"the text continues with {solution[place : place + 20]!r}"
    is_part = _LONGER.search(solution, max(place - LONGEST_MARK, 0), place) is not None
    return _Mark(place, written, stated, calculation, fault, is_part, expression.strip())


def _plain(number: str) -> str:
    """A number without thousands separators."""
    return number.replace(",", "")


def _agrees(value: Fraction, stated: str, is_percent: bool) -> bool:
    """Whether a value is the stated one, which may be rounded to its number of decimal places."""
    places = len(stated.partition(".")[2]) + 2 * is_percent
    distance = abs(value - Fraction(stated) / (100 if is_percent else 1))
    return distance == 0 or (places > 0 and 2 * distance * 10**places <= 1)


# ------------------------------------------------------------------------------------------ anchors
class _Anchor(NamedTuple):
    start: int  # character at which its token begins, counted from the beginning of the solution
    end: int
    is_inline: bool  # found by a rule within texts
    read: Counter[str]  # numbers in the text that its step reads, without signs
    value: str | None  # of the expression that the rules read; None without one
    reason: Reason  # why there is no value; `NO_EXPRESSION` without a symbol table


def _anchors(tokenizer: Any, config: IGCConfig, prompt: list[Any], completion: list[Any], where: str) -> list[_Anchor]:
    """The anchors of a row in order, found in the same way as the trainer does."""
    apply, rules, solution = tokenizer.apply_chat_template, Rules.of(config), completion[0]["content"]
    asked = {"conversation": prompt, "add_generation_prompt": True}
    given = {"conversation": prompt + completion, "tokenizer_kwargs": {"return_offsets_mapping": True}}
    header, text = (apply(**chat, tokenize=False) for chat in (asked, given))
    begin = text.find(solution, len(commonprefix([header, text])))
    if begin < 0:
        raise ValueError(
            f"{where}: the chat template of `{type(tokenizer).__name__}` changes the solution {solution[:40]!r}, so "
            "the places of its annotations are lost. Set `tokenizer.chat_template` to one that keeps messages as they "
            "are."
        )
    before, row = (apply(**chat, tokenize=True, return_dict=True) for chat in (asked, given))
    # The first label, as TRL sets it for a row with `prompt` and `completion`.
    first = len(commonprefix([before["input_ids"], row["input_ids"]]))
    found = anchors_of_labels(rules, row["input_ids"], [-100] * first + row["input_ids"][first:])
    since = context_starts(config.reading_context, rules, found, ids=row["input_ids"])
    spans, anchors = row["offset_mapping"], []
    for (place, kind), start in zip(found, since, strict=True):
        read = integers(text[spans[start][0] : spans[place][1]])
        value, reason = None, Reason.NO_EXPRESSION
        if config.vocabulary is not None:
            said = said_at(config.vocabulary, row["input_ids"], place, start, Limits.of(config))
            value, reason = said.value, said.reason
        is_inline = kind == INLINE and not (rules.prompt_end and place == first - 1)
        begins, ends = (at - begin for at in spans[place])
        numbers = Counter(one.digits for one in read if one.digits is not None)
        anchors.append(_Anchor(begins, ends, is_inline, numbers, value, reason))
    return anchors


def _owned(anchors: list[_Anchor], marks: list[_Mark], solution: str, report: Report) -> dict[int, _Mark]:
    """Annotations by the index of their anchor. If an anchor has several, the first one counts."""
    owned: dict[int, _Mark] = {}
    for mark in marks:
        owner = max((i for i, anchor in enumerate(anchors) if _follows(mark, anchor, solution)), default=None)
        if owner is not None and owner not in owned:
            owned[owner] = mark
        elif mark.stated is not None:
            report.without_anchor += 1
    return owned


def _follows(mark: _Mark, anchor: _Anchor, solution: str) -> bool:
    """Whether an annotation follows an anchor directly, apart from white space or a currency sign."""
    if 0 <= anchor.end <= mark.place:
        return _BETWEEN.fullmatch(solution, anchor.end, mark.place) is not None
    return anchor.start < mark.place < anchor.end and _FUSED.fullmatch(solution, mark.place, anchor.end) is not None


# ------------------------------------------------------------------------------------------ columns
def _entries(anchors: list[_Anchor], owned: dict[int, _Mark], config: IGCConfig, report: Report) -> list[_Entry]:
    """The entries of the operand columns, one per anchor. Counts them in the report."""
    # Of the turns that begin before the solution, the last one is the assistant's.
    header = max((i for i, anchor in enumerate(anchors) if not anchor.is_inline and anchor.end <= 0), default=0)
    entries: list[_Entry] = []
    for i, anchor in enumerate(anchors):
        if i in owned:
            entries.append(_entry(owned[i], anchor, config, report))
        else:
            report.bare_anchors += anchor.is_inline
            entries.append(_NONE if i >= header and not anchor.is_inline else _UNKNOWN)
    return entries


def _entry(mark: _Mark, anchor: _Anchor, config: IGCConfig, report: Report) -> _Entry:
    """The entry of the operand columns for an anchor with an annotation. Counts it in the report."""
    if mark.stated is None:
        return _UNKNOWN
    # Where the rules read an expression, they decide what is calculated, whatever the annotation says.
    found = (_in_words if anchor.reason in _NOT_READ else _by_rule)(mark, anchor, config)
    if isinstance(found, str):
        # Two integers that are not found are the older, plainer reason.
        is_read = anchor.reason in (Reason.NONE, Reason.NO_EXPRESSION) or mark.calculation is not None
        report.refused[found if is_read else f"not read: {anchor.reason.text}"] += 1
        return _NONE
    if (result := found["igc_result"]) in REFUSALS:
        report.refused[result] += 1
    else:
        report.supervised += 1
    return found


def _by_rule(mark: _Mark, anchor: _Anchor, config: IGCConfig) -> _Entry | str:
    """The entry where the rules read an expression, or why there is none."""
    try:
        step = label_expression(mark.expression, Limits.of(config))
    except NotAnExpression:
        return "no expression"
    if step.result != anchor.value:
        return "part of a longer expression" if mark.is_part else "the text says another expression"
    if step.result is not None and Fraction(step.result) != Fraction(str(mark.stated)):
        return "another result"  # such as a percentage
    return step.columns


def _in_words(mark: _Mark, anchor: _Anchor, config: IGCConfig) -> _Entry | str:
    """The entry where the network reads two integers, or why there is none."""
    if mark.calculation is None:
        return "not two integers"
    sign, a, b = mark.calculation
    if mark.is_part:
        return "part of a longer expression"
    if sign not in config.operations:
        return "unknown operator"
    if Counter((a.lstrip("-"), b.lstrip("-"))) - anchor.read:  # `12*12` needs the number 12 twice
        return "operand not in the text"
    found = columns_of(sign, (a, b), Limits.of(config))
    if has_number(found["igc_result"]) and Fraction(found["igc_result"]) != Fraction(str(mark.stated)):
        return "another result"  # the calculator rounds, but the text does not
    return found
