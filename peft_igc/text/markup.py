r"""Marks of LaTeX and Markdown, in which large models write, as plain characters.

In: a text such as `\( 9 \times \$2 =`. Out: a text of the same length, `   9 *       $2 =`. Characters stay where they
are, those of a fraction within two places. What is not known stays, and refuses what it touches: other commands, and
marks that may be brackets or operators. Try it: `pytest tests/text/test_markup.py`
"""

from __future__ import annotations

import re

from .pieces import FILL, kind_of


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
    r"|&(?=\s*=)|\^(?:\\circ|\{\\circ\})"
)
_SEPARATOR = re.compile(r"(?<=[0-9])(?:\{,\}(?:\\!)?|,\\!|\\,)(?=[0-9]{3})")
_ENDS = r"\-+*/×÷^−–·∙⋅∗∕"  # operators
_COMMAND = r"\\(?:times|div|cdot|ast|\*|text\{\s*of)"
# What is next to marks that are brackets, if there is a calculation within them.
_OPERATES = re.compile(
    rf"(?:[{_ENDS}(]|(?<![A-Za-z])x|\bof\b(?:[A-Za-z ]*\Z)?|{_COMMAND}\s*\}}?)(?:\\[,;:!]|\s)*\Z"
    r"|[%$0-9](?:\\[,;:!]|[^\S\n])*\Z",
    re.IGNORECASE,
)
_APPLIES = re.compile(rf"(?:\\[,;:!]\s*)*(?:[{_ENDS}(0-9]|\\?%|x\b|of\b|{_COMMAND}|\\left)", re.IGNORECASE)
_OPERATION = re.compile(rf"(?:[{_ENDS}]|(?<![A-Za-z])x|{_COMMAND})\s*[\\$€£¥({{]*\s*[0-9]", re.IGNORECASE)
_NEAR = 40  # characters
_ENVIRONMENT = r"\{(?:align|aligned|equation|gather|gathered|split)\*?\}"
_FORMULA = re.compile(
    rf"(?<!\\)(\\\(|\\\[|\$\$|\\begin{_ENVIRONMENT})"
    r"((?:(?!\\[()\[\]]|\$\$|\\begin|\\end).)*)"
    r"(\\\)|\\\]|\$\$|\\end\{[a-z]*\*?\}|\Z)",
    re.DOTALL,
)
_WORDS = re.compile(r"(\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|boxed)\{)([^{}]*)(\})(?!\s*[(\[])")
_NAME = re.compile(r"\s*[A-Za-z].*[0-9]")  # `Room 5`
_FRACTION = re.compile(r"\\[dt]?frac\{([^{}\\]*)\}\{([^{}\\]*)\}")
_AMOUNT = re.compile(rf"\s*\$?[0-9][0-9.,{FILL}]*%?[A-Za-z\s]*")
_ROOT = re.compile(r"\\sqrt\{([^{}\\]*)\}")
_POWER = re.compile(r"\^\{([^{}\\]*)\}")
# A line break, with its height. A row that goes on with `=` belongs to the row before it.
_BREAK = re.compile(rf"([^{_ENDS}({{}}\\\s]\s*)(\\\\(?:\[[0-9a-z.]*\])?)(\s*(?:&\s*)?)(?![\s&\\A-Za-z:{_ENDS}])")
# Bold type; a power has something on its left.
_BOLD = re.compile(r"(?<![\w)*.])(\*\*)(?=[^\s*])((?:[^*\n]|(?<!\*)\*(?!\*))*)(?<=[^\s*])(\*\*)(?![\w(*])")
_ITEM = re.compile(r"(\n[ \t]*)([-*•])(?=[ \t]([^\n]*))")
_ROW = re.compile(r"^[ \t]*\|[ \t].*?[ \t]\|[ \t].*", re.MULTILINE)  # of a table, whose cells are lines
_OPEN_CELL = re.compile(rf"[{_ENDS}(]\s*\||\|\s*[{_ENDS}]|\|\(")
_ARROWS = frozenset("→⇒⟹")
_ARROW = re.compile(rf"([^{_ENDS}(\s]\s*)[→⇒⟹]")


def plain(text: str) -> str:
    """A text without marks of LaTeX and Markdown, of the same length."""
    text = _ITEM.sub(_item, text)
    if "**" in text:
        text = _BOLD.sub(_apart, text)
    if "\\" in text or "$$" in text or "{,}" in text:
        text = _without_latex(text)
    if "|" in text:
        text = _ROW.sub(lambda row: row[0] if _OPEN_CELL.search(row[0]) else row[0].replace("|", "\n"), text)
    if not _ARROWS.isdisjoint(text):
        text = _ARROW.sub(r"\1" + "\n", text)
    return text


def _without_latex(text: str) -> str:
    for _ in range(2):  # environments within formulas
        text = _FORMULA.sub(_apart, text)
    text = _SEPARATOR.sub(lambda match: ",".ljust(len(match[0]), FILL), text)
    text = _SIGN.sub(lambda match: _SIGNS.get(match[0], "").ljust(len(match[0])), text)
    for _ in range(2):  # a unit within a fraction, and a fraction within a box
        text = _WORDS.sub(_words, text)
        text = _FRACTION.sub(_fraction, text)
        text = _ROOT.sub(r" sqrt(\1)", text)
        text = _POWER.sub(r"^(\1)", text)
    return _BREAK.sub(_break, text)


def _apart(match: re.Match[str]) -> str:
    """What is between two marks without them. They stay if it is a calculation and something next to it applies."""
    first, inside, last = match.groups()
    if _OPERATION.search(inside):
        text, end = match.string, match.end()
        before = text[max(match.start() - _NEAR, 0) : match.start()]
        if not first.startswith(("$$", r"\[", r"\begin")):  # in a line, which may be broken before it
            before = before.replace("\n", " ")
        if _OPERATES.search(before) or (last and _APPLIES.match(text[end : end + _NEAR].lstrip())):
            return match[0]
    return " " * len(first) + inside + " " * len(last)


def _words(match: re.Match[str]) -> str:
    """Words without their command; a number with a name before it is none."""
    return match[0] if _NAME.match(match[2]) else _apart(match)


def _fraction(match: re.Match[str]) -> str:
    """A fraction as a quotient in brackets."""
    above, below = (part if _AMOUNT.fullmatch(part) else f"({part})" for part in match.groups())
    return f"({above}/{below})".rjust(len(match[0]))


def _break(match: re.Match[str]) -> str:
    """A line break of LaTeX as one of the text."""
    goes_on = match.string.startswith("=", match.end())
    return match[1] + (" " if goes_on else "\n").ljust(len(match[2]) + len(match[3]))


def _item(match: re.Match[str]) -> str:
    """The mark of an item of a list as a space; a minus may be a sign, and after `Balance: 100` an operator.

    The line before an item ends a sentence or is a heading, without a number, or is an item with a result. After a
    minus there are words, not only units.
    """
    text, end = match.string, match.start()
    while end and text[end - 1].isspace():
        end -= 1
    line = text[text.rfind("\n", 0, end) + 1 : end].lstrip()
    is_item = line[:1] in "-*•" and "=" in line and line.rstrip("*")[-1] not in "-+*/×÷−–(=\\"
    is_text = line.endswith((":", ".", "!", "?", "**")) or line.startswith("#")
    begins = is_item or (is_text and not re.search("[0-9]", line))
    words = re.findall("[A-Za-z]{2,}", match[3])
    begins = begins and (match[2] != "-" or any(kind_of(word) == "letters" for word in words))
    return f"{match[1]} " if begins else match[0]
