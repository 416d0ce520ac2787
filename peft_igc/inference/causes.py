"""Causes of wrong answers: decides from what was read, calculated and written which part of the adapter failed.

In: an item and its answer with the record of its text. Out: the name of a cause, one of `CAUSES`, which has advice for
users, and a detail for people. A cause is the first thing on the way from the text to the answer that went wrong: a
wrong operand also makes a wrong operator probable, but not the other way round.

What should have been read is known if the item has operand columns (`igc_operator`, `igc_operands`), or if its prompt
is a question of BIG-bench. Otherwise a wrong result is `misread`, without the part. No model and no tensors here.
Try it: `pytest tests/inference/test_causes.py`
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..data.bigbench import parse_question
from ..numbers.calculator import NO_ARITHMETIC, evaluate_exactly
from ..text.operations import FUNCTIONS
from ..text.refusals import Reason
from ..tuner.records import EXPLANATIONS, StepRecord
from .records import Answer


__all__ = ["CAUSES", "Cause", "Expected", "cause_of", "expected_of", "plain_number"]

LEAST_OPEN = 0.5  # a gate below this is closed
# Reasons that depend on what the network has read, and those that follow from the text alone.
_AFTER_READING = {"other_number", "not_understood", "look_alike", "few_numbers", "unseen"}
_AFTER_READING |= {"other_operation", "difference_below_zero"}
_OF_TEXT = {reason.name.lower() for reason in Reason} - _AFTER_READING


class Cause(NamedTuple):
    """A cause of wrong answers.

    Attributes:
        title: what happened.
        advice: what a user can do about it.
        part: the part of the adapter, the base or the data that is responsible, for those who develop one.
    """

    title: str
    advice: str
    part: str


_FILE = Path(__file__).parents[1] / "assets" / "audit" / "causes.toml"
CAUSES = {name: Cause(**cause) for name, cause in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()}


class Expected(NamedTuple):
    """What should have been read.

    Attributes:
        operator: a symbol, or `"none"`.
        operands: in the calculator's order; None with `"none"`.
    """

    operator: str
    operands: tuple[str, str] | None = None


def expected_of(item: Mapping[str, Any]) -> Expected | None:
    """What should have been read for an item, or None if that cannot be told."""
    operator, operands = item.get("igc_operator"), item.get("igc_operands")
    if operator == NO_ARITHMETIC:
        return Expected(NO_ARITHMETIC)
    if isinstance(operator, str) and operator in FUNCTIONS:
        return None
    if isinstance(operator, str) and operands is not None and len(operands) == 2:
        return Expected(operator, (str(operands[0]), str(operands[1])))
    question = parse_question(item["prompt"])
    if question is not None:
        return Expected(question[1], (question[0], question[2]))
    return None if re.search(r"\d", item["target"]) else Expected(NO_ARITHMETIC)


def plain_number(number: str) -> str:
    """A number without thousands separators, plus sign and spaces."""
    return number.strip().replace(",", "").removeprefix("+")


def cause_of(item: Mapping[str, Any], answer: Answer, opened: bool | None) -> tuple[str, str]:
    """The cause of a wrong answer.

    Args:
        item: with `prompt`, `target`, and optionally operand columns.
        answer: the answer, which is not right, with its record.
        opened: whether the answer is right if every gate is 1; None if that was not tried.

    Returns:
        A key of `CAUSES`, and a detail.
    """
    expected, target, text = expected_of(item), plain_number(item["target"]), answer.record
    assert text is not None
    if not text.steps:
        return "no_anchor", ""
    written = [step for step in text.steps if step.status == "ok"]
    if expected is not None and expected.operator == NO_ARITHMETIC:
        return ("silent", written[0].summary) if written else ("base", "")
    if any(step.result == target for step in written):
        gates = [token.gate for token in text.tokens if token.gate is not None]
        return _writing(item["target"].strip(), answer.text.strip(), answer.cut, gates, opened)
    prompt = len(text.tokens) - len(text.generated)
    step = next((step for step in reversed(text.steps) if step.position < prompt), text.steps[-1])
    return _reading(step, expected, target)


def _writing(target: str, answer: str, cut: bool, gates: Sequence[float], opened: bool | None) -> tuple[str, str]:
    """The cause where the right result was to be written."""
    if answer == target:
        return "cut", "the answer is right, but was cut"
    detail = f"gates {min(gates):.3f} to {max(gates):.3f}" if gates else "nothing was written"
    gates = gates or [0.0]
    if max(gates) < LEAST_OPEN:  # what the base says alone may contain the number
        return "gate", detail
    there = re.search(rf"(?<![\d.,-]){re.escape(target)}(?![\d]|[.,]\d)", answer)
    if there or plain_number(answer) == plain_number(target):
        # The last position is that of the number's end. It is the gate that is too low only if open gates mend it.
        if answer.startswith(target) and (gates[-1] >= LEAST_OPEN or opened is False):
            return "overruled", f"the number is right, the answer goes on; its end was written with {gates[-1]:.3f}"
        if plain_number(answer) != plain_number(target) and gates[0] >= LEAST_OPEN and not answer.startswith(target):
            return "overruled", detail  # something else is where the number was written
        return "formatting", "cut" if cut else ""
    if opened or (opened is None and min(gates) < LEAST_OPEN):
        return "gate", detail + ("; right with open gates" if opened else "")
    return "overruled", detail


def _reading(step: StepRecord, expected: Expected | None, target: str) -> tuple[str, str]:
    """The cause where another result, or none, was to be written."""
    read_as, silent = step.summary, step.status == "none"
    if silent and step.reason in _OF_TEXT:
        return "refused", EXPLANATIONS[str(step.reason)]
    if step.by_rule and not silent:
        return ("expression", read_as) if step.status == "ok" else ("status", step.status)
    if not step.by_rule and expected is not None and expected.operands is not None:
        read = f" {step.operator} ".join(one.text for one in step.operands)
        a, b = expected.operands
        if part := _misread(step, expected):
            return part, f"{read} instead of {a} {expected.operator} {b}"
        if step.reason == "look_alike" and expected.operands != tuple(one.text for one in step.operands):
            return "sign", f"{read_as}; rules and network have to agree"
    if silent and step.reason in _AFTER_READING:
        return "refused", EXPLANATIONS[str(step.reason)]
    if step.reason == "no_arithmetic":
        return "operator", "taken for no arithmetic" + (f": {step.expression}" if step.by_rule else "")
    if step.reason == "unsure":
        return "unsure", f"least probable: the {_doubtful(step)}"
    if step.status != "ok":
        return "status", step.status
    if expected is None or expected.operands is None:
        return "misread", read_as
    wanted = evaluate_exactly(expected.operator, *expected.operands)
    return ("target", read_as) if wanted != target else ("sign", f"{read_as} instead of {wanted}")


def _doubtful(step: StepRecord) -> str:
    """The least probable part of a reading: `operator` or `operand`."""
    pointed = math.prod(one.probability for one in step.operands)
    sure = 1.0 if step.operator_probability is None else step.operator_probability
    return "operand" if not step.by_rule and pointed < sure else "operator"


def _misread(step: StepRecord, expected: Expected) -> str | None:
    """`operand` or `operator`, whichever was misread first; None if both are right but for signs."""
    wanted = tuple(plain_number(one).lstrip("-").lstrip("0") or "0" for one in expected.operands or ())
    found = tuple(one.text.lstrip("-") for one in step.operands)
    if found != wanted:
        return "operand"
    if step.operator == NO_ARITHMETIC and step.reason != "no_arithmetic":
        return None  # a rule of the choice, not the classifier
    return "operator" if step.operator != expected.operator else None
