"""What recipes reach on a processor: the commands of their headers, run as they stand, and evaluated.

Each command trains in a process of its own, as a user's would, and differs from its header in the folder it writes to.
Its adapter is loaded anew, onto the base that was trained with it if there is one, and answers BIG-bench's twenty
subtasks greedily; whole answers are compared. No generated row has a calculation of that test set, but for the
complete one-digit subtasks (`corpora.GeneratedRows`; 200 items per subtask at most). The base model alone stands
beside, so all recipes of a run have the same one. Recipes that need a GPU are not run here.

    python -m benchmarks.accuracy.recipe_runs --output benchmarks/results/recipes.json
    python -m benchmarks.accuracy.recipe_runs --recipes smollm2_135m --output build/smollm2_135m.json
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from benchmarks.common.measuring import facts
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.inference.evaluation import evaluate
from peft_igc.inference.loading import TINY, load_adapter, load_base
from peft_igc.trainer.precision import in_bf16


ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in sorted((ROOT / "recipes").glob("*.yaml"))}
ON_CPU = [name for name, settings in SETTINGS.items() if settings.get("use_cpu")]
OF_TINY = [name for name in ON_CPU if SETTINGS[name]["model_name_or_path"] == TINY]


def commands(recipe: str) -> list[str]:
    """The commands of a recipe's header."""
    text = (ROOT / "recipes" / f"{recipe}.yaml").read_text(encoding="utf-8")
    return re.findall(rf"^#   (peft-igc sft --config recipes/{recipe}\.yaml.*)$", text, re.MULTILINE)


def loaded(base: str) -> tuple[Any, Any]:
    """A base and its tokenizer, in the dtype that this processor is faster in; the embedded base in float32."""
    return load_base(base, "bfloat16" if base != TINY and in_bf16("cpu") else "float32")


def measured(command: str, base: str, tested: list[Any], more: list[str]) -> dict[str, Any]:
    """Trains by a command, and evaluates what it has saved; `SystemExit` if the command fails.

    Args:
        command: of a header.
        base: the recipe's.
        tested: the test items.
        more: arguments added to the command.
    """
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        _, *line = shlex.split(command)
        run = [sys.executable, "-m", "peft_igc.cli", *line, "--output_dir", folder, *more]
        if subprocess.run(run, cwd=ROOT, check=False).returncode:
            raise SystemExit(f"The command failed: {shlex.join(run)}")
        seconds = time.perf_counter() - begin
        trained = Path(folder) / "base"  # of a recipe that trains all weights
        model, tokenizer = load_base(trained) if trained.is_dir() else loaded(base)
        return {"seconds": round(seconds, 1), **scores(load_adapter(model, folder), tokenizer, tested)}


def scores(model: Any, tokenizer: Any, tested: list[Any]) -> dict[str, Any]:
    """Exact match of whole answers."""
    report = evaluate(model.eval(), tokenizer, tested, max_new_tokens=16)
    return {key: report[key] for key in ("n", "exact_match", "groups", "mistakes")}


def main() -> None:
    """Runs all commands, and writes results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--recipes", nargs="+", default=OF_TINY, choices=ON_CPU, metavar="NAME")
    parser.add_argument("--per-group", type=int, default=200, help="test items per subtask (default: %(default)s)")
    parser.add_argument("--add", default="", metavar="ARGUMENTS", help='to each command, as in --add "--seed 1"')
    arguments = parser.parse_args()
    more = shlex.split(arguments.add)
    bases = sorted({SETTINGS[name]["model_name_or_path"] for name in arguments.recipes})
    if len(bases) > 1:
        parser.error(f"these recipes have several bases, {bases}. Run those of each base by themselves.")
    tested = bigbench_test_set(arguments.per_group)
    results: dict[str, Any] = {
        **facts(),
        "settings": {"per_group": arguments.per_group, "added": more},
        "base": scores(*loaded(*bases), tested),
        "runs": {},
    }
    asked = [(recipe, command) for recipe in arguments.recipes for command in commands(recipe)]
    for number, (recipe, command) in enumerate(asked, start=1):
        print(f"{number} of {len(asked)}: {command}", flush=True)
        results["runs"].setdefault(recipe, {})[command] = found = measured(command, *bases, tested, more)
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"{found['exact_match']:.2%} in {found['seconds']:.0f} s of training", flush=True)


if __name__ == "__main__":
    main()
