"""Promises of `igc_expression` in training: compared with the text, encoded, learned as one question."""

import functools
import json
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from numbers_as_digits import decode

from peft_igc import IGCConfig, assistant_header, tiny_base
from peft_igc.data.files import read_rows
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.mappings.readings import IGNORE, Choice, Reading, Targets, reading_loss
from peft_igc.numbers.calculator import Status
from peft_igc.trainer.collator import IGCDataCollator
from peft_igc.trainer.labels import STEPS, RowCheck, checked_rows


PLUS, NONE, ASKED = 0, 4, 5  # classes of `igc_operator` with four operations
LINES = read_rows(Path(__file__).with_name("expressions.jsonl"))


@functools.cache
def tools(**options):
    """The embedded tokenizer, a config and its collator."""
    tokenizer = tiny_base()[1]
    config = IGCConfig.from_tokenizer(tokenizer, num_digits=12, result_digits=12, **options)
    return tokenizer, config, IGCDataCollator(pad_token_id=0, igc_config=config, tokenizer=tokenizer)


def row(question, answer, **columns):
    """A tokenized row of one turn."""
    tokenizer = tools()[0]
    (ids,) = prompt_tokens(tokenizer, [question], raw=False)
    text = tokenizer(answer, add_special_tokens=False)["input_ids"]
    return {"input_ids": ids + text, "labels": [-100] * len(ids) + text, **columns}


def labels_of(question, **columns):
    """The operator's class, the result or None, and the status of a row's step."""
    batch = tools()[2]([row(question, "0", **columns)])
    status = Status(int(batch["igc_result_status"][0, 0]))
    result = decode(batch["igc_result"][0], batch["igc_result_sign"][0])[0] if status == Status.OK else None
    return int(batch["igc_operator"][0, 0]), result, status


@pytest.mark.parametrize("line", [line for line in LINES if "label" in line], ids=lambda line: line["question"])
def test_an_expression_becomes_the_label_of_what_is_read(line):
    expected = line["label"], line["result"], Status[line["status"]]
    assert labels_of(line["question"], igc_expression=line["expression"]) == expected


def test_the_operands_of_a_pair_are_those_of_the_operand_columns():
    question = "What is 796 -229?"
    by_columns = row(question, "567", igc_operator="-", igc_operands=["796", "229"], igc_result="567")
    batch = tools()[2]([by_columns, row(question, "567", igc_expression="796 - 229")])
    for name in ("igc_operator", "igc_operands", "igc_signs", "igc_result", "igc_result_sign", "igc_result_status"):
        assert torch.equal(batch[name][0], batch[name][1]), name


@pytest.mark.parametrize("line", [line for line in LINES if "message" in line], ids=lambda line: line["question"])
def test_a_text_that_says_another_expression_is_refused(line):
    with pytest.raises(ValueError, match=line["message"]):
        labels_of(line["question"], igc_expression=line["expression"])


@pytest.mark.parametrize("question", ["Add 3, 4 and 5.", "(3 + 4 + 5", "At 5 o'clock I had 3 + 4 + 5. How many?"])
def test_an_expression_that_rules_do_not_read_is_not_supervised(question, caplog):
    _, _, collator = tools(max_operands=7)  # one that has not warned yet
    collator._warned = False
    batch = collator([row(question, "12", igc_expression="3 + 4 + 5")])
    collator([row(question, "12", igc_expression="3 + 4 + 5")])
    assert batch["igc_operator"].tolist() == [[IGNORE]]
    assert batch["igc_result_status"].tolist() == [[int(Status.NONE)]]
    assert caplog.text.count("the text says no expression that rules read") == 1


def test_answers_that_are_other_numbers_than_the_columns_give_are_told(caplog):
    tokenizer, config, _ = tools()
    check, minus = RowCheck(config, tokenizer, "train", None, False), {"igc_operator": "-", "igc_expression": None}
    right = row("What is 9 minus 4?", "5", igc_operands=["9", "4"], **minus)
    said = row("What is 9 minus 4?", "It is -5.", igc_operands=["9", "4"], **minus)
    swapped = row("What is 9 minus 4?", "5", igc_operands=["4", "9"], **minus)
    checked_rows(Dataset.from_list([right, said]), check, None)
    assert "another number" not in caplog.text
    checked_rows(Dataset.from_list([right, swapped]), check, None)
    assert "In 1 of 2 rows of the train dataset the answer is another number than the calculator's" in caplog.text
    assert "train dataset, row 1: the answer is 5, the columns give -5)" in caplog.text


def test_a_dataset_is_checked_before_training_and_its_unread_rows_are_counted():
    tokenizer, config, _ = tools()
    check = RowCheck(config, tokenizer, "train", None, False)
    good = row("What is (3 + 4) * 2?", "14", igc_expression="(3 + 4) * 2")
    unread = lambda row: json.loads(check(row, 0)[STEPS])["unread"]  # noqa: E731
    assert unread(good) == unread(row("Owls?", "Yes.", igc_expression=None)) == []
    (reason,) = unread(row("Add 3, 4 and 5.", "12", igc_expression="3 + 4 + 5"))
    assert "'3 + 4 + 5': " in reason
    wrong = [row(f"3 + {n} =", "8", igc_expression="3 + 4") for n in (5, 6)]
    said = r"(?s)row 1: `igc_expression` '3 \+ 4' is 7, but the text.*row 2: .*value 9.*\n2 of 3 rows are wrong\."
    with pytest.raises(ValueError, match=said):
        checked_rows(Dataset.from_list([good, *wrong]), check, None)


def test_each_of_several_steps_may_have_an_expression():
    tokenizer = tools()[0]
    config = IGCConfig.from_tokenizer(tokenizer, num_digits=12, anchors=["=", assistant_header(tokenizer)])
    collator = IGCDataCollator(pad_token_id=0, igc_config=config, tokenizer=tokenizer)
    steps = row("Work it out.", "(3 + 4) * 2 = 14, and 14 / 7 = 2.", igc_operator=["none", None, None])
    batch = collator([steps | {"igc_expression": [None, "(3 + 4) * 2", "14 / 7"]}])
    assert batch["igc_operator"].tolist() == [[NONE, ASKED, 3]]
    swapped = steps | {"igc_expression": [None, "14 / 7", "(3 + 4) * 2"]}
    with pytest.raises(ValueError, match="'14 / 7' is 2, but the text .* with the value 14"):
        collator([swapped])


def test_the_hidden_interface_takes_pairs_only():
    collator = IGCDataCollator(pad_token_id=0, igc_config=IGCConfig(layer=1), tokenizer=tools()[0])
    batch = collator([row("Add 12 to 5.", "17", igc_expression="12 + 5")])
    assert batch["igc_operator"].tolist() == [[PLUS]]
    with pytest.raises(ValueError, match=r"'3 \+ 4 \+ 5' is not one operation on two integers"):
        collator([row("3 + 4 + 5", "12", igc_expression="3 + 4 + 5")])


def test_of_an_expression_the_reading_learns_only_that_it_is_asked():
    torch.manual_seed(0)
    operator = torch.randn(2, 1, 5, requires_grad=True)
    reading = Reading(torch.randn(2, 1, 2, 3, 11), torch.randn(2, 1, 2, 2), operator)
    none = torch.zeros(2, 1, dtype=torch.int64)
    known = {"operands": torch.full((2, 1, 2, 3), 10), "signs": torch.zeros(2, 1, 2, dtype=torch.int64)}
    known |= {"operator": none + ASKED, "result": torch.full((2, 1, 4), 10)}
    targets = Targets(**(dict.fromkeys(Targets._fields, none) | known))
    anchors = torch.tensor([[3], [-1]])
    silent = Choice(torch.full((2, 1, 2, 3), 10), targets.signs, none + NONE, *[torch.ones(2, 1)] * 3)
    loss, supervised, correct = reading_loss(reading, targets, anchors, silent)
    chances = operator.softmax(-1)
    torch.testing.assert_close(loss[0, 0], -(1 - chances[0, 0, NONE]).log())
    assert supervised.tolist() == [[True], [False]]
    assert correct[0, 0] == (int(chances[0, 0].argmax()) != NONE)
    loss.sum().backward()
    gradient = operator.grad[0, 0]
    assert gradient[NONE] > 0 > gradient[:NONE].max()  # every operation gains, in proportion to its chance
    torch.testing.assert_close(gradient[:NONE] / gradient[0], (chances[0, 0, :NONE] / chances[0, 0, 0]).detach())
    assert not operator.grad[1].any()
