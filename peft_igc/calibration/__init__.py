"""How sure a reading is: a temperature for its probability, and what each value of `confidence` would give.

* `prompt_readings`: reads prompts without answering them; `temperature`: fits it; `operating_curve`: right, wrong and
  silent against the threshold; `run`: the command `peft-igc calibrate`.

Start with `run`.
"""

from .operating_curve import OperatingPoint, operating_curve
from .prompt_readings import PromptReading, read_prompts
from .temperature import fit_temperature


__all__ = ["OperatingPoint", "PromptReading", "fit_temperature", "operating_curve", "read_prompts"]
