"""Records of whole texts: tokens with what was written before each, steps, and where an answer comes from.

A `TextRecord` is one text with its tokens and steps; `terminal` shows it as text, `pages` as HTML, `json_lines` as
JSON. An `Answer` is what `generate` returned of it: text, steps, and one line that says whether the calculator wrote
it. `equals_of` lists every `=` of a text. The record of a step is `tuner.records.StepRecord`; no tensors here.
Try it: `pytest tests/inference/test_records.py`
"""

from __future__ import annotations

import dataclasses
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate
from typing import Any

from ..text.checks.claims import Verdict, check
from ..tuner.records import NumberRecord, StepRecord
from .details import Spell


__all__ = [
    "NOWHERE",
    "UNTRUE",
    "Answer",
    "Equals",
    "NumberRecord",
    "Pieces",
    "StepRecord",
    "TextRecord",
    "TokenRecord",
    "equals_of",
    "json_lines",
    "token_texts",
]

UNKNOWN = "\u2026"  # shown for a token that is not known
NOWHERE = StepRecord(-1, "none", reason="no_anchor")  # in place of the step of a text that has none
EXACT, OWN, UNTRUE = "exact", "the model's own", "untrue"
_MOST_PIECES = 8  # tokens of one character: UTF-8 has four bytes, and some tokenizers add one in front
_SHOWN = 16  # tokens shown before an `=`
_LONGEST = 64  # tokens after it in which its number is looked for
_NUMBER = re.compile(r"\s*(?:[^\s\w.+-]\s*)?([-\u2212]?)\s*(?:[$€£¥₹]\s*)?(\d[\d,]*(?:\.\d+)?|\.\d+)")


@dataclass(frozen=True)
class TokenRecord:
    """One token of a text.

    Attributes:
        text: the text that it adds.
        gate: gate, in 0..1, at the position that predicted the token; None if nothing was written there.
        size: norm of the update at that position, relative to that of the hidden state; None as the gate.
        position: its place in the text, counted in tokens.
        id: its id; None if it is not known (given as an embedding, or read while the adapter was off).
        generated: whether `generate` made it.
        base: the token that is most probable there without the calculator; None if it was not asked.
        base_probability: its probability without the calculator, in 0..1.
    """

    text: str
    gate: float | None
    size: float | None = None
    position: int = 0
    id: int | None = None
    generated: bool = True
    base: str | None = None
    base_probability: float | None = None


@dataclass(frozen=True)
class TextRecord:
    """One text, without padding.

    Attributes:
        row: its row in the batch.
        tokens: all of its tokens that are known, the prompt's included.
        steps: the steps, in the order of their anchors.
    """

    row: int
    tokens: tuple[TokenRecord, ...]
    steps: tuple[StepRecord, ...]

    @property
    def generated(self) -> list[TokenRecord]:
        """The tokens that `generate` made."""
        return [token for token in self.tokens if token.generated]

    @property
    def untrue(self) -> list[Equals]:
        """The calculations that state another number than their value."""
        return [one for one in equals_of(self) if one.status == UNTRUE]

    def as_lines(self, number: int, prompts: bool) -> Iterator[dict[str, Any]]:
        """The objects of `json_lines` for this text, the text `number` of its recording."""
        new = len(self.generated)
        counts = {"prompt_tokens": len(self.tokens) - new, "new_tokens": new, "steps": len(self.steps)}
        yield {"record": "text", "text": number, "row": self.row, **counts}
        for step in self.steps:
            fields = dataclasses.asdict(step) | {"refusal": step.refusal}
            del fields["written"]  # known of answers alone
            if not prompts:
                del fields["before"]
            yield {"record": "step", "text": number, **fields}
        for one in self.untrue:
            where = {"row": self.row, "position": one.position, "written": one.written, "value": one.value}
            yield {"record": UNTRUE, "text": number, **where}
        for token in self.tokens:
            if token.generated or token.gate is not None or prompts:
                fields = dataclasses.asdict(token)
                yield {"record": "token", "text": number, "row": self.row, "token": fields.pop("text"), **fields}


def json_lines(texts: Sequence[TextRecord], *, prompts: bool = False) -> str:
    """Texts as JSON lines; `docs/tracing.md` has their fields.

    Args:
        texts: the texts.
        prompts: include the tokens of prompts, and the text before each anchor.
    """
    lines = [one for number, text in enumerate(texts) for one in text.as_lines(number, prompts)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


@dataclass(frozen=True)
class Answer:
    """A greedy answer, and where it comes from.

    Attributes:
        text: the text up to the end token.
        cut: whether there is no end token within `max_new_tokens`.
        steps: each step of prompt and answer, by position; empty without an anchor or without an active adapter.
    """

    text: str
    cut: bool
    steps: tuple[StepRecord, ...] = ()

    @property
    def step(self) -> StepRecord | None:
        """The step that the answer comes from: the last one that it spells, else the last one; None without any."""
        steps = [step for step in self.steps if step.written] or self.steps
        return steps[-1] if steps else None

    @property
    def written(self) -> bool:
        """Whether the answer spells the exact result of a step. If not, all of it is the model's own."""
        return self.step is not None and bool(self.step.written)

    @property
    def status(self) -> str:
        """The status of `step`, such as `ok`; `no_anchor` if there is none."""
        return "no_anchor" if self.step is None else self.step.status

    @property
    def reason(self) -> str | None:
        """Why the calculator was silent, a key of `EXPLANATIONS`; None with the status `ok`."""
        return "no_anchor" if self.step is None else self.step.reason

    @property
    def expression(self) -> str | None:
        """What was read, such as `58 * 36`; None if no arithmetic was read."""
        return None if self.step is None else self.step.expression

    @property
    def source(self) -> str:
        """Where the answer comes from, in one line."""
        if self.written:
            return f"calculated: {self.expression or 'an earlier calculation'}"
        if self.reason is None:  # the model overruled what was written, or the answer was cut
            return f"by the model alone, although {self.expression} was calculated"
        return f"by the model alone, calculator {(self.step or NOWHERE).summary}"

    def __str__(self) -> str:
        return f"{self.text}  ({self.source})"


# ------------------------------------------------------------------------------------------ texts of tokens
class Pieces:
    """The text that each token adds to those before it, so that the texts together are the whole text.

    Tokens decoded alone lose their leading space (SentencePiece), and parts of a character have no text. So each is
    decoded after its predecessor, and a character belongs to its last token; the others have an empty text.

    Args:
        spell: decodes tokens.
    """

    def __init__(self, spell: Spell) -> None:
        self._spell = spell
        self._before: list[int] = []  # decoded with the next ones, for their spaces
        self._open: list[int] = []  # not finished

    def push(self, token: int) -> str:
        """The text that `token` adds."""
        self._open.append(token)
        return "" if self._text().endswith("\ufffd") and len(self._open) < _MOST_PIECES else self.rest()

    def rest(self) -> str:
        """The text of the tokens that are not finished, at the end of a text."""
        if not self._open:
            return ""
        text = self._text()
        self._before, self._open = self._open, []
        return text

    def _text(self) -> str:
        """What the open tokens add."""
        return self._spell([*self._before, *self._open])[len(self._spell(self._before)) :]


def token_texts(spell: Spell, ids: Sequence[int]) -> list[str]:
    """The text that each of n tokens adds, as in `Pieces`; `UNKNOWN` for a token without an id, which is negative."""
    pieces = Pieces(spell)
    texts = [UNKNOWN if token < 0 else pieces.push(token) for token in ids]
    last = max((place for place, token in enumerate(ids) if token >= 0), default=None)
    if last is not None:
        texts[last] += pieces.rest()
    return texts


# ------------------------------------------------------------------------------------------ every `=`
@dataclass(frozen=True)
class Equals:
    """One `=` of a text: which calculation was exact, which the model's own, and which is untrue.

    Attributes:
        position: position of its token, counted in tokens from the beginning of the text.
        text: the end of the line before it, and the `=` itself.
        written: the number after it as the text has it, without thousands separators; None if there is none.
        status: `untrue` if `text.check` finds another value than the number, whoever wrote it. Else the status of its
            step, or None without a step: in a token in which no anchor rule finds the `=` (such as `="`), and where
            the calculator was off.
        result: the calculator's result, or None if it had none.
        value: the right value where the status is `untrue`.
    """

    position: int
    text: str
    written: str | None
    status: str | None
    result: str | None
    value: str | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the text has the calculator's result here."""
        if self.result is None or self.written is None:
            return False
        return Decimal(self.result.rstrip("%")) == Decimal(self.written)  # `12.50` and `12.5`

    def __str__(self) -> str:
        return f"{self.text} {self.written} ({self.origin})"

    @property
    def origin(self) -> str:
        """`EXACT`, or `OWN` with the reason."""
        if self.value is not None:
            return f"{UNTRUE}: the value is {self.value}"
        if self.is_exact:
            return EXACT
        why = "no step" if self.status is None else self.status
        return f"{OWN} ({why if self.result is None else f'the calculator had {self.result}'})"


def equals_of(text: TextRecord) -> list[Equals]:
    """Every `=` of a text, in order."""
    texts = [token.text for token in text.tokens]
    steps = {step.position: step for step in text.steps}
    untrue = _untrue(texts)
    found = []
    for position, piece in enumerate(texts):
        if "=" not in piece:
            continue
        before = "".join(texts[max(position - _SHOWN + 1, 0) : position + 1])
        after = piece.rpartition("=")[2] + "".join(texts[position + 1 : position + 1 + _LONGEST])
        match = _NUMBER.match(after)
        written = None if match is None else ("-" if match[1] else "") + match[2].replace(",", "")
        step = steps.get(position)
        status, result = (None, None) if step is None else (step.status, step.result)
        value = untrue.get(position)
        status = status if value is None else UNTRUE
        found.append(Equals(position, before.rpartition("\n")[2].lstrip(), written, status, result, value))
    return found


def _untrue(texts: Sequence[str]) -> dict[int, str | None]:
    """The right values of the untrue calculations of a text, by the token that has their `=`."""
    whole, ends = "".join(texts), list(accumulate(map(len, texts)))
    claims = [claim for claim in check(whole) if claim.verdict is Verdict.UNTRUE]
    return {
        bisect_right(ends, whole.rfind("=", claim.span[0], claim.span[1] - len(claim.number))): claim.value
        for claim in claims
    }
