"""Every recipe is what it says: its header has the parts, each command in it runs, its numbers are explained."""

import json
import random
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser
from peft import LoraConfig, get_peft_model
from tiny_training import save_base
from transformers import LlamaConfig, LlamaForCausalLM

from peft_igc import IGCConfig, tiny_base, tiny_igc
from peft_igc.inference.evaluation import trace
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.sft import run as sft
from peft_igc.sft.arguments import igc_config
from peft_igc.sft.launch import CONFIGS
from peft_igc.trainer.optimizer import calculators
from peft_igc.tuner.base_model import TINY_FOLDER
from recipes import teach_reading
from tests.sft.conftest import _no_launch  # noqa: F401 - a fixture
from tests.sft.test_sft import CHATS, QUICK, write


ROOT = Path(__file__).parents[2]
RECIPES = sorted(path for path in (ROOT / "recipes").rglob("*.yaml") if path.parent != CONFIGS)
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in RECIPES}
# `make test` runs these, one of each kind: both interfaces, a LoRA beside the calculator, and a baseline.
UNIT = ("tiny_tokens.yaml", "tiny_hidden.yaml", "tiny_joint.yaml", "tiny_lora.yaml")
COMMANDS = [
    pytest.param(
        path.name,
        command,
        id=command.removeprefix("peft-igc sft --config recipes/"),
        marks=[] if command.endswith(UNIT) else [pytest.mark.slow],
    )
    for path in RECIPES
    for command in re.findall(r"^#   (peft-igc sft .*)$", TEXTS[path.name], re.MULTILINE)
]


def test_a_header_says_command_and_what_to_expect():
    assert len(COMMANDS) >= len(RECIPES) >= 9
    for name, text in TEXTS.items():
        header = re.match(r"(#.*\n)+", text)
        assert header, f"{name} has no header"
        script = f"recipes/{name.removesuffix('.yaml')}.py"  # which makes the rows, too
        command = f"python {script}" if (ROOT / script).exists() else f"peft-igc sft --config recipes/{name}"
        assert f"#   {command}" in header[0]
        assert re.search(r"^# Expected: (not measured|[^.]*\d)", header[0], re.MULTILINE), name


@pytest.mark.versions
@pytest.mark.parametrize(("name", "command"), COMMANDS)
@pytest.mark.filterwarnings("error:`(?!is_).* deprecated")  # PEFT 0.21.2 asks for `is_gradient_checkpointing`
@pytest.mark.filterwarnings("ignore:.*:UserWarning:bitsandbytes")
def test_a_command_of_a_recipe_runs_and_its_adapter_traces(name, command, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    program, sub, *line = shlex.split(command)
    assert (program, sub) == ("peft-igc", "sft")
    recipe = yaml.safe_load(TEXTS[name])
    if recipe.get("load_in_4bit") and find_spec("bitsandbytes") is None:
        pytest.skip("bitsandbytes is not installed")
    changed = {**QUICK, "output_dir": str(tmp_path / "out"), "gradient_accumulation_steps": "1", "warmup_steps": "0"}
    changed["igc_generated_rows"] = "8"
    if "igc_writing" in recipe:
        changed["igc_writing"] = '{"rows": 4, "steps": 1, "batch_size": 2}'
    if "igc_demonstration" in recipe:
        measured = {"per_group": 1, "max_new_tokens": 2, "target": 0.0}
        measured |= {"per_set": 2, "number_only_tokens": 2} if "smollm2" in name else {}
        changed["igc_demonstration"] = json.dumps(measured)
    if recipe["model_name_or_path"] != "tiny":
        deep = recipe.get("igc_layer", 1) + 2
        changed["model_name_or_path"] = save_base(tmp_path / "base", num_hidden_layers=deep)
    if "datasets" in recipe:  # on a folder, which has a column that `columns` leaves out: with it the form is unclear
        recipe["datasets"][0]["path"] = write(tmp_path / "chats", [{**row, "prompt": "more"} for row in CHATS])
        (tmp_path / name).write_text(yaml.safe_dump(recipe))
        line[line.index("--config") + 1] = str(tmp_path / name)
    if str(recipe.get("dataset_name", "")).startswith("build/"):  # made by another command of the header
        said = [{"prompt": row["messages"][:1], "completion": row["messages"][1:]} for row in CHATS]
        changed["dataset_name"] = write(tmp_path / "rows", said)
    if str(recipe.get("igc_init_from", "")).startswith("build/"):
        model, tokenizer = load_base(changed.get("model_name_or_path", "tiny"))
        calculator = get_peft_model(model, IGCConfig.from_tokenizer(tokenizer, layer=1, reading_dim=64, num_heads=4))
        calculator.save_pretrained(tmp_path / "calculator")
        changed["igc_init_from"] = str(tmp_path / "calculator")
    line += [text for option, value in changed.items() for text in (f"--{option}", value)]
    assert sft.run(line) == 0
    trained = tmp_path / "out" / "base"  # of a recipe that trains all weights
    model, tokenizer = load_base(str(trained) if trained.is_dir() else changed.get("model_name_or_path", "tiny"))
    model = load_adapter(model, tmp_path / "out")
    if recipe.get("igc_adapter") != "lora":
        anchors = 1 + ("=" in (recipe.get("igc_anchors") or []))  # in this prompt
        assert len(trace(model, tokenizer, "12+30=", max_new_tokens=2).steps) == anchors


def test_what_a_teacher_teaches_is_saved_with_the_writing_of_the_package(tmp_path, monkeypatch):
    losses, loss = [], teach_reading.Student.loss
    monkeypatch.setattr(teach_reading, "WARMUP", 1)
    monkeypatch.setattr(teach_reading.Student, "loss", lambda *given: losses.append(loss(*given)) or losses[-1])
    options = f"--teacher {TINY_FOLDER} --layer 3 --output {tmp_path} --texts 64 --steps 8"
    teach_reading.main(options.split())
    assert losses[-1] < 0.9 * losses[0]  # the same 64 texts
    models = load_adapter(tiny_base()[0], tmp_path), tiny_igc()[0]
    saved, known = (calculators(model)[0].state_dict() for model in models)
    same = {name for name in known if torch.equal(saved[name], known[name].to(saved[name].dtype))}
    assert same == {name for name in known if "igc_output_mapping" in name or "characters" in name}


def test_a_list_tells_each_word_where_it_ends():
    tokenizer, words = tiny_igc()[1], {word: torch.tensor(at) for at, word in enumerate(("a", "cup", "bicycle"))}
    row = teach_reading.list_of(words, tokenizer, random.Random(0))
    told = [tokenizer.decode(row.ids[: end + 1]).lower().split(">")[-1].split()[-1] for end in row.ends]
    assert told == [list(words)[at] for at in row.targets]


def smollm2_like():
    """Two of the 30 layers of SmolLM2-135M, which decide how many parameters an adapter has in each."""
    sizes = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
    return LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=3072, num_hidden_layers=2))


@pytest.mark.parametrize(
    ("baseline", "calculator", "made", "parts", "within"),
    [
        ("tiny_lora", "tiny_tokens", lambda: tiny_base()[0], 1, 0.02),
        ("smollm2_135m_lora", "smollm2_135m", smollm2_like, 30 / 2, 0.05),  # a rank is a seventh of the parameters
    ],
)
def test_the_rank_of_a_lora_baseline_is_the_one_with_as_many_parameters(baseline, calculator, made, parts, within):
    def count(config):
        model = get_peft_model(made(), config)
        return sum(p.numel() for p in model.parameters() if p.requires_grad)

    line = ["--config", str(ROOT / "recipes" / f"{calculator}.yaml")]
    wanted = count(igc_config(sft.parse([*line, "--igc_layer", "1"]).igc, tiny_base()[1]))
    recipe = yaml.safe_load(TEXTS[f"{baseline}.yaml"])
    per_rank = parts * count(LoraConfig(r=1, target_modules=recipe["lora_target_modules"]))
    assert recipe["lora_r"] == round(wanted / per_rank)
    assert abs(recipe["lora_r"] * per_rank / wanted - 1) < within


def test_the_configurations_for_accelerate_are_all_there_and_are_ones_that_it_reads():
    known = {action.dest for action in launch_command_parser()._actions}
    paths = sorted(CONFIGS.glob("*.yaml"))
    assert {path.stem for path in paths} == {"ddp", "fsdp2", "deepspeed_zero2", "deepspeed_zero3"}
    for path in paths:
        found = load_config_from_file(str(path))  # refuses keys that it does not know
        settings = {**found.fsdp_config, **found.deepspeed_config}
        assert set(settings) <= known
        assert bool(settings) == (path.stem != "ddp")
        assert f"--accelerate_config {path.stem} --num_processes" in path.read_text(encoding="utf-8")
