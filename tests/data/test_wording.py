"""Promises of `wording` and its pools, `suites`, and rows in its texts: hundreds of texts, a clean split."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import json
import pickle
import random
import re

import pytest

from benchmarks.accuracy.suites import ARITHMETIC, BY_RULE, REPORTED, SILENT, suites
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.columns import check_columns
from peft_igc.data.mixture import TOKENS_MIXTURE, Mixture
from peft_igc.data.wording import casual, context_texts, draw_templates, everyday, plain_texts, requests
from peft_igc.data.wording.grammar import Part, choose, drawn, expand, is_held_out, is_new, line_of, part_of
from peft_igc.data.wording.requests import BIGBENCH
from peft_igc.data.wording.stories import CROSSED, STORIES, TRICKS
from peft_igc.data.wording.templates import Templates
from peft_igc.data.wording.unsupported import KINDS, OTHER, TOUCHED, UNSUPPORTED
from peft_igc.data.wording.wording import HELD_OUT, NEW, TRAINING, Wording
from peft_igc.data.wording.words import CITIES, MONTHS, NUMBER_WORDS, OBJECTS, PEOPLE, UNABLE
from peft_igc.inference.loading import tiny_base
from peft_igc.numbers.calculator import evaluate_exactly
from peft_igc.numbers.places import number_runs
from peft_igc.numbers.tokenizer_profile import TokenizerProfile
from peft_igc.text import Value, read


LIMITS = {"max_digits": 6, "num_digits": 40, "result_digits": 40}
ORDINARY = {"none": 0.0, "overflow": 0.0, "undefined": 0.0, "inexact": 0.0}
WORDS = {"thing": "pens", "name": "Ida", "other": "Tom"}
# What may stand directly before and behind a number. Anything else makes it no operand.
BEFORE, BEHIND = r"(?<![^\s({\[=+\-*/×÷·−])", r"(?=$|[\s)}\]?=+\-*/×÷·−]|[.,:;](?:\s|$))"


def rows_of(n, seed=0, wording=TRAINING, mixture=TOKENS_MIXTURE, **settings):
    return ArithmeticRows(seed, **LIMITS, mixture=mixture, wording=wording, **settings).take(n)


@functools.cache
def demo_rows():
    """The rows that the demonstration trains on."""
    return rows_of(10_000, distinct=True, exclude=tuple(bigbench_test_set()))


@functools.cache
def made():
    return suites(1000, seed=0)


def text(row):
    return "\n".join(message["content"] for message in row["prompt"])


def written(number):
    """A pattern for the ways to write a canonical number."""
    digits = number.lstrip("-")
    plain = f"(?:{digits}|{int(digits):,})" + BEHIND
    return plain if digits == number else f"(?:-|−|negative |minus ){plain}"


# ---- phrasings ----


@pytest.mark.parametrize("operator", "+-*/")
def test_every_phrasing_names_both_operands_once_and_lets_nothing_touch_them(operator):
    number = re.compile(f"{BEFORE}(90017|2663){BEHIND}")
    for part in (TRAINING, HELD_OUT):
        for phrasing in part.phrasings(operator):
            filled = phrasing.format(a=90017, b=2663, **WORDS)
            assert sorted(number.findall(filled)) == sorted(re.findall("[0-9]+", filled)) == ["2663", "90017"], filled


@pytest.mark.parametrize("operator", "+-*/")
def test_there_are_over_a_hundred_phrasings_to_train_on_and_over_twenty_held_out(operator):
    trained, held_out, new = (set(part.phrasings(operator)) for part in (TRAINING, HELD_OUT, NEW))
    assert len(trained) >= 1000
    assert len(held_out) >= 200
    assert len(new) >= 50
    assert BIGBENCH[operator] in trained
    assert not trained & held_out
    assert not (trained | held_out) & new


def test_where_the_order_of_operands_does_not_matter_they_stand_in_the_text_s_order():
    for operator, part in itertools.product("+*", (TRAINING, HELD_OUT)):
        assert all(t.index("{a}") < t.index("{b}") for t in part.phrasings(operator))


def test_no_pool_holds_a_text_twice():
    for pool in (requests.REQUESTS, requests.COUNTED, *plain_texts.PLAIN.values(), *UNSUPPORTED.values()):
        texts = [text for part in pool.values() for text in part]
        assert len(texts) == len(set(texts))
    pools = (*(getattr(context_texts, name) for name in context_texts.__all__), OBJECTS, PEOPLE, NUMBER_WORDS)
    for pool in (plain_texts.COPY, plain_texts.ABOUT, *pools):
        assert len(pool) == len(set(pool))


@pytest.mark.parametrize("operator", "+-*/")
def test_stories_come_in_families_of_nine_and_more(operator):
    assert len(STORIES[operator]) >= 14
    for story in STORIES[operator]:
        assert len(set(expand(story.setup))) >= 2
        assert len(set(expand(story.question))) >= 3
        assert len(set(expand(story.setup))) * len(set(expand(story.question))) >= 9
        assert all("{c}" in text for text in expand(story.third))
        assert len(set(expand(story.other))) >= 3
    assert len({story.setup for story in STORIES[operator]}) == len(STORIES[operator])


def test_no_line_leaves_a_choice_open():
    lines = [line for name in context_texts.__all__ for line in getattr(context_texts, name)]
    lines += [*PEOPLE, *OBJECTS, *NUMBER_WORDS]
    lines += [line for pool in (plain_texts.COPY, plain_texts.CONTENT, plain_texts.ABOUT) for line in pool]
    pools = (
        *plain_texts.PLAIN.values(),
        *UNSUPPORTED.values(),
        *TOUCHED.values(),
        requests.REQUESTS,
        requests.COUNTED,
    )
    lines += [line for pool in pools for part in pool.values() for line in part]
    for pools in (requests.FRAMES, *requests.EXPRESSIONS.values()):
        lines += [line for pool in pools.values() for line in pool]
    lines += [line for stories in STORIES.values() for story in stories for line in story]
    rng = random.Random(0)
    for line in lines:
        for _ in range(5):
            text = choose(line, rng)
            assert not re.search(r"\([^()]*\|", text), line
            assert text.count("(") == text.count(")") or text == "{k}) ", line
            assert not re.search(r"  |[\w}]\s[.,?]($|\s)", text), (line, text)


def test_the_split_is_by_the_hash_alone_and_blind_to_punctuation_and_capitals():
    assert 0.14 < sum(map(is_held_out, (f"text {i}" for i in range(6000)))) / 6000 < 0.19
    assert 0.035 < sum(map(is_new, (f"text {i}" for i in range(6000)))) / 6000 < 0.065
    variants = ("Calculate {x}.", "calculate {x}", "Calculate: {x}", " CALCULATE {x}?")
    assert len({is_held_out(variant) for variant in variants}) == 1
    assert is_held_out("{a} × {b} - {c}") == is_held_out("{a}*{b}-{c}") == is_held_out("{a} x {b} − {c}")


@pytest.mark.parametrize("operator", "+-*/")
def test_a_request_is_held_out_only_where_others_of_its_family_are_trained(operator):
    parts = [{part_of(t, line) for t in expand(line)} for line in requests.REQUESTS[operator]]
    assert all(Part.TRAINED in found for found in parts if Part.HELD_OUT in found)
    assert sum(Part.HELD_OUT in found for found in parts) >= 10


def test_the_template_that_came_least_often_is_preferred():
    def counts(used):
        rng = random.Random(0)
        pool = ("(one|two|three) {a}", "(four|five|six) {b}")
        return collections.Counter(drawn(lambda: line_of(pool, rng), frozenset(Part), used) for _ in range(60))

    even, random_ones = counts(collections.Counter()), counts(None)
    assert len(even) == 6
    assert max(even.values()) - min(even.values()) <= 2 < max(random_ones.values()) - min(random_ones.values())


def test_a_part_of_what_is_to_be_copied_is_a_complete_request():
    rng = random.Random(0)
    texts = [TRAINING.plain_text("12345", rng, Mixture(), "copying").text for _ in range(500)]
    asked = re.compile(r"[^ ] *(What is|what is|Calculate|calculate|Compute|compute|Find|How much|Solve|Work out) ")
    assert 30 < sum(bool(asked.search(text[8:])) for text in texts) < 200


def test_numbers_are_written_in_all_their_forms():
    rng = random.Random(0)
    forms = Mixture(spelled_signs=0.5, separators=0.5)
    texts = [TRAINING.request(o, "-4096", "1024", rng, forms).text for o in "+-*/" for _ in range(300)]
    for part in ("-4096", "-4,096", "(-4096)", "(-4,096)", "negative 4096", "minus 4,096", " 1024", " 1,024"):
        assert any(part in t for t in texts), part
    texts = [TRAINING.request("-", "7", "-5", rng, forms).text for _ in range(2000)]
    assert not [t for t in texts if "--" in t or "minus minus" in t]
    assert any("7-(-5)" in t for t in texts)


def test_every_second_text_around_a_request_brings_numbers_of_its_own():
    rng = random.Random(0)
    for part in (TRAINING, HELD_OUT):
        around = [part.surround("Add one and two.", rng) for _ in range(500)]
        assert all("Add one and two." in t and t != "Add one and two." for t in around)
        assert sum(bool(re.search("[0-9]", t)) for t in around) > 300
        assert any(re.search(r"[0-9] Add|\n.*Add", t) for t in around)


# ---- rows ----


@pytest.mark.slow
def test_ten_thousand_rows_are_distinct_and_right():
    rows = demo_rows()
    assert len({text(row) for row in rows}) == len(rows) == 10_000
    for index, row in enumerate(rows):
        (step,) = check_columns(row, 40, 40, where=f"row {index}")
        completion = row["completion"][0]["content"]
        if step.operands is None:
            continue
        exact = evaluate_exactly(step.operator, *step.operands)
        assert isinstance(exact, str) == (step.result is not None)
        if step.result is None:
            assert completion == UNABLE
        else:
            assert exact == step.result
            numbers = re.findall("-?[0-9]+", completion)
            assert step.result in numbers
            assert completion in (step.result, *numbers) or len(completion) > len(step.result)
            assert set(numbers) - {step.result} <= {*step.operands, *(n.lstrip("-") for n in step.operands)}, (
                completion
            )


@pytest.mark.slow
def test_operands_stand_in_the_text_as_numbers_of_their_own():
    for row in demo_rows():
        if row["igc_operands"] is not None:
            asked, (a, b) = row["prompt"][-1]["content"], row["igc_operands"]
            assert re.search(BEFORE + written(a) if a[0] != "-" else written(a), asked), (asked, a)
            found = re.findall(BEFORE + written(b) if b[0] != "-" else written(b), asked)
            assert len(found) > (a == b), (asked, b)


def test_the_embedded_base_s_tokens_show_both_operands():
    _, tokenizer = tiny_base()
    table = TokenizerProfile.from_tokenizer(tokenizer).table
    rows = [row for row in demo_rows() if row["igc_operands"] is not None][:2000]
    ids = tokenizer([row["prompt"][-1]["content"] for row in rows])["input_ids"]
    for row, line in zip(rows, ids, strict=True):
        found = [run.digits for run in number_runs(table, line) if run.digits is not None]
        wanted = collections.Counter(n.lstrip("-") for n in row["igc_operands"])
        assert not wanted - collections.Counter(found), (row, found)


def test_the_mixture_for_tokens_is_kept():
    rows = demo_rows()
    n = len(rows)
    kinds = collections.Counter(row["igc_operator"] for row in rows)
    silent = TOKENS_MIXTURE.none + TOKENS_MIXTURE.unsupported + TOKENS_MIXTURE.look_alikes
    assert kinds["none"] / n == pytest.approx(silent, abs=0.02)
    refused = sum(row["igc_result"] in ("undefined", "inexact", "overflow") for row in rows)
    assert refused / n == pytest.approx(TOKENS_MIXTURE.undefined + TOKENS_MIXTURE.inexact, abs=0.01)
    answered = [row for row in rows if row["igc_result"] and not row["igc_result"].isalpha()]
    drawn = collections.Counter(row["igc_operator"] for row in answered)
    assert max(drawn[o] for o in "+-*/") < 1.2 * min(drawn[o] for o in "+-*/")
    negative = sum(any(x[0] == "-" for x in row["igc_operands"]) for row in answered) / len(answered)
    assert negative == pytest.approx(TOKENS_MIXTURE.negative, abs=0.02)
    bare = sum(row["completion"][0]["content"] == row["igc_result"] for row in answered) / len(answered)
    assert 1 - TOKENS_MIXTURE.sentences < bare < 0.9  # a text that does not end as a sentence gets none
    asked = sum(bool(re.search(r"sentence|Explain your answer", text(row))) for row in answered) / len(answered)
    assert asked == pytest.approx(1 - bare, abs=0.01)
    plain = [r["prompt"][-1]["content"] for r in answered if "-" not in "".join(r["igc_operands"])]
    alone = sum(shape(prompt) in shapes(TRAINING) for prompt in plain) / len(plain)
    assert alone == pytest.approx(1 - TOKENS_MIXTURE.contexts, abs=0.07)
    assert sum(row["prompt"][0]["role"] == "system" for row in rows) / n == pytest.approx(0.25, abs=0.02)
    assert sum(bool(re.search(r"\d,\d{3}", text(row))) for row in rows) / n == pytest.approx(0.14, abs=0.04)


def test_all_pairs_of_lengths_zeros_ones_and_equal_operands_occur():
    pairs = [row["igc_operands"] for row in demo_rows() if row["igc_operator"] in ("+", "-", "*")]
    lengths = {(len(a.lstrip("-")), len(b.lstrip("-"))) for a, b in pairs}
    assert lengths == set(itertools.product(range(1, 7), repeat=2))
    for side in (0, 1):
        assert sum(pair[side] == "0" for pair in pairs) > 20
        assert sum(pair[side] == "1" for pair in pairs) > 20
    assert sum(a == b and len(a) > 2 for a, b in pairs) > 20
    divisions = [row["igc_operands"] for row in demo_rows() if row["igc_operator"] == "/"]
    assert sum(a == "0" for a, _ in divisions) > 10
    assert sum(a == b and len(a) > 2 for a, b in divisions) > 10


def test_stories_count_things():
    rng = random.Random(0)
    things = "|".join((*PEOPLE, *OBJECTS))
    told = re.compile(rf"\b({things})\b|How much (larger|more|less|smaller|greater)|[Bb]y how much (is|does)")

    def stories(operator, a, b):
        return sum(bool(told.search(TRAINING.request(operator, a, b, rng, Mixture()).text)) for _ in range(400))

    for calculation in (("-", "5", "9"), ("+", "-5", "9"), ("*", "5", "-9"), ("/", "-12", "4"), ("/", "12", "0")):
        assert stories(*calculation) == 0, calculation
    for calculation in (("-", "9", "5"), ("+", "5", "9"), ("*", "5", "0"), ("/", "12", "4")):
        assert stories(*calculation) > 40, calculation


def test_texts_with_and_without_arithmetic_share_their_frames():
    frames = requests.FRAMES["symbols words nouns"]
    starts = {frame.split("{x}")[0] for frame in frames if not is_new(frame)} - {""}
    asked, silent = (
        {
            start
            for row in demo_rows()
            if (row["igc_operator"] == "none") == none
            for start in starts
            if start in text(row)
        }
        for none in (False, True)
    )
    assert asked == silent == starts
    assert len(starts) > 35


def shape(text):
    """A text without its numbers, names and things."""
    text = re.sub(rf"\b({'|'.join((*PEOPLE, *OBJECTS))})\b", "X", text)
    return re.sub("[0-9]+(?:,[0-9]{3})*", "0", text)


@functools.cache
def shapes(*parts):
    """The shapes of all phrasings of these parts."""
    found = (phrasing for part in parts for operator in "+-*/" for phrasing in part.phrasings(operator))
    return {shape(phrasing.format(a=1, b=2, thing="pens", name="Ida", other="Tom")) for phrasing in found}


@pytest.mark.slow
def test_no_text_without_arithmetic_reads_like_a_calculation_of_two_numbers():
    known = shapes(TRAINING, HELD_OUT, NEW)
    assert shape("What is 12 plus 3?") in known
    mixture = Mixture(**{**ORDINARY, "none": 0.5}, unsupported=0.5)
    for wording in (TRAINING, HELD_OUT, NEW):
        prompts = {text(row) for row in rows_of(1500, wording=wording, mixture=mixture)}
        assert not [prompt for prompt in prompts if shape(prompt) in known]


def test_rows_depend_on_the_seed_only_and_distinct_rows_are_the_same_stream():
    assert rows_of(300, 5) == rows_of(300, 5) != rows_of(300, 6)
    rows = ArithmeticRows(1, **LIMITS, mixture=TOKENS_MIXTURE, wording=TRAINING, distinct=True)
    assert pickle.loads(pickle.dumps(rows)).take(200) == rows.take(200) == list(itertools.islice(rows, 200))


def test_rows_of_the_few_templates_are_what_they_were():
    """The recorded runs of the hidden interface trained on these."""
    rows = ArithmeticRows(
        0,
        max_digits=5,
        num_digits=5,
        result_digits=10,
        mixture=Mixture(bigbench=0.2, negative=0.1),
        exclude=bigbench_test_set(200, 0),
    ).take(2000)
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
    assert digest.startswith("7e0b3502697c4368")


def test_settings_that_need_another_wording_or_more_rows_than_there_are_are_refused():
    with pytest.raises(ValueError, match=r"`Mixture\(contexts=...\)` has no effect on this wording: pass `wording="):
        ArithmeticRows(mixture=Mixture(contexts=0.5))
    with pytest.raises(ValueError, match=r"The wording has no phrasings for \['\^'\]"):
        ArithmeticRows(operations=("^",), wording=TRAINING)
    few = {"max_digits": 1, "operations": ("+",), "wording": Templates({"+": ["{a} + {b}"]}), "distinct": True}
    rows = ArithmeticRows(**few, mixture=Mixture(**ORDINARY, bigbench=0.0))
    assert len(rows.take(100)) == 100
    with pytest.raises(ValueError, match="No distinct row is left after 100: .* raise `max_digits`"):
        rows.take(101)


# ---- suites ----


def test_suites_hold_distinct_items_and_depend_on_the_seed_only():
    assert set(made()) == {*ARITHMETIC, *SILENT, *BY_RULE, *REPORTED}
    for name, items in made().items():
        assert len(items) == len({item["prompt"] for item in items}) == 1000, name
    assert suites(30, seed=1) == suites(30, seed=1) != suites(30, seed=2)


@pytest.mark.parametrize("name", ARITHMETIC)
def test_targets_are_right_and_fit_and_operands_stand_in_the_prompt(name):
    items = made()[name]
    operators = collections.Counter(item["igc_operator"] for item in items)
    assert min(operators[o] for o in "+-*/") > 150
    for item in items:
        a, b = item["igc_operands"]
        assert item["target"] == item["igc_result"] == evaluate_exactly(item["igc_operator"], a, b)
        assert len(item["target"].lstrip("-")) <= 40
        assert re.search(written(a), item["prompt"]), item
        assert re.search(written(b), item["prompt"]), item


def test_each_suite_is_about_what_its_name_says():
    found = made()
    trained = {row["prompt"][-1]["content"] for row in demo_rows()}
    for items in found.values():
        assert not trained & {item["prompt"] for item in items}
    lengths = [tuple(map(len, item["igc_operands"])) for item in found["long_operands"]]
    assert {length for pair in lengths for length in pair} == set(range(6, 21))
    assert 0.4 < sum("What is" in item["prompt"] for item in found["long_operands"]) / 1000 < 0.7
    assert all("-" in "".join(item["igc_operands"]) for item in found["negative"])
    assert all(re.search(r"[0-9],[0-9]{3}", item["prompt"]) for item in found["separators"])
    assert all(len(re.findall("[0-9]+", item["prompt"])) > 2 for item in found["distractors"])
    others = [*MONTHS, *CITIES, "o'clock", "minutes", "people"]
    assert sum(any(word in item["prompt"] for word in others) for item in found["distractors"]) > 100


def test_held_out_phrasings_were_never_trained():
    trained = {shape(row["prompt"][-1]["content"]) for row in demo_rows()} | shapes(TRAINING)
    held_out = {shape(item["prompt"]) for item in made()["held_out_phrasings"]}
    assert shape("What is 5 plus 5?") in trained
    assert len(held_out) > 200
    assert not held_out & trained


def test_unsupported_combinations_were_not_trained_and_are_of_their_kind():
    mixture = Mixture(**ORDINARY, unsupported=1.0, negative=0.15, spelled_signs=0.4)
    trained = {shape(text(row)) for row in rows_of(8000, mixture=mixture)}
    items = made()["unsupported"]
    known = sum(shape(item["prompt"]) in trained for item in items) / len(items)  # 1.5 and 0.5 have one shape
    assert known < 0.1
    marks = {
        "decimals": r"[.,][0-9]|point",
        "percent": "%|per ?cent",
        "brackets": r"[(\[].*[)\]]",
        "three operands": "(?s)(?:[0-9].*){3}",
    }
    for item in items:
        assert re.search(marks.get(item["group"], ""), item["prompt"]), item
    assert not [item for item in items if item["group"] == "other" and re.search(r"[0-9]\.[0-9]|%", item["prompt"])]


def test_distracting_texts_were_not_trained():
    pools = (context_texts.SENTENCES, context_texts.CLOSINGS)
    found = {(text.strip(), line) for pool in pools for line in pool for text in expand(line) if "{" not in text}
    trained = {text for text, line in found if part_of(text, line) is Part.TRAINED and len(text) > 13}
    assert len(trained) > 15
    assert not [item for item in made()["distractors"] for line in trained if line in item["prompt"]]


def test_silent_items_have_no_target_and_come_in_every_kind():
    for name in (*SILENT, *REPORTED[1:]):
        assert all(item["target"] is None and item["igc_operator"] == "none" for item in made()[name])
    for name, kinds in (("unsupported", KINDS), ("silent", plain_texts.KINDS), ("other_operations", (OTHER,))):
        groups = collections.Counter(item["group"] for item in made()[name])
        assert set(groups) == set(kinds)
        assert min(groups.values()) >= 1000 / len(kinds) - 35  # there are not many ways to talk


def test_what_expressions_cover_has_its_value_and_the_rest_of_its_kinds_is_silent():
    values = [read(item["prompt"]) for item in made()["expressions"]]
    assert [value.text for value in values] == [item["target"] for item in made()["expressions"]]
    silent = [item["prompt"] for item in made()["unsupported"] if isinstance(read(item["prompt"]), Value)]
    assert all(re.search("[a-z]{3}.*[0-9]", prompt) for prompt in silent)  # with words between the numbers
    assert {item["group"] for item in made()["expressions"]} == set(KINDS)
    assert len({"." in item["target"] for item in made()["expressions"]}) == 2
    # Values that everybody can work out.
    known = {"2^10": "1024", "(3 + 4) * 2": "14", "50% of 80": "40", "1.5 + 2": "3.5"}
    assert {text: read(f"What is {text}?").text for text in known} == known


@pytest.mark.slow
def test_calculations_of_suites_can_be_kept_out_of_training():
    def calculations(rows):
        asked = ((row["igc_operator"], row["igc_operands"]) for row in rows if row["igc_operands"])
        return {(operator, int(a), int(b)) for operator, (a, b) in asked}

    items = [item for part in suites(400, 3).values() for item in part]
    held_out = {found for found in calculations(items) if max(map(abs, found[1:])) > 9}
    careless, careful = calculations(rows_of(4000)), calculations(rows_of(4000, exclude=items))
    assert len(careless & held_out) > 3
    assert not careful & held_out


# ------------------------------------------------------------------------------------------ casual writing
def numbers_of(message):
    return re.findall(r"[0-9][0-9,.]*[0-9]|[0-9]", message)


# Of the first 50 rows before there were everyday words.
BEFORE_CASUAL = "1202a9c1d22757ffde118717d9050ea5c394adc8f196d6a0fa483271b09f08ea"
SIGNS = re.compile(r"[-+*/×÷·−^=%²³]|(?<=[0-9)])!")


def test_a_casual_text_keeps_what_stands_from_its_first_number_to_its_last_one_and_the_names_of_operations():
    rng, changed, swapped, exclaimed = random.Random(0), 0, 0, 0
    for row in rows_of(3000, seed=7):
        before = row["prompt"][-1]["content"]
        after = casual.casual(before, TRAINING.around, rng)
        changed += after != before
        assert numbers_of(after) == numbers_of(before), (before, after)
        # Behind words it is no factorial.
        plain, same = (re.sub(r"(?<=[A-Za-z] )([0-9,]*[0-9]{2})!!?(?![0-9])", r"\1", text) for text in (before, after))
        exclaimed += plain == before and same != after
        assert SIGNS.findall(same) == SIGNS.findall(plain), (before, after)
        lost = collections.Counter(named_in(before)) - collections.Counter(named_in(after))
        inner = re.search(r"[0-9].*[0-9]|[0-9]", before, re.DOTALL)
        if lost:  # two letters of one name have changed places
            swapped += 1
            assert lost.total() == 1, (before, after)
            assert sorted(inner_of(after)) == sorted(inner[0].lower()), (before, after)
        else:  # leads and tails may have more names (`total`)
            assert inner is None or inner[0].lower() in after.lower(), (before, after)
    assert 0.4 < changed / 3000 < 1
    assert 0 < swapped < 0.05 * 3000
    assert 0 < exclaimed < 0.1 * 3000


def inner_of(message):
    return re.search(r"[0-9].*[0-9]|[0-9]", message, re.DOTALL)[0].lower()


OTHERS = ("how", "take", "point", "percent", "squared", "cubed", "power", "negative", "equals")


def named_in(message):
    return [word for word in re.findall(r"[a-z]+", message.lower()) if word in casual._KEPT - set(OTHERS)]


@pytest.mark.parametrize(
    "text", ["What is 7!", "Calculate (169 * 683)!", 'Repeat "4 + 5".', "max(3, 4)", "The sum is"]
)
def test_a_factorial_a_quotation_code_and_an_open_text_stay_as_they_are(text):
    found = {casual.casual(text, TRAINING.around, random.Random(seed)) for seed in range(60)}
    if text.endswith("!"):
        assert all(re.search(r"[0-9)]!", one) for one in found)
    else:
        assert found == {text}


def test_the_letters_of_an_operation_change_places_in_a_request_only():
    def swapped(**settings):
        rngs = map(random.Random, range(500))
        texts = [casual.casual("What is 7 minus 5?", TRAINING.around, rng, **settings) for rng in rngs]
        return {word for text in texts for word in re.findall(r"7 (m\w+) 5", text.lower())}

    assert swapped() == {"minus", "mnius", "miuns"}
    assert swapped(asks=False) == {"minus"}


def test_only_a_request_is_asked_for_again():
    asking = {text.strip(" ,?.").lower() for line in casual.ASKING_TAILS + casual.FORMS[:1] for text in expand(line)}
    story = "Ann has 5 pens and 3 pears."
    texts = [casual.casual(story, TRAINING.around, random.Random(n), asks=False) for n in range(500)]
    assert not [text for text in texts if text.lower().rstrip(" .?").endswith(tuple(asking))]
    texts = [casual.casual("Add 5 and 3.", TRAINING.around, random.Random(n)) for n in range(500)]
    assert [text for text in texts if text.lower().rstrip(" .?").endswith(tuple(asking))]


def test_casual_leads_and_tails_have_no_numbers_and_are_split():
    for line in (*casual.LEADS, *casual.ASKING_LEADS, *casual.TAILS, *casual.FORMS, *casual.ASKING_TAILS):
        assert all(not re.search(r"[0-9]|-\s*$|\bone\b", text) for text in expand(line))
        parts = {part_of(text, line) for text in expand(line)}
        assert parts == {Part.NEW} or {Part.TRAINED, Part.HELD_OUT} >= parts
    drawn_by = [
        {casual.casual("Say ok", wording.around, random.Random(seed)) for seed in range(800)}
        for wording in (TRAINING, HELD_OUT)
    ]
    assert len(drawn_by[0] & drawn_by[1]) < 12  # those without a lead and a tail, in small or large letters


def test_what_is_to_be_copied_is_never_typed_casually(monkeypatch):
    typed, made, draw = [], [], Wording.without_calculation
    monkeypatch.setattr(casual, "casual", lambda message, *rest: typed.append(message) or message)
    monkeypatch.setattr(Wording, "without_calculation", lambda *given: made.append(draw(*given)) or made[-1])
    rows_of(300, mixture=Mixture(**{**ORDINARY, "none": 1.0}, casual=1.0))
    copied = {one.text for one in made if one.kind == "copying"}
    others = {one.text for one in made} - copied
    assert len(copied) > 40
    assert set(typed) == others


@pytest.mark.parametrize("operator", "+-*/")
def test_requests_in_everyday_words_have_both_operands_and_no_other_number(operator):
    seen = set()
    for form, lines in everyday.EXPRESSIONS[operator].items():
        for line in lines:
            for text in expand(line):
                assert sorted(re.findall(r"\{\w+\}", text)) == ["{a}", "{b}"], text
                assert not re.search(r"[0-9]", text), text
                if form != "symbols":  # a sign before a number would be its own
                    assert not re.search(r"-\s*\{", text), text
                seen.add(text)
    assert len(seen) > 150
    for frames in everyday.FRAMES.values():
        for text in (one for line in frames for one in expand(line)):
            assert len(re.findall(r"\{[xX]\}", text)) == 1, text
            assert not re.search(r"[0-9]|-\s*\{", text), text


def test_without_casual_the_rows_are_as_before_and_with_it_their_labels_hold():
    digest = hashlib.sha256(json.dumps(rows_of(50)).encode()).hexdigest()
    assert digest == BEFORE_CASUAL
    casually = dataclasses.replace(TOKENS_MIXTURE, casual=0.6)
    for row in rows_of(400, mixture=casually):
        if row["igc_operands"] is not None:
            shown = [number.replace(",", "") for number in numbers_of(text(row))]
            assert {operand.lstrip("-") for operand in row["igc_operands"]} <= set(shown), row


def test_stories_that_only_look_like_a_calculation_have_two_numbers_and_another_question():
    for text in itertools.chain.from_iterable(map(expand, TRICKS)):
        assert set(re.findall(r"\{([a-c])\}", text)) == {"a", "b"}, text
        assert not re.search(r"[0-9%]", text), text
    assert all(operator not in others for operator, others in CROSSED.items())
    rng = random.Random(0)
    drawn_stories = [draw_templates.silent("stories", rng, everyday=True).template for _ in range(600)]
    tricks = {text for line in TRICKS for text in expand(line)}
    asked = {text for story in itertools.chain(*STORIES.values()) for text in expand(story.question)}
    own = {f"{a} {b}" for stories in STORIES.values() for story in stories for a in expand(story.setup)
           for b in expand(story.question)}  # fmt: skip
    assert 150 < sum(text in tricks for text in drawn_stories) < 270
    crossed = [text for text in drawn_stories if text not in tricks and any(text.endswith(one) for one in asked)]
    assert len(crossed) > 120
    assert not own & set(drawn_stories)  # no question of a story's own, which would be a calculation
    refused = ("How many is that?", "How much is it now?", "What does one cost?", "What is the total?")
    assert not [text for text in crossed if text.endswith(refused)]  # whatever the story, they may ask for a result


def test_where_texts_are_casual_a_fifth_of_the_plain_ones_are_stories_and_a_fifth_name_a_calculation():
    def shares(mixture):
        wording, rng = Wording(TRAINING.parts, TRAINING.around), random.Random(0)
        kinds = [wording.plain_text(["9", "4", "3", "2", "1"], rng, mixture).kind for _ in range(600)]
        return kinds.count("stories") / len(kinds), kinds.count("mentions") / len(kinds)

    stories, mentioned = shares(TOKENS_MIXTURE)
    assert stories < 0.14
    assert mentioned == 0
    stories, mentioned = shares(dataclasses.replace(TOKENS_MIXTURE, casual=0.5))
    assert 0.2 < stories < 0.34
    assert 0.14 < mentioned < 0.26


def test_a_text_that_names_a_calculation_has_an_expression_of_every_form_and_asks_for_nothing():
    lines = [(forms.split(), line) for forms, frames in plain_texts.MENTIONS.items() for line in frames]
    requested = {line for frames in (requests.FRAMES, everyday.FRAMES) for line in itertools.chain(*frames.values())}
    asked = {one for line in requested for one in expand(line)}
    for forms, line in lines:
        assert all(forms_of[form] for forms_of in requests.EXPRESSIONS.values() for form in forms)
        for one in expand(line):
            assert one.count("{x}") == 1, one
            assert set(re.findall(r"\{(\w+)\}", one)) <= {"x", "c", "w", "name", "other", "city"}, one
            assert not re.search(r"[0-9]|[+*/=]", one), one  # signs would be part of an expression in symbols
            assert one not in asked
            # `add 3 and 4` stands in quotation marks only, or where an infinitive fits.
            assert ('"{x}"' in one) == (len(forms) == 4), one
            assert forms != ["verbs"] or re.search(r"\b(to|rather|you|people|one) \{x\}", one), one
    wording, rng = Wording(TRAINING.parts, TRAINING.around), random.Random(0)
    mixture = dataclasses.replace(TOKENS_MIXTURE, casual=0.5)
    found = {wording.plain_text(["9", "4", "3", "2", "1"], rng, mixture, "mentions").text for _ in range(500)}
    assert len(found) > 450


def test_the_form_of_bigbench_is_never_typed_casually():
    mixture = Mixture(**ORDINARY, bigbench=1.0, casual=1.0)
    found = {row["prompt"][-1]["content"] for row in rows_of(200, mixture=mixture)}
    assert all(re.fullmatch(r"What is -?\d+ (plus|minus|times|divided by) -?\d+\?", one) for one in found)
