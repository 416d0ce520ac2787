"""All hyperparameters of the demonstrations, of which there is one per interface.

`SETTINGS` maps an interface to its `DemoSettings`, `LANGUAGE_MODELS` to those for any other saved model. No other
module of the demonstration has hyperparameters of its own.
Try it: `pytest tests/test_cli.py -k settings`
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..data.mixture import TOKENS_MIXTURE, Mixture


__all__ = ["LANGUAGE_MODEL", "LANGUAGE_MODELS", "SETTINGS", "DemoSettings", "LanguageModelSettings", "WritingSettings"]


@dataclass(frozen=True)
class WritingSettings:
    """Hyperparameters of a stage that trains the writing alone, on prompts that the model reads once."""

    rows: int  # half of them from the reading's, and half with longer numbers, but for `covering`
    steps: int
    batch_size: int
    covering: int = 0  # rows whose results have all leading digits in turn
    max_digits: int = 20  # of the longer operands
    equal_lengths: bool = False  # the longer half has results of all lengths equally often
    expressions: float = 0.4  # fraction of these rows with an expression, most of them with decimal places
    learning_rate: float = 3e-3
    muon_learning_rate: float = 1e-2
    weight_decay: float = 0.1
    warmup_steps: int = 10


@dataclass(frozen=True)
class DemoSettings:
    """Hyperparameters of a demonstration, in the order in which they are used."""

    # The adapter: fields of `IGCConfig`. None where the interface has no such field.
    interface: str
    num_digits: int
    result_digits: int
    max_operands: int = 2  # numbers of an expression in symbols
    decimals: bool = False
    layer: int = 1
    read_from: list[int] | None = None
    reading_dim: int = 192
    reading_ffn: int = 384
    confidence: float = 0.0
    num_heads: int = 4
    max_distance: int | None = None
    writing_dim: int | None = None
    writing_ffn: int = 768
    gate_dim: int = 64
    max_offset: int | None = None
    # The rows.
    max_digits: int = 5  # of ordinary operands
    mixture: Mixture = Mixture()
    many_phrasings: bool = False  # hundreds instead of a few dozen
    distinct_rows: int | None = None  # None: an endless stream of fresh rows
    batches_at_once: int = 16  # sorted by length together
    # Training.
    steps: int = 1200
    batch_size: int = 128
    learning_rate: float = 3e-3
    muon_learning_rate: float | None = 4e-3
    adam_beta1: float = 0.9
    adam_beta2: float = 0.98
    weight_decay: float = 0.01
    warmup_steps: int = 100
    schedule: str = "cosine"
    max_grad_norm: float = 1.0
    bf16: bool = True  # autocast, on processors with bf16 instructions
    reading_loss_weight: float = 1.0
    writing_every: int = 1
    reading_steps: int = 0  # first steps that train the reading alone
    writing: WritingSettings | None = None  # a stage of its own after `steps` of the reading; None: whole passes
    log_every: int = 100
    # Calibration of `confidence`, on held-out texts; 0: none.
    calibration_items: int = 0  # of each generated kind
    most_wrong: float = 0.0  # share of these texts that may be answered wrongly
    least_confidence: float = 0.0  # smallest threshold that may be chosen
    # Measurements: items per subtask, in the test and in checks during the training, drawn with different seeds.
    per_group: int = 200
    test_seed: int = 0
    check_per_group: int = 5
    check_seed: int = 1
    checks: int = 5
    batch_size_of_test: int = 128
    max_new_tokens: int = 16
    target: float = 0.98
    target_per_operation: float = 0.97
    target_per_group: float = 0.0
    most_of_base: float = 0.35

    def shortened(self, steps: int) -> DemoSettings:
        """These settings with as much of the writing's steps and rows as a reading of `steps` has of its own."""
        stage, part = self.writing, steps / self.steps
        if stage is None or part >= 1:
            return self
        short = {name: math.ceil(part * getattr(stage, name)) for name in ("steps", "warmup_steps", "covering")}
        rows = max(stage.batch_size, math.ceil(part * stage.rows))
        return replace(self, writing=replace(stage, **short, rows=rows))


SETTINGS = {
    "hidden": DemoSettings(
        interface="hidden",
        num_digits=5,
        result_digits=10,
        max_distance=64,
        writing_dim=192,
        max_offset=16,
        mixture=Mixture(bigbench=0.2, negative=0.1),
    ),
    "tokens": DemoSettings(
        interface="tokens",
        reading_dim=128,
        reading_ffn=256,
        num_digits=40,
        result_digits=40,
        max_operands=8,
        decimals=True,
        max_digits=6,
        mixture=TOKENS_MIXTURE,
        many_phrasings=True,
        distinct_rows=20_000,
        steps=760,
        warmup_steps=30,
        muon_learning_rate=1e-2,
        weight_decay=0.3,
        writing_every=4,
        writing=WritingSettings(rows=6144, covering=3072, steps=200, batch_size=128, weight_decay=0.3),
        calibration_items=1000,
        most_wrong=0.004,
        target=0.999,
        target_per_operation=0.995,
        target_per_group=0.995,
    ),
}


@dataclass(frozen=True)
class LanguageModelSettings:
    """Hyperparameters of the demonstration on a saved language model, in the order in which they are used."""

    # The adapter, its rows, and the two stages of its training.
    reading: DemoSettings
    # Measurements: items per subtask of BIG-bench, and in each other set.
    per_group: int = 100
    per_set: int = 300
    base_per_group: int = 5
    base_new_tokens: int = 128  # asked for the number only
    most_of_text: int = 512  # characters; longer prompts are not measured, and not trained
    batch_size_of_test: int = 64
    max_new_tokens: int = 48  # more than the digits of a result
    harm_prompts: int = 100
    harm_answers: int = 32
    target: float = 0.999  # of BIG-bench


LANGUAGE_MODEL = LanguageModelSettings(
    reading=replace(
        SETTINGS["tokens"],
        reading_dim=192,
        reading_ffn=384,
        mixture=replace(TOKENS_MIXTURE, casual=0.45, contexts=0.45),
        distinct_rows=48_000,
        steps=900,
        batch_size=96,
        warmup_steps=30,
        log_every=10,
        checks=0,
        writing=WritingSettings(rows=768, steps=100, batch_size=32),
        calibration_items=900,
        most_wrong=0.01,
        least_confidence=0.75,
    ),
)

LANGUAGE_MODELS = {
    "tokens": LANGUAGE_MODEL,
    "hidden": replace(
        LANGUAGE_MODEL,
        reading=replace(
            SETTINGS["hidden"],
            mixture=Mixture(none=0.2, overflow=0.06, negative=0.1, bigbench=0.15, system=0.25, unsupported=0.1,
                            special=0.06, separators=0.2, contexts=0.2, casual=0.2),
            distinct_rows=72_000,
            steps=1500,
            warmup_steps=50,
            log_every=10,
            checks=0,
            writing=WritingSettings(rows=3072, steps=450, batch_size=32, equal_lengths=True),
            calibration_items=900,
            most_wrong=0.01,
            least_confidence=0.75,
        ),
        target=0.99,
    ),
}  # fmt: skip
