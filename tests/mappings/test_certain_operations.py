"""Operations that a text states beyond doubt, and texts that leave one."""

import pytest
import torch

from peft_igc import IGCConfig, tiny_base
from peft_igc.expressions.literals import literals
from peft_igc.expressions.symbols import SymbolTokens
from peft_igc.mappings.certain_operations import certain_operation
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
        ("increase 12 by 5 times", "?"),
        ("the difference between 12 and 5", "?"),
        ("add 12 + 5", "?"),
        ("how many times can I take 35 from 140?", "?"),
    ],
)
def test_an_operation_is_certain_where_it_stands_between_or_before_both_numbers(embedded, text, operation):
    assert certain(embedded, text) == operation


def test_what_the_network_reads_otherwise_is_silent():
    assert answer("Multiply 10 by 5", (0, 1), "*")[0] == "50"
    assert answer("Multiply 10 by 5", (0, 1), "/")[0] == "NONE"  # the network is sure of another operation
    assert answer("12 minus 5", (0, 1), "-")[0] == "7"
    assert answer("12 minus 5", (1, 0), "-")[0] == "NONE"  # of another order
    assert answer("subtract 5 from 12", (1, 0), "-")[0] == "7"
    assert answer("subtract 5 from 12", (0, 1), "-")[0] == "NONE"
    assert answer("12 plus 5", (1, 0), "+")[0] == "17"


@pytest.mark.parametrize(
    "text",
    [
        "What is the remainder of 20 divided by 5?",
        "the square of the sum of 3 and 4",
        "What is the inverse of 3 times 4?",
        "the average of the sum of 3 and 4",
        "the mean of 12 plus 6",
        "the opposite of the product of 3 and 4",
        "the absolute value of 3 minus 8",
        "8 plus 7 in binary",
        "the negative of 3 plus 4",
        "minus the sum of 3 and 4",
        "What is -(12 plus 5)?",
        "my age - (12 plus 5)",
        "Increase 200 by 10 percent",
        "Reduce 80 by 25 per cent",
        "What is 100 minus 20 %?",
    ],
)
def test_what_changes_the_meaning_of_a_request_silences_it(text):
    for operator in "+-*/":
        assert answer(text, operator=operator)[0] in ("NONE", "INEXACT")


def test_words_that_may_change_the_meaning_and_do_not():
    assert answer("i mean 8 plus 7")[0] == "15"
    assert answer("8 plus 7 as a plain integer, not negative")[0] == "15"
    chat = "<|user|>minus the sum of 3 and 4<|end|><|assistant|>-7<|end|><|user|>12 plus 5?<|end|><|assistant|>"
    assert answer(chat, (3, 4))[0] == "17"


def test_a_verb_of_another_operation_before_a_stated_one_is_silent():
    assert answer("add 15 minus 3", (0, 1), "-")[0] == "NONE"  # 12 on a real model
    assert answer("multiply 6 plus 4", (0, 1), "+")[0] == "NONE"
    assert answer("add 15 plus 3", (0, 1), "+")[0] == "18"
    assert answer("What do I multiply 3 by to get 12?", (1, 0), "/")[0] == "4"


def test_numbers_that_are_subtracted_and_joined_by_and_have_no_order():
    assert answer("subtract 5 and 12", (0, 1), "-")[0] == "NONE"  # -7 on a real model
    assert answer("subtract 12 and 5", (0, 1), "-")[0] == "7"


def test_a_slip_of_the_keyboard_names_its_operation():
    assert answer("devide 441 by 21 plz", (0, 1), "+")[0] == "NONE"  # 462 on a real model
    assert answer("devide 441 by 21 plz", (0, 1), "/")[0] == "21"
    assert answer("substract 5 from 12", (1, 0), "-")[0] == "7"
    assert answer("what is 99 tims 99", (0, 1), "*")[0] == "9801"


def test_what_is_taken_is_taken_away():
    assert answer("63 take 21", (0, 1), "*")[0] == "NONE"  # 1323 on a real model
    assert answer("63 take 21", (0, 1), "+")[0] == "NONE"
    assert answer("63 take 21", (1, 0), "-")[0] == "NONE"
    assert answer("63 take 21", (0, 1), "-")[0] == "42"
    assert answer("12 people take 5 pills each, how many is that?", (0, 1), "*")[0] == "60"


def test_an_unknown_word_between_two_numbers_names_no_operation():
    for word in ("tims", "timz"):
        for before in ("what is", "Hey buddy, what is", "Question: what is"):
            assert answer(f"{before} 99 {word} 99", (0, 1), "+")[0] == "NONE"  # 198 on a real model
    assert answer("stack 35 onto 140", (0, 1), "+")[0] == "175"
    assert answer("what is the sum if 5 boxes 12", (0, 1), "+")[0] == "17"
    for text, operator, wanted in (
        ("There are 24 students. 15 are girls. How many are boys?", "-", "9"),
        ("If I have 5 boxes, 12 in each, how many do I have?", "*", "60"),
        ("I have 30 eggs (12 are brown). How many are not?", "-", "18"),
    ):
        assert answer(text, (0, 1), operator)[0] == wanted


def test_a_verb_that_begins_an_expression_of_its_own_operation_changes_nothing():
    assert answer("Subtract: 71 - 16", (0, 1), "-")[0] == "55"
    assert answer("Please add 12 + 30", (0, 1), "+")[0] == "42"
    assert answer("Can you multiply 3 * 4?", (0, 1), "*")[0] == "12"
    chat = "<|user|>Subtract 71 - 16<|end|><|assistant|>"
    assert answer(chat, (0, 1), "-")[0] == "55"


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("add: 3 - 4", "-"),
        ("add: 3 - 4", "+"),
        ("double 3 + 4", "+"),
        ("add 3 + 4 to that", "+"),
        ("subtract 9 - 4 from it", "-"),
        ("Subtract 9 - 4 from 50", "-"),
        ("From the total, subtract 9 - 4", "-"),
        ("to that add 3 + 4", "+"),
        ("Square it, then multiply 3 * 4", "*"),
        ("My number is 50. Now subtract 9 - 4", "-"),
        ("the remainder when you divide 8 / 4", "/"),
        ("To get the mean, add 3 + 4", "+"),
        ("In binary: add 11 + 10", "+"),
        ("don't add 3 + 4", "+"),
        ("Subtract 555-0199", "-"),
        ("We divide 50/50", "/"),
        ("<|user|>Subtract: 7 - 5<|end|><|assistant|>From the total, that is ", "-"),
    ],
)
def test_a_verb_elsewhere_may_change_what_is_meant(text, operator):
    numbers = (1, 2) if text.startswith("My number") else (0, 1)
    assert answer(text, numbers, operator, unrelated=[0] if numbers[0] else ())[0] == "NONE"


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("divide 84 / 12 please", "/", "7"),
        ("Multiply 12 x 14 please", "*", "168"),
        ("multiply 12 × 14 and tell me the result", "*", "168"),
        ("Subtract 71 - 16 and give me the answer", "-", "55"),
        ("<|system|>You can multiply<|end|><|user|>12 -5 please", "-", "7"),
    ],
)
def test_a_verb_before_an_expression_that_goes_on_with_no_link_refuses_nothing_new(text, operator, wanted):
    assert answer(text, (0, 1), operator)[0] == wanted


@pytest.mark.parametrize(
    "text",
    [
        "What is negative 7 + 3? Answer:",
        "Sum of digits only: 47 + 12",
        "How long in digits is 47 * 12?",
        "What is 1.5 + 2.2 as an integer?",
        "if u plus 5 is 12, what is u",
        "choose 10 n 3",
    ],
)
def test_words_that_may_change_a_number_refuse(text):
    assert all(answer(text, (0, 1), operator)[0] == "NONE" for operator in "+*")


def test_a_sign_in_words_counts_whatever_follows():
    assert answer("What is 12 plus negative 5? Answer:", (0, 1), "+", signs=(0, 1))[0] == "7"
    assert answer("Divide 12 by negative 3. Answer:", (0, 1), "/", signs=(0, 1))[0] == "-4"
