"""The package's shape: which room may import what, how large rooms and functions are, what is documented.

It reads the sources with `ast`; only one test imports, in a fresh interpreter. A new room needs a row in `ROOMS`.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path


ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "peft_igc"
LONGEST_FUNCTION = 60
MOST_ROOMS, MOST_FILES, MOST_ARROWS = 12, 16, 54  # folders at the top of the package; in one; between rooms

# From the ground up: a room may import those above it in this list, and of the outside only the packages in its row.
ROOMS: dict[str, set[str]] = {
    "text": set(),
    "operations": set(),
    "numbers": {"torch"},
    "mappings": {"torch"},
    "data": {"datasets", "torch"},
    "tuner": {"accelerate", "peft", "safetensors", "torch", "transformers", "yaml"},
    "plugin": {"lm_eval", "trl"},  # torch imports it before it is complete itself
    "inference": {"datasets", "jinja2", "lm_eval", "markupsafe", "peft", "safetensors", "torch", "tqdm"}
    | {"transformers"},
    "engines": {"fastapi", "huggingface_hub", "peft", "safetensors", "torch", "transformers", "vllm"},
    "annotation": {"jinja2", "torch"},
    "calibration": {"matplotlib", "peft", "torch"},
    "trainer": {"accelerate", "datasets", "matplotlib", "peft", "safetensors", "torch", "transformers", "trl"},
    "sft": {"accelerate", "datasets", "peft", "torch", "transformers", "trl", "yaml"},
    "commands": {"torch", "transformers"},
    "cli": {"transformers"},
    "__main__": set(),
}
FILES = {"operations", "plugin", "commands", "cli", "__main__"}  # rooms of a single file
FOLDERS = {"assets"}  # data files, no code


def module_name(path: Path) -> str:
    """`tuner.layer` for a file of the package; a package's own name for its `__init__.py`, "" for the top."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in SOURCES.items()}


def room_of(module: str) -> str:
    return module.split(".")[0]


def imports_of(tree: ast.AST, module: str, is_package: bool = False) -> Iterator[tuple[str, bool]]:
    """Every import of `module`, at the top or inside a function: (name, whether it is a module of ours).

    A name imported from a package of ours counts as its submodule if there is one, else as the package itself.
    """
    here = module.split(".") if module else []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                head, _, tail = alias.name.partition(".")
                yield (tail, True) if head == "peft_igc" else (head, False)
        elif isinstance(node, ast.ImportFrom):
            head, _, tail = (node.module or "").partition(".")
            if node.level:
                up = len(here) + is_package - node.level
                base = [*here[:up], *(node.module or "").split(".")] if up >= 0 else []
            elif head == "peft_igc":
                base = tail.split(".")
            else:
                yield head, False
                continue
            package = ".".join(part for part in base if part)
            for alias in node.names:
                name = f"{package}.{alias.name}".strip(".")
                yield (name if name in SOURCES else package), True


def our_imports(module: str) -> set[str]:
    """The modules of ours that one imports."""
    is_package = SOURCES[module].name == "__init__.py"
    return {name for name, ours in imports_of(TREES[module], module, is_package) if ours} - {module}


def public_definitions(tree: ast.Module, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Public functions and classes of a module, and the public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node, f"{prefix}{node.name}.")


def test_every_room_has_its_place():
    found = {room_of(name) for name in SOURCES} - {""}
    assert found == set(ROOMS), "Give each room a row in `ROOMS`, in the order of the arrows."
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == set(ROOMS) - FILES | FOLDERS
    assert len(folders) <= MOST_ROOMS


def test_imports_point_down_and_outside_packages_stay_where_they_belong():
    wrong, order = [], list(ROOMS)
    for module in filter(None, SOURCES):
        room, is_package = room_of(module), SOURCES[module].name == "__init__.py"
        for name, ours in imports_of(TREES[module], module, is_package):
            if ours and not room_of(name):
                wrong.append(f"`{module}` imports the package's own face: import the module that defines the name.")
            elif ours and order.index(room_of(name)) > order.index(room):
                wrong.append(f"`{module}` imports `{name}`, which is above it.")
            elif not ours and name not in sys.stdlib_module_names and name not in ROOMS[room]:
                wrong.append(f"`{module}` imports the package `{name}`.")
    assert not wrong, "\n".join(wrong)


def test_modules_import_what_defines_a_name_and_not_in_circles():
    packages = {name for name, path in SOURCES.items() if path.name == "__init__.py"}
    found = {module: our_imports(module) & packages - {room_of(module)} for module in filter(None, SOURCES)}
    assert not {module: names for module, names in found.items() if names}
    open_ones = {name: our_imports(name) - {""} for name in SOURCES}
    while free := [name for name, needed in open_ones.items() if not needed & open_ones.keys()]:
        for name in free:
            del open_ones[name]
    assert not open_ones, f"These modules import each other in a circle: {', '.join(open_ones)}."


def test_rooms_are_few_and_small_and_know_few_others():
    arrows = {(room_of(name), room_of(other)) for name in SOURCES for other in our_imports(name)}
    assert len({(a, b) for a, b in arrows if a != b and a and b}) <= MOST_ARROWS
    for folder in (PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())):
        files = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".jsonl"]  # one per author
        assert len(files) <= MOST_FILES, f"`{folder.name}` has {len(files)} files."


def test_rooms_and_modules_and_every_public_name_have_their_docstrings():
    wrong = []
    for room in (name for name, path in SOURCES.items() if name and path.name == "__init__.py"):
        text = ast.get_docstring(TREES[room]) or ""
        names = [path.stem for path in SOURCES[room].parent.glob("*.py") if not path.stem.startswith("__")]
        wrong += [f"`{room}` does not name `{name}`." for name in names if f"`{name}`" not in text]
        assigned = [node.targets[0].id for node in TREES[room].body if isinstance(node, ast.Assign)]
        if "Start with `" not in text or "__all__" not in assigned:
            wrong.append(f"`{room}` does not say where to start, or what it exports.")
    assert not wrong, "\n".join(wrong)
    bare = [name or "peft_igc" for name, tree in TREES.items() if not ast.get_docstring(tree)]
    for module, tree in TREES.items():
        bare += [f"{module}.{name}" for name, node in public_definitions(tree) if not ast.get_docstring(node)]
    assert not bare, f"without a docstring: {', '.join(bare)}"


def test_functions_are_short():
    lengths = {
        f"{module}.{function.name}": function.end_lineno - function.lineno + 1
        for module, tree in TREES.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert not {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION}


def test_importing_the_package_leaves_the_heavy_ones_alone():
    # PEFT itself imports bitsandbytes where it is installed (0.21.2), so PEFT comes first and does not count.
    program = (
        "import sys, peft; before = set(sys.modules); import peft_igc; peft_igc.IGCConfig; "
        "new = set(sys.modules) - before; "
        "assert peft_igc.__file__, 'imported as an empty namespace'; "
        "assert 'peft_igc.tuner.config' in new; "
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


# Packages that the environment of `make test` has not, and what the targets of their own environments run.
ELSEWHERE = {"vllm": "tests/engines", "lm_eval": "tests/inference/test_harness.py"}
NOT_NEEDED = {"diffusers"}  # PEFT's tests ask for it


def test_every_slow_test_is_run_by_one_target():
    makefile = (ROOT / "Makefile").read_text()
    recipes = dict(re.findall(r"^([\w-]+):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    assert recipes["slow"].strip() == "$(PYTEST) -m slow"  # in all folders
    # make reads a prerequisite where it is written: a variable from below is empty there.
    assert makefile.index("\nPEFT_TESTS :=") < makefile.index("$(PEFT_TESTS)")
    all_of_them = re.search(r"^test-all: (test .*)$", makefile, re.MULTILINE)[1].split()
    targets = {package: f"test-{package.replace('_', '-')}" for package in ELSEWHERE}
    assert {*targets.values(), "slow"} <= {*all_of_them}
    assert all(ELSEWHERE[package] in recipes[target] for package, target in targets.items())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.findall(r"-e '\.\[([\w,]+)\]'", makefile)
    installed = [*project["dependencies"], *(one for line in extras for extra in line.split(",")
                 for one in project["optional-dependencies"][extra])]  # fmt: skip
    here = {re.match(r"[\w-]+", requirement)[0] for requirement in installed} | NOT_NEEDED
    for path in (ROOT / "tests").rglob("*.py"):
        text, name = path.read_text(), str(path.relative_to(ROOT))
        assert "mark.slow" not in text or path.name.startswith("test_"), name
        assert "mark.slow" not in text or not re.match(r"tests/engines/\w+\.py", name), f"{name}: run by two targets"
        for package in {*re.findall(r'(?:importorskip|find_spec)\("(\w+)"', text)} - here:
            assert name.startswith(ELSEWHERE[package]), f"no target has `{package}` for {name}"
