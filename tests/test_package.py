"""The package's shape: which module may import what, how long files and functions are, what is documented.

It reads the sources with `ast`; only one test imports, in a fresh interpreter. A new module needs a row in `MODULES`.
"""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest


ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "peft_igc"
LONGEST_FILE = 400
LONGEST_FUNCTION = 60

# In the order of the arrows: a module may import those above it, and of the outside only the packages in its row.
MODULES: dict[str, set[str]] = {
    # numbers and text: no model in sight
    "digits": {"torch"},
    "tokens": set(),
    "vocabulary": set(),
    "anchor_rules": set(),
    "profile": set(),
    "sizes": set(),
    "config": {"peft", "safetensors"},
    "templates": set(),
    "phrasings": set(),
    "stories": set(),
    "silence": set(),
    "unsupported": set(),
    "surroundings": set(),
    "words": set(),
    "grammar": set(),
    "drafts": set(),
    "scenes": set(),
    "wording": set(),
    "mixture": set(),
    "attention": {"torch"},
    "calculator": {"torch"},
    "columns": {"torch"},
    "runs": {"torch"},
    "spelling": {"torch"},
    "reading": {"torch"},
    "fixed_inputs": {"torch"},
    "input_mapping": {"torch"},
    "output_mapping": {"torch"},
    "mappings": {"peft", "torch"},
    # the tuner
    "outputs": {"torch", "transformers"},
    "steps": {"torch"},
    "record": {"torch"},
    "state": {"torch", "transformers"},
    "anchors": {"torch"},
    "hooks": {"torch", "transformers"},
    "layer": {"peft", "torch", "transformers"},
    "model": {"peft", "torch", "transformers"},
    "register": {"peft", "torch"},
    "optimizer": {"torch"},
    "passes": {"peft", "transformers"},
    # around the tuner
    "adapters": {"peft", "safetensors"},
    "loading": {"safetensors", "torch", "transformers"},
    "decoding": {"jinja2", "transformers"},
    "tracing": {"torch"},
    "bigbench": {"datasets"},
    "arithmetic": set(),
    "solutions": set(),
    "conversations": set(),
    "marks": set(),
    "annotations": {"torch"},
    "data": {"datasets"},
    "balance": set(),
    "suites": set(),
    "evaluation": {"torch"},
    "exact_match": set(),
    "curves": {"matplotlib"},
    "candidates": set(),
    "note_losses": {"jinja2", "torch"},
    "self_annotation": set(),
    "card": set(),
    "checkpoints": {"safetensors", "torch"},
    "collator": {"torch", "trl"},
    "streaming": set(),
    "sft_config": {"transformers", "trl"},
    "trainer": {"accelerate", "datasets", "peft", "torch", "transformers", "trl"},
    # the programs
    "cpu": {"torch", "trl"},
    "progress": {"transformers"},
    "demo_settings": set(),
    "fitting": {"datasets", "transformers"},
    "demo": {"datasets", "matplotlib", "peft", "torch", "transformers"},
    "arguments": set(),
    "corpora": {"datasets"},
    "launching": {"accelerate", "torch"},
    "sft": {"peft", "torch", "transformers", "trl", "yaml"},
    "cli": {"torch", "transformers"},
}
SOURCES = {path.stem: path for path in sorted(PACKAGE.glob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in SOURCES.items()}


def imports_of(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Every import, at the top or inside a function: (name, whether it is a module of ours)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head, _, tail = alias.name.partition(".")
                yield (tail.split(".")[0], True) if head == "peft_igc" else (head, False)
        elif isinstance(node, ast.ImportFrom):
            head, _, tail = (node.module or "").partition(".")
            if node.level == 1 and head:
                yield head, True
            elif node.level == 0 and head == "peft_igc" and tail:
                yield tail.split(".")[0], True
            elif node.level == 1 or head == "peft_igc":
                for alias in node.names:
                    yield alias.name, True
            else:
                yield head, False


def functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All functions and methods, nested ones included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def public_definitions(tree: ast.Module, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Public functions and classes of a module, and the public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node, f"{prefix}{node.name}.")


def test_the_walk_sees_the_package():
    assert {"digits", "calculator"} <= set(SOURCES)
    found = {name: list(imports_of(tree)) for name, tree in TREES.items()}
    assert ("torch", False) in found["digits"]
    assert ("digits", True) in found["calculator"]
    assert sum(len(list(functions_of(tree))) for tree in TREES.values()) > 20
    assert sum(len(list(public_definitions(tree))) for tree in TREES.values()) > 20


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import torch.nn as nn", [("torch", False)]),
        ("from torch.nn import functional", [("torch", False)]),
        ("from .digits import PAD", [("digits", True)]),
        ("from . import digits, config", [("digits", True), ("config", True)]),
        ("from peft_igc.digits import PAD", [("digits", True)]),
        ("from peft_igc import digits", [("digits", True)]),
        ("import peft_igc.digits", [("digits", True)]),
        ("def f():\n    import trl", [("trl", False)]),
    ],
)
def test_the_walk_understands_every_form_of_import(line, expected):
    assert list(imports_of(ast.parse(line))) == expected


@pytest.mark.parametrize("module", [name for name in SOURCES if not name.startswith("__")])
def test_imports_point_down_and_outside_packages_stay_where_they_belong(module):
    assert module in MODULES, f"`{module}` has no row in `MODULES`: give it its place in the order of the arrows."
    order = list(MODULES)
    allowed = set(order[: order.index(module)])
    for name, ours in imports_of(TREES[module]):
        if ours:
            assert name in allowed, f"`{module}` imports `{name}`, which stands beside or above it."
        elif name not in sys.stdlib_module_names:
            assert name in MODULES[module], f"`{module}` imports the package `{name}`."


@pytest.mark.parametrize("module", SOURCES)
def test_every_module_says_what_it_is(module):
    assert ast.get_docstring(TREES[module]), f"`{module}` has no docstring."


@pytest.mark.parametrize("module", SOURCES)
def test_every_public_function_and_class_has_a_docstring(module):
    bare = [name for name, node in public_definitions(TREES[module]) if not ast.get_docstring(node)]
    assert not bare, f"`{module}` leaves undocumented: {', '.join(bare)}"


@pytest.mark.parametrize("module", SOURCES)
def test_files_and_functions_are_short(module):
    lines = SOURCES[module].read_text().count("\n")
    assert lines <= LONGEST_FILE, f"`{module}` has {lines} lines."
    for function in functions_of(TREES[module]):
        length = function.end_lineno - function.lineno + 1
        assert length <= LONGEST_FUNCTION, f"`{module}.{function.name}` has {length} lines."


def test_importing_the_package_leaves_the_heavy_ones_alone():
    # PEFT itself imports bitsandbytes where it is installed (0.21.2), so PEFT comes first and does not count.
    program = (
        "import sys, peft; before = set(sys.modules); import peft_igc; "
        "new = set(sys.modules) - before; "
        "assert peft_igc.__file__, 'imported as an empty namespace'; "
        "assert any(name.startswith('peft_igc.') for name in new); "
        "print(sorted(new & {'trl', 'datasets', 'bitsandbytes', 'matplotlib'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_dependency_has_a_tested_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {requirement.split(">")[0].split("=")[0].strip() for requirement in wanted}
    assert len(names) >= 10
    assert names <= pinned, f"not in constraints.txt: {names - pinned}"
