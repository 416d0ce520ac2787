"""Promises where a step within a text is refused: the base, with the LoRA beside the calculator, writes on by itself.

The embedded base with a LoRA and a calculator of random weights that takes every calculation for one that is asked,
so that only the rules refuse, and that visibly changes what it writes. Compared is bit for bit.
"""

import copy

import pytest
import torch
from checks import generated, igc_layers, left_padded, watching
from peft import LoraConfig, get_peft_model
from tiny_models import RandomConfig
from tiny_training import NESTED
from transformers import DynamicCache

from peft_igc import tiny_base
from peft_igc.numbers.calculator import Status
from peft_igc.tuner.steps import Writing


pytestmark = pytest.mark.filterwarnings(*NESTED)

REFUSED = {
    "She paid 7/3 =": "inexact",
    "It left at 12:30-11:15 =": "none",
    "Then 8/(4-4) =": "undefined",
    "So x =": "none",
    "A total of 12 apples and 5 pears and 3 plums =": "none",
}
NEW = 6  # tokens, among which the base writes no calculation of its own
EXACT = "Ann sold 48+24 ="


@pytest.fixture(scope="module")
def made():
    """The model and its tokenizer."""
    torch.manual_seed(0)
    base, tokenizer = tiny_base()
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    sizes = {"reading_dim": 64, "reading_ffn": 64, "num_heads": 4, "writing_ffn": 64, "gate_dim": 16}
    config = RandomConfig.from_tokenizer(tokenizer, anchors=["="], **sizes)
    model = get_peft_model(get_peft_model(base, lora, adapter_name="style"), config).eval()
    model.generation_config.eos_token_id = None
    with torch.no_grad():
        igc_layers(model)[0].igc_input_mapping["default"].operator_head.bias[0] += 100.0
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.mul_(0.1)
    return model, tokenizer


def encoded(tokenizer, texts):
    return [torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]


def statuses(seen):
    return [Status(status).name.lower() for one in seen for status in one.result.status.flatten().tolist()]


@pytest.mark.parametrize("options", [{}, {"do_sample": True}, {"num_beams": 3}], ids=["greedy", "samples", "beams"])
def test_where_every_step_is_refused_the_base_with_its_lora_writes_bit_for_bit(made, options):
    model, tokenizer = made
    batch = left_padded(encoded(tokenizer, REFUSED))
    torch.manual_seed(1)
    with watching() as seen:
        with_it = generated(model, new=NEW, **batch, **options)
    beams = options.get("num_beams", 1)
    assert statuses(seen)[: beams * len(REFUSED) : beams] == list(REFUSED.values())
    assert "ok" not in statuses(seen)
    igc_layers(model)[0].enable_adapters(False)  # and the LoRA not
    torch.manual_seed(1)
    alone = generated(model, new=NEW, **batch, **options)
    igc_layers(model)[0].enable_adapters(True)
    assert torch.equal(with_it.sequences, alone.sequences)
    assert torch.equal(with_it.stacked, alone.stacked)
    with model.disable_adapter():  # the LoRA has its part
        assert not torch.equal(generated(model, new=1, **batch).stacked, alone.stacked[: len(REFUSED), :1])


@pytest.mark.parametrize("refused", REFUSED)
def test_a_refusal_ends_what_an_earlier_step_has_written(made, refused):
    """Keys and values of the earlier result stay in the cache; from the refusal on the calculator adds nothing."""
    model, tokenizer = made
    layer = igc_layers(model)[0]
    (ids,) = encoded(tokenizer, [f"{EXACT} 72. {refused}"])
    cache = DynamicCache(config=model.config)
    with watching() as seen, watching(Writing) as written, torch.no_grad():
        first = model(input_ids=ids[None], past_key_values=cache).logits[0, -1]
    assert statuses(seen) == ["ok", REFUSED[refused]]
    (writing,) = written
    assert writing.active[0].any()
    assert not writing.active[0, int(seen[0].anchors[0, 1]) - writing.start :].any()
    copies = [copy.deepcopy(cache) for _ in range(2)]
    token, logits = first.argmax(), [[], []]
    for _ in range(6):
        for which, kept in enumerate(copies):
            layer.enable_adapters(which == 0)
            with torch.no_grad():
                logits[which].append(model(input_ids=token.view(1, 1), past_key_values=kept).logits[0, -1])
            layer.enable_adapters(True)
        assert torch.equal(logits[0][-1], logits[1][-1])
        token = logits[0][-1].argmax()
