"""Promises of `peft-igc sft`: what is trained and saved, on tiny random models. Has the helpers of this folder."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from peft import AutoPeftModelForCausalLM
from peft.utils import SAFETENSORS_WEIGHTS_NAME as WEIGHTS
from safetensors.torch import load_file
from tiny_training import rows, weights
from transformers import AutoModelForCausalLM, AutoTokenizer

from peft_igc import cli
from peft_igc.inference.evaluation import trace
from peft_igc.inference.loading import load_adapter
from peft_igc.sft import run as sft


ROOT = Path(__file__).parents[2]
SIZES = {"num_digits": 4, "reading_dim": 32, "reading_ffn": 64, "num_heads": 4, "writing_ffn": 64, "gate_dim": 16}
SMALL = [text for name, size in SIZES.items() for text in (f"--igc_{name}", str(size))]
SMALL += ["--igc_anchors", "prompt_end"]
LORA = ["--lora_target_modules", "q_proj", "up_proj"]
QUICK = {
    "use_cpu": "true",
    "bf16": "false",
    "max_steps": "2",
    "per_device_train_batch_size": "2",
    "learning_rate": "1e-2",
    "save_strategy": "no",
    "logging_steps": "1",
    "disable_tqdm": "true",
    "activation_checkpointing": "false",
    "dataloader_pin_memory": "false",
}
USER, ASSISTANT = ({"role": role, "content": role} for role in ("user", "assistant"))
CHATS = [{"messages": [USER, ASSISTANT]} for _ in range(3)]


def write(folder, data, name="train.jsonl"):
    """Rows as JSONL; returns the folder."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in data), encoding="utf-8")
    return str(folder)


def arguments(base, out, *more, **changed):
    """A command line for a quick run."""
    named = {"model_name_or_path": base, "output_dir": str(out), **QUICK, **changed}
    return [text for name, value in named.items() for text in (f"--{name}", str(value))] + list(more)


def trained(argv):
    """The trainer of a run."""
    return sft.main(sft.parse(argv))


def test_a_run_leaves_an_adapter_that_loads_and_traces_a_card_and_the_way_to_try_it(base, tmp_path, capsys):
    out = tmp_path / "out"
    made = trained(arguments(base, out, *SMALL, dataset_name=write(tmp_path / "d", rows(8))))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f'Saved. Load and trace it: peft-igc trace --base {base} --adapter {out} "What is 58 times 36?"'
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "import peft_igc" in card
    assert "Trained for 2 steps." in card
    assert "| interface | `tokens`: results are written in single digits |" in card
    assert str(tmp_path) not in card
    model = load_adapter(AutoModelForCausalLM.from_pretrained(base), out)
    again = weights(model)
    for name, value in made.model.named_parameters():
        assert not value.requires_grad or torch.equal(again[name], value), name
    tokenizer = AutoTokenizer.from_pretrained(out)
    found = trace(model, tokenizer, "12+30=", max_new_tokens=2)
    assert len(found.steps) == 1
    assert any("igc/loss_read" in entry for entry in made.state.log_history)


def test_data_of_ones_own_are_trained_in_two_stages_and_evaluated_at_the_end(base, tmp_path, capsys):
    data = write(tmp_path / "rows", rows(40))
    stage = '{"steps": 3, "batch_size": 4, "warmup_steps": 1}'
    made = trained(arguments(base, tmp_path / "out", *SMALL, "--igc_writing", stage, dataset_name=data))
    assert made.state.global_step == made.state.max_steps == 2 + 3
    assert "Closing evaluation of 4 rows" in capsys.readouterr().out
    assert (tmp_path / "out" / WEIGHTS).is_file()


@pytest.mark.slow
def test_a_calculator_over_a_lora_is_saved_with_it_and_both_load_again(base, tmp_path, capsys):
    out = tmp_path / "out"
    more = ["--igc_adapter", "igc+lora", "--lora_r", "2", *LORA]
    made = trained(arguments(base, out, *SMALL, *more, dataset_name=write(tmp_path / "d", rows(8))))
    assert f"peft-igc trace --base {base} --adapter {out} " in capsys.readouterr().out.splitlines()[-1]
    lora = load_file(out / "low_rank" / WEIGHTS)
    assert any(value.abs().max() > 0 for name, value in lora.items() if "lora_B" in name)  # it begins at zero
    assert all("igc_" in name for name in load_file(out / WEIGHTS))
    assert "| trained with, and loaded with | `low_rank` (in `low_rank`)" in (out / "README.md").read_text()
    ids = torch.tensor([[5, 6, 7, 8]])
    named = AutoPeftModelForCausalLM.from_pretrained(out).eval()  # the config has the name of the base
    for again in (load_adapter(AutoModelForCausalLM.from_pretrained(base), out), named):
        with torch.no_grad():
            assert torch.equal(again(ids).logits, made.model.eval()(ids).logits)


def test_a_lora_of_an_earlier_run_is_not_left_beside_a_calculator_without_one(base, tmp_path):
    data, more = write(tmp_path / "d", rows(8)), ["--igc_adapter", "igc+lora", *LORA]
    trained(arguments(base, tmp_path / "out", *SMALL, *more, dataset_name=data, max_steps="1"))
    with pytest.raises(ValueError, match="low_rank` has a LoRA of an earlier run"):
        trained(arguments(base, tmp_path / "out", *SMALL, dataset_name=data, max_steps="1"))


@pytest.mark.slow
def test_a_base_that_is_trained_too_is_saved_whole_without_the_calculator(base, tmp_path, capsys):
    out = tmp_path / "out"
    made = trained(arguments(base, out, *SMALL, "--igc_train_base", dataset_name=write(tmp_path / "d", rows(8))))
    assert f"--base {out}/base --adapter {out}" in capsys.readouterr().out.splitlines()[-1]
    before = AutoModelForCausalLM.from_pretrained(base)
    after = AutoModelForCausalLM.from_pretrained(out / "base")
    assert set(load_file(out / "base" / "model.safetensors")) == set(load_file(Path(base) / "model.safetensors"))
    assert not torch.equal(before.model.layers[2].mlp.up_proj.weight, after.model.layers[2].mlp.up_proj.weight)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        assert torch.equal(load_adapter(after, out)(ids).logits, made.model.eval()(ids).logits)
    assert json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"] == str(out / "base")
    with pytest.warns(UserWarning, match="was trained together with the base in .*base`, but is loaded onto"):
        load_adapter(before, out)
    fields = json.loads((out / "adapter_config.json").read_text())  # what a later run without it leaves there
    (out / "adapter_config.json").write_text(json.dumps(fields | {"base_model_name_or_path": base}))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        load_adapter(AutoModelForCausalLM.from_pretrained(base), out)


@pytest.mark.parametrize("adapter", ["lora", "none"])
def test_baselines_without_a_calculator_are_trained_by_the_same_program(base, tmp_path, capsys, adapter):
    out = tmp_path / "out"
    plain = [{"prompt": row["prompt"], "completion": row["completion"]} for row in rows(8)]
    line = arguments(base, out, igc_adapter=adapter, dataset_name=write(tmp_path / "d", plain))
    trained(line)
    last = capsys.readouterr().out.splitlines()[-1]
    model = f"--base {base} --adapter {out}" if adapter == "lora" else f"--base {out}"
    assert last == f"Saved. Evaluate it: peft-igc eval {model} --data items.jsonl --output results.json"
    assert (out / (WEIGHTS if adapter == "lora" else "model.safetensors")).is_file()


def test_a_lora_that_finds_no_module_is_said(base, tmp_path):
    more = ["--igc_adapter", "lora", "--lora_target_modules", "q_proj"]  # one name is a pattern to TRL and PEFT
    with pytest.raises(ValueError, match="`lora_target_modules=q_proj`.*'all-linear'"):
        trained(arguments(base, tmp_path, *more, dataset_name=write(tmp_path / "d", CHATS)))


def test_a_checkpoint_that_is_not_there_is_named(base, tmp_path):
    with pytest.raises(FileNotFoundError, match="`nowhere` of `resume_from_checkpoint` does not exist"):
        trained(arguments(base, tmp_path, "--resume_from_checkpoint", "nowhere"))


def test_a_template_of_another_model_is_refused(base, tmp_path):
    with pytest.raises(ValueError, match="`chat_template_path=org/model` is no file"):
        trained(arguments(base, tmp_path, "--chat_template_path", "org/model"))


def test_the_command_trains_and_says_errors_in_one_line(base, tmp_path, capsys):
    line = arguments(base, tmp_path / "o", *SMALL, dataset_name=write(tmp_path / "d", rows(8)))
    assert cli.main(["sft", *line]) == 0
    assert (tmp_path / "o" / WEIGHTS).is_file()
    for more, message in (
        (["--lora_r", "2"], "`lora_r` is given"),
        (["--igc_layer", "9"], "`layer=9` is out of range"),
    ):
        capsys.readouterr()
        assert cli.main(["sft", *line, *more]) == 2
        said = capsys.readouterr().err.splitlines()
        assert sum(text.startswith("peft-igc: error: ") and message in text for text in said) == 1
