"""What the reading learns from texts by many hands: authors, depth, sizes and rows, on SmolLM2 and the embedded base.

Each run changes a few settings of a recipe and trains the reading alone, with one step of writing. Measured are the
readings at the end of texts by authors of whom none is trained. Temperature and `confidence` are fitted on the authors
"calibrated" (`handwritten.HELD_OUT`), so that at most 0.3% of their texts are answered wrongly. Runs are added to the
file; those of SmolLM2 need `.cache/smollm2/base` (`make demo-smollm2`), and `tiny` what its recipe starts from.

    python -m benchmarks.accuracy.by_hand --runs layer_12 templates --output benchmarks/results/by_hand.json
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.accuracy.adapter_on_sets import AUTHOR_ITEMS, DEVICE, SUPPORTED, peoples_texts, plain_requests
from benchmarks.common.measuring import command, facts, write
from benchmarks.common.trainings import trained
from benchmarks.tables import MERGED
from peft_igc.calibration import fit_temperature, operating_curve, read_prompts
from peft_igc.calibration.calibrate import choose_confidence
from peft_igc.data.wording import handwritten, wording
from peft_igc.inference.loading import load_adapter, load_base
from peft_igc.sft.sets import generated_sets, texts_of_authors
from peft_igc.trainer.precision import in_bf16


MOST_WRONG = 0.003
FURTHER_ITEMS = 650  # each text once
READ, PARTLY_READ, MENTIONS, *_ = MERGED.values()

SMOLLM2, TINY = "smollm2_135m", "tiny_by_hand"
ONE_STEP = {"rows": 32, "covering": 0, "steps": 1, "batch_size": 32}
READING_ALONE = {"igc_writing": ONE_STEP, "igc_demonstration": None, "use_cpu": DEVICE == "cpu"}
SHORT = {"igc_generated_rows": 30000, "max_steps": 1000, "igc_layer": 12}  # of the comparison, each with one seed
TEMPLATES = {"by_hand": 0.0, "none": 0.21, "unsupported": 0.19, "contexts": 0.65}
# By name: the recipe, the settings that differ, and how many authors are trained (None: all).
RUNS: dict[str, tuple[str, dict[str, Any], int | None]] = {
    **{f"layer_{layer}": (SMOLLM2, SHORT | {"igc_layer": layer}, None) for layer in (12, 1, 6, 18, 24)},
    "templates": (SMOLLM2, SHORT | {"igc_generated_mixture": TEMPLATES}, None),
    "authors_5": (SMOLLM2, SHORT, 5),
    "tiny": (TINY, {}, None),
}


@contextmanager
def trained_authors(number: int | None) -> Iterator[None]:
    """Trains the texts of some authors only, those that a shuffle puts first."""
    texts_by = handwritten.texts_by
    texts = texts_by("trained")
    if number is not None:
        files = handwritten.files_by("trained")
        random.Random("authors").shuffle(files)
        chosen = set(handwritten.read_texts(files[:number]))
        texts = tuple(one for one in texts if one in chosen)
    with mock.patch.object(wording, "texts_by", lambda part: texts if part == "trained" else texts_by(part)):
        yield


def sets() -> dict[str, list[dict[str, Any]]]:
    """The measured texts by name."""
    found = {
        "calibrated": texts_of_authors("calibrated", AUTHOR_ITEMS, 0, SUPPORTED),
        "unread_authors": texts_of_authors("measured", AUTHOR_ITEMS, 0, SUPPORTED),
        "further_author": texts_of_authors("further", FURTHER_ITEMS, 0, SUPPORTED),
    }
    for name, files in (("unread_requests", PARTLY_READ), ("read_requests", READ), ("mentions", MENTIONS)):
        found[name] = [item for file in files for item in plain_requests(file)]
    found |= {name: plain_requests(name) for name in ("decimal_plain_requests", "decimal_other_texts")}
    more = generated_sets(20, 300, 0, SUPPORTED) | peoples_texts()
    return found | more


def measured(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Temperature, `confidence`, and the numbers of each set at every threshold."""
    pairs = {}
    for name, items in sets().items():
        readings = read_prompts(model, tokenizer, [item["prompt"] for item in items], batch_size=128)
        pairs[name] = readings, [item["target"] for item in items]
    temperature, _ = fit_temperature(*pairs["calibrated"])
    curves = {name: operating_curve(*pair, temperature) for name, pair in pairs.items()}
    confidence = choose_confidence(curves["calibrated"], MOST_WRONG).confidence
    found: dict[str, Any] = {"temperature": temperature, "confidence": confidence, "sets": {}}
    for name, curve in curves.items():
        chosen, targets = next(point for point in curve if point.confidence == confidence), pairs[name][1]
        found["sets"][name] = {
            "n": len(targets),
            "due": sum(target is not None for target in targets),
            "right": chosen.right,
            "wrong": chosen.wrong,
            "curve": [list(point[:3]) for point in curve],
        }
    return found


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Plots right against wrong answers to texts of authors held out, a line per run, over all thresholds."""
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axis = figure.add_subplot()
    axis.set_prop_cycle(color=matplotlib.colormaps["tab20"].colors)
    for name, one in found["runs"].items():
        texts = one["sets"]["unread_authors"]
        wrong = [100 * point[2] / texts["n"] for point in texts["curve"]]
        right = [100 * point[1] / texts["due"] for point in texts["curve"]]
        axis.plot(wrong, right, marker=".", label=name)
    axis.set(xlabel="answered wrongly, per cent of the texts", ylabel="answered rightly, per cent of the requests")
    axis.legend(fontsize=7, ncols=2)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Trains and measures runs, or measures saved adapters; they are added to the file of the results."""
    parser = command(__doc__)
    parser.add_argument("--runs", nargs="+", choices=list(RUNS), default=[], metavar="NAME")
    parser.add_argument("--adapters", nargs="+", type=Path, default=[], metavar="DIR", help="saved ones of `--base`")
    parser.add_argument("--base", default="tiny", metavar="DIR", help="(default: %(default)s)")
    arguments = parser.parse_args()
    output = arguments.output
    results = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {"runs": {}}
    for name in (*arguments.runs, *arguments.adapters):
        if isinstance(name, str):
            recipe, changes, number = RUNS[name]
            with trained_authors(number):
                model, tokenizer, told = trained(recipe, READING_ALONE | changes, output.parent / name)
            told |= {"changes": changes, "authors": number}
        else:
            base, tokenizer = load_base(arguments.base, torch.bfloat16 if in_bf16(DEVICE) else torch.float32)
            model, told, name = load_adapter(base, name).to(DEVICE), {}, name.name
        results["runs"][name] = {**facts(), **told, **measured(model, tokenizer)}
        for key, one in results["runs"][name]["sets"].items():
            print(name, key, *(one[part] for part in ("right", "wrong", "due", "n")), flush=True)
        write(output, results)
        draw(results, output.with_suffix(".png"))


if __name__ == "__main__":
    main()
