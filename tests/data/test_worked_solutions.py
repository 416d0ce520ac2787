"""Promises of `worked_solutions`: stories and worked solutions are right, seeded, and follow from the question."""

import itertools
import re
from fractions import Fraction

import pytest

from peft_igc.data.worked_solutions import CUES, MOST_STEPS, WorkedCalculations, WorkedSolutions


MARK = re.compile(r"<<(\d+)([-+*/])(\d+)=(\d+)>>(\d+)")
CALCULATION = re.compile(r"= ?(\$?)<<(.+?)=(.+?)>>(-?\d+(?:\.\d+)?)")


@pytest.fixture(scope="module")
def rows():
    return WorkedSolutions(seed=3).take(1200)


def test_every_annotation_is_true_and_its_result_stands_behind_it(rows):
    for row in rows:
        marks = MARK.findall(row["answer"])
        assert len(marks) == row["answer"].count("<<") == row["steps"]
        for a, operator, b, result, written in marks:
            a, b, result = int(a), int(b), int(result)
            expected = {"+": a + b, "-": a - b, "*": a * b, "/": a // b}[operator]
            assert result == expected
            assert operator != "/" or a % b == 0
            assert result == int(written) > 0


def test_every_number_of_a_calculation_was_said_or_calculated_before(rows):
    for row in rows:
        known = set(re.findall(r"\d+", row["question"]))
        for a, _, b, result, _ in MARK.findall(row["answer"]):
            assert {a, b} <= known
            known.add(result)


def test_the_last_line_is_the_last_result(rows):
    for row in rows:
        assert row["answer"].splitlines()[-1] == f"#### {MARK.findall(row['answer'])[-1][3]}"


def test_calculations_stand_directly_before_their_marks(rows):
    for row in rows:
        for before, mark in zip(row["answer"].split("<<"), row["answer"].split("<<")[1:], strict=False):
            expression = mark.split("=")[0]
            assert re.sub(r"[ $]", "", before.splitlines()[-1]).endswith(f"{expression}=")


def test_there_are_as_many_of_each_number_of_steps_and_all_operations(rows):
    assert {row["steps"] for row in rows} == set(range(1, MOST_STEPS + 1))
    assert all(sum(row["steps"] == count for row in rows) == 200 for count in range(1, MOST_STEPS + 1))
    used = [operator for row in rows for _, operator, *_ in MARK.findall(row["answer"])]
    assert all(used.count(symbol) > len(used) / 10 for symbol in "+-*/")


def test_a_line_names_its_move_so_no_move_comes_twice(rows):
    for row in rows:
        lines = [re.sub(r"\d+|\$|[-+*/=<>]", "", line) for line in row["answer"].splitlines()]
        assert len(set(lines)) == len(lines), row


def test_equal_seeds_give_equal_rows_and_others_do_not():
    assert WorkedSolutions(1).take(20) == list(itertools.islice(WorkedSolutions(1), 20))
    first, second = ({row["question"] for row in WorkedSolutions(seed).take(20)} for seed in (1, 2))
    assert not first & second


def test_every_question_asks_for_steps_and_excluded_ones_are_left_out():
    some = WorkedSolutions(5, max_digits=1).take(300)
    assert all(row["question"].endswith(CUES) for row in some)
    excluded = frozenset(row["question"] for row in some)
    assert not excluded & {row["question"] for row in WorkedSolutions(5, 1, excluded).take(300)}


def test_numbers_are_no_longer_than_asked():
    for row in WorkedSolutions(0, max_digits=2).take(200):
        if " miss the train" not in row["question"] and "earned" not in row["question"]:  # these are sums of two
            said = row["question"].removesuffix(next(cue for cue in CUES if row["question"].endswith(cue)))
            sentences = (s for s in said.split(". ") if not re.search("shared among|groups|split among", s))
            assert all(len(number) <= 2 for s in sentences for number in re.findall(r"\d+", s))
    with pytest.raises(ValueError, match="`max_digits=0` is not at least 1"):
        WorkedSolutions(max_digits=0)


def test_every_annotation_of_a_single_calculation_is_its_value():
    results = []
    for row in WorkedCalculations(seed=3).take(300):
        *lines, last = row["answer"].splitlines()
        for line in lines:
            ((sign, calculation, result, written),) = CALCULATION.findall(line)
            numbers = re.sub(r"\d+(\.\d+)?", lambda found: f"Fraction('{found[0]}')", calculation)
            assert eval(numbers) == Fraction(result), line  # noqa: S307 - generated above
            assert written == result
            assert not re.search(r"\.\d*0$|\.$|^0\d", result)  # canonical
            before = line[: line.index("=")]
            assert ("$" in before) == bool(sign)
            results.append(Fraction(result))
        assert last == f"#### {written}"
    unusual = [value for value in results if value <= 0 or value.denominator > 1]
    assert 0.4 < len(unusual) / len(results) < 0.8
    assert min(sum(v == 0 for v in results), sum(v < 0 for v in results)) > len(results) / 8


def test_the_question_lists_the_calculations_in_order():
    for row in WorkedCalculations(seed=4).take(50):
        place = -1
        for line in row["answer"].splitlines()[:-1]:
            calculation = CALCULATION.findall(line)[0][1].replace(" ", "")
            place = re.sub(r"[ $]", "", row["question"]).index(calculation, place + 1)


def test_rows_of_calculations_are_those_of_the_seed():
    assert WorkedCalculations(seed=1).take(5) == WorkedCalculations(seed=1).take(5)
    assert WorkedCalculations(seed=1).take(5) != WorkedCalculations(seed=2).take(5)
