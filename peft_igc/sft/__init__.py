"""`peft-igc sft`: supervised fine-tuning from a YAML file or the command line, as with `trl sft`.

* `arguments`: the arguments about the calculator; `parser`: the parser of all arguments and their help page;
  `defaults`: values for those that were left out.
* `datasets`: datasets loaded and brought into one form; `sources`: the lines that their rows come from; `held_out`:
  labels checked and counted, and rows kept for the closing evaluation.
* `continuation`: training that goes on from a saved adapter.
* `launch`: processes through `accelerate launch`; `run`: one run, from arguments to a saved adapter.
* `closing`: the evaluation at the end of a run; `interruption`: what a run that ends early says.
* `demonstration`: calibration and measurement at the end instead; `demo`: `peft-igc demo`, which runs a recipe.

Imports `data`, `tuner`, `inference`, `trainer` and `demo`; outside of the package trl, datasets, accelerate and their
dependencies. Start with `run`.
"""

from .run import main, parse, script


__all__ = ["main", "parse", "script"]
