"""Behind which layer is a request understood best? The reading of the demonstration on a real model, layer by layer.

For each layer the reading alone is trained on the demonstration's rows, for the same steps; then everything that the
real model's benchmark measures is read, not answered. Each set is counted at the threshold that the calibration
chooses, and with no threshold. A deeper calculator costs nothing more at inference, but its reading is trained through
more of the base.

    PEFT_IGC_DATA=FOLDER python -m benchmarks.accuracy.reading_layers --base .cache/smollm2/base \
        --layers 1 6 12 --steps 900 --output benchmarks/results/smollm2_reading_layers.json

With `--mawps` half of MAWPS's wordings are trained as well, and MAWPS is measured on the other half.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from transformers import set_seed

from benchmarks.accuracy.mawps_halves import measured_half, trained_rows
from benchmarks.accuracy.real_model import SHA256, changed, plain_requests
from benchmarks.common.measuring import facts
from peft_igc.calibration.run import calibrate
from peft_igc.demo.real_model import generated_rows
from peft_igc.demo.real_text import VARIABLE, calibration_items, data_folder, measured_items, training_refusals
from peft_igc.demo.run import demo_config
from peft_igc.demo.settings import LANGUAGE_MODEL, LanguageModelSettings
from peft_igc.demo.stages import train_reading
from peft_igc.demo.text_sets import ANSWERED, calibration_texts, generated_sets, read
from peft_igc.inference.loading import load_base
from peft_igc.trainer.precision import in_bf16


MAWPS_TIMES = 4  # how often each of its rows is among those of an epoch


def layer_read(
    base: Path, layer: int, settings: LanguageModelSettings, seed: int, device: str, mawps: bool = False
) -> dict[str, Any]:
    """Trains the reading behind one layer, and reads all sets.

    Args:
        base: folder of the base model.
        layer: index of the decoder layer.
        settings: of the demonstration; their layer is not used.
        seed: of the adapter's initial weights and of the rows.
        device: where it is trained.
        mawps: train on half of MAWPS's wordings as well, and measure MAWPS on the other half.

    Returns:
        Temperature, confidence, steps and seconds of the training, and by set the counts with and without a threshold.
    """
    folder, sets = data_folder(), measured_sets(settings)
    excluded = [one for name in ANSWERED for one in sets[name] if one.get("igc_operator")]
    people = training_refusals(folder)
    if mawps:
        if folder is None:
            raise ValueError(f"`--mawps` needs the folder of texts. Name it in `{VARIABLE}`.")
        half = {name: [one for one in items if _is_short(one["prompt"], settings)]
                for name, items in measured_half(folder).items()}  # fmt: skip
        people, sets = people + trained_rows(folder) * MAWPS_TIMES, sets | half
    real = [row for row in people if _is_short(row["prompt"][0]["content"], settings)]

    bf16 = in_bf16(device)
    model, tokenizer = load_base(base, "bfloat16" if bf16 else "float32")
    model.set_attn_implementation("eager")  # faster in training on short rows
    set_seed(seed)
    stage = dataclasses.replace(settings.reading, layer=layer, bf16=bf16)
    model = get_peft_model(model.to(device), demo_config(tokenizer, stage))
    rows = [*generated_rows(excluded, seed, settings), *real]
    training = train_reading(model, tokenizer, rows, seed, None, stage, print)
    found = all_read(model, tokenizer, sets, settings)
    return {**found, "seconds": training["seconds"], "steps": training["steps"]}


def measured_sets(settings: LanguageModelSettings) -> dict[str, list[Any]]:
    """All sets of items by name, of prompts that are not too long; empty without the folder of texts."""
    sets: dict[str, Any] = generated_sets(settings.per_group, settings.per_set, 0, settings.reading)
    sets |= {name: plain_requests(name) for name in SHA256} | measured_items(data_folder())
    return {name: [one for one in items or () if _is_short(one["prompt"], settings)] for name, items in sets.items()}


def all_read(
    model: Any, tokenizer: Any, sets: Mapping[str, Sequence[Any]], settings: LanguageModelSettings
) -> dict[str, Any]:
    """Calibrates a trained reading, and reads all sets with it.

    Returns:
        Temperature and confidence, and by set the counts with and without a threshold. The model keeps both.
    """
    config, stage = model.peft_config["default"], settings.reading
    texts = calibration_texts(stage.calibration_items, config)
    texts += [one for one in calibration_items(data_folder()) if _is_short(one["prompt"], settings)]
    found = calibrate(model, tokenizer, texts, most_wrong=stage.most_wrong, least=stage.least_confidence)

    measured: dict[str, Any] = {}
    for name, confidence in (("no threshold", 0.0), ("calibrated", found.confidence)):
        config.temperature, config.confidence = found.temperature, confidence
        for key, items in sets.items():
            told = read(model, tokenizer, items, batch_size=settings.batch_size_of_test) if items else None
            counts = told and {one: told[one] for one in ("n", "right", "wrong", "silent")}
            measured.setdefault(key, {})[name] = counts
            print(f"layer {config.layer}, {name}, {key}: {counts}", flush=True)
    return {"temperature": found.temperature, "confidence": found.confidence, "sets": measured}


def _is_short(prompt: str, settings: LanguageModelSettings) -> bool:
    return len(prompt) <= settings.most_of_text


def main() -> None:
    """Measures the layers and writes the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 6, 12], metavar="N")
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="of each layer (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", metavar="NAME")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="changes of the settings")
    parser.add_argument("--mawps", action="store_true", help="train on half of MAWPS, and measure the other half")
    arguments = parser.parse_args()
    settings = changed(LANGUAGE_MODEL, [f"reading.steps={arguments.steps}", *arguments.set])
    results: dict[str, Any] = {**facts(), "base": arguments.base.name, "seed": arguments.seed, "layers": {}}
    results |= {"settings": dataclasses.asdict(settings), "mawps": arguments.mawps}
    for layer in arguments.layers:
        given = (arguments.base, layer, settings, arguments.seed, arguments.device, arguments.mawps)
        results["layers"][str(layer)] = layer_read(*given)
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
