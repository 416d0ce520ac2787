"""Bases without a chat template: asked as completion models are, `Q: ...`, `A: ...`, or at the end of a text."""

import json

import pytest
import torch
import transformers
from tiny_training import WARNINGS, tokenizer

from peft_igc.inference.evaluation import generate_answers
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.sft.demo import run_demo
from peft_igc.sft.run import main, parse
from tests.sft.test_demonstration import QUICK, SIZES, small


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]
QUESTION = "<bos>Q: What is 58 plus 36?\nA:"


@pytest.fixture(scope="module")
def gemma(tmp_path_factory):
    """A folder with a Gemma 3 of random weights, most of whose layers have sliding windows."""
    folder = tmp_path_factory.mktemp("gemma")
    config = transformers.Gemma3TextConfig(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=7, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, sliding_window=16, layer_types=["sliding_attention"] * 5
        + ["full_attention", "sliding_attention"], bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.Gemma3ForCausalLM(config).save_pretrained(folder)
    spelled = tokenizer()
    spelled.chat_template = None
    spelled.save_pretrained(folder)
    return folder


def test_a_demonstration_asks_it_as_a_completion_model(gemma, tmp_path):
    more = [*small(checks=0), "--igc_layer", "6", "--igc_read_from", "3"]
    results = run_demo(tmp_path / "out", base=str(gemma), per_group=1, more=more)
    assert results["training"]["steps"] == 5
    assert results["sets"]["bigbench"]["n"] == 20
    base, spelled = load_base(gemma)
    asked = spelled.apply_chat_template(
        [{"role": "user", "content": "What is 58 plus 36?"}], tokenize=False, add_generation_prompt=True
    )
    assert asked == QUESTION
    model = load_adapter(base, tmp_path / "out" / "adapter")
    config = model.peft_config["default"]
    assert spelled.decode(config.anchors["turns"][0]) == "A:"
    config.confidence = 0.0
    (answer,) = generate_answers(model, spelled, ["What is 58 plus 36?"], max_new_tokens=2, return_steps=True)
    assert answer.status != "no_anchor"


@pytest.mark.parametrize("anchor", ["prompt_end", "="])
def test_a_training_at_the_end_of_texts_leaves_them_as_they_are(gemma, tmp_path, anchor):
    rows = [{"prompt": f"{a}+{a}=", "completion": str(2 * a)} for a in range(10, 26)]
    columns = [
        {"igc_operator": "+", "igc_operands": [row["prompt"][:2]] * 2, "igc_result": row["completion"]} for row in rows
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row | more) + "\n" for row, more in zip(rows, columns, strict=True)))
    sizes = {name: str(value) for name, value in (SIZES | QUICK).items() if name != "igc_generated_rows"}
    line = [text for name, value in sizes.items() for text in (f"--{name}", value)]
    line += ["--model_name_or_path", str(gemma), "--dataset_name", str(data), "--output_dir", str(tmp_path / "out")]
    line += ["--igc_anchors", anchor, "--use_cpu", "true", "--bf16", "false", "--igc_held_out", "0"]
    trainer = main(parse([*line, "--gradient_checkpointing", "false", "--logging_steps", "1"]))
    assert trainer.processing_class.chat_template is None
    row = trainer.train_dataset[0]
    assert trainer.processing_class.decode(row["input_ids"]).replace("<eos>", "") in {
        one["prompt"] + one["completion"] for one in rows
    }
    assert any(entry.get("igc/loss_read", 0) > 0 for entry in trainer.state.log_history)
