"""The documentation is true: its code runs, its commands parse, its links exist, its generated parts are current.

Tables of results are compared with their JSON in `tests/benchmarks/test_tables.py`.
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
from unittest import mock

import pytest
from tiny_training import NESTED

from peft_igc.cli import build_parser
from peft_igc.engines.vllm.checks import Setting
from peft_igc.numbers.calculator import OPERATIONS
from peft_igc.sft import run as sft


ROOT = Path(__file__).parents[1]
SKIPPED = {".venv", ".cache", ".git", ".pytest_cache", "build", "dist", "demo-output"}  # not of the project
PAGES = sorted(
    path for path in ROOT.rglob("*.md") if not SKIPPED.intersection(path.relative_to(ROOT).parts) and path.is_file()
)
# The pages whose code blocks are tested.
WITH_CODE = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "recipes/README.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
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


def resolved(dotted: str) -> Any:
    """The object with a dotted name such as `peft_igc.trainer.IGCTrainer`; an error if there is none."""
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
    """Fails for a line whose program, subcommand, option, module or file does not exist."""
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
        build_parser().parse_args(arguments)
        if arguments[0] == "sft":  # all of whose arguments are TRL's to parse
            sft.parse(arguments[1:])
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


README = text_of("README.md")
MOST_WORDS = 12_000  # of all pages but the model card in the package
with_code = pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
LINES = [pytest.param(line, id=f"{name_of(p)}: {line}") for p in WITH_CODE for line in shell_lines(text_of(p))]


def test_pages_keep_to_their_sizes():
    lines = {"README.md": 150, "CONTRIBUTING.md": 100, "CHANGELOG.md": 60, "benchmarks/README.md": 300}
    for page, most in lines.items():
        assert len(text_of(page).splitlines()) <= most, page
    assert sum(len(text_of(page).split()) for page in PAGES if "peft_igc" not in name_of(page)) <= MOST_WORDS


def test_the_generated_parts_of_pages_are_current():
    generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert generate["filled"](text) == text, f"`{name_of(page)}` is not current: python docs/generate.py"


@pytest.mark.slow
@with_code
@pytest.mark.filterwarnings(*NESTED)  # where a LoRA goes around a calculator
@mock.patch.dict(OPERATIONS)  # what a page registers is gone after its test
def test_the_python_blocks_of_a_page_run_in_their_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    printed = []
    for language, content in blocks(text_of(page)):
        if language == "python":
            exec(compile(content, name_of(page), "exec"), names)
            printed.append(capsys.readouterr().out)
    if page.name == "README.md" and page.parent == ROOT:
        first, *_ = (content for language, content in blocks(text_of(page)) if language == "python")
        assert printed[0].splitlines() == re.findall(r"# (\d.*)", first)  # right after the installation
        assert (tmp_path / "build" / "igc" / "adapter" / "adapter_model.safetensors").is_file()


@pytest.mark.parametrize("line", LINES)
@pytest.mark.filterwarnings("ignore:.* found in sys.modules after import of package:RuntimeWarning")
def test_a_shell_line_is_understood(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    check_shell_line(line, monkeypatch)


def test_the_readme_has_every_command():
    (commands,) = (action for action in build_parser()._actions if action.metavar == "COMMAND")
    assert {line.split()[1] for line in shell_lines(README) if line.startswith("peft-igc ")} == set(commands.choices)


@pytest.mark.slow
def test_the_command_of_fine_tuning_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sft, "has_default", lambda: False)
    (line,) = (line for line in shell_lines(text_of("docs/training.md")) if line.endswith("--output_dir build/sft"))
    assert sft.run(line.split()[2:]) == 1  # as the page says: two steps teach nothing
    assert (tmp_path / "build" / "sft" / "adapter_model.safetensors").is_file()
    config = json.loads((tmp_path / "build" / "sft" / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == "tiny"  # no path of this machine


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_and_links_only_what_is_there(page):
    text = text_of(page)
    for target in links(text):
        path, _, heading = target.partition("#")
        found = page.parent / path if path else page
        assert found.exists(), f"`{name_of(page)}` links to `{target}`, which does not exist."
        assert not heading or heading in headings(found.read_text(encoding="utf-8")), target
    named = re.findall(r"\b(?:peft_igc|benchmarks)(?:\.\w+)+", text)
    for dotted in {name for name in named if not PLACEHOLDER.search(name) and not name.endswith((".egg", ".md"))}:
        resolved(dotted)  # raises
    paths = re.findall(r"`((?:peft_igc|benchmarks|recipes|tests|docs|\.ci)/[^`\s]*)`", text)
    rooms = "|".join(path.parent.name for path in (ROOT / "peft_igc").glob("*/__init__.py"))
    paths += [f"peft_igc/{path}" for path in re.findall(rf"`((?:{rooms})/\w[^`\s]*)`", text)]
    for path in paths:
        if not PLACEHOLDER.search(path):
            assert any(ROOT.glob(path.rstrip("/"))), f"`{name_of(page)}` names `{path}`, which does not exist."
    assert not re.search(r"/(home|tmp|work|root)/", prose(text))  # of one machine
