"""The order of reductions is that of Python's own parser, and what is no expression is found."""

import ast
import random

import pytest
import torch
from reference_items import random_row

from peft_igc.expressions.fixed_point import Operator
from peft_igc.expressions.items import Item, encode_items
from peft_igc.expressions.order import NO_STEP, order_of
from peft_igc.expressions.reasons import Reason


PYTHON = {"^": "**"}
OPERATORS = {
    ast.Add: Operator.ADD,
    ast.Sub: Operator.SUBTRACT,
    ast.Mult: Operator.MULTIPLY,
    ast.Div: Operator.DIVIDE,
    ast.Pow: Operator.POWER,
}


def order(rows, max_operands=8):
    return order_of(encode_items(rows, 64, 8), max_operands)


def reason(*row):
    return Reason(order([list(row)]).reason.item())


def steps(found, row):
    """The tree that the steps of a row build, as nested tuples; numbers are 0, 1, ..."""
    values = list(range(12))

    def signed(value, negate):
        return ("-", value) if negate else value

    for operator, left, right, negate in zip(
        found.operator[row].tolist(),
        found.left[row].tolist(),
        found.right[row].tolist(),
        found.negate[row].tolist(),
        strict=True,
    ):
        if operator != NO_STEP:
            a, b = signed(values[left], negate[0]), signed(values[right], negate[1])
            values[left] = (Operator(operator).name, a, b)
    return signed(values[0], found.last_negate[row].item())


def tree(node):
    """The same for a tree of Python's parser. Two minuses are none."""
    if isinstance(node, ast.Constant):
        return int(node.value)
    if isinstance(node, ast.UnaryOp):
        inside = tree(node.operand)
        if isinstance(node.op, ast.UAdd):
            return inside
        return inside[1] if isinstance(inside, tuple) and inside[0] == "-" else ("-", inside)
    return (OPERATORS[type(node.op)].name, tree(node.left), tree(node.right))


@pytest.mark.slow
def test_the_order_is_that_of_pythons_parser():
    generator = random.Random(0)
    rows = []
    while len(rows) < 4000:
        row = random_row(generator, digits=3)
        if not {"%", "of", "?"} & set(row):
            rows.append(row)
    found, compared = order(rows, max_operands=12), 0
    for index, row in enumerate(rows):
        numbers = iter(range(100))
        text = " ".join(PYTHON.get(item, str(next(numbers)) if item[0] in ".0123456789" else item) for item in row)
        try:
            expected = tree(ast.parse(text.strip(), mode="eval").body)
        except (SyntaxError, KeyError, AttributeError):  # `5 (3)` is a call, `1, 2` a tuple
            assert found.reason[index] != 0, text
            continue
        assert found.reason[index] == 0, text
        assert steps(found, index) == expected, text
        compared += 1
    assert compared > 2500


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2", Reason.NONE),
        ("5 %", Reason.NONE),
        ("5 % of 3", Reason.NONE),
        ("", Reason.MALFORMED),
        ("5 -", Reason.MALFORMED),
        ("* 5", Reason.MALFORMED),
        ("5 5", Reason.MALFORMED),
        ("5 % 3", Reason.MALFORMED),
        ("5 % %", Reason.MALFORMED),
        ("% 5", Reason.MALFORMED),
        ("5 of 3", Reason.MALFORMED),
        ("( 5 % ) of 3", Reason.MALFORMED),
        ("2 ( 3 )", Reason.MALFORMED),
        ("( 2 ) 3", Reason.MALFORMED),
        ("( )", Reason.MALFORMED),
        ("2 * * 3", Reason.MALFORMED),
        ("2 + ?", Reason.MALFORMED),
        ("( 5", Reason.UNBALANCED),
        ("5 )", Reason.UNBALANCED),
        (") 5 (", Reason.UNBALANCED),
        ("200 + 10 %", Reason.PERCENT_SUM),
        ("200 - ( 10 ) %", Reason.PERCENT_SUM),
        ("200 - ( ( 5 + 5 ) % )", Reason.PERCENT_SUM),
        ("200 - - 10 %", Reason.PERCENT_SUM),
        ("10 % + 5", Reason.PERCENT_SUM),
        ("( 2 * 3 ) % + 5", Reason.PERCENT_SUM),
        ("200 + 10 % of 50", Reason.NONE),
        ("200 + 10 % * 50", Reason.NONE),
        ("3 * 10 % + 5", Reason.NONE),
        ("( 2 * 3 ) % * 2 + 5", Reason.NONE),
        ("200 * ( 10 % )", Reason.NONE),
        ("1 " + "+ 1 " * 7, Reason.NONE),
        ("1 " + "+ 1 " * 8, Reason.TOO_MANY_OPERANDS),
        ("123456789 + 1", Reason.TOO_LONG),
        ("1 " + "+ 1 " * 40, Reason.TOO_LONG),
    ],
)
def test_what_is_in_the_grammar(text, expected):
    assert reason(*text.split()) == expected


def test_refused_rows_have_no_steps():
    found = order([["1", "+", "2"], ["1", "+", "2", "+"], ["1", "+", "2", "%"]])
    assert (found.operator != NO_STEP).sum(1).tolist() == [1, 0, 0]
    assert found.operands.tolist() == [2, 2, 2]


def test_items_after_the_end_and_unknown_kinds_are_malformed():
    items = encode_items([["1", "+", "2"]] * 4, 5, 2)
    items.kind[1, 4] = Item.NUMBER
    items.kind[2, 1] = 64
    items.kind[3, 1] = -2
    assert order_of(items, 8).reason.tolist() == [Reason.NONE] + [Reason.MALFORMED] * 3


def test_per_cent_signs_are_applied_where_they_belong():
    rows = ["( 1 + 2 ) % * ( 3 % )", "( ( 1 ) % * 2 ) %", "2 * ( 3 ^ 2 % ) %"]
    found = order([row.split() for row in rows])
    assert found.percentage[0, :3].tolist() == [False, False, True]
    assert found.hundreds[0, :2].tolist() == [[0, 0], [1, 0]]
    assert found.hundreds[1, 0].tolist() == [1, 0]
    assert found.last_hundreds.tolist() == [0, 1, 0]
    assert found.hundreds[2, :2].tolist() == [[0, 0], [0, 1]]


def test_quotients_and_powers_in_divisors_are_marked():
    rows = ["1 / 2 / 3", "1 / ( 2 / 3 )", "1 / ( 2 + 3 )", "1 / 2 ^ 3", "( 1 / 2 ) / 3", "1 / ( 2 * ( 3 - 4 / 5 ) )"]
    assert order([row.split() for row in rows]).nested.tolist() == [False, True, False, True, False, True]


def test_the_order_does_not_depend_on_other_rows():
    generator = random.Random(1)
    rows = [random_row(generator, digits=3) for _ in range(50)]
    together = order(rows)
    for index, row in enumerate(rows):
        for one, many in zip(order([row]), together, strict=True):
            assert torch.equal(one[0], many[index])
