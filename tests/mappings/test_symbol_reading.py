"""Promises of reading by token ids: the golden file holds in every vocabulary, batch and graph."""

import copy
from fractions import Fraction

import pytest
import torch
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.common.symbol_reader import load_tokenizer, tokenizer_names
from peft_igc import IGCConfig, tiny_base
from peft_igc.mappings.requests import Context
from peft_igc.mappings.symbol_reading import read_steps, said_at
from peft_igc.mappings.symbol_steps import ruling
from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import canonical
from peft_igc.numbers.token_table import EMBEDDED, PADDING, UNSEEN
from peft_igc.text import CONTROL, UNKNOWN, Limits, Reason, Vocabulary
from tests.helpers.symbol_texts import encode
from tests.text.test_golden import LINES


TEXTS = [line for line in LINES if CONTROL not in line["text"] and UNKNOWN not in line["text"] and line["text"]]
SIZES = {"num_digits": 40, "result_digits": 40, "max_operands": 8, "decimals": True}


def outcome(said):
    """What is read, in the form of the golden file."""
    return {"refused": said.reason.name.lower()} if said.value is None else {"value": said.value}


def due(line):
    """What has to be read."""
    return {key: line[key] for key in ("value", "refused") if key in line}


@pytest.mark.parametrize("name", tokenizer_names())
def test_the_golden_file_holds_for_the_tokens_of_every_vocabulary(name):
    tokenizer = load_tokenizer(name)
    vocabulary, wrong = Vocabulary.from_tokenizer(tokenizer), []
    rows = tokenizer([line["text"] for line in TEXTS], add_special_tokens=False)["input_ids"]
    for line, row in zip(TEXTS, rows, strict=True):
        found = said_at(vocabulary, row, len(row) - 1, 0, Limits(**line.get("limits", {})))
        if outcome(found) != due(line):
            wrong.append((line["text"][:80], due(line), outcome(found)))
    assert not wrong, f"{len(wrong)} of {len(TEXTS)}: {wrong[:20]}"
    assert len(TEXTS) > 1300


@pytest.fixture(scope="module")
def made():
    tokenizer = tiny_base()[1]
    return tokenizer, IGCConfig.from_tokenizer(tokenizer, **SIZES)


class Reader:
    """The part of an input mapping that is needed."""

    def __init__(self, config):
        self.vocabulary = config.vocabulary


def test_the_golden_file_holds_in_batches_with_padding_on_the_left(made):
    tokenizer, config = made
    lines = [line for line in TEXTS if "limits" not in line and len(line["text"]) < 200]
    for at in range(0, len(lines), 32):
        batch = lines[at : at + 32]
        ids, valid = encode(tokenizer, [line["text"] for line in batch])
        anchors = torch.full((len(batch), 2), ids.shape[1] - 1)
        anchors[:, 1] = -1  # the second one of each row is none
        said = ruling(config, Reader(config), Context.of(ids, valid, anchors, torch.zeros_like(anchors)))
        assert (said.reason.view(-1, 2)[:, 1] == int(Reason.NO_EXPRESSION)).all()
        assert not said.ruled.view(-1, 2)[:, 1].any()
        for n, line in enumerate(batch):
            step, ok = 2 * n, Reason(int(said.reason[2 * n])) is Reason.NONE
            assert ok == ("value" in line), line
            assert ok or Reason(int(said.reason[step])).name.lower() == line["refused"], line
            if ok:
                assert said.ruled[step]
                assert said.value.status[step] == Status.OK
                digits, sign, scale = (x[step] for x in (said.value.digits, said.value.sign, said.value.scale))
                assert list(map(Fraction, canonical(digits, sign, scale))) == [Fraction(line["value"])], line
                assert int(scale) == len(line["value"].partition(".")[2])  # a text may ask for zeros at the end


def steps(made, *rows, anchors, since):
    """What is read in rows of ids."""
    width = max(map(len, rows))
    ids = torch.tensor([[PADDING] * (width - len(row)) + row for row in rows])
    return ids, read_steps(made[1], made[1].vocabulary, ids, torch.tensor(anchors), torch.tensor(since))


def test_only_the_text_from_since_to_the_anchor_is_read(made):
    tokenizer, _ = made
    first, second = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("1 + 2 =", " 3 + 4 = 5"))
    row, a = first + second, len(first)
    _, (said, packed) = steps(made, row, anchors=[a - 1, a + len(second) - 3, -1], since=[0, a, 0])
    assert [one and one.value for one in said] == ["3", "7", None]
    assert packed[:, 0].tolist() == [1, 1, 0]
    # the same without the context's begin
    _, (said, _) = steps(made, row, anchors=[a + len(second) - 3], since=[0])
    assert said[0].value is None or said[0].value == "7"


def test_places_are_those_of_tokens(made):
    tokenizer, _ = made
    text = "In all: 12.50 * (3 + 4) ="
    row = tokenizer(text, add_special_tokens=False)["input_ids"]
    ids, (said, _) = steps(made, [PADDING, PADDING, *row], anchors=[len(row) + 1], since=[0])
    assert tokenizer.decode(ids[0, said[0].first : said[0].last + 1]).strip() == "12.50 * (3 + 4)"
    assert said[0].culprit == (-1, -1)
    row = tokenizer("the median 3 + 16 =", add_special_tokens=False)["input_ids"]
    ids, (said, packed) = steps(made, [PADDING, *row], anchors=[len(row)], since=[0])
    first, last = said[0].culprit
    assert tokenizer.decode(ids[0, first : last + 1]).strip() == "median"
    assert first < last  # several tokens
    assert packed[0, 5] == last


@pytest.mark.parametrize("unknown", [EMBEDDED, UNSEEN, 10**6])
def test_tokens_that_are_not_known_refuse_beside_an_expression_and_are_excused_before_it(made, unknown):
    tokenizer, _ = made
    row = tokenizer("12 + 5 =", add_special_tokens=False)["input_ids"]
    far = tokenizer(" these two words: ", add_special_tokens=False)["input_ids"]
    _, (said, _) = steps(made, [unknown, *row], [*row[:1], unknown, *row[1:]], anchors=[len(row)] * 2, since=[0, 0])
    assert [one.reason for one in said] == [Reason.NOT_UNDERSTOOD] * 2
    assert said[1].culprit == (1, 1)
    _, (said, _) = steps(made, [unknown, *far, *row], anchors=[len(row) + len(far)], since=[0])
    assert said[0].value == "17"


ROLES = "{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}"


def reasons(tokenizer, *messages):
    """Why messages have no value, each read from the message's first token that is no control token."""
    vocabulary, found = Vocabulary.from_tokenizer(tokenizer), []
    for message in messages:
        text = tokenizer.apply_chat_template([{"role": "user", "content": message}], tokenize=False)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        both = {said_at(vocabulary, ids, len(ids) - 1, since, Limits(digits=9)).reason for since in (0, 1)}
        found.append(both.pop() if len(both) == 1 else both)
    return found


def test_the_name_of_a_role_in_a_header_is_no_word_of_the_message():
    # two numbers alone are a request, and beside a word they may be a date, a score or a range
    alone, beside = ["57/3", "99-66", "6 x 7"], ["Score\n57-3", "user\n57-3", "Score 57-3"]
    with_roles = copy.deepcopy(tiny_base()[1])
    with_roles.chat_template = ROLES
    for tokenizer in (tiny_base()[1], with_roles):
        assert reasons(tokenizer, *alone) == [Reason.NONE] * 3
        assert reasons(tokenizer, *beside) == [Reason.LOOK_ALIKE] * 3
    # the line's end of the header stays: a dash after it is the mark of a list, and the last turn is not read on
    assert reasons(with_roles, "- 5 + 3", "+ 5 =", "- 12/4 + 2 =") == [Reason.MALFORMED] * 3


def test_a_context_may_begin_within_a_text_whatever_the_header_of_its_template():
    tokenizer = copy.deepcopy(tiny_base()[1])
    tokenizer.chat_template = ROLES
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    ids = tokenizer("1 + 2 + 34 + 5 =", add_special_tokens=False)["input_ids"]
    since = [place for place, end in enumerate(vocabulary.spell(ids).ends) if end <= len("1 + 2 +")][-1] + 1
    found = said_at(vocabulary, ids, len(ids) - 1, since, Limits())
    assert len(vocabulary.header) > 1
    assert found.value == "39"
    assert tokenizer.decode(ids[found.first : found.last + 1]).strip() == "34 + 5"


def test_a_compiled_graph_calls_the_host_and_reads_the_same(made):
    tokenizer, config = made
    ids, _ = encode(tokenizer, ["1 + 2 * 3 - 4 =", "(1 - 2.5) / 0 =", "5 boxes 4*12=", "Ages 3-5", "Hello"])
    anchor, since = torch.full((5,), ids.shape[1] - 1), torch.zeros(5, dtype=torch.int64)
    said, wanted = read_steps(config, config.vocabulary, ids, anchor, since)
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(
        lambda *given: read_steps(config, config.vocabulary, *given)[1] + 0, fullgraph=True, backend="aot_eager"
    )
    assert torch.equal(compiled(ids, anchor, since), wanted)
    assert torch.equal(compiled(ids, anchor * 0 - 1, since)[:, 0], since)  # nothing is ruled without an anchor
    assert counters["stats"]["unique_graphs"] == 1
    assert [one.value for one in said] == ["3", None, None, None, None]
    with FakeTensorMode() as mode:
        given = (mode.from_tensor(x) for x in (ids, anchor, since))
        none, fake = read_steps(config, config.vocabulary, *given)
    assert none == ()
    assert fake.shape == wanted.shape


def test_copies_of_a_vocabulary_are_found_by_graphs(made):
    vocabulary = made[1].vocabulary
    for other in (copy.deepcopy(vocabulary), Vocabulary.from_bytes(vocabulary.to_bytes())):
        assert Vocabulary.of_key(other.key) is other
