"""The calculations that finished texts state, and whether they are true.

* `claims`: those of one text. `files`: those of a file of text, Markdown, JSON lines or CSV.

Start with `claims`. Try it: `peft-igc check report.md`, `pytest tests/text/test_checking.py`
"""

from .claims import Claim, Verdict, check
from .files import check_file


__all__ = ["Claim", "Verdict", "check", "check_file"]
