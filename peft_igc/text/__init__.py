"""The known half: what follows from the characters of a text alone. Plain Python; nothing here imports torch.

* `pieces`: a text as numbers, words, operators and marks; `languages` has the words.
* `expressions`, `surroundings`, `look_alikes`: the expression that a text ends with, and what may stand around it.
* `operations`, `grammar`: the exact values of expressions, as rationals.
* `refusals`: why there is no value, and where. `reading` joins all of it.

Start with `reading`. Try it: `pytest tests/text`
"""

from .operations import FUNCTIONS, OPERATORS, Function, Operator
from .pieces import CONTROL, UNKNOWN, Words, words
from .reading import read
from .refusals import REASON_TEXTS, Limits, Reason, Reduction, Refusal, Value


__all__ = [
    "CONTROL",
    "FUNCTIONS",
    "OPERATORS",
    "REASON_TEXTS",
    "UNKNOWN",
    "Function",
    "Limits",
    "Operator",
    "Reason",
    "Reduction",
    "Refusal",
    "Value",
    "Words",
    "read",
    "words",
]
