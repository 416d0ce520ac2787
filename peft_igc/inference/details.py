"""Details of a step for a trace: probabilities, runners-up, the tokens that were read, and texts.

In: one step of a forward pass. Out: the `StepRecord` of `tuner.records` with all of its fields. Which steps there are,
and which text they belong to, is collected in `tracing`.

Shapes: n tokens at hand, W places of a reading, K operations, D digits of an operand.
Try it: `pytest tests/inference/test_details.py`
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from ..mappings.decisions import Said
from ..mappings.readings import Choice, Mark, Pointing
from ..numbers.calculator import NO_ARITHMETIC, Result
from ..numbers.digits import PAD
from ..numbers.places import number_runs
from ..tuner.config import IGCConfig
from ..tuner.records import NumberRecord, Place, Span, StepRecord, number_text, record_of
from .records import Spell


__all__ = ["detailed"]

_SHOWN = 10  # number of tokens shown up to an anchor


def detailed(config: IGCConfig, place: Place, spell: Spell) -> StepRecord:
    """The record of a step with the fields of a trace, its position counted as in the event.

    Args:
        config: the adapter's config.
        place: the step in its event.
        spell: decodes tokens.
    """
    event, decision = place.event, place.decision
    assert event.ids is not None
    assert event.reading is not None  # observers see all readings
    ids = event.ids[place.row].tolist()  # [n]
    first, position = int(event.first), int(place.of(event.anchors))
    choice = Choice(*(place.of(x).cpu() for x in event.reading.choose()))
    asked = place.of(event.reading.operator).float().softmax(-1).cpu()  # [K + 1], the last class is "none"
    by_rule = decision.said if decision is not None and decision.said.ruled else None
    culprit = None if decision is None or decision.culprit[1] < 0 else decision.culprit
    operator = int(asked.argmax()) if by_rule else int(choice.operator)  # the network decides only whether it is asked
    second = int(torch.where(torch.arange(len(asked)) == operator, -1.0, asked).argmax())
    symbols = [*config.operations, NO_ARITHMETIC]
    at = _places(place, operator)

    def text(span: Span) -> str:
        return spell([token for token in ids[span[0] : span[1] + 1] if token >= 0])

    last = position - first
    return dataclasses.replace(
        record_of(config, position, Result(*(place.of(x).cpu() for x in event.result)), place),
        row=place.row,
        anchor=text((last, last)),
        before=text((max(last - _SHOWN + 1, 0), last)),
        operands=_operands(place, choice, operator, at),
        operator=symbols[operator],
        operator_probability=float(1 - asked[-1]) if by_rule else float(choice.operator_chance),
        operator_runner_up=None if by_rule else symbols[second],
        operator_runner_up_probability=None if by_rule else float(asked[second]),
        expression_span=None if by_rule is None else (first + by_rule.first, first + by_rule.last),
        # such as `4 * 5 = 20`
        reductions=tuple(
            f"{one} = refused" if one.result is None else str(one)
            for one in (() if by_rule is None else by_rule.found.reductions)
        ),
        spans=_spans(config, place, by_rule, () if operator == len(config.operations) else at),
        culprit=None if culprit is None else text(culprit) or None,
        culprit_position=None if culprit is None else first + culprit[0],
    )


def _places(place: Place, operator: int) -> list[int]:
    """The places of the numbers that an operation takes; in the hidden interface its two slots."""
    reading = place.event.reading
    if not isinstance(reading, Pointing):
        return [0, 1]
    count = reading.takes[operator] if operator < len(reading.takes) else 2
    pair: list[int] = place.of(reading.places).tolist()
    return pair[:count] if count else place.of(reading.marks).argmax(-1).nonzero().flatten().tolist()


def _spans(config: IGCConfig, place: Place, by_rule: Said | None, at: Sequence[int]) -> tuple[Span, ...]:
    """First and last position of the numbers that a step read: those of the expression, or those pointed at."""
    event, table = place.event, config.token_table
    if table is None or event.ids is None or not isinstance(event.reading, Pointing):
        return ()
    runs = number_runs(table, event.ids[place.row].tolist())
    if by_rule is not None:
        chosen = [run for run in runs if by_rule.first <= run.first <= by_rule.last]
    else:
        begins, positions = {run.first: run for run in runs}, place.of(event.reading.positions).tolist()
        chosen = [begins[positions[one]] for one in at if positions[one] in begins]
    first = int(event.first)
    return tuple((first + run.first, first + run.last) for run in chosen)


def _operands(place: Place, choice: Choice, operator: int, at: Sequence[int]) -> tuple[NumberRecord, ...]:
    """The operands of a step, with its `choice` without the dimensions B and A."""
    reading: Any = place.event.reading
    points = isinstance(reading, Pointing)
    if points and operator < len(reading.takes) and not reading.takes[operator]:  # marks say which ones are operands
        chances, marks = place.of(reading.marks).max(-1)
        digits = place.of(reading.digits).tolist()
        chosen = [(number_text(digits[one], int(marks[one] == Mark.NEGATED)), float(chances[one].exp())) for one in at]
        return tuple(NumberRecord(text, chance, chance) for text, chance in chosen)
    return tuple(
        NumberRecord(
            number_text(choice.digits[which].tolist(), int(choice.signs[which])),
            float(choice.operand_chances[which].prod()),
            float(choice.operand_chances[which].min()),
            *(_other_place if points else _other_digit)(place, choice, which),
        )
        for which in range(len(at))
    )


def _other_place(place: Place, choice: Choice, which: int) -> tuple[str | None, float | None]:
    """The most probable other number of the text: its text, and the probability of all places that have it."""
    reading: Any = place.event.reading
    chances = place.of(reading.scores)[which].exp().cpu()  # [W, 2]
    digits, chosen = place.of(reading.digits).cpu(), tuple(choice.digits[which].tolist())
    numbers: dict[tuple[int, ...], torch.Tensor] = {}
    for at in (digits[:, 0] != PAD).nonzero().flatten().tolist():
        value = tuple(digits[at].tolist())
        if value != chosen:
            numbers[value] = numbers.get(value, torch.zeros(2)) + chances[at]
    if not numbers:
        return None, None
    value, found = max(numbers.items(), key=lambda pair: float(pair[1].sum()))
    return number_text(list(value), int(found.argmax())), float(found.sum())


def _other_digit(place: Place, choice: Choice, which: int) -> tuple[str | None, float | None]:
    """The number with the second most probable class in the one slot where this costs the least."""
    reading: Any = place.event.reading
    digits, signs = (place.of(x)[which].float().softmax(-1).cpu() for x in reading[:2])
    chances, classes = zip(*(slot.topk(2) for slot in [*digits, signs]), strict=True)
    ratios = [float(chance[1] / chance[0]) for chance in chances]
    slot = max(range(len(ratios)), key=lambda one: ratios[one])
    values = [*choice.digits[which].tolist(), int(choice.signs[which])]
    values[slot] = int(classes[slot][1])
    return number_text(values[:-1], values[-1]), float(choice.operand_chances[which].prod()) * ratios[slot]
