"""MAWPS in two halves: no wording is in both, and what is trained has the label that its expression says."""

import json

import pytest

from benchmarks.accuracy.mawps_halves import MOST_ALIKE, alike, is_trained, measured_half, trained_rows, words
from peft_igc.demo.real_text import ASSISTANT, GSM8K, MAWPS, ROLEPLAY


@pytest.fixture
def folder(tmp_path):
    """Sixty wordings with three names and numbers each, and questions of the kinds that are not trained."""
    items = []
    for at in range(60):
        for name, a, b in (("Ann", 12, 5), ("Bob", 7, 3), ("Carl", 40, 8)):
            thing = " ".join(f"{word}{'s' * at}" for word in ("green", "old", "small", "ripe", "pears"))
            items.append({"question": f"{name} has {a} {thing} and buys {b} more. How many {thing} are there?",
                          "expression": f"{a} + {b}", "answer": str(a + b)})
    items += [
        {"question": " ".join(f"{one}{'y' * at}" for one in ("3 bags", "4 nuts", "5 pins", "a box", "a cup", "a lid")),
         "expression": "(3 * 4) + 5", "answer": "17"}
        for at in range(20)
    ]  # fmt: skip
    others = ("a third number 9 12 5", "half of 12", "1.5 and 12", "12 only")
    items += [
        {"question": f"{text} {'z' * at}?", "expression": "12 + 5" if at % 2 else "1.5 + 12", "answer": "17"}
        for text in others for at in range(10)
    ]  # fmt: skip
    other = {"question": "Why?", "answer": "So.", "prompt": "Why?", "asks_for_a_calculation": False}
    for name, lines in ((MAWPS, items), *((name, [other]) for name in (GSM8K, ROLEPLAY, ASSISTANT))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_questions_that_differ_in_numbers_and_names_only_are_in_one_half():
    texts = ["{} has {} pears and buys {} more.", "{} sold {} of {} cars.", "In May {} lost {} and {} coins."]
    for text in texts:
        halves = {is_trained(text.format(*said)) for said in (("Ann", 3, "5"), ("Bob", 12, "1,500"), ("Mia", 0, 2.5))}
        assert len(halves) == 1


def test_the_halves_have_no_wording_in_common_and_are_about_equal(folder):
    trained = {row["prompt"][0]["content"] for row in trained_rows(folder)}
    sets = measured_half(folder)
    measured = {item["prompt"] for items in sets.values() for item in items}
    assert not trained & measured
    assert max(alike(words(one), words(other)) for one in measured for other in trained) < MOST_ALIKE
    things = [{text.split()[-3] for text in half if "buys" in text} for half in (trained, measured)]
    assert len(things[0] | things[1]) == 60
    assert not things[0] & things[1]
    assert 0.3 < len(things[0]) / 60 < 0.7
    assert len(sets["several_steps_mawps"]) > 3


def test_a_question_of_one_step_is_a_calculation_and_one_of_several_steps_is_none(folder):
    labels = {row["prompt"][0]["content"]: row for row in trained_rows(folder)}
    steps = [row for text, row in labels.items() if "buys" in text]
    assert {(row["igc_operator"], *row["igc_operands"], row["igc_result"]) for row in steps} == {
        ("+", "12", "5", "17"), ("+", "7", "3", "10"), ("+", "40", "8", "48")
    }  # fmt: skip
    assert all(row["completion"][0]["content"] == row["igc_result"] for row in steps)
    assert {row["igc_operator"] for text, row in labels.items() if "bag" in text} == {"none"}
    assert not [text for text in labels if "buys" not in text and "bag" not in text]


def test_a_question_that_is_much_like_a_trained_one_is_not_measured():
    one, other = "Tom has 9 yellow balloons Sara has 8.", "Tom has 9 yellow balloons. Sara has 8 now."
    assert alike(words(one), words(other)) >= MOST_ALIKE
    assert alike(words(one), words("There are 9 ships in the old harbour.")) < MOST_ALIKE
