"""Decisions: what a text says by itself is final, and the network decides the rest."""

import dataclasses
from pathlib import Path

import pytest
import torch

from peft_igc import tiny_igc
from peft_igc.calibration.calibrate import read_results
from peft_igc.data.files import read_rows
from peft_igc.mappings.decisions import certainty, decided
from peft_igc.mappings.places import StepTexts, place_tensors, places_of
from peft_igc.mappings.readings import SCALE, Mark
from peft_igc.numbers.calculator import Status
from peft_igc.text.requests import Stated
from peft_igc.text.values import Limits
from peft_igc.tuner.adapter import make_mappings


GOLDEN = Path(__file__).parents[1] / "text" / "golden.jsonl"


@pytest.fixture(scope="module")
def shipped():
    """The adapter of the package, its tokenizer and its config."""
    model, tokenizer = tiny_igc()
    return model, tokenizer, model.peft_config["default"]


def texts_of(shipped, text, chat=True, most=512):
    """One step at the end of a text, on the host."""
    _, tokenizer, config = shipped
    if chat:
        message = [{"role": "user", "content": text}]
        ids = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=True)["input_ids"]
    else:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    last = len(ids) - 1
    return StepTexts(config.token_table, [ids], [last], [0], [places_of(config.token_table, ids, 0, last, most)])


def decision(
    shipped, text, operation="+", asked=SCALE, sure=SCALE, kind=SCALE, chat=True, swapped=False, marked=None, most=512
):
    """What becomes of a text where the network, if it is asked, points at the first and the last of some of its
    numbers, and marks these; it is `sure` of the operands and of the `kind` of operation."""
    config = shipped[2]
    texts = texts_of(shipped, text, chat, most)

    def read(steps):
        (places,) = texts.places
        known = [at for at, run in places.numbers.items() if run.digits is not None]
        chosen = known if marked is None else [known[one] for one in marked]
        pair = [places.at[chosen[0]], places.at[chosen[-1]]][:: -1 if swapped else 1]
        marks = [at * len(Mark) + (Mark.OPERAND if one in chosen else 0) for one, at in enumerate(places.at)]
        return [[config.operations.index(operation), asked, kind, sure, *pair, 0, 0, *marks]]

    return decided(Limits.of(config), config.confidence, texts, read)[0]


def test_an_expression_needs_no_network_but_among_words_where_this_finds_whether_it_is_asked(shipped):
    for text in ("58*36=", "2+3*4", "(1+2)*3 ="):
        found = decision(shipped, text, asked=0)
        assert found.by_rule
        assert found.status == Status.OK
    assert decision(shipped, "What is 3 * 4 + 5?").found.text == "17"
    assert decision(shipped, "What is 3 * 4 + 5?", asked=SCALE // 4).silence == "no_arithmetic"


def test_a_request_in_words_is_the_network_s(shipped):
    assert decision(shipped, "What is 9 less than 12?", "-", swapped=True).found.text == "3"
    assert decision(shipped, "What is 9 less than 12?", "-", asked=SCALE // 4).silence == "no_arithmetic"
    assert decision(shipped, "What is 9 less than 12?", "-", sure=int(0.9 * SCALE)).silence == "unsure"
    assert decision(shipped, "What is the sum of 9 and it?").silence == "few_numbers"


def test_an_operation_between_its_numbers_needs_no_network_and_one_that_may_be_undone_does(shipped):
    doubted = {"kind": SCALE // 2}
    assert decision(shipped, "What is 9 times 12?", "*", **doubted).found.text == "108"
    assert decision(shipped, "What is 9 times 12?", "*", sure=SCALE // 2).silence == "unsure"
    for text, operation in (("Multiply 9 by 12", "*"), ("9 plus what is 12?", "+"), ("9 less than 12", "-")):
        assert decision(shipped, text, operation, **doubted).silence == "unsure"


def test_a_wish_for_places_belongs_to_the_result_and_is_no_operand(shipped):
    for text, due in {
        "What is 10 / 3 to 2 decimal places?": "3.33",
        "Divide 10 by 3 and round to the nearest cent": "3.33",
        "To 3 significant figures, what is 1234 divided by 7?": "176",
    }.items():
        assert len(texts_of(shipped, text).places[0].numbers) == 2
        found = decision(shipped, text, "/").found
        assert (found.text, found.rounded) == (due, True)
    assert decision(shipped, "Divide 10 by 3", "/").silence == "inexact"
    assert decision(shipped, "Round 10 to 2 decimal places").silence == "few_numbers"


@pytest.mark.parametrize("sign", ["£", "€", "₹"])
def test_a_currency_sign_is_read_alike_whatever_the_tokenizer_makes_of_its_bytes(shipped, sign):
    plain, signed = (texts_of(shipped, f"What is {one}85 plus {one}79?") for one in ("", sign))
    numbers = [[run.digits for run in one.places[0].numbers.values()] for one in (plain, signed)]
    assert numbers == [["85", "79"]] * 2
    assert len(plain.places[0].at) == len(signed.places[0].at)  # the embedded tokenizer has no token for them
    model, tokenizer, _ = shipped
    assert read_results(model, tokenizer, [f"What is {sign}85 plus {sign}79?"]) == ["164"]


def test_the_refusal_of_symbols_that_join_two_numbers_is_final(shipped):
    for text in (
        *("What is negative 12 + 5?", "What is half of 3 + 4?", "sin(30) + 1 =", "avg 3 + 4 + 5 =", "Divide: 12 - 4"),
        *("Take 3 + 4. Then double it.", "What is 7 + 4? Then take half.", "to that add 3 + 4", "What is 5 + * 3?"),
        *("sum 10 000", "could you please 7-11", "What is 7 + 4? Add: five"),
    ):
        assert decision(shipped, text).result == "", text
    # Unless no sign is between the numbers, a bracket is before them, or their own operation with a colon.
    for text in ("sum 3 4", "hi :) 3 + 4", "Add: 3 + 4", "ADDITION PROBLEM: 3 + 4"):
        assert decision(shipped, text).result == "7", text


def test_another_operation_than_the_text_states_is_refused_with_its_reason(shipped):
    found = decision(shipped, "hey whats 62 MINUS 35", "+")
    assert (found.silence, found.status) == ("other_operation", Status.NONE)


def test_the_certainty_grows_where_the_operation_is_stated_and_counts_doubt_about_operands():
    assert certainty((0.9, 1.0, 1.0), Stated.NOTHING) == pytest.approx(0.9)
    assert certainty((0.9, 1.0, 1.0), Stated.NAMED) == pytest.approx(1.8 / 1.9)
    assert certainty((1.0, 0.9, 0.8), Stated.NOTHING) == pytest.approx(0.72)
    assert certainty((1.0, 0.9, 0.8), Stated.NAMED) == pytest.approx(0.72)
    assert certainty((1.0, 0.5, 0.8), Stated.BETWEEN) == pytest.approx(0.8)
    assert certainty((1.0, 0.5, 0.0), Stated.WHOLE) == pytest.approx(1.0)


RECEIPT = "milk 1.50\nbread 2.25\ntea 4\nWhat do I owe?"


@pytest.fixture(scope="module")
def many(shipped):
    """The same with more operations."""
    operations = ["+", "-", "*", "/", "sum", "mean", "square", "percent"]
    return *shipped[:2], dataclasses.replace(shipped[2], operations=operations, vocabulary=shipped[2].vocabulary)


def test_a_function_of_the_numbers_that_are_read_is_calculated(many):
    for text, operation, marked, value in (
        (RECEIPT, "sum", None, "7.75"),
        (RECEIPT, "sum", [0, 2], "5.5"),
        (RECEIPT, "mean", [0, 1], "1.875"),
        ("the 3 of us paid 5, 5 and 8 in all", "sum", [1, 2, 3], "18"),
        ("12 squared, please", "square", None, "144"),
        ("15% of 80", "percent", [1, 0], "12"),
        ("What is 12 plus 30?", "+", None, "42"),
    ):
        found = decision(many, text, operation, marked=marked)
        assert found.status is Status.OK
        assert found.found.text == value
    # a set whose first places are not read is refused
    assert decision(many, RECEIPT, "sum", most=12).silence == "too_long"


def test_each_kind_of_operations_has_its_confidence_and_symbols_are_arithmetic(many):
    least = {"arithmetic": 0.9, "functions": 0.7, "lists": 0.6}
    config = dataclasses.replace(many[2], confidence=least, vocabulary=many[2].vocabulary)
    for text, operation, kind in (
        ("What is 12 plus 30?", "+", "arithmetic"),
        ("12 squared, please", "square", "functions"),
        (RECEIPT, "sum", "lists"),
    ):
        for more in (0.02, -0.02):
            found = decision((*many[:2], config), text, operation, sure=int((least[kind] + more) * SCALE))
            assert (found.kind, found.silence is None) == (kind, more > 0)
    assert decision((*many[:2], config), "What is 12 + 30?", "sum").kind == "arithmetic"


def test_one_number_is_enough_for_some_operations_only(many):
    text = "the square of 12, please"
    assert decision(many, text, "square").status is Status.OK
    config = dataclasses.replace(many[2], operations=["+", "sum"], vocabulary=many[2].vocabulary)
    assert decision((*many[:2], config), text, "sum").silence == "few_numbers"


def test_an_adapter_of_the_four_operations_has_no_weights_for_marks(many):
    model, _, config = many
    assert not [name for name in model.state_dict() if "set_" in name]
    reader, _ = make_mappings(config, model.config.hidden_size, model.get_input_embeddings())
    assert [name for name, _ in reader.named_parameters() if "set_" in name]


def test_the_reading_knows_how_many_numbers_are_around_one_in_its_line_and_which_are_in_its_column(many):
    texts = texts_of(many, "no | price\n1 | 40 | 7\n2 | 50\nall?")
    (places,) = texts.places
    found = {run.digits: divmod(places.columns[at][0] // 6, 4) for at, run in places.numbers.items()}
    assert found == {"1": (0, 2), "40": (1, 1), "7": (2, 0), "2": (0, 1), "50": (1, 0)}
    model, _, config = many
    reader, _ = make_mappings(config, model.config.hidden_size, model.get_input_embeddings())
    torch.nn.init.normal_(reader.set_columns.weight)
    (fields,) = place_tensors(texts, config.num_digits + 1, steps=[0], with_columns=True, device="cpu")
    kept = torch.zeros(1, len(texts.rows[0]), reader.compression.weight.shape[0])
    other = (fields, fields._replace(facts=fields.facts * 0), fields._replace(columns=fields.columns * 0))
    with torch.no_grad():
        first, *others = (reader._point(kept, one).marks for one in other)
    assert not [one for one in others if torch.equal(first, one)]


@pytest.mark.parametrize("line", read_rows(Path(__file__).with_name("columns.jsonl")), ids=lambda line: line["text"])
def test_numbers_after_like_beginnings_of_lines_are_a_column_and_so_are_those_between_equal_signs(many, line):
    (places,) = texts_of(many, line["text"]).places
    found = {}
    for at, run in places.numbers.items():
        found.setdefault(places.columns[at][1], []).append(run.digits)
    assert list(found.values()) == line["columns"]


def test_the_reading_knows_a_column_that_counts_up_beside_another_one_and_how_long_a_column_is(many):
    def facts(text):
        (places,) = texts_of(many, text).places
        return [divmod(places.columns[at][0] % 6, 2) for at in places.numbers]

    assert facts("4\n1. a 8\n2. b 9\n3. c 5\n") == [(0, 0), *[(2, 1), (2, 0)] * 3]
    assert facts("1. a\n2. b\n3. c\n\nx: 7\ny: 7\n") == [*[(2, 0)] * 3, (1, 0), (1, 0)]


def test_refused_texts_are_not_answered_by_the_network_after_an_equals_sign_and_few_are_as_requests(shipped):
    model, tokenizer, _ = shipped
    read = [line for line in read_rows(GOLDEN) if "refused" in line and not {"limits", "operation"} & line.keys()]
    refused = {line["text"]: line["refused"] for line in read}
    closed = [text for text, why in refused.items() if text.rstrip().endswith("=") and why != "no_expression"]
    assert len(closed) > 300
    plain = read_results(model, tokenizer, closed, raw=True)
    assert not [pair for pair in zip(closed, plain, strict=True) if pair[1] is not None]
    asked = {line["text"]: line["asked"] for line in read if "asked" in line}
    results = read_results(model, tokenizer, [*refused])
    wrong = {text for text, one in zip(refused, results, strict=True) if one not in (None, asked.get(text))}
    assert wrong & {*closed} <= WORDED
    assert len(wrong) <= MOST


# Answered as messages, although another value, or none, is asked for.
WORDED = {"Chapter 88 times 4 =", "5 x x 3 ="}
MOST = 17
