"""Wrappers and hooks on the causal LM: arguments into the model, losses and steps out of it, adapters in and out.

The model can be called in several ways (`PeftModel.forward`, nested tuners, plain injection, `generate`). All of them
pass through the `__call__` and `generate` of the innermost causal LM, so the wrappers are installed there and not on a
PEFT model. They hold no state and compute nothing: `layer` does that.

* `wrapper`: shadows one method of the model; which adapter is active.
* `calls`: `model(...)`, its `igc_*` arguments and its output. `generation`: `generate` and its passes.
* `step_log`: what `generate` returns of the steps.
* `notices`: what a user is told once.
* `install`: puts the wrappers on a model, and takes them off; loading by transformers.
* `patches.toml`: the list of all functions of other packages that are replaced.

Start with `install`.
"""

__all__ = ["calls", "generation", "install", "notices", "step_log", "wrapper"]
