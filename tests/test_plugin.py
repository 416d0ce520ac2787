"""Promises of `plugin`: `import peft_igc` is light and registers the method, and nothing runs where nobody asked."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest


ROOT = Path(__file__).parent.parent
LOAD = "peft.PeftConfig.from_pretrained({folder!r}).__class__.__name__"


def run(program, python=sys.executable):
    """The last line that a program in a new process prints, without the entry point of an earlier installation."""
    given = os.environ | {"PYTHONPATH": str(ROOT), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = subprocess.run([python, "-W", "ignore", "-c", program], env=given, capture_output=True, text=True)
    return (done.stdout or done.stderr).splitlines()[-1]


def test_no_entry_point_is_called_by_other_packages_than_vllm():
    groups = re.findall(r'entry-points\."?([\w.]+)', (ROOT / "pyproject.toml").read_text())
    assert set(groups) == {"vllm.general_plugins", "vllm.endpoint_plugins"}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["import peft_igc, peft", "import peft, peft_igc", "import peft_igc, torch, peft"])
def test_the_import_registers_before_and_after_that_of_peft(order, adapter):
    assert run(f"{order}; print({LOAD.format(folder=str(adapter))})") == "IGCConfig"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """Python in an environment of its own, which has no package."""
    path = tmp_path_factory.mktemp("environment")
    venv.create(path, with_pip=False)
    return str(path / "bin" / "python")


def autoload(python, state):
    program = "import argparse; from peft_igc import commands; commands.autoload(argparse.Namespace(state={!r}))"
    return run(program.format(state), python)


def test_autoload_imports_the_package_in_every_process_until_it_is_switched_off(python):
    loaded = "import sys; print('peft_igc' in sys.modules, 'torch' in sys.modules)"
    assert autoload(python, "status").startswith("off: PEFT finds the method IGC in programs that `import peft_igc`")
    assert run(loaded, python) == "False False"
    assert autoload(python, "on").endswith("peft_igc_autoload.pth`.")
    assert autoload(python, "status").startswith("on: every Python process of this environment")
    assert run(loaded, python) == "True False"
    assert autoload(python, "on").startswith("on")
    assert autoload(python, "off").startswith("off")
    assert autoload(python, "off").startswith("off")
    assert run(loaded, python) == "False False"


def test_autoload_is_silent_where_the_package_is_gone(python, tmp_path):
    autoload(python, "on")
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([python, "-c", "print(1)"], cwd=tmp_path, env=given, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("1\n", "")
    autoload(python, "off")


def test_every_public_name_is_imported_when_it_is_used():
    import peft_igc

    homes = sorted(name for names in peft_igc._NAMES.values() for name in names)
    assert homes == peft_igc.__all__ == sorted(peft_igc.__all__)
    for name in peft_igc.__all__:
        assert getattr(peft_igc, name).__name__ == name
        assert name in dir(peft_igc)
    with pytest.raises(AttributeError, match="module `peft_igc` has no attribute `nothing`"):
        _ = peft_igc.nothing


@pytest.mark.parametrize("command", [["-m", "peft_igc"], ["-m", "peft_igc.cli"]])
@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_are_silent_and_load_nothing(command, argument):
    program = (
        f"import sys, runpy; sys.argv[1:] = [{argument!r}]\n"
        f"try: runpy.run_module({command[1]!r}, run_name='__main__')\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'torch', 'transformers', 'peft', 'trl', 'numpy'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: peft-igc" if argument == "--help" else "peft-igc 0.2.0")
