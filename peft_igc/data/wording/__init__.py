"""The texts of generated rows: requests for a calculation, other texts, and the context of both.

* `words`: words, names, fixed sentences; `grammar`: texts with alternatives, some trained, others held out.
* Pools of texts: `requests`, `everyday`, `stories` (calculations), `unsupported` (arithmetic that the calculator does
  not support), `plain_texts` (no arithmetic), `look_alikes` (no arithmetic, with its signs), `context_texts` (around
  a request). `symbol_expressions`: expressions in symbols, in many spellings.
* `draw_templates`, `draw_context`: random drafts from the pools; `wording`: complete texts with their numbers;
  `casual`: how people type them in a hurry.
* `templates`: a small wording with pools of its own.

Of the package it imports `mixture`, and nothing from outside. Start with `wording`.
Try it: `pytest tests/data/test_wording.py`.
"""

from .templates import FEW, Templates
from .wording import HELD_OUT, NEW, TRAINING, Wording


__all__ = ["FEW", "HELD_OUT", "NEW", "TRAINING", "Templates", "Wording"]
