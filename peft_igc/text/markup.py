r"""Marks of LaTeX and Markdown, in which large models write, as plain characters.

In: a text such as `\( 9 \times \$2 =`. Out: a text of the same length, `   9 *       $2 =`. Characters stay where they
are, those of a fraction within two places. What is not known stays, and refuses what it touches: other commands, and
marks that may be brackets or operators. Try it: `pytest tests/text/test_markup.py`
"""

from __future__ import annotations

import re

from .pieces import FILL


_SIGNS = {
    **dict.fromkeys((r"\times", r"\cdot", r"\ast"), "*"),
    **dict.fromkeys((r"\Rightarrow", r"\implies", r"\rightarrow", r"\to"), "→"),
    r"\div": "/",
    r"\approx": "≈",
    r"\%": "%",
    r"\$": " $",
    r"\*": " *",
}
_NAMES = "|".join([*(one[1:] for one in _SIGNS if one[1:].isalpha()), "left(?=[(])", "right(?=[)])", "displaystyle"])
_SIGN = re.compile(
    rf"(?<!\\)\\(?:(?:{_NAMES})(?![A-Za-z])|q?quad(?=\s*[A-Za-z\\=,]|\s*$)|[,;: %$*])"
    r"|\\(?:begin|end)\{(?:align|aligned|equation|gather|gathered|split)\*?\}|\$\$|&(?=\s*=)|\^(?:\\circ|\{\\circ\})"
)
_SEPARATOR = re.compile(r"(?<=[0-9])(?:\{,\}(?:\\!)?|,\\!|\\,)(?=[0-9]{3})")
_ENDS = r"\-+*/×÷^"  # operators
# `\( 5 \) - \( 3 + 4 \)` has brackets: the marks of a formula next to an operator stay.
_FORMULA = re.compile(rf"(?<![\\{_ENDS}])(?<![{_ENDS}] )\\[(\[]|(?<!\\)\\[)\]](?!\s*[{_ENDS}])")
_WORDS = re.compile(r"(\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|boxed)\{)([^{}]*)\}(?!\s*[(\[])")
_CALCULATION = re.compile(r"[0-9)]\s*[-+*/×÷]\s*[0-9($]")
_NAME = re.compile(r"\s*[A-Za-z].*[0-9]")  # `Room 5`
_FRACTION = re.compile(r"\\[dt]?frac\{([^{}\\]*)\}\{([^{}\\]*)\}")
_AMOUNT = re.compile(rf"\s*\$?[0-9][0-9.,{FILL}]*%?[A-Za-z\s]*")
_ROOT = re.compile(r"\\sqrt\{([^{}\\]*)\}")
_POWER = re.compile(r"\^\{([^{}\\]*)\}")
# A line break, with its height. A row that goes on with `=` belongs to the row before it.
_BREAK = re.compile(rf"([^{_ENDS}({{}}\\\s]\s*)(\\\\(?:\[[0-9a-z.]*\])?)(\s*(?:&\s*)?)(?![\s&\\A-Za-z{_ENDS}])")
_CELL = re.compile(rf"([A-Za-z:]\s*)&(?!\s*[{_ENDS}])")
# Bold type, of which the end may be missing; a power has something on its left.
_BOLD = re.compile(r"(?<![\w)*.])\*\*(?=[^\s*])((?:[^*\n]|(?<!\*)\*(?!\*))*)(?<=[^\s*])\*\*(?![\w(*])")
_OPENED = re.compile(r"^([ \t]*(?:(?:[-•]|[0-9]+[.)])[ \t]+)?)\*\*(?=[A-Za-z])", re.MULTILINE)
# The mark of an item; a minus before numbers alone may be a sign.
_ITEM = re.compile(r"\n[ \t]*(?:-(?=[ \t][^\n]*(?:[A-Za-z]{2}|[$€£\\]))|[*•](?=[ \t]))")
_ROW = re.compile(r"^[ \t]*\|[ \t].*?[ \t]\|[ \t].*", re.MULTILINE)  # of a table, whose cells are lines
_OPEN_CELL = re.compile(rf"[{_ENDS}(]\s*\||\|\s*[{_ENDS}]")
_ARROW = re.compile(rf"([^{_ENDS}(\s]\s*)[→⇒⟹]")


def plain(text: str) -> str:
    """A text without marks of LaTeX and Markdown, of the same length."""
    text = _ITEM.sub(_item, text)
    if "**" in text:
        text = _OPENED.sub(r"\1  ", _BOLD.sub(_bold, text))
    if "\\" in text or "$$" in text or "{,}" in text:
        text = _without_latex(text)
    if "|" in text:
        text = _ROW.sub(lambda row: row[0] if _OPEN_CELL.search(row[0]) else row[0].replace("|", "\n"), text)
    return _ARROW.sub(r"\1" + "\n", text)


def _without_latex(text: str) -> str:
    text = _SEPARATOR.sub(lambda match: ",".ljust(len(match[0]), FILL), text)
    text = _SIGN.sub(lambda match: _SIGNS.get(match[0], "").ljust(len(match[0])), text)
    text = _FORMULA.sub("  ", text)
    for _ in range(2):  # a unit within a fraction, and a fraction within a box
        text = _WORDS.sub(_words, text)
        text = _FRACTION.sub(_fraction, text)
        text = _ROOT.sub(r" sqrt(\1)", text)
        text = _POWER.sub(r"^(\1)", text)
    return _CELL.sub(r"\1 ", _BREAK.sub(_break, text))


def _words(match: re.Match[str]) -> str:
    """Words without their command; a calculation is one operand, and a number with a name before it none."""
    is_words = not (_CALCULATION.search(match[2]) or _NAME.match(match[2]))
    return f"{' ' * len(match[1])}{match[2]} " if is_words else match[0]


def _fraction(match: re.Match[str]) -> str:
    """A fraction as a quotient in brackets."""
    above, below = (part if _AMOUNT.fullmatch(part) else f"({part})" for part in match.groups())
    return f"({above}/{below})".rjust(len(match[0]))


def _break(match: re.Match[str]) -> str:
    """A line break of LaTeX as one of the text."""
    goes_on = match.string.startswith("=", match.end())
    return match[1] + (" " if goes_on else "\n").ljust(len(match[2]) + len(match[3]))


def _bold(match: re.Match[str]) -> str:
    """Words in bold type as plain ones; a calculation is one operand, unless nothing is next to it."""
    if _CALCULATION.search(match[1]):
        before, after = match.string[: match.start()].rstrip(" \t"), match.string[match.end() :].lstrip(" \t")
        if not (re.search(r"(?:^|[\n:.,;(]|[A-Za-z]{2})$", before[-2:]) and re.match(r"[=.,:;)\n]|$", after)):
            return match[0]
    return f"  {match[1]}  "


def _item(match: re.Match[str]) -> str:
    """The mark of an item of a list as a space; after `Balance: 100` it may be an operator.

    The line before an item ends a sentence or is a heading, without a number, or is an item with a result.
    """
    text, end = match.string, match.start()
    while end and text[end - 1].isspace():
        end -= 1
    line = text[text.rfind("\n", 0, end) + 1 : end].lstrip()
    is_item = line[:1] in "-*•" and "=" in line
    is_text = line.endswith((":", ".", "!", "?", "**")) or line.startswith("#")
    begins = (is_item and line[-1] not in f"{_ENDS}(=\\") or (is_text and not re.search("[0-9]", line))
    return match[0][:-1] + " " if begins else match[0]
