"""How sure a reading is: a temperature for its probability, and what each value of `confidence` would give.

* `prompt_readings`: reads prompts without answering them; `operating_curve`: fits the temperature, and counts right,
  wrong and silent against the threshold; `run`: the command `peft-igc calibrate`.

Start with `run`.
"""

from .operating_curve import OperatingPoint, fit_temperature, operating_curve
from .prompt_readings import PromptReading, read_prompts


__all__ = ["OperatingPoint", "PromptReading", "fit_temperature", "operating_curve", "read_prompts"]
