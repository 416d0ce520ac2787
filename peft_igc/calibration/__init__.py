"""How sure a reading is: a temperature for its probability, and what each value of `confidence` would give.

`prompt_readings` reads prompts without answering them; `run`, the command `peft-igc calibrate`, fits the temperature,
and counts right, wrong and silent prompts against the threshold. Start with `run`.
"""

from .prompt_readings import PromptReading, read_prompts
from .run import OperatingPoint, fit_temperature, operating_curve


__all__ = ["OperatingPoint", "PromptReading", "fit_temperature", "operating_curve", "read_prompts"]
