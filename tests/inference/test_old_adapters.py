"""Adapters that version 0.1.0 saved load, and answer as they did then.

`tests/assets/adapters_0.1` holds one of each interface with the ids and logits that version 0.1.0 gave for them
(torch 2.13.0, float32, x86_64). The tokens adapter was trained for 360 steps, the hidden one has random weights.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from peft_igc import tiny_base
from peft_igc.inference.loading import load_adapter


FOLDER = Path(__file__).parents[1] / "assets" / "adapters_0.1"
NEW = 6  # tokens that were generated


@pytest.mark.parametrize("interface", ["tokens", "hidden"])
def test_an_adapter_of_version_0_1_answers_as_before(interface):
    recorded = load_file(FOLDER / "logits.safetensors")
    base, tokenizer = tiny_base()
    model = load_adapter(base, FOLDER / interface)
    chats = [[{"role": "user", "content": prompt}] for prompt in json.loads((FOLDER / "prompts.json").read_text())]
    batch = tokenizer.apply_chat_template(
        chats, add_generation_prompt=True, return_tensors="pt", return_dict=True, padding=True
    )
    with torch.no_grad():
        made = model.generate(**batch, max_new_tokens=NEW, do_sample=False)
        assert torch.equal(made, recorded[f"{interface}.ids"])
        mask = torch.nn.functional.pad(batch["attention_mask"], (0, NEW), value=1)[:, : made.shape[1]]
        logits = model(input_ids=made, attention_mask=mask).logits
    # Bit for bit on the machine that recorded them; other processors add up in another order.
    close = {"atol": 1e-3, "rtol": 1e-4}
    torch.testing.assert_close(logits[:, -NEW:, :256], recorded[f"{interface}.logits_last"], **close)
    torch.testing.assert_close(logits.double().mean(-1), recorded[f"{interface}.logits_mean"], **close)
