"""Promises of the meeting of rules and network: symbols beat the reading, and what nothing excuses refuses."""

import functools
import math
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch

from peft_igc import IGCConfig, tiny_base
from peft_igc.mappings.readings import NEVER, Pointing
from peft_igc.mappings.requests import Context, _role
from peft_igc.numbers.calculator import OPERATIONS, Operation, Status, register_operation
from peft_igc.numbers.digits import canonical
from peft_igc.numbers.number_runs import find_runs
from peft_igc.numbers.token_table import EMBEDDED
from peft_igc.text import Reason
from peft_igc.tuner import steps
from peft_igc.tuner.build import make_mappings
from peft_igc.tuner.steps import result_of_step


@functools.cache
def tools():
    """The embedded tokenizer, a config and its input mapping."""
    base, tokenizer = tiny_base()
    config = IGCConfig.from_tokenizer(tokenizer, reading_dim=64, num_digits=12, num_heads=4)
    return tokenizer, config, make_mappings(config, 64, base.get_input_embeddings())[0].eval()


def answer(
    text, operands=(0, 1), operator="+", sure=True, signs=(0, 0), embedded=False, unrelated=(), asked=None, twice=None,
    **changed
):
    """What becomes of a text whose reading points at two of its numbers (by order, with signs) with an operator.

    It finds the numbers `unrelated` (by order) unrelated with a probability of 99%, and arithmetic asked with one of
    `asked`. `twice`: what takes another way to the result is checked, too, which takes three times as long; of None
    this is done for a third of the texts.

    Returns the number or the status, the reason, and the text of the token that caused it.
    """
    tokenizer, config, reader = tools()
    config = IGCConfig(**{**config.to_dict(), **changed}) if changed else config
    ids = torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])
    if embedded:
        ids[0, 0] = EMBEDDED
    valid = torch.ones_like(ids, dtype=torch.bool)
    anchors, since = torch.tensor([[ids.shape[1] - 1]]), torch.zeros(1, 1, dtype=torch.int64)
    runs = find_runs(reader.tokens, ids, valid, config.num_digits + 1)
    places = runs.number[0].nonzero().flatten().tolist() or [0]
    scores = torch.full((1, 1, 2, ids.shape[1], 2), NEVER)
    for slot, which in enumerate(operands):
        scores[0, 0, slot, places[min(which, len(places) - 1)], signs[slot]] = 0
    logits = torch.full((1, 1, len(config.operations) + 1), -10.0)
    logits[..., config.operations.index(operator) if operator in config.operations else -1] = 10.0 if sure else -9.9
    if asked is not None:
        logits[..., config.operations.index(operator)], logits[..., -1] = math.log(asked), math.log(1 - asked)
    positions = torch.arange(ids.shape[1])[None, None]
    aside, excuses = torch.zeros(1, 1, dtype=torch.bool), torch.full((1, 1, ids.shape[1]), -5.0)
    excuses[..., [places[which] for which in unrelated]] = 4.6
    reading = Pointing(scores, logits, runs.digits[:, None], positions, aside, excuses).cooled(config.temperature)
    context = Context.of(ids, valid, anchors, since)
    legible = torch.ones(1, 1, dtype=torch.bool)
    _, _, result, said = result_of_step(config, reader, context, reading, legible, by_rule=True)
    if len(text) % 3 == 0 if twice is None else twice:
        with patch.object(steps, "decided_by_rule", return_value=None):  # the words are read although no rule needs it
            *_, other, all_said = result_of_step(config, reader, context, reading, legible, by_rule=True)
        assert all(map(torch.equal, (*result, said.reason, said.culprit), (*other, all_said.reason, all_said.culprit)))
        # Beside a row without an anchor it is the same.
        anchors = torch.cat([anchors, anchors * 0 - 1])
        rows = Context.of(ids.repeat(2, 1), valid.repeat(2, 1), anchors, since.repeat(2, 1))
        both, there = Pointing(*(torch.cat([x, x]) for x in reading)), torch.tensor([[True], [False]])
        _, _, beside, _ = result_of_step(config, reader, rows, both, there, by_rule=True)
        assert all(torch.equal(one[:1], alone) for one, alone in zip(beside, result, strict=True))
        assert beside.status[1, 0] == Status.NONE
    status = Status(int(result.status[0, 0]))
    numbers = (x[0] for x in (result.digits, result.sign, result.scale))
    found = canonical(*numbers)[0] if status == Status.OK else status.name
    culprit = int(said.culprit[0])
    return found, Reason(int(said.reason[0])), tokenizer.decode([ids[0, culprit]]) if culprit >= 0 else None


@pytest.mark.parametrize(
    ("text", "operator", "expected"),
    [
        ("796 -229", "+", "567"),
        ("What is 796 -229?", "+", "567"),
        ("479*-74", "*", "-35446"),
        ("- 900 + 284", "+", "-616"),
        ("3 + 4 * 5 =", "+", "23"),
        ("(3 + 4) * 5 =", "-", "35"),
        ("2^10 =", "*", "1024"),
        ("I bought 3 apples. 4+5 =", "-", "9"),
    ],
)
def test_an_expression_in_symbols_is_what_it_says_whatever_was_read(text, operator, expected):
    found, reason, _ = answer(text, (1, 0), operator)
    assert (found, reason) == (expected, Reason.NONE)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("2^3 =", "8"), ("50% of 8 =", "4"), ("1.5 + 2 =", "3.5"), ("max(3, 5) =", "5"), ("1 + 2 + 3 =", "6")],
)
def test_what_ends_at_the_anchor_is_asked_unless_it_is_an_operation_on_two_integers(text, wanted):
    assert answer(f"It is {text}", asked=0.01)[0] == wanted
    assert answer("It is 12 + 3 =", asked=0.01)[0] == "NONE"
    assert answer("It is 12 + 3 =")[0] == "15"


def test_a_function_of_the_table_has_its_value():
    assert answer("sqrt(16) + 9")[0] == "13"
    assert answer("What is max(12, 5)?", operator="+")[0] == "12"


def test_a_number_that_names_a_room_or_a_page_is_no_operand():
    assert answer("Room 12 plus 3 guests")[0] == "NONE"  # 15 on a real model
    assert answer("What is 3 plus page 12?")[0] == "NONE"
    assert answer("12 plus 3 guests")[0] == "15"


def test_words_are_not_looked_for_where_an_expression_is_asked(monkeypatch):
    looked = []
    wording = steps.wording
    monkeypatch.setattr(steps, "wording", lambda *args: looked.append(True) or wording(*args))
    assert answer("What is 3 + 4?", twice=True)[0] == "7"
    assert len(looked) == 2  # by the comparisons in `answer`
    answer("What is 3 plus 4?", twice=True)
    assert len(looked) == 5


def test_a_further_number_is_excused_where_the_network_is_sure_that_it_is_unrelated():
    text = "In 2024 I had 3 apples and got 5 more. How many in all?"
    assert answer(text, (1, 2))[:2] == ("NONE", Reason.OTHER_NUMBER)
    assert answer(text, (1, 2), unrelated=[0], excuse_confidence=0.98)[0] == "8"
    assert answer(text, (1, 2), unrelated=[0], excuse_confidence=0.995)[0] == "NONE"
    assert answer(text, (1, 2), unrelated=[0], excuse_confidence=None)[0] == "NONE"
    assert answer("Add 5 to 3. Plus 17.", (0, 1), unrelated=[2], excuse_confidence=0.9)[0] == "NONE"
    assert answer("Add 5 to 3. See page 17.", (0, 1), unrelated=[2], excuse_confidence=0.9)[0] == "8"
    # the temperature of `confidence` has no part in it
    assert answer(text, (1, 2), unrelated=[0], excuse_confidence=0.98, temperature=8.0)[0] == "8"
    # another one is not excused with it, nor is what is numeric and not understood
    assert answer(f"My 7 friends: {text}", (2, 3), unrelated=[1], excuse_confidence=0.98)[0] == "NONE"
    assert answer(f"Half a day later: {text}", (1, 2), unrelated=[0], excuse_confidence=0.98)[0] == "NONE"


@pytest.mark.parametrize(
    ("text", "changed", "expected"),
    [
        ("2.5 + 1.25 =", {}, "3.75"),
        ("0.1 * 0.5 =", {}, "0.05"),
        ("1.5 + 1.5 =", {}, "3"),
        ("-7 / 8 =", {}, "-0.875"),
        ("2.5 + 1.25 =", {"decimals": False}, "INEXACT"),
        ("10 / 3 =", {}, "INEXACT"),
        ("10 / 3 =", {"rounding": "half_up", "decimal_places": 2}, "3.33"),
        ("10 / 3 * 3 =", {"rounding": "half_up", "decimal_places": 2}, "10"),
        ("1 / 4 =", {"rounding": "half_up", "decimal_places": 1}, "0.25"),
    ],
)
def test_decimals_are_results_where_they_may_be_written(text, changed, expected):
    assert answer(text, **changed)[0] == expected


@pytest.mark.parametrize("text", ["[11] -209 - -4 =", "(3) -5 + 8 =", "Hi! [11] -2 - 4 =", "Task: (12) -20 ="])
def test_a_list_number_before_a_sign_may_also_be_a_difference(text):
    assert answer(text)[0] == "NONE"
    assert answer(text.replace(" -", " - ", 1).replace("[", "(").replace("]", ")"))[0] != "NONE"


def test_a_difference_is_no_sum():
    text = "What's the Difference between 45 and 17?"
    assert answer(text, operator="-")[0] == "28"
    for operator in "+*":
        assert answer(text, operator=operator)[:2] == ("NONE", Reason.NOT_UNDERSTOOD)


@pytest.mark.parametrize("text", ["a = b*6 + c/90", "Solve: 47 * y / 9", "What is 5 ^ n and 3?", "x += 16; y -= 5"])
def test_an_operator_in_symbols_beside_letters_is_not_read_in_words(text):
    assert answer(text)[0] == "NONE"


def test_a_bracket_behind_minus_is_not_read_in_words():
    for text in ("What is minus (3 plus 4)?", "minus (-3 plus (-4))", "negative (3 plus 4)", "minus (3) plus 4"):
        assert answer(text)[0] == "NONE", text
    assert answer("What is (3 plus 4)?")[0] == "7"


def test_the_network_excuses_a_further_number_beside_an_expression_in_symbols():
    text = "I have 9 cats. Please tell me what 5 - 3 is."
    assert answer(text, (1, 2), operator="-")[:2] == ("NONE", Reason.OTHER_NUMBER)
    assert answer(text, (1, 2), operator="-", unrelated=[0], excuse_confidence=0.9)[0] == "2"
    assert answer(text, (1, 2), operator="+", unrelated=[0], excuse_confidence=0.9)[0] == "NONE"
    assert answer(text, (0, 2), operator="-", unrelated=[1], excuse_confidence=0.9)[0] == "NONE"
    assert answer("9 * 5 - 3 is what?", (1, 2), operator="-", unrelated=[0], excuse_confidence=0.9)[0] != "2"
    # Nothing stands between the further number and the expression.
    for text in ("Compute 1 234 - 5", "Compute this: 9, 5 - 3"):
        assert answer(text, (1, 2), operator="-", unrelated=[0], excuse_confidence=0.9)[0] == "NONE", text


def test_the_stars_of_a_list_are_no_operators():
    assert answer("* 12 apples\n* 5 pears\nAdd them.")[0] == "17"


@pytest.mark.parametrize(
    ("text", "operator", "expected"),
    [
        ("Division: 3515 by 37", "-", "NONE"),
        ("Division: 3515 by 37", "/", "95"),
        ("Decrease 6107 by 2649 and write down the answer.", "*", "NONE"),
        ("Decrease 6107 by 2649 and write down the answer.", "-", "3458"),
        ("What must I add to 5 to get 12?", "*", "NONE"),
        ("What is the product of 12 and 5?", "+", "NONE"),
        ("What is the product of 12 and 5?", "*", "60"),
        ("The sum is for a product: 12 and 5?", "+", "17"),  # each name is possible
        ("A box has 12 pens, and another one 5. How many?", "+", "17"),  # nothing is named
        ("How much larger is 84 than 2449?", "-", "NONE"),
        ("How much larger is 2449 than 84?", "-", "2365"),
        ("Which number is 12 smaller than 5?", "-", "7"),
        ("x = 5, y = 12. What is y?", "-", "NONE"),
        ("x = 5, y = 12. What is x + y?", "+", "17"),
        ("x = 5, y = 12. What is x + y?", "*", "NONE"),
        ("x = 5, y = 12. What is x + y - x?", "+", "NONE"),
        ("x = 5, y = 12. What is x minus y?", "-", "-7"),
        ("I divided them. Take 12 away, then 5.", "-", "7"),
        ("I divided them. Take 12 away, then 5.", "+", "NONE"),
        ("Many times a day I ask. What do 5 and 12 make?", "+", "17"),
        ("x = 5, y = 12. Find the sum.", "+", "17"),
        ("How much less is 12 than 5?", "-", "7"),
        ("How much less is 5 than 12?", "-", "NONE"),
        ("A book costs 5 dollars. Ann has 12 dollars. How many of them can she get?", "*", "NONE"),
        ("A book costs 5 dollars. Ann has 12 dollars. How much more does she need?", "-", "-7"),
        ("5 apples for 12 dollars each?", "*", "60"),
        ("5 meters by 12 meters?", "*", "60"),
        ("5 kilos minus 12 grams", "-", "NONE"),
        ("5 kilos and 12 kilos", "+", "17"),
        ("Book 5 seats for 12 June.", "+", "NONE"),
        ("Book 5 seats for 12 May.", "+", "NONE"),
        ("May 30 plus 5 days", "+", "NONE"),
        ("What time is 10 pm plus 5 hours?", "+", "NONE"),
        ("Add 3 hours to 10 am", "+", "NONE"),
        ("I am 12 and she is 5 years older.", "+", "17"),
        ("2 GB plus 500 MB", "+", "NONE"),
        ("5 bucks plus 30 cents", "+", "NONE"),
        ("Add 2 zeros to 15", "+", "NONE"),
        ("You may add 5 to 12.", "+", "17"),
        ("calculate max(5, 12)", "+", "12"),
        ("calculate sum(5, 12)", "+", "17"),
        ("the total (5 and 12)", "+", "17"),
        ("Compute the sum of the digits of 5 and 12", "+", "NONE"),
        ("5 = 12", "-", "NONE"),
        ("A factory makes 12 toys an hour. Tom needs 60 toys. How many hours?", "*", "NONE"),
        ("A factory makes 12 toys an hour. Tom needs 60 toys. How many are missing?", "-", "-48"),
        ("12 boxes with 60 toys", "*", "720"),
        ("Give me the sum of the numbers from 12 to 60.", "+", "NONE"),
        ("How far is it from 12 to 60?", "-", "NONE"),
        ("How far is it from 60 to 12?", "-", "48"),
        ("12 to 60 is how many years?", "*", "NONE"),
        ("What is the answer to 12 times 60?", "*", "720"),
        ("Add 12 to 60.", "+", "72"),
        ("What plus 12 is 60?", "+", "NONE"),
        ("12 times what is 60?", "*", "NONE"),
        ("What does 12 plus 60 make?", "+", "72"),
        ("12 and 60", "+", "NONE"),
        ("Sum: 12 and 60", "+", "72"),
        ("What is 12 times n minus 60?", "*", "NONE"),
        ("12 x plus (-60) y is", "+", "NONE"),
        ("What is 12 bitwise and 60?", "+", "NONE"),
        ("halve 12 and subtract 60", "-", "NONE"),
        ("How much remains of -12 after removing -60?", "-", "48"),
        ("Compute: 52379 ± 43", "*", "NONE"),
        ("Answer this: what is 728 < 1960?", "*", "NONE"),
    ],
)
def test_an_operation_that_the_text_names_otherwise_is_silent(text, operator, expected):
    assert answer(text, operator=operator)[0] == expected


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("take 980 off 2750", (1, 0)),
        ("2750 less 980 gives?", (0, 1)),
        ("Subtract 980 from 2750.", (1, 0)),
        ("From 2750, take away 980.", (0, 1)),
    ],
)
def test_what_is_taken_off_a_number_is_not_the_number(text, order):
    assert answer(text, order[::-1], "-")[0] == "NONE"
    assert answer(text, order, "-")[0] == "1770"


@pytest.mark.parametrize("verb", ["are", "are there", "fit"])
def test_how_often_a_number_is_in_another_is_no_product(verb):
    text = f"How many sets of 5 {verb} in 55?"
    assert answer(text, (0, 1), "*")[0] == "NONE"
    assert answer(text, (1, 0), "/")[0] == "11"
    assert answer("How many pens are 5 pens in 55 boxes?", (0, 1), "*")[0] == "275"


def test_numbers_behind_the_same_word_are_excused_together_or_not_at_all():
    text = "I have 5 pens. I have 12 pears. {} How many in all?"
    for more, expected in (("I have 7 books.", "NONE"), ("It is 7 o'clock.", "17"), ("You have 7 left.", "17")):
        assert answer(text.format(more), (0, 1), unrelated=[2], excuse_confidence=0.9)[0] == expected
    assert answer(text.format("I have 7 books."), (1, 2), unrelated=[0], excuse_confidence=0.9)[0] == "NONE"


def test_numbers_that_begin_parts_of_sentences_are_excused_together_or_not_at_all():
    for mark in (".", ",", ";", "\n"):
        text = f"Here: 5 pens{mark} 12 pears{mark} {{}}. How many in all?"
        for more, expected in (("7 books", "NONE"), ("It is 7 o'clock", "17")):
            assert answer(text.format(more), (0, 1), unrelated=[2], excuse_confidence=0.9)[0] == expected
    text = "2024 was good. We have 5 pens and 12 pears. How many in all?"
    assert answer(text, (1, 2), unrelated=[0], excuse_confidence=0.9)[0] == "17"


def test_names_say_nothing_of_an_operation_that_a_user_adds():
    register_operation(Operation("larger", "max", _first, lambda a, b, division: max(a, b)))
    try:
        for operator, expected in (("max", "12"), ("+", "17"), ("-", "NONE")):
            assert answer("Larger sum of 12 and 5?", operator=operator, operations=["-", "max", "+"])[0] == expected
    finally:
        del OPERATIONS["max"]


def _first(a, b, division):
    return OPERATIONS["+"].function(a, b._replace(digits=torch.zeros_like(b.digits)), division)


def test_the_names_of_an_earlier_turn_are_not_asked():
    text = "<|user|>\nThe product of 3 and 4?</s>\n<|user|>\nA box has 12 pens, and another one 5. How many?"
    assert answer(text, (2, 3))[0] == "17"
    assert answer(text.replace("</s>\n<|user|>", ""), (2, 3))[0] == "NONE"


def test_a_difference_below_zero_needs_a_word_for_the_order():
    assert answer("What is the difference between 17 and 45?", operator="-")[:2] == ("NONE", Reason.NOT_UNDERSTOOD)
    assert answer("What is the difference if 45 is subtracted from 17?", (1, 0), operator="-")[0] == "-28"
    assert answer("What is the difference between 45 and 45?", operator="-")[0] == "0"


@pytest.mark.parametrize("text", ["What is (207111 * 466081)!?", "(3 + 4)!", "Give me (3 + 4)!!"])
def test_a_factorial_is_not_understood(text):
    assert answer(text)[0] == "NONE"
    assert answer(text.replace("!", ""))[0] not in ("NONE", "INEXACT")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rounding": "half_up", "decimal_places": 2, "division": "floor"}, "no effect with `division='floor'`"),
        ({"decimal_places": 2}, "`decimal_places=2` has no effect without `rounding`"),
        ({"rounding": "half_up", "decimal_places": 2, "decimals": False}, "no effect without `decimals`"),
        ({"rounding": "half_up"}, "needs `decimal_places`"),
    ],
)
def test_settings_of_decimals_that_would_be_ignored_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        answer("10 / 3 =", **changed)


def test_the_network_decides_whether_an_expression_is_to_be_calculated():
    text = "What is 796 -229?"
    assert answer(text, operator="none")[0] == "NONE"
    assert answer(text, sure=False, confidence=0.9, stated_odds=1)[0] == "NONE"
    assert answer(text, sure=False)[0] == "567"
    for text, expected in (("1 + 2 + 3", "6"), ("2^10 =", "1024"), ("0.5 * 8", "4"), ("796 -229", "567")):
        assert answer(text, operator="none")[0] == expected  # nothing else is said
    assert answer("They need (50 + 3) * 2 =", operator="none")[0] == "106"
    for text in ("What is (50 * 3)?", "#define SIZE (50*3)", "Keep this: 1 + 2 + 3"):
        assert answer(text, operator="none")[0] == "NONE"


def test_what_may_be_a_range_needs_a_reading_that_finds_the_same():
    text = "Exercise: 37,932 - 334"
    assert answer(text, operator="-")[0] == "37598"
    assert answer(text, operator="+")[:2] == ("NONE", Reason.LOOK_ALIKE)
    for text, operator in (("Ages 8-76 only", "-"), ("a 50/50 chance", "/"), ("a 5×3 photo", "*")):
        assert answer(text, operator=operator)[:2] == ("NONE", Reason.LOOK_ALIKE)


def test_a_sign_stands_in_the_text_and_the_network_says_only_whether_minus_is_one():
    for sign in (0, 1):
        assert answer("Addition: 8 and minus 5", signs=(0, sign))[0] == "3"
        assert answer("Minus 8 and 5 make", signs=(sign, 0))[0] == "-3"
        assert answer("Compute: 8 minus minus 5", operator="-", signs=(0, sign))[0] == "13"
        assert answer("Compute 8 minus 5", operator="-", signs=(0, sign))[0] == "3"
    assert answer("8 pens minus 5 pens", operator="-", signs=(0, 0))[0] == "3"
    assert answer("Take 8, minus 5", operator="+", signs=(0, 1))[0] == "3"
    assert answer("Addition: 8 and negative 5", signs=(0, 0))[0] == "3"
    assert answer("Addition: 8 and 5", signs=(1, 1))[0] == "13"
    assert answer("Add 8 to Minus 5", signs=(1, 0))[0] == "3"
    assert answer("The negative sum of 8 and 5", signs=(1, 1))[0] == "NONE"
    assert answer("What is 8 less 5?", operator="-", signs=(0, 0))[0] == "3"
    assert answer("Compute -8 plus 5.", signs=(0, 0))[0] == "-3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the sum of 12 and 5?", "17"),
        ("What is the sum of -12 and 5?", "-7"),
        ("What is the sum of 12 and -5?", "7"),
        ("<|system|>Today is 22 November.<|end|><|user|>What is the sum of 12 and 5?<|end|><|assistant|>", "17"),
    ],
)
def test_a_request_in_words_is_read_by_the_network_with_signs_of_the_text(text, expected):
    first = 1 if "22" in text else 0
    found, reason, _ = answer(text, (first, first + 1))
    assert (found, reason) == (expected, Reason.NO_EXPRESSION)


@pytest.mark.parametrize(
    ("text", "operands", "culprit"),
    [
        ("What is the sum of 12 and 5? Then add 7.", (0, 1), "7"),
        ("3 apples\n4 pears\n5 plums\nWhat is the sum?", (0, 1), "5"),
        ("3 apples\n4 pears\n5 plums\nWhat is the sum?", (1, 2), "3"),
        ("My number is 8. Add 12 and 5 to it.", (1, 2), "8"),
        ("What is 12 plus 5? Take away 3.", (0, 1), "3"),
        ("What is 12 plus 5? The film lasts 3 minutes.", (0, 1), "3"),
        ("I have 3 cats. I have 12 dogs. What is the sum of that and 5?", (1, 2), "3"),
    ],
)
def test_a_number_that_nothing_excuses_refuses(text, operands, culprit):
    found, reason, token = answer(text, operands)
    assert (found, reason, token.strip()) == ("NONE", Reason.OTHER_NUMBER, culprit.strip())


@pytest.mark.parametrize(
    "text", ["½ of 8 + 3", "5 + 3 plus one", "cbrt(27) + 9", "5 km plus 300 m", "12 plus 5, divided by two"]
)
def test_what_is_numeric_and_not_understood_refuses(text):
    found, reason, culprit = answer(text)
    assert (found, reason) == ("NONE", Reason.NOT_UNDERSTOOD)
    assert culprit


def test_statuses_of_expressions():
    assert answer("5 / 0 =")[0] == "UNDEFINED"
    assert answer("7 / 2 =")[0] == "3.5"
    assert answer("10 / 3 =")[:2] == ("INEXACT", Reason.INEXACT)
    assert answer("7 / 2 =", division="floor")[0] == "3"
    assert answer("999999 * 999999 * 999999 * 999999 =")[0] == "OVERFLOW"
    assert answer("1 + 2 + 3 =", max_operands=2)[:2] == ("NONE", Reason.TOO_MANY_OPERANDS)
    assert answer("1 - 2 =", operations=["+"])[:2] == ("NONE", Reason.MALFORMED)
    assert answer("1 + 2 =", operations=["+"])[0] == "3"
    assert answer("2 ^ 5 =", operations=["+"])[:2] == ("NONE", Reason.MALFORMED)


@pytest.mark.parametrize("text", ["What is 12 plus 5? Now double it.", "What is 12 plus 5? Give me half of that."])
def test_a_number_word_behind_a_request_refuses(text):
    assert answer(text)[:2] == ("NONE", Reason.NOT_UNDERSTOOD)


@pytest.mark.parametrize("text", ["1 + 2 + 3 =", "2.5 * (3 - 5) =", "1 + 2", "5 boxes 4*12=", "5 / 0 =", "Ages 3-5"])
def test_in_a_compiled_graph_expressions_are_the_same(monkeypatch, text):
    wanted = answer(text)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert answer(text) == wanted


def test_a_text_with_tokens_that_were_given_as_embeddings_is_not_answered():
    text = "This is it.\n3 + 4 ="
    assert answer(text)[0] == "7"
    assert answer(text, embedded=True)[0] == "NONE"


@pytest.mark.parametrize("text", ["a 50/50 chance", "x = a[9-1]"])
def test_numbers_joined_by_symbols_that_the_rules_refuse_are_no_request_in_words(text):
    assert answer(text, operator="-")[0] == "NONE"


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("4200/70 only the figure", "/", "60"),
        ("we need 192/16", "/", "12"),
        ("555/5 is all", "/", "111"),
        # rates, scores, dates, pressures, what does not end, and equal numbers
        ("95/100 on it", "/", "NONE"),
        ("100/50 on it", "/", "NONE"),
        ("24/7 in town", "/", "NONE"),
        ("5/2024 on it", "/", "NONE"),
        ("160/80 at rest", "/", "NONE"),
        ("130/80 at rest", "/", "NONE"),
        ("365/365 of them", "/", "NONE"),
        # ranges, seasons, types and telephones
        ("1990-2000 only", "-", "NONE"),
        ("the war of 1914-18", "-", "NONE"),
        ("the 2023-24 season", "-", "NONE"),
        ("boeing 747-400", "-", "NONE"),
        ("call 555-0199", "-", "NONE"),
        ("7000-350 help", "-", "NONE"),
        # the network reads something else
        ("4200/70 only the figure", "*", "NONE"),
    ],
)
def test_numbers_beside_a_slash_that_are_no_rate_need_a_network_that_is_sure(text, operator, wanted):
    assert answer(text, operator=operator)[0] == wanted
    assert answer(text, operator=operator, sure=False)[0] == "NONE"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("minus 35 from 140", "105"),  # not 175, as if the word were a sign as well
        ("minus 140 and 35", "NONE"),
        ("140, and minus 35", "NONE"),
        ("Minus the 35 from 140", "105"),
        ("What is minus 140 minus 35?", "-175"),
        ("subtract 35 from minus 140", "105"),  # the network says whether such a word is a sign; here it does not
        ("What is 35 less than minus 140?", "NONE"),
        ("What is left of -140 after -35?", "-105"),
    ],
)
def test_a_word_is_not_both_the_sign_and_the_operation(text, wanted):
    first = 0 if text.lower().find("140") < text.find("35") else 1
    assert answer(text, operator="-", operands=(first, 1 - first))[0] == wanted


def test_a_word_that_the_network_takes_for_a_sign_is_not_the_operation_as_well():
    text = "Please minus 119 from 218"  # 337, as a real model read `minus 119 from 218`
    assert answer(text, operator="-", operands=(1, 0), signs=(0, 1))[0] == "99"
    left = "minus 44 from 90 whats left"  # 134 on a real model: `left` may name the operation, too
    assert answer(left, operator="-", operands=(1, 0), signs=(0, 1))[0] == "46"
    asked = "Take minus 119 from 218 please"
    assert answer(asked, operator="-", operands=(1, 0), signs=(0, 1))[0] == "NONE"
    assert answer("Add 3 to it. Minus 119 from 218", operator="-", operands=(2, 1), unrelated=[0])[0] == "NONE"
    assert answer("What is 90 minus minus 44?", operator="-", signs=(0, 1))[0] == "134"


def test_only_the_same_thing_is_not_multiplied_by_itself():
    text = "There are 7 box seats with 3 {} cars in each."  # `box` and `model` are one token each, and in no list
    assert answer(text.format("model"), operator="*")[0] == "21"
    assert answer(text.format("box"), operator="*")[0] == "NONE"


@pytest.mark.parametrize(
    ("text", "operands", "operator", "wanted"),
    [
        ("Multiply 12 from 5", (0, 1), "*", "NONE"),
        ("Divide 12 from 60", (1, 0), "/", "NONE"),
        ("How many teams of 12 can I make from 60?", (1, 0), "/", "5"),
        ("He picked 5 apples each from 12 trees", (0, 1), "*", "60"),
        ("Multiply 12 by 5", (0, 1), "*", "60"),
        ("Subtract 5 from 12", (1, 0), "-", "7"),
    ],
)
def test_a_product_is_not_from_a_number(text, operands, operator, wanted):
    assert answer(text, operands, operator)[0] == wanted


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("how far apart are 475 and 830", "-", "NONE"),  # -355 on a real model
        ("how far apart are 830 and 475", "-", "355"),
        ("What is the gap between 475 and 830?", "-", "NONE"),
        ("how far apart are 830 and 475", "+", "NONE"),
    ],
)
def test_a_distance_is_a_difference_that_is_not_below_zero(text, operator, wanted):
    assert answer(text, operator=operator)[0] == wanted


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("by how much is 89 more than 45", "+", "NONE"),
        ("How much is 89 more than 45?", "+", "NONE"),
        ("What is 89 more than 45?", "+", "134"),
        ("pls ad 45 to 712", "-", "NONE"),
        ("How far is it from 45 to 712?", "-", "NONE"),  # below zero
        ("What must I add to 45 to get 712?", "-", "-667"),
        ("What is 45 minus 712?", "-", "-667"),
        ("subtract 712 from 45", "-", "-667"),
    ],
)
def test_what_the_words_do_not_say_is_not_answered(text, operator, wanted):
    first = 0 if text.find("45") < text.find("712") or operator == "+" else 1
    assert answer(text, operator=operator, operands=(first, 1 - first))[0] == wanted


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("Find the value of 12 plus 5 plus something.", "+", "NONE"),  # 17 on a real model
        ("Find the value of 6067 plus 87707123 plus something.", "+", "NONE"),  # numbers of several tokens
        ("What is 12 minus 5 minus my age?", "-", "NONE"),
        ("What is 12 times 5 times my age?", "*", "NONE"),
        ("What is 12 divided by 4 divided by something?", "/", "NONE"),
        ("What is 12 plus 5 + something?", "+", "NONE"),
        ("What is 12 plus something plus 5?", "+", "NONE"),
        ("What is 12 times something divided by 4?", "*", "NONE"),
        ("What is 12 times minus 5?", "*", "-60"),
        ("What is 12 divided by minus 4?", "/", "-3"),
        ("12 plus 5 please", "+", "17"),
        ("What's 12 plus 5? Plus tell me a joke.", "+", "17"),
        ("What do 12 and 5 times make?", "*", "60"),
        ("How much is 12 minus 5, over and out", "-", "7"),
    ],
)
def test_a_further_operator_has_an_operand_that_is_no_number(text, operator, wanted):
    signs = (0, 1) if wanted.startswith("-") else (0, 0)
    assert answer(text, operator=operator, signs=signs)[0] == wanted


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("Summarise: Ann asked Ben for 99 minus 33, Ben shrugged, and they never spoke again.", "-", "NONE"),  # 66
        ("What regex would match 14 plus 86?", "+", "NONE"),  # 100 on a real model
        ("What dog would match 14 plus 86?", "+", "100"),
        ("Write a haiku about 12 times 5.", "*", "NONE"),
        ("Write a word about 12 times 5.", "*", "60"),
        ("I read 12 pages of a poem and 5 pages of a novel. How many pages in total?", "+", "17"),
        ("Calculate 12 plus 5 and underline the result", "+", "17"),
    ],
)
def test_what_is_to_be_done_with_the_text_itself_is_no_calculation(text, operator, wanted):
    assert answer(text, operator=operator)[0] == wanted


@pytest.mark.parametrize(
    ("asked", "least"),
    [
        ("How many more pennies does John have?", "NONE"),  # -165 on a real model
        ("How many pennies less does Kate have?", "NONE"),
        ("I don't have many more. What does John have?", "-165"),
    ],
)
def test_how_many_more_there_are_is_not_below_zero(asked, least):
    text = f"Kate has 223 pennies. John has 388 pennies. {asked}"
    assert answer(text, (0, 1), "-")[0] == least
    assert answer(text, (1, 0), "-")[0] == "165"


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("Which is the dividend when we divide 78 by 6?", "/", "NONE"),  # 13 on a real model
        ("What number is called the divisor if I divide 78 by 6?", "/", "NONE"),
        ("Which number in 78 divided by 6 is named the divisor?", "/", "NONE"),
        ("Question: What is the divisor in 78 divided by 6?\nAnswer:", "/", "NONE"),
        ("What's the divisor in 78 divided by 6?", "/", "NONE"),
        ("whats the dividend in 78 divided by 6", "/", "NONE"),
        ("Name the addends in the sum of 78 and 6", "+", "NONE"),
        ("The dividend is 78 and the divisor is 6. What is the quotient?", "/", "13"),
        ("78 is the dividend and 6 is the divisor. What is the result?", "/", "13"),
        ("If 78 is the dividend and 6 is the divisor, how much is it?", "/", "13"),
        ("If 78 and 6 are the addends, what is the total?", "+", "84"),
        ("Divide the dividend 78 by the divisor 6", "/", "13"),
    ],
)
def test_the_name_of_a_part_asks_for_no_result(text, operator, wanted):
    assert answer(text, operator=operator)[0] == wanted


@pytest.mark.parametrize(
    ("text", "operator", "operands", "wanted"),
    [
        ("Split 100 between me and 4 others", "/", (0, 1), "NONE"),  # 25 on a real model
        ("Me and my 3 friends each ate 4 pancakes. How many did we eat?", "*", (0, 1), "NONE"),  # 12 on a real model
        ("She and 4 others share 20 apples. How many does each get?", "/", (1, 0), "NONE"),
        ("Give me 12 and 5 multiplied", "*", (0, 1), "60"),
        ("Times these together for me: 12 and 5", "*", (0, 1), "60"),
        ("Can you help me? 12 and 5 multiplied", "*", (0, 1), "60"),
        ("Thank you. And 12 times 5?", "*", (0, 1), "60"),
        ("Multiply your 12 and my 5", "*", (0, 1), "60"),
        ("I have 20 pencils and my 4 students share them. How many does each get?", "/", (0, 1), "5"),
    ],
)
def test_a_number_of_companions_is_neither_a_factor_nor_a_divisor(text, operator, operands, wanted):
    assert answer(text, operator=operator, operands=operands)[0] == wanted


def test_a_role_may_have_several_tokens():
    # `3 and 5`, control, `ass`, `istant`, the anchor at a line's end
    code, control = torch.tensor([[0, 4, 0, 0, 7, 7, 0]]), torch.tensor([[0, 0, 0, 1, 0, 0, 0]]).bool()
    behind, anchor = torch.arange(7)[None] > 2, torch.tensor([6])
    found = SimpleNamespace(code=code, control=control)
    assert _role(found, anchor, behind).tolist() == [[False] * 4 + [True] * 2 + [False]]
    other = SimpleNamespace(code=torch.tensor([[0, 4, 0, 0, 7, 8, 0]]), control=control)  # `The sum`
    assert not _role(other, anchor + 2, behind).any()


def test_two_numbers_without_a_word_are_no_request_whatever_the_header_says():
    for words, wanted in (("3 and 5", "NONE"), ("sum 3 and 5", "8")):
        for role in ("<|assistant|>", "<|assistant|>assistant\n", "<|user|>assistant<|assistant|>"):
            assert answer(f"<|user|>{words}<|end|>{role}")[0] == wanted
    # what is said in later turns counts
    later = "<|user|>3 and 5<|end|><|assistant|>What is to be done with them?<|end|><|user|>Multiply them<|end|>"
    assert answer(f"{later}<|assistant|>", operator="*")[0] == "15"


@pytest.mark.parametrize(
    "text",
    ["add 23 n 49", "choose 23 n 49", "What is 23 plus 49 in digits?", "Count 23 plus 49 in digits", "5 u add 3"],
)
def test_what_has_several_meanings_refuses(text):
    assert answer(text)[0] == "NONE"


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("12 plus 5, no wait, minus!", "+", "NONE"),
        ("12 times 5, sorry, plus", "*", "NONE"),
        ("12 minus 5, I mean the sum", "-", "NONE"),
        ("12 and 5, their product please", "*", "60"),
        ("I add 5 and 12 comes out, what was my number?", "+", "NONE"),
        ("I multiplied by 5 and 60 came out. What did I have?", "*", "NONE"),
        ("If I add 5 and 12, what comes out?", "+", "17"),
        ("my number minus 12 plus 5", "+", "NONE"),
        ("what is a number plus 12 if it is 5", "+", "NONE"),
        ("The number 12 plus 5", "+", "17"),
        ("What remains when you divide 20 by 5?", "/", "NONE"),
        ("divide 20 by 5, what is remaining", "/", "NONE"),
        ("What remains when 5 is taken from 20?", "-", "15"),
        ("Split 100 between 4 others and me", "/", "NONE"),
        ("Split 100 between 4 people", "/", "25"),
    ],
)
def test_what_says_a_result_or_another_operation_refuses(text, operator, wanted):
    order = (1, 0) if "taken from" in text else (0, 1)
    assert answer(text, order, operator)[0] == wanted


def test_what_earlier_turns_say_refuses_nothing():
    before = "<|system|>Answer what remains, then come out and divide.<|end|><|user|>"
    assert answer(f"{before}Divide 20 by 5<|end|><|assistant|>", operator="/")[0] == "4"
    assert answer(f"{before}12 plus 5<|end|><|assistant|>")[0] == "17"


@pytest.mark.parametrize(
    ("text", "operator", "stated"),
    [
        ("Good day! I would like 5280 divided by 12", "/", True),
        ("ok, 45 minus 16", "-", True),
        ("What is 5280 + 12, please?", "+", True),  # by rule
        ("Do you know what 5280, divided by 12, is?", "/", True),
        ("Divide 5280 by 12", "/", False),
        ("I have 45 pens and 16 more", "+", False),
        ("ok, 45 minus 16 and 7", "-", False),
        ("In two days, 45 minus 16", "-", False),
        ("45 pens minus 16", "-", False),
    ],
)
def test_a_text_that_states_a_calculation_probably_asks_for_it(text, operator, stated):
    for asked, odds, wanted in ((0.2, 20, True), (0.03, 20, False), (0.2, 1, False)):
        found = answer(text, operator=operator, asked=asked, stated_odds=odds, confidence=0.75)[0]
        assert (found != "NONE") == (wanted and stated), (asked, odds)
    # more confidence needs more of the network
    assert answer(text, operator=operator, asked=0.2, stated_odds=20, confidence=0.9)[0] == "NONE"


def test_long_numbers_beside_a_sign_are_no_date_and_no_size():
    for text in ("Work out {a}-{b} for me", "Let n = {a}×{b}. What is n?", "Would you give {a}/{b} to me?"):
        operator = {"-": "-", "×": "*", "/": "/"}[text[text.index("}") + 1]]
        long, short = text.format(a=9400000, b=4700000), text.format(a=940000, b=470000)
        found = answer(long, operator=operator, result_digits=20)[0]
        assert found == {"-": "4700000", "*": "44180000000000", "/": "2"}[operator]
        assert answer(short, operator=operator)[0] == "NONE"
        assert answer(long, operator=operator, asked=0.7)[0] == "NONE"


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("We need 300 minutes in all.\n300 minutes =", "*", "NONE"),  # 90000 on a real model
        ("2 hours and 30 minutes =", "*", "NONE"),  # 60 on a real model
        ("She read 12 pages on Monday, 15 on Tuesday =", "*", "NONE"),  # 180 on a real model
        ("It takes 5 hours. 5 hours =", "+", "NONE"),
        ("12 feet, 12 feet =", "*", "NONE"),
        ("He ran 300 minutes.\n12 minutes =", "+", "NONE"),
        ("2 hours and 30 minutes = ?", "*", "NONE"),
        ("<|user|>What is 2 hours and 30 minutes = ?<|end|><|assistant|>", "*", "NONE"),
        ("12 plus\n5 =", "+", "17"),
        ("12 plus\n5 = ?", "+", "17"),
        ("12 apples multiplied by 5 =", "*", "60"),
        ("The product of 12 and 5 =", "*", "60"),
        ("We have 12 boxes of\n5 apples, how many are there?", "*", "60"),
    ],
)
def test_before_an_equals_sign_an_operation_has_to_be_named(text, operator, wanted):
    assert answer(text, (0, 1), operator)[0] == wanted


def test_a_subtraction_named_behind_both_numbers_has_no_order_of_its_own():
    text = "The old reading was 48213 and the new one is 49087, subtract the old from the new"  # -874 on a real model
    assert answer(text, operator="-")[0] == "NONE"
    assert answer(text, operator="-", operands=(1, 0))[0] == "874"
    assert answer("What do I get if I subtract 49087 from 48213?", operator="-", operands=(1, 0))[0] == "-874"


@pytest.mark.parametrize(
    ("text", "operator", "operands", "wanted"),
    [
        ("88 times 4 =", "*", (0, 1), "352"),
        ("Half of it is done. 350 divided by 14 =", "/", (0, 1), "NONE"),
        ("Hello there... 350 divided by 14 =", "/", (0, 1), "25"),
        ("3 minus 9 =", "-", (0, 1), "-6"),
        ("3 minus 9 =", "-", (1, 0), "NONE"),
        ("88 times 4 =", "+", (0, 1), "NONE"),
        ("3 plus 5 times 4 =", "*", (1, 2), "NONE"),
        ("12 + 5 plus 3 =", "+", (1, 2), "NONE"),
        ("twice 88 times 4 =", "*", (0, 1), "NONE"),
        ("88 plus 4 squared =", "+", (0, 1), "NONE"),
        ("What number times 4 =", "*", (0, 0), "NONE"),
        ("Chapter 88 times 4 =", "*", (0, 1), "NONE"),
        ("a 5% fee plus 20 =", "+", (0, 1), "NONE"),
        ("88 times 4 = 12 times 3 =", "*", (2, 3), "NONE"),
    ],
)
def test_a_calculation_in_words_may_end_with_an_equals_sign(text, operator, operands, wanted):
    assert answer(text, operator=operator, operands=operands)[0] == wanted


@pytest.mark.parametrize("text", ["50/50 please", "could you please 7-11", "1914-18 please", "64/4 plz", "2x4 pls"])
def test_polite_words_do_not_make_a_calculation_of_what_may_be_a_name_or_a_range(text):
    operator = "/" if "/" in text else "*" if "x" in text else "-"
    assert answer(text, operator=operator)[0] == "NONE"  # 1 and -4 on a real model, with a rule that was withdrawn


@pytest.mark.parametrize(
    ("text", "operator", "operands", "wanted"),
    [
        ("it plus 5 minus 2 =", "-", (0, 1), "NONE"),
        ("What is the length plus 5 minus 2?", "-", (0, 1), "NONE"),
        ("the cost times 12 divided by 4", "/", (0, 1), "NONE"),
        ("What number times 5 is 60?", "/", (1, 0), "12"),
        ("What times 5 is 60?", "/", (1, 0), "NONE"),
        ("Which number times 5 is 60?", "/", (1, 0), "12"),
        ("How many times 5 is 60?", "/", (1, 0), "12"),
        ("12 plus 5", "+", (0, 1), "17"),
        ("plus 12 and 5", "+", (0, 1), "17"),
        ("can you plus 12 and 5", "+", (0, 1), "17"),
        ("its height plus 12 and 5", "+", (0, 1), "NONE"),
    ],
)
def test_what_is_no_number_before_an_operator_is_an_operand_all_the_same(text, operator, operands, wanted):
    assert answer(text, operator=operator, operands=operands)[0] == wanted


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("Quick! 91 minus 37!", "-", "54"),
        ("ADD 4500 AND 320!!", "+", "4820"),
        ("Divide! 9000 by 36!\n", "/", "250"),
        ("What is 5 plus 1,000!", "+", "1005"),
        ("Evening all, dividing time: 169 by 26!", "/", "INEXACT"),
        ("What is 5 plus 3!", "+", "NONE"),  # or 11
        ("What is 5 plus 10!", "+", "NONE"),  # or 3628805
        ("What is 5 plus 20!", "+", "NONE"),
        ("What is 5 plus 21!", "+", "26"),
        ("What is 37! minus 25", "-", "NONE"),
        ("What is 15! plus 13!", "+", "NONE"),
        ("What is 5 + 13!", "+", "NONE"),
        ("What is 5 plus 13! + 5", "+", "NONE"),
        ("What is 5 plus 13! minus 5", "+", "NONE"),
        ("What is 5 plus 13!/2", "+", "NONE"),
        ("What is 5 plus (13!)", "+", "NONE"),
        ("What is 5 plus 13%!", "+", "NONE"),
        ("5 minus 13!=", "-", "NONE"),
    ],
)
def test_a_text_in_words_may_end_with_a_sign_of_exclamation(text, operator, wanted):
    assert answer(text, operator=operator)[0] == wanted


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("What would 56 times 21 be? Just the digits plz", "*", "1176"),
        ("Add 41380 and 2965. Result please, digits only.", "+", "44345"),
        ("How many is 23 plus 49 in digits?", "+", "NONE"),
        ("Add 12 and 5, then add the digits", "+", "NONE"),
        ("What is 12 plus 5, and how many digits does it have?", "+", "NONE"),
        ("What is the sum of the digits of 12 and 5, digits only?", "+", "NONE"),
        ("In digits, what is 12 plus 5?", "+", "NONE"),
        ("Add 12 and 5 digits", "+", "NONE"),
    ],
)
def test_digits_may_be_the_form_of_the_answer(text, operator, wanted):
    assert answer(text, operator=operator)[0] == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Please don't calculate 12 plus 5, I only want you to say hello back.", "NONE"),  # 17 on a real model
        ("do not compute 12 plus 5", "NONE"),
        ("dont solve 12 plus 5", "NONE"),
        ("Rephrase this so it's more polite: tell me 12 plus 5 right now", "NONE"),  # 17 on a real model, and
        ("Correct the grammar please: me and him was doing 12 plus 5 on the bored", "NONE"),  # so are these two
        ("Paraphrase: the accountant forgot to add 12 and 5.", "NONE"),
        ("Translate 12 + 5 please", "17"),  # in symbols it is for the network to tell, see the golden file
        ("I can't calculate 12 plus 5", "17"),
        ("I don't know how to calculate 12 plus 5", "17"),
        ("Why don't you add 12 and 5?", "17"),
        ("Do not worry, calculate 12 plus 5", "17"),
    ],
)
def test_what_is_not_to_be_calculated_is_silent(text, wanted):
    assert answer(text)[0] == wanted


@pytest.mark.parametrize(
    ("text", "operator", "wanted"),
    [
        ("Add 5 and 12 to the shopping list", "+", "NONE"),  # 17 on a real model
        ("add 5 and 12 to my cart please", "+", "NONE"),
        ("Add 5 and 12 to it.", "+", "NONE"),
        ("Explain 5 plus 12 to a child.", "+", "NONE"),
        ("Take 740 and add 65 to it.", "+", "805"),
        ("Take 740 and add 65 to the bill.", "+", "NONE"),
        ("Add 5 to 12", "+", "17"),
        ("Add 5 and 12 to get the total", "+", "17"),
        ("I want to add 5 and 12", "+", "17"),
        ("Add 5 to the number 12", "+", "17"),
        ("Multiply the recipe for 4 by 3", "*", "NONE"),  # 12 on a real model
        ("Divide the bill for 12 by 3", "/", "NONE"),
        ("Multiply for me 4 by 3", "*", "12"),
        ("What do I get for 4 times 3?", "*", "12"),
    ],
)
def test_what_numbers_are_for_and_where_they_go_is_no_calculation(text, operator, wanted):
    assert answer(text, operator=operator)[0] == wanted
