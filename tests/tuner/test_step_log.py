"""Promises of `igc_steps`: an output of `generate` tells what the calculator did for each sequence, or why nothing.

`tests/tuner/test_inline_generation.py` compares the steps of every way to generate with those of one plain pass.
"""

import re

import torch
from checks import Saying, adapted, left_padded
from tiny_vocabulary import TEXTS, encode
from transformers import LogitsProcessorList

from peft_igc.inference.decoding import prompt_tokens
from peft_igc.text import Reason
from peft_igc.tuner.records import EXPLANATIONS, StepRecord


END = TEXTS.index("A")
INLINE = {"anchors": {"inline": [encode("=").tolist()]}}


def asked(trained, *prompts, **options):
    """The output for prompts of the user, padded on the left, with an additional column of padding."""
    model, tokenizer = trained
    rows = [torch.tensor(row) for row in prompt_tokens(tokenizer, prompts, False)]
    given = left_padded(rows, extra=1) | {"max_new_tokens": 8, "do_sample": False} | options
    return model.generate(**given, return_dict_in_generate=True)


def test_a_batch_of_mixed_lengths_has_a_step_per_row_with_status_reason_and_expression(trained):
    out = asked(trained, "What is 58 times 36?", "Hello", "7/0=", "3 apples + 4 oranges, on 12-05-2024 =")
    by_rule = StepRecord(out.igc_steps[2][0].position, "undefined", False, None, "7 / 0", "undefined")
    width = out.sequences.shape[1] - 8
    assert [len(row) for row in out.igc_steps] == [1, 1, 1, 1]
    assert {row[0].position for row in out.igc_steps} == {width - 1}  # the end of the assistant's header
    assert [row[0].status for row in out.igc_steps] == ["ok", "none", "undefined", "none"]
    assert (out.igc_steps[0][0].expression, out.igc_steps[0][0].result) == ("58 * 36", "2088")
    assert out.igc_steps[2] == (by_rule,)
    assert [row[0].reason for row in out.igc_steps] == [None, "few_numbers", "undefined", "look_alike"]


def test_an_answer_that_does_not_spell_the_result_is_not_written_by_the_calculator(trained):
    model, _ = trained
    out = asked(trained, "What is 58 times 36?", num_beams=4, num_return_sequences=4)
    width = 1 + len(prompt_tokens(trained[1], ["What is 58 times 36?"], False)[0])
    texts = trained[1].batch_decode(out.sequences[:, width:], skip_special_tokens=True)
    spelled = [re.search(r"(?<![\d.])2088(?!\.?\d)", text) is not None for text in texts]
    assert [row[0].written for row in out.igc_steps] == spelled
    assert set(spelled) == {True, False}


def test_what_pads_a_finished_row_is_no_anchor():
    model = adapted("llama", interface="tokens", **INLINE)
    options = {"pad_token_id": TEXTS.index("="), "eos_token_id": END, "max_new_tokens": 6, "do_sample": False}
    given = left_padded([encode("34 * 7="), encode("12 +45 *")])
    ending = Saying(given["input_ids"].shape[1], [[END] * 6, encode("[").tolist() * 6])
    options |= {"logits_processor": LogitsProcessorList([ending]), "return_dict_in_generate": True}
    found = model.generate(**given, **options)
    assert (found.sequences[0, -5:] == TEXTS.index("=")).all()
    assert [step.position for step in found.igc_steps[0]] == [given["input_ids"].shape[1] - 1]


def test_the_hidden_interface_does_not_know_what_the_answer_spells():
    model = adapted("llama", interface="hidden", anchors="prompt_end")
    out = model.generate(
        input_ids=encode("12 +45")[None], max_new_tokens=2, pad_token_id=0, return_dict_in_generate=True
    )
    ((step,),) = out.igc_steps
    assert (step.status, step.written) == ("ok", None)
    assert step.expression is not None


def test_without_an_active_adapter_there_are_no_steps(trained):
    model, _ = trained
    with model.disable_adapter():
        assert asked(trained, "What is 58 times 36?").igc_steps is None


def test_a_prompt_without_the_chat_template_is_told_once_that_the_calculator_is_off(trained, caplog):
    model, tokenizer = trained
    plain = tokenizer("What is 58 times 36?", return_tensors="pt")["input_ids"]
    given = {"attention_mask": torch.ones_like(plain), "max_new_tokens": 2, "do_sample": False}
    asked(trained, "What is 58 times 36?")
    with model.disable_adapter():
        model.generate(input_ids=plain, **given)
    assert not caplog.records
    for _ in range(2):
        model.generate(input_ids=plain, **given)
    (record,) = caplog.records
    assert "so the calculator is off" in record.getMessage()
    assert "apply_chat_template" in record.getMessage()


def test_every_reason_has_an_explanation():
    refusals = {one.name.lower() for one in Reason if one not in (Reason.NONE, Reason.NO_EXPRESSION)}
    assert refusals <= EXPLANATIONS.keys()
