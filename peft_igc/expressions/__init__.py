"""Expressions in symbols: reading them from a text by rule, and their exact values. No model, no learned weights.

* `items`: an expression as rows of numbers, operators and brackets.
* `reasons`: why an expression is refused.
* `limbs`: arithmetic of natural numbers as limbs of eight digits.
* `fixed_point`: arithmetic of exact decimals, and what becomes of quotients that do not end.
* `decimals`: calculations with two decimals of a request in words; decimals as text.
* `order`: the grammar; which operator is reduced when.
* `grammar`: the values of expressions.

Imports `numbers`, and torch. Start with `items`, then `grammar`. Try it: `pytest tests/expressions`
"""

from .decimals import DecimalResult, calculate_decimals, canonical
from .fixed_point import Rounding, kept_digits
from .grammar import Evaluated, Reduction, evaluate, reductions
from .items import Item, Items, encode_items
from .reasons import REASON_TEXTS, Reason, status_of


__all__ = [
    "REASON_TEXTS",
    "DecimalResult",
    "Evaluated",
    "Item",
    "Items",
    "Reason",
    "Reduction",
    "Rounding",
    "calculate_decimals",
    "canonical",
    "encode_items",
    "evaluate",
    "kept_digits",
    "reductions",
    "status_of",
]
