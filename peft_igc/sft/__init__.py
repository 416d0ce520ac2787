"""`peft-igc sft`: supervised fine-tuning from a YAML file or the command line, as with `trl sft`.

* `arguments`: the arguments about the calculator; `parser`: the parser of all arguments, their help page,
  and values for those that were left out.
* `datasets`: datasets loaded, their rows named by their lines, and brought into one form.
* `models`: the base, the calculator and the LoRA, new or saved.
* `launch`: processes through `accelerate launch`; `run`: one run, from arguments to a saved adapter.
* `closing`: rows held out of the training, and evaluated at its end.
* `demo`: `peft-igc demo`, which runs a recipe; `measure`: what a run with `igc_demonstration` calibrates, measures and
  reports; `sets`: generated texts and those of authors held out, verdicts.

Start with `run`.
"""

from .run import main, parse


__all__ = ["main", "parse"]
