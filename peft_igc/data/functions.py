"""Training rows for functions of given numbers: lists and tables with requests for a sum or a mean; percentages.

In: a seed; texts with slots (`answer_rows`). Out: rows with operand columns, whose operands are a function's numbers:
one or two in the function's order, else in the order of the text. `functions.toml` has sentences and the layouts of
lists, some of which are held out; a user's own sentences are the `phrasings` of `register_operation`.
"""

import functools
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..numbers.calculator import NO_ARITHMETIC
from ..text.literals import integers
from ..text.operations import FUNCTIONS, takes
from ..text.reading import read
from ..text.values import Limits, Value
from .arithmetic import Row, conversation
from .columns import canonical, columns_of, label
from .files import read_rows
from .wording.drawing import surround
from .wording.handwritten import files_by
from .wording.phrases import casual, choose, words


_SLOTS = "abcd"
BEYOND = "beyond"  # the author whose texts `answer_rows` reads, a third of which is held out
_LIMITS = Limits(operations=("+", "-", "*", "/"))
_EXACT = 0.9  # share of the rows whose result ends, if they can be drawn so
_TRIES = 100
_POOLS = ("objects", "cities", "people", "common", "common")  # of `words.txt`, for the names of a list


@functools.cache
def _texts() -> dict[str, Any]:
    """The sentences."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def row_of(text: str, operator: str, operands: Sequence[str] = (), limits: Limits = _LIMITS) -> Row:
    """A row of a text that asks for an operation, or for none."""
    numbers = [canonical(one.replace(",", ""), "igc_operands", "the row", decimals=True) for one in operands]
    return conversation(text, None, columns_of(operator, numbers, limits))


def _laid(layout: Mapping[str, str], names: Sequence[str], numbers: Sequence[str], rng: random.Random) -> str:
    """A list in a layout, as `functions.toml` has them."""
    joint = layout.get("joint", "\n")
    wide = max(map(len, names))
    made = []
    for at, (name, number) in enumerate(zip(names, numbers, strict=True), 1):
        time = f"{rng.randint(0, 23)}:{rng.randint(10, 59)}"
        q, no = rng.randint(1, 99), rng.randint(100, 99999)
        drawn: dict[str, Any] = {"q": q, "id": no, "year": 1950 + no % 80, "rival": no % (10 * q)}
        drawn |= {"time": time, "other": rng.choice(names), "pad": " " * (wide - len(name))}
        made.append(layout["form"].format(name=name, n=number, i=at, **drawn))
    laid = [layout.get("head", ""), joint.join(made[:-1]), layout.get("last", joint), made[-1], layout.get("tail", "")]
    return re.sub(r"\{no\}", lambda _: str(rng.randint(100, 99999)), "".join(laid))


def _pieced(text: str, rng: random.Random) -> str:
    """A text in which each `<sign>` is one of the list of this name."""
    while match := re.search("<([a-z]+)>", text):
        text = text[: match.start()] + rng.choice(_texts()["pieces"][match[1]]) + text[match.end() :]
    return text


def _drawn_layout(rng: random.Random) -> dict[str, str]:
    """A layout of parts that are drawn one by one."""
    kind, parts = rng.choice(list(_texts()["parts"].items()))
    if kind == "table":
        return _drawn_table(parts, rng)
    made = {part: _pieced(rng.choice(choices), rng) for part, choices in parts.items()}
    if mark := made.pop("mark", ""):
        # Nothing would tell the numbers of two columns apart.
        made["form"] = made["form"] if made["form"].startswith("{n}") and "{" in mark else mark + made["form"]
    if not made.get("last", ""):
        made.pop("last", None)
    return made


def _drawn_table(parts: Mapping[str, Any], rng: random.Random) -> dict[str, str]:
    """A table: the column of the numbers is the last one, or has a title, which `column` is if others are like it."""
    columns = [(rng.choice(parts["words"]), rng.choice(parts["titles"])) for _ in range(rng.randint(1, 2))]
    left, joint, right = (_pieced(part, rng) for part in rng.choice(parts["edges"]))
    others = rng.sample(parts["others"], rng.randint(0, 2) if joint != "," else 0)  # `12,34` would be one number
    columns += zip(others, rng.sample(parts["other_titles"], len(others)), strict=True)
    title, *rivals = rng.sample(parts["number_titles"], 3)
    asked = joint != "," and rng.random() < 0.5
    columns += list(zip(("{rival}", "{id}")[: rng.randint(0, 2)], rivals, strict=False)) if asked else []
    rng.shuffle(columns)
    titled = asked or rng.random() < 0.7
    place = rng.randint(0, len(columns)) if titled else len(columns)
    columns.insert(place, (_pieced(rng.choice(("{n}", "{n}", "<coin>{n}", "{n} <unit>")), rng), title))
    lines = [[title for _, title in columns]] * titled
    if rule := rng.choice(parts["rules"]):
        lines.append([rule] * len(columns))
    above = _pieced(rng.choice(_texts()["parts"]["lines"]["head"]), rng) if rng.random() < 0.3 else ""
    head = above + "".join(f"{left}{joint.join(line)}{right}\n" for line in lines)
    made = {"head": head, "form": f"{left}{joint.join(form for form, _ in columns)}{right}"}
    return made | ({"column": title} if asked else {})


def _asked(operator: str, column: str, rng: random.Random) -> str:
    """A request for an operation that has a noun, of a column or of all numbers."""
    known = _texts()["columns"]
    request = rng.choice(known["asks"]).replace("<those>", rng.choice(known["column" if column else "these"]))
    request = choose(request.replace("{noun}", rng.choice(known[operator])), rng).strip()
    return request.replace("{things}", column) if column else request


def list_rows(
    seed: int, layouts: str = "layouts", sizes: tuple[int, int] = (3, 50), none: float = 0.15
) -> Iterator[Row]:
    """An endless stream of lists with a request for one function of all their numbers, or for something else.

    Args:
        seed: Of the stream.
        layouts: A table of `functions.toml`: `layouts`, to which drawn ones are added, `held_out_layouts` or
            `unseen_layouts`.
        sizes: Fewest and most numbers; short lists are drawn more often.
        none: Share of the rows that ask for no such function.
    """
    rng, known = random.Random(f"lists/{seed}"), _texts()
    trained, fixed = layouts == "layouts", list(known[layouts].values())
    while True:
        operator = rng.choice([one for one in known["lists"] if one != NO_ARITHMETIC])
        operator = NO_ARITHMETIC if rng.random() < none else operator
        layout, request = rng.choice(fixed), rng.choice(known["lists"][operator])
        if trained and rng.random() < 0.75:
            layout = _drawn_layout(rng)
        column = layout.get("column", "")
        if trained and operator in known["columns"] and (column or rng.random() < 0.4):
            request = _asked(operator, column, rng)
        elif column:
            operator, request = NO_ARITHMETIC, rng.choice(known["lists"][NO_ARITHMETIC])
        count = int(sizes[0] * (sizes[1] / sizes[0] + 0.3) ** (rng.random() ** 1.5))
        numbers = _numbers(min(count, sizes[1]), operator, rng)
        if trained and rng.random() < 0.1:
            numbers = [one if rng.random() < 0.6 else f"-{one}" for one in numbers]
        pool = words(rng.choice(_POOLS)) if trained and rng.random() < 0.5 else known["names"]
        names = [rng.choice(pool) for _ in numbers]
        laid = _laid(layout, names, numbers, rng)
        request = request.replace("{things}", rng.choice(known["things"]))
        if trained and rng.random() < 0.25:
            request = surround(request, False, rng)
        if "{list}" in request and "\n" not in laid:
            text = request.replace("{list}", laid)
        else:
            request = request.replace("{list}", "this")
            joint = rng.choice(("\n", "\n\n")) if "\n" in laid else rng.choice((" ", ": ", "\n"))
            text = f"{request}{joint}{laid}" if rng.random() < 0.5 else f"{laid}{joint.strip(':')}{request}"
        row = row_of(text, operator, numbers)
        if not trained or _is_readable(text, row["igc_operands"] or ()):
            yield row


def _is_readable(text: str, operands: Sequence[str]) -> bool:
    """Whether no letter or mark of a text touches an operand."""
    return {one.digits for one in integers(text, decimals=True)}.issuperset(one.lstrip("-") for one in operands)


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
        own = FUNCTIONS[name].phrasings if name in FUNCTIONS else ()
        text = rng.choice([*own, *known.get(name, ())])
        text = (text if text in own else choose(text, rng)).replace("{list}", "{a}, {b} and {c}")
        slots = sorted(set(re.findall(r"\{([abcd])\}", text)))
        numbers = _drawn(name, len(slots), rng)
        if name != NO_ARITHMETIC and rng.random() < none:
            numbers[-1] = rng.choice(("x", "it", "some", "my age", "the rest"))
            yield row_of(_varied(_filled(text, numbers), rng), NO_ARITHMETIC)
            continue
        operands = numbers if name != NO_ARITHMETIC else []
        if operands and not takes(name):
            operands = [numbers[_SLOTS.index(slot)] for slot in re.findall(r"\{([abcd])\}", text)]
        yield row_of(_varied(_filled(text, numbers), rng), name, operands)


def _varied(text: str, rng: random.Random) -> str:
    """A text as it is, typed in a hurry, or with sentences around it."""
    if rng.random() < 0.2:
        text = casual(text, rng)
    return surround(text, False, rng) if rng.random() < 0.4 else text


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
        if not exact or name == NO_ARITHMETIC or isinstance(label(name, numbers, _LIMITS), str):
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


def answer_rows(path: str | Path, held_out: bool, seed: int = 0, operations: Sequence[str] = ()) -> Iterator[Row]:
    """An endless stream of rows from texts with slots that ask for an operation of given numbers, or for none.

    Every third text of each kind is held out. Of the others those are left out in which a letter or a mark touches an
    operand, as in `5km`, and those that rules read.

    Args:
        path: JSON lines with `text`, `constraints` and `kind`; `operation`, the name of a function, a symbol or
            `"none"`; and `operands`, slots or numbers of the text in the operation's order. Texts without an
            `operation` are left out.
        held_out: Whether these texts are drawn, or the others. Their rows also have the `kind`, the author's `answer`
            as an expression, and the numbers of its names.
        seed: Of the stream.
        operations: Those of the adapter; a text that asks for another one asks for none.
    """
    seen, texts = Counter[str](), []
    for line in read_rows(path, wanted="that is a text with slots"):
        seen[line["kind"]] += 1
        if "operation" in line and (seen[line["kind"]] % 3 == 0) == held_out:
            texts.append(line)
    yield from _rows_of(texts, held_out, random.Random(f"answers/{seed}/{held_out}"), operations)


def author_rows(seed: int, part: str = "trained", operations: Sequence[str] = (), often: int = 8) -> Iterator[Row]:
    """An endless stream of rows from the texts of many authors (`wording.handwritten`).

    Args:
        seed: Of the stream.
        part: Which authors, "trained" or one of `handwritten.HELD_OUT`.
        operations: As in `answer_rows`.
        often: How many times as often as others a text is drawn that asks for a function, its `operation`.
    """
    texts: list[dict[str, Any]] = []
    for line in (line for path in files_by(part) if path.stem != BEYOND for line in read_rows(path)):
        two = {"operation": line["operator"], "operands": [*line["order"]]}
        texts += [two | line] * (often if "operation" in line else 1)
    yield from _rows_of(texts, False, random.Random(f"authors/{part}/{seed}"), operations)


def _rows_of(
    texts: Sequence[Mapping[str, Any]], held_out: bool, rng: random.Random, operations: Sequence[str]
) -> Iterator[Row]:
    """The rows of `answer_rows` from some texts."""
    while True:
        for line in rng.sample(texts, len(texts)):
            is_asked = not operations or line["operation"] in operations
            operation = line["operation"] if is_asked else NO_ARITHMETIC
            text, operands, numbers = _answered(line, operation, rng)
            if held_out:
                yield row_of(text, operation, operands) | {"kind": line["kind"], "answer": line["answer"]} | numbers
                continue
            text = _varied(text, rng)
            if _is_readable(text, operands) and not isinstance(read(text), Value):
                yield row_of(text, operation, operands)


def _answered(line: Mapping[str, Any], operation: str, rng: random.Random) -> tuple[str, list[str], dict[str, str]]:
    """A text with numbers that meet its constraints and, in most cases, have a result; its operands; all numbers."""
    exact = rng.random() < _EXACT
    for _ in range(10 * _TRIES):
        numbers = satisfying(set(line["constraints"]), operation, rng)
        operands = [numbers.get(term, term) for term in line["operands"]]
        if operation == NO_ARITHMETIC or not exact or isinstance(label(operation, operands, _LIMITS), str):
            break
    return _filled(line["text"], list(numbers.values())), operands, numbers


def satisfying(constraints: set[str], operation: str, rng: random.Random) -> dict[str, str]:
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
