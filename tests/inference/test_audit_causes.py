"""Promises of `audit_causes`: each cause is named where it is the first thing that went wrong, and nowhere else."""

import pytest

from peft_igc.inference.audit_causes import CAUSES, Expected, ReadStep, Writes, cause_of, expected_of
from peft_igc.text import Reason


OPEN = Writes((0.99, 0.98))
ITEM = {"prompt": "What is 58 minus 36?", "target": "22"}


def read(a="58", operator="-", b="36", result="22", **fields):
    """A step in the prompt."""
    known = {"in_prompt": True, "asked": operator != "none", "status": "ok" if result else "none"}
    return ReadStep(operands=(a, b), operator=operator, result=result, **(known | fields))


CASES = {
    "no anchor": (ITEM, "7", [], OPEN, "no_anchor"),
    "the first operand": (ITEM, "17", [read("53", result="17")], OPEN, "operand"),
    "the operands are exchanged": (ITEM, "-22", [read("36", "-", "58", "-22")], OPEN, "operand"),
    "a wrong operand is why the operator is wrong": (ITEM, "7", [read("5", "none", "36", None)], OPEN, "operand"),
    "the operator": (ITEM, "94", [read(operator="+", result="94")], OPEN, "operator"),
    "none instead of an operator": (ITEM, "7", [read(operator="none", result=None)], OPEN, "operator"),
    "a division that is none": (ITEM, "7", [read(operator="/", result=None, status="inexact")], OPEN, "operator"),
    "a third number beside": (ITEM, "7", [read(operator="none", result=None, asked=True)], OPEN, "refused"),
    "less probable than confidence": (ITEM, "7", [read(result=None)], OPEN, "unsure"),
    "a sign": (ITEM, "94", [read(b="-36", result="94")], OPEN, "sign"),
    "a rule": (ITEM, "7", [read(result=None, reason=Reason.MALFORMED)], OPEN, "refused"),
    "a rule about the chosen numbers": (ITEM, "7", [read(result=None, reason=Reason.OTHER_NUMBER)], OPEN, "refused"),
    "other numbers were chosen": (ITEM, "7", [read("8", result=None, reason=Reason.OTHER_NUMBER)], OPEN, "operand"),
    "a sign that rules do not see": (ITEM, "7", [read(b="-36", result=None, reason=Reason.LOOK_ALIKE)], OPEN, "sign"),
    "an overflow": (ITEM, "7", [read(result=None, status="overflow")], OPEN, "status"),
    "a symbol that is not asked": (
        {"prompt": "58-36=", "target": "22"},
        "7",
        [read(result=None, expression="58-36", asked=False)],
        OPEN,
        "operator",
    ),
    "another expression": (ITEM, "21", [read(result="21", expression="57-36")], OPEN, "expression"),
    "an inexact expression": (ITEM, "2", [read(result=None, status="inexact", expression="1/3")], OPEN, "status"),
    "nothing was written": (ITEM, "7", [read()], Writes(), "gate"),
    "closed gates": (ITEM, "7", [read()], Writes((0.02, 0.1)), "gate"),
    "closed gates, and the base says a number": (ITEM, "22 is 7", [read()], Writes((0.02, 0.1)), "gate"),
    "one gate": (ITEM, "27", [read()], Writes((0.9, 0.1)), "gate"),
    "half open gates": (ITEM, "27", [read()], Writes((0.7, 0.6), opened=True), "gate"),
    "overruled": (ITEM, "27", [read()], Writes((0.9, 0.8), opened=False), "overruled"),
    "the end is overruled": (ITEM, "22 or 7", [read()], Writes((0.9, 0.8), opened=False), "overruled"),
    "no gate helps": (ITEM, "27", [read()], Writes((0.9, 0.1), opened=False), "overruled"),
    "another token first": (ITEM, "7, no 22.", [read()], Writes((0.9, 0.9), opened=False), "overruled"),
    "a word behind": (ITEM, "22 clips", [read()], Writes((0.9, 0.1)), "formatting"),
    "words before": (ITEM, "It is 22.", [read()], Writes((0.1, 0.9)), "formatting"),
    "separators": (ITEM | {"target": "1,022"}, "1022", [read(result="1022")], OPEN, "formatting"),
    "a longer number is another": (ITEM, "220", [read()], Writes((0.9, 0.9), False), "overruled"),
    "no result, but the base is asked": (ITEM | {"igc_operator": "none"}, "7", [read(result=None)], OPEN, "base"),
    "not silent": (ITEM | {"igc_operator": "none"}, "22", [read()], OPEN, "silent"),
    "not silent in talk": ({"prompt": "Hello!", "target": "Hi!"}, "12", [read("5", "+", "7", "12")], OPEN, "silent"),
    "the target is another": (ITEM | {"target": "23"}, "22", [read()], OPEN, "target"),
    "nobody knows": ({"prompt": "How many?", "target": "5"}, "22", [read()], OPEN, "misread"),
    "the step of the prompt counts": (ITEM, "7", [read("5"), read(in_prompt=False, result="3")], OPEN, "operand"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_the_first_thing_that_went_wrong(name):
    item, answer, steps, writes, wanted = CASES[name]
    if name == "the step of the prompt counts":
        steps = [read("5", result="-31"), steps[1]]
    cause, detail = cause_of(item, answer, False, steps, writes)
    assert (cause, isinstance(detail, str)) == (wanted, True)


def test_a_right_answer_that_was_cut_is_named():
    assert cause_of(ITEM, "22", True, [read()], OPEN)[0] == "cut"


def test_every_cause_has_a_case_and_names_a_part():
    assert {case[4] for case in CASES.values()} | {"cut"} == set(CAUSES)
    assert all(cause.title and cause.part for cause in CAUSES.values())


def test_the_detail_of_a_misreading_has_both_calculations():
    assert cause_of(ITEM, "17", False, [read("53", result="17")], OPEN)[1] == "53 - 36 instead of 58 - 36"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"igc_operator": "/", "igc_operands": ["8", 2], "target": "4"}, Expected("/", ("8", "2"))),
        ({"igc_operator": "none", "igc_operands": None, "target": "4"}, Expected("none")),
        ({"prompt": "What is -5 times 7?", "target": "-35"}, Expected("*", ("-5", "7"))),
        ({"prompt": "I had 1,234 and got 56 more.", "target": "1290"}, Expected("+", ("1234", "56"))),
        ({"prompt": "Of 90 birds 31 flew.", "target": "59"}, Expected("-", ("90", "31"))),
        ({"prompt": "Of 90 birds 31 flew.", "target": "60"}, None),
        ({"prompt": "2 and 2", "target": "4"}, None),  # their sum or their product
        ({"prompt": "Version 1.5 of 3", "target": "4"}, None),  # 1.5 is no integer
        ({"prompt": "Tell me of 5 and 7.", "target": "Gladly."}, Expected("none")),
    ],
)
def test_what_should_have_been_read_is_found_or_left_open(item, expected):
    assert expected_of({"prompt": "", **item}) == expected
