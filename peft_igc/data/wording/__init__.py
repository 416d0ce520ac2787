"""The texts of generated rows: requests for a calculation, other texts, and the context of both.

The sentences are in `texts`: `requests`, `stories` (calculations), `unsupported` (arithmetic that the calculator does
not support), `silent` (no arithmetic), `look_alikes` (no arithmetic, with its signs), `context` (around a request),
`few` (a small wording), `words`; and in `by_hand`, a file per author.

* `phrases`: reads them; texts with alternatives, some trained, others held out; their fields.
* `drawing`: random drafts; `wording`: complete texts.
* `handwritten`: the texts with slots by many hands, or those of your files. `symbol_expressions`: expressions in
  symbols.

Of the package it imports `mixture` and `files`, and nothing from outside. Start with `wording`.
Try it: `pytest tests/data/test_wording.py`.
"""

from .handwritten import read_texts
from .wording import FEW, HELD_OUT, TRAINING, Wording


__all__ = ["FEW", "HELD_OUT", "TRAINING", "Wording", "read_texts"]
