"""The part of a run of `peft-igc sft` with `igc_demonstration`: what is measured, and what people's texts train.

In: the arguments of a run. Out: sets whose calculations are not trained, rows to train and to calibrate with; after
the training the calibrated adapter, `results.json`, and the printed table. `demo` has what is measured.
Try it: `pytest tests/sft/test_demonstration.py`
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..demo.measure import RESULTS, Measurement
from ..demo.real_text import calibration_items, data_folder, measured_items, training_refusals
from ..demo.smollm2 import NAME, WEIGHTS
from ..inference.evaluation import duration
from ..trainer.progress import Progress
from .arguments import IGCArguments


__all__ = ["Shown", "failed", "say"]


def say(line: str) -> None:
    """Prints a line at once, also into a pipe."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Shown:
    """What a run with `igc_demonstration` measures.

    Args:
        measurement: The sets.
        refusals: Conversational rows of people's texts to train on.
        calibrating: People's texts to calibrate with.
        tokenizer: The base's.
    """

    measurement: Measurement
    refusals: list[dict[str, Any]]
    calibrating: list[dict[str, Any]]
    tokenizer: Any

    @classmethod
    def of(
        cls, arguments: IGCArguments, config: Any, tokenizer: Any, people: Mapping[str, Any] | None
    ) -> Shown | None:
        """That of a run; None without `igc_demonstration`.

        Raises:
            ValueError: The tokenizer has no chat template.
        """
        settings = arguments.demonstration
        if settings is None:
            return None
        if tokenizer.chat_template is None:
            raise ValueError("The base's tokenizer has no chat template. Use a model that was tuned to chat.")
        text, sets = data_folder() if settings.per_set else None, dict(people or {})
        if settings.per_set:
            sets |= {
                name: items and [one for one in items if len(one["prompt"]) <= settings.most_of_text]
                for name, items in measured_items(text).items()
            }
        refusals = training_refusals(text)
        return cls(
            Measurement(settings, config, sets),
            [row for row in refusals if len(row["prompt"][0]["content"]) <= settings.most_of_text],
            [one for one in calibration_items(text) if len(one["prompt"]) <= settings.most_of_text],
            tokenizer,
        )

    def finish(self, trainer: Any, model_args: Any, arguments: IGCArguments, progress: Progress | None) -> None:
        """Calibrates and measures the saved adapter, and prints the table."""
        assert progress is not None
        base, folder, model = model_args.model_name_or_path, Path(trainer.args.output_dir), trainer.model
        stage, steps = trainer.args.writing_stage, trainer.state.global_step
        say(f"Trained in {duration(progress.seconds)}; the adapter is saved, and loaded from disk onto a fresh base.")
        training = {
            "seed": trainer.args.seed,
            "steps": steps,
            "stopped_early": progress.stopped_early,
            "rows": steps * trainer.args.per_device_train_batch_size,
            "distinct_rows": len(trainer.train_dataset),
            "rows_of_people": len(self.refusals),
            "trainable_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
            "seconds": round(progress.seconds, 1),
            "seconds_of_checks": round(progress.check_seconds, 1),
            "history": progress.history,
            "checks": progress.checks,
            "writing": None if stage is None else asdict(stage),
        }
        record = {
            "base_model": {
                "name": base,
                "weights": WEIGHTS if Path(base).parent.name == NAME else None,
                "dtype": str(model.dtype),
            },
            "training": training,
            "calibration": self.measurement.calibrate(model, self.tokenizer, folder, self.calibrating, say),
            "arguments": {name: value for name, value in vars(arguments).items() if value is not None},
        }
        outcome = self.measurement.finish(base, model.dtype, model.device, folder, record, say)
        say(f"\n{outcome.table}\n")
        reached = "All targets are reached."
        say("Targets missed:\n" + "\n".join(f"  {one}" for one in outcome.missed) if outcome.missed else reached)


def failed(folder: str | Path) -> bool:
    """Whether a demonstration missed a target in training to its end."""
    results = json.loads((Path(folder) / RESULTS).read_text(encoding="utf-8"))
    return bool(results["summary"]["targets_missed"]) and not results["training"]["stopped_early"]
