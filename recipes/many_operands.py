"""Training rows for `many_operands.yaml`: lists and tables with requests for a sum or a mean, texts, functions.

In: texts with slots whose answers are expressions. Out: a file of rows with operand columns, whose operands are a
function's numbers: one or two in the function's order, else in the order of the text. `many_operands.toml` has
sentences and the layouts of lists, some of which are held out for `benchmarks.accuracy.functions`.

    python recipes/many_operands.py --rows build/functions.jsonl
"""

from __future__ import annotations

import argparse
import functools
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

import peft_igc
from peft_igc.data.arithmetic import Row
from peft_igc.data.columns import has_number, label
from peft_igc.data.files import read_rows, write_rows
from peft_igc.data.functions import EXACT, LIMITS, ROOTS, SLOTS, TRIES, filled, function_rows, row_of, varied
from peft_igc.data.wording.drawing import surround
from peft_igc.data.wording.handwritten import HELD_OUT, files_by
from peft_igc.data.wording.phrases import choose, words
from peft_igc.numbers.calculator import NO_ARITHMETIC
from peft_igc.text.literals import integers, numbers_of
from peft_igc.text.pieces import split
from peft_igc.text.reading import read
from peft_igc.text.values import Value


_WORDING = Path(peft_igc.__file__).parent / "data" / "wording"
TEXTS = _WORDING / "by_hand" / "beyond.jsonl"
LISTS = sorted((_WORDING / "lists").glob("*.jsonl"))
FUNCTIONS = sorted((_WORDING / "functions").glob("*.jsonl"))
_NUMBER = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?")
_POOLS = ("objects", "cities", "people", "common", "common")  # of `words.toml`, for the names of a list


@functools.cache
def _texts() -> dict[str, Any]:
    """The sentences."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _laid(layout: Mapping[str, str], names: Sequence[str], numbers: Sequence[str], rng: random.Random) -> str:
    """A list in a layout, as `many_operands.toml` has them."""
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
    """Whether no letter or mark of a text touches an operand, and its minus sign is no dash, as in `5 -8`."""
    digits = {one.digits for one in integers(text, decimals=True)}
    values = {one.value for one in numbers_of(split(f"{text}\n", 0), percents=True)}
    signed = {Fraction(one) for one in operands if one.startswith("-")}
    return digits.issuperset(one.lstrip("-") for one in operands) and values.issuperset(signed)


def _numbers(count: int, operator: str, rng: random.Random) -> list[str]:
    """The numbers of a list in one form, such that a mean ends."""
    places = 2 * (rng.random() < 0.3)
    most = 10 ** rng.randint(1, 5)
    values = [rng.randint(1, most) for _ in range(count)]
    if operator == "mean" and rng.random() < EXACT:
        values[-1] += -sum(values) % count
    made = [str(Decimal(value).scaleb(-places)) for value in values]
    form = rng.choice(("{:}", "{:}", "{:}", "${:}", "€{:}")) if places else "{:}"
    grouped = rng.random() < 0.2
    return [form.format(f"{Decimal(one):,}" if grouped else one) for one in made] if form == "{:}" else made


def written_rows(seed: int, lists: Sequence[Path] = LISTS) -> Iterator[Row]:
    """An endless stream of lists that people wrote, with other numbers of the same lengths and places.

    Args:
        seed: Of the stream.
        lists: JSON lines with `text`; `function`, a name or `"none"`; and the `numbers` that it takes, as in the text
            but for a thousands comma.

    Raises:
        ValueError: No list can be read.
    """
    rng, lines = random.Random(f"written/{seed}"), [line for path in lists for line in read_rows(path)]
    unread = 0  # one after the other
    while unread < TRIES * len(lines):
        for line in rng.sample(lines, len(lines)):
            places = _places(line["text"], line["numbers"]) if rng.random() < 0.8 else []
            for _ in range(TRIES):
                text, numbers = _renumbered(line["text"], line["numbers"], places, rng)
                if not numbers or has_number(label(line["function"], numbers, LIMITS)):
                    break
            unread += 1
            if _is_readable(text, numbers) and not isinstance(read(text), Value):
                unread = 0
                yield row_of(text, line["function"], numbers)
    raise ValueError(f"No list of {list(map(str, lists))} can be read: a letter touches a number in each.")


def _places(text: str, numbers: Sequence[str]) -> list[re.Match[str]]:
    """Where the numbers of a list are in its text; none if they can be found in two ways. Without numbers, all."""
    found = list(_NUMBER.finditer(text))
    if not numbers:
        return found
    ways = []
    for matches, wanted in ((found, numbers), (found[::-1], numbers[::-1])):
        rest = iter(matches)
        ways.append([next((m for m in rest if m[0].replace(",", "") == one.lstrip("-")), None) for one in wanted])
    return [one for one in ways[0] if one] if ways[0] == ways[1][::-1] and None not in ways[0] else []


def _renumbered(
    text: str, numbers: Sequence[str], places: Sequence[re.Match[str]], rng: random.Random
) -> tuple[str, list[str]]:
    """A text with other numbers at these places, and those of its list."""
    made, drawn = text, []
    for place in reversed(places):
        whole, _, rest = place[0].replace(",", "").partition(".")
        low = 10 ** (len(whole) - 1) if len(whole) > 1 else 0
        other = f"{rng.randrange(low, 10 ** len(whole)):{',' if ',' in place[0] else ''}}"
        other += f".{rng.randrange(10 ** len(rest)):0{len(rest)}}" if rest else ""
        made = made[: place.start()] + other + made[place.end() :]
        drawn.insert(0, other.replace(",", ""))
    if not numbers or not places:
        return made, list(numbers)
    return made, [one if old[0] != "-" else f"-{one}" for old, one in zip(numbers, drawn, strict=True)]


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
    """An endless stream of rows from the texts of many authors (`data.wording.handwritten`), without those of `TEXTS`;
    with the trained ones those of `FUNCTIONS`.

    Args:
        seed: Of the stream.
        part: Which authors, "trained" or one of `handwritten.HELD_OUT`.
        operations: As in `answer_rows`.
        often: How many times as often as others a text is drawn that asks for a function, its `operation`.
    """
    texts: list[dict[str, Any]] = []
    held_out = () if part in HELD_OUT else HELD_OUT  # a few bare texts have several authors
    known = {line["text"] for name in held_out for path in files_by(name) for line in read_rows(path)}
    paths = [*files_by(part), *(FUNCTIONS if part == "trained" else ())]
    for line in (line for path in paths if path.stem != TEXTS.stem for line in read_rows(path)):
        if line["text"] in known:
            continue
        if "operation" in line:
            texts += [line] * often
        else:
            texts.append(line | {"operation": line["operator"], "operands": [*line["order"]]})
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
            text = varied(text, rng)
            if _is_readable(text, operands) and not isinstance(read(text), Value):
                yield row_of(text, operation, operands)


def _answered(line: Mapping[str, Any], operation: str, rng: random.Random) -> tuple[str, list[str], dict[str, str]]:
    """A text with numbers that meet its constraints and, in most cases, have a result; its operands; all numbers."""
    exact = rng.random() < EXACT
    for _ in range(10 * TRIES):
        numbers = satisfying(set(line["constraints"]), operation, rng)
        operands = [numbers.get(term, term) for term in line["operands"]]
        if operation == NO_ARITHMETIC or not exact or has_number(label(operation, operands, LIMITS)):
            break
    return filled(line["text"], list(numbers.values())), operands, numbers


def satisfying(constraints: set[str], operation: str, rng: random.Random) -> dict[str, str]:
    """Numbers for all slots.

    Raises:
        ValueError: None were found that meet the constraints.
    """
    low, high = (1900, 2099) if "year" in constraints else (1, 100) if "small" in constraints else (1, 0)
    for _ in range(100 * TRIES):
        drawn = [rng.randint(low, high or 10 ** rng.choice((1, 2, 2, 3, 3, 4, 5))) for _ in SLOTS]
        if operation in ROOTS:
            drawn[0] = rng.randint(1, 400) ** ROOTS[operation]
        a, b, *rest = drawn
        if constraints & {"a|b", "b|a"}:
            a, b = (a, a * rng.randint(1, 50)) if "a|b" in constraints else (b * rng.randint(1, 50), b)
        if ("a>b" in constraints and a < b) or ("b>a" in constraints and b < a):
            a, b = b, a
        too_large = "small" in constraints and operation not in ROOTS and max(a, b) > high
        alike = (
            a == b if constraints & {"a>b", "b>a"} else "distinct" in constraints and len({a, b, *rest}) < len(SLOTS)
        )
        if not (too_large or alike):
            return dict(zip(SLOTS, map(str, (a, b, *rest)), strict=True))
    raise ValueError(f"No numbers meet the constraints {sorted(constraints)} of a text that asks for {operation!r}.")


def settings() -> dict[str, Any]:
    """Those of the recipe."""
    found: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return found


def training_rows(texts: Path) -> list[Row]:
    """The rows that the recipe trains."""
    operations = settings()["igc_operations"]
    streams = ((list_rows(0, sizes=(2, 12)), 7000), (list_rows(1, sizes=(8, 50)), 3000), (function_rows(0), 6000))
    streams += ((answer_rows(texts, False, 0, operations), 4000), (written_rows(0), 8000))
    streams += ((author_rows(0, operations=operations), 32_000),)
    rows = [row for stream, count in streams for row in islice(stream, count)]
    rows = [row for row in rows if len(row["prompt"][0]["content"]) < 650]  # with fewer than `MOST` places
    random.Random(0).shuffle(rows)
    return rows


def main() -> None:
    """Writes the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("build/functions.jsonl"), metavar="FILE")
    parser.add_argument("--texts", type=Path, default=TEXTS, metavar="FILE", help="texts with slots and answers")
    parser.add_argument("--count", type=int, metavar="N", help="of rows, after shuffling (default: all)")
    arguments = parser.parse_args()
    write_rows(arguments.rows, training_rows(arguments.texts)[: arguments.count])


if __name__ == "__main__":
    main()
