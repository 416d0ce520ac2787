"""Promises of `causes`: each cause is named where it is the first thing that went wrong, and nowhere else."""

from peft_igc.inference.causes import CAUSES, Expected, cause_of, expected_of
from peft_igc.inference.records import Answer, NumberRecord, StepRecord, TextRecord, TokenRecord


OPEN = (0.99, 0.98)
INEXACT = {"status": "inexact", "reason": "inexact"}
ITEM = {"prompt": "What is 58 minus 36?", "target": "22"}
SYMBOLS = {"prompt": "58-36=", "target": "22"}


def read(a="58", operator="-", b="36", result="22", **fields):
    """A step in the prompt."""
    silent = {"status": "none", "reason": "no_arithmetic" if operator == "none" else "unsure"}
    known = {"position": 5, "status": "ok", "expression": None if operator == "none" else f"{a} {operator} {b}"}
    known |= {} if result else silent
    operands = tuple(NumberRecord(text, 0.9, 0.9) for text in (a, b))
    return StepRecord(result=result, operands=operands, operator=operator, **(known | fields))


def by_rule(expression, **fields):
    """A step whose expression in symbols the rules read."""
    return read(expression=expression, expression_span=(0, 4), **fields)


CASES = {
    "no anchor": (ITEM, "7", [], OPEN, "no_anchor"),
    "the first operand": (ITEM, "17", [read("53", result="17")], OPEN, "operand"),
    "the operands are exchanged": (ITEM, "-22", [read("36", "-", "58", "-22")], OPEN, "operand"),
    "a wrong operand is why the operator is wrong": (ITEM, "7", [read("5", "none", "36", None)], OPEN, "operand"),
    "the operator": (ITEM, "94", [read(operator="+", result="94")], OPEN, "operator"),
    "none instead of an operator": (ITEM, "7", [read(operator="none", result=None)], OPEN, "operator"),
    "a division that is none": (ITEM, "7", [read(operator="/", result=None, **INEXACT)], OPEN, "operator"),
    "words that contradict": (ITEM, "7", [read(result=None, reason="other_operation")], OPEN, "refused"),
    "less probable than confidence": (ITEM, "7", [read(result=None)], OPEN, "unsure"),
    "a sign": (ITEM, "94", [read(b="-36", result="94")], OPEN, "sign"),
    "a rule": (ITEM, "7", [read(result=None, reason="malformed")], OPEN, "refused"),
    "a rule about the chosen numbers": (ITEM, "7", [read(result=None, reason="other_number")], OPEN, "refused"),
    "other numbers were chosen": (ITEM, "7", [read("8", result=None, reason="other_number")], OPEN, "operand"),
    "other words": (ITEM, "7", [read(operator="+", result=None, reason="other_operation")], OPEN, "operator"),
    "a sign that rules do not see": (ITEM, "7", [read(b="-36", result=None, reason="look_alike")], OPEN, "sign"),
    "an overflow": (ITEM, "7", [read(result=None, status="overflow", reason="overflow")], OPEN, "status"),
    "not asked": (SYMBOLS, "7", [by_rule("58-36", result=None, reason="no_arithmetic")], OPEN, "operator"),
    "another expression": (ITEM, "21", [by_rule("57-36", result="21")], OPEN, "expression"),
    "an inexact expression": (ITEM, "2", [by_rule("1/3", result=None, **INEXACT)], OPEN, "status"),
    "nothing was written": (ITEM, "7", [read()], (), "gate"),
    "closed gates": (ITEM, "7", [read()], (0.02, 0.1), "gate"),
    "closed gates, and the base says a number": (ITEM, "22 is 7", [read()], (0.02, 0.1), "gate"),
    "one gate": (ITEM, "27", [read()], (0.9, 0.1), "gate"),
    "half open gates": (ITEM, "27", [read()], ((0.7, 0.6), True), "gate"),
    "overruled": (ITEM, "27", [read()], ((0.9, 0.8), False), "overruled"),
    "the end is overruled": (ITEM, "22 or 7", [read()], ((0.9, 0.8), False), "overruled"),
    "no gate helps": (ITEM, "27", [read()], ((0.9, 0.1), False), "overruled"),
    "another token first": (ITEM, "7, no 22.", [read()], ((0.9, 0.9), False), "overruled"),
    "a word behind": (ITEM, "22 clips", [read()], (0.9, 0.1), "formatting"),
    "words before": (ITEM, "It is 22.", [read()], (0.1, 0.9), "formatting"),
    "separators": (ITEM | {"target": "1,022"}, "1022", [read(result="1022")], OPEN, "formatting"),
    "a longer number is another": (ITEM, "220", [read()], ((0.9, 0.9), False), "overruled"),
    "no result, but the base is asked": (ITEM | {"igc_operator": "none"}, "7", [read(result=None)], OPEN, "base"),
    "not silent": (ITEM | {"igc_operator": "none"}, "22", [read()], OPEN, "silent"),
    "not silent in talk": ({"prompt": "Hello!", "target": "Hi!"}, "12", [read("5", "+", "7", "12")], OPEN, "silent"),
    "the target is another": (ITEM | {"target": "23"}, "22", [read()], OPEN, "target"),
    "nobody knows": ({"prompt": "How many?", "target": "5"}, "22", [read()], OPEN, "misread"),
    "the prompt's step": (
        ITEM,
        "7",
        [read("5", result="-31"), read(position=12, result="3")],
        OPEN,
        "operand",
    ),
}


def caused(item, answer, steps, gates, cut=False):
    """The cause of an answer; `gates` may have whether open gates mend it."""
    gates, opened = gates if gates and isinstance(gates[0], tuple) else (gates, None)
    prompt = [TokenRecord("", None, generated=False) for _ in range(10)]
    text = TextRecord(0, (*prompt, *(TokenRecord("", gate) for gate in gates)), tuple(steps))
    return cause_of(item, Answer(answer, cut, text.steps, text), opened)


def test_the_cause_is_the_first_thing_that_went_wrong():
    for name, (item, answer, steps, gates, wanted) in CASES.items():
        assert caused(item, answer, steps, gates)[0] == wanted, name
    assert caused(ITEM, "22", [read()], OPEN, cut=True)[0] == "cut"
    assert {case[4] for case in CASES.values()} | {"cut"} == set(CAUSES)
    assert caused(ITEM, "17", [read("53", result="17")], OPEN)[1] == "53 - 36 instead of 58 - 36"


def test_a_cause_advises_users_and_names_a_part_for_developers():
    for cause in CAUSES.values():
        assert all((cause.title, cause.advice, cause.part))
        assert not any(part in cause.advice for part in ("_head", "pointer", "encoder", "gate_"))


def test_what_should_have_been_read_is_found_or_left_open():
    for item, expected in [
        ({"igc_operator": "/", "igc_operands": ["8", 2], "target": "4"}, Expected("/", ("8", "2"))),
        ({"igc_operator": "none", "igc_operands": None, "target": "4"}, Expected("none")),
        ({"prompt": "What is -5 times 7?", "target": "-35"}, Expected("*", ("-5", "7"))),
        ({"prompt": "Of 90 birds 31 flew.", "target": "59"}, None),
        ({"prompt": "Tell me of 5 and 7.", "target": "Gladly."}, Expected("none")),
    ]:
        assert expected_of({"prompt": "", **item}) == expected
