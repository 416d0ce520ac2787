r"""Marks of LaTeX and Markdown, in which large models write, as plain characters.

In: a text such as `\( 9 \times \$2 =`. Out: a text of the same length, `   9 *       $2 =`, whose characters are where
they were. A command that is not known stays, and so does a fraction whose denominator is more than a number: what
they touch is refused. Try it: `python -c "from peft_igc.text.markup import plain; print(plain(r'5 \times 3 ='))"`
"""

from __future__ import annotations

import re

from .pieces import FILL


_SIGNS = {
    **dict.fromkeys((r"\times", r"\cdot", r"\ast"), "*"),
    **dict.fromkeys((r"\Rightarrow", r"\implies", r"\rightarrow", r"\to", "\\\\"), "\n"),
    r"\div": "/",
    r"\approx": "≈",
    r"\%": "%",
    r"\$": " $",
}
_NAMES = "|".join(one[1:] for one in _SIGNS if one[1:].isalpha()) + "|left|right|displaystyle|quad|qquad"
_SIGN = re.compile(rf"\\(?:(?:{_NAMES})(?![A-Za-z])|[()\[\],;:! %$\\]|(?:begin|end)\{{[^{{}}]*\}})|\$\$|&")
_SEPARATOR = re.compile(r"(?<=[0-9])\{,\}(?=[0-9]{3})")
_NUMBER = rf"\s*\$?[0-9][0-9,{FILL}]*(?:\.[0-9]+)?%?\s*"
# `\frac{3 + 4}{2}` is `((3 + 4)/2)`; the denominator has no operation, but its unit may have words.
_FRACTION = re.compile(rf"\\[dt]?frac\{{([^{{}}\\]*)\}}\{{({_NUMBER}(?:[A-Za-z]+\s*)*)\}}")
_ROOT = re.compile(r"\\sqrt\{([^{}\\]*)\}")
_POWER = re.compile(r"\^\{([^{}\\]*)\}")
_WORDS = re.compile(r"(\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|boxed)\{)([^{}]*)\}")
# Bold type, of which the end may be missing; a power has something on its left.
_BOLD = re.compile(r"(?<![\w)*.])\*\*(?=[^\s*])((?:[^*\n]|(?<!\*)\*(?!\*))*)(?<=[^\s*])\*\*(?![\w(*])")
_OPENED = re.compile(r"^((?:[ \t]|[-•]|[0-9]+[.)])*)\*\*(?=[^\s*])", re.MULTILINE)
_ITEM = re.compile(r"\n\s*[-*•](?=[ \t])")
# A line before an item; after `12` the mark of an item may be an operator.
_BEFORE = re.compile(r"[ \t]*[-*•][ \t]|.*[A-Za-z]{2}")
_ROW = re.compile(r"^[ \t]*\|[ \t].*?[ \t]\|[ \t].*", re.MULTILINE)  # of a table, whose cells are lines
_ARROW = re.compile("[→⇒⟹]")


def plain(text: str) -> str:
    """A text without marks of LaTeX and Markdown, of the same length."""
    if "\\" in text or "$$" in text or "{,}" in text:
        text = _SIGN.sub(lambda match: _SIGNS.get(match[0], "").ljust(len(match[0])), text)
        text = _SEPARATOR.sub(f",{FILL}{FILL}", text)
        for _ in range(2):  # a unit within a fraction, and a fraction within a box
            text = _WORDS.sub(lambda match: f"{' ' * len(match[1])}{match[2]} ", text)
            text = _FRACTION.sub(lambda match: f"(({match[1]})/{match[2]})".rjust(len(match[0])), text)
            text = _ROOT.sub(r" sqrt(\1)", text)
            text = _POWER.sub(r"^(\1)", text)
    if "**" in text:
        text = _OPENED.sub(r"\1  ", _BOLD.sub(r"  \1  ", text))
    text = _ITEM.sub(_item, text)
    if "|" in text:
        text = _ROW.sub(lambda match: match[0].replace("|", "\n"), text)
    return _ARROW.sub("\n", text)


def _item(match: re.Match[str]) -> str:
    """The mark of an item of a list as a space."""
    line = match.string.rfind("\n", 0, match.start()) + 1
    return match[0][:-1] + " " if _BEFORE.match(match.string, line, match.start()) else match[0]
