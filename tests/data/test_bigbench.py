"""Promises of `bigbench`: the task's exact form, right and reproducible items."""

import collections

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.bigbench import GROUPS, bigbench_items, bigbench_size, bigbench_test_set, parse_question
from tests.data.test_arithmetic import exact, triple


WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}
NAMES = {"+": "addition", "-": "subtraction", "*": "multiplication", "/": "division"}


def test_items_have_the_task_s_form_and_are_right():
    assert set(GROUPS) == {f"{d}_digit_{name}" for d in range(1, 6) for name in NAMES.values()}
    for group in GROUPS:
        n = min(300, bigbench_size(group))
        items = bigbench_items(group, n, seed=3)
        assert len({triple(item) for item in items}) == n
        for item in items:
            a, operator, b = triple(item)
            assert item["group"] == group == f"{len(str(a))}_digit_{NAMES[operator]}"
            assert item["prompt"] == f"What is {a} {WORDS[operator]} {b}?"
            assert item["target"] == item["igc_result"] == str(exact(a, operator, b))
            assert operator == "/" or len(str(b)) == len(str(a))


def test_the_test_set_takes_what_there_is_and_depends_on_the_seed_only():
    items = bigbench_test_set()
    counts = collections.Counter(item["group"] for item in items)
    assert counts == {g: 23 if g == "1_digit_division" else 100 if g.startswith("1_digit") else 200 for g in GROUPS}
    assert len({triple(item) for item in items}) == len(items) == 3523
    assert bigbench_test_set(20, seed=1) == bigbench_test_set(20, seed=1) != bigbench_test_set(20, seed=2)
    # On every machine: these numbers are the same everywhere, or results cannot be compared.
    prompts = [item["prompt"] for item in bigbench_items("5_digit_division", 2, seed=0)]
    assert prompts == ["What is 66743 divided by 31?", "What is 48313 divided by 48313?"]


def test_a_question_is_found_in_a_text():
    for text, question in (
        ("What is 0 plus 1?", ("0", "+", "1")),
        ("\nQ: What is 12 divided by 4?\nA: ", ("12", "/", "4")),
        ("What is -3 minus -5?", ("-3", "-", "-5")),
        ("What is 1 plus 1?\n2\nWhat is 2 plus 2?", None),
        ("What is 1 plus one?", None),
        ("What is 1.5 plus 1?", None),
    ):
        assert parse_question(text) == question
    prompts = [{"prompt": "What is 12 minus 40?"}, {"prompt": "What is 7 plus 5?"}]
    assert ArithmeticRows(exclude=prompts).operands.excluded == {(12, "-", 40)}
