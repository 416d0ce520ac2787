"""The literals of a request in words: values, signs, and what is numeric and not understood."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from peft_igc import tiny_base
from peft_igc.expressions.literals import literals
from peft_igc.expressions.symbols import SymbolTokens
from peft_igc.numbers.digits import PAD
from tests.helpers.symbol_texts import encode


@pytest.fixture(scope="module")
def embedded():
    tokenizer = tiny_base()[1]
    return tokenizer, SymbolTokens.from_tokenizer(tokenizer)


def found(embedded, text, num_digits=40):
    """The literals of a text as texts, and `?` for each thing that is not understood, in order."""
    tokenizer, tokens = embedded
    read = literals(tokens, *encode(tokenizer, [text]), num_digits)
    names = []
    for place in range(read.literal.shape[1]):
        if read.literal[0, place]:
            digits = "".join(str(digit) for digit in read.digits[0, place].tolist() if digit != PAD)
            scale = int(read.scale[0, place])
            point = "." + digits[len(digits) - scale :] if scale else ""
            names.append("-" * int(read.sign[0, place]) + digits[: len(digits) - scale] + point)
        if read.strange[0, place]:
            names.append("?")
    return names


LITERALS = {
    "What is 12 plus 5? Then add 7.": ["12", "5", "7"],
    "What is 1,234.50 times -3?": ["1234.50", "-3"],
    "Is -5 minus 3 right?": ["-5", "3"],
    "796 -229": ["796", "229"],
    "(5)(-3)": ["5", "-3"],
    "1 - -2": ["1", "-2"],
    "$5 plus -$3": ["5", "-3"],
    "12, 34 and 56.": ["12", "34", "56"],
    "minus 5 and negative 3": ["-5", "-3"],
    "What is Minus 5 times minus 3?": ["-5", "-3"],
    "5 minus 3 is 2": ["5", "3", "2"],
    "50% minus (3) minus 2": ["?", "3", "2"],
    "each one of 5": ["5"],
    "5 plus one": ["5", "?"],
    "½ of 8 + 3": ["?", "8", "3"],
    "5 million plus 3": ["5", "?", "3"],
    "twenty-five plus 3": ["?", "?", "3"],
    "5km plus 3": ["?", "3"],
    "3,5 plus 1": ["?", "?", "1"],
    "10:30 and 5": ["?", "?", "5"],
    "covid-19 and 3": ["?", "3"],
    "2⁴ times 3": ["?", "?", "3"],
    "50% of 8": ["?", "8"],
    "nothing here": [],
}


@pytest.mark.parametrize("text", LITERALS)
def test_literals_are_found_with_values_and_signs(embedded, text):
    assert found(embedded, text) == LITERALS[text]


def test_the_other_tokens_of_a_number_are_inside(embedded):
    tokenizer, tokens = embedded
    ids, valid = encode(tokenizer, ["is 1234567 ok"])
    read = literals(tokens, ids, valid, 40)
    inside = [tokenizer.decode(token) for token in ids[0][read.inside[0]]]
    begun = [tokenizer.decode(token) for token in ids[0][read.literal[0]]]
    assert "".join(begun + inside) == "1234567"


def test_digits_beyond_the_width_are_dropped(embedded):
    assert found(embedded, "is 1234567 ok", num_digits=3) == ["123"]


@pytest.mark.slow
def test_it_runs_as_one_graph_and_on_fake_tensors(embedded):
    tokenizer, tokens = embedded
    ids, valid = encode(tokenizer, ["What is 12 plus 5?", "twenty plus -3.5"])
    graph = torch.compile(lambda *text: literals(tokens, *text, 40), fullgraph=True, backend="eager")
    for compiled, eager in zip(graph(ids, valid), literals(tokens, ids, valid, 40), strict=True):
        assert torch.equal(compiled, eager)
    with FakeTensorMode():
        fake = literals(tokens, torch.zeros(2, 9, dtype=torch.int64), torch.ones(2, 9, dtype=torch.bool), 40)
    assert fake.digits.shape == (2, 9, 40)
