"""Expressions in symbols: reading them from a text by rule, and their exact values. No model and no learned weights
here.

* `alphabet`, `words`: the symbols of characters, and the words that matter beside numbers.
* `symbols`: the symbols of every token, saved with an adapter. `stream`: a text as one row of symbols.
* `rules_after`, `rules_inside`, `rules_before`: what an expression is and what may stand around it, read from the end.
* `automaton`: rules as tables that read rows in parallel. `brackets`: what has no bounded depth.
* `reading`: the expression at an anchor, or the reason for a refusal.
* `items`: an expression as rows of numbers, operators and brackets.
* `reasons`: why an expression is refused.
* `limbs`: arithmetic of natural numbers as limbs of eight digits.
* `fixed_point`: arithmetic of exact decimals, and what becomes of quotients that do not end.
* `decimals`: calculations with two decimals of a request in words; decimals as text.
* `order`: the grammar; which operator is reduced when.
* `grammar`: the values of expressions.

Imports `numbers`, and torch. Start with `items`, then `reading`. Try it: `pytest tests/expressions`
"""

from .decimals import DecimalResult, calculate_decimals, canonical
from .fixed_point import Rounding, kept_digits
from .grammar import Evaluated, Reduction, evaluate, reductions
from .items import Item, Items, encode_items
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
    "read_expressions",
    "reductions",
    "status_of",
]
