"""Test items for the token interface: seeded suites beyond what it was trained on, and of what it must not answer.

`suites(n, seed)` gives lists of `n` distinct items `{"prompt", "target", "group", "igc_operator", "igc_operands",
"igc_result"}`. In the arithmetic suites `target` is the whole answer, so `evaluation.evaluate` takes them as they are.
In the silent ones `target` is None and `igc_operator` is "none". `BY_RULE` is the part of the arithmetic that was once
unsupported which `peft_igc.text` reads, with its value as the target.

What is held out: complete templates, one in six (`wording`). Their frames, expressions and stories are trained in
other combinations, so these suites ask whether combinations carry over.

Prompts are single user messages; what would be a system prompt stands at the beginning of the text. Pass all items to
`ArithmeticRows(exclude=...)`, and no calculation of theirs is trained. No model and no tokenizer. Try it:
`python -c "from benchmarks.accuracy.suites import suites; print(suites(5)['negative'])"`.
"""

import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.bigbench import OPERATION_NAMES, item_of
from peft_igc.data.columns import EXPRESSION
from peft_igc.data.mixture import Mixture
from peft_igc.data.wording.drawing import KINDS, OTHER, surround
from peft_igc.data.wording.phrases import Text
from peft_igc.data.wording.wording import HELD_OUT, TRAINING, Wording
from peft_igc.numbers.calculator import NO_ARITHMETIC
from peft_igc.text import Value, read


__all__ = ["ARITHMETIC", "BY_RULE", "SILENT", "suites"]

Item = dict[str, Any]

ARITHMETIC = ("negative", "separators", "distractors")
SILENT = ("unsupported", "other_operations")
BY_RULE = ("expressions",)

_TRAINED_DIGITS = 6
_WORDS_BETWEEN = re.compile(r"[0-9%)](?:(?!\bof\b)[^0-9])*?(?!of\b)\b[A-Za-z]{2,}(?:.|\n)*[0-9]")
_DIFFERENCE = re.compile("difference (?:between|of) (-?[0-9][0-9,]*) and (-?[0-9][0-9,]*)")
_SYMBOLS = re.compile(r"[-0-9.,+*/×÷·^()%\u2212 ]+")
_RESULT_DIGITS = 40  # of a product of two longest operands
_MIXTURE = Mixture(negative=0.15, spelled_signs=0.4, separators=0.2)
# Requests, trained or not, between greetings, list numbers, sentences and system prompts that were not trained.
_DISTRACTED = Wording(held_out=None)


def suites(n: int = 1000, seed: int = 0) -> dict[str, list[Item]]:
    """All suites, by the names in `ARITHMETIC`, `SILENT` and `BY_RULE`.

    Args:
        n: Items per suite, distinct ones.
        seed: Equal seeds give equal items, on every machine.

    Returns:
        negative: One operand or both negative, in figures, brackets or words, in trained phrasings; the group is the
            operation, as in all arithmetic.
        separators: At least one operand written `1,234,567`, in trained phrasings.
        distractors: Numbers that are no operands around a request, trained or not, in texts that are not trained.
        unsupported: Three operands and more, decimals, brackets, exponents, percent (`drawing.KINDS`), as many of
            each, without those that are covered, or whose symbols have a value by themselves.
        expressions: The others of these: expressions in symbols, with their values. Those with decimal places are
            right answers, too, where decimals are written.
        other_operations: What else the calculator does not do: remainders, equations, units, "half of" and so on.
    """
    makers: dict[str, Callable[[random.Random], Iterator[Item]]] = {
        "negative": lambda rng: filter(_has_negative, _from_rows(rng, TRAINING, negative=1.0, spelled_signs=0.4)),
        "separators": lambda rng: filter(_has_separator, _from_rows(rng, TRAINING, separators=1.0)),
        "distractors": _distractors,
        "unsupported": lambda rng: _unsupported(rng, KINDS),
        "expressions": lambda rng: _unsupported(rng, KINDS, covered=True),
        "other_operations": lambda rng: _unsupported(rng, (OTHER,)),
    }
    return {name: _distinct(make(random.Random(f"suites/{seed}/{name}")), n) for name, make in makers.items()}


def _distinct(items: Iterator[Item], n: int) -> list[Item]:
    """The first `n` items with different prompts."""
    found: dict[str, Item] = {}
    for item in items:
        found.setdefault(item["prompt"], item)
        if len(found) >= n:
            break
    return list(found.values())[:n]


def _from_rows(rng: random.Random, wording: Wording, bigbench: float = 0.0, **fractions: float) -> Iterator[Item]:
    """Ordinary arithmetic of trained lengths."""
    mixture = Mixture(none=0, overflow=0, undefined=0, inexact=0, bigbench=bigbench, special=0.05, **fractions)
    rows = ArithmeticRows(
        rng.randrange(2**32),
        max_digits=_TRAINED_DIGITS,
        num_digits=_RESULT_DIGITS,
        mixture=mixture,
        conversational=False,
        wording=wording,
    )
    for row in rows:
        operator, (a, b) = row["igc_operator"], row["igc_operands"]
        yield item_of(row["prompt"], OPERATION_NAMES[operator], (a, operator, b))


def _has_negative(item: Item) -> bool:
    """Whether an operand is negative: -0 is not."""
    return any(number.startswith("-") for number in item["igc_operands"])


def _has_separator(item: Item) -> bool:
    """Whether an operand has four digits or more, which are then separated."""
    return any(len(number) > 3 for number in item["igc_operands"])


def _distractors(rng: random.Random) -> Iterator[Item]:
    """Requests between texts with numbers of their own."""
    for item in _from_rows(rng, _DISTRACTED, bigbench=0.3, contexts=0.8):
        if rng.random() < 0.25:
            item["prompt"] = f"{_DISTRACTED.system(rng).strip()}\n\n{item['prompt']}"
        if len(re.findall("[0-9]+", item["prompt"])) > 2:
            yield item


def _numbers(rng: random.Random) -> list[str]:
    """Five numbers of trained lengths."""
    lengths = (rng.randint(1, _TRAINED_DIGITS) for _ in range(5))
    return [str(rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10**digits)) for digits in lengths]


def _unsupported(rng: random.Random, kinds: Sequence[str], covered: bool = False) -> Iterator[Item]:
    """Arithmetic that the calculator does not do, as many of each kind; with `covered` what it does by rule."""
    for kind in itertools.cycle(kinds):
        while True:
            item = _refused(HELD_OUT.unsupported_request(_numbers(rng), rng, _MIXTURE, kind), rng)
            value = read(item["prompt"])
            # `9 take away -6 squared` is no expression in symbols.
            answered = isinstance(value, Value) and not _WORDS_BETWEEN.search(item["prompt"])
            # The reader is stricter about the words around an expression than people are: `Find 5^2.` is refused
            # nowhere, but `Somebody asked me what 5^2 is` may be answered or not, so it is in neither suite.
            unclear = not covered and (_readable(item["prompt"]) or _has_order(item["prompt"]))
            if answered == covered and not unclear:
                break
        if isinstance(value, Value) and answered:
            item["target"] = item["igc_result"] = value.text
            item["igc_operator"] = EXPRESSION
        yield item


def _readable(prompt: str) -> bool:
    """Whether all numbers of the last block are in one expression in symbols that has a value by itself."""
    blocks = [block for block in prompt.split("\n\n") if re.search("[0-9]", block)]
    block = blocks[-1].replace(" x ", " * ") if blocks else ""
    runs = [run for run in _SYMBOLS.findall(block) if re.search("[0-9]", run)]
    return len(runs) == 1 and isinstance(read(runs[0].strip(" .,")), Value)


def _has_order(prompt: str) -> bool:
    """Whether a text asks for the difference of a number and one not above it, on which all agree."""
    found = _DIFFERENCE.search(prompt)
    return found is not None and Fraction(found[1].replace(",", "")) >= Fraction(found[2].replace(",", ""))


def _refused(refused: Text, rng: random.Random) -> Item:
    """An item that must not be answered by the calculator; one in five has texts around it."""
    columns = {"igc_operator": NO_ARITHMETIC, "igc_operands": None, "igc_result": None}
    prompt = surround(refused.text, True, rng) if rng.random() < 0.2 else refused.text
    return {"prompt": prompt, "target": None, "group": refused.kind, **columns}
