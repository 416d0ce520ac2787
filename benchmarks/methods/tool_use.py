"""Tool use in the Toolformer's form: the model writes a call, Python calculates, the model goes on with the result.

    call(58213*907)=52799191;52799191
    |_______________||_______||______|
      the model       the tool  the model

The loop (`answer_loop`) stops at `=`, feeds the tool's tokens, and goes on. The call's text is short, one token of the
embedded base for its name, so that this baseline is as fast as it can be. `SPLICED` is leaner still: what the tool
says stands in the answer itself and is not written again. The tool runs in-process, on Python's integers,
without sleep. Where there is no result it says `?`. `visible` takes calls out of a text. Nothing is corrected: a call
that cannot be read gets `?` too, and is counted. Try it: `pytest tests/benchmarks/test_commands.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from peft_igc.numbers.calculator import evaluate_exactly


NAME = "call"
NO_RESULT = "?"
_READABLE = re.compile(rf"{NAME}\((-?\d+)([-+*/])(-?\d+)\)=$")
_CALL = re.compile(rf"{NAME}\([^()]*\)=$")

Call = tuple[str, str, str]  # operator and operands


def exactly(operator: str, first: str, second: str) -> str:
    """The result by Python's integers; `?` where there is none."""
    result = evaluate_exactly(operator, first, second)
    return result if isinstance(result, str) else NO_RESULT


@dataclass(frozen=True)
class Tool:
    """A calculator outside of the model.

    Args:
        close: What follows its reply; "" if the reply is part of the answer.
        calculate: From operator and operands to a result.
    """

    close: str = ";"
    calculate: Callable[[str, str, str], str] = exactly
    last_character: str = "="

    def written(self, operator: str, first: str, second: str) -> str:
        """A call as the model should write it."""
        return f"{NAME}({first}{operator}{second})="

    def call(self, text: str) -> tuple[bool, Call | None]:
        """Whether a call ends the text, and the call if it can be read."""
        if _CALL.search(text) is None:
            return False, None
        found = _READABLE.search(text)
        return True, None if found is None else (found[2], found[1], found[3])

    def reply(self, call: Call | None) -> str:
        """What is fed after a call."""
        return (NO_RESULT if call is None else self.calculate(*call)) + self.close

    def visible(self, text: str) -> str:
        """The text without its calls, and without replies that are not part of the answer."""
        reply = rf"[^{self.close}]*{self.close}" if self.close else ""
        return re.sub(rf"{NAME}\([^()]*\)={reply}", "", text)


RESTATED = Tool()
SPLICED = Tool(close="")
