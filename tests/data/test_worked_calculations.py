"""Promises of `worked_calculations`: every line is true, seeded, and most results are those that solutions lack."""

import re
from fractions import Fraction

from peft_igc.data.worked_calculations import WorkedCalculations


MARK = re.compile(r"= ?(\$?)<<(.+?)=(.+?)>>(-?\d+(?:\.\d+)?)")


def test_every_annotation_is_the_value_of_its_calculation():
    results = []
    for row in WorkedCalculations(seed=3).take(300):
        *lines, last = row["answer"].splitlines()
        for line in lines:
            ((sign, calculation, result, written),) = MARK.findall(line)
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
            calculation = MARK.findall(line)[0][1].replace(" ", "")
            place = re.sub(r"[ $]", "", row["question"]).index(calculation, place + 1)


def test_rows_are_those_of_the_seed():
    assert WorkedCalculations(seed=1).take(5) == WorkedCalculations(seed=1).take(5)
    assert WorkedCalculations(seed=1).take(5) != WorkedCalculations(seed=2).take(5)
