"""Expressions in symbols: reading them from a text by rule, and their exact values. No model, no learned weights.

* `alphabet`, `words`: the symbols of characters, and the words that matter beside numbers.
* `symbols`: the symbols of every token, saved with an adapter. `stream`: a text as one row of symbols.
* `rules`: what an expression is, what may stand around it, and what a number in words is; rules become tables.
* `brackets`: what has no bounded depth. `reading`: the expression at an anchor, or the reason for a refusal.
* `literals`: the numbers of a request in words, with their signs. `names`: the operations that a text names.
* `items`: an expression as rows of numbers, operators and brackets.
* `order`, `grammar`: which operator is reduced when, and the values of expressions.
* `limbs`, `fixed_point`, `decimals`: natural numbers as limbs, exact decimals, and two decimals of a request in words.
* `reasons`: why an expression is refused.

Imports `numbers`, and torch. Start with `items`, then `reading` and `grammar`. Try it: `pytest tests/expressions`
"""

from .decimals import DecimalResult, calculate_decimals, canonical
from .fixed_point import Rounding, kept_digits
from .grammar import Evaluated, Reduction, evaluate, reductions
from .items import Item, Items, encode_items
from .literals import Literals, literals
from .reading import ExpressionReading, read_expressions
from .reasons import REASON_TEXTS, Reason, status_of
from .symbols import SymbolTable, SymbolTokens
from .words import WordList


__all__ = [
    "REASON_TEXTS",
    "DecimalResult",
    "Evaluated",
    "ExpressionReading",
    "Item",
    "Items",
    "Literals",
    "Reason",
    "Reduction",
    "Rounding",
    "SymbolTable",
    "SymbolTokens",
    "WordList",
    "calculate_decimals",
    "canonical",
    "encode_items",
    "evaluate",
    "kept_digits",
    "literals",
    "read_expressions",
    "reductions",
    "status_of",
]
