"""The demonstration's measurements: what `peft-igc sft` does after a training with `igc_demonstration`.

* `measure`: settings, calibration, all sets measured, the report.
* `sets`: generated and human-written texts, verdicts.
* `smollm2`: a real model from the package index, converted once.

Imports every room below except `annotation`. Start with `measure`.
"""

from .measure import Demonstration, Measurement


__all__ = ["Demonstration", "Measurement"]
