"""Expressions in symbols against Python's `fractions`: is any value wrong, is anything refused that should not be?

Random expressions of up to eight operands, in random spellings and texts, and texts that were spoilt so that they must
be refused (`symbol_texts`). No network takes part: lexer, grammar and calculator only. The baseline is the truth:
`right` has the value of the tree that was written, `wrong` another one, or any at all where none is due. `refused` are
texts that have a value and were not answered, by reason; a mistake only where the text was `due`. `open` texts
have a value that may be refused (`5 ++3`, `24/8` as a whole message, values on the way of more than 40 digits).

    python -m benchmarks.accuracy.symbol_fuzz --output build/symbol_fuzz.json
    PEFT_IGC_TOKENIZERS=FOLDER python -m benchmarks.accuracy.symbol_fuzz --output build/symbol_fuzz.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from benchmarks.accuracy.symbol_texts import Sample, samples
from benchmarks.common.measuring import Progress, facts
from benchmarks.common.symbol_reader import Outcome, Reader, load_reader, reader_names


CHUNK = 5000  # texts between two lines of progress
LISTED = 100  # texts of each kind of mistake in the JSON


class Score:
    """Counts outcomes and keeps the first mistakes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.kinds: dict[str, Counter[str]] = {}
        self.refused: Counter[str] = Counter()
        self.wrong: list[dict[str, Any]] = []
        self.missed: list[dict[str, Any]] = []

    def add(self, sample: Sample, outcome: Outcome) -> None:
        """Counts one text."""
        verdict = judge(sample, outcome)
        self.counts["n"] += 1
        self.counts[verdict] += 1
        self.kinds.setdefault(sample.kind, Counter())[verdict] += 1
        row = {"text": sample.text, "value": sample.value, "got": outcome.value or outcome.reason, "kind": sample.kind}
        if verdict == "refused":
            self.refused[outcome.reason] += 1
            self.missed += [row] * (len(self.missed) < LISTED)
        elif verdict == "wrong":
            self.wrong += [row] * (len(self.wrong) < LISTED)

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON values."""
        names = ("n", "right", "refused", "rightly_refused", "open_right", "open_refused", "wrong")
        return {name: self.counts[name] for name in names} | {
            "refused_by_reason": dict(self.refused.most_common()),
            "kinds": {kind: dict(counts) for kind, counts in sorted(self.kinds.items())},
            "wrong_texts": self.wrong,
            "refused_texts": self.missed,
        }


def judge(sample: Sample, outcome: Outcome) -> str:
    """`right`, `refused` (it was due), `rightly_refused`, `open_right`, `open_refused` or `wrong`."""
    if outcome.value is not None:
        if outcome.value != sample.value:
            return "wrong"
        return "right" if sample.due else "open_right"
    if sample.value is None:
        return "rightly_refused"
    return "refused" if sample.due else "open_refused"


def measure(read: Reader, texts: Iterable[Sample], chunk: int = CHUNK, progress: Progress | None = None) -> Score:
    """Reads all texts."""
    score, stream = Score(), iter(texts)
    while batch := list(itertools.islice(stream, chunk)):
        for sample, outcome in zip(batch, read([sample.text for sample in batch]), strict=True):
            score.add(sample, outcome)
        if progress is not None:
            progress.step(f"{score.counts['n']:,} texts, {score.counts['wrong']} wrong", len(batch))
    return score


def main() -> None:
    """Measures all tokenizers and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--n", type=int, default=100_000, help="texts per reader (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", nargs="+", default=reader_names(), metavar="NAME")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {**facts(), "n": arguments.n, "seed": arguments.seed, "tokenizers": {}}
    for name in arguments.readers:
        start = time.perf_counter()
        reader = load_reader(name)
        texts = itertools.islice(samples(arguments.seed), arguments.n)
        found = measure(reader.read, texts, progress=Progress(arguments.n)).as_dict()
        found["seconds"] = round(time.perf_counter() - start, 1)
        results["tokenizers"][name] = found
        shown = {key: value for key, value in found.items() if key not in ("kinds", "wrong_texts", "refused_texts")}
        print(name, json.dumps(shown), flush=True)
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
