"""The wheel: built from the checkout it holds everything, and works in an empty folder of a fresh environment."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest


ROOT = Path(__file__).parent.parent


def run(*command, **options):
    """The output of a command that succeeds."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of a copy of the checkout's files, so that no earlier build is in the way."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file() and name.partition("/")[0] not in ("tests", "benchmarks", "recipes", "docs"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", target, source)
    (path,) = target.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel):
    listed = run("git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "peft_igc").split()
    wanted = {name for name in listed if (ROOT / name).is_file()}
    assert len(wanted) > 80
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == wanted


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """A fresh environment with the wheel, and with the packages that this one has."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    ours = Path(pytest.__file__).parents[1]
    # A line of a .pth file only extends the path: what is installed here in editable form is not found through it.
    (site / "others.pth").write_text(f"{ours}\n")
    return folder


def environment():
    """Without what would lead to the checkout."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}


@pytest.mark.slow
def test_the_demonstration_runs_in_an_empty_folder(fresh, tmp_path):
    command = (fresh / "bin" / "peft-igc", "demo", "--minutes", "0.5", "--per-group", "10", "--output", "out")
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr  # targets are not asked for behind a time limit
    assert "Stopped at the time limit" in done.stdout
    assert (tmp_path / "out" / "adapter" / "adapter_model.safetensors").is_file()
