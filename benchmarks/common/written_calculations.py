"""Calculations that a text writes, `30 snakes * 3 = 90`, and whether they are true; told by Python's fractions.

In: a text. Out: for each `=` the exact value of the expression before it and the number after it, as far as both can
be read. This is a reader of its own, with regular expressions: it shares nothing with the rules that the calculator
reads by, so that it can find them wrong. What it cannot read is counted, not guessed.
"""

from __future__ import annotations

import ast
import operator
import re
from fractions import Fraction
from typing import NamedTuple

from peft_igc.inference import evaluation


_CURRENCY = "$€£¥₹"
_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_SIGN = r"[-+*/x×÷\u2212\u2013]"
_WORD = r"(?!x\b)[A-Za-z][A-Za-z'.-]*"
_WORDS = rf"{_WORD}(?:\s+{_WORD}){{0,3}}"
# Units between a number and an operator or the end: `30 snakes * 3 birds/snake`, `$5 per hour`. Not a lone `x`.
_UNIT = re.compile(rf"(?<=[\d)%])(?:\s+{_WORDS})?(?:\s*/\s*{_WORDS})?(?=\s*(?:[-+*/)=×÷\u2212\u2013]|x\b)|\s*$)")
_OPERAND = rf"[\s({_CURRENCY}]*(?:-(?=[\d{_CURRENCY}.]))?[\s({_CURRENCY}]*(?:{_NUMBER})[\s)%]*"
_OF = re.compile(rf"%\s+of\s+(?=[\s({_CURRENCY}]*(?:{_NUMBER}))")  # `10% of $5000/4`
_EXPRESSION = re.compile(rf"{_OPERAND}(?:{_SIGN}{_OPERAND})+$")
_BEGINNING = re.compile(rf"{_OPERAND}(?:{_SIGN}{_OPERAND})+")
# Before an expression that is a part of more: `1 1/2`, `1 and 1/4`, `12:30`, `66(1/3)`, `M + 4 + 2`.
_PART = re.compile(r"\d\s+(?:and\s+)?$|\d:$|[\w.,)^]$|[-+*/×÷\u2212\u2013]\s*$|\bx\s*$")
_RESULT = re.compile(rf"\s*([-\u2212]?)\s*[{_CURRENCY}]?\s*([-\u2212]?)({_NUMBER})(\s?%?)")
_LATEX = {  # and the bold type of Markdown
    r"\\(?:text|textbf|mathrm|boxed)\{([^{}]*)\}": r" \1 ",
    r"\\d?frac\{([^{}]*)\}\{([^{}]*)\}": r"((\1)/(\2))",
    r"\\times|\\cdot": "*",
    r"\\div": "/",
    r"\{,\}": ",",
    r"\\(?=[%$])": "",
    r"\\(?:left|right|quad)\b|\\[()[\],;: \\]|\*\*|\$\$|&": " ",
}
_FINAL = re.compile(rf"####\s*([-\u2212]?)\s*[{_CURRENCY}]?\s*([-\u2212]?)({_NUMBER})")
_PLAIN = str.maketrans({"x": "*", "×": "*", "÷": "/", "\u2212": "-", "\u2013": "-"} | dict.fromkeys(_CURRENCY))
_APPLY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


class Calculation(NamedTuple):
    """What is around one `=`."""

    place: int  # index of the `=` in the text
    value: Fraction | None  # of the expression before it; None if there is none that can be read
    written: Fraction | None  # the number after it; None if there is none
    places: int  # decimal places of that number, two more for a per cent sign
    right: Fraction | None = None  # of the expression that begins with that number, as in `(2+4)*2 = 6*2`

    @property
    def is_true(self) -> bool | None:
        """Whether it is true as written, or rounded to the decimal places written; None: it cannot be told."""
        if self.value is None or self.written is None:
            return None
        if self.right is not None and self.right == self.value:
            return True
        # `100 - 95 = 5%` means per cent on both sides.
        either = (self.written, 100 * self.written) if self.places >= 2 else (self.written,)
        return any(agrees(self.value, written, self.places) for written in either)


def agrees(value: Fraction, written: Fraction, places: int) -> bool:
    """Whether a number is a value, or the value rounded to its decimal places, of which it then has some."""
    return value == written or (places > 0 and 2 * abs(value - written) * 10**places <= 1)


def calculations(text: str) -> list[Calculation]:
    """One for each `=` of a text, in order."""
    found, begin = [], 0
    for match in re.finditer("=", text):
        line = text.rfind("\n", begin, match.start()) + 1
        left, after = (
            _left(_bare(text[max(begin, line) : match.start()])),
            _bare(text[match.end() :].partition("\n")[0]),
        )
        written, places = _read(_RESULT.match(after))
        rest = _BEGINNING.match(_UNIT.sub("", after))
        right = None if rest is None else value_of(_plain(rest[0]))
        value = None if left is None else value_of(left)
        found.append(Calculation(match.start(), value, written, places, right))
        begin = match.end()
    return found


def _bare(text: str) -> str:
    """A part of a line without LaTeX."""
    for mark, meaning in _LATEX.items():
        text = re.sub(mark, meaning, text)
    return text


def _left(text: str) -> str | None:
    """The longest expression at the end of a text, with at least one operator, in Python's signs."""
    text = _UNIT.sub("", _OF.sub("% * ", text.rstrip()))
    match = _EXPRESSION.search(text)
    if match is None or _PART.search(text[: match.start()] + match[0][: len(match[0]) - len(match[0].lstrip())]):
        return None
    return _plain(match[0])


def _plain(expression: str) -> str:
    """An expression in Python's signs, without brackets that are not closed within it."""
    found = expression.translate(_PLAIN).replace(",", "").strip()
    while found.count("(") > found.count(")") and found.startswith("("):
        found = found[1:].strip()
    return found


def value_of(expression: str) -> Fraction | None:
    """The value of an expression in Python's signs; None if it has none."""
    numbers: list[Fraction] = []

    def name(match: re.Match[str]) -> str:
        numbers.append(Fraction(match[1]) / (100 if match[2].strip() else 1))
        return f"n{len(numbers) - 1}"

    def value(node: ast.AST) -> Fraction:
        if isinstance(node, ast.BinOp) and type(node.op) in _APPLY:
            return _APPLY[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return -value(node.operand) if isinstance(node.op, ast.USub) else value(node.operand)
        if isinstance(node, ast.Name):
            return numbers[int(node.id[1:])]
        raise ValueError(expression)

    try:
        return value(ast.parse(re.sub(rf"({_NUMBER})(\s*%?)", name, expression).strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _read(match: re.Match[str] | None) -> tuple[Fraction | None, int]:
    """A matched number and its decimal places; per cent are hundredths."""
    if match is None:
        return None, 0
    digits = match[3].replace(",", "")
    number = Fraction(digits) * (-1 if match[1] or match[2] else 1)
    places = len(digits.partition(".")[2])
    percent = match.lastindex == 4 and "%" in match[4]
    return (number / 100, places + 2) if percent else (number, places)


def first_number(text: str) -> Fraction | None:
    """The number with which a text begins, apart from white space and a currency sign; a per cent sign is ignored."""
    match = _RESULT.match(text)
    return None if match is None else _read(match)[0] * (100 if "%" in match[4] else 1)  # type: ignore[operator]


def final_answer(text: str) -> Fraction | None:
    """The number after the last `####`."""
    found = list(_FINAL.finditer(text))
    return _read(found[-1])[0] if found else None


def interval(hits: int, n: int) -> list[float]:
    """The Wilson interval of 95% of a share, rounded to four places."""
    return [round(bound, 4) for bound in evaluation.interval(hits, n)] if n else [0.0, 1.0]
