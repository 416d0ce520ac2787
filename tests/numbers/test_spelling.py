"""A result goes on where the text has come to, in the tokens that the tokenizer itself would use."""

import itertools
import os
import random
import shutil

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
from peft_igc.numbers.spelling import ENDS, Spelled, continue_result
from tests.numbers.test_number_runs import TEXTS, THREES, TOKENS, WORDS, batch_of, known, tokenized, tokenizers


properties = settings(max_examples=300, derandomize=True, deadline=None)


def pieces(row, words=WORDS):
    """Ids as texts, what is behind the last one left out."""
    return [words.texts[token] for token in row.tolist() if token >= 0]


def one_anchor(ids, anchor, number, width=12):
    """Anchor, digits, sign and where it was told (nowhere), as `continue_result` takes them at every position."""
    digits, sign = encode([number], width)
    place = torch.arange(ids.shape[1])
    at = torch.where(place >= anchor, anchor, -1)[None]
    return at, digits.expand(ids.shape[1], -1)[None], sign.expand(ids.shape[1])[None], untold(at)


def untold(at):
    """A result that stands nowhere before the positions `at`."""
    return torch.full_like(at, -1)


def walk(text, number, anchor=0):
    """What is offered behind every token of a text: its text, `"end"`, or None where nothing is."""
    ids, valid = batch_of([WORDS.encode(text)])
    found = continue_result(THREES, ids, valid, *one_anchor(ids, anchor, number))
    shown = []
    for token, state, active, complete, again in zip(*(field[0].tolist() for field in found), strict=True):
        assert (state in ENDS) == complete == (active and token == -1)
        assert (state in (Spelled.AGAIN, Spelled.RESUMED)) <= again <= active
        shown.append((WORDS.texts[token] if token >= 0 else "end") if active else None)
    return shown


def written(tokens, number):
    """The ids of a number that is written token by token directly after an anchor."""
    ids = torch.tensor([[0]])
    while True:
        found = continue_result(tokens, ids, torch.ones_like(ids, dtype=torch.bool), *one_anchor(ids, 0, number, 40))
        if found.token[0, -1] < 0:
            assert found.complete[0, -1]
            return ids[0, 1:]
        ids = torch.cat([ids, found.token[:, -1:]], 1)


def test_states_are_numbered_as_the_twin_has_them():
    states = [naive.START, naive.WAITING, naive.SIGNED, naive.MIDDLE, naive.AGAIN, naive.RESUMED]
    assert [*states, naive.END, naive.TOLD] == list(Spelled)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("0", ["0"]),
        ("-7", ["-", "7"]),
        ("123", ["123"]),
        ("1000", ["100", "0"]),
        ("-1000070", ["-", "100", "007", "0"]),
        ("9" * 40, ["999"] * 13 + ["9"]),
    ],
)
def test_a_number_is_spelled_in_groups_from_the_left(number, expected):
    assert pieces(written(THREES, number)) == expected


def test_a_number_is_spelled_in_single_digits_where_the_tokenizer_has_no_groups():
    for name in ("single digits", "irregular"):
        assert pieces(written(TOKENS[name], "-1999"), naive.VOCABULARIES[name]) == ["-", "1", "9", "9", "9"]


def test_a_group_that_is_no_token_is_spelled_in_shorter_ones():
    words, tokens = naive.VOCABULARIES["groups with gaps"], TOKENS["groups with gaps"]
    expected = ["123", "45", "7", "00", "0", "9", "8", "1"]
    ids = written(tokens, "123457000981")
    assert pieces(ids, words) == expected
    ids = torch.cat([torch.tensor([[0]]), ids[None]], 1)
    found = continue_result(tokens, ids, torch.ones_like(ids, dtype=torch.bool), *one_anchor(ids, 0, "123457000981"))
    assert pieces(found.token[0], words) == expected
    assert found.state.tolist() == [[Spelled.START, *[Spelled.MIDDLE] * 7, Spelled.END]]


@pytest.mark.parametrize(
    ("text", "number", "shown"),
    [
        # The answer, at once or later, once or twice.
        (" 123456.", "123456", ["123", "456", "end", "123"]),
        ("( the=5 12", "12", ["12", "12", "12", None, "12", "end"]),
        ("=0", "0", ["0", "end"]),
        ("=-12", "-12", ["12", "end"]),
        ("=-123456", "-123456", ["123", "456", "end"]),
        ("= -12", "-12", ["-", "12", "end"]),
        ("= 12", "-12", ["-", "-", None]),
        ("=−12", "-12", ["-", "12", "end"]),
        # Another number.
        ("=123 123456", "123456", ["123", "456", "123", "456", "end"]),
        ("=1234567", "123456", ["123", "456", "end", None]),
        ("=124", "123456", ["123", None]),
        ("=1", "123456", ["123", "23"]),
        ("=1223456", "123456", ["123", None, None, None]),
        ("=7.123", "123456", ["123", None, "123", None]),
        ("=7,123", "123456", ["123", None, "123", None]),
        ("=7:123", "123456", ["123", None, "123", None]),
        ("=7, 123", "123456", ["123", None, "123", "123", "456"]),
        ("= ,123", "123456", ["123", "123", "123", "456"]),
        ("=-123", "123456", [None, None]),
        ("=12-3", "-3", ["-", None, "3", "end"]),
        ("x-5", "5", ["5", None, None]),
    ],
)
def test_the_result_goes_on_where_the_text_has_come_to(text, number, shown):
    assert walk(text, number) == shown


@pytest.mark.parametrize(
    ("text", "number", "states"),
    [
        ("=12", "12", [Spelled.START, Spelled.END]),
        ("= 12", "12", [Spelled.START, Spelled.WAITING, Spelled.TOLD]),
        ("= the-12", "-12", [Spelled.START, Spelled.WAITING, Spelled.SIGNED, Spelled.TOLD]),
        ("(-12", "-12", [Spelled.START, Spelled.SIGNED, Spelled.END]),
        ("=-123456", "-123456", [Spelled.SIGNED, Spelled.MIDDLE, Spelled.END]),
    ],
)
def test_an_answer_that_is_but_the_number_is_told_apart_from_one_in_a_text(text, number, states):
    ids, valid = batch_of([WORDS.encode(text)])
    assert continue_result(THREES, ids, valid, *one_anchor(ids, 0, number)).state.tolist() == [states]


@pytest.mark.parametrize(
    ("text", "number", "states"),
    [
        ("=12 12", "12", [Spelled.START, Spelled.END, Spelled.AGAIN, Spelled.TOLD]),
        ("=12, 12.", "12", [Spelled.START, Spelled.END, Spelled.AGAIN, Spelled.AGAIN, Spelled.TOLD, Spelled.AGAIN]),
        ("= 12 the", "12", [Spelled.START, Spelled.WAITING, Spelled.TOLD, Spelled.AGAIN]),
        ("=7 12 ", "12", [Spelled.START, None, Spelled.WAITING, Spelled.TOLD, Spelled.AGAIN]),
        ("=12 7 ", "12", [Spelled.START, Spelled.END, Spelled.AGAIN, None, Spelled.AGAIN]),
        (
            "=123456 123456",
            "123456",
            [Spelled.START, Spelled.MIDDLE, Spelled.END, Spelled.AGAIN, Spelled.RESUMED, Spelled.TOLD],
        ),
        ("=123 123456", "123456", [Spelled.START, Spelled.MIDDLE, Spelled.WAITING, Spelled.MIDDLE, Spelled.TOLD]),
        ("(-12 -12", "-12", [Spelled.START, Spelled.SIGNED, Spelled.END, Spelled.SIGNED, Spelled.TOLD]),
        ("(-12 12", "-12", [Spelled.START, Spelled.SIGNED, Spelled.END, Spelled.AGAIN, None]),
    ],
)
def test_a_result_that_was_told_is_told_apart_from_one_that_was_not(text, number, states):
    ids, valid = batch_of([WORDS.encode(text)])
    found = continue_result(THREES, ids, valid, *one_anchor(ids, 0, number))
    shown = [state if active else None for state, active in zip(found.state[0].tolist(), found.active[0], strict=True)]
    assert shown == states


@pytest.mark.parametrize(
    ("text", "told", "state"),
    [
        ("=123456 ", 2, Spelled.AGAIN),
        ("=123456 ", -1, Spelled.WAITING),
        ("=123456 123", 2, Spelled.RESUMED),
        ("=123456 123", -1, Spelled.MIDDLE),
        ("=123456", 2, Spelled.END),  # by the number that stands here, which ended an earlier call
    ],
)
def test_a_result_told_in_an_earlier_call_is_known_by_where_it_stood(text, told, state):
    ids, valid = batch_of([WORDS.encode(text)])
    *governing, _ = (tensor[:, -1:] for tensor in one_anchor(ids, 0, "123456"))
    found = continue_result(THREES, ids, valid, *governing, torch.tensor([[told]]))
    assert found.state.tolist() == [[state]]


def test_a_result_is_told_for_its_own_anchor_alone():
    ids, valid = batch_of([WORDS.encode("=12=12 ")])
    _, digits, sign, told = one_anchor(ids, 0, "12")
    found = continue_result(THREES, ids, valid, torch.tensor([[0, 0, 2, 2, 2]]), digits, sign, told)
    assert found.state.tolist() == [[Spelled.START, Spelled.END, Spelled.START, Spelled.END, Spelled.AGAIN]]


def test_text_before_the_anchor_does_not_count():
    assert walk("123456=123", "123456", anchor=2) == [None, None, "123", "456"]
    assert walk("=123456", "123456", anchor=1) == [None, None, None]  # a number that began with the anchor goes on
    assert walk("5:123", "123456", anchor=1) == [None, "123", "456"]  # an answer directly behind the question
    assert walk("-(12", "-12", anchor=1) == [None, "-", None]


@pytest.mark.parametrize(
    ("row", "number", "shown"),
    [
        (["1", " 12", "3", " 5"], "1234", [None, "3", "4", None]),
        (["=", "-", " 12", "3"], "1234", ["1", None, "3", "4"]),
        (["=", "-", " 12"], "-1234", ["-", "1", None]),
        (["=", "7", ",", " 12", "3"], "1234", ["1", None, "1", "3", "4"]),
    ],
)
def test_a_number_with_its_own_space_begins_anew(row, number, shown):
    words = naive.VOCABULARIES["irregular"]
    ids = torch.tensor([[words.texts.index(text) for text in row]])
    valid = torch.ones_like(ids, dtype=torch.bool)
    found = continue_result(TOKENS["irregular"], ids, valid, *one_anchor(ids, 0, number))
    assert [words.texts[token] if token >= 0 else None for token in found.token[0].tolist()] == shown
    assert found.active[0].tolist() == [text is not None for text in shown]


def test_padding_and_positions_without_anchor_or_result_are_left_alone():
    ids, valid = batch_of([WORDS.encode("= the")], left=1, right=1)
    at, *result, told = one_anchor(ids, 1, "12")
    found = continue_result(THREES, ids, valid, at, *result, told)
    assert found.active.tolist() == [[False, True, True, False]]
    assert not continue_result(THREES, ids, valid, torch.full_like(at, -1), *result, told).active.any()
    nothing = torch.full_like(result[0], PAD)
    assert not continue_result(THREES, ids, valid, at, nothing, result[1], told).active.any()
    ahead = torch.full_like(at, 2)
    assert continue_result(THREES, ids, valid, ahead, *result, told).active.tolist() == [[False, False, True, False]]
    unknown = torch.full_like(ids, -1)
    assert continue_result(THREES, unknown, valid, at, *result, told).active.tolist() == found.active.tolist()


def test_a_number_longer_than_what_is_looked_at_is_not_the_result():
    one, anchor = WORDS.texts.index("1"), WORDS.texts.index("=")
    ids = torch.tensor([[anchor] + [one] * 200])
    valid = torch.ones_like(ids, dtype=torch.bool)
    for width, number in itertools.product((4, 40), ("1", "11", "1111")):
        governing = one_anchor(ids, 0, number, width)
        for new in (1, 10, 201):
            found = continue_result(THREES, ids, valid, *(tensor[:, -new:] for tensor in governing))
            assert found.active[0].tolist() == [p <= len(number) for p in range(201)][-new:]


@pytest.mark.parametrize(("new", "width"), [(1, 40), (3, 5)])
def test_a_step_of_decoding_looks_at_a_window_of_the_text(new, width, monkeypatch):
    seen = []
    monkeypatch.setattr(
        NumberTokens,
        "look_up",
        lambda self, ids, valid, look=NumberTokens.look_up: seen.append(ids) or look(self, ids, valid),
    )
    ids = torch.zeros(2, 4000, dtype=torch.int64)
    numbers = torch.zeros(2, new, width, dtype=torch.int64)
    at = torch.zeros(2, new, dtype=torch.int64)
    assert continue_result(THREES, ids, ids == 0, at, numbers, at, untold(at)).active.all()
    assert [tuple(window.shape) for window in seen] == [(2, new + width + 4)]


RESULTS = st.lists(st.integers(0, 8).flatmap(lambda n: st.integers(-(10**n), 10**n)).map(str), min_size=1, max_size=3)
PARTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["", "", " ", "=", "-", "=-"]), st.integers(0, 9)),
    min_size=1,
    max_size=8,
)


def draw_answer(data, name):
    """Ids of a text full of some results and beginnings of them, its anchors, and their results."""
    words = naive.VOCABULARIES[name]
    results, noise, ids = data.draw(RESULTS), data.draw(TEXTS[name]), []
    for which, before, size in data.draw(PARTS):
        number = results[which % len(results)].strip("-")
        ids += words.encode(before + number[:size]) if size else [*noise[:3], 0]
        noise = noise[3:]
    anchors = data.draw(st.sets(st.integers(0, len(ids) - 1), min_size=1, max_size=len(results)))
    return ids, sorted(anchors), results


@pytest.mark.slow
@pytest.mark.parametrize("name", TOKENS)
@properties
@given(st.data())
def test_every_text_goes_on_as_its_characters_do(name, data):
    words, tokens = naive.VOCABULARIES[name], TOKENS[name]
    rows = [draw_answer(data, name) for _ in range(data.draw(st.integers(1, 2)))]
    left = data.draw(st.integers(0, 2))
    ids, valid = batch_of([row[0] for row in rows], left, data.draw(st.integers(0, 2)), words.texts.index("7"))
    at, numbers = governing(ids, [(anchors, results) for _, anchors, results in rows], left)
    length, width = ids.shape[1], data.draw(st.integers(9, 10))
    digits, sign = encode(list(itertools.chain(*numbers)), width)
    digits, sign = digits.view(len(rows), length, width), sign.view(len(rows), length)
    new = data.draw(st.integers(1, length))
    texts = [ids.tolist(), valid.tolist(), at.tolist(), numbers]
    expected = [naive.continue_text(words, *row) for row in zip(*texts, strict=True)]
    told = torch.tensor([first_told(row, at[i].tolist(), length - new) for i, row in enumerate(expected)])
    found = continue_result(tokens, ids, valid, at[:, -new:], digits[:, -new:], sign[:, -new:], told[:, -new:])
    for row, t in itertools.product(range(len(rows)), range(length - new, length)):
        got = tuple(int(field[row, t - length + new]) for field in found)
        assert got == expected[row][t], ([words.text(token) for token in ids[row, : t + 1].tolist()], numbers[row][t])


@pytest.mark.slow
@pytest.mark.parametrize("decimals", [False, True])
@pytest.mark.parametrize("name", TOKENS)
@properties
@given(st.data())
def test_behind_a_result_that_is_written_once_nothing_more_is_written(name, decimals, data):
    """The layer relies on it: it does not run the writing there. A point or comma may be where the result ends."""
    ids, anchors, results = draw_answer(data, name)
    ids, valid = batch_of([ids])
    at, numbers = governing(ids, [(anchors, results)])
    digits, sign = encode(numbers[0], 10)
    scale = torch.tensor([[int(number) % 3 for number in numbers[0]]]) if decimals else None
    told = {}
    for t, anchor in enumerate(at[0].tolist()):
        known = torch.tensor([[told.get(anchor, -1)]])
        of_result = digits[None, t : t + 1], sign[None, t : t + 1], known
        more = {"scale": scale[:, t : t + 1] if decimals else None, "once": True}
        found = continue_result(TOKENS[name], ids[:, : t + 1], valid[:, : t + 1], at[:, t : t + 1], *of_result, **more)
        if anchor in told:
            written = bool((found.active & ~found.again).any())
            assert not written or (t == told[anchor] + 1 and text_of(name, ids[0, t]) in (".", ","))
            assert not written or (found.state.item() in ENDS and found.token.item() == -1)
        elif found.complete.any() and anchor >= 0:
            told[anchor] = t


def text_of(name, token):
    """The text of one token."""
    return naive.VOCABULARIES[name].texts[int(token)]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("=7.", [False, True, True]),
        ("=7,", [False, True, True]),
        ("=7 .", [False, True, False, False]),
        ("=7.5", [False, True, True, False]),
        ("=7=.", [False, True, False, False]),
        ("=8.", [False, False, False]),
        ("=7 the 7.", [False, True, False, False, False, False]),
        ("=2,7.", [False, False, False, False, False]),
        ("=-7.", [False, False, False]),
    ],
)
def test_a_point_behind_a_result_that_is_written_once_is_its_end(text, ends):
    assert ends_in("7", text) == ends


def ends_in(number, text):
    """At which tokens of a text a result that is written once ends."""
    ids, valid = batch_of([WORDS.encode(text)])
    of_result = one_anchor(ids, 0, number)
    found = continue_result(THREES, ids, valid, *of_result, once=True)
    several = continue_result(THREES, ids, valid, *of_result)
    assert not (several.token[0, 2:] == -1)[several.active[0, 2:] & ~several.again[0, 2:]].any()
    at_end = found.active & ~found.again & (found.token == -1) & torch.isin(found.state, torch.tensor(ENDS))
    return at_end[0].tolist()


def test_a_point_behind_a_result_below_zero_is_its_end():
    assert ends_in("-7", "=-7.") == [False, True, True]
    assert ends_in("-7", "=7.") == [False, False, False]


def governing(ids, steps, left=0):
    """The anchor [N, L] and the result at each position of texts, of which `steps` has the anchors and results."""
    at, numbers = torch.full(ids.shape, -1), [["0"] * ids.shape[1] for _ in steps]
    for row, (anchors, results) in enumerate(steps):
        for anchor, result in zip(anchors, results, strict=False):
            at[row, anchor + left :] = anchor + left
            numbers[row][anchor + left :] = [result] * (ids.shape[1] - anchor - left)
    return at, numbers


def first_told(found, anchors, start):
    """For each position, where the result of its anchor first stood complete before `start`; -1: nowhere."""
    complete = [p for p in range(start) if found[p].complete]
    return [next((p for p in complete if anchors[p] == anchor), -1) for anchor in anchors]


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("name", TOKENS)
def test_a_text_in_pieces_goes_on_as_it_does_at_once(name, once):
    """What is carried from piece to piece is where each result first stood complete."""
    words, tokens, draw = naive.VOCABULARIES[name], TOKENS[name], random.Random(2)
    rows, steps = [], []
    for _ in range(300):
        results = [str(draw.randrange(-(10**n), 10**n)) for n in (draw.randrange(10), draw.randrange(10))]
        text = []
        for _ in range(draw.randint(1, 9)):
            number = draw.choice(results).strip("-")
            said = number if draw.random() < 0.6 else number[: draw.randrange(len(number) + 1)]
            text += words.encode(draw.choice(["", " ", "=", "-", " the ", ",", "=", "."]) + said)
        text = text or [0]
        # Where only the first number counts, it has to be seen from its beginning, so no anchor is within one.
        places = [at for at, token in enumerate(text) if not (once and words.text(token).strip().isdigit())]
        anchors = sorted(draw.sample(places, min(2, len(places))))
        rows, steps = [*rows, text], [*steps, (anchors, results)]
    ids, valid = batch_of(rows)
    at, numbers = governing(ids, steps)
    digits, sign = encode(list(itertools.chain(*numbers)), 9)
    digits, sign = digits.view(*ids.shape, 9), sign.view(ids.shape)
    at_once = continue_result(tokens, ids, valid, at, digits, sign, untold(at), once=once)
    states = at_once.state[at_once.active]
    assert all((states == state).sum() > 9 for state in Spelled), states.bincount()
    for cuts in (range(ids.shape[1] + 1), sorted({0, ids.shape[1], *draw.sample(range(1, ids.shape[1]), 4)})):
        told = untold(ids)  # by row and anchor
        pieces = []
        for start, end in itertools.pairwise(cuts):
            here = slice(start, end)
            known = told.gather(1, at[:, here].clamp(min=0))
            found = continue_result(
                tokens, ids[:, :end], valid[:, :end], at[:, here], digits[:, here], sign[:, here], known, once=once
            )
            pieces.append(found)
            for row, place in found.complete.nonzero().tolist():
                anchor = at[row, start + place]
                told[row, anchor] = start + place if told[row, anchor] < 0 else told[row, anchor]
        for whole, *parts in zip(at_once, *pieces, strict=True):
            assert torch.equal(torch.cat(parts, 1), whole)


@pytest.mark.parametrize("name", TOKENS)
@properties
@given(numbers=st.lists(st.integers(0, 12).flatmap(lambda n: st.integers(-(10**n), 10**n)), min_size=1, max_size=5))
def test_every_number_is_spelled_as_its_text_is(name, numbers):
    expected = [naive.spell(naive.VOCABULARIES[name], str(abs(number)), number < 0) for number in numbers]
    ids, valid = batch_of([[0, *row] for row in expected])
    length = ids.shape[1]
    digits, sign = (x[:, None].expand(-1, length, *x.shape[1:]) for x in encode([str(n) for n in numbers], 13))
    found = continue_result(TOKENS[name], ids, valid, torch.zeros_like(ids), digits, sign, untold(ids))
    for row, real, wanted in zip(found.token, valid, expected, strict=True):
        assert row[real].tolist() == [*wanted, -1]


def example():
    """A batch of two texts with one anchor each."""
    ids, valid = batch_of([WORDS.encode("12=123456 x"), WORDS.encode("=-12")], left=1)
    digits, sign = encode(["123456", "-12"], 9)
    length = ids.shape[1]
    anchor, told = torch.tensor([[2], [1]]).expand(-1, length), torch.tensor([[3], [-1]]).expand(-1, length)
    return ids, valid, anchor, digits[:, None].expand(-1, length, -1), sign[:, None].expand(-1, length), told


def test_it_never_looks_at_a_value():
    tokens = NumberTokens(THREES.table)
    with FakeTensorMode():  # a read of a value, such as `.item()`, raises here
        ids, digits = torch.zeros(3, 9, dtype=torch.int64), torch.zeros(3, 2, 5, dtype=torch.int64)
        found = continue_result(tokens, ids, ids == 0, ids[:, :2], digits, ids[:, :2], ids[:, :2])
        assert [tuple(field.shape) for field in found] == [(3, 2)] * 5


@pytest.mark.parametrize("shape", [(0, 5, 2), (2, 0, 0), (2, 1, 1)])
def test_no_rows_and_no_positions(shape):
    rows, length, new = shape
    ids = torch.zeros(rows, length, dtype=torch.int64)
    at = torch.zeros(rows, new, dtype=torch.int64)
    digits = torch.zeros(rows, new, 4, dtype=torch.int64)
    found = continue_result(THREES, ids, ids == 0, at, digits, at, untold(at))
    assert [tuple(field.shape) for field in found] == [(rows, new)] * 5
    assert [field.dtype for field in found] == [torch.int64, torch.int64, torch.bool, torch.bool, torch.bool]


def compile_and_compare(backend):
    torch._dynamo.reset()
    compiled = torch.compile(continue_result, fullgraph=True, backend=backend)
    ids, valid, *governing = example()
    for new in (1, 2, ids.shape[1]):
        arguments = (THREES, ids, valid, *(tensor[:, -new:] for tensor in governing))
        for one, two in zip(compiled(*arguments), continue_result(*arguments), strict=True):
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
    arguments = example()
    expected = continue_result(THREES, *arguments)
    on_device = [tensor.cuda() for tensor in arguments]
    THREES.on(on_device[0].device)
    with no_synchronization():
        found = continue_result(THREES, *on_device)
    for one, two in zip(found, expected, strict=True):
        assert torch.equal(one.cpu(), two)


# ------------------------------------------------------------------------------------------------- real tokenizers
def random_results():
    """10,000 results of up to 40 digits, a third of them negative, zero among them."""
    draw = random.Random(0)
    numbers = [draw.choice((1, 1, -1)) * draw.randrange(10 ** draw.randint(1, 40)) for _ in range(10_000)]
    assert 0 in numbers
    return [str(number) for number in numbers]


@tokenizers("llama3.1", "qwen2.5")
def test_ten_thousand_results_are_spelled_as_the_tokenizer_spells_them(name):
    tokenizer, tokens = known(name)
    results = random_results()
    for part, ids, valid in tokenized(tokenizer, results):
        wanted = F.pad(torch.where(valid, ids, -1), (0, 1), value=-1)
        ids, valid = F.pad(ids, (1, 0), value=-1), F.pad(valid, (1, 0), value=True)  # an anchor of an unknown token
        digits, sign = (x[:, None].expand(-1, ids.shape[1], *x.shape[1:]) for x in encode(results[part], 40))
        found = continue_result(tokens, ids, valid, torch.zeros_like(ids), digits, sign, untold(ids))
        assert torch.equal(found.token, wanted)


@tokenizers("llama3.1", "qwen2.5")
def test_ten_thousand_answers_go_on_as_the_tokenizer_has_them(name):
    tokenizer, tokens = known(name)
    results = random_results()
    answers = [f"The answer is {result}. So {result} it is." for result in results]
    table = tokens.on(torch.device("cpu"))
    for part, ids, valid in tokenized(tokenizer, answers):
        rows, length = ids.shape
        digits, sign = encode(results[part], 40)
        governed = (digits[:, None].expand(-1, length, -1), sign[:, None].expand(-1, length), untold(ids))
        found = continue_result(tokens, ids, valid, torch.zeros_like(ids), *governed)
        numeric = (table.size[ids] > 0) & valid
        following = torch.cat([ids[:, 1:], torch.full((rows, 1), -1)], 1)
        more = torch.cat([numeric[:, 1:], torch.zeros(rows, 1, dtype=torch.bool)], 1)
        # Wherever a digit comes next, and the sign stands there already if it needs one, it is named.
        assert torch.equal(found.token[more], following[more])
        ended = numeric & ~more
        assert (ended.sum(1) == 2).all()
        assert torch.equal(found.state == Spelled.TOLD, ended)
        assert torch.equal(found.complete, ended)
        told = (ended.cumsum(1) - ended.long()) > 0  # the second answer is told again
        assert torch.equal(found.state == Spelled.MIDDLE, numeric & more & ~told)
        assert torch.equal(found.state == Spelled.RESUMED, numeric & more & told)
        assert torch.equal((found.state == Spelled.SIGNED).sum(1), 2 * (sign == 1))
        assert torch.equal(found.active, valid)


@tokenizers("llama3.1")
def test_answers_go_on_token_by_token_as_they_do_at_once(name):
    tokenizer, tokens = known(name)
    results = random_results()[:300]
    _, ids, valid = next(tokenized(tokenizer, [f"The answer is {result}. So {result} it is." for result in results]))
    length = ids.shape[1]
    digits, sign = (numbers[:, None].expand(-1, length, *numbers.shape[1:]) for numbers in encode(results, 40))
    anchor = torch.zeros_like(ids)
    found = continue_result(tokens, ids, valid, anchor, digits, sign, untold(ids))
    steps, told = [], untold(ids[:, :1])
    for end in range(1, length + 1):
        arguments = (ids[:, :end], valid[:, :end], anchor[:, :1], digits[:, :1], sign[:, :1], told)
        steps.append(continue_result(tokens, *arguments))
        told = torch.where((told < 0) & steps[-1].complete, end - 1, told)
    for at_once, *in_steps in zip(found, *steps, strict=True):
        assert torch.equal(torch.cat(in_steps, 1), at_once)
