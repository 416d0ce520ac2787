"""How results are written into a text, token by token.

* `spelling`: which token continues a result, and how much of it is written. `row`: the steps of one text as a value.

Start with `spelling`. Try it: `pytest tests/text/test_spelling.py`
"""

from .row import Row
from .spelling import Progress, Style, Written


__all__ = ["Progress", "Row", "Style", "Written"]
