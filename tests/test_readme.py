"""The documentation is true: its code runs, its commands parse, its links and paths exist, its first screen is short.

Figures and tables of results are compared with their JSON in `tests/benchmarks/test_figures.py`.
"""

from __future__ import annotations

import json
import re

import pytest
from documentation import (
    LANGUAGES,
    PAGES,
    PLACEHOLDER,
    ROOT,
    WITH_CODE,
    blocks,
    check_shell_line,
    headings,
    links,
    name_of,
    prose,
    resolved,
    section,
    shell_lines,
    text_of,
)
from tiny_training import WARNINGS

from peft_igc.inference.tracing import Trace, TracedNumber, TracedStep, TracedToken
from peft_igc.numbers.calculator import OPERATIONS
from peft_igc.tuner.saving.companions import NESTED
from peft_igc.tuner.saving.saved_fields import REMOVED_FIELDS


NESTED_WARNINGS = [f"ignore:{message}" for message in NESTED]  # where a LoRA goes around a calculator
README = text_of("README.md")
LONGEST, FIRST_SCREEN = 180, 40  # lines
with_code = pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
LINES = [pytest.param(line, id=f"{name_of(p)}: {line}") for p in WITH_CODE for line in shell_lines(text_of(p))]


@pytest.fixture
def _own_operations():
    """Operations that a page registers are gone after its test."""
    before = dict(OPERATIONS)
    yield
    OPERATIONS.clear()
    OPERATIONS.update(before)


# ------------------------------------------------------------------------------------------------------ first screen
def test_the_readme_is_short():
    assert len(README.splitlines()) <= LONGEST


def test_the_first_screen_has_all_its_parts():
    screen = "\n".join(README.splitlines()[:FIRST_SCREEN])
    sentence = screen.split("\n\n")[1]
    assert sentence.count(".") == sentence.count(".com") + 1
    (_, console), (_, python) = blocks(screen)
    assert "What is 58213 times 907?" in console
    assert [line.split()[:3] for line in console.splitlines()[:2]] == [["$", "make", "demo"], ["$", "make", "test"]]
    assert len(python.splitlines()) <= 7
    assert "tiny_igc()" in python
    attach = next(content for kind, content in blocks(section(README, "## Attach and load")) if kind == "python")
    assert len(attach.splitlines()) <= 15
    for step in ("get_peft_model(", ".train()", ".save_model("):
        assert step in attach
    assert re.findall(r"^\*\*(.*)\*\*:", screen, re.MULTILINE) == ["Results", "When it pays", "When not to use it"]
    assert not re.search(r"!\[|badge|[\U0001F300-\U0001FAFF]", README)


def test_the_trace_is_printed_as_the_program_prints_it():
    (_, console), *_ = blocks(README)
    numbers = [TracedNumber(text, 0.9999, 0.9999) for text in ("58213", "907")]
    text = " is 58213 times 907?<|end|><|assistant|>"
    step = TracedStep(12, text, (numbers[0], numbers[1]), "*", 0.9996, "52799191", "ok")
    gates = {"527": 0.998, "991": 0.999, "91": 1.0, "<|end|>": 1.0}
    tokens = [TracedToken(token, gate) for token, gate in gates.items()]
    source = "calculated: 58213 * 907"
    printed = Trace("What is 58213 times 907?", "52799191", [step], tokens, source=source).format()
    assert 58213 * 907 == int(step.result)
    assert console[console.index("prompt ") :] == printed + "\n"


def test_the_layout_names_every_room_and_no_other():
    tree = next(content for language, content in blocks(section(README, "## Layout")) if not language)
    assert len(tree.splitlines()) <= 12
    lines = [line.partition("  ")[0] + " " for line in tree.splitlines()]
    named = {name for line in lines for name in re.findall(r"[\w/.]+(?:/|\.py)(?=[ ,])", line)}
    named = {name.removeprefix("peft_igc/").rstrip("/") for name in named}
    rooms = {path.parent.name for path in (ROOT / "peft_igc").glob("*/__init__.py")}
    assert named == rooms | {"cli.py", "recipes", "docs", "benchmarks", "tests"}


# ------------------------------------------------------------------------------------------------------- code blocks
@with_code
def test_code_blocks_are_of_a_language_that_is_tested(page):
    assert {language for language, _ in blocks(text_of(page))} <= LANGUAGES


def test_blocks_are_found_on_every_kind_of_page():
    python = {name_of(page) for page in WITH_CODE if any(kind == "python" for kind, _ in blocks(text_of(page)))}
    assert {"README.md", "CONTRIBUTING.md", "docs/training.md", "docs/tokenizers.md"} <= python
    assert len(LINES) >= 40


@pytest.mark.slow
@with_code
@pytest.mark.filterwarnings(*WARNINGS, *NESTED_WARNINGS)
@pytest.mark.usefixtures("_own_operations")
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
@pytest.mark.filterwarnings(*WARNINGS)
@pytest.mark.filterwarnings("ignore:.* found in sys.modules after import of package:RuntimeWarning")
def test_a_shell_line_is_understood(line, monkeypatch):
    monkeypatch.chdir(ROOT)
    check_shell_line(line, monkeypatch)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("make everything", AssertionError),
        ("pip install '.[all]'", AssertionError),
        ("peft-igc profile tiny --anchor '='", SystemExit),
        ("peft-igc profile tiny --unknown", SystemExit),
        ("peft-igc sft --model_name_or_path tiny --unknown 1", ValueError),
        ("peft-igc sft --config recipes/none.yaml", AssertionError),
        ("python -m benchmarks.cost.calculator --output a.json --unknown", SystemExit),
        ("python -m benchmarks.cost.calculator", SystemExit),
        ("python -m benchmarks.calculator --output a.json", ImportError),
        ("python recipes/none.py", AssertionError),
        ("python -m pytest tests/none", AssertionError),
        ("bash run.sh", AssertionError),
    ],
)
@pytest.mark.filterwarnings(*WARNINGS)
def test_a_shell_line_that_is_wrong_is_found(line, error, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    with pytest.raises(error):
        check_shell_line(line, monkeypatch)


def test_the_readme_has_every_command():
    from peft_igc.cli import build_parser

    (commands,) = (action for action in build_parser()._actions if action.metavar == "COMMAND")
    part = section(README, "## Command line")
    assert {line.split()[1] for line in shell_lines(part)} == set(commands.choices)


@pytest.mark.slow
@pytest.mark.filterwarnings(*WARNINGS)
def test_the_command_of_fine_tuning_runs_as_it_stands(tmp_path, monkeypatch):
    from peft_igc.sft import run as sft

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sft, "has_default", lambda: False)
    (line,) = (line for line in shell_lines(text_of("docs/training.md")) if line.endswith("--output_dir build/sft"))
    assert sft.run(line.split()[2:]) == 1  # as the page says: two steps teach nothing
    assert (tmp_path / "build" / "sft" / "adapter_model.safetensors").is_file()
    config = json.loads((tmp_path / "build" / "sft" / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == "tiny"  # no path of this machine


# --------------------------------------------------------------------------------------------------- links and names
@pytest.mark.parametrize(
    ("page", "target"), [pytest.param(p, t, id=f"{name_of(p)}: {t}") for p in PAGES for t in links(text_of(p))]
)
def test_a_link_leads_somewhere(page, target):
    path, _, heading = target.partition("#")
    found = page.parent / path if path else page
    assert found.exists(), f"`{name_of(page)}` links to `{target}`, which does not exist."
    if heading:
        assert heading in headings(found.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_modules_and_names_exist(page):
    named = re.findall(r"\b(?:peft_igc|benchmarks)(?:\.\w+)+", text_of(page))
    for dotted in {name for name in named if not PLACEHOLDER.search(name) and not name.endswith((".egg", ".md"))}:
        resolved(dotted)  # raises


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_exist(page):
    text = text_of(page)
    paths = re.findall(r"`((?:peft_igc|benchmarks|recipes|tests|docs|\.ci)/[^`\s]*)`", text)
    rooms = "|".join(path.parent.name for path in (ROOT / "peft_igc").glob("*/__init__.py"))
    paths += [f"peft_igc/{path}" for path in re.findall(rf"`((?:{rooms})/\w[^`\s]*)`", text)]
    for path in paths:
        if not PLACEHOLDER.search(path):
            assert any(ROOT.glob(path.rstrip("/"))), f"`{name_of(page)}` names `{path}`, which does not exist."


def test_every_page_of_documentation_is_linked_from_the_readme():
    targets = {target.partition("#")[0] for target in links(README)}
    wanted = {name_of(page) for page in WITH_CODE} - {"README.md"} | {"CHANGELOG.md"}
    assert wanted <= targets


def test_the_table_of_questions_names_the_places():
    part = section(text_of("CONTRIBUTING.md"), "## Where to look")
    rows = re.findall(r"^\| (.*\?) \| `(.*)` \| `(\w+)` \|$", part, re.MULTILINE)
    assert len(rows) == 15
    for question, path, name in rows:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^ *(def|class) {name}\b", source, re.MULTILINE), question


def test_the_house_rules_are_those_of_the_tests():
    from tests import test_package

    rules = text_of("CONTRIBUTING.md")
    assert f"at most {test_package.LONGEST_FUNCTION} lines, a folder at most {test_package.MOST_FILES} files" in rules
    rooms = next(content for kind, content in blocks(section(rules, "## House rules")) if not kind)
    order = [re.sub(r" {2,}.*", "", line).split(", ") for line in rooms.splitlines()]
    expected = ["text", "numbers", "expressions", "data, mappings", "tuner", "plugin", "inference"]
    expected += ["annotation, calibration, trainer", "demo", "sft", "__main__, cli, commands"]
    assert [", ".join(sorted(level)) for level in order[::-1]] == expected
    assert {room for level in order for room in level} == set(test_package.ROOMS)


# ----------------------------------------------------------------------------------------------------------- changes
def test_the_changelog_names_where_modules_are_now():
    text = text_of("CHANGELOG.md")
    part = section(text, "### Modules moved into sub-packages")
    rows = re.findall(r"^\| `([\w.]+)` \| (.*) \| (.*) \|$", part, re.MULTILINE)
    assert len(rows) == 11
    for package, same, renamed in rows:
        for name in re.findall(r"`(\w+)`", same):
            resolved(f"{package}.{name}")
        for change in re.findall(r"-> (`\w+`(?: and `\w+`)?)", renamed):
            for name in re.findall(r"`(\w+)`", change):
                resolved(f"{package}.{name}")


def test_the_changelog_names_the_public_paths_and_the_removed_options():
    text = text_of("CHANGELOG.md")
    moved = section(text, "### Modules moved into sub-packages")
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]*) \|$", moved, re.MULTILINE)
    assert [path for path, _ in rows] == ["peft_igc", *(f"peft_igc.{x}" for x in ("data", "trainer", "cli", "sft"))]
    for path, names in rows:
        for name in re.findall(r"`(\w+)`", names):
            resolved(f"{path}.{name}")
    removed = section(text, "### Removed options")
    for name, default in REMOVED_FIELDS.items():
        assert name in removed
        assert json.dumps(default).replace("null", "None") in removed


def test_no_page_has_words_of_one_machine():
    for page in PAGES:
        assert not re.search(r"/(home|tmp|work|root)/", prose(text_of(page))), name_of(page)
