"""Runs TRL's own tests of `SFTTrainer` on it and on `BaselineTrainer`, and lists those that only the former passes.

    python tests/upstream/run_trl_tests.py CHECKOUT [pytest options, for example -k peft]

CHECKOUT is a git checkout of huggingface/trl at the tag of the installed version: the tests are in neither its wheel
nor its source distribution. Their models have no IGC adapter, which `IGCTrainer` refuses. They load tiny models and
data sets from the Hugging Face hub. Prints JSON; exit status 1 if there is a regression. Not part of `make test`,
which needs no network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path


# A pytest plugin: puts our classes in the place of TRL's before its tests import them.
PLUGIN = """
import trl
from peft_igc.trainer import BaselineTrainer, IGCSFTConfig

trl.SFTTrainer, trl.SFTConfig = BaselineTrainer, IGCSFTConfig
"""


def passed(checkout: Path, options: list[str], folder: Path, replace: bool) -> set[str]:
    """Names of the tests that pass."""
    report = folder / f"report-{replace}.xml"
    (folder / "igc_in_place_of_sft.py").write_text(PLUGIN)
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "tests/test_sft_trainer.py", f"--junitxml={report}", *options]
    command += ["-p", "igc_in_place_of_sft"] if replace else []
    subprocess.run(command, cwd=checkout, env={**os.environ, "PYTHONPATH": path}, stdout=sys.stderr, check=False)
    cases = ElementTree.parse(report).iter("testcase")
    return {f"{case.attrib['classname']}::{case.attrib['name']}" for case in cases if not len(case.findall("*"))}


def main() -> int:
    """Compares and prints."""
    checkout, options = Path(sys.argv[1]), sys.argv[2:]
    if not (checkout / "tests" / "test_sft_trainer.py").is_file():
        raise SystemExit(f"`{checkout}` has no `tests/test_sft_trainer.py`. Name a checkout of huggingface/trl.")
    with tempfile.TemporaryDirectory() as name:
        theirs, ours = (passed(checkout, options, Path(name), replace) for replace in (False, True))
    regressions = sorted(theirs - ours)
    report = {
        "passed with SFTTrainer": len(theirs),
        "passed with BaselineTrainer": len(ours),
        "regressions": regressions,
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if regressions or not theirs else 0  # where nothing passes at all, nothing was compared


if __name__ == "__main__":
    sys.exit(main())
