"""How long the host reads the text of an anchor, from 64 to 4,096 tokens.

Texts end in an expression and `=`, in a message with an expression, or in a request in words, after other requests up
to a number of characters: four for each token. Each is read by `peft_igc.text.read`, and its numbers by `numbers`,
three times, of which the fastest counts; the median and the 99th percentile of all texts of a kind are printed.
Decoding the tokens is not part of it.

    python -m benchmarks.cost.reading_times --output build/reading_times.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.accuracy.symbol_texts import samples
from benchmarks.common.measuring import facts
from peft_igc.text import numbers, read


LENGTHS = (64, 512, 4096)  # tokens
CHARACTERS = 4  # of a token
TEXTS = 400  # of each kind and length
PLAIN = Path(__file__).parents[1] / "data" / "plain_requests.jsonl"


def texts(kind: str, length: int, count: int, seed: int = 0) -> Iterator[str]:
    """Texts of a kind, `=`, `message` or `words`, with a number of tokens."""
    rng = random.Random(f"reading times/{kind}/{length}/{seed}")
    requests = [json.loads(line)["prompt"] for line in PLAIN.read_text(encoding="utf-8").splitlines()]
    due = (one.text for one in samples(seed) if one.due and one.text.endswith("=") == (kind == "="))
    for end in itertools.islice(requests if kind == "words" else due, count):
        text = end
        while len(text) < length * CHARACTERS:
            text = f"{rng.choice(requests)}{rng.choice((' ', chr(10), chr(10) * 2))}{text}"
        yield text[-max(length * CHARACTERS, len(end)) :]


def milliseconds(call: Callable[[str], object], text: str) -> float:
    """The fastest of three calls."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        call(text)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def measure(count: int = TEXTS) -> list[dict[str, Any]]:
    """Percentiles by function, kind and length."""
    found = []
    for call, kind, length in itertools.product((read, numbers), ("=", "message", "words"), LENGTHS):
        made = list(texts(kind, length, count))
        call(made[0])  # loads the words
        times = sorted(milliseconds(call, text) for text in made)
        row = {"function": call.__name__, "kind": kind, "tokens": length, "n": len(times)}
        row |= {f"p{part}": times[(len(times) - 1) * part // 100] for part in (50, 99)}
        print(*(f"{value:.3f}" if isinstance(value, float) else value for value in row.values()), flush=True)
        found.append(row)
    return found


def main() -> None:
    """Measures and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--n", type=int, default=TEXTS, help="texts of each kind and length (default: %(default)s)")
    arguments = parser.parse_args()
    results = {**facts(), "measured": measure(arguments.n)}
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
