"""The steps of a `generate` for its caller: where each answer comes from.

In: the state of the text and the reading of each forward pass. Out: `AnswerStep`s for each returned sequence, in the
field `igc_steps` of an output of `generate(..., return_dict_in_generate=True)`. Sequences that beam search returns are
followed back through its `beam_indices`. A decode step that runs in a compiled graph has no Python objects: there the
log knows status and result, but no expression. Nothing is computed for a `generate` that returns tokens alone.

Shapes: B rows of the forward passes, A anchors per row, n columns of the returned sequences.
Try it: `pytest tests/tuner/test_step_log.py`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..mappings.readings import Pointing
from ..numbers.calculator import Status
from ..numbers.digits import PAD, canonical
from ..numbers.token_table import EMBEDDED, UNSEEN
from ..text.refusals import REASON_TEXTS
from ..text.row import Row
from ..text.spelling import Style
from .config import IGCConfig
from .state.cache import State
from .state.text_state import StaticText, Steps
from .state.told import rows_of
from .steps import Step


__all__ = ["EXPLANATIONS", "AnswerStep", "StepLog", "number_text", "reason_of"]

# What each `AnswerStep.reason` means, as a sentence without its end.
EXPLANATIONS: dict[str, str] = {reason.name.lower(): text for reason, text in REASON_TEXTS.items()} | {
    "no_arithmetic": "no arithmetic is read",
    "unsure": "the reading is less probable than `confidence`",
    "few_numbers": "fewer than two numbers that can be read",
    "unseen": "a part of the text is not known to the calculator",
    "overflow": "an operand or the result has more digits than are kept",
    "undefined": "a division by zero, or an operand that is no number",
    "inexact": "a division with a remainder",
    "no_anchor": "the text has no anchor, or no adapter is active",
}


@dataclass(frozen=True)
class AnswerStep:
    """One step of a returned sequence.

    Attributes:
        position: column of its anchor in the returned `sequences`; negative if it is in text from an earlier call.
        status: `ok`, `none`, `overflow`, `undefined` or `inexact`. Only a step with `ok` writes.
        written: whether the sequence spells the whole result after the anchor; its last token does not count, because
            the model has not read it. None if that is not known: in the hidden interface, which does not know the
            tokens of numbers, and where beams end in a compiled graph.
        result: the calculated number, None if the status is not `ok`.
        expression: what was read, such as `58 * 36`; None if no arithmetic was read, and for steps of an earlier call
            or of a compiled graph.
        reason: why the step is silent, a key of `EXPLANATIONS`; None if the status is `ok`.
    """

    position: int
    status: str
    written: bool | None
    result: str | None
    expression: str | None
    reason: str | None


class _Pass(NamedTuple):
    """One forward pass: the index of the generated token that it predicts, and the steps of the text after it."""

    token: int
    steps: Steps
    rows: tuple[Row, ...]  # empty in the hidden interface


class StepLog:
    """Collects the steps of one running `generate`.

    Args:
        config: the config of the active adapter.
        style: how it writes results; None for the hidden interface.
        length: number of columns of the text up to the end of the prompt, those in the KV cache included.
        beams: whether rows are reordered, so that a returned sequence may have passed through several rows.
    """

    def __init__(self, config: IGCConfig, style: Style | None, length: int, beams: bool) -> None:
        self.config, self.style, self.length, self.beams = config, style, length, beams
        self.is_complete = True  # whether the last forward pass is logged
        self._lacks_end = False  # whether the last pass of a sequence was reordered before it could be logged
        self._passes: list[_Pass] = []
        self._events: list[tuple[int, Step]] = []  # by the token that the pass predicts

    def add(self, state: State, steps: Steps, event: Step | None = None, *, after_reorder: bool = False) -> None:
        """Logs one forward pass.

        Args:
            state: the state of the text after this pass.
            steps: the steps that governed this pass, [B, A].
            event: what the pass has read; None if it has no anchor with two numbers, or ran in a compiled graph.
            after_reorder: whether beam search has reordered the rows since the pass.
        """
        assert state.length is not None
        token = max(int(state.length) - self.length, 0) + after_reorder
        self._lacks_end |= after_reorder
        rows: tuple[Row, ...] = ()
        if isinstance(state, StaticText):  # later passes write into its tensors, and it keeps the latest step only
            steps = Steps(*(x.clone() for x in steps))
            rows = () if self.style is None else rows_of(self.style, state, state.length)
        else:
            rows = state.rows
            if not self.beams:
                self._passes.clear()  # the steps of this pass contain all earlier ones
        self._passes.append(_Pass(token, steps, rows))
        if event is not None:
            self._events.append((token, event))
        self.is_complete = True

    def of_sequences(
        self, sequences: torch.Tensor, start: int, ends: Sequence[int], beams: torch.Tensor | None
    ) -> tuple[tuple[AnswerStep, ...], ...]:
        """The steps of each returned sequence, by position.

        Args:
            sequences: [rows, n] int64, the returned sequences.
            start: position in the text of their first column.
            ends: the tokens that end an answer.
            beams: [rows, longest answer] int64 `beam_indices`, -1 after an answer's end; None without beams.
        """
        anchors = [one.steps.anchors.tolist() for one in self._passes]
        read = [(token, event, event.anchors.tolist()) for token, event in self._events]
        found = []
        for row, answer in enumerate(sequences[:, self.length - start :].tolist()):
            count = next((at + 1 for at, token in enumerate(answer) if token in ends), len(answer))
            lineage = [row] * max(count, 1) if beams is None else [at for at in beams[row].tolist() if at >= 0]
            # The last token was never read, and anchors that assisted decoding took back are after it.
            last = self.length + len(lineage) - 1
            places: dict[int, tuple[_Pass, int, int]] = {}
            for one, rows in zip(self._passes, anchors, strict=True):
                at = lineage[min(one.token, len(lineage) - 1)]
                if one.token < len(lineage) or not self.beams:
                    places |= {place: (one, at, index) for index, place in enumerate(rows[at]) if 0 <= place < last}
            events: dict[int, tuple[Step, int, int]] = {}
            for token, event, rows in read:
                at = lineage[min(token, len(lineage) - 1)]
                # Assisted decoding reads more tokens than it keeps.
                if token < len(lineage) or not self.beams:
                    events |= {place: (event, at, index) for index, place in enumerate(rows[at])}
            found.append(tuple(self._step(*places[at], events.get(at), at - start, last) for at in sorted(places)))
        return tuple(found)

    def _step(
        self, seen: _Pass, row: int, index: int, event: tuple[Step, int, int] | None, column: int, last: int
    ) -> AnswerStep:
        """One step as Python values; `last`: position of the last token."""
        one = Steps(*(x[row, index] for x in seen.steps))
        status = Status(int(one.status)).name.lower()
        ok = status == "ok"
        complete: bool | None = bool(seen.rows) and 0 <= seen.rows[row].completed(int(one.anchors)) < last
        if self.config.interface != "tokens" or (self._lacks_end and not complete):
            complete = None
        return AnswerStep(
            position=column,
            status=status,
            written=complete if ok else False,
            result=canonical(one.digits[None], one.signs[None], one.scale[None])[0] if ok else None,
            expression=None if event is None else _expression(self.config, *event),
            reason=None if ok else _reason(self.config, status, event),
        )


def _reason(config: IGCConfig, status: str, event: tuple[Step, int, int] | None) -> str:
    """Why a step is silent."""
    if event is not None:
        return reason_of(config, *event) or status
    return "few_numbers" if status == "none" else status


def reason_of(config: IGCConfig, event: Step, row: int, index: int) -> str | None:
    """Why step `index` of row `row` is silent, a key of `EXPLANATIONS`; None if its status is `ok`."""
    status = Status(int(event.result.status[row, index]))
    if status == Status.OK:
        return None
    decision = event.decision(row, index)
    if decision is not None:
        return decision.silence
    if status != Status.NONE:
        return status.name.lower()
    if _has_unknown(config, event, row, index):
        return "unseen"
    if isinstance(event.reading, Pointing) and int((event.reading.digits[row, index, :, 0] != PAD).sum()) < 2:
        return "few_numbers"
    if event.reading is None or int(event.reading.operator[row, index].argmax()) == len(config.operations):
        return "no_arithmetic"
    return "unsure"


def _has_unknown(config: IGCConfig, event: Step, row: int, index: int) -> bool:
    """Whether the text before an anchor has tokens whose ids the calculator was not given."""
    assert event.ids is not None
    before = event.ids[row, : int(event.anchors[row, index]) - int(event.first) + 1]
    unknown = EMBEDDED if config.interface == "tokens" else UNSEEN
    return bool((before == unknown).any())


def _expression(config: IGCConfig, event: Step, row: int, index: int) -> str | None:
    """What a step has read as text: the expression in symbols, or two numbers and an operator."""
    decision = event.decision(row, index)
    if decision is not None:
        return None if decision.found is None else _joined([item.plain for item in decision.found.items])
    choice = event.choice
    operator = len(config.operations) if choice is None else int(choice.operator[row, index])
    if choice is None or operator >= len(config.operations):
        return None
    digits, signs = choice.digits[row, index].tolist(), choice.signs[row, index].tolist()
    left, right = (number_text(number, sign) for number, sign in zip(digits, signs, strict=True))
    return f"{left} {config.operations[operator]} {right}"


def _joined(texts: Sequence[str]) -> str:
    """Items as one text: spaces around operators, none inside of brackets, and none after a sign."""
    return "".join(_spaced(texts)).strip()


def _spaced(texts: Sequence[str]) -> Iterator[str]:
    before = "("
    for text in texts:
        if text in "+-" and before in "(+-*/^of":  # a sign
            yield text
        else:
            yield f" {text} " if text in ("+", "-", "*", "/", "of") else text + " " * (text == ",")
        before = text


def number_text(digits: Sequence[int], sign: int) -> str:
    """A number of D + 1 digit classes as text; `_` is a placeholder before a digit, and a final `...` means that the
    number is longer than D digits."""
    *found, last = digits
    while found and found[-1] == PAD:
        found.pop()
    text = "".join("_" if digit == PAD else str(digit) for digit in found)
    return ("-" if sign else "") + text + ("..." if last != PAD else "")
