"""Promises of `suites`: distinct, right items of the kind that each name says, none of them trained."""

import collections
import functools
import re

from benchmarks.accuracy.suites import ARITHMETIC, BY_RULE, SILENT, suites
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.mixture import TOKENS_MIXTURE
from peft_igc.data.wording.drawing import KINDS, OTHER
from peft_igc.data.wording.wording import TRAINING
from peft_igc.numbers.calculator import evaluate_exactly
from peft_igc.text import Limits, Value, read


@functools.cache
def made():
    return suites(300, seed=0)


def test_suites_hold_distinct_items_and_depend_on_the_seed_only():
    assert set(made()) == {*ARITHMETIC, *SILENT, *BY_RULE}
    for name, items in made().items():
        assert len(items) == len({item["prompt"] for item in items}) == 300, name
    assert suites(30, seed=1) == suites(30, seed=1) != suites(30, seed=2)


def test_targets_are_right_and_operands_are_in_the_prompt():
    for name in ARITHMETIC:
        for item in made()[name]:
            a, b = item["igc_operands"]
            assert item["target"] == item["igc_result"] == evaluate_exactly(item["igc_operator"], a, b)
            for number in (a.lstrip("-"), b.lstrip("-")):
                assert re.search(rf"(?<![0-9])({number}|{int(number):,})(?![0-9])", item["prompt"]), item


def test_each_suite_is_about_what_its_name_says():
    found = made()
    made_of = {"limits": Limits(operands=2, decimals=False), "mixture": TOKENS_MIXTURE, "wording": TRAINING}
    prompts = {row["prompt"][-1]["content"] for row in ArithmeticRows(0, max_digits=6, **made_of).take(4000)}
    assert not [name for name, items in found.items() if prompts & {item["prompt"] for item in items}]
    assert all("-" in "".join(item["igc_operands"]) for item in found["negative"])
    assert all(re.search(r"[0-9],[0-9]{3}", item["prompt"]) for item in found["separators"])
    assert all(len(re.findall("[0-9]+", item["prompt"])) > 2 for item in found["distractors"])
    marks = {"decimals": r"[.,][0-9]|point", "percent": "%|per ?cent", "brackets": r"[(\[].*[)\]]"}
    for item in found["unsupported"]:
        assert re.search(marks.get(item["group"], ""), item["prompt"]), item


def test_silent_items_have_no_target_and_come_in_every_kind():
    for name in SILENT:
        assert all(item["target"] is None and item["igc_operator"] == "none" for item in made()[name])
    for name, kinds in (("unsupported", KINDS), ("other_operations", (OTHER,))):
        groups = collections.Counter(item["group"] for item in made()[name])
        assert set(groups) == set(kinds)
        assert min(groups.values()) >= 300 / len(kinds) - 15  # there are not many ways to talk


def test_what_expressions_cover_has_its_value_and_the_rest_of_its_kinds_is_silent():
    values = [read(item["prompt"]) for item in made()["expressions"]]
    assert [value.text for value in values] == [item["target"] for item in made()["expressions"]]
    silent = [item["prompt"] for item in made()["unsupported"] if isinstance(read(item["prompt"]), Value)]
    assert all(re.search("[a-z]{3}.*[0-9]", prompt) for prompt in silent)  # with words between the numbers
    assert {item["group"] for item in made()["expressions"]} == set(KINDS)
