"""`IGCTrainer`: which data it takes, what it refuses, what is logged and saved.

What training does to weights (accumulation, processes, checkpointing, resuming) is in `test_trainer_invariants.py`,
which step of a row is supervised in `test_collator.py`.
"""

import dataclasses
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
import transformers
from datasets import Dataset
from matplotlib.axes import Axes
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import chat, igc_model, rows, tokenizer, trainer
from trl import SFTConfig
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from peft_igc.data.columns import COLUMNS, UNSUPERVISED
from peft_igc.data.dataset import to_dataset
from peft_igc.trainer.checks import refuse_sharded
from peft_igc.trainer.config import IGCSFTConfig
from peft_igc.trainer.record import draw_curves
from peft_igc.trainer.trainer import BaselineTrainer, IGCTrainer
from peft_igc.tuner.call import Fields
from peft_igc.tuner.config import IGCConfig
from tests.trainer.test_collator import example, first_batch


def _operands(row):
    return {name: row[name] for name in COLUMNS}


FORMATS = {
    "prompt and completion": (lambda row: row, {}),
    "prompt and completion as messages": (
        lambda row: {"prompt": chat(row)[:1], "completion": chat(row)[1:], **_operands(row)},
        {},
    ),
    "messages": (lambda row: {"messages": chat(row), **_operands(row)}, {"assistant_only_loss": True}),
    "text": (lambda row: {"text": row["prompt"] + row["completion"], **_operands(row)}, {"igc": "="}),
    "tokens": (lambda row: example([row["prompt"], row["completion"]], **_operands(row)), {}),
}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_operand_columns_survive_every_format(tmp_path, name, streaming):
    convert, options = FORMATS[name]
    sequence = options.get("igc")
    anchors = None if sequence is None else {"turns": [tokenizer()(sequence)["input_ids"]]}
    options = {key: value for key, value in options.items() if key != "igc"}
    data = [convert(row) for row in rows(6, unsupervised=(1,))]
    data = Dataset.from_list(data).to_iterable_dataset() if streaming else Dataset.from_list(data)
    model = igc_model(anchors=anchors)
    made = trainer(tmp_path, data, model, per_device_train_batch_size=6, **options)
    batch = first_batch(made)
    assert (batch["igc_operator"] == 0).sum() == 5
    assert (batch["igc_operator"] == UNSUPERVISED).sum() == 1
    at = batch["input_ids"].gather(1, batch["igc_anchors"])
    anchor = "<assistant>" if "messages" in name else "="
    assert tokenizer().decode(at.flatten()) == anchor * 6


def test_operand_columns_survive_in_every_eval_set_and_in_sets_given_later(tmp_path):
    sets = {"a": to_dataset(rows(4, 1)), "b": to_dataset(rows(3, 2))}
    made = trainer(tmp_path, eval_dataset=sets)
    for name, count in (("a", 4), ("b", 3)):
        batch = next(iter(made.get_eval_dataloader(name)))
        assert (batch["igc_operator"] == 0).sum() == count
    later = made.evaluate(to_dataset(rows(4, 1)))
    assert later["eval_igc/loss_read"] == pytest.approx(made.evaluate()["eval_a_igc/loss_read"])


@pytest.mark.parametrize("option", ["packing", "eval_packing", "padding_free"])
def test_options_that_join_texts_are_refused_with_a_calculator(tmp_path, option):
    message = rf"`{option}=True` puts several texts into one row .* Set `{option}=False`"
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, **{option: True})
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, model=tiny_model("llama"), peft_config=small_config(), **{option: True})


@pytest.mark.parametrize("name", ["cp_enabled", "sp_enabled"])
def test_options_that_split_texts_are_refused_with_a_calculator(name):
    parallelism = SimpleNamespace(**{"cp_enabled": False, "sp_enabled": False, name: True})
    made = SimpleNamespace(accelerator=SimpleNamespace(parallelism_config=parallelism))
    with pytest.raises(ValueError, match="splits a text over processes"):
        refuse_sharded(made)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("igc_loss_weight", -1.0, "is negative"),
        ("igc_learning_rate", 0.0, "is not above 0"),
        ("igc_muon_learning_rate", 0.0, "is not above 0"),
        ("igc_writing_every", 0, "is not at least 1"),
        ("igc_exact_match", -1, "is not at least 0"),
        ("igc_exact_match_tokens", 0, "is not at least 1"),
    ],
)
def test_numbers_out_of_range_are_refused(tmp_path, name, value, message):
    with pytest.raises(ValueError, match=f"`{name}={value}` {message}"):
        trainer(tmp_path, **{name: value})


def test_operand_columns_without_a_calculator_are_ignored_with_a_warning(tmp_path, caplog):
    lora = get_peft_model(tiny_model("llama"), LoraConfig(target_modules=["q_proj"]))
    made = trainer(tmp_path, model=lora, cls=BaselineTrainer)
    assert "has no IGC adapter, so the operand columns of the dataset are not used" in caplog.text
    made.train()
    assert not [key for log in made.state.log_history for key in log if key.startswith("igc/")]
    assert "igc" not in made.model.base_model.model.model_tags


def test_a_model_without_a_calculator_is_refused_with_the_way_to_attach_one(tmp_path):
    lora = LoraConfig(target_modules=["q_proj"])
    message = r"no IGC adapter.*`get_peft_model\(model, IGCConfig\(...\)\)`, or pass `peft_config=IGCConfig\(...\)`"
    for model, more in (
        (tiny_model("llama"), {}),
        (tiny_model("llama"), {"peft_config": lora}),
        (get_peft_model(tiny_model("llama"), lora), {}),
    ):
        with pytest.raises(ValueError, match=message):
            trainer(tmp_path, model=model, **more)
    tiny_model("llama").save_pretrained(tmp_path / "base")
    tokenizer().save_pretrained(tmp_path / "base")
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, model=str(tmp_path / "base"))
    made = trainer(tmp_path, model=str(tmp_path / "base"), peft_config=small_config(init_weights=True))
    made.train()


def test_a_calculator_that_is_switched_off_is_refused(tmp_path):
    model = igc_model()
    model.base_model.disable_adapter_layers()
    with pytest.raises(ValueError, match="IGC adapter is not active"):
        trainer(tmp_path, model=model)


def test_a_calculator_without_operand_columns_is_trained_with_a_warning(tmp_path, caplog):
    data = [{"prompt": r["prompt"], "completion": r["completion"]} for r in rows(8)]
    made = trainer(tmp_path, Dataset.from_list(data))
    assert "has no column `igc_operator`, so the reading is not trained" in caplog.text
    made.train()
    assert not [key for log in made.state.log_history for key in log if key.startswith("igc/")]


def test_a_collator_of_ones_own_is_kept_and_warned_about(tmp_path, caplog):
    class Own(DataCollatorForLanguageModeling):
        pass

    own = Own(pad_token_id=0)
    made = trainer(tmp_path, data_collator=own)
    assert made.data_collator is own
    assert "The operand columns are passed to `Own`" in caplog.text


def test_logged_metrics_are_those_of_the_models_own_output(tmp_path):
    model = igc_model(init_weights=False)
    # One batch holds three supervised rows, the other one four: a mean of means would weigh them alike.
    data = to_dataset(rows(8, unsupervised=(2,)))
    made = trainer(tmp_path, model=model, eval_dataset=data, per_device_eval_batch_size=4)
    model.eval()
    with torch.no_grad():
        outputs = [model(**made.data_collator([dict(row)])) for row in made.eval_dataset]
    loss, count, correct = (sum(getattr(o, f"igc_{k}").item() for o in outputs) for k in ("loss", "count", "correct"))
    metrics = made.evaluate()
    assert count == 7
    assert metrics["eval_igc/loss_read"] == pytest.approx(loss / 7, rel=1e-5)
    assert metrics["eval_igc/read_accuracy"] == pytest.approx(correct / 7)
    assert 0 < metrics["eval_igc/gate_mean"] < 1
    made.model.eval()
    for gate in (0.0, 0.5):  # nothing is written in the first batch
        made._log_reading(Fields(*(torch.tensor(one) for one in (1.0, 2, 2, gate))))
    assert made._metrics["eval"]["igc/gate_mean"] == [0.5]


def test_metrics_of_the_reading_are_logged_only_where_a_step_was_supervised(tmp_path):
    made = trainer(
        tmp_path, rows(8, unsupervised=tuple(range(4, 8))), max_steps=2, train_sampling_strategy="sequential"
    )
    made.train()
    first, second = made.state.log_history[:2]
    names = {"igc/loss_read", "igc/read_accuracy", "igc/gate_mean"}
    assert names <= set(first)
    assert not names & set(second)


def test_the_weight_scales_the_reading_loss_alone(tmp_path):
    losses = {}
    for weight in (0.0, 1.0, 3.0):
        made = trainer(tmp_path, eval_dataset=to_dataset(rows(8)), igc_loss_weight=weight)
        metrics = made.evaluate()
        losses[weight] = metrics["eval_loss"]
    assert losses[1.0] - losses[0.0] == pytest.approx(metrics["eval_igc/loss_read"], rel=1e-5)
    assert losses[3.0] - losses[0.0] == pytest.approx(3 * metrics["eval_igc/loss_read"], rel=1e-5)


@pytest.mark.parametrize("way", ["label_smoothing", "compute_loss_func"])
@pytest.mark.filterwarnings("ignore:.*will be removed in v2:FutureWarning")
def test_the_reading_learns_on_trls_deprecated_ways_too(tmp_path, way):
    def plain(outputs, labels, num_items_in_batch=None):
        logits, labels = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        return torch.nn.functional.cross_entropy(logits, labels, reduction="sum") / num_items_in_batch

    made = trainer(tmp_path, **{"label_smoothing_factor": 0.1} if way == "label_smoothing" else {way: plain})
    before = {n: p.detach().clone() for n, p in made.model.named_parameters() if "input_mapping" in n}
    made.train()
    after = dict(made.model.named_parameters())
    assert before
    assert all(not torch.equal(value, after[name]) for name, value in before.items())


def test_a_plain_trainer_adds_the_mean_reading_loss(tmp_path):
    model = igc_model()
    made = trainer(tmp_path, rows(4), model)
    args = transformers.TrainingArguments(str(tmp_path), use_cpu=True, remove_unused_columns=False, report_to="none")
    plain = transformers.Trainer(model, args, made.data_collator, made.train_dataset, made.train_dataset)
    batch = plain.data_collator([dict(row) for row in made.train_dataset])
    model.eval()
    with torch.no_grad():
        without = model(**{k: batch[k] for k in ("input_ids", "attention_mask", "labels")}).loss
        output = model(**batch)
    assert output.igc_count == 4
    assert plain.evaluate()["eval_loss"] == pytest.approx((without + output.igc_loss / 4).item(), rel=1e-5)
    plain.args.max_steps = 1
    assert plain.train().training_loss > without.item()


@pytest.mark.parametrize("which", ["train", "eval"])
def test_a_column_that_looks_like_an_operand_column_and_is_none_is_refused(tmp_path, which):
    good = to_dataset(rows(4))
    sets = {"train": good, "eval": good, which: good.rename_column("igc_operands", "igc_operand")}
    with pytest.raises(ValueError, match=f"The {which} dataset has the column `igc_operand`, which is not read"):
        trainer(tmp_path, sets["train"], eval_dataset=sets["eval"])


def test_default_arguments_and_those_of_other_trainers_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = transformers.TrainingArguments(str(tmp_path), use_cpu=True, max_steps=1, report_to="none")
    made = IGCTrainer(igc_model(), plain, train_dataset=to_dataset(rows(4)), processing_class=tokenizer())
    made.train()
    assert made.state.log_history[0]["igc/loss_read"] > 0


@pytest.mark.versions
@pytest.mark.parametrize(
    "given", [{}, {"activation_checkpointing": False}, {"gradient_checkpointing": False}], ids=str
)
def test_checkpointing_has_both_its_names_without_a_warning(given, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = IGCSFTConfig(str(tmp_path), use_cpu=True, bf16=False, **given)
    assert made.activation_checkpointing == made.gradient_checkpointing == (not given)


def test_no_default_of_trls_config_is_changed():
    ours, theirs = ({f.name: f.default for f in dataclasses.fields(c)} for c in (IGCSFTConfig, SFTConfig))
    assert ours.items() >= theirs.items()


def test_curves_show_each_logged_value_and_cannot_end_a_training(tmp_path, monkeypatch, caplog):
    drawn, plot = [], Axes.plot

    def watched(self, x, y, *style, label, **more):
        drawn.append((label, x, y))
        return plot(self, x, y, *style, label=label, **more)

    monkeypatch.setattr(Axes, "plot", watched)
    history = [
        {"step": 1, "loss": 2.0, "igc/loss_read": 0.5},
        {"step": 2, "loss": 1.0},
        {"step": 2, "train_loss": 1.5},
    ]
    history.append({"step": 2, "eval_exact_match": 0.5, "eval_runtime": 3.0})
    draw_curves(history, tmp_path / "curves.png")
    assert drawn == [("igc/loss_read", (1,), (0.5,)), ("loss", (1, 2), (2.0, 1.0)), ("eval_exact_match", (2,), (0.5,))]
    assert (tmp_path / "curves.png").stat().st_size > 1000
    draw_curves(history, tmp_path / "no folder" / "curves.png")
    assert "The learning curves could not be written to" in caplog.text
    draw_curves([{"loss": 1.0}, {"x_loss": {"a": 1}, "step": 1}, {"step": 2, "loss": 0.0}], tmp_path / "odd.png")
    assert (tmp_path / "odd.png").exists()
    draw_curves([{"step": 1, "train_loss": 1.0}], tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    draw_curves(history, tmp_path / "curves.png")
    assert "matplotlib.figure" in caplog.text


def test_the_card_keeps_trls_metadata_and_says_how_to_load(tmp_path):
    model = igc_model()
    model.base_model.model.config.name_or_path = "someone/base"
    trainer(tmp_path, model=model).create_model_card("adder", dataset_name="sums", tags="maths")
    text = (tmp_path / "README.md").read_text()
    for metadata in (
        "base_model: someone/base",
        "datasets:\n- sums",
        "- sft",
        "- igc",
        "- maths",
        "library_name: peft",
    ):
        assert metadata in text
    for words in ("licence: license", "pipeline(", "TRL", "More Information", "visualize"):
        assert words not in text
    block = text.split("```python")[1].split("```")[0]
    assert block.strip().startswith("import peft_igc")
    assert 'base = "someone/base"\n' in block
    assert 'PeftModel.from_pretrained(model, "adder")' in block


def test_the_card_says_what_was_trained_and_measured(tmp_path):
    made = trainer(tmp_path, eval_dataset={"sums": to_dataset(rows(3)), "more": to_dataset(rows(2))})
    made.create_model_card("adder")
    assert "It has not been evaluated." in (tmp_path / "README.md").read_text()
    made.train()
    metrics = made.evaluate()
    for write in (made.create_model_card, made.save_model):
        write()
        text = (tmp_path / "README.md").read_text()
        assert text.count("## Training record") == text.count("## Quick start") == 1
        assert "Trained for 2 steps." in text
        assert "Data for training: 8 rows, 8 annotated." in text
        assert "Data for evaluation (sums): 3 rows, 3 annotated." in text
        assert "Evaluated after step 2:" in text
        for name in ("eval_sums_loss", "eval_more_loss", "eval_sums_igc/read_accuracy"):
            assert f"| `{name}` | {metrics[name]:.6g} |" in text
        assert "runtime" not in text
        assert f'PeftModel.from_pretrained(model, "{tmp_path.name}")' in text
    assert text.index("## Quick start") < text.index("## Training record")


def test_the_config_of_the_active_adapter_counts(tmp_path):
    model = igc_model()
    model.add_adapter("wide", IGCConfig(**{**dataclasses.asdict(small_config()), "num_digits": 6}))
    model.set_adapter("wide")
    batch = first_batch(trainer(tmp_path, model=model))
    assert batch["igc_operands"].shape[-1] == 7
