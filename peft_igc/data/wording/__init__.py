"""The texts of generated rows: requests for a calculation, other texts, and the context of both.

* `texts` and `by_hand`: the sentences; `phrases`: which are trained and which held out, and their fields.
* `drawing`: random drafts; `wording`: complete texts.
* `handwritten`: the texts with slots by many hands, or those of your files. `symbol_expressions`: expressions in
  symbols.

Of the package it imports `mixture` and `files`. Start with `wording`.
"""

from .handwritten import read_texts
from .wording import FEW, HELD_OUT, TRAINING, Wording


__all__ = ["FEW", "HELD_OUT", "TRAINING", "Wording", "read_texts"]
