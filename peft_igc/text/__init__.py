"""The known half: what follows from the characters of a text alone. Plain Python; nothing here imports torch.

* `vocabulary`: token ids as characters. `token_table`: how the tokens spell numbers.
* `pieces`: a text as numbers, words, operators and marks; `languages` has the words. `literals`: its numbers.
* `expressions`, `surroundings`: the expression that a text ends with, and what may be around it.
* `requests`: what a request in words is worth, and what in it contradicts a reading.
* `operations`, `grammar`: the exact values of expressions, as rationals.
* `claims`: the calculations that a finished text states. `spelling`: what continues a result, token by token.
* `values`, `rounding`: limits, how a value is rounded and written, and why there is none.
* `markup`: marks of LaTeX and Markdown as plain characters.
* `reading` joins all of it.

Start with `reading`. Try it: `pytest tests/text`
"""

from .claims import Verdict, check
from .pieces import CONTROL, UNKNOWN
from .reading import read
from .values import Limits, Reason, Refusal, Value
from .vocabulary import Vocabulary


__all__ = [
    "CONTROL",
    "UNKNOWN",
    "Limits",
    "Reason",
    "Refusal",
    "Value",
    "Verdict",
    "Vocabulary",
    "check",
    "read",
]
