"""Promises of `peft-igc sft`: arguments, data, what is trained, saved and resumed, on tiny random models."""

import dataclasses
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from peft import AutoPeftModelForCausalLM
from peft.utils import SAFETENSORS_WEIGHTS_NAME as WEIGHTS
from safetensors.torch import load_file
from tiny_models import tiny_model
from tiny_training import WARNINGS, rows
from tiny_training import tokenizer as make_tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import DatasetMixtureConfig, ScriptArguments
from trl.scripts.utils import DatasetConfig

from peft_igc import IGCConfig, cli
from peft_igc.data.columns import ALL_COLUMNS, COLUMNS, ROW_COLUMN, check_columns
from peft_igc.data.dataset import to_dataset
from peft_igc.data.wording.wording import FEW
from peft_igc.inference.evaluation import trace
from peft_igc.inference.loading import load_adapter
from peft_igc.sft import launch as launching
from peft_igc.sft import run as sft
from peft_igc.sft.arguments import IGCArguments, Parsed, igc_config
from peft_igc.sft.datasets import generated_rows, join, load_corpora
from peft_igc.text.rounding import Rounding
from peft_igc.text.values import Limits


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]

ROOT = Path(__file__).parents[2]
SIZES = {"num_digits": 4, "reading_dim": 32, "reading_ffn": 64, "num_heads": 4, "writing_ffn": 64, "gate_dim": 16}
SMALL = [text for name, size in SIZES.items() for text in (f"--igc_{name}", str(size))]
SMALL += ["--igc_anchors", "prompt_end"]
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


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A tiny random Llama with a tokenizer of characters, in a folder."""
    folder = tmp_path_factory.mktemp("base")
    tiny_model("llama", max_position_embeddings=1024).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _no_launch(monkeypatch):
    """Whatever this machine has, a run without arguments of accelerate stays in this process."""
    monkeypatch.setattr(sft, "has_default", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


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


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}


# ------------------------------------------------------------------------------------------ arguments
def test_the_command_line_overrides_the_file_and_the_file_the_defaults(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(
        "model_name_or_path: tiny\nigc_layer: 2\nigc_anchors: [assistant_header, '=']\nlearning_rate: 3e-3\n"
    )
    line = ["--config", str(file), "--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false", "--igc_layer", "3"]
    _, training, model, _, igc, _ = sft.parse(line)
    assert (igc.igc_layer, igc.igc_anchors, training.learning_rate) == (3, ["assistant_header", "="], 3e-3)
    assert (igc.igc_interface, igc.igc_adapter, model.dtype) == ("tokens", "igc", "float32")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--igc_lair", "3"], "Unknown: `--igc_lair`"),
        (["--igc_num_digit", "3"], "Unknown: `--igc_num_digit`"),  # no abbreviations
        (["recipe.yaml"], "Unknown: `recipe.yaml`"),
        (["--lora_r", "8"], "`lora_r` is given, but `igc_adapter=igc` trains no LoRA"),
        (["--lora-r", "8"], "`lora_r` is given"),
        (["--use_dora"], "`use_dora` is given"),
        (["--use_peft"], "`use_peft` is not used here"),
        (["--igc_adapter", "lora", "--igc_layer", "2"], "`igc_layer` is given, but `igc_adapter=lora` trains no calc"),
        (["--igc_adapter", "none", "--igc_muon_learning_rate", "1e-3"], "`igc_muon_learning_rate` is given"),
        (["--igc_adapter", "igc+lora", "--igc_train_base"], "`igc_train_base` trains the base itself"),
        (["--load_in_8bit", "--igc_train_base"], "cannot be trained itself"),
        (["--load_in_4bit", "--igc_adapter", "none"], "cannot be trained itself"),
        (["--igc_generated_rows", "-1"], "`igc_generated_rows=-1` is negative"),
        (["--igc_generated_max_digits", "3"], "has no effect without `igc_generated_rows`"),
        (["--config"], "`--config` is given without a file"),
        (["--igc_exact_match", "8"], "`igc_exact_match` is given, but has no effect without an evaluation"),
        (["--igc_exact_match_tokens", "8", "--igc_held_out", "0"], "has no effect without `igc_exact_match` or `igc"),
        (["--igc_held_out", "-1"], "`igc_held_out=-1` is negative"),
        (["--igc_adapter", "lora", "--igc_held_out", "8"], "`igc_held_out` is given, but `igc_adapter=lora`"),
        (["--igc_adapter", "lora", "--igc_init_from", "x"], "`igc_init_from` is given, but `igc_adapter=lora`"),
        (["--igc_adapter", "lora", "--igc_learning_rate", "1e-3"], "`igc_learning_rate` is given, but `igc_adapter="),
        (["--igc_adapter", "lora", "--igc_writing_every", "2"], "`igc_writing_every` is given, but `igc_adapter=lo"),
        (["--igc_adapter", "lora", "--igc_writing", '{"steps": 1}'], "`igc_writing` is given, but `igc_adapter=lora"),
        (["--igc_adapter", "none", "--igc_loss_weight", "2"], "`igc_loss_weight` is given, but `igc_adapter=none`"),
        (["--igc_adapter", "none", "--no_igc_curves"], "`igc_curves` is given, but `igc_adapter=none`"),
        (["--igc_adapter", "lora", "--igc_interface", "hidden"], "`igc_interface` is given, but `igc_adapter=lora`"),
        (["--igc_detach_reading", "false"], "`igc_detach_reading` is given, but has no effect because nothing below"),
        (["--multi_gpu", "1"], "Unknown: `1`"),  # a flag
    ],
)
def test_arguments_that_are_unknown_or_without_effect_are_refused(line, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        sft.parse(arguments("tiny", tmp_path, *line))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("igc_lair: 3", "Unknown: `--igc_lair`"),
        ("lora_r: 8", "`lora_r` is given"),
        ("igc_adapter: ica", "`igc_adapter='ica'` is unknown"),
        ("datasets: [{path: a, fractoin: 1}]", "fractoin"),
        ("nothing", "must contain a YAML mapping"),
        ("a: [", "cannot be read as YAML: while parsing"),
    ],
)
def test_a_file_is_held_to_the_same_rules(text, message, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        sft.parse(arguments("tiny", tmp_path, "--config", str(file)))


@pytest.mark.parametrize(
    "line",
    [
        ["--dataset_name", "d", "--dataset_train_split", "a", "--eval_strategy", "steps", "--igc_exact_match", "8"],
        ["--igc_adapter", "lora", "--igc_generated_rows", "8", "--igc_interface", "hidden", "--igc_num_digits", "5"],
        ["--load_in_4bit", "--bnb_4bit_quant_type", "fp4", "--use_bnb_nested_quant"],
        ["--igc_interface", "hidden", "--igc_teacher_forcing", "false"],
        ["--igc_train_base", "--igc_detach_reading", "false"],
        ["--igc_adapter", "igc+lora", "--igc_detach_reading", "false"],
        ["--igc_exact_match_tokens", "8"],  # of the closing evaluation
    ],
)
def test_arguments_that_have_an_effect_are_let_through(line, tmp_path):
    assert sft.parse(arguments("tiny", tmp_path, *line)).launch == []


def test_a_model_has_to_be_named(tmp_path):
    with pytest.raises(ValueError, match="No model is named"):
        sft.parse(["--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false"])


def test_what_is_not_set_is_left_to_the_config():
    tokenizer = make_tokenizer()
    wanted = IGCConfig.from_tokenizer(tokenizer, interface="tokens", confidence=0.5)
    assert igc_config(IGCArguments(), tokenizer) == wanted
    assert igc_config(IGCArguments(igc_confidence=0.0), tokenizer).confidence == 0


def test_what_is_set_reaches_the_config():
    made = IGCArguments(
        igc_interface="hidden",
        igc_layer=2,
        igc_num_digits=7,
        igc_teacher_forcing=False,
        igc_anchors=["=", "prompt_end"],
    )
    tokenizer = make_tokenizer()
    config = igc_config(made, tokenizer)
    assert (config.interface, config.layer, config.num_digits, config.teacher_forcing) == ("hidden", 2, 7, False)
    assert config.anchors["prompt_end"]
    assert "turns" not in config.anchors
    assert config.anchors["inline"] == [[tokenizer.convert_tokens_to_ids("=")]]
    assert igc_config(IGCArguments(igc_reading_context="12"), tokenizer).reading_context == 12


def test_every_setting_of_the_config_can_be_given_or_is_left_out_on_purpose():
    own = {f.name for f in dataclasses.fields(IGCConfig)} & set(IGCConfig.__annotations__)
    otherwise = {"number_tokens"}
    otherwise |= {"symbols", "target_modules", "exclude_modules", "modules_to_save", "trainable_token_indices"}
    otherwise |= {"trained_with", "temperature"}
    arguments_of = {f.name.removeprefix("igc_") for f in dataclasses.fields(IGCArguments)}
    assert own - otherwise <= arguments_of


# ------------------------------------------------------------------------------------------ data
def load(script=None, mixture=None, igc=None, **training):
    """The sets, without the names of their rows (`test_sources.py`)."""
    options = {"eval_strategy": "no", "seed": 0, "assistant_only_loss": False, "dataset_text_field": "text"} | training
    options["writing_stage"] = None
    script, mixture, igc = script or ScriptArguments(), mixture or DatasetMixtureConfig(), igc or IGCArguments()
    loaded = load_corpora(Parsed(script, SimpleNamespace(**options), None, mixture, igc, []))
    named = [ROW_COLUMN in (getattr(one, "column_names", None) or ()) for one in loaded]
    return [one.remove_columns(ROW_COLUMN) if has else one for one, has in zip(loaded, named, strict=True)]


def generated(n, form="`prompt` and `completion` of messages", **fields):
    """Generated rows of a small calculator as a dataset."""
    sizes = {"igc_num_digits": 4, "igc_result_digits": 4}
    return to_dataset(generated_rows(IGCArguments(**{**sizes, **fields}), 0, form).take(n))


def test_data_of_a_folder_keep_their_rows_and_test_split(tmp_path):
    folder = write(tmp_path / "d", rows(6))
    write(tmp_path / "d", rows(2, seed=1), "test.jsonl")
    train, test = load(ScriptArguments(dataset_name=folder), eval_strategy="steps")
    assert train.to_list() == rows(6)
    assert test.to_list() == rows(2, seed=1)
    assert load(ScriptArguments(dataset_name=folder))[1] is None


def test_data_with_and_without_annotation_go_into_one_mixture(tmp_path):
    plain = [{"id": i, "prompt": "hi", "completion": "ho"} for i in range(3)]
    entries = [DatasetConfig(write(tmp_path / "a", plain)), DatasetConfig(write(tmp_path / "b", rows(4)))]
    entries[0].columns = ["prompt", "completion"]
    train, _ = load(mixture=DatasetMixtureConfig(entries))
    assert train.to_list() == [{"prompt": "hi", "completion": "ho", **dict.fromkeys(COLUMNS)}] * 3 + rows(4)


def test_data_with_one_annotation_join_those_with_one_per_anchor():
    several = [{**row, **{name: [row[name]] * 2 for name in COLUMNS}} for row in rows(2)]
    joined = join({"a": to_dataset(rows(3, unsupervised=(1,))), "b": to_dataset(several)})
    assert [row["igc_operator"] for row in joined] == [["+"], None, ["+"], ["+", "+"], ["+", "+"]]
    assert joined[0]["igc_operands"] == [rows(3)[0]["igc_operands"]]
    assert joined[1]["igc_operands"] is None


def _without_operator():
    """Two rows, the first of which names operands but no operator."""
    faulty = rows(2)
    faulty[0]["igc_operator"] = None
    return to_dataset(faulty)


def test_data_that_contradict_themselves_are_not_made_unannotated_by_a_mixture():
    several = [{**row, **{name: [row[name]] * 2 for name in COLUMNS}} for row in rows(2)]
    found = join({"a": _without_operator(), "b": to_dataset(several)})
    with pytest.raises(ValueError, match="`igc_operator` is None but `igc_operands` is"):
        check_columns(found[0], Limits(4, 4))


def test_data_in_chats_and_pairs_go_together_if_the_loss_stays_off_the_prompts():
    parts = {"chats": to_dataset(CHATS), "pairs": generated(2, igc_generated_max_digits=2)}
    with pytest.raises(ValueError, match="`chats` has `messages`; `pairs` has `prompt` and `completion` of messages"):
        join(parts)
    joined = join(parts, assistant_only_loss=True)
    assert set(joined.column_names) == {"messages", *ALL_COLUMNS}
    assert all(row["messages"][-1]["role"] == "assistant" for row in joined)


def test_data_in_pairs_whose_prompts_hold_answers_stay_apart_from_chats():
    turns = [("user", "What is 2 plus 2?"), ("assistant", "5"), ("user", "What is 5 times 6?"), ("assistant", "30")]
    messages = [{"role": role, "content": text} for role, text in turns]
    pairs = Dataset.from_list([{"prompt": messages[:3], "completion": messages[3:]}])
    assert join({"pairs": pairs}, assistant_only_loss=True) is pairs  # the loss is on "30" alone
    with pytest.raises(ValueError, match="A prompt of `pairs` holds an answer of the assistant"):
        join({"chats": to_dataset(CHATS), "pairs": pairs}, assistant_only_loss=True)


@pytest.mark.parametrize("suffix", ["jsonl", "json", "parquet"])
def test_data_are_taken_from_a_file_and_nothing_beside_it(tmp_path, suffix):
    folder = Path(write(tmp_path / "d", rows(4)))
    file = folder / f"some.{suffix}"
    if suffix == "parquet":
        to_dataset(rows(3)).to_parquet(file)
    else:
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows(3)))
    train, _ = load(script=ScriptArguments(dataset_name=str(file)))
    assert train.to_list() == rows(3)
    train, _ = load(mixture=DatasetMixtureConfig([DatasetConfig(str(file)), DatasetConfig(str(file))]))
    assert train.to_list() == rows(3) * 2


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([{"text": "a"}], "`b` has `text`"),
        ([{"prompt": "a"}], "`b` has the columns prompt"),
        ([{"prompt": "a", "completion": "b", "igc_result": 5}], "`a`, `b` hold one column in different types"),
    ],
)
def test_data_of_other_forms_are_refused_by_name(other, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        join({"a": to_dataset(rows(2)), "b": Dataset.from_list(other)})


def test_data_are_mixed_in_fractions_without_repeats(tmp_path):
    folders = [write(tmp_path / name, rows(n)) for name, n in (("a", 30), ("b", 9))]
    entries = [DatasetConfig(folder, fraction=share) for folder, share in zip(folders, (1, 3), strict=True)]
    train, _ = load(mixture=DatasetMixtureConfig(entries))
    assert train.to_list() == rows(3) + rows(9)
    entries[0].fraction = None
    with pytest.raises(ValueError, match=r"`fraction` is \[None, 3\]"):
        load(mixture=DatasetMixtureConfig(entries))


def test_data_generated_alone_are_distinct_and_take_the_form_of_others(tmp_path):
    igc = IGCArguments(igc_generated_rows=20, igc_num_digits=4, igc_result_digits=4)
    alone, _ = load(igc=igc)
    assert len({json.dumps(row["prompt"]) for row in alone}) == len(alone) == 20
    assert alone[0]["prompt"][-1]["role"] == "user"
    mixed, _ = load(ScriptArguments(dataset_name=write(tmp_path / "d", rows(3))), igc=igc)
    assert mixed.to_list()[:3] == [row | {"igc_expression": None} for row in rows(3)]
    assert isinstance(mixed[3]["prompt"], str)
    assert len(mixed) == 23


@pytest.mark.parametrize(
    "more", [[], ["--igc_interface", "hidden", "--igc_num_digits", "5", "--igc_result_digits", "10"]]
)
def test_data_generated_for_a_lora_are_those_of_the_calculator_that_it_is_compared_with(more, tmp_path):
    def made(adapter):
        line = arguments("tiny", tmp_path, *more, igc_adapter=adapter, igc_generated_rows=200)
        parsed = sft.parse(line).igc
        return parsed, generated_rows(parsed, 0, "`prompt` and `completion`")

    (parsed, wanted), (_, found) = made("igc"), made("lora")
    assert found.take(200) == wanted.take(200)
    other = IGCArguments(igc_interface="tokens" if more else "hidden")
    assert found.take(200) != generated_rows(other, 0, "`prompt` and `completion`").take(200)
    config = igc_config(parsed, make_tokenizer())
    assert (wanted.limits.digits, wanted.limits.result_digits) == (config.num_digits, config.result_digits)
    assert wanted.limits.rounding == Rounding.of(config.rounding)
    assert (wanted.wording is FEW) == (config.interface == "hidden")
    assert list(wanted.limits.operations) == config.operations


def test_data_split_for_a_test_are_split_by_the_seed(tmp_path):
    mixture = DatasetMixtureConfig([DatasetConfig(write(tmp_path / "d", rows(10)))], test_split_size=0.2)
    train, test = load(mixture=mixture, eval_strategy="steps")
    assert (len(train), len(test)) == (8, 2)
    assert load(mixture=mixture, eval_strategy="steps")[1].to_list() == test.to_list()


def test_data_that_cannot_be_had_are_named(tmp_path):
    folder = write(tmp_path / "d", rows(2))
    named = ScriptArguments(dataset_name=folder)
    entries = DatasetMixtureConfig([DatasetConfig(folder)])
    igc = IGCArguments(igc_generated_rows=2)
    for error, message, options in (
        (ValueError, "No data is named", {}),
        (ValueError, "both name data", {"script": named, "mixture": entries}),
        (FileNotFoundError, "does not exist", {"script": ScriptArguments(dataset_name=str(tmp_path / "no"))}),
        (ValueError, "is a file. Pass one that ends in .jsonl", {"script": ScriptArguments(dataset_name=__file__)}),
        (ValueError, "without a configuration, `data_files`",
         {"mixture": DatasetMixtureConfig([DatasetConfig(f"{folder}/train.jsonl", data_files="x.jsonl")])}),
        (ValueError, "without a configuration, `data_files`",
         {"script": ScriptArguments(dataset_name=f"{folder}/train.jsonl", dataset_config="main")}),
        (ValueError, "no split `tain`", {"script": ScriptArguments(dataset_name=folder, dataset_train_split="tain")}),
        (ValueError, "needs test data, and there is none", {"script": named, "eval_strategy": "steps"}),
        (ValueError, "`igc_generated_rows` needs rows that can be counted",
         {"script": ScriptArguments(dataset_name=folder, dataset_streaming=True), "igc": igc}),
        (ValueError, "`test_split_size` needs rows that can be counted",
         {"mixture": DatasetMixtureConfig([DatasetConfig(folder)], streaming=True, test_split_size=0.5),
          "eval_strategy": "steps"}),
        (ValueError, "holds texts", {"script": ScriptArguments(dataset_name=write(tmp_path / "x", [{"text": "a"}])),
                                     "igc": igc}),
    ):  # fmt: skip
        with pytest.raises(error, match=re.escape(message)):
            load(**options)


def test_data_without_a_text_to_train_on_are_refused_in_one_line(tmp_path):
    alpaca = [{"instruction": "Add 1 and 2.", "input": "", "output": "3"}]
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "blank.jsonl").write_text("\n")
    for name, message in (
        (write(tmp_path / "a", alpaca), "has the columns input, instruction, output. Write each row as `"),
        (write(tmp_path / "q", [{"question": "a"}]), "has the columns question. Write each row as `messages`, as"),
        (str(tmp_path / "empty.jsonl"), "empty.jsonl` is empty: expected one JSON object per line"),
        (str(tmp_path / "blank.jsonl"), "blank.jsonl`"),
        (write(tmp_path / "e", []), "The dataset `"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)) as refused:
            load(script=ScriptArguments(dataset_name=name))
        assert len(str(refused.value).splitlines()) == 1


# ------------------------------------------------------------------------------------------ training
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
    for name, value in weights(made.model).items():
        assert torch.equal(dict(model.named_parameters())[name], value), name
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
    more = ["--igc_adapter", "igc+lora", "--lora_r", "2", "--lora_target_modules", "q_proj", "up_proj"]
    made = trained(arguments(base, out, *SMALL, *more, dataset_name=write(tmp_path / "d", rows(8))))
    assert f"peft-igc trace --base {base} --adapter {out} " in capsys.readouterr().out.splitlines()[-1]
    lora = load_file(out / "low_rank" / WEIGHTS)
    assert any(value.abs().max() > 0 for name, value in lora.items() if "lora_B" in name)  # it begins at zero
    assert all("igc_" in name for name in load_file(out / WEIGHTS))
    assert "| trained with, and loaded with | `low_rank` (in `low_rank`)" in (out / "README.md").read_text()
    ids = torch.tensor([[5, 6, 7, 8]])
    for again in (load_adapter(AutoModelForCausalLM.from_pretrained(base), out), from_folder(out).eval()):
        with torch.no_grad():
            assert torch.equal(again(ids).logits, made.model.eval()(ids).logits)


def from_folder(folder):
    """Without a word about the base, whose name the config has."""
    return AutoPeftModelForCausalLM.from_pretrained(folder)


def test_a_lora_of_an_earlier_run_is_not_left_beside_a_calculator_without_one(base, tmp_path):
    data, lora = write(tmp_path / "d", rows(8)), KINDS["igc+lora"]
    trained(arguments(base, tmp_path / "out", *SMALL, *lora, dataset_name=data, max_steps="1"))
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


KINDS = {
    "igc": [],
    "igc+lora": ["--igc_adapter", "igc+lora", "--lora_target_modules", "q_proj", "up_proj"],
    "base": ["--igc_train_base"],
}


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


# ------------------------------------------------------------------------------------------ the command
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


# ------------------------------------------------------------------------------------------ launch
@pytest.fixture
def launched(monkeypatch):
    """What accelerate would be told to launch."""
    calls = []
    monkeypatch.setattr(launching, "launch_command", calls.append)
    return calls


def test_launch_arguments_go_to_accelerate_and_all_arguments_to_the_processes(launched, tmp_path):
    line = arguments("tiny", tmp_path, "--accelerate_config", "ddp", "--num_processes", "2", "--igc_layer", "2")
    assert sft.run(line) == 0
    (wanted,) = launched
    assert (wanted.num_processes, wanted.module, wanted.training_script) == (2, True, "peft_igc.sft")
    assert Path(wanted.config_file) == ROOT / "peft_igc" / "assets" / "accelerate" / "ddp.yaml"
    assert wanted.training_script_args == line
    alone = sft.parse(arguments("tiny", tmp_path, "--igc_layer", "2"))
    assert sft.parse(line).igc == alone.igc  # the processes ignore those of accelerate


def test_launch_happens_by_itself_where_there_are_several_gpus_or_a_default(launched, tmp_path, monkeypatch):
    monkeypatch.setattr(sft, "has_default", lambda: True)
    line = arguments("tiny", tmp_path, use_cpu="false")
    assert sft.run(line) == 0
    monkeypatch.setattr(sft, "has_default", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert sft.run(line) == 0
    assert len(launched) == 2


@pytest.mark.parametrize("alone", [["--igc_writing_every", "2"], ["--igc_writing", '{"steps": 1}'], []])
def test_launch_does_not_happen_by_itself_where_one_process_is_wanted(launched, tmp_path, monkeypatch, alone):
    calls = []
    monkeypatch.setattr(sft, "main", calls.append)
    monkeypatch.setattr(sft, "has_default", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    line = arguments("tiny", tmp_path, *alone, use_cpu="false" if alone else "true")
    assert sft.run(line) == 0
    assert (len(calls), launched) == (1, [])
    assert sft.run([*line, "--accelerate_config", "ddp"]) == 0  # but where it is asked for
    assert (len(calls), len(launched)) == (1, 1)


def test_launch_flags_of_the_file_are_true_or_false(launched, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("multi_gpu: true\nuse_fsdp: false\nnum_processes: 2\n")
    assert sft.run(arguments("tiny", tmp_path, "--config", str(file))) == 0
    (wanted,) = launched
    assert (wanted.multi_gpu, wanted.use_fsdp, wanted.num_processes) == (True, False, 2)
    file.write_text("multi_gpu: false\n")
    assert sft.parse(arguments("tiny", tmp_path, "--config", str(file))).launch == []


def test_one_process_uses_one_gpu(base, tmp_path):
    line = arguments(base, tmp_path / "o", *SMALL, dataset_name=write(tmp_path / "d", rows(8)))
    parsed = sft.parse(line)
    parsed.training._n_gpu = (
        2  # what a machine with two of them sets; the parent would wrap the model in `nn.DataParallel`
    )
    assert sft.main(parsed).args.n_gpu == 1


def test_launch_of_processes_that_would_not_start_is_refused(launched, tmp_path):
    with pytest.raises(ValueError, match="`--num_processes 2` would start one process"):
        sft.run(arguments("tiny", tmp_path, "--num_processes", "2"))
    with pytest.raises(ValueError, match="`--accelerate_config fdsp2` is neither a file nor one of ours: ddp, "):
        sft.run(arguments("tiny", tmp_path, "--accelerate_config", "fdsp2"))
    assert launched == []


def test_launch_failures_are_the_exit_code(monkeypatch, tmp_path):
    def fail(_):
        raise subprocess.CalledProcessError(1, "x")

    monkeypatch.setattr(launching, "launch_command", fail)
    assert sft.run(arguments("tiny", tmp_path, "--accelerate_config", "ddp", "--num_processes", "2")) == 1


@pytest.mark.slow
def test_launch_of_two_processes_gives_the_weights_of_one(base, tmp_path):
    data = write(tmp_path / "d", rows(8))
    more = [*SMALL, "--optim", "sgd", "--train_sampling_strategy", "sequential"]
    options = {"dataset_name": data, "max_steps": 2}
    trained(arguments(base, tmp_path / "one", *more, **options, gradient_accumulation_steps=2))
    line = [*arguments(base, tmp_path / "two", *more, **options), "--accelerate_config", "ddp", "--num_processes", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "peft_igc.cli", "sft", *line], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (load_file(tmp_path / name / WEIGHTS) for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=1e-6, rtol=0, msg=name)
