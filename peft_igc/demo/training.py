"""The trainer of the demonstrations, for a few CPU cores or a GPU.

In: a model with an adapter, rows, `DemoSettings`. Out: an `IGCTrainer`. A fixed set of rows is tokenized once, an
endless stream batch by batch. The trainer saves nothing and evaluates nothing; the callback `progress` does.
Try it: `pytest tests/demo/test_batches.py`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from datasets import IterableDataset
from transformers import PrinterCallback

from ..data.dataset import Shuffled
from ..trainer.config import IGCSFTConfig
from ..trainer.labels_only import score_labels_only
from ..trainer.precision import in_bf16
from ..trainer.trainer import BaselineTrainer, IGCTrainer
from ..tuner.base_model import innermost_model
from .batches import tokenized, tokenized_rows
from .settings import DemoSettings


__all__ = ["made_trainer"]


class _NotHashed:
    """Rows that are pickled as none: `datasets` names a generator by a hash of its arguments, which nothing reads here
    and which takes 12 seconds for 20,000 rows. The trainer has no worker processes that would be sent them."""

    def __init__(self, rows: Iterable[Any] = ()) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return _NotHashed, ()


def made_trainer(
    model: Any,
    tokenizer: Any,
    rows: Iterable[Any] | Shuffled,
    scratch: Path,
    seed: int,
    settings: DemoSettings,
    progress: Any,
) -> IGCTrainer:
    """Makes the trainer of an adapter.

    Args:
        model: A causal LM with an IGC adapter. It is trained on its device, or on the first GPU.
        tokenizer: Its tokenizer.
        rows: An endless stream of rows for `batches.tokenized`.
        scratch: The trainer's output folder. Nothing is written there.
        seed: Seed of the trainer and of the order of rows.
        settings: All hyperparameters.
        progress: A callback that reports the progress.
    """
    if isinstance(rows, Shuffled):  # the same rows in every epoch, so they are tokenized once
        rows = Shuffled(tokenized(rows.rows, tokenizer), seed)
    made = {"rows": _NotHashed(rows), "tokenizer": tokenizer, "seed": seed}
    sizes = {name: getattr(settings, name) for name in ("batch_size", "batches_at_once", "writing_every")}
    on_cpu = model.device.type == "cpu"
    args = IGCSFTConfig(
        output_dir=str(scratch),
        max_steps=settings.steps,
        per_device_train_batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        igc_muon_learning_rate=settings.muon_learning_rate,
        adam_beta1=settings.adam_beta1,
        adam_beta2=settings.adam_beta2,
        weight_decay=settings.weight_decay,
        warmup_steps=settings.warmup_steps,
        lr_scheduler_type=settings.schedule,
        max_grad_norm=settings.max_grad_norm,
        igc_loss_weight=settings.reading_loss_weight,
        igc_writing_every=settings.writing_every,
        igc_reading_steps=settings.reading_steps,
        logging_steps=settings.log_every,
        seed=seed,
        max_length=None,
        activation_checkpointing=False,
        bf16=settings.bf16 and in_bf16(model.device),
        use_cpu=on_cpu,
        save_strategy="no",
        report_to="none",
        igc_curves=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    dataset = IterableDataset.from_generator(tokenized_rows, gen_kwargs={**made, **sizes})
    trainer = BaselineTrainer(model, args, train_dataset=dataset, processing_class=tokenizer, callbacks=[progress])
    trainer.remove_callback(PrinterCallback)
    score_labels_only(innermost_model(model))  # for a LoRA without a calculator, so that both are trained alike
    return trainer
