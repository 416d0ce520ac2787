"""Promises for whole chats in real vocabularies: anchors of the template, numbers as written, results as tokens.

Random weights, told to point at the last two numbers; all else is what a trained adapter runs. Real tokenizers take
part where `PEFT_IGC_TOKENIZERS` names a folder that holds `llama3.1/` and `qwen2.5/`.
"""

import os
from pathlib import Path

import pytest
import torch
from checks import igc_layers, watching
from peft import get_peft_model
from tiny_models import RandomConfig, tiny_model
from transformers import AutoTokenizer

import peft_igc
from peft_igc import assistant_header
from peft_igc.mappings.readings import two_places
from peft_igc.numbers.digits import decode
from peft_igc.tuner.steps import Step


REAL = os.environ.get("PEFT_IGC_TOKENIZERS")
needs_real = pytest.mark.skipif(not REAL, reason="set PEFT_IGC_TOKENIZERS to a folder of saved tokenizers")


def folder_of(name):
    return (Path(peft_igc.__file__).parent / "assets" if name == "tiny_base" else Path(str(REAL))) / name


def points_at_the_last_two(operator):
    """In place of `TokenInputMapping._read`."""

    def read(self, x, visible, number, sentence):
        behind = number.flip(1).cumsum(1).flip(1)  # numbers from here on
        wanted = torch.stack([number & (behind == 2), number & (behind == 1)], 1)
        scores = torch.where(wanted, 0.0, -1e4)[..., None] + torch.tensor([0.0, -1e4])
        operators = 1e4 * torch.eye(5)["+-*/".index(operator)].expand(len(x), -1)
        return scores, operators, *two_places(scores)

    return read


@pytest.mark.parametrize(
    "name", ["tiny_base", pytest.param("llama3.1", marks=needs_real), pytest.param("qwen2.5", marks=needs_real)]
)
def test_every_assistant_turn_of_a_chat_is_an_anchor_and_reads_since_the_turn_before(name, monkeypatch):
    tokenizer = AutoTokenizer.from_pretrained(folder_of(name))
    config = RandomConfig.from_tokenizer(
        tokenizer,
        anchors=["=", assistant_header(tokenizer)],
        reading_dim=8,
        reading_ffn=8,
        num_heads=2,
    )
    model = get_peft_model(tiny_model("llama", vocab_size=len(tokenizer)), config).eval()
    reader = igc_layers(model)[0].igc_input_mapping["default"]
    monkeypatch.setattr(type(reader), "_read", points_at_the_last_two("*"))
    said = ["What is 58 * 36?", "12 * 5 =", "times 7"]
    told = ["2088", "60", "420"]
    chat = []
    for asked, answer in zip(said, told, strict=True):
        chat += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    prompts = [
        tokenizer.apply_chat_template(chat[: 2 * turn + 1], tokenize=False, add_generation_prompt=True)
        for turn in range(3)
    ]
    text = tokenizer.apply_chat_template(chat, tokenize=False)
    ids = tokenizer([text], add_special_tokens=False, return_tensors="pt")["input_ids"]
    ends = [len(tokenizer(prompt, add_special_tokens=False)["input_ids"]) - 1 for prompt in prompts]
    with torch.no_grad(), watching() as seen:
        model(input_ids=ids, use_cache=False)
    (step,) = (one for one in seen if isinstance(one, Step))
    anchors = step.anchors[0].tolist()
    assert [at for at in anchors if at in ends] == ends
    assert len(anchors) == 4  # and the sign of equality in the second question
    results = dict(zip(anchors, decode(step.result.digits[0], step.result.sign[0]), strict=True))
    # the third question goes on from the answer before it; the sign in the second does not hide its numbers
    assert [results[end] for end in ends] == told
