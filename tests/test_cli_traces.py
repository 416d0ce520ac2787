"""Promises of `peft-igc trace` with files, and of `peft-igc chat` on a pipe."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from traced import PROMPTS, make

from peft_igc import cli, commands


ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Arguments that name the embedded base and a random adapter for it."""
    folder = tmp_path_factory.mktemp("adapter")
    make()[0].save_pretrained(folder)
    return ["--base", "tiny", "--adapter", str(folder), "--max-new-tokens", "4"]


@pytest.fixture
def _loaded(monkeypatch):
    """The model of `given` without loading it again."""
    monkeypatch.setattr(commands, "_load", lambda arguments: make())


def test_trace_writes_a_page_and_lines_for_all_prompts(given, tmp_path, capsys):
    (tmp_path / "prompts.txt").write_text("\n".join(PROMPTS[1:3]))
    page, lines = tmp_path / "trace.html", tmp_path / "trace.jsonl"
    files = ["--prompts", str(tmp_path / "prompts.txt"), "--html", str(page), "--json", str(lines)]
    assert cli.main(["trace", *given, PROMPTS[0], *files]) == 0
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


def test_what_is_missing_for_a_trace_is_named_before_the_base_is_loaded(given, tmp_path, capsys):
    for more, message in [
        (["--json", "What is 1 + 1?"], "There is no prompt. Write one before `--json`"),
        (["1+1", "--html", str(tmp_path)], f"`--html {tmp_path}` is a folder"),
        (["1+1", "--json", "nowhere/a"], "The folder `nowhere` of `--json nowhere/a` does not exist"),
        (["--prompts", str(tmp_path / "none")], "does not exist"),
    ]:
        assert cli.main(["trace", "--base", "nowhere", *given[2:], *more]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.usefixtures("_loaded")
def test_chat_reads_a_pipe(given, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO("3 + 4 * 5 =\n/off\n/trace\n/quit\nnever\n"))
    assert cli.main(["chat", *given]) == 0
    shown = capsys.readouterr().out
    assert "| 3 + 4 * 5 = 23 (by rule)" in shown
    assert "The base model alone:" in shown
    assert "4 * 5 = 20" in Path("trace.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("_loaded")
def test_chat_asks_on_a_terminal_until_its_end(given, capsys, monkeypatch):
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
    assert cli.main(["chat", *given]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Write a message. /help shows the commands, /quit ends.\n")
    assert "3 + 4 = 7" in shown


@pytest.mark.slow
def test_chat_runs_as_a_program_and_answers_before_its_input_ends(given):
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "peft_igc", "chat", *given],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("3 + 4 =\n")
        process.stdin.flush()
        assert "3 + 4 = 7" in process.stdout.readline()
        process.stdin.write("/quit\n")
        process.stdin.close()
        assert process.wait(60) == 0
