"""Promises of texts by many hands: they are filled as they say, with right labels, and they make training rows."""

import json
import random
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from peft_igc.data import ArithmeticRows, Mixture
from peft_igc.data.columns import check_columns
from peft_igc.data.files import read_rows
from peft_igc.data.mixture import TOKENS_MIXTURE
from peft_igc.data.wording import wording as wordings
from peft_igc.data.wording.handwritten import HELD_OUT, Handwritten, draw, read_texts, texts_by
from peft_igc.data.wording.wording import TRAINING
from peft_igc.text.literals import integers
from peft_igc.text.operations import OPERATORS
from peft_igc.text.values import Limits


FILE = Path(__file__).with_name("by_hand.jsonl")
HOLDS = {
    "b>a": lambda a, b: b > a,
    "b|a": lambda a, b: a % b == 0,
    "a|b": lambda a, b: b % a == 0,
    "small": lambda a, b: 1 <= min(a, b) <= max(a, b) <= 100,
    "year": lambda a, b: 1900 <= min(a, b) <= max(a, b) <= 2099,
}


def test_texts_have_the_numbers_of_their_labels_and_satisfy_their_constraints():
    rng, forms, lengths = random.Random(0), set(), set()
    for line, one in zip(read_rows(FILE), read_texts(FILE), strict=True):
        text, operator, order, constraints = line.values()
        for _ in range(400):
            shown, found, operands = draw(one, rng, Mixture(separators=0.2, spelled_signs=0.5), 12)
            assert found == operator
            assert not re.search(r"\{[abcd]\}", shown)
            if operator == "none":
                assert operands is None
                continue
            in_text = operands if order == "ab" else operands[::-1]
            plain = re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", shown)
            assert re.findall("[0-9]+", plain) == [number.lstrip("-") for number in in_text], shown
            signs = re.findall(r"(?:-|negative |minus )([0-9]+)", plain)
            assert signs == [number[1:] for number in in_text if number[0] == "-"], shown
            assert all(HOLDS[name](*map(int, in_text)) for name in constraints), shown
            lengths |= {len(number.lstrip("-")) for number in operands}
            forms |= {form for form in ("(-", "negative", ",", "$", "€", "£", " kg", "-") if form in shown}
            if "small" in constraints or "year" in constraints or "pens" in text:
                assert not re.search(r"-|negative|[$€£,]\d", shown), shown  # it counts things
    assert lengths == set(range(1, 13))
    assert len(forms) == 8


def test_nothing_touches_the_operands_of_the_trained_texts():
    for one in texts_by("trained"):
        shown = re.sub(r"\{([abcd])\}", lambda slot: {"a": "8896", "b": "278"}.get(slot[1], "31"), one.text)
        assert one.operator == "none" or {"8896", "278"} <= {n.digits for n in integers(shown, decimals=True)}, shown
        assert not re.search(r"negative \{[ab]\}", one.text), "signs are drawn, and their labels with them"


def test_each_text_has_a_row_before_one_has_a_second_row():
    texts = tuple(Handwritten(f"{word} {{a}}", "none", "ab", frozenset(), False) for word in "qwertyuiop")
    mixture = Mixture(none=0, overflow=0, undefined=0, inexact=0, by_hand=1.0, contexts=0, casual=0)
    rows = ArithmeticRows(0, mixture=mixture, wording=replace(TRAINING, by_hand=texts)).take(20)
    words = [row["prompt"][-1]["content"][0] for row in rows]
    assert set(words[:10]) == set(words[10:]) == set("qwertyuiop")
    assert words[:10] != words[10:]


def test_rows_of_files_are_reproducible_right_and_not_those_of_the_test():
    wording = replace(TRAINING, by_hand=read_texts([FILE, FILE]))
    mixture = Mixture(none=0, overflow=0, undefined=0, inexact=0, by_hand=0.6, contexts=0.3, casual=0.3)
    options = {"max_digits": 2, "limits": Limits(operands=2), "mixture": mixture, "wording": wording}
    rows = ArithmeticRows(1, **options).take(800)
    assert rows == ArithmeticRows(1, **options).take(800)
    assert {check_columns(row, Limits())[0].operator for row in rows} == {*"+-*/", "none"}
    by_hand = [row for row in rows if "till" in row["prompt"][-1]["content"].lower()]
    assert len(by_hand) > 30
    asked = next(row for row in rows if row["igc_operator"] == "*" and min(map(int, row["igc_operands"])) > 9)
    triple = (asked["igc_operator"], asked["igc_operands"])
    others = ArithmeticRows(1, **options, exclude=[asked]).take(3000)
    assert triple not in [(row["igc_operator"], row["igc_operands"]) for row in others]
    read = ArithmeticRows(1, **options | {"limits": Limits()}).take(800)
    sums = [row["igc_expression"] for row in read if row["igc_expression"] is not None]
    assert len(sums) > 10  # what rules read has its value
    assert {(expression.count("+"), expression.startswith("min (")) for expression in sums} == {(2, False), (0, True)}


def test_numbers_have_places_where_the_adapter_reads_them_and_nowhere_else():
    mixture = replace(TOKENS_MIXTURE, by_hand=0.3, unsupported=0.3, expressions=0, contexts=0, casual=0, decimals=0.5)
    for limits in (Limits(operands=2, decimal_operands=True), Limits(operands=2)):
        rows = ArithmeticRows(0, limits=limits, mixture=mixture, wording=TRAINING, conversational=False).take(1500)
        found = [row for row in rows if "." in "".join(row["igc_operands"] or [])]
        assert (len(found) > 150) == limits.decimal_operands
        for row in found:
            (step,) = check_columns(row, limits)
            assert {one.lstrip("-") for one in step.operands} <= {one.digits for one in integers(row["prompt"], True)}
            if step.result is not None:
                value = OPERATORS[step.operator].apply(*map(Fraction, step.operands), limits)
                assert value == Fraction(row["igc_result"])
        plain = re.compile(r"(What|Give)[a-z ]* -?[0-9]+\.[0-9]+ (plus|minus|times|divided by) -?[0-9.]+[?.]")
        asked = {row["igc_operator"] != "none" for row in rows if plain.fullmatch(row["prompt"])}
        assert asked == {True} or not limits.decimal_operands


def test_no_text_of_a_held_out_author_is_trained():
    parts = {name: {one.text for one in texts_by(name)} for name in ("trained", *HELD_OUT)}
    assert not parts["trained"] & (parts["calibrated"] | parts["measured"] | parts["further"])
    assert len(parts["trained"]) > 6000
    assert min(map(len, parts.values())) > 400
    assert {one.text for one in TRAINING.texts} == parts["trained"]
    assert {one.text for one in wordings.HELD_OUT.texts} == parts["measured"]


def test_a_line_that_is_no_text_is_refused_with_its_file_and_line(tmp_path):
    good = {"text": "{a}+{b}", "operator": "+", "order": "ab", "constraints": [], "kind": "k"}
    for line, message in (
        ({"text": " "}, '"text" must be a text'),
        ({"operator": "^"}, r'"operator" must be one of \+, -, \*, /, none'),
        ({"order": ""}, r'a calculation needs the slots \{a\} and \{b\} and "order"'),
        ({"text": "{a} alone"}, "a calculation needs the slots"),
        ({"constraints": ["prime"]}, r'"constraints" must be a list of .*, got \[\'prime\'\]'),
        ({"constraints": ["b>a", "a>b"]}, '"constraints" that contradict: a>b, b>a. Leave one out'),
        ({"order": "ba"}, '"order" of a sum or a product must be `ab`'),
        ({"operator": "/"}, 'a division in the order `ab` needs the constraint "b|a". Add it'),
    ):
        (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, (good, good | line))))
        with pytest.raises(ValueError, match=f"t.jsonl`, line 2: {message}"):
            read_texts(tmp_path / "t.jsonl")
