"""Rules for texts with numbers, as functions on the host that are made into tables for the device.

* `before`, `inside`, `after`: the text before an expression in symbols, the expression, and the text after it.
* `in_words`: the numbers of a request in words.
* `automaton`: rules as tables that read rows of symbols in parallel.

All rules read a text from its end. Start with `after`. Try it: `pytest tests/expressions/test_rules.py`
"""

from .after import automaton, rule
from .in_words import literal_automaton, literal_rule


__all__ = ["automaton", "literal_automaton", "literal_rule", "rule"]
