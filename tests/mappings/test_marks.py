"""Operations of one number and of many: marks, their probability and their loss."""

import pytest
import torch

from peft_igc.data.columns import check_columns, encode_steps
from peft_igc.mappings.readings import IGNORE, NEVER, Pointing, Targets, concatenate, reading_loss
from peft_igc.numbers.digits import classes
from peft_igc.text.values import Limits


OPERATIONS = ["+", "-", "*", "/", "sum", "mean", "square", "percent"]
TAKES = (2, 2, 2, 2, 0, 0, 1, 2)
WIDTH = 5


def pointing(numbers, operation, marks=(), sure=0.99):
    """One step over places with numbers ("" for a word) that is sure of an operation, and of some places as a set."""
    known = sorted({one for one in numbers if one})
    values = torch.tensor([[[known.index(one) if one else len(known) for one in numbers]]])
    scores = torch.full((1, 1, 2, len(numbers), 2), NEVER)
    at = [place for place, one in enumerate(numbers) if one]
    scores[0, 0, 0, at[0], 0] = scores[0, 0, 1, at[-1], 0] = 0.0
    operator = torch.zeros(1, 1, len(OPERATIONS) + 1)
    operator[..., OPERATIONS.index(operation)] = 50.0
    found = torch.full((1, 1, len(numbers), 3), NEVER)
    for place, one in enumerate(numbers):
        chance = (1 - sure, sure) if place in marks else (sure, 1 - sure) if one else (1.0, 0.0)
        found[0, 0, place, :2] = torch.tensor(chance).log().clamp(min=NEVER)
    table = torch.tensor([classes(one, WIDTH) for one in known] + [classes("", WIDTH)])
    places = torch.tensor([[[at[0], at[-1]]]])
    signs = torch.zeros(1, 1, 2, dtype=torch.int64)
    positions = torch.arange(len(numbers))[None, None]
    return Pointing(scores, operator, found, values, positions, places, signs, table, TAKES)


def targets(operation, operands):
    """The tensors of a row."""
    limits = Limits(WIDTH - 1, 9, operations=tuple(OPERATIONS))
    (step,) = check_columns({"igc_operator": operation, "igc_operands": operands}, limits)
    made = encode_steps([[step]], limits)
    return Targets(*(made[f"igc_{name}"] for name in Targets._fields))


def test_a_set_is_as_probable_as_the_least_sure_of_its_marks_however_long_it_is():
    found = pointing(["3", "", "5", "8", *["9"] * 40], "sum", marks=(0, 2))
    *chances, operation = found.chances()
    assert OPERATIONS[operation.item()] == "sum"
    assert [one.item() for one in chances] == pytest.approx([1, 1, 0.99])
    found.marks[0, 0, 3, :2] = torch.tensor([0.7, 0.3]).log()
    assert found.chances().operands.item() == pytest.approx(0.7)


def test_two_operands_are_as_probable_as_among_all_pairs_of_two_places():
    found, equal = pointing(["3", "", "5"], "-"), pointing(["3", "5", "3"], "-")
    found.scores[0, 0, :, ::2, 0] = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()
    assert found.chances().operands.item() == pytest.approx(0.72 / (0.72 + 0.02), rel=1e-5)
    equal.scores[..., 0] = torch.tensor([0.5, 0.2, 0.3]).log()
    assert equal.chances().operands.item() == pytest.approx(2 * 0.5 * 0.3 / (1 - 0.25 - 0.04 - 0.09), rel=1e-5)


def test_an_adapter_with_an_operation_of_one_number_and_none_of_many_has_no_marks():
    one = pointing(["3", "", "5"], "square")._replace(marks=torch.zeros(1, 1, 0, 3))
    assert one.chances().operands.item() == pytest.approx(1)
    assert one.summary().shape == (1, 1, 8)


def test_marks_are_due_where_the_operands_are_and_ignored_where_one_may_be_another_number():
    for numbers, operands, due in (
        (["3", "", "5", "8"], ["3", "5"], [1, 0, 1, 0]),
        (["3", "5", "3"], ["3", "5", "3"], [1, 1, 1]),
        (["3", "5", "3"], ["3", "5"], [1, 1, 0]),
        (["3", "3", "5"], ["3", "5"], [IGNORE, IGNORE, 1]),
        (["2.5", "1", "2"], ["2.50", "2"], [1, 0, 1]),
        (["3", "5"], ["-3", "5"], [2, 1]),
    ):
        assert pointing(numbers, "sum")._due_marks(targets("sum", operands)).tolist() == [[due]]


def test_the_loss_of_a_set_is_that_of_its_marks_and_of_its_ends_and_of_a_single_number_that_of_the_first_pointer():
    anchors = torch.zeros(1, 1, dtype=torch.int64)

    def told(found, due):
        loss, _, correct = reading_loss(found, due, anchors, found.choose())
        return round(loss.item(), 4), correct.item()

    good, bad = (pointing(["3", "", "5", "8"], "sum", marks=marks) for marks in ((0, 2, 3), (0, 2)))
    due = round(-3 * torch.tensor(0.99).log().item(), 4)
    assert told(good, targets("sum", ["3", "5", "8"])) == (due, True)
    loss, correct = told(bad, targets("sum", ["3", "5", "8"]))
    assert 4 < loss < 9
    assert not correct
    loss, correct = told(bad, targets("sum", ["3", "5"]))  # the marks are right, and the second pointer is at the 8
    assert loss > 99
    assert correct
    assert told(pointing(["3", "", "5"], "square"), targets("square", ["3"])) == (0.0, True)
    assert not told(pointing(["3", "", "5"], "square"), targets("square", ["5"]))[1]


def test_groups_of_contexts_with_marks_are_joined():
    short, long = pointing(["3", "5"], "sum", marks=(0, 1)), pointing(["", "3", "5"], "sum", marks=(1, 2))
    parts = [part.mapped(lambda x: x.flatten(0, 1)) for part in (short, long)]
    joined = concatenate(parts)
    assert joined.chances().operands.tolist() == pytest.approx([0.99] * 2)
    first, second = joined.cooled(2.0).chances().operands.tolist()
    assert first == pytest.approx(second)
    read = [[one for one in row[8:] if one >= 0 and one % 3] for row in joined.summary().tolist()]
    assert read == [[0 * 3 + 1, 1 * 3 + 1], [1 * 3 + 1, 2 * 3 + 1]]
