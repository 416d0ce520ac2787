"""Rules for the numbers of a request in words, as functions on the host that are made into tables for the device.

* `in_words`: the rules, which read a text from its end.
* `automaton`: rules as tables that read rows of symbols in parallel.

Start with `in_words`. Try it: `pytest tests/expressions/test_rules.py`
"""

from .in_words import literal_automaton, literal_rule


__all__ = ["literal_automaton", "literal_rule"]
