"""Expressions in symbols against Python's `fractions`: is a value wrong, is anything refused that should not be?

No network takes part: the texts are read by `peft_igc.text` alone, as a calculator reads them at an anchor. Sets:

* `generated`: random expressions of up to eight operands in random spellings, and spoilt ones (`expression_texts`);
* `spellings`, `like_math_401`, `look_alikes`: fixed forms (`expression_items`), look-alikes also at each `=` in them;
* `quotients`: of up to seven digits, to places or significant digits that the text asks for, by `decimal`. In words it
  is given which two numbers are divided, as a network would read it;
* `gsm8k`, with `--data`: the text before each annotated `=` of GSM8K's solutions, from the `=` before it on, after the
  2,000 rows that the rules were written after; `even` ones were looked at, too. `wrong` is another value than theirs;
* `tatqa`, with `--derivations`: what financial analysts wrote, each followed by ` =`, rounded to four places.

Outcomes: `right`, `wrong`, `refused` (an answer was due), `rightly refused` (none was), and `open`, texts that have a
value and may be refused, such as `5 ++3`.

    python -m benchmarks.accuracy.expressions --output benchmarks/results/expressions.json --data gsm8k_train.jsonl
"""

from __future__ import annotations

import decimal
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy.expression_items import like_math_401, look_alikes, spelled
from benchmarks.accuracy.expression_texts import Sample, samples
from benchmarks.common.measuring import command, facts, write
from benchmarks.common.written_calculations import value_of
from peft_igc.data.files import read_rows
from peft_igc.text import Limits, Refusal, Value, read
from peft_igc.text.requests import answer
from peft_igc.text.rounding import Rounding
from peft_igc.text.values import written


DEVELOPMENT = 2000  # rows of GSM8K
LISTED = 50  # texts of each kind of mistake in the results
OUTCOMES = ("right", "wrong", "refused", "rightly refused", "open")
LIMITS = Limits(digits=40, result_digits=40, operands=8)
PLACES = 4  # of derivations
ROUNDED = Limits(digits=40, result_digits=40, operands=16, rounding=Rounding("half_up", PLACES))
MARK = re.compile(r"<<(.*?)>>")
_END = re.compile(r"=[ $€£]*\Z")


class Site(NamedTuple):
    """An annotation of a solution."""

    text: str | None  # the solution up to and with the `=`; None: no `=` is before the annotation
    since: int  # where the preceding `=` ends, 0 without one
    written: str  # the annotation
    values: frozenset[Fraction]  # that count as right


def sites_of(solution: str) -> list[Site]:
    """All annotations of a solution."""
    found, text, at = [], "", 0
    for match in MARK.finditer(solution):
        text, at = text + solution[at : match.start()], match.end()
        end = _END.search(text)
        before = None if end is None else text[: end.start() + 1]
        since = 0 if before is None else before.rfind("=", 0, len(before) - 1) + 1
        found.append(Site(before, since, match[1], _values(match[1])))
    return found


def _values(annotation: str) -> frozenset[Fraction]:
    """The value of an annotation's expression and its stated result, as far as they can be read."""
    expression, _, stated = re.sub("[$,]", "", annotation).rpartition("=")
    return frozenset(value for value in map(value_of, (expression, stated)) if value is not None)


def judged(sample: Sample, values: frozenset[Fraction] | None, limits: Limits) -> tuple[str, str]:
    """The outcome of a text, and what was read: a value or the id of the refusal. Any of the `values` is right."""
    said = _divided(sample.text, limits) if sample.is_in_words else read(sample.text, limits)
    if not isinstance(said, Value):
        return "rightly refused" if sample.value is None else "refused" if sample.due else "open", said.id
    right = sample.value in (said.text, written(said.value)) if values is None else said.value in values
    return ("right" if sample.due else "open") if right else "wrong", said.text


def measure(texts: Iterable[tuple[Sample, frozenset[Fraction] | None]], limits: Limits = LIMITS) -> dict[str, Any]:
    """Counts of a set by outcome, and the first mistakes."""
    counts, reasons, mistakes = Counter[str](), Counter[str](), []
    for sample, values in texts:
        outcome, said = judged(sample, values, limits)
        counts["n"] += 1
        counts[outcome] += 1
        reasons[said] += outcome == "refused"
        if outcome in ("wrong", "refused") and counts[outcome] <= LISTED:
            mistakes.append({"text": sample.text[-120:], "value": sample.value, "got": said, "outcome": outcome})
    told = {name: counts[name] for name in ("n", *OUTCOMES)}
    return told | {"refused by reason": dict((+reasons).most_common()), "mistakes": mistakes}


def gsm8k(path: Path, first: int) -> Iterable[tuple[Sample, frozenset[Fraction] | None]]:
    """The text before each annotated `=` of every second held-out row."""
    for row in read_rows(path)[DEVELOPMENT + first :: 2]:
        for site in sites_of(row["answer"]):
            if site.text is not None:
                yield Sample(site.text[site.since :], site.written, True), site.values


_QUOTIENTS = (  # the last two are in words
    *("{a} / {b} {to} =", "What is {a} / {b}, {to}?"),
    *("What is {a} divided by {b} {to}?", "Divide {a} by {b} and round {to}."),
)


def quotients(n: int, seed: int) -> Iterable[Sample]:
    """Quotients to places that the text asks for, rounded half up."""
    rng = random.Random(seed)
    for at in range(n):
        a, b = (rng.randint(1, 10 ** rng.randint(1, 7) - 1) for _ in range(2))
        places, significant = rng.randint(1, 20), rng.random() < 0.3
        context = decimal.Context(prec=places if significant else 60, rounding=decimal.ROUND_HALF_UP)
        due = context.divide(decimal.Decimal(a), decimal.Decimal(b))
        after = places - 1 - due.adjusted() if significant else places
        due = due.quantize(decimal.Decimal(1).scaleb(-after), context=context)
        to = f"to {places} {'significant figures' if significant else 'decimal places'}"
        form = at % len(_QUOTIENTS)
        yield Sample(_QUOTIENTS[form].format(a=a, b=b, to=to), f"{due:f}", True, is_in_words=form >= 2)


def _divided(text: str, limits: Limits) -> Value | Refusal:
    """A request in words to divide its first number by its second one."""
    first, second = (found.span() for found in itertools.islice(re.finditer("[0-9]+", text), 2))
    return answer(text, "/", (first, second), (False, False), limits).found


def derivations(path: Path) -> Iterable[tuple[Sample, frozenset[Fraction] | None]]:
    """The derivations, with their values by a second evaluator and by `decimal`."""
    context = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)
    for row in read_rows(path):
        written = row["derivation"]
        value = value_of(re.sub("[$,]", "", written))
        if value is not None:
            exact = context.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))
            rounded = Fraction(exact.quantize(decimal.Decimal(1).scaleb(-PLACES), context=context))
            yield Sample(f"{written} =", str(rounded), True), frozenset({value, rounded})


def main() -> None:
    """Measures all sets and writes the results."""
    parser = command(__doc__)
    parser.add_argument("--data", type=Path, metavar="FILE", help="GSM8K's training file, JSON lines with `answer`")
    parser.add_argument("--derivations", type=Path, metavar="FILE", help="TAT-QA's, JSON lines with `derivation`")
    parser.add_argument("--generated", type=int, default=100_000, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--n", type=int, default=2000, help="texts of each other set (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    n, seed = arguments.n, arguments.seed
    alike = [*look_alikes(n, seed), *look_alikes(n, seed, held_out=True)]
    ends = [one._replace(text=one.text[: at.end()]) for one in alike for at in re.finditer("=", one.text)]
    sets = {
        "generated": itertools.islice(samples(seed), arguments.generated),
        "spellings": spelled(n, seed),
        "like math 401": like_math_401(n, seed),
        "look-alikes": (one for one in alike if not one.text.endswith("=")),
        "look-alikes, at each =": ends,
    }
    sets["quotients"] = quotients(3 * n // 2, seed)
    texts: dict[str, Any] = {name: ((one, None) for one in found) for name, found in sets.items()}
    if arguments.data is not None:
        texts |= {"gsm8k, even": gsm8k(arguments.data, 0), "gsm8k, odd": gsm8k(arguments.data, 1)}
    if arguments.derivations is not None:
        texts["tatqa"] = derivations(arguments.derivations)
    results: dict[str, Any] = {**facts(), "seed": seed, "sets": {}}
    for name, found in texts.items():
        results["sets"][name] = told = measure(found, ROUNDED if name == "tatqa" else LIMITS)
        print(name, {key: told[key] for key in ("n", *OUTCOMES)}, flush=True)
        write(arguments.output, results)


if __name__ == "__main__":
    main()
