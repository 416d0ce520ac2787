"""Promises of `igc_trace` about a step: it says what was read, how surely, where, and what came of it."""

import math

import pytest
import torch
from checks import watching
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import tokenizer as make_tokenizer
from traced import generate, make

from peft_igc import igc_trace, tiny_igc, trace
from peft_igc.numbers.digits import PAD
from peft_igc.tuner.layer import IGCLayer
from peft_igc.tuner.records import percent


QUESTION = "What is 58 times 36?"


@pytest.fixture
def hidden():
    """A random adapter of the hidden interface, and its tokenizer; the base never ends its answers."""
    torch.manual_seed(0)
    model = get_peft_model(tiny_model("llama"), small_config()).eval()
    model.generation_config.eos_token_id = 127  # a tilde; so that texts have the length that the tests ask for
    return model, make_tokenizer()


def force(model, first, second="11", operator=0, minus=False):
    """Biases the classifiers so that these digits are read; `_` is a placeholder."""
    reading = next(m for m in model.modules() if isinstance(m, IGCLayer)).igc_input_mapping["default"]
    with torch.no_grad():
        for number, text in enumerate((first, second)):
            for place in range(reading.num_digits + 1):
                digit = text[place] if place < len(text) else "_"
                reading.digit_bias[number, place] = -100
                reading.digit_bias[number, place, PAD if digit == "_" else int(digit)] = 100
        reading.sign_head.bias.copy_(torch.tensor([-100.0, 100.0] if minus else [100.0, -100.0]))
        reading.operator_head.bias.fill_(-100)
        reading.operator_head.bias[operator] = 100


def test_operands_operator_and_result_are_shown_as_read_and_without_a_number_nothing_is_written(hidden):
    for first, second, operator, minus, expression, result in [
        ("58", "36", 2, False, "58 * 36", "2088"),
        ("9", "12", 1, False, "9 - 12", "-3"),
        ("84", "7", 3, False, "84 / 7", "12"),
        ("58", "36", 0, True, "-58 + -36", "-94"),
    ]:
        force(hidden[0], first, second, operator, minus)
        (step,) = trace(*hidden, QUESTION, max_new_tokens=1).steps
        assert " ".join((step.operands[0].text, step.operator, step.operands[1].text)) == expression
        assert (step.expression, step.result, step.status) == (expression, result, "ok")
        assert step.operands[0].probability == pytest.approx(1)
    for first, text, status in [("5_8", "5_8", "undefined"), ("12345", "1234...", "overflow"), ("", "", "undefined")]:
        force(hidden[0], first)
        seen = trace(*hidden, QUESTION, max_new_tokens=3)
        (step,) = seen.steps
        assert (step.operands[0].text, step.status, step.result) == (text, status, None)
        assert [token.gate for token in seen.record.generated] == [None] * 3
        assert "no number is written" in seen.format()
    force(hidden[0], "58", "36", operator=4)
    seen = trace(*hidden, QUESTION, max_new_tokens=2)
    (step,) = seen.steps
    assert (step.operator, step.status) == ("none", "none")
    assert "operand" not in seen.format()


def test_probabilities_are_of_the_whole_number_of_its_weakest_place_and_of_the_next_number(hidden):
    model, tokenizer = hidden
    ids = torch.tensor([tokenizer(QUESTION)["input_ids"]])
    with torch.no_grad(), watching() as seen:
        model(input_ids=ids)
    step = seen[0]
    (shown,) = trace(model, tokenizer, QUESTION, raw=True, max_new_tokens=1).steps
    for number, one in enumerate(shown.operands):
        places = [p.max().item() for p in step.reading.digits[0, 0, number].softmax(-1)]
        places.append(step.reading.signs[0, 0, number].softmax(-1).max().item())
        assert one.weakest == pytest.approx(min(places), rel=1e-4)
        assert one.probability == pytest.approx(torch.tensor(places).prod().item(), rel=1e-4)
        assert one.runner_up != one.text
        assert 0 < one.runner_up_probability <= one.probability
    assert shown.spans == ()
    operator = step.reading.operator[0, 0].softmax(-1)
    assert shown.operator_probability == pytest.approx(operator.max().item(), rel=1e-4)
    both = math.prod(one.probability for one in shown.operands)
    assert shown.probability == pytest.approx(operator.max().item() * both, rel=1e-4)


def test_a_step_of_tokens_says_what_was_read_and_where():
    with igc_trace(*make()) as recorded:
        generate(*make(), new=1)
    words, symbols, refused, silent = recorded.texts

    def shown(text, span):
        return "".join(token.text for token in text.tokens[span[0] : span[1] + 1]).strip()

    (step,) = words.steps
    assert sorted(shown(words, span) for span in step.spans) == ["58213", "907"]
    assert [shown(words, span) for span in step.spans] == [number.text.lstrip("-") for number in step.operands]
    assert {number.runner_up.lstrip("-") for number in step.operands} == {"58213", "907"}
    assert step.operator_runner_up not in (None, step.operator)
    assert step.operator_probability >= step.operator_runner_up_probability
    assert words.tokens[step.position].text == step.anchor == "<|assistant|>"

    (step,) = symbols.steps
    assert step.expression == shown(symbols, step.expression_span) == "3 + 4 * (12 - 5)"
    assert step.reductions == ("12 - 5 = 7", "4 * 7 = 28", "3 + 28 = 31")
    assert step.calculation == "3 + 4 * (12 - 5) = 31"
    assert [shown(symbols, span) for span in step.spans] == ["3", "4", "12", "5"]

    (step,) = refused.steps
    assert (step.status, step.reason, step.culprit, step.result) == ("none", "not_understood", " sin", None)
    assert refused.tokens[step.culprit_position].text == " s"
    (step,) = silent.steps
    assert (step.status, step.reason, step.spans) == ("none", "few_numbers", ())


def test_a_reading_that_confidence_refuses_is_shown():
    model, tokenizer = tiny_igc()
    (step,) = trace(model, tokenizer, "What is 6 multiplied by 7 minus 2?").steps
    assert (step.reason, step.spans) == ("no_arithmetic", ())  # of what is not calculated no number is lit
    model.peft_config["default"].confidence = 1.0
    found = trace(model, tokenizer, "What is 58 taken from 936?")
    (step,) = found.steps
    assert (step.status, step.reason) == ("none", "unsure")
    assert 0.9 < step.probability < step.confidence == 1.0
    part = f"the reading is less probable than `confidence` ({percent(step.probability)} of 100%)"
    assert step.summary == f"silent on 936 - 58: {part}"
    assert "936" in found.format().split("silent")[1].split("result")[0]
