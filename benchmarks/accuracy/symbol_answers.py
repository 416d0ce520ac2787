"""What a trained adapter writes where a text says it in symbols, and where a further number should silence it.

Whole generated answers of adapters of the token interface: `right`, `silent` (no step is ok), or `wrong` (a step is
ok and the answer is another one). Texts: `a op b` in 80 spellings; items like MATH-401; look-alikes; three and more
numbers in words, over sentences, lines and lists, where the value of all numbers is right and anything else is wrong;
BIG-bench's form; and the suites of the token interface.

    python -m benchmarks.accuracy.symbol_answers --adapters demo-output/adapter --output FILE
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy.look_alikes import look_alikes
from benchmarks.accuracy.suites import suites
from benchmarks.accuracy.symbol_items import like_math_401, spelled_items
from benchmarks.common.measuring import Progress, facts
from peft_igc.data.bigbench import bigbench_test_set
from peft_igc.inference.decoding import prompt_tokens
from peft_igc.inference.evaluation import answer_tokens
from peft_igc.inference.loading import load_adapter, tiny_base


BATCH, LONGEST = 64, 48
PER_SUBTASK = 200  # of BIG-bench's form, as the demonstration tests it
RIGHT, SILENT, WRONG = "right", "silent", "wrong"
THINGS = ("apples", "pears", "plums", "pens", "coins", "books")


class Asked(NamedTuple):
    """A prompt, and the text of the right answer; None if the calculator should be silent."""

    prompt: str
    answer: str | None


def three_numbers(n: int, seed: int) -> list[Asked]:
    """Requests in words with three to five numbers, whose sum is asked."""
    rng = random.Random(f"three numbers/{seed}")

    def made() -> Iterator[Asked]:
        while True:
            numbers = [rng.randrange(1, 10 ** rng.randint(1, 4)) for _ in range(rng.randint(3, 5))]
            first, *rest = numbers
            things = rng.sample(THINGS, len(numbers))
            lines = "\n".join(f"{number} {thing}" for number, thing in zip(numbers, things, strict=True))
            marked = "\n".join(f"{mark} {number}" for mark, number in zip("-*-*-", numbers, strict=False))
            then = "".join(f" Then add {number}." for number in numbers[2:])
            sentences = " ".join(f"I have {number} {thing}." for number, thing in zip(numbers, things, strict=True))
            ask = rng.choice(("What is the sum?", "How much is that in total?", "Add them up.", "How many in all?"))
            text = rng.choice(
                (
                    f"What is {first} plus {rest[0]}?{then}",
                    f"Add {first} and {rest[0]}.{then}",
                    f"{lines}\n{ask}",
                    f"{marked}\n{ask}",
                    f"{sentences} {ask}",
                    f"What is the sum of {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}?",
                    f"{ask} {', '.join(map(str, numbers))}",
                    f"{first} plus {' plus '.join(map(str, rest))}",
                )
            )
            yield Asked(text, str(sum(numbers)))

    texts = made()
    return [next(texts) for _ in range(n)]


def sets_of(n: int, seed: int) -> dict[str, list[Asked]]:
    """All sets of texts, by name."""
    found = {
        "bigbench": [Asked(item["prompt"], item["target"]) for item in bigbench_test_set(PER_SUBTASK, 0)],
        "spellings": [Asked(item["prompt"], item["target"]) for item in spelled_items(max(n // 80, 1), seed)],
        "like_math_401": [Asked(item["prompt"], item["target"]) for item in like_math_401(n, seed)],
        "look_alikes": [Asked(one.text, None) for one in look_alikes(n, seed)],
        "three_numbers": three_numbers(n, seed),
    }
    for name, items in suites(n, seed).items():
        found[name] = [Asked(item["prompt"], item["igc_result"]) for item in items]
    return found


def judged(asked: Asked, text: str, steps: list[str]) -> str:
    """`RIGHT`, `SILENT` or `WRONG`."""
    if "ok" not in steps:
        return SILENT
    return RIGHT if asked.answer is not None and text.strip() == asked.answer else WRONG


def measure(model: Any, tokenizer: Any, texts: dict[str, list[Asked]]) -> dict[str, Any]:
    """Counts, and up to 40 wrong answers, of each set."""
    found: dict[str, Any] = {}
    progress = Progress(len(texts), every=0.0)
    for name, asked in texts.items():
        tokens = prompt_tokens(tokenizer, [one.prompt for one in asked], False)
        answers = answer_tokens(model, tokenizer, tokens, BATCH, LONGEST)
        statuses = [[step.status for step in answer.steps] for answer in answers]
        verdicts = [judged(*one) for one in zip(asked, [answer.text for answer in answers], statuses, strict=True)]
        pairs = zip(asked, answers, verdicts, strict=True)
        wrong = [{**one._asdict(), "said": answer.text} for one, answer, verdict in pairs if verdict == WRONG]
        due = sum(one.answer is not None for one in asked)
        found[name] = {"n": len(asked), "due": due, **Counter(verdicts), "wrong_answers": wrong[:40]}
        progress.step(f"{name}: {dict(Counter(verdicts))} of {len(asked)}, {due} due")
    return found


def main() -> None:
    """Measures adapters."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapters", type=Path, nargs="+", required=True, metavar="DIR", help="of the embedded base")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("-n", type=int, default=1000, help="texts of a set (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the texts (default: %(default)s)")
    arguments = parser.parse_args()
    names = [folder.name for folder in arguments.adapters]
    settings = {"n": arguments.n, "seed": arguments.seed}
    results: dict[str, Any] = {**facts(), "settings": settings, "runs": {}}
    texts = sets_of(arguments.n, arguments.seed)
    for name, folder in zip(names, arguments.adapters, strict=True):
        base, tokenizer = tiny_base()
        results["runs"][name] = measure(load_adapter(base, folder), tokenizer, texts)
    arguments.output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
