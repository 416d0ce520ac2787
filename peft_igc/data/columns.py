"""The operand columns of a dataset: checked row by row, then encoded as the tensors that the model pops.

In: rows with `igc_operator`, `igc_operands` and `igc_result`, or `igc_expression`. Out: `StepLabel`s, one per anchor
(`check_columns`), and the `igc_*` tensors of a batch of them (`encode_steps`). Every row is checked against the
calculator, because a wrong result in a column would be learned like a right one. Prompts are not read here.

Shapes: B rows, A anchors per row (steps), D digits of an operand, R digits of a result, K operations.
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from ..numbers.calculator import NO_ARITHMETIC, Status
from ..numbers.digits import classes
from ..text.operations import FUNCTIONS
from ..text.requests import calculated
from ..text.values import Limits, Refused, finished, written
from .exact_values import EXPRESSION, STATUSES, NotAnExpression, StepLabel, label_expression


COLUMNS = ("igc_operator", "igc_operands", "igc_result")
EXPRESSION_COLUMN = "igc_expression"
ALL_COLUMNS = (*COLUMNS, EXPRESSION_COLUMN)
ROW_COLUMN = "igc_row"  # the name of the row in errors, such as "`rows.jsonl`, line 17"; made by `peft-igc sft`
UNSUPERVISED = -100  # the class that cross-entropy ignores

_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+")
_INTEGER = re.compile(r"-?[0-9]+")  # not \d: it would match digits of other scripts
REFUSALS = {status.name.lower(): status for status in STATUSES.values()}


class WrongType(TypeError, ValueError):
    """A value of an operand column has a wrong type: a fault in the data, as a wrong value is."""


UNKNOWN = StepLabel(None, None, None, Status.NONE)  # of a step that is not supervised


def label(operator: str, operands: Sequence[str], limits: Limits, whole: bool = True) -> str:
    """The correct entry of `igc_result` for canonical numbers: the result, or one of `REFUSALS` if there is none.

    With an operand of more than `limits.digits` digits it is "overflow" for every operation: the model cannot read
    that operand, so it knows nothing else about the calculation. `whole` as of `requests.calculated`.
    """
    if max(_size(one) for one in operands) > limits.digits:
        return "overflow"
    try:
        value = calculated(operator, [Fraction(one) for one in operands], limits, guarded=False, whole=whole)
        return finished(value, limits)[1]
    except Refused as refused:
        return STATUSES.get(refused.reason, Status.UNDEFINED).name.lower()


def columns_of(operator: str, operands: Sequence[str], limits: Limits) -> dict[str, Any]:
    """The operand columns of a calculation with numbers as strings, or of a text with the operator `"none"`."""
    if operator == NO_ARITHMETIC:
        return dict(zip(COLUMNS, (operator, None, None), strict=True))
    numbers = [canonical(one, "igc_operands", "the row", decimals=True) for one in operands]
    return dict(zip(COLUMNS, (operator, numbers, label(operator, numbers, limits)), strict=True))


def has_number(result: Any) -> bool:
    """Whether a result is a number."""
    return isinstance(result, str) and result.lstrip("-").replace(".", "").isdigit()


def check_columns(row: Mapping[str, Any], limits: Limits, where: str = "row") -> list[StepLabel]:
    """Checks the operand columns of one row and returns its steps, one per anchor.

    Args:
        row: `igc_operator` (a symbol, the name of a function, `"none"` or None), `igc_operands` (two number strings or
            integers in the calculator's order; of a function as many as it takes, if these are not 1 or 2 in the order
            of the text, also decimals) and `igc_result` (a number, or `"overflow"`, `"undefined"`, `"inexact"`; None:
            computed here). Instead of operator and operands `igc_expression`, a text such as `(3 + 4) * 2.5`; its
            operator is then None or `"expression"`. For several anchors each column is a list with one entry per
            anchor. A missing column counts as None, so a row without these columns has one step that is not
            supervised.
        limits: Of the numbers, the operations and the results.
        where: The row's name in error messages, for instance `"row 17"`.

    Returns:
        The steps, numbers in canonical form (`"007"` becomes `"7"`).

    Raises:
        WrongType: A value of the wrong type.
        ValueError: An unknown operator, an operand that does not fit, a result that contradicts its operands, or
            columns that contradict each other.
    """
    entries = [row.get(name) for name in ALL_COLUMNS]
    first = 0 if entries[0] is not None else len(COLUMNS)  # the column that says how many anchors there are
    leading = entries[first]
    if not isinstance(leading, (list, tuple)):
        return [_check_step(entries, limits, where)]
    columns, count = [], len(leading)
    for name, values in zip(ALL_COLUMNS, entries, strict=True):
        values = [None] * count if values is None else values
        if not isinstance(values, (list, tuple)) or len(values) != count:
            got = f"{len(values)} entries" if isinstance(values, (list, tuple)) else repr(values)
            raise ValueError(
                f"{where}: `{ALL_COLUMNS[first]}` has {count} entries but `{name}` has {got}. With several anchors "
                "every column is a list with one entry per anchor (None if there is no value)."
            )
        columns.append(values)
    return [
        _check_step(entry, limits, f"{where}, anchor {index}")
        for index, entry in enumerate(zip(*columns, strict=True))
    ]


def _check_step(entry: Sequence[Any], limits: Limits, where: str) -> StepLabel:
    """One anchor's entries, in the order of `ALL_COLUMNS`, as a `StepLabel`."""
    operator, operands, result, expression = entry
    if expression is not None:
        found = _check_expression(operator, operands, expression, limits, where)
        source, said = f"`{EXPRESSION_COLUMN}`", expression
    elif operator is None or operator == NO_ARITHMETIC:
        for name, value in (("igc_operands", operands), ("igc_result", result)):
            if value is not None:
                raise ValueError(
                    f"{where}: `igc_operator` is {operator!r} but `{name}` is {value!r}. Name the operator, or set "
                    f"`{name}` to None."
                )
        return UNKNOWN if operator is None else StepLabel(operator, None, None, Status.NONE)
    else:
        found, source = _check_calculation(operator, operands, result, limits, where), "its operands"
        numbers = found.operands or ()
        said = f"{operator}({', '.join(numbers)})" if operator in FUNCTIONS else f" {operator} ".join(numbers)
    if result is None:
        return found
    if isinstance(result, str) and result in REFUSALS:
        is_result = REFUSALS[result] == found.status
    else:
        decimals = limits.decimal_operands or found.expression is not None or found.operator in FUNCTIONS
        is_result = canonical(result, "igc_result", where, decimals) == found.result
    if not is_result:
        correct = f"is {found.result}" if found.result is not None else f'is "{found.status.name.lower()}"'
        if found.status is Status.OVERFLOW:
            correct = (
                f'has more than `result_digits={limits.result_digits}` digits: write "overflow", or set '
                "`IGCConfig(result_digits=...)`"
            )
        raise ValueError(
            f"{where}: `igc_result` {result!r} contradicts {source}: {said} {correct}. Correct one of them; the "
            "minuend or the dividend comes first."
        )
    return found


def _check_expression(operator: Any, operands: Any, expression: Any, limits: Limits, where: str) -> StepLabel:
    """The label of a step that is given as an expression; other columns must say the same or nothing."""
    if not isinstance(expression, str):
        raise WrongType(f"{where}: `{EXPRESSION_COLUMN}` must be a string or None, got {expression!r}.")
    try:
        found = label_expression(expression, limits)
    except NotAnExpression as error:
        raise ValueError(
            f"{where}: `{EXPRESSION_COLUMN}` {expression!r} is no expression that can be calculated: {error}. Write "
            'it with numbers, `+ - * / ^ %`, brackets and "of", or set it to None and `igc_operator` to "none".'
        ) from error
    if operator not in (None, EXPRESSION) or operands is not None:
        given = None if operands is None else _check_operands(str(operator), operands, limits, where)
        if (operator, given) != (found.operator, found.operands):
            raise ValueError(
                f"{where}: `igc_operator` {operator!r} and `igc_operands` {operands!r} contradict "
                f"`{EXPRESSION_COLUMN}` {expression!r}. Leave them out: the expression says it all."
            )
    return found


def _check_calculation(operator: Any, operands: Any, result: Any, limits: Limits, where: str) -> StepLabel:
    """The label of a step that is given by operator and operands."""
    if operator == EXPRESSION:
        raise ValueError(
            f'{where}: `igc_operator` is "{EXPRESSION}" but `{EXPRESSION_COLUMN}` is None. Give the expression as a '
            'string such as "(3 + 4) * 2", or set `igc_operator` to "none" or None.'
        )
    if not isinstance(operator, str):
        raise WrongType(f"{where}: `igc_operator` must be a string or None, got {operator!r}.")
    if operator not in limits.operations:
        known = ", ".join(repr(symbol) for symbol in (*limits.operations, NO_ARITHMETIC))
        raise ValueError(
            f"{where}: `igc_operator` {operator!r} is unknown: this configuration has {known}. Use one of these, or "
            "extend `IGCConfig(operations=...)`."
        )
    numbers = _check_operands(operator, operands, limits, where)
    longest = max(numbers, key=_size)
    if _size(longest) > limits.digits and result != "overflow":  # only this trains the refusal
        raise ValueError(
            f"{where}: the operand {longest} has {_size(longest)} digits, but `num_digits={limits.digits}`. Set "
            f"`IGCConfig(num_digits={_size(longest)})` or more, or set `igc_result` to "
            '"overflow" to train the refusal.'
        )
    expected = label(operator, numbers, limits, whole=result in (None, *REFUSALS))
    status = REFUSALS.get(expected, Status.OK)
    return StepLabel(operator, numbers, expected if status is Status.OK else None, status)


def _check_operands(operator: str, operands: Any, limits: Limits, where: str) -> tuple[str, ...]:
    """The operands in canonical form; those of a function may always be decimals."""
    function = FUNCTIONS.get(operator)
    if not isinstance(operands, (list, tuple)):
        count = "numbers" if function else "two numbers"
        raise WrongType(f"{where}: `igc_operands` must be a list of {count}, got {operands!r}.")
    fewest, most = (2, 2) if function is None else (function.fewest, function.most)
    if not fewest <= len(operands) <= most:
        count = {(1, 1): "one number", (2, 2): "two numbers"}.get((fewest, most), f"{fewest} to {most} numbers")
        raise ValueError(f"{where}: `igc_operands` must hold exactly {count}, got {list(operands)!r}.")
    decimals = limits.decimal_operands or function is not None
    return tuple(canonical(one, "igc_operands", where, decimals) for one in operands)


def canonical(text: Any, column: str, where: str, decimals: bool = False) -> str:
    """A number, given as a string or an integer, as a string without leading zeros and without `-0`; with `decimals`
    also one with a point.

    Whoever reads numbers from operand columns does it with this function, so integers are as good as strings.

    Raises:
        WrongType: Neither a string nor an integer.
        ValueError: A string that is no such number.
    """
    is_integer = isinstance(text, Integral) and not isinstance(text, bool)
    if not isinstance(text, str) and not is_integer:
        raise WrongType(
            f"{where}: `{column}` holds {text!r} of type `{type(text).__name__}`. Write numbers as strings "
            "(`str(number)`) or integers; floats are not exact."
        )
    if decimals and isinstance(text, str) and _DECIMAL.fullmatch(text):
        return written(Fraction(text))
    text = str(text)
    if not _INTEGER.fullmatch(text):
        raise ValueError(
            f"{where}: `{column}`: {text!r} is not {'a number' if decimals else 'an integer'}: write the digits 0-9 "
            f"with at most a leading `-`{' and one point' if decimals else ''}, without spaces, `+` or separators"
            f"{'' if decimals else ', and without a point, which needs `IGCConfig(decimal_operands=True)`'}."
        )
    digits = text.lstrip("-0") or "0"
    return "-" * (text[0] == "-" and digits != "0") + digits


def spelled(value: Any, column: str, where: str) -> Any:
    """An entry of an operand column with integers as strings; raises `WrongType` for other values than strings."""
    if isinstance(value, (list, tuple)):
        return [spelled(one, column, where) for one in value]
    return value if value is None or isinstance(value, str) else canonical(value, column, where)


def check_names(names: Iterable[str], where: str) -> None:
    """Refuses columns that look like operand columns and are none: nobody would read them."""
    for name in sorted(set(names) - {*ALL_COLUMNS, ROW_COLUMN}):
        if name.lower().startswith("igc"):
            raise ValueError(
                f"{where} has the column `{name}`, which is not read. Operand columns are "
                f"`{'`, `'.join(ALL_COLUMNS)}`: rename the column."
            )


def _size(number: str) -> int:
    """The number of digits of a canonical number."""
    return len(number.lstrip("-").replace(".", ""))


def encode_steps(rows: Sequence[Sequence[StepLabel]], limits: Limits) -> dict[str, Tensor]:
    """Turns the steps of a batch into the tensors that the model pops from its keyword arguments.

    A is the largest number of steps of a row; rows with fewer are padded with steps that are not supervised.

    Returns:
        All int64. `igc_operator` [B, A]: index into `operations`, K = no arithmetic, K + 1 = a calculation that rules
        read, -100 = not supervised; `igc_operands` [B, A, S, D+1]: digit classes, all PAD without an operand; S is 2
        or the largest number of operands; of a number longer than D the first D+1 digits (a digit in the last slot
        means overflow); `igc_signs` [B, A, S]; `igc_result` [B, A, R]: digit classes without the point, all PAD unless
        the status is OK; `igc_result_sign` [B, A]; `igc_result_status` [B, A]: a `Status`, NONE for a step that is not
        supervised; `igc_result_scale` [B, A]: digits of the result after the point.
    """
    shape = (len(rows), max((len(steps) for steps in rows), default=0))  # (B, A)
    steps = [step for row in rows for step in (*row, *[UNKNOWN] * (shape[1] - len(row)))]
    width, count = limits.digits + 1, len(limits.operations)  # D + 1, K
    indices: dict[str | None, int] = {None: UNSUPERVISED, NO_ARITHMETIC: count, EXPRESSION: count + 1}
    indices |= {symbol: k for k, symbol in enumerate(limits.operations)}
    slots = max([2, *(len(step.operands or ()) for step in steps)])  # S
    # In place of what a step does not have there are empty texts, which have no digits.
    numbers = [(*(step.operands or ()), *[""] * (slots - len(step.operands or ()))) for step in steps]
    operands, results = list(itertools.chain(*numbers)), [step.result or "" for step in steps]
    # Without the point and the zeros of `0.05`.
    bare = [one.replace(".", "").lstrip("-0") or "0" * bool(one) for one in results]

    def encoded(values: Iterable[Any], *size: int) -> Tensor:
        return torch.tensor(list(values), dtype=torch.int64).view(*shape, *size)

    return {
        "igc_operator": encoded(indices[step.operator] for step in steps),
        "igc_operands": encoded((classes(one.lstrip("-"), width) for one in operands), slots, width),
        "igc_signs": encoded((one.startswith("-") for one in operands), slots),
        "igc_result": encoded((classes(one, limits.result_digits) for one in bare), limits.result_digits),
        "igc_result_sign": encoded(one.startswith("-") for one in results),
        "igc_result_status": encoded(step.status for step in steps),
        "igc_result_scale": encoded(len(one.partition(".")[2]) for one in results),
    }
