"""Rows of lists and of texts by hand: their operands, their results, and what is held out."""

import json
import math
import random
import re
import statistics
from collections import Counter
from fractions import Fraction
from itertools import chain, islice

import pytest

from peft_igc.data.columns import check_columns, columns_of
from peft_igc.data.files import read_rows
from peft_igc.data.wording.handwritten import HELD_OUT, files_by
from peft_igc.text.literals import integers, numbers_of
from peft_igc.text.pieces import split
from recipes import many_operands
from recipes.many_operands import answer_rows, author_rows, list_rows, written_rows
from tests.data.test_functions import LIMITS, text_of


LISTS = {
    "sum": sum,
    "mean": lambda values: sum(values) / len(values),
    "min": min,
    "max": max,
    "count": len,
    "median": statistics.median,
    "range": lambda values: max(values) - min(values),
}


def test_lists_have_all_of_their_numbers_as_operands_in_the_order_of_the_text_and_their_value():
    kinds = Counter()
    for row in chain(islice(list_rows(3), 400), islice(written_rows(3), 400)):
        kinds[row["igc_operator"]] += 1
        (step,) = check_columns(row, LIMITS)
        if step.operands is None:
            continue
        listed = [one.digits for one in integers(text_of(row), decimals=True)]
        place = 0
        for operand in step.operands:  # other numbers, such as those of a row, may be between
            place = listed.index(operand.lstrip("-"), place) + 1
        read = {one.value for one in numbers_of(split(f"{text_of(row)}\n", 0), percents=True)}
        assert read.issuperset(Fraction(one) for one in step.operands if one.startswith("-"))  # no dash as in `5 -8`
        value = Fraction(LISTS[step.operator]([Fraction(one) for one in step.operands]))
        assert step.result is None or Fraction(step.result) == value
        assert 3 <= len(step.operands) <= 50
    assert kinds.keys() == {*LISTS, "none"}


def test_a_list_that_people_wrote_has_other_numbers_of_the_same_form(tmp_path):
    text = "3 x nails 1,250.00; 4 x glue 3.00; 12 x tape -17, total of the prices?"
    line = {"text": text, "function": "sum", "numbers": ["1250.00", "3.00", "-17"]}
    (path := tmp_path / "lists.jsonl").write_text(json.dumps(line))
    rows = list(islice(written_rows(0, [path]), 100))
    form = r"3 x nails (\d,\d{3}\.\d\d); 4 x glue (\d\.\d\d); 12 x tape (-\d\d), total of the prices\?"
    for row in rows:
        shown = re.fullmatch(form, text_of(row)).groups()
        assert [Fraction(one.replace(",", "")) for one in shown] == list(map(Fraction, row["igc_operands"]))
    assert len(set(map(text_of, rows))) > 30
    assert many_operands._places("3, 12 and 12", ["3", "12"]) == []  # which of them is meant is not known
    path.write_text(json.dumps(line | {"text": "4kg 5kg", "numbers": ["4", "5"]}))
    with pytest.raises(ValueError, match=r"No list of .*lists.jsonl'\] can be read"):
        next(written_rows(0, [path]))


def test_lists_have_the_held_out_layouts_or_the_others_and_all_of_them(monkeypatch):
    known, laid, drawn = many_operands._texts(), many_operands._laid, Counter()
    monkeypatch.setattr(many_operands, "_laid", lambda form, *rest: (drawn.update([str(form)]), laid(form, *rest))[1])
    for layouts in ("layouts", "held_out_layouts", "unseen_layouts"):
        drawn.clear()
        list(islice(list_rows(0, layouts), 800))
        fixed = set(map(str, known[layouts].values()))
        assert drawn.keys() == fixed if layouts != "layouts" else drawn.keys() > fixed


def test_the_operation_of_a_text_gives_what_its_author_answered():
    rng, seen = random.Random(0), Counter()
    for line in chain.from_iterable(map(read_rows, [*files_by("trained"), *many_operands.FUNCTIONS])):
        if not line.get("answer") or line.get("operation", "none") == "none":
            continue
        seen[line["operation"]] += 1
        for _ in range(3):
            numbers = many_operands.satisfying(set(line["constraints"]), line["operation"], rng)
            operands = [numbers.get(one, one) for one in line["operands"]]
            found = columns_of(line["operation"], operands, LIMITS)["igc_result"]
            if found not in ("inexact", "undefined", "overflow"):
                known = {name: int(number) for name, number in numbers.items()}
                answer = eval(line["answer"], {"math": math, "statistics": statistics}, known)  # noqa: S307
                assert math.isclose(Fraction(found), answer), line
    assert len(seen) > 20
    assert sum(seen.values()) > 3000


def test_every_third_text_of_a_kind_is_held_out(tmp_path):
    texts = [f"word{n} {{a}} {{b}}" for n in range(9)]
    lines = [{"text": text, "kind": "k", "constraints": ["a>b"], "answer": "a % b"} for text in texts]
    lines = [line | {"operation": "mod", "operands": ["a", "b"]} for line in lines]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    first, other = (
        {re.search(r"word\d", text_of(row).lower())[0] for row in islice(answer_rows(path, held_out), 60)}
        for held_out in (False, True)
    )
    assert other == {"word2", "word5", "word8"}
    assert first == {f"word{n}" for n in range(9)} - other


def test_texts_by_many_hands_ask_for_their_operation_and_those_for_functions_come_more_often():
    asked = ("+", "-", "*", "/", "sum", "mean", "percent")
    rows, once = (list(islice(author_rows(0, operations=asked, often=often), 1500)) for often in (16, 1))
    assert {row["igc_operator"] for row in rows} == {*asked, "none"}  # a text for another function asks for none
    many, few = (sum(row["igc_operator"] in asked[4:] for row in some) for some in (rows, once))
    assert many > 3 * few > 0
    for row in rows:
        if row["igc_operator"] == "mean" and row["igc_result"] != "inexact":
            assert Fraction(row["igc_result"]) == sum(map(Fraction, row["igc_operands"])) / len(row["igc_operands"])


def test_no_text_of_a_held_out_author_is_trained(monkeypatch):
    monkeypatch.setattr(many_operands, "_rows_of", lambda texts, *_: iter(texts))
    texts = {part: {line["text"] for line in author_rows(0, part)} for part in ("trained", *HELD_OUT)}
    assert min(map(len, texts.values())) > 400
    assert not texts.pop("trained") & set().union(*texts.values())
