"""The benchmarks of expressions in symbols: honest texts, honest counts, and a twentieth of each as a test.

The texts that the benchmarks make are checked against `reference_expressions`, which shares no code with them or with
the package. Real tokenizers take part where `PEFT_IGC_TOKENIZERS` names a folder of saved ones.
"""

import itertools
import random
from collections import Counter
from fractions import Fraction

import pytest

from benchmarks.accuracy import look_alikes, symbol_fuzz, symbol_items, symbols_gsm8k
from benchmarks.accuracy.symbol_texts import Sample, samples
from benchmarks.accuracy.symbol_trees import Tree, Unanswerable, evaluate, pieces_of, random_tree, span, written
from benchmarks.common import reference_expressions as reference
from benchmarks.common.symbol_reader import Outcome, SymbolReader, load_tokenizer, tokenizer_names


NO = Outcome(None, "malformed", True)
RIGHT, WRONG = Outcome("5", "none", True), Outcome("6", "none", True)


def number(text):
    return Tree("literal", text, Fraction(text))


# ------------------------------------------------------------------------------------------------ texts
@pytest.mark.parametrize("seed", range(3))
def test_the_reference_agrees_with_every_text(seed):
    for sample in itertools.islice(samples(seed), 4000):
        read = reference.read(sample.text)
        if isinstance(read, Fraction):
            assert reference.written(read) == sample.value, sample
        else:
            assert not sample.due, (sample, read)


def test_texts_are_many_of_each_kind_and_seeds_give_the_same():
    made = list(itertools.islice(samples(0), 4000))
    assert made == list(itertools.islice(samples(0), 4000))
    assert made != list(itertools.islice(samples(1), 4000))
    assert len({sample.text for sample in made}) > 3900
    assert sum(sample.due for sample in made) > 1800
    assert sum(sample.value is None for sample in made) > 1200
    kinds = Counter(sample.kind for sample in made)
    spoilt = [kind for kind in kinds if kind.startswith("spoilt")]
    assert len(spoilt) == 19
    assert min(kinds[kind] for kind in spoilt) > 40
    assert {"exact", "inexact", "undefined", "overflow", "units", "exact, after text", "exact, message"} <= set(kinds)


def test_the_value_of_a_tree_is_exact():
    third = Tree("/", parts=[number("1"), number("3")])
    assert evaluate(Tree("+", parts=[number("0.1"), number("0.2")]))[0] == Fraction(3, 10)
    assert evaluate(Tree("sign", "-", parts=[Tree("^", parts=[number("2"), number("2")])]))[0] == -4
    for tree, reason in (
        (Tree("*", parts=[third, number("3")]), "inexact"),
        (Tree("/", parts=[number("1"), number("0.0")]), "undefined"),
        (Tree("^", parts=[number("0"), number("0")]), "undefined"),
        (Tree("^", parts=[number("2"), number("0.5")]), "exponent"),
        (Tree("^", parts=[number("2"), number("9999")]), "overflow"),
    ):
        with pytest.raises(Unanswerable, match=reason):
            evaluate(tree)


@pytest.mark.parametrize(("value", "text", "digits"), [("1/8", "0.125", 4), ("-25/2", "-12.5", 3), ("100", "100", 3)])
def test_values_are_written_in_canonical_form(value, text, digits):
    assert written(Fraction(value)) == text
    assert span(Fraction(value)) == digits


def test_trees_have_as_many_operands_as_asked_and_brackets_where_needed():
    rng = random.Random(0)
    for operands in (2, 3, 8):
        assert all(len(random_tree(rng, operands).leaves()) == operands for _ in range(200))
    inner = Tree("-", parts=[number("5"), number("3")])
    texts = ["".join(piece.text for piece in pieces_of(Tree("-", parts=parts), rng, 0)) for parts in
             ([number("9"), inner], [inner, number("9")])]  # fmt: skip
    assert texts[0].replace("−", "-").translate(str.maketrans("[{]}", "(())")) == "9-(5-3)"
    assert texts[1].replace("−", "-") == "5-3-9"


@pytest.mark.parametrize("items", [symbol_items.spelled_items(3), symbol_items.like_math_401(400)])
def test_the_reference_agrees_with_every_item(items):
    for item in items:
        read = reference.read(item["prompt"].removeprefix("Q: ").removesuffix("\nA:"))
        assert (reference.written(read) if isinstance(read, Fraction) else None) == item["target"], (item, read)


def test_there_are_eighty_spellings_and_every_form():
    assert len(set(symbol_items.PAIRS)) == len(symbol_items.PAIRS) >= 80
    items = symbol_items.like_math_401(200)
    assert {item["group"] for item in items} == set(symbol_items.FORMS)


def test_look_alikes_are_distinct_and_of_all_kinds():
    made = look_alikes.look_alikes(500)
    assert made == look_alikes.look_alikes(500)
    assert len({one.text for one in made}) == 500
    assert set(Counter(one.kind for one in made).values()) == {50}
    assert not any("{n}" in one.text or "{d}" in one.text for one in made)


def test_the_sites_of_a_solution_end_with_their_equals_sign():
    solution = "She has 48/2 = <<48/2=24>>24 clips.\nThat is 24 + 48=$<<24+48=72>>72, or <<1*2=2>>2.\n#### 72"
    first, second, third = symbols_gsm8k.sites_of(3, solution)
    assert first.text == "She has 48/2 ="
    assert first.since == 0
    assert second.text[second.since :] == " 24 clips.\nThat is 24 + 48="
    assert second.values == {Fraction(72)}
    assert third.text is None
    assert symbols_gsm8k.sites_of(0, "x=<<20%*.5=.1>>")[0].values == {Fraction(1, 10)}


# ------------------------------------------------------------------------------------------------ counts
@pytest.mark.parametrize(
    ("value", "due", "outcome", "verdict"),
    [
        ("5", True, RIGHT, "right"),
        ("5", True, NO, "refused"),
        ("5", True, WRONG, "wrong"),
        ("5", False, RIGHT, "open_right"),
        ("5", False, NO, "open_refused"),
        ("5", False, WRONG, "wrong"),
        (None, False, NO, "rightly_refused"),
        (None, False, RIGHT, "wrong"),
        ("5", True, Outcome("5.0", "none", True), "wrong"),
    ],
)
def test_a_text_is_judged_by_its_value(value, due, outcome, verdict):
    assert symbol_fuzz.judge(Sample("", "", value, due), outcome) == verdict


def test_a_score_counts_and_lists_mistakes():
    texts = [Sample("a", "k", "5", True), Sample("b", "k", "6", True), Sample("c", "k", None, False)]
    found = symbol_fuzz.measure(lambda prompts: [RIGHT, NO, RIGHT], texts, chunk=3).as_dict()
    assert (found["n"], found["right"], found["refused"], found["wrong"]) == (3, 1, 1, 1)
    assert found["refused_by_reason"] == {"malformed": 1}
    assert [row["text"] for row in found["wrong_texts"]] == ["c"]
    assert [row["text"] for row in found["refused_texts"]] == ["b"]


def test_answered_look_alikes_and_items_are_counted():
    texts = [look_alikes.LookAlike("code", "x = a[3-1]"), look_alikes.LookAlike("dates", "on 2024-05-17")]
    found = look_alikes.measure(lambda prompts: [RIGHT if "x" in one else NO for one in prompts], texts)
    assert (found["whole"]["answered"], found["at_equals"]["n"], found["at_equals"]["answered"]) == (1, 1, 1)
    items = [{"prompt": "", "target": target, "group": "g"} for target in ("5", "7", None)]
    assert symbol_items.measure(lambda prompts: [RIGHT, RIGHT, NO], items)["totals"] == {
        "right": 1,
        "wrong": 1,
        "rightly_refused": 1,
    }


# ------------------------------------------------------------------------------------------------ the package
@pytest.fixture(scope="module", params=tokenizer_names())
def reader(request):
    return SymbolReader(load_tokenizer(request.param))


@pytest.mark.slow
def test_a_twentieth_of_the_fuzz_has_no_wrong_value_and_no_needless_refusal(reader):
    found = symbol_fuzz.measure(reader.read, itertools.islice(samples(20), 5000)).as_dict()
    assert found["wrong_texts"] == []
    assert found["refused_texts"] == []


@pytest.mark.slow
def test_random_symbols_never_have_another_value_than_the_reference_gives(reader):
    rng = random.Random(0)
    texts = ["".join(rng.choices("1234567890  +-*/^().%$x", k=rng.randint(3, 9))) + "=" for _ in range(4000)]
    for text, outcome in zip(texts, reader.read(texts), strict=True):
        read = reference.read(text)
        if outcome.value is not None and isinstance(read, Fraction):
            assert outcome.value == reference.written(read), text


def test_a_text_is_read_alike_alone_and_among_others(reader):
    texts = [sample.text for sample in itertools.islice(samples(21), 120)]
    together = reader.read(texts)
    assert [reader.read([text])[0] for text in texts[:40]] == together[:40]
    assert reader.read(texts[::-1]) == together[::-1]


@pytest.mark.slow
def test_spellings_and_items_have_no_wrong_value_and_few_are_refused(reader):
    spelled = symbol_items.measure(reader.read, symbol_items.spelled_items(4))
    assert spelled["totals"].get("wrong", 0) == 0
    assert spelled["totals"]["right"] >= 0.995 * spelled["n"]
    items = symbol_items.measure(reader.read, symbol_items.like_math_401(200))
    assert items["totals"].get("wrong", 0) == 0
    assert items["totals"]["right"] + items["totals"]["rightly_refused"] >= 0.99 * items["n"]


@pytest.mark.slow
def test_look_alikes_are_not_answered_at_an_equals_sign(reader):
    assert look_alikes.measure(reader.read, look_alikes.look_alikes(400))["at_equals"]["texts"] == []
