"""Promises of the plug-in: PEFT finds the method without an import, and `import peft_igc` is light."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from peft import get_peft_model
from tiny_models import small_config, tiny_model


ROOT = Path(__file__).parent.parent
LOAD = "peft.PeftConfig.from_pretrained({folder!r}).__class__.__name__"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved adapter."""
    path = tmp_path_factory.mktemp("adapter")
    get_peft_model(tiny_model("llama"), small_config()).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder for the path in which the package is installed, as far as entry points go."""
    path = tmp_path_factory.mktemp("site")
    info = path / "igc_entry-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: igc-entry\nVersion: 1\n")
    project = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points."torch.backends"]' in project
    assert 'peft_igc = "peft_igc.plugin:activate"' in project
    (info / "entry_points.txt").write_text("[torch.backends]\npeft_igc = peft_igc.plugin:activate\n")
    return path


def run(program, *paths, **environment):
    """The last line that a program in a new process prints."""
    given = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *map(str, paths)])} | environment
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=given, capture_output=True, text=True, check=False
    )
    return (done.stdout or done.stderr).splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("first", ["import peft", "import torch, peft", "import transformers, peft"])
def test_peft_loads_an_adapter_without_an_import_where_the_package_is_installed(first, folder, installed):
    assert run(f"{first}; print({LOAD.format(folder=folder)})", installed) == "IGCConfig"


@pytest.mark.slow
def test_without_the_entry_point_the_import_is_needed(folder, installed):
    """Otherwise the test above would show nothing."""
    program = f"import peft; print({LOAD.format(folder=folder)})"
    assert run(program, installed, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "KeyError: 'IGC'"


@pytest.mark.slow
@pytest.mark.parametrize("order", ["import peft_igc, peft", "import peft, peft_igc", "import peft_igc, torch, peft"])
def test_the_import_registers_before_and_after_that_of_peft(order, folder):
    program = f"{order}; print({LOAD.format(folder=folder)})"
    assert run(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0") == "IGCConfig"


@pytest.mark.slow
def test_other_methods_are_looked_up_as_before(installed):
    program = (
        "import peft, peft.mapping; table = peft.mapping.PEFT_TYPE_TO_CONFIG_MAPPING; "
        "assert table is peft.PEFT_TYPE_TO_CONFIG_MAPPING; "
        "import sys; assert 'peft_igc.tuner' not in sys.modules; "
        "print(table['LORA'].__name__, 'NOTHING' in table, len(table) > 20, table.get('NOTHING'))"
    )
    assert run(program, installed) == "LoraConfig False True None"
    assert run("import peft; peft.PEFT_TYPE_TO_CONFIG_MAPPING['NOTHING']", installed) == "KeyError: 'NOTHING'"


def test_importing_the_package_alone_imports_neither_torch_nor_peft():
    program = (
        "import sys, peft_igc, peft_igc.cli; peft_igc.cli.build_parser().format_help(); "
        "print(sorted({'torch', 'transformers', 'peft', 'trl', 'numpy'} & set(sys.modules)), peft_igc.__version__)"
    )
    assert run(program) == "[] 0.2.0"


def test_every_public_name_is_imported_when_it_is_used():
    import peft_igc

    assert sorted(peft_igc._HOMES) == peft_igc.__all__ == sorted(peft_igc.__all__)
    for name in peft_igc.__all__:
        assert getattr(peft_igc, name).__name__ == name
        assert name in dir(peft_igc)
    with pytest.raises(AttributeError, match="module `peft_igc` has no attribute `nothing`"):
        _ = peft_igc.nothing


@pytest.mark.slow
def test_the_rooms_of_the_model_are_attributes_of_the_package():
    program = "import peft_igc; print(peft_igc.tuner.call.observing.__name__, peft_igc.numbers.digits.PAD)"
    assert run(program) == "observing 10"


@pytest.mark.parametrize("command", [["-m", "peft_igc"], ["-m", "peft_igc.cli"]])
@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_are_silent_and_load_nothing(command, argument):
    program = (
        f"import sys, runpy; sys.argv[1:] = [{argument!r}]\n"
        f"try: runpy.run_module({command[1]!r}, run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'torch', 'transformers', 'peft'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: peft-igc" if argument == "--help" else "peft-igc 0.2.0")
