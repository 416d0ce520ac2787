"""Promises of `tracing`: what is shown is what happened, every token is shown, and watching changes nothing."""

import pytest
import torch
from checks import watching
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import tokenizer as make_tokenizer

from peft_igc.inference.evaluation import generate_answers
from peft_igc.inference.records import NumberRecord, StepRecord
from peft_igc.inference.terminal import format_steps
from peft_igc.inference.tracing import igc_trace, trace
from peft_igc.numbers.digits import PAD
from peft_igc.tuner.layer import IGCLayer
from peft_igc.tuner.steps import Step


QUESTION = "What is 58 times 36?"


@pytest.fixture
def tokenizer():
    return make_tokenizer()


@pytest.fixture
def model():
    """A random adapter that reads two two-digit numbers and adds them; the base never ends its answers."""
    torch.manual_seed(0)
    model = get_peft_model(tiny_model("llama"), small_config()).eval()
    model.generation_config.eos_token_id = 127  # a tilde; so that texts have the length that the tests ask for
    return model


def mapping(model):
    """The adapter's reading."""
    return next(m for m in model.modules() if isinstance(m, IGCLayer)).igc_input_mapping["default"]


def force(model, first, second="11", operator=0):
    """Biases the classifiers so that these digits are read; `_` is a placeholder."""
    reading = mapping(model)
    with torch.no_grad():
        for number, text in enumerate((first, second)):
            for place in range(reading.num_digits + 1):
                digit = text[place] if place < len(text) else "_"
                reading.digit_bias[number, place] = -100
                reading.digit_bias[number, place, PAD if digit == "_" else int(digit)] = 100
        reading.sign_head.bias.copy_(torch.tensor([100.0, -100.0]))
        reading.operator_head.bias.fill_(-100)
        reading.operator_head.bias[operator] = 100


def test_every_generated_token_is_shown_with_its_gate(model, tokenizer):
    force(model, "58", "36", operator=2)
    seen = trace(model, tokenizer, QUESTION, max_new_tokens=7)
    assert len(seen.tokens) == 7
    assert all(token.gate is not None and 0 < token.gate < 1 for token in seen.tokens)
    for token in seen.tokens:
        assert repr(token.text) in seen.format()


def test_the_token_that_ends_the_answer_is_shown_too(model, tokenizer):
    endless = trace(model, tokenizer, QUESTION, max_new_tokens=5)
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(endless.tokens[2].text)
    first = next(i for i, token in enumerate(endless.tokens) if token.text == endless.tokens[2].text)
    ended = trace(model, tokenizer, QUESTION, max_new_tokens=5)
    assert [token.text for token in ended.tokens] == [token.text for token in endless.tokens[: first + 1]]


def test_gates_are_those_of_the_positions_that_produced_the_tokens(model, tokenizer):
    """One pass over prompt and answer, without a cache, gates the same."""
    seen = trace(model, tokenizer, QUESTION, max_new_tokens=4)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": QUESTION}], add_generation_prompt=True)
    prompt = prompt["input_ids"]
    answer = tokenizer.convert_tokens_to_ids([token.text for token in seen.tokens])
    with torch.no_grad(), igc_trace(model, tokenizer) as whole:
        model(input_ids=torch.tensor([prompt + answer]), igc_anchors=torch.tensor([[len(prompt) - 1]]))
    expected = [token.gate for token in whole.texts[0].tokens[len(prompt) :]]
    assert [token.gate for token in seen.tokens] == pytest.approx(expected, abs=1e-5)
    assert seen.steps[0].position == len(prompt) - 1


@pytest.mark.parametrize(
    ("first", "second", "operator", "symbol", "result"),
    [
        ("58", "36", 2, "*", "2088"),
        ("9", "12", 1, "-", "-3"),
        ("1234", "1", 0, "+", "1235"),
        ("84", "7", 3, "/", "12"),
    ],
)
def test_operands_operator_and_result_are_shown_as_read(model, tokenizer, first, second, operator, symbol, result):
    force(model, first, second, operator)
    (step,) = trace(model, tokenizer, QUESTION).steps
    assert (step.operands[0].text, step.operands[1].text) == (first, second)
    assert (step.operator, step.result, step.status) == (symbol, result, "ok")
    assert step.operands[0].probability == pytest.approx(1)


def test_a_minus_sign_is_shown(model, tokenizer):
    force(model, "58", "36")
    with torch.no_grad():
        mapping(model).sign_head.bias.copy_(torch.tensor([-100.0, 100.0]))
    (step,) = trace(model, tokenizer, QUESTION).steps
    assert [number.text for number in step.operands] == ["-58", "-36"]
    assert step.result == "-94"


@pytest.mark.parametrize(
    ("first", "operator", "text", "status"),
    [("5_8", 0, "5_8", "undefined"), ("12345", 0, "1234...", "overflow"), ("", 0, "", "undefined")],
)
def test_a_reading_without_a_number_is_shown_and_nothing_is_written(model, tokenizer, first, operator, text, status):
    force(model, first, "11", operator)
    seen = trace(model, tokenizer, QUESTION, max_new_tokens=3)
    (step,) = seen.steps
    assert (step.operands[0].text, step.status, step.result) == (text, status, None)
    assert [token.gate for token in seen.tokens] == [None] * 3
    assert "no number is written" in seen.format()


def test_no_arithmetic_is_shown_as_such(model, tokenizer):
    force(model, "58", "36", operator=4)
    seen = trace(model, tokenizer, QUESTION, max_new_tokens=2)
    (step,) = seen.steps
    assert (step.operator, step.status) == ("none", "none")
    assert "operand" not in seen.format()


def test_probabilities_are_of_the_whole_number_and_of_its_weakest_place(model, tokenizer):
    ids = torch.tensor([tokenizer(QUESTION)["input_ids"]])
    with torch.no_grad(), watching() as seen:
        model(input_ids=ids)
    step = next(event for event in seen if isinstance(event, Step))
    (shown,) = trace(model, tokenizer, QUESTION, raw=True, max_new_tokens=1).steps
    for number in range(2):
        places = [p.max().item() for p in step.reading.digits[0, 0, number].softmax(-1)]
        places.append(step.reading.signs[0, 0, number].softmax(-1).max().item())
        assert shown.operands[number].weakest == pytest.approx(min(places), rel=1e-4)
        assert shown.operands[number].probability == pytest.approx(torch.tensor(places).prod().item(), rel=1e-4)
    operator = step.reading.operator[0, 0].softmax(-1)
    assert shown.operator_probability == pytest.approx(operator.max().item(), rel=1e-4)


def test_a_probability_is_shown_rounded_down():
    number = NumberRecord("58", 0.99999, 0.999995)
    read = {"operands": (number, number), "operator": "*", "operator_probability": 1.0}
    step = StepRecord(11, "ok", True, "3364", "58 * 58", **read)
    shown = "\n".join(format_steps([step], []))
    assert "58  99.99%, least certain place 99.99%" in shown
    assert "*   100.00%" in shown


def test_a_text_without_an_anchor_has_no_step_and_says_so(tokenizer):
    torch.manual_seed(0)
    model = get_peft_model(tiny_model("llama"), small_config(anchors={"turns": [[1, 1, 1]]})).eval()
    seen = trace(model, tokenizer, QUESTION, max_new_tokens=2)
    assert seen.steps == ()
    assert "the text has no anchor" in seen.format()


def test_the_answer_is_the_one_of_an_evaluation(model, tokenizer):
    """A checkpoint's own defaults must not make them differ."""
    model.generation_config.repetition_penalty = 5.0
    seen = trace(model, tokenizer, QUESTION, max_new_tokens=6)
    (answer,) = generate_answers(model, tokenizer, [QUESTION], max_new_tokens=6)
    assert seen.answer == answer.strip()


def test_the_model_is_left_in_its_mode(model, tokenizer):
    model.train()
    trace(model, tokenizer, QUESTION, max_new_tokens=1)
    assert model.training


def test_a_model_without_an_active_calculator_is_refused(model, tokenizer):
    with pytest.raises(ValueError, match="`LlamaForCausalLM` has no active IGC adapter"):
        trace(tiny_model("llama"), tokenizer, QUESTION)
    with model.disable_adapter(), pytest.raises(ValueError, match="no active IGC adapter"):
        trace(model, tokenizer, QUESTION)


def test_every_step_of_a_text_is_shown_in_order_with_what_stands_before_it(tokenizer):
    equals = tokenizer.convert_tokens_to_ids("=")
    torch.manual_seed(0)
    model = get_peft_model(
        tiny_model("llama"), small_config(anchors={"prompt_end": True, "inline": [[equals]]})
    ).eval()
    force(model, "58", "36")
    prompt = "12+3=15 and 4=9 so"
    seen = trace(model, tokenizer, prompt, raw=True, max_new_tokens=3)
    tokens = tokenizer(prompt)["input_ids"]
    at = [place for place, token in enumerate(tokens) if token == equals]
    assert [step.position for step in seen.steps] == [*at, len(tokens) - 1]
    for step in seen.steps:
        before = tokenizer.decode(tokens[: step.position + 1])
        assert step.before
        assert before.endswith(step.before)
    assert [step.before.endswith("=") for step in seen.steps] == [True, True, False]
    page = seen.format()
    places = [page.index(f"at token {step.position}, after {step.before!r}, status ok") for step in seen.steps]
    assert places == sorted(places)
