"""A decimal goes on where the text has come to, at either side of its point, in the tokens of the tokenizer."""

import itertools
import os
import random
import shutil
from dataclasses import replace
from decimal import Decimal

import pytest
import reference_tokens as naive
import torch
import torch.nn.functional as F
from devices import no_synchronization
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from peft_igc.numbers.digits import PAD, encode
from peft_igc.numbers.number_runs import NumberTokens
from peft_igc.numbers.spelling import ENDS, Spelled, continue_result, window_of
from tests.numbers.test_number_runs import (
    TEXTS,
    THREES,
    TOKENS,
    WORDS,
    batch_of,
    known,
    table_of,
    texts,
    tokenized,
    tokenizers,
)
from tests.numbers.test_spelling import PARTS, first_told, governing, pieces, untold


properties = settings(max_examples=100, derandomize=True, deadline=None)

VOCABULARIES = naive.VOCABULARIES | {"points with digits": naive.FUSED}
FUSED = NumberTokens(table_of(naive.FUSED))
NUMBERS = TOKENS | {"points with digits": FUSED}
NOISE = TEXTS | {"points with digits": texts(naive.FUSED)}


def results_of(numbers, width):
    """Digits [N, width], sign [N] and scale [N] of decimals and integers, without zeros before the first digit."""
    digits, sign = encode([number.replace(".", "") for number in numbers], width)
    return digits, sign, torch.tensor([len(number.partition(".")[2]) for number in numbers])


def governed(numbers, length, width):
    """The same at each of `length` positions: [N, length, ..]."""
    return [x[:, None].expand(-1, length, *x.shape[1:]) for x in results_of(numbers, width)]


def continued(tokens, ids, valid, numbers, width=12, anchor=0):
    """What continues a decimal in each text, after the anchor at one index."""
    digits, sign, scale = governed(numbers, ids.shape[1], width)
    at = torch.where(torch.arange(ids.shape[1]) >= anchor, anchor, -1).expand(len(ids), -1)
    return continue_result(tokens, ids, valid, at, digits, sign, untold(at), scale=scale)


def walk(text, number, anchor=0, words=WORDS, tokens=THREES):
    """What is offered behind every token of a text: its text, `"end"`, or None where nothing is."""
    row = words.encode(text) if isinstance(text, str) else [words.texts.index(piece) for piece in text]
    found = continued(tokens, *batch_of([row]), [number], anchor=anchor)
    shown = []
    for token, state, active, complete, again in zip(*(field[0].tolist() for field in found), strict=True):
        assert (state in ENDS) == complete == (active and token == -1)
        assert (state in (Spelled.AGAIN, Spelled.RESUMED)) <= again <= active
        shown.append((words.texts[token] if token >= 0 else "end") if active else None)
    return shown


def written(tokens, number, width=40):
    """The ids of a number that is written token by token directly after an anchor."""
    ids = torch.tensor([[0]])
    while True:
        found = continued(tokens, ids, torch.ones_like(ids, dtype=torch.bool), [number], width)
        assert found.active[0, -1]
        if found.token[0, -1] < 0:
            assert found.complete[0, -1]
            return ids[0, 1:]
        ids = torch.cat([ids, found.token[:, -1:]], 1)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("0.5", ["0", ".", "5"]),
        ("-0.125", ["-", "0", ".", "125"]),
        ("0.05", ["0", ".", "05"]),
        ("0.0000001", ["0", ".", "000", "000", "1"]),
        ("1234.5678", ["123", "4", ".", "567", "8"]),
        ("-12.34", ["-", "12", ".", "34"]),
        ("10.0", ["10", ".", "0"]),  # a fixed number of places
        ("0.00", ["0", ".", "00"]),
        ("9" * 20 + "." + "9" * 20, ["999"] * 6 + ["99", "."] + ["999"] * 6 + ["99"]),
    ],
)
def test_a_decimal_is_spelled_in_groups_from_the_left_on_both_sides_of_its_point(number, expected):
    assert pieces(written(THREES, number)) == expected


def test_groups_that_are_no_tokens_are_spelled_in_shorter_ones():
    words = VOCABULARIES["groups with gaps"]
    assert pieces(written(TOKENS["groups with gaps"], "1234.007125"), words) == ["123", "4", ".", "007", "12", "5"]
    assert pieces(written(FUSED, "-10.5"), naive.FUSED) == ["-", "1", "0", ".", "5"]


@pytest.mark.parametrize(
    ("text", "number", "shown"),
    [
        ("=12.5", "12.5", ["12", ".", "5", "end"]),
        ("= 12.5.", "12.5", ["12", "12", ".", "5", "end", "12"]),
        ("=-0.125", "-0.125", ["0", ".", "125", "end"]),
        ("= -0.1", "-0.125", ["-", "0", ".", "125", "25"]),
        ("=1234.56", "1234.5678", ["123", "4", ".", "567", "7"]),
        ("=12.345", "12.345678", ["12", ".", "345", "678"]),
        ("=12.3", "12.345678", ["12", ".", "345", "45"]),
        # Other numbers.
        ("=12.6", "12.5", ["12", ".", "5", None]),
        ("=12.50", "12.5", ["12", ".", "5", None]),
        ("=125", "12.5", ["12", None]),
        ("=13.5", "12.5", ["12", None, "12", None]),
        ("=1.25", "12.5", ["12", "2", "12", None]),
        ("=12.5.5", "12.5", ["12", ".", "5", "end", "12", None]),
        ("=7.12.5", "12.5", ["12", None, "12", None, "12", None]),
        ("=12:12.5", "12.5", ["12", ".", "12", None, "12", None]),
        ("=12,12.5", "12.5", ["12", ".", "12", None, "12", None]),
        ("=12..5", "12.5", ["12", ".", "5", "12", None]),
        ("=7.,12.5", "12.5", ["12", None, "12", "12", None, "12", None]),
        ("=).12.5", "12.5", ["12", "12", None, "12", None]),
        ("=-12.5", "12.5", [None, None, "12", None]),
        ("=12.5", "-12.5", ["-", None, "-", None]),
        # A point that is the end of a sentence.
        ("=12. 12.5", "12.5", ["12", ".", "5", "12", ".", "5", "end"]),
        ("=7. 12.5", "12.5", ["12", None, "12", "12", ".", "5", "end"]),
        # A number that lacks its zero.
        ("=.5", "0.57", ["0", "57", "7"]),
        ("= .57", "0.57", ["0", "0", "57", "end"]),
        ("=-.57", "-0.57", ["0", "57", "end"]),
        ("=.57", "-0.57", ["-", "-", None]),
        ("=.57", "7.57", ["7", "7", None]),
        ("=).57", "0.57", ["0", "0", None]),  # a point that is part of another token
    ],
)
def test_a_decimal_goes_on_where_the_text_has_come_to(text, number, shown):
    assert walk(text, number) == shown


@pytest.mark.parametrize(
    ("text", "number", "shown"),
    [
        ("=12.5", "12", ["12", "end", "12", None]),
        ("=12. 12.", "12", ["12", "end", "12", "12", "end", "12"]),
        ("=.5", "5", ["5", "5", "end"]),
    ],
)
def test_an_integer_ends_before_a_point(text, number, shown):
    assert walk(text, number) == shown


@pytest.mark.parametrize(
    ("text", "number", "states"),
    [
        ("=12.5", "12.5", [Spelled.START, Spelled.MIDDLE, Spelled.MIDDLE, Spelled.END]),
        ("= 12.5", "12.5", [Spelled.START, Spelled.WAITING, Spelled.MIDDLE, Spelled.MIDDLE, Spelled.TOLD]),
        ("=-0.5", "-0.5", [Spelled.SIGNED, Spelled.MIDDLE, Spelled.MIDDLE, Spelled.END]),
        (
            "=12.5 12.5",
            "12.5",
            [
                *(Spelled.START, Spelled.MIDDLE, Spelled.MIDDLE, Spelled.END),
                *(Spelled.AGAIN, Spelled.RESUMED, Spelled.RESUMED, Spelled.TOLD),
            ],
        ),
        ("= .5", "0.5", [Spelled.START, Spelled.WAITING, Spelled.WAITING, Spelled.TOLD]),
        ("= -.5", "-0.5", [Spelled.START, Spelled.SIGNED, Spelled.SIGNED, Spelled.END]),
    ],
)
def test_a_decimal_has_the_states_of_an_integer(text, number, states):
    found = continued(THREES, *batch_of([WORDS.encode(text)]), [number])
    assert found.state.tolist() == [states]


def test_text_before_the_anchor_does_not_count():
    assert walk("12.5=12", "12.5", anchor=3) == [None, None, None, "12", "."]
    assert walk("5.12", "12.5", anchor=1) == [None, "12", "."]  # the full stop of the question
    assert walk("12.5", "12.5", anchor=0) == [None, "12", None]  # a number that began with the anchor goes on
    assert walk(").5", "0.5", anchor=0)[0] == "0"


def splits(text, words):
    """All rows of tokens that spell a text."""
    if not text:
        return [[]]
    return [
        [token, *rest]
        for token, piece in enumerate(words.texts)
        if text.startswith(piece)
        for rest in splits(text[len(piece) :], words)
    ]


@pytest.mark.parametrize(
    ("name", "text", "number", "least"),
    [
        ("groups of three", "=1234.567", "1234.5678", 20),
        ("points with digits", "=12.1505", "12.15057", 4),
        ("points with digits", "= 0.50512", "0.505127", 8),
        ("points with digits", "=-12.10050", "-12.100501", 12),
        ("points with digits", "= .51", "0.5123", 3),
        ("points with digits", "= .1200", "0.120012", 4),
    ],
)
def test_a_beginning_is_continued_however_its_tokens_split_it(name, text, number, least):
    words, tokens = VOCABULARIES[name], NUMBERS[name]
    rows = splits(text, words)
    assert len(rows) >= least
    shown = text.strip("= ").removeprefix("-")
    rest = number.removeprefix("-").removeprefix("0" if shown[0] == "." else "").removeprefix(shown)
    for row in rows:
        ids, row = torch.tensor([row]), list(row)
        for _ in range(len(rest) + 1):
            found = continued(tokens, ids, ids >= 0, [number])
            assert found.active[0, -1], [words.texts[token] for token in ids[0]]
            if found.token[0, -1] < 0:
                break
            ids = torch.cat([ids, found.token[:, -1:]], 1)
        assert "".join(words.texts[token] for token in ids[0]) == text + rest


def test_a_point_with_digits_is_split_before_it_goes_on():
    for row, shown in (
        (["=", "12.", "5"], ["1", "5", "end"]),
        (["=", "1", "2.1"], ["1", "2", None]),
        (["=", "12", ".5"], ["1", ".", "end"]),
        (["=", "12", " .", "5"], ["1", ".", "1", None]),  # a point behind a space begins another number
        (["=", " 12", ".", "5"], ["1", ".", "5", "end"]),
    ):
        assert walk(row, "12.5", words=naive.FUSED, tokens=FUSED) == shown


def test_a_table_without_a_point_writes_integers_only():
    old = NumberTokens(replace(THREES.table, point=None, points={}))
    ids, valid = batch_of([WORDS.encode("=12.5"), WORDS.encode("=12.5")])
    found = continued(old, ids, valid, ["12.5", "12"])
    assert found.active.tolist() == [[False] * 4, [True, True, True, False]]
    for one, two in zip(found, continued(THREES, ids, valid, ["12.5", "12"]), strict=True):
        assert torch.equal(one[1], two[1])


def test_a_decimal_that_is_longer_than_a_result_with_its_zeros_is_not_written():
    ids = torch.tensor([[0]])
    for number, possible in (("0.001", True), ("0.0001", False), ("12.34", True), ("1.234", True)):
        assert bool(continued(THREES, ids, ids == 0, [number], width=4).active) == possible


@pytest.mark.slow
def test_a_number_longer_than_what_is_looked_at_is_not_the_result():
    for piece, number in itertools.product(("0", "."), ("0.0", "0.000", "0.5", "10.0")):
        ids = torch.tensor([WORDS.encode("=" + "1" * (number == "10.0")) + [WORDS.texts.index(piece)] * 200])
        found = continued(THREES, ids, ids >= 0, [number], width=4)
        at_once = found.token[0].tolist()
        for end in range(1, ids.shape[1] + 1):
            digits, sign, scale = governed([number], 1, 4)
            at = torch.zeros(1, 1, dtype=torch.int64)
            step = continue_result(THREES, ids[:, :end], ids[:, :end] >= 0, at, digits, sign, untold(at), scale=scale)
            assert step.token.item() == at_once[end - 1]
            assert step.active.item() == found.active[0, end - 1]


def test_a_step_of_decoding_looks_at_a_window_of_the_text(monkeypatch):
    seen = []
    monkeypatch.setattr(
        NumberTokens,
        "look_up",
        lambda self, ids, valid, look=NumberTokens.look_up: seen.append(ids) or look(self, ids, valid),
    )
    ids = torch.zeros(2, 4000, dtype=torch.int64)
    at = torch.zeros(2, 3, dtype=torch.int64)
    continue_result(THREES, ids, ids == 0, at, torch.zeros(2, 3, 5, dtype=torch.int64), at, untold(at), scale=at)
    assert [tuple(window.shape) for window in seen] == [(2, window_of(3, 5, decimals=True))] == [(2, 13)]


# ------------------------------------------------------------------------------------------------- the naive twin
def as_decimal(number, places):
    """An integer as a result with so many places; with none an integer."""
    return f"{Decimal(number).scaleb(-places):f}"


DECIMALS = st.tuples(
    st.integers(0, 8).flatmap(lambda n: st.integers(-(10**n), 10**n)), st.sampled_from([0, 0, 1, 1, 2, 3, 4, 7])
).map(lambda drawn: as_decimal(*drawn))


def draw_answer(data, name):
    """Ids of a text full of some results and beginnings of them, its anchors, and their results."""
    words = VOCABULARIES[name]
    results, noise, ids = data.draw(st.lists(DECIMALS, min_size=1, max_size=3)), data.draw(NOISE[name]), []
    for which, before, size in data.draw(PARTS):
        number = results[which % len(results)].strip("-")
        if size == 7:
            number = number.removeprefix("0") or number
        ids += words.encode(before + number[:size]) if size else [*noise[:3], 0]
        ids += [words.point] * (size == 6)
        noise = noise[3:]
    anchors = data.draw(st.sets(st.integers(0, len(ids) - 1), min_size=1, max_size=len(results)))
    return ids, sorted(anchors), results


@pytest.mark.parametrize("name", NUMBERS)
@properties
@given(st.data())
def test_every_text_goes_on_as_its_characters_do(name, data):
    words, tokens = VOCABULARIES[name], NUMBERS[name]
    rows = [draw_answer(data, name) for _ in range(data.draw(st.integers(1, 2)))]
    left = data.draw(st.integers(0, 2))
    ids, valid = batch_of([row[0] for row in rows], left, data.draw(st.integers(0, 2)), words.texts.index("7"))
    at, numbers = governing(ids, [(anchors, results) for _, anchors, results in rows], left)
    length = ids.shape[1]
    new = data.draw(st.integers(1, length))
    digits, sign, scale = results_of(list(itertools.chain(*numbers)), data.draw(st.integers(9, 10)))
    digits, sign, scale = (x.view(len(rows), length, *x.shape[1:])[:, -new:] for x in (digits, sign, scale))
    row_texts = [ids.tolist(), valid.tolist(), at.tolist(), numbers]
    expected = [naive.continue_text(words, *row) for row in zip(*row_texts, strict=True)]
    told = torch.tensor([first_told(row, at[i].tolist(), length - new) for i, row in enumerate(expected)])
    found = continue_result(tokens, ids, valid, at[:, -new:], digits, sign, told[:, -new:], scale=scale)
    for row, t in itertools.product(range(len(rows)), range(length - new, length)):
        got = tuple(int(field[row, t - length + new]) for field in found)
        assert got == expected[row][t], ([words.text(token) for token in ids[row, : t + 1].tolist()], numbers[row][t])


@pytest.mark.slow
@pytest.mark.parametrize("name", NUMBERS)
@properties
@given(data=st.data())
def test_integers_are_what_they_are_without_scales(name, data):
    """Bit for bit, everywhere, also beside rows with decimals."""
    words, tokens = VOCABULARIES[name], NUMBERS[name]
    rows = [draw_answer(data, name) for _ in range(2)]
    ids, valid = batch_of([row[0] for row in rows], 1, 0, words.texts.index("7"))
    whole = [[number.partition(".")[0].replace("-0", "0") for number in results] for _, _, results in rows]
    at, numbers = governing(ids, [(anchors, results) for (_, anchors, _), results in zip(rows, whole, strict=True)], 1)
    digits, sign = encode(list(itertools.chain(*numbers)), 9)
    digits, sign = digits.view(*ids.shape, 9), sign.view(ids.shape)
    new = data.draw(st.integers(1, ids.shape[1]))
    of_step = [x[:, -new:] for x in (at, digits, sign, untold(at))]
    expected = continue_result(tokens, ids, valid, *of_step)
    for row in (slice(None), slice(0, 1)):
        scale = torch.zeros_like(of_step[0])
        scale[row.stop or 2 :] = 3
        found = continue_result(tokens, ids, valid, *of_step, scale=scale)
        for one, two in zip(found, expected, strict=True):
            assert torch.equal(one[row], two[row])


@pytest.mark.parametrize("name", NUMBERS)
def test_a_text_in_pieces_goes_on_as_it_does_at_once(name):
    words, tokens, draw = VOCABULARIES[name], NUMBERS[name], random.Random(2)
    rows, steps = [], []
    for _ in range(200):
        results = [as_decimal(draw.randrange(-(10**6), 10**6), draw.randrange(8)) for _ in range(2)]
        text = []
        for _ in range(draw.randint(1, 7)):
            number = draw.choice(results).strip("-")
            said = number if draw.random() < 0.6 else number[: draw.randrange(len(number) + 1)]
            text += words.encode(draw.choice(["", " ", "=", "-", " the ", ",", "="]) + said)
        text = text or [0]
        rows, steps = [*rows, text], [*steps, (sorted(draw.sample(range(len(text)), min(2, len(text)))), results)]
    ids, valid = batch_of(rows)
    at, numbers = governing(ids, steps)
    of_text = [x.view(*ids.shape, *x.shape[1:]) for x in results_of(list(itertools.chain(*numbers)), 12)]
    digits, sign, scale = of_text
    at_once = continue_result(tokens, ids, valid, at, digits, sign, untold(at), scale=scale)
    told, found = untold(ids), []
    for end in range(1, ids.shape[1] + 1):
        here = slice(end - 1, end)
        reach = max(0, end - window_of(1, 12, decimals=True))  # as a layer keeps the last tokens of a text
        arguments = (ids[:, reach:end], valid[:, reach:end], at[:, here], digits[:, here], sign[:, here])
        of_row = told.gather(1, at[:, here].clamp(min=0))
        found.append(continue_result(tokens, *arguments, of_row, start=reach, scale=scale[:, here]))
        for row in found[-1].complete[:, 0].nonzero()[:, 0].tolist():
            anchor = at[row, end - 1]
            told[row, anchor] = end - 1 if told[row, anchor] < 0 else told[row, anchor]
    for whole, *parts in zip(at_once, *found, strict=True):
        assert torch.equal(torch.cat(parts, 1), whole)
    assert at_once.complete.sum() > 25


# ------------------------------------------------------------------------------------------------- graphs and devices
def example():
    """A batch of a decimal, an integer and a decimal below 1, with an anchor each."""
    ids, valid = batch_of([WORDS.encode(text) for text in ("5.2=123.456 x", "=-12. 12", "= .05 0.05.")], left=1)
    digits, sign, scale = governed(["123.4567", "-12", "0.05"], ids.shape[1], 9)
    anchor = torch.tensor([[4], [1], [1]]).expand(-1, ids.shape[1])
    return ids, valid, anchor, digits, sign, untold(anchor), scale


def test_it_never_looks_at_a_value():
    tokens = NumberTokens(THREES.table)
    with FakeTensorMode():  # a read of a value, such as `.item()`, raises here
        ids, digits = torch.zeros(3, 9, dtype=torch.int64), torch.zeros(3, 2, 5, dtype=torch.int64)
        at = ids[:, :2]
        found = continue_result(tokens, ids, ids == 0, at, digits, at, at, scale=at)
        assert [tuple(field.shape) for field in found] == [(3, 2)] * 5


@pytest.mark.parametrize("shape", [(0, 5, 2), (2, 0, 0), (2, 1, 1)])
def test_no_rows_and_no_positions(shape):
    rows, length, new = shape
    ids, at = torch.zeros(rows, length, dtype=torch.int64), torch.zeros(rows, new, dtype=torch.int64)
    digits = torch.zeros(rows, new, 4, dtype=torch.int64)
    found = continue_result(THREES, ids, ids == 0, at, digits, at, untold(at), scale=at + 1)
    assert [tuple(field.shape) for field in found] == [(rows, new)] * 5
    assert [field.dtype for field in found] == [torch.int64, torch.int64, torch.bool, torch.bool, torch.bool]


def compile_and_compare(backend):
    torch._dynamo.reset()
    compiled = torch.compile(continue_result, fullgraph=True, backend=backend)
    ids, valid, *of_step, scale = example()
    for new in (1, 2, ids.shape[1]):
        arguments = (THREES, ids, valid, *(tensor[:, -new:] for tensor in of_step))
        expected = continue_result(*arguments, scale=scale[:, -new:])
        for one, two in zip(compiled(*arguments, scale=scale[:, -new:]), expected, strict=True):
            assert torch.equal(one, two)


@pytest.mark.slow
def test_it_compiles_into_one_graph():
    compile_and_compare("eager")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "g++")), reason="Inductor needs a C++ compiler")
def test_it_is_exact_when_compiled_with_inductor():
    compile_and_compare("inductor")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_it_is_the_same_and_never_synchronises():
    *arguments, scale = example()
    expected = continue_result(THREES, *arguments, scale=scale)
    on_device = [tensor.cuda() for tensor in (*arguments, scale)]
    THREES.on(on_device[0].device)
    with no_synchronization():
        found = continue_result(THREES, *on_device[:-1], scale=on_device[-1])
    for one, two in zip(found, expected, strict=True):
        assert torch.equal(one.cpu(), two)


# ------------------------------------------------------------------------------------------------- real tokenizers
def random_decimals():
    """10,000 decimals of up to 40 digits with 1 to 20 places, a third of them negative, many of them below 1."""
    draw = random.Random(0)
    numbers = []
    for _ in range(10_000):
        places = draw.randint(1, 20)
        digits = draw.randrange(1, 10 ** draw.randint(1, 40 - (places == 40)))
        numbers.append(as_decimal(draw.choice((1, 1, -1)) * digits, places))
    return numbers


@pytest.mark.slow
@tokenizers("llama3.1", "qwen2.5")
def test_ten_thousand_decimals_are_spelled_as_the_tokenizer_spells_them(name):
    tokenizer, tokens = known(name)
    results = random_decimals()
    assert sum(result.strip("-").startswith("0.") for result in results) > 1000
    for part, ids, valid in tokenized(tokenizer, results):
        wanted = F.pad(torch.where(valid, ids, -1), (0, 1), value=-1)
        ids, valid = F.pad(ids, (1, 0), value=-1), F.pad(valid, (1, 0), value=True)  # an anchor of an unknown token
        found = continued(tokens, ids, valid, results[part], 40)
        assert torch.equal(found.token, wanted)


@pytest.mark.slow
@tokenizers("gpt2", "llama3.1", "qwen2.5")
def test_ten_thousand_decimals_go_on_in_the_split_of_the_tokenizer(name):
    """Behind every token of it, the next one begins with what is written, wherever the tokenizer has its splits."""
    tokenizer, tokens = known(name)
    results = random_decimals()
    answers = [f"The answer is {result}. So {result} it is." for result in results]
    table = tokens.on(torch.device("cpu"))
    texts_of = {token: text.strip(" ") for token, text in (tokens.table.digits | tokens.table.points).items()}
    for part, ids, valid in tokenized(tokenizer, answers):
        found = continued(tokens, ids, valid, results[part], 40)
        numeric = (table.size[ids] > 0) & valid
        following = torch.cat([ids[:, 1:], torch.full((len(ids), 1), -1)], 1)
        digits_next = F.pad(numeric[:, 1:], (0, 1))
        point = (ids == tokens.point) & F.pad(numeric[:, :-1], (1, 0)) & digits_next & ~table.spaced[following]
        inside = numeric | point
        begun = inside & F.pad(inside[:, 1:], (0, 1)) & ~table.spaced[following]
        ended = inside & ~begun
        assert found.active[inside].all()
        assert (ended.sum(1) == 2).all()
        assert torch.equal(found.complete, ended)
        assert torch.isin(found.state[begun], torch.tensor([Spelled.MIDDLE, Spelled.RESUMED])).all()
        for wrote, there in zip(found.token[begun].tolist(), following[begun].tolist(), strict=True):
            assert (
                wrote == there
                or texts_of[there].startswith(texts_of[wrote])
                or texts_of[wrote].startswith(texts_of[there])
            )


@tokenizers("gpt2", "llama3.1", "qwen2.5")
def test_a_written_decimal_is_its_text(name):
    tokenizer, tokens = known(name)
    results = random_decimals()[:400]
    ids, done = torch.full((len(results), 1), -1), torch.zeros(len(results), 1, dtype=torch.bool)
    while not done.all():
        found = continued(tokens, ids, torch.ones_like(ids, dtype=torch.bool), results, 40)
        done |= found.complete[:, -1:]
        ids = torch.cat([ids, torch.where(done, -1, found.token[:, -1:])], 1)
        assert ids.shape[1] < 45
    for row, result in zip(ids, results, strict=True):
        assert tokenizer.decode(row[row >= 0]).strip() == result


def test_digits_of_a_result_are_those_of_the_grammar():
    """The helper of these tests gives digits as the calculator does: without zeros before the first digit."""
    digits, sign, scale = results_of(["-0.05", "12.50"], 5)
    assert digits.tolist() == [[5, PAD, PAD, PAD, PAD], [1, 2, 5, 0, PAD]]
    assert (sign.tolist(), scale.tolist()) == ([1, 0], [2, 2])
