"""The benchmarks of expressions in symbols: honest texts, honest counts, and a twentieth of each as a test.

The values of the texts are known by construction, and share no code with the package. Its reader of characters and
its reader of tokens are held to them, and to each other. Real tokenizers take part where `PEFT_IGC_TOKENIZERS` names a
folder of saved ones.
"""

import itertools
import random
import re
from collections import Counter
from fractions import Fraction

import pytest

from benchmarks.accuracy import look_alikes, second_opinion, symbol_fuzz, symbol_items, symbols_gsm8k
from benchmarks.accuracy.symbol_texts import Sample, samples
from benchmarks.accuracy.symbol_trees import Tree, Unanswerable, evaluate, pieces_of, random_tree, span, written
from benchmarks.common.symbol_reader import (
    Outcome,
    SymbolReader,
    TextReader,
    load_reader,
    load_tokenizer,
    reader_names,
    tokenizer_names,
)
from peft_igc.text import Value, read


NO = Outcome(None, "malformed", True)
RIGHT, WRONG = Outcome("5", "none", True), Outcome("6", "none", True)


def number(text):
    return Tree("literal", text, Fraction(text))


# ------------------------------------------------------------------------------------------------ texts
@pytest.mark.parametrize("seed", range(3))
def test_no_generated_text_has_a_wrong_value_nor_is_refused_though_it_is_due(seed):
    texts = itertools.islice(samples(seed), 4000)
    found = symbol_fuzz.measure(TextReader().read, texts).as_dict()
    assert found["wrong_texts"] == []
    item = re.compile(r"[(\[{]\d{1,2}[)\]}] +[-−+][^ ]")  # a list number and a sign, or a difference: nobody can tell
    assert [row for row in found["refused_texts"] if not item.search(row["text"])] == []


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
    assert evaluate(Tree("*", parts=[third, number("3")]))[0] == 1
    for tree, reason in (
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
def test_every_item_has_its_value(items):
    found = symbol_items.measure(TextReader().read, items)
    assert found["mistakes"] == []


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


def test_two_opinions_are_compared_by_what_they_say():
    half, texts = Outcome("0.5", "none", True), [second_opinion.Text(name, frozenset({"1/2"})) for name in "abc"]
    found = second_opinion.compare([half, NO, half], [half, half, Outcome(None, "not found, units", True)], texts)
    assert found == {"malformed, value": ["'b': malformed, 0.5"], "value, units": ["'c': 0.5, units"]}
    texts += [second_opinion.Text(name, values) for name, values in (("d", frozenset()), ("e", second_opinion.NOBODY))]
    counts = second_opinion.verdicts([half, NO, RIGHT, RIGHT, RIGHT], texts)
    assert counts == {"right": 1, "refused": 1, "wrong": 2, "answered": 1}


def test_the_sets_of_both_opinions_have_their_values(tmp_path):
    solutions, derivations = tmp_path / "gsm8k.jsonl", tmp_path / "tatqa.jsonl"
    solutions.write_text('{"answer": "She has 48/2 = <<48/2=24>>24 clips."}', encoding="utf-8")
    derivations.write_text('{"derivation": "44.1-56.7"}', encoding="utf-8")
    made = dict(second_opinion.sets(50, solutions, derivations))
    assert made["GSM8K"] == [second_opinion.Text("She has 48/2 =", frozenset({"24"}))]
    assert made["TAT-QA"][0].text == "44.1-56.7 ="
    assert len(made["generated"]) == 50
    for name, texts in made.items():
        counts = second_opinion.verdicts(TextReader().read([one.text for one in texts]), texts)
        assert "wrong" not in counts, name


# ------------------------------------------------------------------------------------------------ the package
@pytest.fixture(scope="module", params=reader_names())
def reader(request):
    return load_reader(request.param)


@pytest.mark.slow
def test_a_twentieth_of_the_fuzz_has_no_wrong_value_and_no_needless_refusal(reader):
    found = symbol_fuzz.measure(reader.read, itertools.islice(samples(20), 5000)).as_dict()
    assert found["wrong_texts"] == []
    assert found["refused_texts"] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", tokenizer_names())
def test_random_symbols_never_have_two_values(name):
    rng, tokens = random.Random(0), SymbolReader(load_tokenizer(name))
    texts = ["".join(rng.choices("1234567890  +-*/^().%$x", k=rng.randint(3, 9))) + "=" for _ in range(4000)]
    for text, outcome in zip(texts, tokens.read(texts), strict=True):
        found = read(text)
        if outcome.value is not None and isinstance(found, Value):
            assert outcome.value == found.text, text


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
