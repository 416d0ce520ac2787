"""Causes of wrong answers: decides from what was read, calculated and written which part of the adapter failed.

In: an item, its answer, its steps as `ReadStep`s, and what is known of the writing. Out: the name of a cause, one of
`CAUSES`, which has advice for users, and a detail for people. A cause is the first thing on the way from the text to
the answer that went wrong: a wrong operand also makes a wrong operator probable, but not the other way round.

What should have been read is known if the item has operand columns (`igc_operator`, `igc_operands`), if its prompt is
a question of BIG-bench, or if exactly one calculation with two numbers of the prompt gives the target. Otherwise a
wrong result is `misread`, without the part. No model and no tensors here.
Try it: `pytest tests/inference/test_audit_causes.py`
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..data.bigbench import OPERATION_NAMES, parse_question
from ..numbers.calculator import NO_ARITHMETIC, evaluate_exactly
from ..text.refusals import REASON_TEXTS, Reason


__all__ = ["CAUSES", "Cause", "Expected", "ReadStep", "Writes", "cause_of", "expected_of", "is_right", "plain_number"]

LEAST_OPEN = 0.5  # a gate below this is closed
MOST_NUMBERS = 8  # of a prompt, for which all pairs are tried
_NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?![\w]|\.\d)")
# What these say depends on what the network has read.
_AFTER_READING = (Reason.OTHER_NUMBER, Reason.NOT_UNDERSTOOD, Reason.LOOK_ALIKE)
_FEW = "fewer than two numbers, or a third one beside them that may be part of the calculation"


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


_MORE_ROWS = "train rows of this kind"
_MISREAD = f"{_MORE_ROWS}; until then a higher `confidence` (`peft-igc calibrate`) makes such texts silent"

CAUSES: dict[str, Cause] = {
    "no_anchor": Cause(
        "The text has no anchor",
        "put the prompts into the chat template (without `--raw`), or end them with an anchor such as `=`",
        "`anchor` and the anchor tokens of the config",
    ),
    "refused": Cause(
        "A rule refused",
        "write the calculation plainly: the reason and the token are in the steps of each item",
        "the rules for numbers and symbols",
    ),
    "operand": Cause(
        "An operand was misread", _MISREAD, "`pointer`, `slots`, `compression`, first half of the encoder"
    ),
    "sign": Cause("A sign was misread", _MISREAD, "`sign_head`"),
    "operator": Cause(
        "The operator was misread",
        f"{_MORE_ROWS}, or ask in the form of the training rows; if it was silent, a lower `confidence` may help",
        "`operator_head`, `marks`, `sentences`, second half of the encoder; or what the pointers use, too",
    ),
    "unsure": Cause(
        "The reading was less probable than `confidence`",
        f"{_MORE_ROWS}, or choose a lower `confidence` with `peft-igc calibrate`",
        "`operator` or `operand`, whichever is less probable",
    ),
    "misread": Cause("Something else was calculated", _MISREAD, "the reading; operand columns in the items tell more"),
    "expression": Cause(
        "Another expression was read in symbols",
        "write brackets and operators out; the steps show what was read",
        "the rules for numbers and symbols",
    ),
    "silent": Cause(
        "It should have been silent",
        f"{_MORE_ROWS} with `igc_operator` \"none\", or raise `confidence` (`peft-igc calibrate`)",
        "the class `none` of `operator_head`",
    ),
    "status": Cause(
        "The calculation has no result",
        "allow longer numbers (`num_digits`, `result_digits`) or another `rounding` in the config",
        "the limits of the calculator",
    ),
    "gate": Cause(
        "The gate was closed",
        "train the writing longer, or on answers of this form",
        "`gate_up`, `gate_state`, `gate_down`",
    ),
    "overruled": Cause(
        "The right result was written and overruled by the layers above",
        "train the writing longer; after a LoRA, train the writing once more with it",
        "`write_up`, `write_down`, `context`, `end`; or the base's layers above",
    ),
    "formatting": Cause(
        "The right number has another form",
        "write the targets as the model answers, or train answers in the form of the targets",
        "`end`, the base, or the form of the targets",
    ),
    "cut": Cause("The right answer does not end", "raise `--max-new-tokens`", "`end`"),
    "base": Cause(
        "The base answered alone",
        "nothing was to be calculated here, and nothing was: this is the base model's own mistake",
        "the base",
    ),
    "target": Cause(
        "What was asked was calculated and is not the target",
        "check the targets of these items",
        "the items",
    ),
}


@dataclass(frozen=True)
class ReadStep:
    """One reading and calculation.

    Attributes:
        in_prompt: whether its anchor is in the prompt.
        operands: the two numbers that the network chose, with the signs that it gave them.
        operator: the operation, or `"none"`.
        asked: whether the network alone takes the text for arithmetic.
        status: `ok`, `none`, `overflow`, `undefined` or `inexact`.
        result: the number that was calculated; None if the status is not `ok`.
        expression: the expression in symbols that the rules read; None if the network decides.
        reason: why the rules refused; `Reason.NONE` if they did not.
        culprit: the token that caused it, or None.
        doubtful: the least probable part of the reading, `operator` or `operand`.
    """

    in_prompt: bool
    operands: tuple[str, str]
    operator: str
    asked: bool
    status: str
    result: str | None
    expression: str | None = None
    reason: Reason = Reason.NONE
    culprit: str | None = None
    doubtful: str = "operator"

    def format(self) -> str:
        """The step in one line."""
        read = f"{self.operands[0]} {self.operator} {self.operands[1]}"
        said = self.expression or (NO_ARITHMETIC if self.operator == NO_ARITHMETIC else read)
        refusal = "" if self.reason == Reason.NONE else f"; refused: {REASON_TEXTS[self.reason]}"
        cause = "" if self.culprit is None else f" (at {self.culprit!r})"
        return f"{said}, {self.status}{'' if self.result is None else f', {self.result}'}{refusal}{cause}"


class Writes(NamedTuple):
    """What is known of the writing of an answer.

    Attributes:
        gates: the gate of each position that was written, in their order.
        opened: whether the answer is right if every gate is 1; None if that was not tried.
    """

    gates: Sequence[float] = ()
    opened: bool | None = None


class Expected(NamedTuple):
    """What should have been read.

    Attributes:
        operator: a symbol, or `"none"`.
        operands: in the calculator's order; None with `"none"`.
    """

    operator: str
    operands: tuple[str, str] | None = None


def is_right(answer: str, cut: bool, target: str) -> bool:
    """Whether an answer counts as right, as in `evaluation.evaluate`."""
    return not cut and answer.strip() == target.strip()


def expected_of(item: Mapping[str, Any]) -> Expected | None:
    """What should have been read for an item, or None if that cannot be told."""
    operator, operands = item.get("igc_operator"), item.get("igc_operands")
    if operator == NO_ARITHMETIC:
        return Expected(NO_ARITHMETIC)
    if isinstance(operator, str) and operands is not None and len(operands) == 2:
        return Expected(operator, (str(operands[0]), str(operands[1])))
    question = parse_question(item["prompt"])
    if question is not None:
        return Expected(question[1], (question[0], question[2]))
    if not re.search(r"\d", item["target"]):
        return Expected(NO_ARITHMETIC)
    return _only_calculation(item["prompt"], plain_number(item["target"]))


def _only_calculation(prompt: str, target: str) -> Expected | None:
    """The calculation with two numbers of a prompt that gives the target; None if there is none, or another one."""
    numbers = [found.replace(",", "") for found in _NUMBER.findall(prompt)]
    if not 2 <= len(numbers) <= MOST_NUMBERS or max(map(len, numbers)) > 1000:
        return None
    found = set()
    for a, b in itertools.permutations(numbers, 2):
        for operator in OPERATION_NAMES:
            if evaluate_exactly(operator, a, b) == target:
                found.add(Expected(operator, (a, b)))
    forms = {(one.operator, frozenset(one.operands or ())) for one in found}
    if len(forms) != 1:
        return None
    return min(found, key=lambda one: prompt.find((one.operands or ("",))[0]))  # of a sum the order of the text


def plain_number(number: str) -> str:
    """A number without thousands separators, plus sign and spaces."""
    return number.strip().replace(",", "").removeprefix("+")


def cause_of(
    item: Mapping[str, Any], answer: str, cut: bool, steps: Sequence[ReadStep], writes: Writes
) -> tuple[str, str]:
    """The cause of a wrong answer.

    Args:
        item: with `prompt`, `target`, and optionally operand columns.
        answer: the answer, which is not right.
        cut: whether the answer was cut.
        steps: its steps by position.
        writes: what is known of the writing.

    Returns:
        A key of `CAUSES`, and a detail.
    """
    expected, target = expected_of(item), plain_number(item["target"])
    if not steps:
        return "no_anchor", ""
    written = [step for step in steps if step.status == "ok"]
    if expected is not None and expected.operator == NO_ARITHMETIC:
        return ("silent", written[0].format()) if written else ("base", "")
    if any(step.result == target for step in written):
        return _writing(item["target"].strip(), answer.strip(), cut, writes)
    step = [step for step in steps if step.in_prompt][-1:] or [steps[-1]]
    return _reading(step[0], expected, target)


def _writing(target: str, answer: str, cut: bool, writes: Writes) -> tuple[str, str]:
    """The cause where the right result was to be written."""
    if answer == target:
        return "cut", "the answer is right, but was cut"
    gates = writes.gates or [0.0]
    detail = f"gates {min(gates):.3f} to {max(gates):.3f}" if writes.gates else "nothing was written"
    if max(gates) < LEAST_OPEN:  # what the base says alone may contain the number
        return "gate", detail
    stands = re.search(rf"(?<![\d.,-]){re.escape(target)}(?![\d]|[.,]\d)", answer)
    if stands or plain_number(answer) == plain_number(target):
        # The last position is that of the number's end. It is the gate that is too low only if open gates mend it.
        if answer.startswith(target) and (gates[-1] >= LEAST_OPEN or writes.opened is False):
            return "overruled", f"the number is right, the answer goes on; its end was written with {gates[-1]:.3f}"
        if plain_number(answer) != plain_number(target) and gates[0] >= LEAST_OPEN and not answer.startswith(target):
            return "overruled", detail  # something else stands where the number was written
        return "formatting", "cut" if cut else ""
    if writes.opened or (writes.opened is None and min(gates) < LEAST_OPEN):
        return "gate", detail + ("; right with open gates" if writes.opened else "")
    return "overruled", detail


def _reading(step: ReadStep, expected: Expected | None, target: str) -> tuple[str, str]:
    """The cause where another result, or none, was to be written."""
    said = step.format()
    if step.expression is not None:
        if step.status == "none":
            return _unsure(step) if step.asked else ("operator", f"taken for no arithmetic: {said}")
        return ("expression" if step.status == "ok" else "status"), said
    refused = step.status == "none" and step.reason not in (Reason.NONE, Reason.NO_EXPRESSION)
    if refused and step.reason not in _AFTER_READING:
        return "refused", REASON_TEXTS[step.reason]
    part = None if expected is None else _misread(step, expected)
    if part is not None and expected is not None and expected.operands is not None:
        a, b = expected.operands
        return part, f"{step.operands[0]} {step.operator} {step.operands[1]} instead of {a} {expected.operator} {b}"
    if refused and step.reason == Reason.LOOK_ALIKE and expected and expected.operands not in (None, step.operands):
        return "sign", f"{said}; rules and network have to agree"
    if refused:
        return "refused", REASON_TEXTS[step.reason]
    if step.operator == NO_ARITHMETIC:
        return ("refused", _FEW) if step.asked else ("operator", "taken for no arithmetic")
    if step.status == "none":
        return _unsure(step)
    if step.status != "ok":
        return "status", step.status
    if expected is None or expected.operands is None:
        return "misread", said
    wanted = evaluate_exactly(expected.operator, *expected.operands)
    return ("target", said) if wanted != target else ("sign", f"{said} instead of {wanted}")


def _unsure(step: ReadStep) -> tuple[str, str]:
    """The cause of a reading that `confidence` refused."""
    return "unsure", f"least probable: the {step.doubtful}"


def _misread(step: ReadStep, expected: Expected) -> str | None:
    """`operand` or `operator`, whichever was misread first; None if both are right but for signs."""
    wanted = tuple(plain_number(one).lstrip("-").lstrip("0") or "0" for one in expected.operands or ())
    found = tuple(one.lstrip("-") for one in step.operands)
    if found != wanted:
        return "operand"
    if step.asked and step.operator == NO_ARITHMETIC:
        return None  # a rule of the choice, not the classifier
    return "operator" if step.operator != expected.operator else None
