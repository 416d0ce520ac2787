"""Promises of `self_annotation`: which calculations are tried, which are kept, and what is written.

What is chosen is tested with losses from a table, the losses themselves against a loop over single texts on a random
model, and the whole on the embedded base, which copies results from notes.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_models import tiny_model
from trl import DatasetMixtureConfig, ScriptArguments

from peft_igc.annotation import self_annotation
from peft_igc.annotation.self_annotation import (
    Report,
    Settings,
    annotate,
    answer_losses,
    candidates,
    numbers_of,
    read_row,
    report_path,
    write,
)
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.columns import COLUMNS, ROW_COLUMN
from peft_igc.data.dataset import to_dataset
from peft_igc.data.files import read_rows
from peft_igc.data.mixture import Mixture
from peft_igc.inference import loading
from peft_igc.sft.arguments import IGCArguments, Parsed
from peft_igc.sft.datasets import load_corpora


# Texts with their numbers, and rows that are refused.
LINES = read_rows(Path(__file__).with_name("rows.jsonl"))


@pytest.fixture(scope="module")
def base():
    """The embedded base."""
    return loading.tiny_base()


@pytest.fixture(scope="module")
def tokenizer(base):
    """The embedded base's tokenizer."""
    return base[1]


@pytest.fixture
def model(tokenizer):
    """A random model for it."""
    return tiny_model("llama", vocab_size=len(tokenizer))


def row(prompt, completion):
    """A conversational row."""
    return {
        "prompt": [{"role": "user", "content": prompt}],
        "completion": [{"role": "assistant", "content": completion}],
    }


def with_losses(monkeypatch, table, bare=5.0):
    """Lets the losses be those of a table, by note; `bare` without one, 4.0 for notes that are not in it."""
    seen = []

    def losses(model, tokenizer, tried, batch_size):
        seen.append([(scored.text, note) for scored, note in tried])
        return [table.get(note, 4.0) if note else bare for _, note in tried]

    monkeypatch.setattr(self_annotation, "answer_losses", losses)
    return seen


def test_the_numbers_of_a_text_are_its_integers_with_their_signs():
    for line in (line for line in LINES if "text" in line):
        assert numbers_of(line["text"]) == line["numbers"]


def test_candidates_are_all_exact_calculations_of_two_numbers_and_the_others_are_counted():
    for numbers, digits, expected, refused in (
        ("6 3", 10, "6+3=9 6-3=3 3-6=-3 6*3=18 6/3=2", {"inexact": 1}),
        ("999 0", 3, "999+0=999 999-0=999 0-999=-999 999*0=0 0/999=0", {"undefined": 1}),
        ("999 2", 3, "999-2=997 2-999=-997", {"overflow": 2, "inexact": 2}),
        ("5 5", 3, "5+5=10 5-5=0 5*5=25 5/5=1", {"repeated": 2}),
    ):
        report = Report()
        found = candidates(numbers, Settings(num_digits=digits), report)
        assert [f"{one.a}{one.operator}{one.b}={one.result}" for one in found] == expected.split()
        assert report.rejected == refused


def loss_of_one(model, tokenizer, context, answer):
    """The naive twin: one text, without padding."""
    before = tokenizer(context, add_special_tokens=False)["input_ids"]
    wanted = tokenizer(answer, add_special_tokens=False)["input_ids"]
    scores = model(torch.tensor([before + wanted])).logits[0].log_softmax(-1)
    return -sum(scores[len(before) - 1 + at, token].item() for at, token in enumerate(wanted)) / len(wanted)


@torch.no_grad()
def test_losses_of_a_batch_are_those_of_single_texts_and_the_note_stands_before_the_last_message(model, tokenizer):
    system = {"role": "system", "content": "Be short."}
    chat = [system, {"role": "user", "content": "What is 58 times 36?"}]
    rows = [
        read_row({"messages": [*chat, {"role": "assistant", "content": "It is 2088."}]}, "row"),
        read_row(row("Add 2 and 3.", "5"), "row"),
        read_row({"prompt": "2+3=", "completion": " 5"}, "row"),
    ]
    tried = [(one, note) for one in rows for note in ("", "2 + 3 is 5. ")]
    expected = []
    for one, note in tried:
        context = note + one.context if isinstance(one.context, str) else None
        if context is None:
            *before, last = one.context
            noted = [*before, {"role": "user", "content": note + last["content"]}]
            context = tokenizer.apply_chat_template(noted, add_generation_prompt=True, tokenize=False)
        else:
            context = tokenizer.decode(tokenizer("")["input_ids"]) + context  # what the tokenizer puts first
        expected.append(loss_of_one(model, tokenizer, context, one.answer))
    for batch_size in (1, 4):
        assert answer_losses(model, tokenizer, tried, batch_size) == pytest.approx(expected, abs=1e-5)
    assert len({round(loss, 4) for loss in expected}) == 6


def test_the_best_candidate_is_kept_if_its_result_helps_more_than_no_note_and_than_the_bare_calculation(
    monkeypatch, model, tokenizer
):
    for bare, call, missed in [(2.9, 9.0, "a note"), (9.0, 2.9, "the result")]:  # by less than the margin
        with_losses(monkeypatch, {"58 * 36 is 2088. ": 1.0, "58 * 36 is. ": call}, bare)
        made, report = annotate([row("What is 58 times 36?", "2088")], model, tokenizer, Settings(margin=2.0))
        assert [made[0][name] for name in COLUMNS] == [None, None, None]
        assert (report.kept, report.rejected[f"margin missed without {missed}"]) == (0, 1)
    table = {"58 * 36 is 2088. ": 1.0, "58 + 36 is 94. ": 2.0, "58 * 36 is. ": 3.0}
    with_losses(monkeypatch, table)
    made, report = annotate([row("What is 58 times 36?", "2088")], model, tokenizer, Settings(margin=2.0))
    assert [made[0][name] for name in COLUMNS] == ["*", ["58", "36"], "2088"]
    assert report.kept == 1
    assert report.examples[0]["nats_per_token"] == {"with_result": 1.0, "without_note": 5.0, "without_result": 3.0}


def test_every_candidate_is_counted_once(monkeypatch, model, tokenizer):
    with_losses(monkeypatch, {"6 / 3 is 2. ": 0.0})
    prompts = ["6 / 3", "6 / 0", "Hello.", "1 2 3 4 5", "7 and 1000000000000"]
    _, report = annotate([row(prompt, "2") for prompt in prompts], model, tokenizer, Settings(batch_size=2))
    assert report.candidates == 6 * (1 + 1 + 0 + 6 + 1)
    assert report.candidates == report.kept + report.rejected.total()
    assert (report.rows, report.kept, report.rows_without_candidates, report.rows_with_more_numbers) == (5, 1, 2, 1)
    shown = report.format()
    assert "another one was better" in shown
    assert "6 / 3 = 2" in shown


@pytest.mark.parametrize("line", [line for line in LINES if "row" in line], ids=lambda line: line["message"])
def test_rows_of_another_form_are_refused_by_number(model, tokenizer, line):
    with pytest.raises(ValueError, match=line["message"]):
        annotate([line["row"]], model, tokenizer)


def test_settings_that_mean_nothing_are_refused():
    nothing = {"margin": -1, "batch_size": 0, "num_digits": 0, "max_numbers": 1}
    for field, value in (*nothing.items(), ("margin", float("nan"))):
        with pytest.raises(ValueError, match=f"`{field}={value}` must be at least"):
            Settings(**{field: value})


def test_rows_and_report_are_written_and_the_rows_are_loaded_for_training_without_the_report(
    tmp_path, model, tokenizer
):
    annotated = annotate([row("6 / 3 \u00d7", "2"), row("Hi", "Hi")], model, tokenizer)
    output = tmp_path / "made.jsonl"
    write(annotated, output, {"model": "x"})
    assert [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()] == annotated.rows
    assert json.loads(report_path(output).read_text()) == {"model": "x"} | annotated.report.as_dict()
    training = SimpleNamespace(eval_strategy="no", seed=0, assistant_only_loss=False, dataset_text_field="text")
    named = ScriptArguments(dataset_name=str(output))
    train, *_ = load_corpora(Parsed(named, training, None, DatasetMixtureConfig(), IGCArguments(), []))
    assert train.remove_columns(ROW_COLUMN).to_list() == to_dataset(annotated.rows).to_list()


def test_on_a_full_disk_there_are_neither_rows_without_their_report_nor_parts_of_files(tmp_path, monkeypatch):
    output, whole = tmp_path / "made.jsonl", Path.write_text
    output.write_text("of an earlier run\n")

    def full(path, *arguments, **options):
        if "report" in path.name:
            raise OSError("No space left on device")
        return whole(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        write(SimpleNamespace(rows=[{"prompt": "1+1"}], report=SimpleNamespace(as_dict=dict)), output, {})
    assert output.read_text() == "of an earlier run\n"
    assert [*tmp_path.iterdir()] == [output]


@pytest.mark.slow
def test_the_embedded_base_finds_most_of_the_calculations_and_is_seldom_wrong(base):
    given = ArithmeticRows(seed=7, max_digits=4, mixture=Mixture(none=0.2, overflow=0.0)).take(100)
    stripped = [{name: value for name, value in one.items() if name not in COLUMNS} for one in given]
    asking = kept = right = 0
    for one, made in zip(given, annotate(stripped, *base).rows, strict=True):
        asked = one["igc_operator"] != "none" and str(one["igc_result"]).lstrip("-").isdecimal()
        asking, kept = asking + asked, kept + (made["igc_operator"] is not None)
        operands = [one["igc_operands"], made["igc_operands"]]
        if made["igc_operator"] in ("+", "*") and asked:
            operands = [sorted(pair) for pair in operands]
        right += asked and one["igc_operator"] == made["igc_operator"] and operands[0] == operands[1]
    assert asking == 76
    # Measured: 50 kept, 46 of them right. Losses near the margin may fall to either side on other processors.
    assert right / kept >= 0.92
    assert right / asking >= 0.60
