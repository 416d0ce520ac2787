"""Fetches PEFT's own common tests, which come with its source distribution and not with its wheel.

    python tests/upstream/fetch_peft_tests.py

Downloads the source distribution of the installed PEFT with pip, from whatever index pip is configured for, and
unpacks the two files that `tests/upstream/test_peft_common.py` needs into `.cache/peft-tests/<version>/`. Does
nothing if they are there. Exit code 1, with a message that says why, if they cannot be had; those tests are then
skipped.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


FILES = ("testing_common.py", "testing_utils.py")


def folder() -> Path:
    """Where the files of the installed version of PEFT belong."""
    version = importlib.metadata.version("peft")
    return Path(__file__).resolve().parents[2] / ".cache" / "peft-tests" / version


def download(version: str, into: Path) -> Path | str:
    """The source distribution of PEFT, or why there is none."""
    command = [sys.executable, "-m", "pip", "download", f"peft=={version}", "--no-deps", "--no-binary", "peft"]
    # pip asks the build backend for metadata even if nothing is to be built: the installed one will do.
    command += ["--no-build-isolation", "--disable-pip-version-check", "--quiet", "--dest", str(into)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(into.glob("peft-*.tar.gz"))
    return found[0] if run.returncode == 0 and found else (run.stderr.strip() or "pip said nothing").splitlines()[-1]


def main() -> int:
    """Fetches what is missing; the exit code."""
    target = folder()
    if all((target / name).is_file() for name in FILES):
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        archive = download(target.name, Path(temporary))
        if isinstance(archive, str):
            print(
                f"The source distribution of peft {target.name} cannot be downloaded: {archive}\n"
                "`tests/upstream/test_peft_common.py` will be skipped. "
                "Run this once where pip reaches a package index.",
                file=sys.stderr,
            )
            return 1
        root = archive.name.removesuffix(".tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(temporary, [f"{root}/tests/{name}" for name in FILES], filter="data")
        target.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.move(Path(temporary) / root / "tests" / name, target / name)
    print(f"PEFT's common tests are in {target}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
