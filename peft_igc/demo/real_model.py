"""The demonstration on a saved causal LM: train a calculator for it, measure it, save it.

In: the folder of a model, an output folder, a seed. Out, in that folder: `adapter/`, `results.json`,
`operating_curve.png`, `learning_curve.png`. The reading is trained by passes that end behind the calculator's layer,
then the writing on prompts that are read once (`writing`); then temperature and `confidence` are fitted on held-out
texts. Texts that people wrote are used where `PEFT_IGC_DATA` names them (`real_text`); without it their rows are not
measured. Try it: `peft-igc demo --base smollm2`, `pytest tests/demo/test_real_model.py`
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model
from transformers import set_seed

from ..calibration.run import CURVE, calibrate, save_calibration
from ..data.arithmetic import ArithmeticRows
from ..data.wording.wording import TRAINING
from ..inference.decoding import prompt_tokens
from ..inference.evaluation import answer_tokens, versions
from ..inference.loading import load_adapter, load_base
from ..trainer.precision import in_bf16
from ..tuner.base_model import layers_up_to
from ..tuner.config import IGCConfig
from .harm import harm
from .progress import duration
from .real_report import report_table
from .real_text import calibration_items, data_folder, measured_items, training_refusals
from .report import draw
from .run import DemoResult, demo_config, hardware, replaced, unfinished
from .settings import LANGUAGE_MODEL, LanguageModelSettings
from .smollm2 import WEIGHTS
from .stages import train_reading, train_results, written_rows
from .text_sets import ANSWERED, answered, calibration_texts, generated_sets, read


__all__ = ["run_language_model"]

Say = Callable[[str], None]
_NUMBER_ONLY = " Answer with the number only."


def run_language_model(
    folder: str | Path,
    output: str | Path,
    *,
    name: str,
    seed: int = 0,
    minutes: float | None = None,
    settings: LanguageModelSettings = LANGUAGE_MODEL,
    device: str = "cpu",
    more_sets: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    say: Say = print,
) -> DemoResult:
    """Runs the demonstration.

    Args:
        folder: a causal LM with a tokenizer that has a chat template.
        output: output folder, created if it does not exist. Earlier results in it are replaced at the end.
        name: of the model, for results.
        seed: of the adapter's initial weights and of the training rows. The test sets are the same for all seeds.
        minutes: time limit of the reading's training, in proportion to which the writing is shortened.
        settings: all other hyperparameters.
        device: where the model is trained and measured. A GPU computes in bf16.
        more_sets: further sets of items, by name; those in `text_sets.ANSWERED` are answered.
        say: called with each line of progress.

    Raises:
        ValueError: the tokenizer has no chat template or unsuitable digits, or the model no such `layer`.
    """
    output, text = Path(output), data_folder()
    with unfinished(output) as work:
        start = time.perf_counter()
        base, tokenizer = _loaded(folder, torch.device(device), settings.reading.layer)
        sets: dict[str, Any] = generated_sets(settings.per_group, settings.per_set, 0, settings.reading)
        sets |= {**(more_sets or {}), **{key: _short(one, settings) for key, one in measured_items(text).items()}}
        items = [one for key in ANSWERED for one in sets.get(key) or () if one.get("igc_operator")]
        model, training = _train(base, tokenizer, items, text, work, seed, minutes, settings, say)
        texts, reading = _calibrating(text, model.peft_config["default"], settings), settings.reading
        found = calibrate(model, tokenizer, texts, most_wrong=reading.most_wrong, least=reading.least_confidence)
        save_calibration(found, work / "adapter", {"texts": "held out, generated" + " and GSM8K" * (text is not None)})
        say(f"Temperature {found.temperature:g}, confidence {found.confidence:g}. Measuring.")
        fresh, tokenizer = load_base(folder, base.dtype)
        model = load_adapter(fresh.to(device), work / "adapter").to(device)
        measured, beside = _measure(model, tokenizer, sets, settings, say)
        results = {
            "base_model": {"name": name, "weights": WEIGHTS if name == "smollm2" else None, "dtype": str(base.dtype)},
            "system_prompt": "the chat template's own",
            "sets": measured,
            "base": beside,
            "calibration": found.as_dict(),
            "training": training,
            "settings": dataclasses.asdict(settings),
            "seconds": round(time.perf_counter() - start, 1),
            "versions": versions() | {one: version(one) for one in ("trl", "datasets", "accelerate")},
            "hardware": hardware(),
        }
        (work / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        _draw(work, training)
        replaced(work, output)
    missed = _missed(measured, settings)
    return DemoResult(output, results, report_table(results), missed)


def _loaded(folder: str | Path, device: torch.device, layer: int) -> tuple[Any, Any]:
    """The model, where and how it is trained, and its tokenizer.

    Raises:
        ValueError: the tokenizer has no chat template, or the model no decoder layer of index `layer`.
    """
    base, tokenizer = load_base(folder, "bfloat16" if in_bf16(device) else "float32")
    if tokenizer.chat_template is None:
        raise ValueError(f"The tokenizer in `{folder}` has no chat template. Use a model that was tuned to chat.")
    layers_up_to(base, layer)
    base.to(device)
    if device.type == "cpu":
        base.set_attn_implementation("eager")  # faster in training on short rows
    return base, tokenizer


def _short(items: Sequence[Mapping[str, Any]] | None, settings: LanguageModelSettings) -> list[Any] | None:
    """Items whose prompt is not too long, or None for a set that is not at hand."""
    return None if items is None else [one for one in items if len(one["prompt"]) <= settings.most_of_text]


def _calibrating(text: Path | None, config: IGCConfig, settings: LanguageModelSettings) -> list[dict[str, Any]]:
    """Held-out items: requests, texts without any, and people's questions of several steps."""
    items = calibration_texts(settings.reading.calibration_items, config)
    return items + (_short(calibration_items(text), settings) or [])


def _train(
    base: Any,
    tokenizer: Any,
    items: Sequence[Mapping[str, Any]],
    text: Path | None,
    work: Path,
    seed: int,
    minutes: float | None,
    settings: LanguageModelSettings,
    say: Say,
) -> tuple[Any, dict[str, Any]]:
    """Attaches a calculator to `base`, trains its reading and its writing, and saves it. Also returns a record."""
    set_seed(seed)  # for the adapter's initial weights
    model = get_peft_model(base, demo_config(tokenizer, settings.reading))
    generated = generated_rows(items, seed, settings)
    real = [row for row in training_refusals(text) if len(row["prompt"][0]["content"]) <= settings.most_of_text]
    stages = dataclasses.replace(settings.reading, bf16=base.dtype == torch.bfloat16)
    of_reading = train_reading(model, tokenizer, [*generated, *real], seed, minutes, stages, say)
    stages = stages.shortened(of_reading["steps"])
    of_writing = train_results(model, tokenizer, written_rows(generated, items, seed, stages), seed, stages, say)
    model.save_pretrained(str(work / "adapter"), save_embedding_layers=False)
    say(f"Trained in {duration(of_reading['seconds'] + of_writing['seconds'])}; the adapter is saved.")
    return model, {
        "seed": seed,
        "rows_generated": len(generated),
        "rows_of_people": len(real),
        "reading": of_reading,
        "stopped_early": of_reading["stopped_early"],
        "writing": of_writing,
        "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }


def generated_rows(
    items: Sequence[Mapping[str, Any]], seed: int, settings: LanguageModelSettings
) -> list[dict[str, Any]]:
    """Generated rows without the calculations of the test items."""
    reading = settings.reading
    return ArithmeticRows(
        seed, max_digits=reading.max_digits, num_digits=reading.num_digits, result_digits=reading.result_digits,
        mixture=reading.mixture, exclude=items, wording=TRAINING, distinct=True,
        max_operands=reading.max_operands, decimals=reading.decimals,
    ).take(reading.distinct_rows or 0)  # fmt: skip


def _measure(
    model: Any, tokenizer: Any, sets: Mapping[str, Any], settings: LanguageModelSettings, say: Say
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reports of all sets, with the adapter and of the base alone."""
    sizes = {"batch_size": settings.batch_size_of_test}
    measured: dict[str, Any] = {}
    for name, items in sets.items():
        if items is None:
            measured[name] = None
            continue
        if name in ANSWERED:
            measured[name] = answered(model, tokenizer, items, max_new_tokens=settings.max_new_tokens, **sizes)
        else:
            measured[name] = read(model, tokenizer, items, **sizes)
        say(f"{name}: " + ", ".join(f"{key} {measured[name][key]:,}" for key in ("right", "wrong", "silent")))
    quiet = sets.get("assistant_prompts") or [one for one in sets["held_out_silent"] if one["prompt"]]
    prompts = [one["prompt"] for one in quiet[: settings.harm_prompts]]
    measured["harm"] = harm(
        model, tokenizer, prompts, most_answers=settings.harm_answers, max_new_tokens=settings.max_new_tokens
    )
    say("The base model answers, without the adapter.")
    beside = {}
    with model.disable_adapter():
        for name in ("bigbench", "plain_requests"):
            if sets.get(name):
                beside[name] = _base(model, tokenizer, sets[name], settings)
    return measured, beside


def _base(model: Any, tokenizer: Any, items: Sequence[Any], settings: LanguageModelSettings) -> dict[str, Any]:
    """The base alone on a part of the items: exact whole answers, and the last number of longer ones when it is asked
    for the number only."""
    kept: dict[str, list[Any]] = {}
    for item in items:
        kept.setdefault(item.get("group") or str(item.get("igc_operator")), []).append(item)
    part = [item for group in kept.values() for item in group[: settings.base_per_group]]
    asked = [{**item, "prompt": item["prompt"] + _NUMBER_ONLY} for item in part]
    tokens = prompt_tokens(tokenizer, [item["prompt"] for item in asked], False)
    answers = answer_tokens(model, tokenizer, tokens, settings.batch_size_of_test, settings.base_new_tokens)
    numbers = [re.findall(r"-?[0-9][0-9,]*", one.text) for one in answers]
    last = [found[-1].replace(",", "") if found else None for found in numbers]
    hits = [one == item["target"] for one, item in zip(last, part, strict=True)]
    sizes = {"batch_size": settings.batch_size_of_test, "max_new_tokens": settings.max_new_tokens}
    whole = answered(model, tokenizer, part, **sizes)
    whole.pop("mistakes")
    return {"n": len(part), "whole_answer": whole["exact_match"], "number_only": sum(hits) / len(hits), **whole}


def _draw(work: Path, training: Mapping[str, Any]) -> None:
    """The plots: the operating curve, as it is beside the adapter, and the reading's losses."""
    (work / CURVE).write_bytes((work / "adapter" / CURVE).read_bytes())
    draw(work / "learning_curve.png", {"history": training["reading"]["history"], "checks": []})


def _missed(measured: Mapping[str, Any], settings: LanguageModelSettings) -> list[str]:
    """One sentence per missed target."""
    reached = measured["bigbench"]["exact_match"]
    if reached >= settings.target:
        return []
    return [f"BIG-bench: {reached:.2%} exact, the target is {settings.target:.1%}"]
