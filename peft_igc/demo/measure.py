"""What `igc_demonstration` does after a training: calibrates the adapter, measures it, and writes a report.

In: a trained model, the folder of its saved adapter, settings. Out, in that folder: the calibrated config,
`results.json`, `operating_curve.png`, a model card with the measured table. The measured adapter
is the saved one, on a base that is loaded anew. Texts that people wrote are measured where `PEFT_IGC_DATA` names them
(`real_text`). Try it: `peft-igc demo`, `pytest tests/sft/test_demonstration.py`
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ..calibration.run import CURVE, calibrate, save_calibration
from ..data.bigbench import bigbench_test_set
from ..inference.decoding import prompt_tokens
from ..inference.evaluation import answer_tokens, versions
from ..inference.loading import TINY, load_adapter, load_base
from ..trainer.precision import computes_bf16
from ..tuner.config import IGCConfig
from ..tuner.saving.model_card import write_card
from .report import card_record, missed_targets, report_table, summary
from .text_sets import ANSWERED, answered, generated_sets, harm, read, texts_of_authors


__all__ = ["PLOT", "RESULTS", "Demonstration", "Measurement", "Outcome"]

Say = Callable[[str], None]
RESULTS, PLOT = "results.json", CURVE
_NUMBER_ONLY = " Answer with the number only."


@dataclass(frozen=True)
class Demonstration:
    """Settings of `igc_demonstration`.

    Args:
        calibration_items: Texts by authors of whom none is trained, to calibrate with; 0: no calibration.
        author_items: Texts by further such authors to measure with; the model card has a bound from them.
        most_wrong: Share of the texts to calibrate with that may be answered wrongly.
        least_confidence: Smallest threshold that may be chosen.
        per_group: Test items in each of BIG-bench's 20 subtasks.
        per_set: Test items in each further generated set; 0: BIG-bench alone, and no texts of people.
        base_per_group: Items of a subtask that the base answers alone, too; None: all.
        number_only_tokens: Tokens of an answer when the base is asked for the number only; 0: it is not.
        max_new_tokens: Tokens of all other answers.
        batch_size: Prompts per batch.
        most_of_text: Characters; longer prompts of people are neither measured nor trained.
        harm_prompts: Prompts without a calculation whose logits are compared with the base's.
        harm_answers: How many of them are answered.
        checks: Measurements of exact match on a small sample during the training.
        check_per_group: Items of a subtask in that sample.
        target: Share of BIG-bench's items that is to be right.
        target_per_group: And that of each subtask.
    """

    calibration_items: int = 0
    author_items: int = 0
    most_wrong: float = 0.01
    least_confidence: float = 0.0
    per_group: int = 200
    per_set: int = 0
    base_per_group: int | None = None
    number_only_tokens: int = 0
    max_new_tokens: int = 16
    batch_size: int = 128
    most_of_text: int = 512
    harm_prompts: int = 100
    harm_answers: int = 32
    checks: int = 0
    check_per_group: int = 5
    target: float = 0.98
    target_per_group: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """Results of a demonstration.

    Attributes:
        results: The content of `results.json`.
        table: The report as text.
        missed: One sentence per missed target.
    """

    results: dict[str, Any]
    table: str
    missed: list[str]


class Measurement:
    """The texts of a demonstration, made before the training so that their calculations are not trained.

    Args:
        settings: All settings.
        config: The adapter's config, which says what is supported.
        people: Sets of texts that people wrote, by name; None for a set that is not at hand.
    """

    def __init__(
        self, settings: Demonstration, config: IGCConfig, people: Mapping[str, Sequence[Mapping[str, Any]] | None]
    ) -> None:
        self.settings = settings
        self.sets: dict[str, Any] = dict(people)
        self.sample = bigbench_test_set(settings.check_per_group, seed=1) if settings.checks else []
        if settings.per_set:
            self.sets = generated_sets(settings.per_group, settings.per_set, 0, config) | self.sets
        else:
            self.sets["bigbench"] = bigbench_test_set(settings.per_group, 0)
        if settings.author_items:
            self.sets["unread_authors"] = texts_of_authors("measured", settings.author_items, 0, config)

    @property
    def items(self) -> list[Mapping[str, Any]]:
        """The items with a calculation, which must not be trained."""
        asked = [item for name in ANSWERED for item in self.sets.get(name) or () if item.get("igc_operator")]
        return [*asked, *self.sample]

    def check(self, model: Any, tokenizer: Any) -> float:
        """Exact match on the small sample."""
        return float(self._answered(model, tokenizer, self.sample)["exact_match"])

    def calibrate(
        self, model: Any, tokenizer: Any, folder: Path, more: Sequence[Mapping[str, Any]], say: Say
    ) -> dict[str, Any] | None:
        """Fits temperature and confidence on held-out texts and `more`, and saves them with the adapter."""
        if not self.settings.calibration_items:
            return None
        config = model.peft_config["default"]
        texts = [*texts_of_authors("calibrated", self.settings.calibration_items, 0, config), *more]
        most_wrong, least = self.settings.most_wrong, self.settings.least_confidence
        found = calibrate(model, tokenizer, texts, most_wrong=most_wrong, least=least)
        save_calibration(found, folder, {"texts": "authors held out" + " and GSM8K" * bool(more)})
        say(f"Temperature {found.temperature:g}, confidence {found.confidence:g}, fitted on authors held out.")
        return found.as_dict()

    def finish(self, base: str, dtype: Any, device: Any, folder: Path, record: Mapping[str, Any], say: Say) -> Outcome:
        """Measures the saved adapter and writes the report.

        Args:
            base: Name or folder of the base model.
            dtype, device: How the base is loaded.
            folder: Of the adapter.
            record: Of the training: the parts `training`, `calibration`, `base_model` and others of the results.
            say: Called with each line of progress.
        """
        fresh, tokenizer = load_base(base, dtype)
        if base == TINY:
            # With the base in it, `pipeline` and `AutoModelForCausalLM` of transformers load the adapter from its
            # folder: they would look for the name `tiny` on the hub.
            for part in (fresh, tokenizer):
                part.save_pretrained(folder)
        model = load_adapter(fresh.to(device), folder).to(device)
        measured, alone = self._measure(model, tokenizer, say)
        missed = missed_targets(measured["bigbench"], self.settings.target, self.settings.target_per_group)
        results = {
            **record,
            "sets": measured,
            "base": alone,
            "summary": {
                "base": summary(alone["bigbench"]), "igc": summary(measured["bigbench"]), "targets_missed": missed,
            },
            "settings": dataclasses.asdict(self.settings),
            "versions": versions() | {name: version(name) for name in ("trl", "datasets", "accelerate")},
            "hardware": _hardware(),
        }  # fmt: skip
        (folder / RESULTS).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        write_card(folder, base, record=card_record(results))
        return Outcome(results, report_table(results), missed)

    def _measure(self, model: Any, tokenizer: Any, say: Say) -> tuple[dict[str, Any], dict[str, Any]]:
        """Reports of all sets, with the adapter and of the base alone."""
        settings, measured, alone = self.settings, dict[str, Any](), dict[str, Any]()
        for name, items in self.sets.items():
            if items is None:
                measured[name] = None
                continue
            if name in ANSWERED:
                measured[name] = self._answered(model, tokenizer, items)
            else:
                measured[name] = read(model, tokenizer, items, batch_size=settings.batch_size)
            say(f"{name}: " + ", ".join(f"{key} {measured[name][key]:,}" for key in ("right", "wrong", "silent")))
        quiet = self.sets.get("assistant_prompts") or self.sets.get("held_out_silent") or []
        prompts = [one["prompt"] for one in quiet if one["prompt"]][: settings.harm_prompts]
        if prompts:
            limits = {"most_answers": settings.harm_answers, "max_new_tokens": settings.max_new_tokens}
            measured["harm"] = harm(model, tokenizer, prompts, **limits)
        say("The base model answers, without the adapter.")
        with model.disable_adapter():
            for name in ("bigbench", "plain_requests"):
                if self.sets.get(name):
                    alone[name] = self._base(model, tokenizer, self.sets[name])
        return measured, alone

    def _answered(self, model: Any, tokenizer: Any, items: Sequence[Any]) -> dict[str, Any]:
        """Whole answers to items."""
        sizes = {"batch_size": self.settings.batch_size, "max_new_tokens": self.settings.max_new_tokens}
        return answered(model, tokenizer, items, **sizes)

    def _base(self, model: Any, tokenizer: Any, items: Sequence[Any]) -> dict[str, Any]:
        """The base alone on a part of the items: exact whole answers, and the last number of longer ones when it is
        asked for the number only."""
        kept: dict[str, list[Any]] = {}
        for item in items:
            kept.setdefault(item.get("group") or str(item.get("igc_operator")), []).append(item)
        part = [item for group in kept.values() for item in group[: self.settings.base_per_group]]
        whole = self._answered(model, tokenizer, part)
        whole.pop("mistakes")
        found = {**whole, "whole_answer": whole["exact_match"], "number_only": None}
        if self.settings.number_only_tokens:
            asked = prompt_tokens(tokenizer, [item["prompt"] + _NUMBER_ONLY for item in part], False)
            sizes = self.settings.batch_size, self.settings.number_only_tokens
            answers = answer_tokens(model, tokenizer, asked, *sizes)
            numbers = [re.findall(r"-?[0-9][0-9,]*", one.text) for one in answers]
            last = [one[-1].replace(",", "") if one else None for one in numbers]
            found["number_only"] = sum(a == b["target"] for a, b in zip(last, part, strict=True)) / len(part)
        return found


def _hardware() -> dict[str, Any]:
    """Facts about the machine that times and rounding depend on."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "bf16": computes_bf16(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
