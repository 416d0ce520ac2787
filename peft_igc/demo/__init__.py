"""The demonstration: the embedded base model learns exact arithmetic in a few minutes on a CPU.

* `settings`: all hyperparameters; `batches`: rows to tokens; `training`: the trainer; `progress`: lines while it runs.
* `stages`: the training in two stages, the reading and then the writing (`writing`,
  with rows of `leading_digits`).
* `report`: the table and the plot; `run`: the whole demonstration, from an untrained adapter to measured answers.
* `real_model`: the same on any saved causal LM, and `smollm2`, one from the package index. `real_text`: texts that
  people wrote; `text_sets`, `harm`: what is measured; `real_report`: the table.

Imports every other room except `annotation` and `sft`. Start with `run`.
"""

from .run import run_demo


__all__ = ["run_demo"]
