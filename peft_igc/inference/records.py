"""Records of whole texts: tokens with what was written before each, steps, and where an answer comes from.

A `TextRecord` is one text with its tokens and steps. It has three views: text (`format`), JSON (`json_lines`) and a
page (`pages`). An `Answer` is what `generate` returned of it: text, steps, and one line that says whether the
calculator wrote it. The record of a step is `tuner.records.StepRecord`; no tensors here.
"""

import dataclasses
import json
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from ..text.claims import Verdict, check
from ..tuner.records import StepRecord, percent


Spell = Callable[[Sequence[int]], str]  # the text of token ids
UNKNOWN = "\u2026"  # shown for a token that is not known
# In place of the step of a text that has none: without an anchor, or without an active adapter.
NOWHERE, NOBODY = (StepRecord(-1, "none", reason=reason) for reason in ("no_anchor", "no_adapter"))
_MOST_PIECES = 8  # tokens of one character: UTF-8 has four bytes, and some tokenizers add one in front


@dataclass(frozen=True)
class TokenRecord:
    """One token of a text."""

    text: str  # the text that it adds
    gate: float | None  # gate, in 0..1, at the position that predicted the token; None if nothing was written there
    # norm of the update at that position, relative to that of the hidden state; None as the gate
    size: float | None = None
    position: int = 0  # its place in the text, counted in tokens
    id: int | None = None  # its id; None if it is not known (given as an embedding, or read while the adapter was off)
    generated: bool = True  # whether `generate` made it
    base: str | None = None  # the token that is most probable there without the calculator; None if it was not asked
    base_probability: float | None = None  # its probability without the calculator, in 0..1


class Untrue(NamedTuple):
    """A calculation of a text that states another number than its value, whoever wrote it."""

    position: int  # of the token in which the stated number begins
    text: str  # the calculation and the number
    written: str  # the number as the text has it
    value: str | None  # the right one

    def __str__(self) -> str:
        return f"{self.text} (untrue: the value is {self.value})"


@dataclass(frozen=True)
class TextRecord:
    """One text, without padding."""

    row: int  # its row in the batch
    tokens: tuple[TokenRecord, ...]  # all of its tokens that are known, the prompt's included
    steps: tuple[StepRecord, ...]  # the steps, in the order of their anchors

    @property
    def generated(self) -> list[TokenRecord]:
        """The tokens that `generate` made."""
        return [token for token in self.tokens if token.generated]

    @property
    def whole(self) -> str:
        """The text."""
        return "".join(token.text for token in self.tokens)

    @property
    def untrue(self) -> list[Untrue]:
        """The calculations that `text.check` finds untrue."""
        ends = list(accumulate(len(token.text) for token in self.tokens))
        found, whole = [], self.whole
        for claim in check(whole):
            if claim.verdict is Verdict.UNTRUE:
                at = bisect_right(ends, claim.span[1] - len(claim.number))
                found.append(Untrue(at, whole[slice(*claim.span)], claim.number, claim.value))
        return found

    def format(self) -> str:
        """The text with its steps and the gates of its new tokens, for a terminal."""
        lines = [f"text       {self.whole}"]
        for step in self.steps:
            lines.append(f"step       at token {step.position}, after {step.before!r}, status {step.status}")
            facts = facts_of(step)
            width = max((len(text) for title, text, _ in facts if title.startswith("operand")), default=0)
            lines += [f"  {title:<10} {text:<{width}}  {sure}".rstrip() for title, text, sure in facts]
        if not self.steps:
            lines.append("step       none: the text has no anchor")
        lines += [f"untrue     {one}" for one in self.untrue]
        if self.generated:
            lines.append("tokens     gate at the position that predicted each one (-: nothing written)")
        for token in self.generated:
            gate = "    -" if token.gate is None else f"{token.gate:5.3f}"
            base = "" if token.base in (None, token.text) else f"  (without the calculator: {token.base!r})"
            lines.append(f"  {gate}      {token.text!r}{base}")
        return harmless("\n".join(lines))


def json_lines(texts: Sequence[TextRecord], *, prompts: bool = False) -> str:
    """Texts as JSON lines; `docs/tracing.md` has their fields.

    With `prompts` they include the tokens of prompts, and the text before each anchor.
    """
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        new, row = len(text.generated), text.row
        counts = {"prompt_tokens": len(text.tokens) - new, "new_tokens": new, "steps": len(text.steps)}
        lines.append({"record": "text", "text": number, "row": row, **counts})
        for step in text.steps:
            fields = dataclasses.asdict(step) | {"refusal": step.refusal}
            del fields["written"]  # known of answers alone
            if not prompts:
                del fields["before"]
            lines.append({"record": "step", "text": number, **fields})
        for one in text.untrue:
            where = {"row": row, "position": one.position, "written": one.written, "value": one.value}
            lines.append({"record": "untrue", "text": number, **where})
        for token in text.tokens:
            if token.generated or token.gate is not None or prompts:
                fields = dataclasses.asdict(token)
                lines.append({"record": "token", "text": number, "row": row, "token": fields.pop("text"), **fields})
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


@dataclass(frozen=True)
class Answer:
    """A greedy answer, and where it comes from."""

    text: str  # the text up to the end token
    cut: bool  # whether there is no end token within `max_new_tokens`
    # each step of prompt and answer, by position; empty without an anchor or without an active adapter
    steps: tuple[StepRecord, ...] = ()
    record: TextRecord | None = None  # the record of prompt and answer, of `trace` and `audit`; else None
    active: bool = True  # whether an adapter was active

    @property
    def step(self) -> StepRecord | None:
        """The step that the answer comes from: the last one that it spells, else the last one; None without any."""
        steps = [step for step in self.steps if step.written] or self.steps
        return steps[-1] if steps else None

    @property
    def written(self) -> bool:
        """Whether the answer spells the exact result of a step. If not, all of it is the model's own."""
        return bool(self._told.written)

    @property
    def status(self) -> str:
        """The status of `step`, such as `ok`; `no_anchor` or `no_adapter` if there is none."""
        return str(self.reason) if self.step is None else self.step.status

    @property
    def reason(self) -> str | None:
        """Why the calculator was silent, a key of `EXPLANATIONS`; None with the status `ok`."""
        return self._told.reason

    @property
    def expression(self) -> str | None:
        """What was read, such as `58 * 36`; None if no arithmetic was read."""
        return self._told.expression

    @property
    def source(self) -> str:
        """Where the answer comes from, in one line."""
        if self.written:
            return f"calculated: {self.expression or 'an earlier calculation'}{', rounded' * self._told.rounded}"
        if self.reason is None:  # the model overruled what was written, or the answer was cut
            whose = "cut short" if self.cut else "by the model alone"
            return f"{whose}, although {self.expression} was calculated"
        return f"by the model alone, calculator {self._told.summary}"

    @property
    def _told(self) -> StepRecord:
        """`step`, or what is said in its place."""
        return self.step or (NOWHERE if self.active else NOBODY)

    def format(self) -> str:
        """The answer for a terminal, after its record if it has one."""
        own = harmless(f"answer     {self.text.strip()}\nsource     {self.source}")
        return own if self.record is None else f"{self.record.format()}\n{own}"

    def __str__(self) -> str:
        return f"{self.text}  ({self.source})"


def facts_of(step: StepRecord) -> list[tuple[str, str, str]]:
    """What is shown of a step: for each fact its title, its text, and how sure it is (or nothing)."""

    def sure(probability: float | None, other: str | None, other_probability: float | None) -> str:
        next_one = "" if other is None else f"; next {other}  {percent(other_probability or 0.0)}"
        return percent(probability or 0.0) + next_one

    facts = [("silent", step.explanation, "")] if step.reason is not None else []
    asked = sure(step.operator_probability, step.operator_runner_up, step.operator_runner_up_probability)
    if step.expression is None:
        return [*facts, ("operator", step.operator, asked)]
    if step.by_rule:
        facts.append(("expression", step.expression, f"by rule; asked: {asked}"))
        facts += [("reduced", reduction, "") for reduction in step.reductions]
    else:
        numbers = []
        for index, one in enumerate(step.operands, start=1):
            least = "" if one.weakest == one.probability else f"; least certain place {percent(one.weakest)}"
            how = sure(one.probability, one.runner_up, one.runner_up_probability) + least
            numbers.append((f"operand {index}", one.text, how))
        facts += [*numbers[:1], ("operator", step.operator, asked), *numbers[1:]]
    result = step.result if step.result is not None else "no number is written"
    told = ["rounded"] * step.rounded
    if step.probability is not None and not step.by_rule:
        told.append(percent(step.probability))
    return [*facts, ("result", result, "; ".join(told))]


def harmless(text: str) -> str:
    """Text in which characters that steer a terminal are replaced; line ends and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def token_texts(spell: Spell, ids: Sequence[int]) -> list[str]:
    """The text that each of n tokens adds to those before it; `UNKNOWN` for a token without an id, which is negative.

    Tokens decoded alone lose their leading space (SentencePiece), and parts of a character have no text. So each is
    decoded after its predecessor, and a character belongs to its last token; the others have an empty text.
    """
    texts: list[str] = []
    before: list[int] = []  # decoded with the next ones, for their spaces
    unfinished: list[int] = []
    known = [place for place, token in enumerate(ids) if token >= 0]
    for place, token in enumerate(ids):
        if token < 0:
            texts.append(UNKNOWN)
            continue
        unfinished.append(token)
        text = spell([*before, *unfinished])[len(spell(before)) :]
        if text.endswith("\ufffd") and len(unfinished) < _MOST_PIECES and place != known[-1]:
            texts.append("")
        else:
            texts.append(text)
            before, unfinished = unfinished, []
    return texts
