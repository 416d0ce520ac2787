"""Operations of one number and of many: marks, their probability, their loss, and what is decided.

Try it: `pytest tests/mappings/test_marks.py`
"""

import dataclasses

import pytest
import torch

from peft_igc import tiny_igc
from peft_igc.data.columns import check_columns, encode_steps
from peft_igc.mappings.decisions import decided
from peft_igc.mappings.places import StepTexts, place_tensors
from peft_igc.mappings.readings import IGNORE, NEVER, SCALE, Mark, Pointing, Targets, concatenate, reading_loss
from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import classes
from peft_igc.text.values import Limits
from peft_igc.tuner.adapter import make_mappings


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
    made = encode_steps([[step]], num_digits=WIDTH - 1, result_digits=9, operations=OPERATIONS)
    return Targets(*(made[f"igc_{name}"] for name in Targets._fields))


def test_a_set_is_as_probable_as_the_least_sure_of_its_marks_however_long_it_is():
    found = pointing(["3", "", "5", "8", *["9"] * 40], "sum", marks=(0, 2))
    asked, sure, operation = found.chances()
    assert OPERATIONS[operation.item()] == "sum"
    assert asked.item() == pytest.approx(1)
    assert sure.item() == pytest.approx(0.99)
    found.marks[0, 0, 3, :2] = torch.tensor([0.7, 0.3]).log()
    assert found.chances()[1].item() == pytest.approx(0.7)
    assert pointing(["3", "", "5"], "+").chances()[1].item() == pytest.approx(1)
    assert pointing(["3", "", "5"], "square").chances()[1].item() == pytest.approx(1)


@pytest.mark.parametrize(
    ("numbers", "operands", "due"),
    [
        (["3", "", "5", "8"], ["3", "5"], [1, 0, 1, 0]),
        (["3", "5", "3"], ["3", "5", "3"], [1, 1, 1]),
        (["3", "5", "3"], ["3", "5"], [1, 1, 0]),
        (["3", "3", "5"], ["3", "5"], [IGNORE, IGNORE, 1]),
        (["2.5", "1", "2"], ["2.50", "2"], [1, 0, 1]),
        (["3", "5"], ["-3", "5"], [2, 1]),
    ],
)
def test_marks_are_due_where_the_operands_stand_and_ignored_where_one_may_be_another_number(numbers, operands, due):
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
    assert joined.chances()[1].tolist() == pytest.approx([0.99] * 2)
    assert joined.cooled(2.0).chances()[1][0].item() == pytest.approx(joined.cooled(2.0).chances()[1][1].item())
    read = [[one for one in row[7:] if one >= 0 and one % 3] for row in joined.summary().tolist()]
    assert read == [[0 * 3 + 1, 1 * 3 + 1], [1 * 3 + 1, 2 * 3 + 1]]


@pytest.fixture(scope="module")
def many():
    """The config of the shipped adapter with more operations, its tokenizer, and a mapping with random weights."""
    model, tokenizer = tiny_igc()
    shipped = model.peft_config["default"]
    config = dataclasses.replace(shipped, operations=OPERATIONS, vocabulary=shipped.vocabulary)
    torch.manual_seed(0)
    reader, _ = make_mappings(config, model.config.hidden_size, model.get_input_embeddings())
    return config, tokenizer, reader.eval()


def texts_of(many, text, since=0, most=512):
    """One step at the end of a request."""
    config, tokenizer, _ = many
    message = [{"role": "user", "content": text}]
    ids = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=True)["input_ids"]
    row, anchor = torch.tensor([ids]), torch.tensor([[len(ids) - 1]])
    return StepTexts.of(config.token_table, most, row, anchor, torch.tensor([[since]]))


def decision(many, text, operation, marked=None, most=512):
    """What becomes of a request where the network marks some of its numbers, or all."""
    config, texts = many[0], texts_of(many, text, most=most)

    def read(steps):
        places = texts.places[0]
        numbers = [at for at, run in places.numbers.items() if run.digits is not None]
        chosen = numbers if marked is None else [numbers[one] for one in marked]
        marks = [place * 3 + (Mark.OPERAND if at in chosen else Mark.NO_OPERAND) for at, place in enumerate(places.at)]
        pair = [places.at[one] for one in (chosen[0], chosen[-1])]
        return [[OPERATIONS.index(operation), SCALE, SCALE, *pair, 0, 0, *marks]]

    return decided(Limits.of(config), config.confidence, texts, read)[0]


RECEIPT = "milk 1.50\nbread 2.25\ntea 4\nWhat do I owe?"


@pytest.mark.parametrize(
    ("text", "operation", "marked", "value"),
    [
        (RECEIPT, "sum", None, "7.75"),
        (RECEIPT, "sum", [0, 2], "5.5"),
        (RECEIPT, "mean", [0, 1], "1.875"),
        ("the 3 of us paid 5, 5 and 8 in all", "sum", [1, 2, 3], "18"),
        ("12 squared, please", "square", None, "144"),
        ("15% of 80", "percent", [1, 0], "12"),
        ("What is 12 plus 30?", "+", None, "42"),
    ],
)
def test_a_set_of_numbers_is_calculated(many, text, operation, marked, value):
    found = decision(many, text, operation, marked)
    assert found.status is Status.OK
    assert found.found.text == value


def test_a_set_whose_first_places_are_not_read_is_refused(many):
    assert decision(many, RECEIPT, "sum").status is Status.OK
    assert decision(many, RECEIPT, "sum", most=12).silence == "too_long"


def test_one_number_is_enough_for_some_operations_only(many):
    text = "the square of 12, please"
    assert decision(many, text, "square").status is Status.OK
    config = dataclasses.replace(many[0], operations=["+", "sum"], vocabulary=many[0].vocabulary)
    assert decision((config, *many[1:]), text, "sum").silence == "few_numbers"


def test_an_adapter_of_the_four_operations_has_no_weights_for_marks(many):
    model, _ = tiny_igc()
    assert not [name for name in model.state_dict() if "set_" in name]
    assert [name for name, _ in many[2].named_parameters() if "set_" in name]


def test_the_reading_knows_how_many_numbers_are_around_one_in_its_line(many):
    texts = texts_of(many, "no | price\n1 | 40 | 7\n2 | 50\nall?")
    (places,) = texts.places
    found = {run.digits: divmod(places.columns[at], 4) for at, run in places.numbers.items()}
    assert found == {"1": (0, 2), "40": (1, 1), "7": (2, 0), "2": (0, 1), "50": (1, 0)}
    (fields,) = place_tensors(texts, WIDTH, steps=[0], one_group=True, device="cpu")
    torch.nn.init.normal_(many[2].set_columns.weight)
    kept = torch.zeros(1, len(texts.rows[0]), many[2].compression.weight.shape[0])
    with torch.no_grad():
        first, second = (many[2]._point(kept, one) for one in (fields, fields._replace(columns=fields.columns * 0)))
    assert not torch.equal(first.marks, second.marks)
    torch.nn.init.zeros_(many[2].set_columns.weight)


@pytest.mark.parametrize(
    ("operator", "operands", "result"),
    [
        ("sum", ["3", "5", "8"], "16"),
        ("sum", ["2.50", "0.5"], "3"),
        ("mean", ["3", "4"], "3.5"),
        ("mean", ["3", "4", "4"], "inexact"),
        ("square", ["12"], "144"),
        ("percent", ["80", "15"], "12"),
    ],
)
def test_rows_of_functions_are_checked(operator, operands, result):
    limits = Limits(operations=tuple(OPERATIONS))
    row = {"igc_operator": operator, "igc_operands": operands, "igc_result": result}
    (step,) = check_columns(row, limits)
    assert (step.result or step.status.name.lower()) == result
    with pytest.raises(ValueError, match=rf"contradicts its operands: {operator}\(.*\) is "):
        check_columns(row | {"igc_result": "17"}, limits)
    with pytest.raises(ValueError, match=r"`igc_operands` must hold exactly"):
        check_columns(row | {"igc_operands": []}, limits)
