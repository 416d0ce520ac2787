"""Promises of the command line, on tiny random models."""

import contextlib
import dataclasses
import gzip
import importlib.util
import io
import json
import sys
import time
from pathlib import Path

import pytest
import torch
from traced import PROMPTS, make

from peft_igc import cli, commands
from peft_igc.annotation.self_annotation import Settings
from peft_igc.inference import decoding, evaluation


@pytest.fixture
def data(tmp_path):
    """Three questions in a file."""
    rows = [{"prompt": f"What is {a} plus 1?", "target": str(a + 1), "group": f"g{a % 2}"} for a in range(3)]
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_trace_prints_what_was_read_and_every_token(base, adapter, capsys):
    arguments = ["trace", "--base", base, "--adapter", str(adapter), "What is 58 times 36?", "--max-new-tokens", "3"]
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    for part in ("operand 1", "operator", "operand 2", "result", "status", "answer"):
        assert part in shown
    assert cli.main([*arguments, "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    made = [line["token"] for line in found if line["record"] == "token" and line["generated"]]
    assert len(made) == 3
    assert all(repr(text) in shown for text in made)


def test_profile_prints_how_a_tokenizer_splits_numbers_and_where_anchor_rules_hold(base, capsys):
    assert cli.main(["profile", base]) == 0
    shown = capsys.readouterr().out
    for part in (base, "numeric tokens            1: 10", "single digits", "interface                 tokens"):
        assert part in shown
    assert cli.main(["profile", base, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tokenizer"], found["family"], found["interface"]) == (base, "single digits", "tokens")
    assert found["numeric_tokens"] == {"1": 10}
    assert cli.main(["profile", "tiny", "--anchors", "=", "answer is"]) == 0
    shown = capsys.readouterr().out
    for part in ("'='; tokens that end in it: 7", "tokens that contain it and continue: 2", "'answer is'; tokens"):
        assert part in shown
    assert cli.main(["profile", "tiny", "--json", "--anchors", "="]) == 0
    assert list(json.loads(capsys.readouterr().out)["anchors"]) == ["="]
    assert "The anchor rule '' is empty" in refused(capsys, "profile", "tiny", "--anchors", "")


def refused(capsys, *arguments):
    """The one line that a refused command leaves on stderr."""
    assert cli.main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_a_row_without_a_target_is_named_with_the_cure(capsys, base, adapter, tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_text('{"prompt": "1 + 1 =", "target": "2"}\n{"prompt": "Hello", "target": null}\n')
    given = ["--base", base, "--adapter", str(adapter), "--data", str(path), "--output", str(tmp_path / "out")]
    for command in ("eval", "audit"):
        line = refused(capsys, command, *given)
        assert f'`{path}`, line 2: "target" is null, so there is nothing to compare an answer with.' in line
        assert "Leave the row out" in line
        assert "`peft-igc calibrate`" in line


def test_what_is_missing_is_named_before_the_base_is_loaded(capsys, data, tmp_path, monkeypatch):
    given = ["eval", "--base", "no-such", "--adapter", "nowhere", "--data", data, "--output"]
    line = refused(capsys, *given, str(tmp_path / "r"))
    assert line.startswith("peft-igc: error: The adapter folder `nowhere` does not exist.")
    line = refused(capsys, *given, str(tmp_path / "no" / "r.json"))
    assert line.endswith("r.json` does not exist. Make it first.")
    for option, said in [("--batch-size", "is not an integer of at least 1"), ("--batch", "unrecognized arguments")]:
        with pytest.raises(SystemExit, match="2"):
            cli.main([*given, "x", option, "0"])
        assert said in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "trl" else object())
    line = refused(capsys, "demo", "--output", str(tmp_path))
    assert "`trl` is not installed. Run `pip install 'peft-igc[train]'`" in line


def test_a_defect_keeps_its_traceback(monkeypatch, base, adapter):
    """A ValueError out of another package is no message for users."""

    def broken(*args, **kwargs):
        torch.zeros(2).view(3, 3)

    monkeypatch.setattr(evaluation, "trace", broken)
    with pytest.raises(RuntimeError):
        cli.main(["trace", "--base", base, "--adapter", str(adapter), "1+1"])
    monkeypatch.setattr(evaluation, "trace", lambda *args, **kwargs: json.loads("{"))
    with pytest.raises(ValueError, match="Expecting property name"):
        cli.main(["trace", "--base", base, "--adapter", str(adapter), "1+1"])


@pytest.fixture
def rows(tmp_path):
    """Two training rows in a file."""
    path = tmp_path / "rows.jsonl"
    given = [{"prompt": "6/3=", "completion": "2"}, {"prompt": "Hi", "completion": "Hi"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in given))
    return str(path)


def test_annotate_writes_rows_and_a_report_that_names_its_inputs(base, rows, tmp_path, capsys):
    output = tmp_path / "made.jsonl"
    assert cli.main(["annotate", "--model", base, "--data", rows, "--output", str(output), "--margin", "0"]) == 0
    made = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["prompt"] for row in made] == ["6/3=", "Hi"]
    assert made[1]["igc_operator"] is None
    report = json.loads((tmp_path / "made.report.json").read_text())
    assert (report["model"], report["data"], report["rows"], report["candidates"]) == (base, rows, 2, 6)
    assert report["settings"] == dataclasses.asdict(Settings(margin=0))
    assert "made.report.json`" in capsys.readouterr().out


def test_annotate_refuses_what_it_cannot_use_and_leaves_no_file(capsys, base, rows, tmp_path):
    output = ["--output", str(tmp_path / "made.jsonl")]
    (tmp_path / "own.jsonl").write_text('{"prompt": "6/3=", "completion": "2", "igc_operator": "/"}\n')
    own = ["--data", str(tmp_path / "own.jsonl"), *output]
    assert "row 0 has operand columns already" in refused(capsys, "annotate", "--model", base, *own)
    same = ["--data", rows, "--output", rows]
    assert "`--data` and `--output` both name" in refused(capsys, "annotate", "--model", base, *same)
    for command, option in (("eval", "output"), ("audit", "html")):
        items = ["--adapter", "tiny", "--data", rows, *(["--output", "x"] * (option == "html")), f"--{option}", rows]
        assert f"`--data` and `--{option}` both name" in refused(capsys, command, "--base", base, *items)
    (tmp_path / "text.jsonl").write_text("[1]\n")
    line = refused(capsys, "annotate", "--model", base, "--data", str(tmp_path / "text.jsonl"), *output)
    assert "line 1: expected an object that is a training row" in line
    assert not [path for path in tmp_path.iterdir() if "made" in path.name]


@pytest.mark.parametrize("suffix", ["jsonl.gz", "csv"])
def test_eval_writes_every_prediction_and_counts_steps(base, adapter, tmp_path, capsys, suffix):
    items = [{"prompt": f"What is {a} plus 1?", "target": str(a + 1), "group": "g"} for a in range(25)]
    path = tmp_path / f"items.{suffix}"
    if suffix == "csv":
        path.write_text("prompt,target,group\n" + "".join(",".join(item.values()) + "\n" for item in items))
    else:
        path.write_bytes(gzip.compress("".join(json.dumps(item) + "\n" for item in items).encode()))
    output, lines = tmp_path / "results.json", tmp_path / "predictions.jsonl"
    given = ["--base", base, "--adapter", str(adapter), "--data", str(path), "--output", str(output)]
    more = ["--predictions", str(lines), "--max-new-tokens", "4", "--dtype", "bfloat16", "--device", "cpu"]
    assert cli.main(["eval", *given, *more]) == 0
    report = json.loads(output.read_text())
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [{name: one[name] for name in items[0]} for one in found] == items
    assert sum(one["right"] for one in found) / 25 == report["exact_match"]
    assert sum(one["cut"] for one in found) == report["truncated"]
    statuses = [status for one in found for status in one["steps"]]
    assert len(statuses) == 25 - report["without_anchor"] == sum(report["steps"].values())
    assert {name: statuses.count(name) for name in set(statuses)} == report["steps"]
    assert {one["source"].partition(" ")[0] for one in found} <= {"calculated:", "by", "cut"}
    wrong = [{name: one[name] for name in ("prompt", "target", "answer")} for one in found if not one["right"]]
    assert report["mistakes"] == wrong[:20]
    shown = capsys.readouterr()
    assert "Steps by status: " in shown.out
    assert f"Written: `{output}`, `{lines}`" in shown.out
    assert "it/s" not in shown.err  # no progress of a short run where there is no terminal


def test_a_terminal_shows_a_bar_of_the_prompts_that_are_done(base, adapter, data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    for _ in decoding.batches_of([[1]] * 3, 2, progress=True):
        time.sleep(0.15)  # the bar of a command that ends at once is not shown
    assert "3/3" in capsys.readouterr().err
    told = []

    class Bar(contextlib.nullcontext):
        def __init__(self, disable, **_):
            super().__init__(self)
            self.update = (lambda done: None) if disable else told.append

    monkeypatch.setattr(decoding, "tqdm", Bar)
    given = ["--base", base, "--adapter", str(adapter), "--data", data, "--output", str(tmp_path / "results.json")]
    for command in ("eval", "audit"):
        assert cli.main([command, *given, "--batch-size", "2", "--max-new-tokens", "2"]) == 0
    assert told == [2, 1] * 2


def test_the_dtype_and_the_device_reach_the_model(monkeypatch, base, adapter, capsys):
    seen = []
    monkeypatch.setattr(evaluation, "trace", lambda model, *args, **kwargs: seen.append(model) or exit())
    given = ["trace", "--base", base, "--adapter", str(adapter), "1+1", "--dtype", "bfloat16", "--device", "meta"]
    with pytest.raises(SystemExit):
        cli.main(given)
    assert seen[0].dtype == torch.bfloat16
    assert seen[0].device.type == "meta"


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """Arguments that name the embedded base and a random adapter for it."""
    folder = tmp_path_factory.mktemp("adapter")
    make()[0].save_pretrained(folder)
    return ["--base", "tiny", "--adapter", str(folder), "--max-new-tokens", "4"]


@pytest.fixture
def _loaded(monkeypatch):
    """The model of `embedded` without loading it again."""
    monkeypatch.setattr(commands, "_load", lambda arguments: make())


def test_trace_writes_a_page_and_lines_for_all_prompts(embedded, tmp_path, capsys):
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS[1:3]))
    page, lines = tmp_path / "trace.html", tmp_path / "trace.jsonl"
    files = ["--prompts", str(tmp_path / "prompts.txt"), "--html", str(page), "--json", str(lines)]
    assert cli.main(["trace", *embedded, PROMPTS[0], *files]) == 0
    assert capsys.readouterr().out.splitlines() == [f"Written: `{page}`, `{lines}`"]
    found = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    texts = ["", "", ""]
    for line in found:
        if line["record"] == "token":
            texts[line["text"]] += line["token"]
            assert (line["base"] is not None) == line["generated"]
    assert all(prompt in text for prompt, text in zip(PROMPTS, texts, strict=False))
    shown = page.read_text(encoding="utf-8")
    assert "12 - 5 = 7" in shown
    assert shown.count("<section>") == 3


def test_what_is_missing_for_a_trace_is_named_before_the_base_is_loaded(embedded, tmp_path, capsys):
    for more, message in [
        (["--json", "What is 1 + 1?"], "There is no prompt. Write one before `--json`"),
        (["1+1", "--html", str(tmp_path)], f"`--html {tmp_path}` is a folder"),
        (["1+1", "--json", "nowhere/a"], "The folder `nowhere` of `--json nowhere/a` does not exist"),
        (["--prompts", str(tmp_path / "none")], "none` does not exist. Pass the name of a file."),
        (["--prompts", str(tmp_path)], f"`{tmp_path}` is a folder. Pass the name of a file."),
    ]:
        assert cli.main(["trace", "--base", "nowhere", *embedded[2:], *more]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.usefixtures("_loaded")
def test_chat_reads_a_pipe(embedded, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("3 + 4 * 5 =\n/off\n/trace\n/quit\nnever\n"))
    assert cli.main(["chat", *embedded]) == 0
    shown = capsys.readouterr().out
    assert "| 3 + 4 * 5 = 23 (by rule)" in shown
    assert "The base model alone:" in shown
    assert "4 * 5 = 20" in Path("trace.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("_loaded")
def test_chat_asks_on_a_terminal_until_its_end(embedded, capsys, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    lines = iter(["3 + 4 ="])

    def ask(prompt):
        assert prompt == "> "
        for line in lines:
            return line
        raise EOFError

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", ask)
    assert cli.main(["chat", *embedded]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Write a message. /help shows the commands, /quit ends.\n")
    assert "3 + 4 = 7" in shown
