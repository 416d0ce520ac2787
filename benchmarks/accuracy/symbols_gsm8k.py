"""Expressions that people wrote: at each annotated `=` of GSM8K's solutions, is what stands before it read rightly?

In: rows with calculator annotations, `48/2 = <<48/2=24>>24`. The annotations are taken out, and the text up to the `=`
is read by rule, without a network: from the `=` before it on, as a model that calculates at each `=` would read it,
and once more from the beginning of the solution. A value is right if it is the value of the annotation's expression,
or its stated result; any other value counts as `other`, even where the annotation covers only a part of what was
written. The first 2,000 rows are for development; the others are measured with `--held-out`.

    python -m benchmarks.accuracy.symbols_gsm8k --data gsm8k_train.jsonl --output build/symbols_gsm8k.json
"""

from __future__ import annotations

import argparse
import ast
import json
import operator
import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.common.measuring import facts
from benchmarks.common.symbol_reader import TEXT, Outcome, SymbolReader, TextReader, load_reader, reader_names


DEVELOPMENT = 2000  # rows
LISTED = 1000  # texts of each kind
_MARK = re.compile(r"<<(.*?)>>")
_END = re.compile(r"=[ $€£]*\Z")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?|\.\d+")
_APPLY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


class Site(NamedTuple):
    """An annotation.

    Attributes:
        row: index of the solution.
        text: the solution up to and with the `=`; None: no `=` stands before the annotation.
        since: where the `=` before ends, 0 without one.
        written: the annotation.
        values: the values that count as right.
    """

    row: int
    text: str | None
    since: int
    written: str
    values: frozenset[Fraction]


def sites_of(row: int, solution: str) -> list[Site]:
    """All annotations of a solution."""
    found, text, at = [], "", 0
    for match in _MARK.finditer(solution):
        text, at = text + solution[at : match.start()], match.end()
        end = _END.search(text)
        before = None if end is None else text[: end.start() + 1]
        since = 0 if before is None else before.rfind("=", 0, len(before) - 1) + 1
        found.append(Site(row, before, since, match[1], _values(match[1])))
    return found


def _values(annotation: str) -> frozenset[Fraction]:
    """The value of an annotation's expression and its stated result, as far as they can be read."""
    expression, _, stated = annotation.replace("$", "").rpartition("=")
    values = set()
    for text in (expression, stated):
        try:
            values.add(value_of(text))
        except (SyntaxError, ValueError, ZeroDivisionError):
            continue
    return frozenset(values)


def value_of(text: str) -> Fraction:
    """The value of numbers, `+ - * /`, brackets and per cent signs. Raises ValueError or SyntaxError for others."""
    numbers: list[Fraction] = []

    def name(match: re.Match[str]) -> str:
        numbers.append(Fraction(match[0].replace(",", "")))
        return f"n{len(numbers) - 1}"

    named = re.sub(r"(n\d+)\s*%", r"(\1/hundred)", _NUMBER.sub(name, text)).strip()

    def value(node: ast.AST) -> Fraction:
        if isinstance(node, ast.BinOp) and type(node.op) in _APPLY:
            return _APPLY[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return -value(node.operand) if isinstance(node.op, ast.USub) else value(node.operand)
        if isinstance(node, ast.Name) and node.id == "hundred":
            return Fraction(100)
        if isinstance(node, ast.Name) and node.id[1:].isdigit():
            return numbers[int(node.id[1:])]
        raise ValueError(text)

    return value(ast.parse(named, mode="eval").body)


def judge(site: Site, outcome: Outcome) -> str:
    """`right`, `other` or the reason for a refusal."""
    if outcome.value is None:
        return outcome.reason
    return "right" if Fraction(outcome.value) in site.values else "other"


def measure(
    reader: TextReader | SymbolReader, sites: Iterable[Site], whole: bool, listed: int = LISTED
) -> dict[str, Any]:
    """Reads all sites; `whole`: each from the beginning of its solution."""
    known = list(sites)
    asked = [site for site in known if site.text is not None]
    outcomes = reader.read([str(site.text) for site in asked], None if whole else [site.since for site in asked])
    counts = Counter(["no equals sign"] * (len(known) - len(asked)))
    lists: dict[str, list[dict[str, Any]]] = {"other": [], "refused": []}
    for site, outcome in zip(asked, outcomes, strict=True):
        verdict = judge(site, outcome)
        counts[verdict] += 1
        if verdict != "right":
            rows = lists["other" if verdict == "other" else "refused"]
            text = str(site.text)[0 if whole else site.since :][-160:]
            row = {"row": site.row, "text": text, "annotation": site.written, "got": outcome.value or outcome.reason}
            rows += [row] * (len(rows) < listed)
    n = len(known)
    return {
        "n": n,
        "right": counts["right"] / n,
        "other": counts["other"] / n,
        "refused": 1 - (counts["right"] + counts["other"]) / n,
        "counts": dict(counts.most_common()),
        "other_texts": lists["other"],
        "refused_texts": lists["refused"],
    }


def main() -> None:
    """Measures and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="FILE", help="JSON lines with `answer`")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--held-out", action="store_true", help=f"the rows after the first {DEVELOPMENT:,}")
    parser.add_argument("--rows", type=int, help="only so many of them")
    parser.add_argument("--readers", nargs="+", default=[TEXT], choices=reader_names(), metavar="NAME")
    parser.add_argument("--listed", type=int, default=LISTED, help="texts that are kept (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = arguments.data.read_text(encoding="utf-8").splitlines()
    numbered = list(enumerate(lines))
    chosen = numbered[DEVELOPMENT:] if arguments.held_out else numbered[:DEVELOPMENT]
    sites = [site for row, line in chosen[: arguments.rows] for site in sites_of(row, json.loads(line)["answer"])]
    results: dict[str, Any] = {**facts(), "held_out": arguments.held_out, "tokenizers": {}}
    for name in arguments.readers:
        reader = load_reader(name)
        found = results["tokenizers"][name] = {}
        for context, whole in (("since_the_equals_before", False), ("whole_solution", True)):
            found[context] = part = measure(reader, sites, whole, arguments.listed)
            shown = {key: value for key, value in part.items() if not key.endswith("texts")}
            print(name, context, json.dumps(shown), flush=True)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
