"""Records of whole texts: tokens with what was written before each, steps, and where an answer comes from.

A `TextRecord` is one text with its tokens and steps; `terminal` shows it as text, `pages` as HTML, `json_lines` as
JSON. An `Answer` is what `generate` returned of it: text, steps, and one line that says whether the calculator wrote
it. The record of a step is `tuner.records.StepRecord`; no tensors here.
Try it: `pytest tests/inference/test_records.py`
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..tuner.records import NumberRecord, StepRecord
from .details import Spell


__all__ = [
    "NOWHERE",
    "Answer",
    "NumberRecord",
    "Pieces",
    "StepRecord",
    "TextRecord",
    "TokenRecord",
    "json_lines",
    "token_texts",
]

UNKNOWN = "\u2026"  # shown for a token that is not known
NOWHERE = StepRecord(-1, "none", reason="no_anchor")  # in place of the step of a text that has none
_MOST_PIECES = 8  # tokens of one character: UTF-8 has four bytes, and some tokenizers add one in front


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
