"""How sure an adapter has to be before it writes: `peft-igc calibrate`.

* `calibrate`: readings of prompts, temperature, threshold, operating curve, and their record.

Imports `numbers`, `mappings`, `tuner` and `inference`; outside of the package torch, peft and, for the plot,
matplotlib. Start with `calibrate`.
"""

from .calibrate import fit_temperature, operating_curve, read_prompts


__all__ = ["fit_temperature", "operating_curve", "read_prompts"]
