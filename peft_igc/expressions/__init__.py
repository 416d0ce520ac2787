"""Expressions in symbols: reading them from a text by rule, and their exact values. No model, no learned weights.

* `items`: an expression as rows of numbers, operators and brackets.
* `reasons`: why an expression is refused.

Imports `numbers`, and torch. Start with `items`. Try it: `pytest tests/expressions`
"""

from .items import Item, Items, encode_items
from .reasons import REASON_TEXTS, Reason


__all__ = [
    "REASON_TEXTS",
    "Item",
    "Items",
    "Reason",
    "encode_items",
]
