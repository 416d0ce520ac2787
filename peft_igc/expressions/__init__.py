"""What the rules about requests in words read of a text, on the device. No model, no learned weights.

* `alphabet`, `words`: the symbols of characters, and the words that matter beside numbers.
* `symbols`: the symbols of every token, made of an adapter's vocabulary. `stream`: a text as one row of symbols.
* `rules`: what a number in words is; rules become tables.
* `literals`: the numbers of a request in words, with their signs. `names`: the operations that a text names.

Expressions in symbols are read by `text`. Imports `numbers` and `text`, and torch. Start with `literals`. Try it:
`pytest tests/expressions`
"""

from .literals import Literals, literals
from .symbols import SymbolTable, SymbolTokens
from .words import WordList


__all__ = ["Literals", "SymbolTable", "SymbolTokens", "WordList", "literals"]
