"""Operand columns for rows that have none: from calculator annotations (GSM8K), or found by a language model.

* `gsm8k`: converts rows with marks such as `<<48/2=24>>`.
* `self_annotation`: tries calculations with the numbers of a text, and keeps one if it lowers the loss of the answer
  (paper, "Ground Truth Data").

Imports `numbers`, `data`, `tuner` and `inference`; outside of the package torch. Start with `gsm8k`.
"""

from .gsm8k import convert
from .self_annotation import annotate


__all__ = ["annotate", "convert"]
