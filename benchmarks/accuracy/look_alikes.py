"""Texts with signs between digits that ask for no calculation: is any of them answered?

Dates, times, scores, ranges, telephone numbers, versions, measures, code, LaTeX and so on, with drawn numbers. Each is
read as a whole message, and at each `=` in it, as a model that writes it would meet them. There is no network here:
in the whole system it decides whether arithmetic is asked at all, so the share of whole messages with a value is an
upper bound. At an `=` the rule decides alone. The baseline is silence.

    python -m benchmarks.accuracy.look_alikes --output build/look_alikes.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.common.measuring import facts
from benchmarks.common.symbol_reader import Reader, load_reader, reader_names


N = 2000
# `{n}` is a number below 100, `{d}` a digit, `{y}` a year, `{h}` hours, `{m}` two digits below 60, `{p}` three digits,
# `{q}` four digits, `{k}` a number of several digits.
TEXTS: dict[str, tuple[str, ...]] = {
    "dates": (
        "The meeting is on {y}-{mo}-{da}.",
        "Her birthday is {da}/{mo}/{y}.",
        "Due date: {mo}/{da}/{yy}",
        "What happened on {da}.{mo}.{y}?",
        "Invoice of {y}/{mo}/{da}",
        "She lived there {y}-{yy}.",
        "the season of {y}/{yy}",
        "From {y}-{mo}-{da} to {y}-{mo}-{da} we are closed.",
        "9/{da} was a Tuesday.",
    ),
    "times": (
        "The train leaves at {h}:{m}.",
        "Open {h}:{m}-{h}:{m} every day",
        "We are there 24/7.",
        "Can you come at {h}:{m}:{m}?",
        "from {h}-{h} pm",
        "Timestamp {y}-{mo}-{da}T{h}:{m}:{m}Z",
        "It is available 24/7/365.",
    ),
    "scores": (
        "They won {d}-{d}.",
        "The final score was {n}-{n}.",
        "He lost 6-{d}, {d}-6, 7-{d}.",
        "Their record is {n}-{n}-{d} this season.",
        "The match ended {d}:{d}.",
        "She scored {n}/{p} on the test.",
        "I give it {d}/10.",
        "Who won the game that ended {d}–{d}?",
    ),
    "ranges": (
        "It takes {d}-{n} days.",
        "Read pages {n}-{p}.",
        "It costs ${d}-${n}.",
        "Ages {d}-{n} only",
        "See chapters {d}–{n}.",
        "Between {n}-{n} people came.",
        "add {d}-{d} eggs",
        "Temperatures of {n}–{n} °C are usual.",
        "a {n}-{p} minute walk",
        "{n}%-{n}% of them agree.",
    ),
    "telephones": (
        "Call {p}-{q}.",
        "My number is {p}-{p}-{q}.",
        "Phone: +{d} ({p}) {p}-{q}",
        "({p}) {p}-{q} is the office",
        "Dial +{n} {p} {k}/{n}",
        "Fax {k}-{n}",
        "Text {p}.{p}.{q} for help.",
    ),
    "versions": (
        "Install version {d}.{d}.{n}.",
        "Python {d}.{n}+ is needed.",
        "release v{d}.{n}-{d}",
        "numpy>={d}.{n},<{d}.{n}",
        "Ubuntu {n}.{m} LTS",
        "The address is 192.168.{d}.{n}/{n}.",
        "glibc-{d}.{n}-{n}.el{d}",
        "package==2.{n}.{d}",
    ),
    "measures": (
        "Add {d}/{d} cup of sugar.",
        "a {d} x {d} inch photo",
        "The room is {n}x{n} feet.",
        "a resolution of {q}x{q}",
        "{d} {d}/{d} cups of flour",
        "{d}-{d}/{d} teaspoons",
        "Tyres 205/55 R16 fit.",
        "blood pressure of {p}/{n}",
        "He has 20/{n} vision.",
        "a 2x4 and a {d}/8 inch drill",
        "screen ratio {n}:{d}",
        "at {n} km/h for {d}h",
        "speed {p} m/s",
        "a 50/50 chance",
        "A4 is {p} × {p} mm.",
    ),
    "names": (
        "The F-{n} flew past a Boeing 747-{p}.",
        "Catch-22 and Fahrenheit 451",
        "COVID-19 began in {y}.",
        "7-Eleven on {n}th Street",
        "Route {n}/{n} is closed.",
        "{n}-{n} Main Street",
        "ZIP {k}-{q}",
        "ISBN 978-{d}-{p}-{k}-{d}",
        "SSN {p}-{n}-{q}",
        "card {q}-{q}-{q}-{q}",
        "John 3:{n}-{n}",
        "room {d}/{n}, building {d}",
        "article {n}(2) and §{n}-{n}",
        "the ISO 8601-{d} standard",
        "a 4-4-2 formation",
        "vitamin B-12 and omega-3",
        "Symphony No. {d}, Op. {n}/{d}",
        "the {n}-{d} vote",
        "a 1-800-{p}-{q} line",
    ),
    "code": (
        "x = a[{d}-{d}]",
        "for (i = 0; i < {n}; i++)",
        "arr[i+1] = arr[{d}]",
        "print(f(3, {n}) + {n})",
        "if x == {n}: y = 0x{n}F",
        "git checkout HEAD~{d}",
        "chmod 755 file-{d}.txt",
        "SELECT * FROM t WHERE id={n}",
        "range({d}, {n}, {d})",
        "sed -n {d},{n}p file",
        "a = b*{d} + c/{n}",
        "color: #{k}; margin: {d}px -{d}px",
        "def f(x, y={d}): return x**2 + y",
        "cron: */{d} {h} * * 1-5",
        "http://localhost:{q}/v{d}/items?id={n}",
        "kubectl scale --replicas={d}",
        "tail -{n} log.{y}-{mo}-{da}",
        "x += {n}; y -= {d}",
        "matrix[{d}][{d}] *= -1",
        "1e-{d} tolerance, lr=3e-{d}",
    ),
    "formulas": (
        r"\frac{{d}}{{n}} is a half",
        r"$x^{d} + {n}x - {d} = 0$",
        r"\int_0^{{n}} x^2 dx",
        r"$10^{-{d}}$ metres",
        "f(x) = {d}x^2 - {n}",
        "Solve {d}x + {n} = {k} for x.",
        "y = {d}x - {n}",
        "H2O + CO2",
        "the interval [{d}, {n}]",
        "the point ({d}, -{d})",
        "n! / (n-{d})!",
        "P(A) = {d}/{n} and P(B) = 1/{d}",
        "{d}.{d} x 10^{d} molecules",
        "mod {n}, a^2 + b^2 = c^2",
        r"\sqrt{{n}} \approx {d}.{n}",
        "i^2 = -1",
        "Is x > {d} or x < -{n}?",
        r"\sum_{i=1}^{n} i = n(n+1)/2",
        "{d}y'' + {d}y' = {n}",
    ),
}
# Not looked at while the rules were written; for a measurement at the end.
HELD_OUT: dict[str, tuple[str, ...]] = {
    "dates": (
        "Copyright 1998-{y} by the authors",
        "the years {y}/{yy} and {y}/{yy}",
        "Born {da}-{mo}-{y} in Lyon.",
        "Q{d}/{y} results",
        "week {n}-{y}",
        "He reigned from {y}-{y}.",
    ),
    "times": (
        "Lap time {d}:{m}.{n}",
        "shift {h}-{h}h",
        "It lasts {d}h{m}.",
        "every {d}-{d} hours",
        "at {h}.{m}-{h}.{m}",
    ),
    "scores": (
        "Djokovic won 7-{d} 6-{d} 6-{d}",
        "a {n}-{n} loss at home",
        "they lead the series {d}-{d}",
        "GPA {d}.{n}/4.0",
        "It passed the Senate {n}-{n}.",
        "his 3/{n} bowling figures",
    ),
    "ranges": (
        "around {n}-{n} euros each",
        "{n} - {n} participants are expected",
        "Grades {d}-{d} meet today.",
        "pH {d}.{n}-{d}.{n}",
        "from {p} - {p} nm",
        "sizes {n}/{n} and {n}/{n}",
        "a {d}-to-{d} ratio",
        "lines {n}-{p} of the file",
    ),
    "telephones": (
        "reach us at 0{n}/{k}",
        "Tel. {p}/{p}-{n}",
        "WhatsApp +{n}-{p}-{p}-{q}",
        "1-{p}-{p}-{q} ext. {n}",
        "emergency: 112 / {p}",
    ),
    "versions": (
        "C++{n} and C++{n}",
        "CUDA {n}.{d}/{n}.{d}",
        "kernel {d}.{n}.0-{n}-generic",
        "RFC {q}/{q}",
        "MD-{n}-{d}-beta",
        "firmware {d}.{d}-{n}",
    ),
    "measures": (
        "a {d}/{n} scale model",
        "wheels {n}-{p}",
        "a {d}×{d} grid",
        "{n} x {n} cm tiles",
        "an f/{d}.{d} lens",
        "a {n}:{n} screen of {q} × {q} pixels",
        "{d} 1/2 inches of rain",
        "{n}% - {n}% humidity",
        "paint code {n}/{p}",
        "a 16/{n} bar rhythm in {d}/4 time",
    ),
    "names": (
        "Highway {n}-{d}",
        "Psalm {n}:{d}-{d}",
        "Flight LH{p}/{n}",
        "the {n}-{d} offence",
        "Form {q}-{d}",
        "Studio {n}-{n}, Apollo {n}/{n}",
        "IBAN {n}-{q}-{q}",
        "World War 1-2 history",
        "section {d}-{n}-{p} of the code",
        "blood group A-{d}, room {n}-{d}",
    ),
    "code": (
        "total = items[{n}-1] * {d}",
        "while (n >= {n}) n /= {d};",
        "SELECT a-{d} FROM t WHERE b={n} AND c={d}",
        "echo $(({n} + {d}))",
        "if (a == {d} || b == {n}-{d}) return {d};",
        "<td width={n}% height={n}>",
        "x = {d}*y - {n}*z",
        "let v = vec[{d}..{n}];",
        "git diff HEAD~{d}..HEAD~{d}",
        "docker run -p {q}:{q} -m {n}g",
        "margin: -{n}px {n}px",
        "#define SIZE ({n}*{d})",
    ),
    "formulas": (
        r"\( rac{{n}}{{d}} - x \)",
        "a_{d} + b_{d} = c",
        "N({d}, {d}^2)",
        "O(n^{d} log n)",
        "{d} mod {d}, gcd({n}, {n})",
        "C{d}H{n} + {d}O2",
        "E = mc^2, v = {d}.{d} m/s^2",
        "x in ({d}, {n}]",
        "|x - {d}| < {n}",
        "{d}x + {d}y = {n}",
        "log_{d}({n})",
        "k = {d}, {n}, {p}",
    ),
}
ASKED = (
    "{}",
    "{}",
    "Rewrite this sentence: {}",
    "What does this mean: {}",
    "Translate into French: {}",
    "{}\nThanks!",
)


class LookAlike(NamedTuple):
    """A text that asks for no calculation."""

    kind: str
    text: str


def look_alikes(n: int, seed: int = 0, held_out: bool = False) -> list[LookAlike]:
    """So many distinct ones, as many of each kind; `held_out`: of `HELD_OUT` instead of `TEXTS`."""
    rng = random.Random(f"look-alikes/{seed}")
    texts = HELD_OUT if held_out else TEXTS
    found: dict[str, LookAlike] = {}
    for kind in itertools.cycle(texts):
        text = ""
        while not text or text in found:
            text = rng.choice(ASKED).replace("{}", _filled(rng.choice(texts[kind]), rng))
        found[text] = LookAlike(kind, text)
        if len(found) >= n:
            return list(found.values())
    raise AssertionError


def _filled(text: str, rng: random.Random) -> str:
    """A text with its numbers drawn."""
    makers = {
        "n": lambda: str(rng.randrange(10, 100)),
        "d": lambda: str(rng.randrange(1, 10)),
        "y": lambda: str(rng.randrange(1900, 2030)),
        "yy": lambda: f"{rng.randrange(100):02}",
        "mo": lambda: f"{rng.randrange(1, 13):02}",
        "da": lambda: f"{rng.randrange(1, 29):02}",
        "h": lambda: str(rng.randrange(1, 24)),
        "m": lambda: f"{rng.randrange(60):02}",
        "p": lambda: str(rng.randrange(100, 1000)),
        "q": lambda: str(rng.randrange(1000, 10_000)),
        "k": lambda: str(rng.randrange(10_000, 10_000_000)),
    }
    return re.sub(r"[{](yy|mo|da|[ndyhmpqk])[}]", lambda match: makers[match[1]](), text)


def measure(read: Reader, texts: Sequence[LookAlike]) -> dict[str, Any]:
    """Counts those that are answered, as whole messages and at their `=`."""
    results: dict[str, Any] = {"n": len(texts)}
    ends = [(text, text.text[: match.end()]) for text in texts for match in re.finditer("=", text.text)]
    asked = {"whole": [(text, text.text) for text in texts if not text.text.endswith("=")], "at_equals": ends}
    for name, pairs in asked.items():
        outcomes = read([prompt for _, prompt in pairs])
        answered = [
            {"kind": text.kind, "text": prompt, "value": outcome.value}
            for (text, prompt), outcome in zip(pairs, outcomes, strict=True)
            if outcome.value is not None
        ]
        results[name] = {
            "n": len(pairs),
            "answered": len(answered),
            "kinds": dict(Counter(one["kind"] for one in answered)),
            "refused_by_reason": dict(Counter(one.reason for one in outcomes if one.value is None).most_common()),
            "texts": answered[:200],
        }
    return results


def main() -> None:
    """Measures all tokenizers and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--n", type=int, default=N, help="texts (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--held-out", action="store_true", help="texts that were not looked at for the rules")
    parser.add_argument("--readers", nargs="+", default=reader_names(), metavar="NAME")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {**facts(), "seed": arguments.seed, "held_out": arguments.held_out, "tokenizers": {}}
    for name in arguments.readers:
        reader = load_reader(name)
        results["tokenizers"][name] = found = measure(
            reader.read, look_alikes(arguments.n, arguments.seed, arguments.held_out)
        )
        for part in ("whole", "at_equals"):
            shown = {key: value for key, value in found[part].items() if key != "texts"}
            print(name, part, json.dumps(shown), flush=True)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
