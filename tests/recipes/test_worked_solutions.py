"""Promises of `worked_solutions`: stories and solutions are right, seeded, and follow from the question."""

import itertools
import re
from fractions import Fraction

import pytest

from recipes.tiny_base.worked_solutions import CUES, WorkedCalculations, WorkedSolutions


MARK = re.compile(r"<<(\d+)([-+*/])(\d+)=(\d+)>>(\d+)")
CALCULATION = re.compile(r"= ?(\$?)<<(.+?)=(.+?)>>(-?\d+(?:\.\d+)?)")


@pytest.fixture(scope="module")
def rows():
    return WorkedSolutions(seed=3).take(600)


def test_every_annotation_is_true_after_its_calculation_of_numbers_known_before(rows):
    for row in rows:
        marks, known = MARK.findall(row["answer"]), set(re.findall(r"\d+", row["question"]))
        assert len(marks) == row["answer"].count("<<") == row["steps"]
        assert row["answer"].splitlines()[-1] == f"#### {marks[-1][3]}"
        for line, (a, operator, b, result, written) in zip(row["answer"].splitlines(), marks, strict=False):
            assert operator != "/" or int(a) % int(b) == 0
            exact = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b), "/": int(a) // int(b)}[operator]
            assert int(result) == int(written) == exact > 0
            assert {a, b} <= known
            known.add(result)
            assert re.sub(r"[ $]", "", line.partition("<<")[0]).endswith(f"{a}{operator}{b}=")


def test_rows_depend_on_the_seed_only_and_excluded_questions_are_left_out():
    assert WorkedSolutions(1).take(20) == list(itertools.islice(WorkedSolutions(1), 20))
    assert WorkedCalculations(1).take(5) == WorkedCalculations(1).take(5) != WorkedCalculations(2).take(5)
    first, second = ({row["question"] for row in WorkedSolutions(seed).take(20)} for seed in (1, 2))
    assert not first & second
    some = WorkedSolutions(5, max_digits=1).take(300)
    assert all(row["question"].endswith(CUES) for row in some)
    excluded = frozenset(row["question"] for row in some)
    assert not excluded & {row["question"] for row in WorkedSolutions(5, 1, excluded).take(300)}


def test_single_calculations_have_their_value_in_the_order_of_the_question_and_are_unusual():
    results = []
    for row in WorkedCalculations(seed=3).take(300):
        (*lines, last), place = row["answer"].splitlines(), -1
        for line in lines:
            ((sign, calculation, result, written),) = CALCULATION.findall(line)
            place = re.sub(r"[ $]", "", row["question"]).index(calculation, place + 1)
            numbers = re.sub(r"\d+(\.\d+)?", lambda found: f"Fraction('{found[0]}')", calculation)
            assert eval(numbers) == Fraction(result), line  # noqa: S307 - generated above
            assert written == result
            assert not re.search(r"\.\d*0$|\.$|^0\d", result)  # canonical
            assert ("$" in line[: line.index("=")]) == bool(sign)
            results.append(Fraction(result))
        assert last == f"#### {written}"
    unusual = [value for value in results if value <= 0 or value.denominator > 1]
    assert 0.4 < len(unusual) / len(results) < 0.8
    assert min(sum(v == 0 for v in results), sum(v < 0 for v in results)) > len(results) / 8
