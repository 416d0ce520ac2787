"""The documentation is true: its code runs, its commands parse, its links exist, its generated parts are current.

Tables of results are compared with their JSON in `tests/benchmarks/test_tables.py`.
"""

from __future__ import annotations

import json
import re
import runpy

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

from peft_igc.numbers.calculator import OPERATIONS
from peft_igc.tuner.saving.companions import NESTED


NESTED_WARNINGS = [f"ignore:{message}" for message in NESTED]  # where a LoRA goes around a calculator
README = text_of("README.md")
MOST_WORDS = 12_000  # of all pages but the model card in the package
with_code = pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
LINES = [pytest.param(line, id=f"{name_of(p)}: {line}") for p in WITH_CODE for line in shell_lines(text_of(p))]


@pytest.fixture
def _own_operations():
    """Operations that a page registers are gone after its test."""
    before = dict(OPERATIONS)
    yield
    OPERATIONS.clear()
    OPERATIONS.update(before)


# ------------------------------------------------------------------------------------------------------------- sizes
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


# ------------------------------------------------------------------------------------------------------- code blocks
@with_code
def test_code_blocks_are_of_a_language_that_is_tested(page):
    assert {language for language, _ in blocks(text_of(page))} <= LANGUAGES


def test_blocks_are_found_on_every_kind_of_page():
    python = {name_of(page) for page in WITH_CODE if any(kind == "python" for kind, _ in blocks(text_of(page)))}
    assert {"README.md", "docs/training.md", "docs/tokenizers.md"} <= python
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
    assert len(rows) == 10
    for question, path, name in rows:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^ *(def|class) {name}\b", source, re.MULTILINE), question


# ----------------------------------------------------------------------------------------------------------- changes
def test_no_page_has_words_of_one_machine():
    for page in PAGES:
        assert not re.search(r"/(home|tmp|work|root)/", prose(text_of(page))), name_of(page)
