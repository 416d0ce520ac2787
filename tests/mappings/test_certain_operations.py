"""Operations that a text states beyond doubt, and texts that leave one."""

import math

import pytest
import torch

from peft_igc import IGCConfig, tiny_base
from peft_igc.expressions.literals import literals
from peft_igc.expressions.symbols import SymbolTokens
from peft_igc.mappings.certain_operations import certain_operation
from peft_igc.mappings.readings import NEVER, Pointing
from tests.helpers.symbol_texts import encode
from tests.mappings.test_symbol_steps import answer


@pytest.fixture(scope="module")
def embedded():
    tokenizer = tiny_base()[1]
    return tokenizer, SymbolTokens.from_tokenizer(tokenizer), IGCConfig.from_tokenizer(tokenizer)


def certain(embedded, text):
    """The operation of the first two numbers of a text, with `~` if the second one is the first operand."""
    tokenizer, tokens, config = embedded
    found = literals(tokens, *encode(tokenizer, [text]), 1)
    chosen = found.literal[0].nonzero().flatten()[:2][None]
    said = certain_operation(config, found, chosen, torch.ones_like(found.literal))
    at = int(said.operation)
    return ("~" if said.swapped and said.ordered else "") + (config.operations[at] if at >= 0 else "?")


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("What is 12 plus 5?", "+"),
        ("12 minus 5, please", "-"),
        ("12 times 5", "*"),
        ("12 multiplied by 5", "*"),
        ("12 multiplied with 5", "*"),
        ("12 divided by 5", "/"),
        ("5 apples plus 3 pears", "+"),
        ("5 kg plus 3 kg", "+"),
        ("add 12 to 5", "+"),
        ("Multiply 12 by 5.", "*"),
        ("multiplying 12 with 5 gives what?", "*"),
        ("divide 12 by 5", "/"),
        ("subtract 5 from 12", "~-"),
        ("decrease 12 by 5", "-"),
        ("increase 12 by 5", "+"),
        ("the sum of 12 and 5", "+"),
        ("the product of 12 and 5", "*"),
        # A doubt is left.
        ("divide 5 into 12", "?"),
        ("12 is what times 5", "?"),
        ("what must be added to 12 to get 5", "?"),
        ("12 multiplied by what is 5", "?"),
        ("take 8, minus 5", "?"),
        ("25000 g minus 6400 g", "?"),  # by these rules `minus` may be a sign there
        ("multiply the sum of 12 and 5", "?"),
        ("12 plus the 5", "?"),
        ("12 and 5", "?"),
        ("the difference between 12 and 5", "?"),
        ("add 12 + 5", "?"),
        ("how many times can I take 35 from 140?", "?"),
    ],
)
def test_an_operation_is_certain_where_it_stands_between_or_before_both_numbers(embedded, text, operation):
    assert certain(embedded, text) == operation


def test_the_operation_that_is_stated_takes_the_place_of_one_that_is_a_little_likelier():
    def after(*chances):
        logits = torch.tensor([[[*map(math.log, chances)]]])
        empty = torch.zeros(1, 1, 2, 2, 2)
        reading = Pointing(empty, logits, empty, empty, empty, empty).of_operation(torch.tensor([[2]]), 10.0)
        return reading.operator[0, 0]

    likely = after(0.1, 0.0001, 0.2, 0.6, 0.0999)
    assert likely[:4].tolist() == pytest.approx([NEVER, NEVER, math.log(0.6), NEVER])
    assert float(likely[4]) == pytest.approx(math.log(0.0999))
    assert after(0.1, 0.1, 0.01, 0.69, 0.1).exp().tolist() == pytest.approx([0.1, 0.1, 0.01, 0.69, 0.1])


def test_what_the_network_reads_otherwise_is_silent():
    assert answer("Multiply 10 by 5", (0, 1), "*")[0] == "50"
    assert answer("Multiply 10 by 5", (0, 1), "/")[0] == "NONE"  # the network is sure of another operation
    assert answer("12 minus 5", (0, 1), "-")[0] == "7"
    assert answer("12 minus 5", (1, 0), "-")[0] == "NONE"  # of another order
    assert answer("subtract 5 from 12", (1, 0), "-")[0] == "7"
    assert answer("subtract 5 from 12", (0, 1), "-")[0] == "NONE"
    assert answer("12 plus 5", (1, 0), "+")[0] == "17"


def test_a_slip_of_the_keyboard_names_its_operation():
    assert answer("devide 441 by 21 plz", (0, 1), "+")[0] == "NONE"  # 462 on a real model
    assert answer("devide 441 by 21 plz", (0, 1), "/")[0] == "21"
    assert answer("substract 5 from 12", (1, 0), "-")[0] == "7"
    assert answer("what is 99 tims 99", (0, 1), "*")[0] == "9801"


def test_an_unknown_word_between_two_numbers_names_no_operation():
    for word in ("tims", "timz"):
        assert answer(f"what is 99 {word} 99", (0, 1), "+")[0] == "NONE"  # 198 on a real model
    assert answer("stack 35 onto 140", (0, 1), "+")[0] == "175"
    assert answer("what is the sum if 5 boxes 12", (0, 1), "+")[0] == "17"


def test_a_verb_before_an_expression_of_its_own_operation_changes_nothing():
    assert answer("Subtract: 71 - 16", (0, 1), "-")[0] == "55"
    assert answer("Please add 12 + 30", (0, 1), "+")[0] == "42"
    assert answer("Can you multiply 3 * 4?", (0, 1), "*")[0] == "12"
    assert answer("add: 3 - 4", (0, 1), "-")[0] == "NONE"
    assert answer("add: 3 - 4", (0, 1), "+")[0] == "NONE"
    assert answer("double 3 + 4", (0, 1), "+")[0] == "NONE"
    for text in ("add 3 + 4 to that", "subtract 9 - 4 from it", "Subtract 9 - 4 from 50"):
        operator = "+" if "+" in text else "-"
        assert answer(text, (0, 1), operator)[0] == "NONE"
