"""Trainings of benchmarks: a recipe run by `peft-igc sft` with some of its settings changed.

In: the name of a recipe and changes of its settings. Out: the trained model, its tokenizer, and how it went. What is
compared in a benchmark trains on the same rows for equally many steps; only the learning rate of a baseline is chosen
by `best_rate`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from peft_igc.sft.run import main, parse


RECIPES = Path(__file__).parents[2] / "recipes"
# Of a calculator's recipe in one stage of training, without what a demonstration measures.
ONE_STAGE = {"igc_writing": None, "igc_demonstration": None}
BEYOND = 3.0  # by what factor a search for a learning rate goes on


def trained(recipe: str, changes: Mapping[str, Any], folder: Path) -> tuple[Any, Any, dict[str, Any]]:
    """A model in eval mode, its tokenizer, and the training's seconds, parameters and settings.

    Of the settings that differ, `changes`, a dictionary is joined with that of the recipe; None leaves one out.
    """
    given = yaml.safe_load((RECIPES / f"{recipe}.yaml").read_text(encoding="utf-8"))
    for name, value in changes.items():
        given[name] = given.get(name, {}) | value if isinstance(value, dict) else value
    given |= {"output_dir": str(folder), "save_strategy": "no"}
    path = folder.with_suffix(".yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({name: value for name, value in given.items() if value is not None}))
    begin = time.perf_counter()
    trainer = main(parse(["--config", str(path)]))
    told = {"recipe": recipe, "changes": dict(changes), "seconds": round(time.perf_counter() - begin, 1)}
    told["parameters"] = sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)
    # All that follows would be autocast with the trainer's wrapper.
    model = trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
    return model.eval(), trainer.processing_class, told


def best_rate(rates: Sequence[float], exact_match: Callable[[float], float]) -> dict[str, Any]:
    """The best of several learning rates; where that is the highest or the lowest, the search goes on beyond it."""
    found: dict[float, float] = {}
    waiting = list(rates)
    while waiting:
        rate = waiting.pop(0)
        found[rate] = exact_match(rate)
        best = max(found, key=lambda rate: found[rate])
        if not waiting and len(found) < 2 * len(rates):  # a search has an end
            waiting = [best * BEYOND] if best == max(found) else [best / BEYOND] if best == min(found) else []
    return {"exact_match": found, "chosen": max(found, key=lambda rate: found[rate])}
