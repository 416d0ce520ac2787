"""Promises of `wording`: clean text files and a clean split, texts with exactly their operands, rows as recorded."""

import difflib
import functools
import hashlib
import itertools
import json
import operator
import random
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from templates import templates as expand

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.columns import check_columns
from peft_igc.data.mixture import TOKENS_MIXTURE, Mixture
from peft_igc.data.wording import drawing, phrases
from peft_igc.data.wording.phrases import BIGBENCH, casual, is_held_out, pools, words
from peft_igc.data.wording.wording import FEW, HELD_OUT, TRAINING
from peft_igc.text.values import Limits


RECORDED = json.loads(Path(__file__).with_name("recorded_rows.json").read_text())
EXACT = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
LIMITS = {"max_digits": 6, "limits": Limits(operands=2, decimals=False)}
ORDINARY = {"none": 0.0, "overflow": 0.0, "undefined": 0.0, "inexact": 0.0}
CASUAL = replace(TOKENS_MIXTURE, casual=0.6)
FIELDS = {"thing": "pens", "name": "Ida", "other": "Tom"}
# What may be directly before and after a number. Anything else makes it no operand.
BEFORE, AFTER = r"(?<![^\s({\[=+\-*/×÷·−])", r"(?=$|[\s)}\]?=+\-*/×÷·−]|[.,:;](?:\s|$))"


def rows_of(n, seed=0, wording=TRAINING, mixture=TOKENS_MIXTURE, **settings):
    return ArithmeticRows(seed, **LIMITS, mixture=mixture, wording=wording, **settings).take(n)


@functools.cache
def some_rows():
    return rows_of(4000, distinct=True, exclude=tuple(bigbench_test_set()))


def asked(row):
    return row["prompt"][-1]["content"]


@functools.cache
def phrasings(operator):
    """Every template that asks for an operation, and whether it is held out."""
    made, requests = [BIGBENCH[operator]], pools("requests")
    for form, expressions in requests["expressions"][operator].items():
        frames = [frame for forms, lines in requests["frames"].items() if form in forms.split() for frame in lines]
        for frame, expression in itertools.product(frames, expressions):
            pairs = itertools.product(expand(frame), expand(expression))
            made += [a.replace("{x}", b).replace("{X}", b[:1].upper() + b[1:]) for a, b in pairs]
    for line in requests["requests"][operator] + requests["counted"][operator]:
        made += expand(line)
    for story in drawing.STORIES[operator]:
        pairs = itertools.product(expand(story["setup"]), expand(story["question"]))
        made += map(" ".join, pairs)
    return {template: is_held_out(template) for template in made}


def shape(text):
    """A text without its numbers, names and things."""
    text = re.sub(rf"\b({'|'.join((*words('people'), *words('objects')))})\b", "X", text)
    return re.sub("[0-9]+(?:,[0-9]{3})*", "0", text)


@functools.cache
def shapes(*held_out):
    made = (text for o in "+-*/" for text, part in phrasings(o).items() if part in held_out)
    return {shape(text.format(a=1, b=2, **FIELDS)) for text in made}


def written(number):
    """A pattern for the ways to write a canonical number."""
    digits = number.lstrip("-")
    plain = f"(?:{digits}|{int(digits):,})" + AFTER
    return BEFORE + plain if digits == number else f"(?:-|−|negative |minus ){plain}"


@pytest.mark.parametrize("name", RECORDED)
def test_rows_are_those_that_the_recorded_runs_trained_on(name):
    """A change of a text, of its place in a file or of the order of draws is a change of the training data."""
    settings = {
        "few": {"wording": FEW, "mixture": Mixture(bigbench=0.2, negative=0.1), "exclude": bigbench_test_set(200, 0)},
        "trained": {}, "held out": {"wording": HELD_OUT},
        "casual": {"mixture": CASUAL},
    }[name]  # fmt: skip
    limits = {"max_digits": 5, "limits": Limits(5, 10)} if name == "few" else LIMITS
    rows = ArithmeticRows(0, **limits, **{"mixture": TOKENS_MIXTURE, "wording": TRAINING} | settings).take(500)
    assert hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16] == RECORDED[name]


def test_the_split_is_by_the_hash_alone_and_blind_to_punctuation_and_capitals():
    held_out = is_held_out
    assert 0.14 < sum(map(held_out, (f"text {i}" for i in range(6000)))) / 6000 < 0.19
    assert len({held_out(variant) for variant in ("Calculate {x}.", "calculate {x}", " CALCULATE: {x}?")}) == 1
    assert held_out("{a} × {b} - {c}") == held_out("{a}*{b}-{c}") == held_out("{a} x {b} − {c}")


def test_held_out_phrasings_are_never_drawn_in_training():
    trained = shapes(False)
    for wording in (TRAINING, HELD_OUT):
        rng, mixture = random.Random(0), Mixture()
        found = {shape(wording.request(o, "12", "4", rng, mixture).text) for o in "+-*/" for _ in range(500)}
        assert len(found) > 300
        assert found <= trained if wording is TRAINING else not found & trained
        around = [drawing.surround("Add one and two.", wording.held_out, rng) for _ in range(300)]
        assert all("Add one and two." in text != "Add one and two." for text in around)
        assert sum(bool(re.search("[0-9]", text)) for text in around) > 150  # with numbers of their own
    held_out, in_training = (
        {w.expression("5 + 3", random.Random(seed)) for seed in range(900)} for w in (HELD_OUT, TRAINING)
    )
    assert len(held_out) > 8
    assert not held_out & in_training


def test_labels_are_right_and_operands_are_in_the_text_as_numbers_of_their_own():
    for row in (*some_rows(), *rows_of(800, 2, mixture=CASUAL), *rows_of(200, 4, HELD_OUT)):
        (step,) = check_columns(row, Limits())
        completion = row["completion"][0]["content"]
        if step.operands is None:
            continue
        (a, b), (x, y) = step.operands, map(Fraction, step.operands)
        exact = None if step.operator == "/" and not y else EXACT[step.operator](x, y)
        assert (exact is not None and exact.denominator == 1) == (step.result is not None)
        if step.result is None:
            assert completion == phrases.UNABLE
        else:
            assert str(exact) == step.result in re.findall("-?[0-9]+", completion)
        text = re.sub(r"!|\"|\?{2}|\.{3}", "", asked(row))  # which may be around a number
        found = re.findall(written(b), text, re.IGNORECASE)
        assert re.search(written(a), text, re.IGNORECASE), row
        assert len(found) > (a == b), row
    assert len({asked(row) for row in some_rows()}) == 4000


def test_texts_with_and_without_arithmetic_share_their_frames_and_no_silent_one_reads_like_a_calculation():
    frames = pools("requests")["frames"]["symbols words nouns"]
    starts = {frame.split("{x}")[0] for frame in frames} - {""}
    rows = [*some_rows(), *rows_of(4000, 1)]
    texts = {none: [asked(row) for row in rows if (row["igc_operator"] == "none") == none] for none in (False, True)}
    for none in (False, True):
        assert sum(any(start in text for text in texts[none]) for start in starts) >= len(starts) - 1 > 35
    mixture = Mixture(**{**ORDINARY, "none": 0.5}, unsupported=0.5)
    for wording in (TRAINING, HELD_OUT):
        prompts = {asked(row) for row in rows_of(800, wording=wording, mixture=mixture)}
        assert not [prompt for prompt in prompts if shape(prompt) in shapes(False, True)]


def test_a_text_typed_in_a_hurry_keeps_its_numbers_its_signs_and_its_short_words():
    rng, changed, alike = random.Random(0), 0, 0
    kept = re.compile(r"[-+*/×÷·−^=%²³]|[0-9][0-9,.]*[0-9]|[0-9]|(?:negative|minus) (?=[0-9])")
    for row in rows_of(1500, seed=7):
        before, after = asked(row), casual(asked(row), rng)
        changed += before != after
        alike += difflib.SequenceMatcher(None, before.lower(), after.lower()).ratio() > 0.7
        assert kept.findall(before.lower()) == kept.findall(after.lower()), (before, after)
    assert changed > 0.5 * 1500
    assert alike == 1500
    typed = {casual("what is dividing", rng).lower() for _ in range(4000)}
    assert {"what is diviidng", "what is diviing", "what is divviding", "what isdividing", "what is dibiding"} <= typed
