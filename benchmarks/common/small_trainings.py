"""Trainings of benchmarks on the embedded base: settings of the recipes, rows, and a trainer by whole passes.

In: changes of a recipe's settings. Out: an adapter's config, generated rows, a trainer that takes models without a
calculator, too, so that methods are compared on the same rows in the same order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from transformers import PrinterCallback

from peft_igc import IGCConfig
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.mixture import TOKENS_MIXTURE, Mixture
from peft_igc.data.wording.wording import FEW, TRAINING
from peft_igc.sft.demo import RECIPES
from peft_igc.text import Limits
from peft_igc.trainer.batches import Lots, as_dataset, tokenized
from peft_igc.trainer.config import IGCSFTConfig
from peft_igc.trainer.labels_only import score_labels_only
from peft_igc.trainer.precision import in_bf16
from peft_igc.trainer.trainer import BaselineTrainer
from peft_igc.tuner.base_model import innermost_model


@dataclass(frozen=True)
class DemoSettings:
    """Settings of a training; `sizes` are fields of `IGCConfig`."""

    interface: str
    sizes: Mapping[str, Any]
    mixture: Mixture
    many_phrasings: bool
    max_digits: int
    distinct_rows: int
    steps: int
    batch_size: int
    learning_rate: float
    muon_learning_rate: float | None
    adam_beta2: float
    weight_decay: float
    warmup_steps: int
    writing_every: int = 1
    checks: int = 5
    max_new_tokens: int = 16
    seed: int = 0

    @classmethod
    def of(cls, recipe: str, interface: str, **more: Any) -> DemoSettings:
        """Those of a recipe."""
        given = yaml.safe_load((RECIPES / f"{recipe}.yaml").read_text(encoding="utf-8"))
        names = {field.name for field in dataclasses.fields(IGCConfig)} - {"interface"}
        own = {name: given[f"igc_{name}"] for name in sorted(names) if f"igc_{name}" in given}
        renamed = {"steps": "max_steps", "batch_size": "per_device_train_batch_size"}
        renamed |= {"distinct_rows": "igc_generated_rows", "muon_learning_rate": "igc_muon_learning_rate"}
        same = ("learning_rate", "adam_beta2", "weight_decay", "warmup_steps")
        values = {name: given[key] for name, key in (renamed | dict(zip(same, same, strict=True))).items()}
        return cls(interface, own, max_digits=given.get("igc_generated_max_digits", 6), **values, **more)


SETTINGS = {
    "hidden": DemoSettings.of(
        "tiny_hidden", "hidden", mixture=Mixture(bigbench=0.2, negative=0.1), many_phrasings=False
    ),
    "tokens": DemoSettings.of("tiny_tokens", "tokens", mixture=TOKENS_MIXTURE, many_phrasings=True, writing_every=4),
}


def demo_config(tokenizer: Any, settings: DemoSettings, **more: Any) -> IGCConfig:
    """The adapter's config; `more` is passed to `IGCConfig.from_tokenizer`."""
    return IGCConfig.from_tokenizer(tokenizer, interface=settings.interface, **{**settings.sizes, **more})


def training_rows(excluded: Iterable[Mapping[str, Any]], settings: DemoSettings) -> list[Any]:
    """Generated rows without the calculations of the items `excluded`."""
    digits, by_rule = settings.sizes.get("num_digits", 40), settings.interface == "tokens"
    limits = Limits(digits, settings.sizes.get("result_digits", digits), 8 if by_rule else 2, decimals=by_rule)
    rows = ArithmeticRows(
        settings.seed,
        max_digits=settings.max_digits,
        limits=limits,
        mixture=settings.mixture,
        exclude=excluded,
        wording=TRAINING if settings.many_phrasings else FEW,
        distinct=True,
    )
    return rows.take(settings.distinct_rows)


class _Trainer(BaselineTrainer):
    """With rows of similar length in a batch."""

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        lengths = map(len, self.train_dataset["input_ids"])
        return Lots(list(lengths), self.args.train_batch_size, self.args.max_steps, self.args.seed)


def made_trainer(
    model: Any, tokenizer: Any, rows: list[Any], scratch: Path, settings: DemoSettings, progress: Any
) -> BaselineTrainer:
    """A trainer by whole passes; `rows` are conversational or have tokens already, `progress` is a callback."""
    dataset = as_dataset(rows if "input_ids" in rows[0] else tokenized(rows, tokenizer))
    args = IGCSFTConfig(
        output_dir=str(scratch),
        max_steps=settings.steps,
        per_device_train_batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        igc_muon_learning_rate=settings.muon_learning_rate,
        adam_beta2=settings.adam_beta2,
        weight_decay=settings.weight_decay,
        warmup_steps=settings.warmup_steps,
        lr_scheduler_type="cosine",
        igc_writing_every=settings.writing_every,
        logging_steps=100,
        seed=settings.seed,
        max_length=None,
        activation_checkpointing=False,
        bf16=in_bf16(model.device),
        use_cpu=model.device.type == "cpu",
        save_strategy="no",
        report_to="none",
        igc_curves=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = _Trainer(model, args, train_dataset=dataset, processing_class=tokenizer, callbacks=[progress])
    trainer.remove_callback(PrinterCallback)
    score_labels_only(innermost_model(model))  # for a LoRA without a calculator, so that both are trained alike
    return trainer
