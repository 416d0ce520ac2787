"""The project's Markdown pages, and what the tests of documentation take out of them: code blocks, shell lines, links.

`check_shell_line` parses one line as its program would: `peft-igc` and the benchmarks with their own parsers, `make`
by the Makefile's targets, `pip` by the extras of `pyproject.toml`. Nothing is trained, installed or written.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from peft_igc.engines.vllm.checks import Setting


ROOT = Path(__file__).parents[2]
SKIPPED = {".venv", ".cache", ".git", ".pytest_cache", "build", "dist", "demo-output"}  # not of the project
PAGES = sorted(
    path for path in ROOT.rglob("*.md") if not SKIPPED.intersection(path.relative_to(ROOT).parts) and path.is_file()
)
# The pages whose code blocks are tested.
WITH_CODE = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "recipes/README.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
LANGUAGES = {"python", "bash", "console", ""}  # without a language: a tree or a drawing, no code
PLACEHOLDER = re.compile(r"\b(NAME|ROOM|N)\b")


def name_of(page: Path) -> str:
    """A page's path in the project, for the ids of tests."""
    return str(page.relative_to(ROOT))


def text_of(page: Path | str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page as (language, content)."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def shell_lines(text: str) -> list[str]:
    """The commands of a page, continued lines joined: of blocks (`console`: after a `$`), and lines in backticks."""
    found = re.findall(r"^`((?:[A-Z_]+=\S+ )?(?:python|peft-igc|make) [^`]+)`$", prose(text), re.MULTILINE)
    for language, content in blocks(text):
        if language in ("bash", "console"):
            lines = content.replace("\\\n", " ").splitlines()
            if language == "console":
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            found += [line for line in lines if shlex.split(line, comments=True)]
    return found


def links(text: str) -> list[str]:
    """Targets of the links and images of a page, but for those on the web."""
    found = re.findall(r"\]\(([^()\s]+)\)", prose(text))
    return [target for target in found if not target.startswith(("http://", "https://"))]


def headings(text: str) -> set[str]:
    """The names under which a page's headings can be linked to, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def section(text: str, heading: str) -> str:
    """The part of a page below a heading, up to the next one of its level."""
    level = heading[: heading.index(" ")]
    begin = text.index(f"{heading}\n")
    end = re.search(rf"^#{{1,{len(level)}}} ", text[begin + len(heading) :], re.MULTILINE)
    return text[begin : begin + len(heading) + end.start()] if end else text[begin:]


def resolved(dotted: str) -> Any:
    """What a dotted name such as `peft_igc.trainer.IGCTrainer` stands for.

    Raises:
        ImportError, AttributeError: There is no such module or name.
    """
    head, *rest = dotted.split(".")
    found = importlib.import_module(head)
    for at, name in enumerate(rest, start=1):
        try:
            found = importlib.import_module(".".join([head, *rest[:at]]))
        except ModuleNotFoundError as error:
            if error.name == "vllm":  # it has an environment of its own
                break
            found = getattr(found, name)
    return found


class _Parsed(Exception):  # noqa: N818 - no error: the arguments of a program were understood
    """Ends a program once it has parsed its arguments."""


def _parse_only(run: Any, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a program up to the end of its `parse_args`; arguments that it refuses end in a SystemExit."""
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(self: Any, args: Any = None, namespace: Any = None) -> None:
        parse(self, args, namespace)
        raise _Parsed

    with monkeypatch.context() as patched:
        patched.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
        patched.setattr(sys, "argv", ["program", *arguments])
        with pytest.raises(_Parsed):
            run()


def check_shell_line(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails for a line whose program, subcommand, option, module or file does not exist.

    Raises:
        AssertionError, ImportError, ValueError, SystemExit: So it is.
    """
    # Documentation writes options out: without this argparse (Python 3.11) would take `--anch` for `--anchors`.
    monkeypatch.setattr(argparse.ArgumentParser, "_get_option_tuples", lambda self, text: [])
    words = shlex.split(line, comments=True)
    while re.match(r"[A-Z_]+=", words[0]):
        del words[0]
    program, arguments = words[0].removeprefix(".venv/bin/"), words[1:]
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()} - SKIPPED
    for word in arguments:
        if word.split("/")[0] in folders and "/" in word:
            assert (ROOT / word).exists(), f"`{line}` names `{word}`, which does not exist."
    if program == "make":
        targets = " ".join(re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert set(arguments) <= set(targets.split()), f"`{line}` names no target of the Makefile."
    elif program == "pip":
        _check_pip(line, arguments)
    elif program == "peft-igc":
        _check_own_program(arguments)
    elif program == "python" and arguments[:2] == ["-m", "pytest"]:
        assert any((ROOT / word).exists() for word in arguments[2:]), f"`{line}` names no tests."
    elif program == "python" and arguments[0] == "-m":
        module = arguments[1]
        assert module.split(".")[0] in ("benchmarks", "peft_igc"), f"`{line}` is not a module of this project."
        _parse_only(lambda: runpy.run_module(module, run_name="__main__"), arguments[2:], monkeypatch)
    elif program == "python":
        script = str(ROOT / arguments[0])
        _parse_only(lambda: runpy.run_path(script, run_name="__main__"), arguments[1:], monkeypatch)
    elif program == "lm_eval":
        tasks = arguments[arguments.index("--tasks") + 1].split(",")
        assert all((ROOT / "peft_igc" / "assets" / "lm_eval" / f"{task}.yaml").is_file() for task in tasks), line
    elif program == "vllm":
        given = json.loads(arguments[arguments.index("--additional-config") + 1])
        assert Setting.of(SimpleNamespace(additional_config=given)), line
        named = arguments[arguments.index("--worker-extension-cls") + 1].rpartition(".")[0]
        assert (ROOT / f"{named.replace('.', '/')}.py").is_file(), line
    else:
        raise AssertionError(f"`{line}` begins with a program that no test knows.")


def _check_pip(line: str, arguments: list[str]) -> None:
    """`pip install` of the project with extras that it has, or of other packages."""
    assert arguments[0] == "install", line
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in arguments:
        if named := re.fullmatch(r"\.\[(.*)\]", word):
            assert set(named[1].split(",")) <= set(extras), line
    if "-c" in arguments:
        assert (ROOT / arguments[arguments.index("-c") + 1]).is_file(), line


def _check_own_program(arguments: list[str]) -> None:
    """`peft-igc`; all arguments of `sft` are TRL's to parse."""
    from peft_igc.cli import build_parser
    from peft_igc.sft.run import parse

    build_parser().parse_args(arguments)
    if arguments[0] == "sft":
        parse(arguments[1:])
