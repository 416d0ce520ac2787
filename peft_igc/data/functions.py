"""Training rows for functions of given numbers: lists and tables with requests for a sum or a mean; percentages.

In: a seed; texts with slots and their answers as expressions (`answer_rows`). Out: rows with operand columns, whose
operands are a function's numbers: one or two in the function's order, else in the order of the text. Some layouts of
lists are held out. Sentences are in `functions.toml`; a user's own are the `phrasings` of `register_operation`.
Try it: `pytest tests/data/test_functions.py`
"""

import functools
import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..numbers.calculator import NO_ARITHMETIC, Status
from ..text.integers import integers
from ..text.operations import FUNCTIONS, takes
from ..text.values import Limits
from .arithmetic import Row
from .columns import label
from .files import read_rows
from .wording.phrases import UNABLE


__all__ = ["HELD_OUT", "LAYOUTS", "answer_rows", "function_rows", "list_rows", "row_of"]

_SLOTS = "abcd"
_LIMITS = Limits(operations=("+", "-", "*", "/"))
_EXACT = 0.9  # share of the rows whose result ends, if they can be drawn so
_TRIES = 100


@functools.cache
def _texts() -> dict[str, Any]:
    """The sentences."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def row_of(text: str, operator: str, operands: Sequence[str] = (), limits: Limits = _LIMITS) -> Row:
    """A row of a text that asks for an operation, or for none."""
    if operator == NO_ARITHMETIC:
        columns: Row = {"igc_operator": operator, "igc_operands": None, "igc_result": None}
    else:
        result = label(operator, [_plain(one) for one in operands], limits)
        shown = result.name.lower() if isinstance(result, Status) else result
        columns = {"igc_operator": operator, "igc_operands": list(map(_plain, operands)), "igc_result": shown}
    shown = columns["igc_result"]
    completion = UNABLE if shown is None or shown in _REFUSED else shown
    messages = {"prompt": [{"role": "user", "content": text}]}
    return {**messages, "completion": [{"role": "assistant", "content": completion}], **columns}


_REFUSED = frozenset(status.name.lower() for status in Status)


def _plain(number: str) -> str:
    """A number without separators and zeros at its end."""
    digits = number.replace(",", "")
    return digits.rstrip("0").rstrip(".") if "." in digits else str(int(digits))


# A layout of a list: names and numbers as lines, or as a part of a sentence.
Layout = Callable[[Sequence[str], Sequence[str], random.Random], str]


def _lines(form: str, head: str = "") -> Layout:
    """A layout with a line for each number; `form` has the slots `{name}`, `{n}`, `{i}` and `{q}`, another number."""

    def laid(names: Sequence[str], numbers: Sequence[str], rng: random.Random) -> str:
        wide = max(map(len, names))
        quantities = [str(rng.randint(1, 99)) for _ in names]
        rows = zip(names, numbers, quantities, strict=True)
        made = [form.format(name=a, n=n, q=q, i=i, pad=" " * (wide - len(a))) for i, (a, n, q) in enumerate(rows, 1)]
        return "\n".join([head, *made] if head else made)

    return laid


def _inline(joint: str, last: str = "", form: str = "{n}") -> Layout:
    """A layout within a sentence."""

    def laid(names: Sequence[str], numbers: Sequence[str], rng: random.Random) -> str:
        made = [form.format(name=name, n=number) for name, number in zip(names, numbers, strict=True)]
        return joint.join(made) if not last else f"{joint.join(made[:-1])}{last}{made[-1]}"

    return laid


_RECEIPT = "CORNER SHOP\nreceipt no. {}\n--------\n"
_TOTAL = "\n--------\nTOTAL ___"
LAYOUTS: dict[str, Layout] = {
    "commas": _inline(", "),
    "and": _inline(", ", " and "),
    "semicolons": _inline("; "),
    "spaces": _inline(" "),
    "named": _inline(", ", " and ", "{name} {n}"),
    "counted": _inline(", ", " and ", "{n} {name}"),
    "plus": _inline(" and "),
    "lines": _lines("{n}"),
    "list": _lines("- {name}: {n}"),
    "colons": _lines("{name}: {n}"),
    "words": _lines("{name} {n}"),
    "numbered": _lines("{i}. {name} {n}"),
    "markdown": _lines("| {name} | {n} |", "| item | price |\n|---|---|"),
    "columns": _lines("| {name} | {q} | {n} |", "| item | stock | price |\n| --- | ---: | ---: |"),
    "csv": _lines("{name},{n}", "item,amount"),
    "aligned": _lines("{name}{pad}  {n}"),
    "dots": _lines("{name} {pad}.... {n}"),
    "receipt": lambda names, numbers, rng: (
        _RECEIPT.format(rng.randint(100, 99999)) + _lines("{name} {pad} {n}")(names, numbers, rng) + _TOTAL
    ),
    "slashes": _inline(" / "),
    "brackets": lambda names, numbers, rng: f"[{', '.join(numbers)}]",
    "tabs": _lines("{name}\t{n}", "item\tamount"),
    "equals": _lines("{name} = {n}"),
    "stars": _lines("* {name} ({n})"),
    "table": _lines("{i} | {name} | {n}", "no | item | price"),
    "sums": _lines("{name}{pad} | {n}"),
    "arrows": _inline(", ", ", then ", "{name} -> {n}"),
    "semicolon csv": _lines("{name};{n}", "name;value"),
}
HELD_OUT = ("slashes", "brackets", "tabs", "equals", "stars", "table", "sums", "arrows", "semicolon csv")


def list_rows(
    seed: int, layouts: Sequence[str] | None = None, sizes: tuple[int, int] = (3, 50), none: float = 0.15
) -> Iterator[Row]:
    """An endless stream of lists with a request for one function of all their numbers, or for something else.

    Args:
        seed: Of the stream.
        layouts: Names of `LAYOUTS`; None: those that are not held out.
        sizes: Fewest and most numbers; short lists are drawn more often.
        none: Share of the rows that ask for no such function.
    """
    rng, known = random.Random(f"lists/{seed}"), _texts()
    layouts = [name for name in LAYOUTS if name not in HELD_OUT] if layouts is None else layouts
    while True:
        operator = rng.choice([one for one in known["lists"] if one != NO_ARITHMETIC])
        operator = NO_ARITHMETIC if rng.random() < none else operator
        layout, request = rng.choice(layouts), rng.choice(known["lists"][operator])
        count = int(sizes[0] * (sizes[1] / sizes[0] + 0.3) ** (rng.random() ** 1.5))
        numbers = _numbers(min(count, sizes[1]), operator, rng)
        names = [rng.choice(known["names"]) for _ in numbers]
        laid = LAYOUTS[layout](names, numbers, rng)
        request = request.replace("{things}", rng.choice(known["things"]))
        if "{list}" in request and "\n" not in laid:
            text = request.replace("{list}", laid)
        else:
            request = request.replace("{list}", "this")
            joint = rng.choice(("\n", "\n\n")) if "\n" in laid else rng.choice((" ", ": ", "\n"))
            text = f"{request}{joint}{laid}" if rng.random() < 0.5 else f"{laid}{joint.strip(':')}{request}"
        yield row_of(text, operator, numbers)


def _numbers(count: int, operator: str, rng: random.Random) -> list[str]:
    """The numbers of a list in one form, such that a mean ends."""
    places = 2 * (rng.random() < 0.3)
    most = 10 ** rng.randint(1, 5)
    values = [rng.randint(1, most) for _ in range(count)]
    if operator == "mean" and rng.random() < _EXACT:
        values[-1] += -sum(values) % count
    made = [str(Decimal(value).scaleb(-places)) for value in values]
    form = rng.choice(("{:}", "{:}", "{:}", "${:}", "€{:}")) if places else "{:}"
    grouped = rng.random() < 0.2
    return [form.format(f"{Decimal(one):,}" if grouped else one) for one in made] if form == "{:}" else made


def function_rows(seed: int, operations: Sequence[str] | None = None, none: float = 0.1) -> Iterator[Row]:
    """An endless stream of requests for functions of one, two or three numbers, from the phrasings of the functions.

    Args:
        seed: Of the stream.
        operations: Names of `FUNCTIONS` with phrasings of their own or in `functions.toml`. None: all of the file.
        none: Share of the rows in which a number is a variable, so that nothing can be calculated.
    """
    rng, known = random.Random(f"functions/{seed}"), _texts()["functions"]
    operations = list(known) if operations is None else operations
    while True:
        name = rng.choice(operations)
        text = rng.choice([*FUNCTIONS[name].phrasings, *known.get(name, ())])
        slots = sorted(set(re.findall(r"\{([abc])\}", text)))
        numbers = _drawn(name, len(slots), rng)
        if rng.random() < none:
            numbers[-1] = rng.choice(("x", "it", "some", "my age", "the rest"))
            yield row_of(_filled(text, numbers), NO_ARITHMETIC)
            continue
        operands = numbers
        if not takes(name):
            operands = [numbers[_SLOTS.index(slot)] for slot in re.findall(r"\{([abc])\}", text)]
        yield row_of(_filled(text, numbers), name, operands)


def _drawn(name: str, count: int, rng: random.Random) -> list[str]:
    """Numbers for a function, which have a result in most cases."""
    exact = rng.random() < _EXACT
    for _ in range(_TRIES):
        numbers = [_number(rng) for _ in range(count)]
        if name in _ROOTS:
            numbers = [str(rng.randint(1, 400) ** _ROOTS[name])]
        elif name in ("percent", "increased", "reduced"):
            numbers[1] = str(rng.randint(1, 100))
        elif name in ("power", "factorial"):
            numbers = [str(rng.randint(1, 20)), str(rng.randint(2, 9))][:count]
        elif name in ("share", "decline", "mod") and Decimal(numbers[0]) < Decimal(numbers[1]):
            numbers.reverse()
        if not exact or isinstance(label(name, numbers, _LIMITS), str):
            break
    return numbers


_ROOTS = {"sqrt": 2, "cbrt": 3}


def _number(rng: random.Random) -> str:
    """A positive number, sometimes with places."""
    whole = rng.randrange(1, 10 ** rng.randint(1, 5))
    return f"{whole}.{rng.randint(1, 9)}" if rng.random() < 0.06 else str(whole)


def _filled(text: str, numbers: Sequence[str]) -> str:
    """A text with numbers in its slots."""
    for slot, number in zip(_SLOTS, numbers, strict=False):
        text = text.replace(f"{{{slot}}}", number)
    return text


_X, _Y, _Z = (rf"(?P<{name}>[a-d]|\d+)" for name in "xyz")
_ANSWERS: tuple[tuple[str, str], ...] = (  # expressions without spaces; the operands are x, y, z
    (rf"{_X}\*{_Y}/100", "percent"),
    (rf"{_X}\*\(100\+{_Y}\)/100", "increased"),
    (rf"{_X}\*\(100-{_Y}\)/100", "reduced"),
    (rf"{_Y}/{_X}\*100", "share"),
    (rf"\({_Y}-{_X}\)/(?P=x)\*100", "growth"),
    (rf"\({_X}-{_Y}\)/(?P=x)\*100", "decline"),
    (rf"{_X}%{_Y}", "mod"),
    (rf"{_X}\*\*2", "square"),
    (rf"{_X}\*\*3", "cube"),
    (rf"{_X}\*\*0\.5", "sqrt"),
    (rf"{_X}\*\*\(1/3\)", "cbrt"),
    (rf"{_X}\*\*{_Y}", "power"),
    (rf"math\.factorial\({_X}\)", "factorial"),
    (rf"math\.(?P<f>gcd|lcm)\({_X},{_Y}\)", ""),
    (rf"math\.(?P<f>gcd|lcm)\(math\.(?P=f)\({_X},{_Y}\),{_Z}\)", ""),
    (rf"{_X}\*{_Y}\*{_Z}", "product"),
    (rf"2\*\({_X}\+{_Y}\)", "perimeter"),
    (rf"(?:{_Y}\*{_Z})/{_X}", "proportion"),
    (rf"(?:{_Z}\*{_Y})/{_X}", "proportion"),
    (rf"{_X}\*{_Y}/{_Z}", "inversely"),
    (rf"{_X}(?P<f>[-+*/]){_Y}", ""),
)
_TERM = r"(?:[a-d]|\d+)"
_SETS: tuple[tuple[str, str], ...] = (
    (rf"(?P<t>{_TERM}(?:\+{_TERM}){{2,}})", "sum"),
    (rf"\((?P<t>{_TERM}(?:\+{_TERM})+)\)/(?P<n>\d+)", "mean"),
    (r"max\((?P<t>[^()]+)\)-min\((?P=t)\)", "range"),
    (r"(?P<f>max|min)\((?P<t>[^()]+)\)", ""),
    (r"sorted\(\[(?P<t>[^()]+)\]\)\[1\]", "median"),
    (r"\(sorted\(\[(?P<t>[^()]+)\]\)\[1\]\+sorted\(\[(?P=t)\]\)\[2\]\)/2", "median"),
)


def _meant(text: str, answer: str) -> tuple[str, list[str]] | None:
    """The operation of an answer with its slots and numbers; `("none", [])` if it is not one function of what the text
    gives, and None if a number of the answer is not in the text."""
    answer = answer.replace(" ", "")
    for pattern, name in (*_SETS, *_ANSWERS):
        match = re.fullmatch(pattern, answer)
        if match is None:
            continue
        groups = match.groupdict()
        operation = name or groups["f"]
        terms = re.findall(_TERM, groups["t"]) if "t" in groups else [groups[one] for one in "xyz" if groups.get(one)]
        if groups.get("n") and int(groups["n"]) != len(terms) or operation == "median" and len(terms) > 4:
            continue
        places = {term: match.start() for term in terms if (match := re.search(_place(term), text))}
        if len(places) < len(set(terms)):
            return None
        ordered = terms if takes(operation) else sorted(terms, key=places.__getitem__)
        if ordered == terms or operation not in ("proportion", "inversely"):  # whose operands have roles
            return operation, ordered
    return NO_ARITHMETIC, []


def _place(term: str) -> str:
    """A regular expression of a slot, or of a number, in a text."""
    return rf"\{{{term}\}}" if term.isalpha() else rf"(?<![\d.{{]){term}(?![\d}}])"


def answer_rows(path: str | Path, held_out: bool, seed: int = 0, operations: Sequence[str] = ()) -> Iterator[Row]:
    """An endless stream of rows from texts with slots whose answers are expressions of them.

    A text whose answer is no single function of the numbers that it gives asks for none. Every third text of each kind
    is held out. Of the others those are left out in which a letter or a mark touches an operand, as in `5km`.

    Args:
        path: JSON lines with `text`, `answer`, `constraints` and `kind`.
        held_out: Whether these texts are drawn, or the others.
        seed: Of the stream.
        operations: Those of the adapter; a text that asks for another one asks for none.
    """
    rng, seen, texts = random.Random(f"answers/{seed}/{held_out}"), dict[str, int](), []
    for line in read_rows(path, wanted="that is a text with slots"):
        meant = _meant(str(line["text"]), _rewritten(str(line["text"]), str(line["answer"])))
        kind = str(line["kind"])
        seen[kind] = seen.get(kind, 0) + 1
        if meant is not None and (seen[kind] % 3 == 0) == held_out:
            texts.append((line, *(meant if not operations or meant[0] in operations else (NO_ARITHMETIC, []))))
    while True:
        for line, operation, terms in rng.sample(texts, len(texts)):
            row = _answered(line, operation, terms, rng)
            known = {one.digits for one in integers(row["prompt"][0]["content"], decimals=True)}
            if held_out or known.issuperset(row["igc_operands"] or ()):
                yield row


def _rewritten(text: str, answer: str) -> str:
    """An answer whose factor per cent is written as the text has it: `a * 120 / 100` with `20%` as an increase."""
    match = re.fullmatch(r"a \* (\d+) / 100", answer)
    if match is None or re.search(_place(match[1]), text):
        return answer
    more = int(match[1]) - 100
    return f"a * (100 {'+' if more > 0 else '-'} {abs(more)}) / 100"


def _answered(line: Mapping[str, Any], operation: str, terms: Sequence[str], rng: random.Random) -> Row:
    """A row of a text with numbers that satisfy its constraints and, in most cases, have a result."""
    exact = rng.random() < _EXACT
    for _ in range(10 * _TRIES):
        numbers = _satisfying(set(line["constraints"]), operation, rng)
        operands = [numbers.get(term, term) for term in terms]
        if operation == NO_ARITHMETIC or not exact or isinstance(label(operation, operands, _LIMITS), str):
            break
    return row_of(_filled(line["text"], list(numbers.values())), operation, operands)


def _satisfying(constraints: set[str], operation: str, rng: random.Random) -> dict[str, str]:
    """Numbers for all slots."""
    low, high = (1900, 2099) if "year" in constraints else (1, 100) if "small" in constraints else (1, 0)
    drawn = [rng.randint(low, high or 10 ** rng.choice((1, 2, 2, 3, 3, 4, 5))) for _ in _SLOTS]
    if operation in _ROOTS:
        drawn[0] = rng.randint(1, 400) ** _ROOTS[operation]
    a, b, *rest = drawn
    if constraints & {"a|b", "b|a"}:
        a, b = (a, a * rng.randint(1, 50)) if "a|b" in constraints else (b * rng.randint(1, 50), b)
    if ("a>b" in constraints and a < b) or ("b>a" in constraints and b < a):
        a, b = b, a
    return dict(zip(_SLOTS, map(str, (a, b, *rest)), strict=True))


def write_rows(path: str | Path, rows: Sequence[Row]) -> None:
    """Writes rows as JSON lines."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
