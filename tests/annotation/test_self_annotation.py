"""Promises of `candidates`, `note_losses` and `self_annotation`.

What is chosen is tested with losses from a table, the losses themselves against a loop over single texts on a random
model, the model's proposals with a stub in place of `generate` (the embedded base is no few-shot learner: it proposes
nothing that can be read), and the whole on the embedded base, which copies results from notes.
"""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny_models import tiny_model
from trl import DatasetMixtureConfig, ScriptArguments

from peft_igc.annotation import self_annotation
from peft_igc.annotation.answer_loss import answer_losses, read_row
from peft_igc.annotation.candidates import Calculation, by_model, by_pattern, numbers_of
from peft_igc.annotation.self_annotation import Settings, annotate, report_path, write
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.columns import COLUMNS, ROW_COLUMN
from peft_igc.data.dataset import to_dataset
from peft_igc.data.mixture import Mixture
from peft_igc.inference import loading
from peft_igc.sft.arguments import IGCArguments
from peft_igc.sft.datasets import load_corpora


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


# ---------------------------------------------------------------------------------------------- candidates
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is 58 times 36?", ["58", "36"]),
        ("007 and 1,234,567.", ["7", "1234567"]),
        ("-5 + 3, is -7, 2 * -8, (-9)", ["-5", "3", "-7", "2", "-8", "-9"]),
        ("10 - 3, 10-3, 10 -3, (4) -2", ["10", "3", "10", "3", "10", "3", "4", "2"]),
        ("negative 4 minus 2, minus -0", ["-4", "2", "0"]),
        ("\u22125 and 6", ["-5", "6"]),
        ("5% of 1.5 kg at 10:30, x2, 5th, 3^2", []),
        ("five plus six", []),
    ],
)
def test_the_numbers_of_a_text_are_its_integers_with_their_signs(text, expected):
    assert numbers_of(text) == expected


def test_pairs_give_every_operation_and_both_orders_where_they_differ():
    refused = Counter()
    found = by_pattern(["6", "3"], 10, refused)
    assert found == [
        Calculation("+", "6", "3", "9"),
        Calculation("-", "6", "3", "3"),
        Calculation("-", "3", "6", "-3"),
        Calculation("*", "6", "3", "18"),
        Calculation("/", "6", "3", "2"),
    ]
    assert refused == {"inexact": 1}


def test_only_exact_results_that_fit_are_candidates_and_the_others_are_counted():
    refused = Counter()
    assert {c.operator for c in by_pattern(["999", "0"], 3, refused)} == {"+", "-", "*", "/"}
    assert refused == {"undefined": 1}
    refused.clear()
    assert [c.result for c in by_pattern(["999", "2"], 3, refused)] == ["997", "-997"]
    assert refused == {"overflow": 2, "inexact": 2}
    refused.clear()
    assert len(by_pattern(["5", "5"], 3, refused)) == 4
    assert refused == {"repeated": 2}


def test_a_proposal_needs_numbers_of_the_prompt_and_is_refused_with_its_reason():
    refused, known = Counter(), [Calculation("+", "58", "36", "94")]
    written = "\n058 * 36 = 1\n-58 x 36\n58 + 36\n58 * 37\n58 + 58\nabout 60\n58 / 36\n36 - 58\n\nText: 1\n1 + 1"
    assert by_model(written, ["58", "36"], 7, 10, refused, known) == 8
    assert known[1:] == [Calculation("*", "58", "36", "2088"), Calculation("*", "-58", "36", "-2088")]
    assert refused == {
        "repeated": 1,
        "operand not in the prompt": 2,
        "unreadable": 1,
        "inexact": 1,
        "more than asked for": 1,
    }


# ---------------------------------------------------------------------------------------------- losses
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


# ---------------------------------------------------------------------------------------------- what is kept
def test_the_best_candidate_is_kept_if_its_result_helps_more_than_no_note_and_than_the_bare_calculation(
    monkeypatch, model, tokenizer
):
    table = {"58 * 36 is 2088. ": 1.0, "58 + 36 is 94. ": 2.0, "58 * 36 is. ": 3.0}
    with_losses(monkeypatch, table)
    made, report = annotate([row("What is 58 times 36?", "2088")], model, tokenizer, Settings(margin=2.0))
    assert [made[0][name] for name in COLUMNS] == ["*", ["58", "36"], "2088"]
    assert report.kept == 1
    assert report.examples[0]["nats_per_token"] == {"with_result": 1.0, "without_note": 5.0, "without_result": 3.0}


@pytest.mark.parametrize(
    ("bare", "call", "reason"),
    [(2.9, 9.0, "margin missed without a note"), (9.0, 2.9, "margin missed without the result")],
)
def test_what_helps_less_than_the_margin_is_not_kept_and_the_reason_is_counted(
    monkeypatch, model, tokenizer, bare, call, reason
):
    with_losses(monkeypatch, {"58 * 36 is 2088. ": 1.0, "58 * 36 is. ": call}, bare)
    made, report = annotate([row("What is 58 times 36?", "2088")], model, tokenizer, Settings(margin=2.0))
    assert [made[0][name] for name in COLUMNS] == [None, None, None]
    assert report.kept == 0
    assert report.rejected[reason] == 1


def test_every_candidate_is_counted_once(monkeypatch, model, tokenizer):
    with_losses(monkeypatch, {"6 / 3 is 2. ": 0.0})
    prompts = ["6 / 3", "6 / 0", "Hello.", "1 2 3 4 5", "7 and 1000000000000"]
    _, report = annotate([row(prompt, "2") for prompt in prompts], model, tokenizer, Settings(batch_size=2))
    assert report.proposed.total() == 6 * (1 + 1 + 0 + 6 + 1)
    assert report.proposed.total() == report.kept + report.rejected.total()
    assert (report.rows, report.kept, report.rows_without_candidates, report.rows_with_more_numbers) == (5, 1, 2, 1)
    shown = report.format()
    assert "another one was better" in shown
    assert "6 / 3 = 2" in shown


def test_the_models_own_proposals_reach_beyond_the_last_numbers(monkeypatch, model, tokenizer):
    asked = []

    def generate(input_ids, **options):
        asked.extend(tokenizer.batch_decode(input_ids, skip_special_tokens=True))
        answer = tokenizer(" 8 * 7\nfoo\n\nText", add_special_tokens=False)["input_ids"]
        return torch.cat([input_ids, torch.tensor([answer] * len(input_ids))], 1)

    monkeypatch.setattr(model, "generate", generate)
    with_losses(monkeypatch, {"8 * 7 is 56. ": 0.0})
    settings = Settings(max_numbers=2, proposals=2)
    made, report = annotate(
        [row("8 boxes of 7 eggs in 30 or 31 shops", "56"), row("Hi", "Hi")], model, tokenizer, settings
    )
    assert [made[0][name] for name in COLUMNS] == ["*", ["8", "7"], "56"]
    assert report.proposed == {"pattern": 6, "model": 2}
    assert report.rejected["unreadable"] == 1
    assert report.proposed.total() == report.kept + report.rejected.total()
    assert "repeated" not in report.rejected  # the pairs are those of 30 and 31
    assert len(asked) == 1  # nothing is asked about a text without two numbers
    assert "Text: 8 boxes of 7 eggs in 30 or 31 shops\nCalculations:" in asked[0]


# ---------------------------------------------------------------------------------------------- honesty
def test_the_check_never_shows_the_columns_to_the_method_and_counts_right_and_wrong(monkeypatch, model, tokenizer):
    given = [
        row("3 + 6", "9") | {"igc_operator": "+", "igc_operands": ["6", "3"], "igc_result": "9"},
        row("Take 2 from 8", "6") | {"igc_operator": "-", "igc_operands": ["8", "2"], "igc_result": "6"},
        row("4 and 2", "8") | {"igc_operator": "+", "igc_operands": ["4", "4"], "igc_result": "8"},
        row("Say 5 and 1", "6") | {"igc_operator": "none", "igc_operands": None, "igc_result": None},
        row("9 and 7", "63") | {"igc_operator": None, "igc_operands": None, "igc_result": None},
    ]
    notes = ["3 + 6 is 9. ", "4 * 2 is 8. ", "5 + 1 is 6. ", "9 * 7 is 63. "]
    with_losses(monkeypatch, dict.fromkeys(notes, 0.0))
    made, report = annotate(given, model, tokenizer, check=True)
    assert report.check == {
        "rows": 4,
        "asking": 3,
        "kept": 3,
        "right": 1,
        "same_result": 2,
        "precision": pytest.approx(1 / 3),
        "recall": pytest.approx(1 / 3),
    }
    stripped = [{name: value for name, value in one.items() if name not in COLUMNS} for one in given]
    assert annotate(stripped, model, tokenizer).rows == made
    assert given[0]["igc_operator"] == "+"  # what was handed in stays as it was


# ---------------------------------------------------------------------------------------------- rows and files
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"text": "2 + 3 = 5"}, "row 0 has `text`: where its answer begins is not known"),
        ({"prompt": "2 + 3 ="}, "must be two strings `prompt` and `completion`"),
        ({"prompt": [], "completion": [{"role": "assistant", "content": "5"}]}, r"roles \['assistant'\]"),
        ({"messages": [{"role": "user", "content": "2 + 3"}]}, r"roles \['user'\]"),
        ({"messages": [*row("", "")["prompt"], *row("", "")["completion"]]}, "empty prompt or answer"),
        ({"messages": 2 * [*row("2 + 3", "")["prompt"], *row("", "5")["completion"]]}, "a row per answer"),
        (row("2 + 3", "5") | {"tools": ["x"]}, "row 0 has `tools`"),
        (row("2 + 3", "5") | {"igc_operator": "+"}, "has operand columns already"),
    ],
)
def test_rows_of_another_form_are_refused_by_number(model, tokenizer, bad, message):
    with pytest.raises(ValueError, match=message):
        annotate([bad], model, tokenizer)


@pytest.mark.parametrize(
    ("field", "value"), [("margin", -1), ("margin", float("nan")), ("batch_size", 0), ("num_digits", 0)]
)
def test_settings_that_mean_nothing_are_refused(field, value):
    with pytest.raises(ValueError, match=f"`{field}={value}` must be at least"):
        Settings(**{field: value})


def test_what_is_written_is_loaded_for_training_without_the_report(tmp_path, model, tokenizer):
    annotated, output = annotate([row("6 / 3", "2"), row("Hi", "Hi")], model, tokenizer), tmp_path / "made.jsonl"
    write(annotated, output, {})
    assert report_path(output).is_file()
    training = SimpleNamespace(eval_strategy="no", seed=0, assistant_only_loss=False, dataset_text_field="text")
    named = ScriptArguments(dataset_name=str(output))
    train, _ = load_corpora(named, DatasetMixtureConfig(), training, IGCArguments())
    assert train.remove_columns(ROW_COLUMN).to_list() == to_dataset(annotated.rows).to_list()


def test_files_are_written_whole_or_not_at_all(monkeypatch, tmp_path, model, tokenizer):
    with_losses(monkeypatch, {"6 / 3 is 2. ": 0.0})
    annotated, output = annotate([row("6 / 3 \u00d7", "2")], model, tokenizer), tmp_path / "made.jsonl"
    write(annotated, output, {"model": "x"})
    assert json.loads(output.read_text(encoding="utf-8")) == annotated.rows[0]
    assert json.loads(report_path(output).read_text()) == {"model": "x"} | annotated.report.as_dict()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(before) == ["made.jsonl", "made.report.json"]

    def fail(self, *args, **options):
        if self.name.startswith(".made.jsonl"):
            raise OSError("disk full")
        return real(self, *args, **options)

    real = Path.write_text
    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match="disk full"):
        write(annotated, output, {"model": "y"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_the_embedded_base_finds_most_of_the_calculations_and_is_seldom_wrong(base):
    stream = ArithmeticRows(seed=7, max_digits=4, mixture=Mixture(none=0.2, overflow=0.0))
    check = annotate(stream.take(100), *base, check=True).report.check
    assert (check["rows"], check["asking"]) == (100, 76)
    # Measured: 50 kept, 46 of them right. Losses near the margin may fall to either side on other processors.
    assert check["precision"] >= 0.92
    assert check["recall"] >= 0.60
