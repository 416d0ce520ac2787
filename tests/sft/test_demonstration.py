"""Promises of `peft-igc demo`: a recipe trained in two stages, measured, reported; nothing half-written.

Bases without a chat template are asked as completion models are, `Q: ...`, `A: ...`, or at the end of a text.
"""

import json
import re

import pytest
import torch
import transformers
import yaml
from tiny_training import tokenizer

from peft_igc import cli, tiny_base, tiny_igc
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.data.columns import has_number
from peft_igc.data.wording import handwritten, wording
from peft_igc.inference.evaluation import evaluate, generate_answers
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.sft import demo, measure
from peft_igc.sft.datasets import generated_rows, rows_of_writing
from peft_igc.sft.demo import RECIPES, command, run_demo
from peft_igc.sft.models import load_tokenizer, make_config
from peft_igc.sft.run import _data, main, parse
from peft_igc.trainer.batches import tokenized
from peft_igc.trainer.config import WritingStage
from peft_igc.trainer.two_stage import writable
from peft_igc.tuner.base_model import TINY_FOLDER
from peft_igc.tuner.layer import IGCLayer


MEASURED = {"calibration_items": 24, "per_group": 1, "max_new_tokens": 2}
SIZES = {"igc_reading_dim": 16, "igc_reading_ffn": 16, "igc_num_heads": 2, "igc_writing_ffn": 16, "igc_gate_dim": 8}
QUICK = {"igc_generated_rows": 48, "max_steps": 3, "per_device_train_batch_size": 4, "warmup_steps": 1}
STAGE = {"rows": 8, "steps": 2, "batch_size": 4, "covering": 2, "warmup_steps": 1}


def small(stage=STAGE, **measured):
    """Arguments of `peft-igc sft` for a demonstration of no consequence."""
    more = {**SIZES, **QUICK, "logging_steps": 1, "bf16": "false"}
    more |= {"igc_demonstration": json.dumps(MEASURED | {"target": 0.98} | measured)}
    more |= {"igc_writing": json.dumps(stage)} if stage else {}
    return [text for name, value in more.items() for text in (f"--{name}", str(value))]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """A demonstration of three steps of the reading and two of the writing: its folder, results, and lines."""
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        for module in ("sft.measure", "sft.run"):
            patch.setattr(f"peft_igc.{module}.say", lines.append)
        folder = tmp_path_factory.mktemp("demo") / "out"
        results = run_demo(folder, seed=1, more=small())
    return folder, results, "\n".join(lines)


def test_it_leaves_results_curves_and_adapter_and_nothing_else(outcome):
    folder, results, _ = outcome
    names = ["adapter", "learning_curves.png", "operating_curve.png", "results.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert json.loads((folder / "results.json").read_text()) == results


def test_the_results_tell_how_the_adapter_was_made_in_both_stages(outcome):
    training = outcome[1]["training"]
    assert (training["seed"], training["steps"], training["stopped_early"]) == (1, 5, False)
    assert (training["distinct_rows"], training["writing"]["steps"]) == (48, 2)
    assert [entry["step"] for entry in training["history"]] == [1, 2, 3, 4, 5]
    assert [entry["loss_lm"] is None for entry in training["history"]] == [True] * 3 + [False] * 2
    assert all(entry["loss_read"] > 0 for entry in training["history"][:3])
    assert {"torch", "trl", "peft"} <= set(outcome[1]["versions"])


def test_progress_missed_targets_and_the_table_are_printed(outcome):
    _, results, said = outcome
    assert results["summary"]["targets_missed"][0] in said
    assert re.search(r"BIG-bench arithmetic, whole answers +20 ", said)
    reading = re.search(r"^step 3/3.*$", said, re.MULTILINE)[0]
    assert all(part in reading for part in ("reading", "read right", "at most ", "s left"))
    assert "writing, step 5/5  loss" in said


def test_the_saved_adapter_is_the_measured_one_with_the_fitted_confidence_and_a_card(outcome):
    folder, results, said = outcome
    saved = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    fitted = {name: results["calibration"][name] for name in ("confidence", "temperature")}
    assert {name: saved[name] for name in fitted} == fitted
    assert f"confidence {saved['confidence']:g} (arithmetic), fitted on authors held out" in said
    base, tokenizer = tiny_base()
    again = evaluate(load_adapter(base, folder / "adapter"), tokenizer, bigbench_test_set(1, 0), max_new_tokens=2)
    assert again["exact_match"] == results["sets"]["bigbench"]["exact_match"]
    assert saved["base_model_name_or_path"] == "tiny"
    text = (folder / "adapter" / "README.md").read_text()
    assert "Trained for 5 steps on 48 rows, seed 1. Exact match of whole answers on the 20 questions" in text
    for part, score in results["summary"]["igc"].items():
        assert f"| {part} | {results['summary']['base'][part]:.2%} | {score:.2%} |" in text
    assert "model, tokenizer = peft_igc.tiny_base()" in text
    assert str(folder.parent) not in text


def test_transformers_loads_the_folder_by_itself(outcome):
    folder, prompt = str(outcome[0] / "adapter"), [{"role": "user", "content": "What is 58 times 36?"}]
    made = transformers.pipeline("text-generation", model=folder, max_new_tokens=4, do_sample=False)
    assert any(isinstance(module, IGCLayer) for module in made.model.modules())
    ours = load_adapter(tiny_base()[0], folder)
    tokens = made.tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        assert torch.allclose(made.model(tokens).logits.float(), ours(tokens).logits, atol=1e-4)


def test_a_time_limit_ends_training_early_and_the_exit_code_asks_for_no_target(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "command", lambda **options: command(**options, more=small()))
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "left over").touch()
    assert cli.main(["demo", "--output", str(tmp_path), "--minutes", "1e-6"]) == 0
    assert not (tmp_path / "adapter" / "left over").exists()  # an earlier run's results are replaced
    said = capsys.readouterr().out
    assert "Stopped at the time limit after step 1 of 3" in said
    assert f'Now try: peft-igc trace --base tiny --adapter {tmp_path / "adapter"} "What is' in said
    training = json.loads((tmp_path / "results.json").read_text())["training"]
    assert (training["stopped_early"], training["steps"]) == (True, 1 + 1)


def test_an_interrupt_leaves_earlier_results_alone_and_nothing_half_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "results.json").write_text("earlier")

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(measure, "write_card", interrupt)
    monkeypatch.setattr(demo, "command", lambda **options: command(**options, more=small()))
    for output in (tmp_path, tmp_path / "new"):
        assert cli.main(["demo", "--output", str(output)]) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
    assert (tmp_path / "results.json").read_text() == "earlier"
    assert "Interrupted" in capsys.readouterr().err


TOO_DEEP = "`layer=99` is out of range: the model has 5 decoder layers"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["--minutes", "0"], "`igc_minutes=0` must be above 0"),
        (["--layer", "99"], TOO_DEEP),
        (["--device", "foo"], "`--device foo` cannot be used"),
        (["--base", str(TINY_FOLDER), "--layer", "99"], TOO_DEEP),
    ],
)
def test_options_that_cannot_be_are_refused_before_rows_are_made(line, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("peft_igc.sft.run.load_corpora", None)  # an error if it is called
    assert cli.main(["demo", "--output", str(tmp_path / "out"), *line]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="The output folder `.*file` is a file"):
        run_demo(tmp_path / "file")


def test_options_become_arguments_of_the_recipe():
    parsed = parse([*command(seed=3, minutes=2.5, layer=3, per_group=7), "--output_dir", "x"])
    assert (parsed.training.seed, parsed.igc.igc_minutes, parsed.igc.igc_layer) == (3, 2.5, 3)
    recipe = yaml.safe_load((RECIPES / "tiny_tokens.yaml").read_text())
    assert parsed.igc.igc_demonstration == recipe["igc_demonstration"] | {"per_group": 7}
    assert parsed.training.igc_writing == recipe["igc_writing"]
    assert command(interface="hidden")[1].endswith("tiny_hidden.yaml")
    assert command(base="x", interface="hidden")[1].endswith("smollm2_135m_hidden.yaml")
    assert command(base="x")[1].endswith("smollm2_135m.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("interface", ["tokens", "hidden"])
def test_a_folder_goes_through_the_whole_command(interface, tmp_path, monkeypatch):
    limits = {"per_set": 3, "base_per_group": 1, "number_only_tokens": 4}
    monkeypatch.setattr(demo, "command", lambda **options: command(**options, more=small(STAGE, **limits)))
    layer = {"tokens": 2, "hidden": 1}[interface]  # 1 is the default
    line = ["--base", str(TINY_FOLDER), "--output", str(tmp_path), "--interface", interface, "--layer", str(layer)]
    assert cli.main(["demo", *line]) == 1  # two steps miss the target
    results = json.loads((tmp_path / "results.json").read_text())
    assert ("six_to_twenty_digits" in results["sets"]) == (interface == "tokens")
    assert results["sets"]["bigbench"]["n"] == 20
    assert results["base_model"]["weights"] is None
    saved = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (saved["interface"], saved["layer"]) == (interface, layer)
    assert saved["temperature"] == results["calibration"]["temperature"]


def igc_arguments(*more, **options):
    return parse([*command(**options), "--output_dir", "x", *more]).igc


def test_half_of_the_rows_of_the_writing_have_longer_numbers():
    arguments, stage = igc_arguments(), WritingStage(rows=220, steps=1, covering=20)
    rows = generated_rows(arguments, 0, "`messages`", []).take(300)
    made = rows_of_writing(arguments, stage, 0, rows, [])
    assert len(made) == 220
    model, spelled = tiny_igc()  # also rows whose text says another result
    assert len(writable(tokenized(made, spelled), model.peft_config["default"], 220)) == 220
    results = [row["igc_result"] for row in made]
    assert all(has_number(result) for result in results)
    digits = [len(result.lstrip("-").replace(".", "")) for result in results]
    assert sum(digits[:100]) < sum(digits[100:200])
    assert max(digits[100:200]) > 20
    assert sum("." in result for result in results[100:200]) > 10
    excluded = [row for row in made[100:200] if row["igc_operands"]]
    again = rows_of_writing(arguments, stage, 0, rows, excluded)
    long = {tuple(row["igc_operands"]) for row in excluded if max(map(len, row["igc_operands"])) > 2}
    assert not long & {tuple(row["igc_operands"]) for row in again[100:200] if row["igc_operands"]}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_demonstration_runs_on_a_gpu(tmp_path):
    assert run_demo(tmp_path / "out", seed=1, device="cuda", more=small())["sets"]["bigbench"]["n"] == 20


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
    assert parse([*command(base=str(gemma)), "--output_dir", "x"]).igc.igc_layer == 4  # of 7, as 18 of 30
    more = [*small(), "--igc_layer", "6", "--igc_read_from", "3"]
    more += ["--igc_generated_rows", "1500", "--seed", "1"]  # of which a few hold the `A:` that begins an answer
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


def test_no_training_text_has_the_header_of_a_turn(gemma, monkeypatch):
    texts = [handwritten.Handwritten(f"{text}{{a}} + {{b}}?", "+", "ab", frozenset(), True) for text in ("Q: ", "")]
    monkeypatch.setattr(wording, "texts_by", lambda _: texts)
    parsed = parse([*command(base=str(gemma), more=small()), "--output_dir", "x"])
    spelled = load_tokenizer(str(gemma), parsed)
    config = make_config(str(gemma), parsed, spelled)
    config.anchors["users"] = [spelled(" Q: ", add_special_tokens=False)["input_ids"]]  # white space may be around it
    rows = _data(config, None, spelled, parsed)[0]
    assert {spelled.decode(row["input_ids"]).count("Q:") for row in rows} == {1}


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
