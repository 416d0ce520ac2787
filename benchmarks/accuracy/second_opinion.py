"""The reader of characters against the reader of tokens in tensors: where do they differ, and who is right?

Both read the same texts: random expressions (`symbol_texts`), items in the form of MATH-401 and spellings of `a op b`
(`symbol_items`), look-alikes, the `=` of GSM8K's solutions (`symbols_gsm8k`) and derivations of TAT-QA. For each set
it counts what both say: the same, another value, or a value and a reason, with some texts of each class. Where the
value is known, a text that is answered with another one counts as wrong for that reader.

    python -m benchmarks.accuracy.second_opinion --gsm8k gsm8k_train.jsonl --tatqa tatqa_derivations.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.accuracy import look_alikes, symbol_items, symbols_gsm8k
from benchmarks.accuracy.symbol_texts import samples
from benchmarks.common.symbol_reader import (
    EMBEDDED,
    Outcome,
    SymbolReader,
    TextReader,
    load_tokenizer,
    tokenizer_names,
)


CHUNK = 4096  # texts that are read at once
UNKNOWN = "unknown"  # the value of a text for which nobody knows it
NOBODY = frozenset({UNKNOWN})


class Text(NamedTuple):
    """A text, and the values that are right: none where it must be refused, `NOBODY` where nobody knows."""

    text: str
    values: frozenset[str]


def sets(n: int, gsm8k: Path | None, tatqa: Path | None) -> Iterator[tuple[str, list[Text]]]:
    """The sets of texts by name."""
    made = ((one.text, one.value) for one in itertools.islice(samples(0), n))
    yield "generated", [_text(text, value) for text, value in made]
    for name, items in (("spellings", symbol_items.spelled_items()), ("like MATH-401", symbol_items.like_math_401())):
        yield name, [_text(item["prompt"], item["target"]) for item in items]
    alike = [one.text for held_out in (False, True) for one in look_alikes.look_alikes(2000, held_out=held_out)]
    alike += [text[: at + 1] for text in alike for at, char in enumerate(text) if char == "="]
    yield "look-alikes", [Text(text, NOBODY) for text in alike]
    if gsm8k is not None:
        lines = enumerate(gsm8k.read_text(encoding="utf-8").splitlines())
        sites = (site for row, line in lines for site in symbols_gsm8k.sites_of(row, json.loads(line)["answer"]))
        written = ((str(site.text)[site.since :], site.values) for site in sites if site.text is not None)
        yield "GSM8K", [Text(text, frozenset(map(str, values))) for text, values in written]
    if tatqa is not None:
        derived = [json.loads(line)["derivation"] for line in tatqa.read_text(encoding="utf-8").splitlines()]
        yield "TAT-QA", [Text(f"{text} =", NOBODY) for text in derived]


def _text(text: str, value: str | None) -> Text:
    return Text(text, frozenset() if value is None else frozenset({value}))


def compare(first: Sequence[Outcome], second: Sequence[Outcome], texts: Sequence[Text]) -> dict[str, list[str]]:
    """Texts by what two readers say of them: `value, inexact` is answered by the first one only."""
    found = defaultdict(list)
    for one, other, text in zip(first, second, texts, strict=True):
        said = [outcome.value or outcome.reason.removeprefix("not found, ") for outcome in (one, other)]
        if said[0] != said[1]:
            both = zip((one, other), said, strict=True)
            kinds = ["value" if outcome.value is not None else name for outcome, name in both]
            found[", ".join(kinds)].append(f"{text.text[-120:]!r}: {said[0]}, {said[1]}")
    return found


def verdicts(outcomes: Sequence[Outcome], texts: Sequence[Text]) -> dict[str, int]:
    """How many are right, wrong, refused though they have a value, and rightly refused or of unknown value."""
    counts: Counter[str] = Counter()
    for outcome, text in zip(outcomes, texts, strict=True):
        if outcome.value is None:
            counts["refused" if text.values else "rightly refused"] += 1
        elif text.values == NOBODY:
            counts["answered"] += 1
        else:
            counts["right" if _is_among(outcome.value, text.values) else "wrong"] += 1
    return dict(counts.most_common())


def _is_among(value: str, values: frozenset[str]) -> bool:
    """Whether a decimal is one of some values, which may be fractions."""
    return value in values or any(Fraction(value) == Fraction(one) for one in values)


def main() -> None:
    """Reads all sets and prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000, help="generated expressions (default: %(default)s)")
    parser.add_argument("--gsm8k", type=Path, metavar="FILE", help="JSON lines with `answer`")
    parser.add_argument("--tatqa", type=Path, metavar="FILE", help="JSON lines with `derivation`")
    parser.add_argument("--tokenizer", default=EMBEDDED, choices=tokenizer_names(), metavar="NAME")
    parser.add_argument("--shown", type=int, default=3, help="texts of each class (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    readers = TextReader(), SymbolReader(load_tokenizer(arguments.tokenizer))
    for name, texts in sets(arguments.n, arguments.gsm8k, arguments.tatqa):
        chunks = [[one.text for one in texts[at : at + CHUNK]] for at in range(0, len(texts), CHUNK)]
        first, second = ([one for chunk in chunks for one in reader.read(chunk)] for reader in readers)
        print(f"{name}: {len(texts):,} texts")
        print(f"  characters: {verdicts(first, texts)}\n  tokens: {verdicts(second, texts)}")
        for kind, listed in sorted(compare(first, second, texts).items(), key=lambda pair: -len(pair[1])):
            print(f"  {len(listed):6,} {kind}", *(f"         {one}" for one in listed[: arguments.shown]), sep="\n")


if __name__ == "__main__":
    main()
