"""Training rows: an endless, seeded stream of arithmetic with operand columns.

`ArithmeticRows` yields rows `{"prompt", "completion", "igc_operator", "igc_operands", "igc_result"}`: arithmetic in
many phrasings, texts that ask for no calculation (`"none"`), and calculations that have to be refused, in the parts
that a `Mixture` gives. Phrasings are a few dozen (`templates`) or, with `wording`, some hundreds with texts around
them and several forms of numbers; `TOKENS_MIXTURE` is what the token interface is trained on. It does not tokenize,
makes no rows with several anchors, and knows no dataset library: see `data` for that.
Try it: `python -c "from peft_igc.data import ArithmeticRows; print(ArithmeticRows().take(3))"`.
"""

import hashlib
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from .bigbench import parse_question, random_divisor
from .calculator import Division, Status
from .columns import NO_ARITHMETIC, label
from .mixture import TOKENS_MIXTURE, Mixture
from .templates import BIGBENCH, CITIES, MONTHS, NAMES, PLAIN, SYSTEM, TEMPLATES, THINGS, UNABLE, WORDS
from .wording import NumberForms, Wording, answer, cue


__all__ = ["TOKENS_MIXTURE", "ArithmeticRows", "Mixture", "Row"]

Row = dict[str, Any]

_TERSE = re.compile(r"only|with a number|explanation|brief|short")  # asks for the bare number
_REPEATS = 10_000  # so many repeated rows in a row mean that there are no others


class ArithmeticRows:
    """An endless stream of training rows; equal arguments give equal rows, on every machine and in every iteration.

    Operand lengths are equal in half of the rows and drawn independently in the others. Half of the divisions take a
    divisor of an n-digit dividend, as BIG-bench does, and half are quotient times divisor: the paper attributes its
    weaker division to having trained on another distribution than the benchmark's.

    Rows whose status is not ok carry a fixed sentence as their completion. It trains nothing of the adapter: for such
    a row the write is exactly zero, so no gradient of the language-model loss reaches it. (A LoRA trained beside it
    does see that sentence; set those fractions to 0 if it must not.) The same holds for the completions of `"none"`.

    Args:
        seed: Of the stream.
        max_digits: The longest ordinary operand; at most `num_digits`.
        num_digits: D, the longest operand that the adapter reads.
        result_digits: R, the longest result that it writes (longer ones are labelled as overflow). None: `num_digits`.
        operations: Symbols, each drawn equally often.
        division: As in `IGCConfig`; `"floor"` and `"trunc"` make a fifth of the divisions leave a remainder.
        mixture: What the rows are made of.
        exclude: Test items whose (first operand, operator, second operand) never occurs. Items in which both operands
            have one digit are exempt: those subtasks are complete sets.
        conversational: Messages for a chat template, or else plain strings (the completion with a leading space).
        templates: Phrasings by operator, as in `templates.TEMPLATES`; needed for operations of your own.
        wording: Draws all texts instead of `templates`, for the four operations of the paper; see `wording.TRAINING`.
        distinct: Skip rows whose prompt has occurred before. The stream then remembers eight bytes per row.

    Raises:
        ValueError: Lengths that do not fit, an operation without phrasings, an item to exclude that cannot be read.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        max_digits: int = 5,
        num_digits: int = 10,
        result_digits: int | None = None,
        operations: Sequence[str] = ("+", "-", "*", "/"),
        division: Division = "exact",
        mixture: Mixture | None = None,
        exclude: Iterable[Mapping[str, Any]] = (),
        conversational: bool = True,
        templates: Mapping[str, Sequence[str]] = TEMPLATES,
        wording: Wording | None = None,
        distinct: bool = False,
    ) -> None:
        if not 1 <= max_digits <= num_digits:
            raise ValueError(
                f"`max_digits={max_digits}` must be in 1..`num_digits={num_digits}`. Longer operands are made by "
                "`Mixture(overflow=...)`."
            )
        if not operations:
            raise ValueError("`operations` is empty: name at least one symbol.")
        if missing := [symbol for symbol in operations if not templates.get(symbol)]:
            raise ValueError(f"No phrasings for {missing}: pass `templates={{{missing[0]!r}: [...], ...}}`.")
        self._check_wording(wording, operations, mixture or Mixture())
        self.seed = seed
        self.max_digits = max_digits
        self.num_digits = num_digits
        self.result_digits = num_digits if result_digits is None else result_digits
        self.operations = tuple(operations)
        self.division = division
        self.mixture = mixture or Mixture()
        self.conversational = conversational
        self.wording = wording
        self.distinct = distinct
        self.excluded = _calculations(exclude)
        self._phrasings = {symbol: tuple(templates[symbol]) for symbol in self.operations}
        # Stories are about numbers of things; a set that has stories only is used as it is.
        self._formal = {s: tuple(t for t in ts if "{name}" not in t) or ts for s, ts in self._phrasings.items()}
        self._kinds = self._thresholds(result_digits is not None)

    def _check_wording(self, wording: Wording | None, operations: Sequence[str], mixture: Mixture) -> None:
        """Refuses settings that only a wording can serve, and operations that it has no words for."""
        if wording is None:
            needing = ("unsupported", "spelled_signs", "separators", "contexts", "sentences")
            if given := [name for name in needing if getattr(mixture, name)]:
                raise ValueError(
                    f"`Mixture({given[0]}=...)` needs a wording: pass `wording=peft_igc.wording.TRAINING`."
                )
        elif missing := [symbol for symbol in operations if symbol not in wording.operations]:
            raise ValueError(f"The wording has no phrasings for {missing}: use `templates` instead of `wording`.")

    def _thresholds(self, refuse_results: bool) -> list[tuple[float, str]]:
        """Cumulated fractions of the special kinds of rows."""
        mixture, divides = self.mixture, "/" in self.operations
        long_results = mixture.overflow / 2 if refuse_results and self._overflowing_operations() else 0.0
        parts = {
            "none": mixture.none,
            "long result": long_results,
            "long operand": mixture.overflow - long_results,
            "undefined": mixture.undefined if divides else 0.0,
            "inexact": mixture.inexact if divides and self.division == "exact" else 0.0,
            "unsupported": mixture.unsupported,
        }
        return list(zip(itertools.accumulate(parts.values()), parts, strict=True))

    def __iter__(self) -> Iterator[Row]:
        rng = random.Random(f"ArithmeticRows/{self.seed}")
        make = self._row
        if self.wording is not None:
            make = partial(self._worded_row, replace(self.wording, used=Counter()))
        if not self.distinct:
            while True:
                yield make(rng)
        seen: set[bytes] = set()
        while True:
            for _ in range(_REPEATS):
                row = make(rng)
                if (key := hashlib.blake2b(repr(row["prompt"]).encode(), digest_size=8).digest()) not in seen:
                    break
            else:
                raise ValueError(
                    f"No distinct row is left after {len(seen):,}: the last {_REPEATS:,} were repeats. Take fewer, or "
                    "raise `max_digits`."
                )
            seen.add(key)
            yield row

    def take(self, n: int) -> list[Row]:
        """The first `n` rows of the stream."""
        return list(itertools.islice(self, n))

    def _row(self, rng: random.Random) -> Row:
        """One row of a kind drawn from the mixture."""
        draw = rng.random()
        kind = next((kind for limit, kind in self._kinds if draw < limit), "ordinary")
        if kind == "none":
            prompt, completion = _plain_text(rng, self.max_digits)
            return self._finish(rng, prompt, completion, NO_ARITHMETIC, None, None)
        operator, a, b = self._allowed(kind, rng)
        first, second = str(a), str(b)
        result = label(operator, first, second, self.num_digits, self.result_digits, self.division)
        prompt = self._phrase(operator, a, b, kind, rng)
        if isinstance(result, Status):
            return self._finish(rng, prompt, UNABLE, operator, [first, second], result.name.lower())
        return self._finish(rng, prompt, result, operator, [first, second], result)

    def _worded_row(self, wording: Wording, rng: random.Random) -> Row:
        """One row in the texts of `wording`."""
        mixture, draw = self.mixture, rng.random()
        kind = next((kind for limit, kind in self._kinds if draw < limit), "ordinary")
        forms = NumberForms(mixture.negative, mixture.spelled_signs, mixture.separators)
        system = wording.system(rng) if self.conversational and rng.random() < mixture.system else None
        if kind in ("none", "unsupported"):
            numbers = [str(_number(rng.randint(1, self.max_digits), rng)) for _ in range(5)]
            draw_text = wording.plain_text if kind == "none" else wording.unsupported_request
            text = draw_text(numbers, rng, forms)
            prompt = self._surrounded(wording, text.text, rng)
            return self._made(prompt, text.completion, system, NO_ARITHMETIC, None, None)
        operator, first, second = self._allowed(kind, rng)
        a, b = str(first), str(second)
        result = label(operator, a, b, self.num_digits, self.result_digits, self.division)
        bigbench = kind == "ordinary" and rng.random() < mixture.bigbench
        request = wording.request(operator, a, b, rng, forms, bigbench)
        prompt = self._surrounded(wording, request.text, rng)
        if isinstance(result, Status):
            return self._made(prompt, UNABLE, system, operator, [a, b], result.name.lower())
        completion = result
        ends = prompt.endswith((".", "?", "!"))  # a sentence does not go on behind "Answer:" or "="
        if rng.random() < mixture.sentences and ends and not _TERSE.search(f"{system}{prompt}"):
            prompt, completion = cue(prompt, rng), answer(operator, a, b, result, request.thing, rng)
        return self._made(prompt, completion, system, operator, [a, b], result)

    def _surrounded(self, wording: Wording, prompt: str, rng: random.Random) -> str:
        """The prompt, in a part of the rows with other text around it."""
        return wording.surround(prompt, rng) if rng.random() < self.mixture.contexts else prompt

    def _allowed(self, kind: str, rng: random.Random) -> tuple[str, int, int]:
        """A calculation that is not excluded."""
        while True:
            operator, a, b = self._calculation(kind, rng)
            if (a, operator, b) not in self.excluded:
                return operator, a, b

    def _calculation(self, kind: str, rng: random.Random) -> tuple[str, int, int]:
        """Operator and operands of a row of this kind."""
        if kind == "undefined":
            return "/", _number(rng.randint(1, self.max_digits), rng), 0
        if kind == "inexact":
            return "/", *self._with_remainder(rng)
        if kind == "long result":
            return self._long_result(rng)
        operator = rng.choice(self.operations)
        if kind == "long operand":
            pair = [_number(rng.randint(1, self.max_digits), rng), _number(self._too_long(rng), rng)]
            if rng.random() < 0.25:
                pair[0] = _number(self._too_long(rng), rng)
            rng.shuffle(pair)
            return operator, pair[0], pair[1]
        a, b = self._exact_division(rng) if operator == "/" else self._pair(rng)
        if self.mixture.special and rng.random() < self.mixture.special:
            small = rng.randrange(2)
            pairs = ((b, b), (0, b), (a, 1)) if operator == "/" else ((a, a), (small, b), (a, small))
            a, b = rng.choice(pairs)
        if rng.random() < self.mixture.negative:
            a, b = rng.choice(((-a, b), (a, -b), (-a, -b)))
        return operator, a, b

    def _pair(self, rng: random.Random) -> tuple[int, int]:
        """Operands of equal length in half of the cases, of independent lengths in the others."""
        digits = rng.randint(1, self.max_digits)
        other = digits if rng.random() < 0.5 else rng.randint(1, self.max_digits)
        return _number(digits, rng), _number(other, rng)

    def _exact_division(self, rng: random.Random) -> tuple[int, int]:
        """An exact division from one of two distributions; for a rounding division one in five leaves a remainder."""
        draw = rng.random()
        if self.division != "exact" and draw < 0.2:
            return self._with_remainder(rng)
        digits = rng.randint(1, self.max_digits)
        low, high = 10 ** (digits - 1), 10**digits  # the dividend is in low..high-1
        if rng.random() < 0.5:
            dividend = rng.randrange(low, high)
            return dividend, random_divisor(dividend, rng)
        divisor = _positive(rng.randint(1, digits), rng)
        if draw > 0.96:
            return 0, divisor
        return divisor * rng.randint(-(-low // divisor), (high - 1) // divisor), divisor

    def _with_remainder(self, rng: random.Random) -> tuple[int, int]:
        """A division that leaves a remainder; also one whose quotient is below one."""
        while True:
            a, b = self._pair(rng)
            if b and a % b:
                return a, b

    def _too_long(self, rng: random.Random) -> int:
        """A length that cannot be read."""
        return self.num_digits + rng.randint(1, 3)

    def _overflowing_operations(self) -> list[str]:
        """Operations in which readable operands can give a result that is longer than R digits."""
        possible = {"+": self.num_digits >= self.result_digits, "*": 2 * self.num_digits >= self.result_digits + 2}
        return [symbol for symbol in self.operations if possible.get(symbol)]

    def _long_result(self, rng: random.Random) -> tuple[str, int, int]:
        """Operands that can be read, with a result that is too long."""
        longest, result = self.num_digits, self.result_digits
        operator = rng.choice(self._overflowing_operations())
        if operator == "+":  # both at least half of 10^D, so the sum has D + 1 digits
            half = 5 * 10 ** (longest - 1)
            return operator, rng.randrange(half, 2 * half), rng.randrange(half, 2 * half)
        first = rng.randint(max(1, result + 2 - longest), longest)
        second = rng.randint(
            max(1, result + 2 - first), longest
        )  # at least R + 2 digits together: R + 1 in the product
        return operator, _positive(first, rng), _positive(second, rng)

    def _phrase(self, operator: str, a: int, b: int, kind: str, rng: random.Random) -> str:
        """The calculation in words."""
        if kind == "ordinary" and rng.random() < self.mixture.bigbench and operator in BIGBENCH:
            return BIGBENCH[operator].format(a=a, b=b)
        countable = a >= 0 and b >= 0 and (operator != "-" or a >= b)
        phrasings = self._phrasings if countable else self._formal
        return rng.choice(phrasings[operator]).format(a=a, b=b, name=rng.choice(NAMES), thing=rng.choice(THINGS))

    def _finish(
        self,
        rng: random.Random,
        prompt: str,
        completion: str,
        operator: str,
        operands: list[str] | None,
        result: str | None,
    ) -> Row:
        """The row, with a system prompt now and then."""
        system = rng.choice(SYSTEM) if self.conversational and rng.random() < self.mixture.system else None
        return self._made(prompt, completion, system, operator, operands, result)

    def _made(
        self,
        prompt: str,
        completion: str,
        system: str | None,
        operator: str,
        operands: list[str] | None,
        result: str | None,
    ) -> Row:
        """The row in its format."""
        columns = {"igc_operator": operator, "igc_operands": operands, "igc_result": result}
        if not self.conversational:
            return {"prompt": prompt, "completion": f" {completion}", **columns}
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        return {"prompt": messages, "completion": [{"role": "assistant", "content": completion}], **columns}


def _number(digits: int, rng: random.Random) -> int:
    """A number with exactly so many digits; one digit may be zero."""
    return rng.randrange(10) if digits == 1 else _positive(digits, rng)


def _positive(digits: int, rng: random.Random) -> int:
    """A positive number with exactly so many digits."""
    return rng.randrange(10 ** (digits - 1), 10**digits)


def _plain_text(rng: random.Random, max_digits: int) -> tuple[str, str]:
    """A prompt that asks for no calculation, and its completion."""
    a, b, c = (_number(rng.randint(1, max_digits), rng) for _ in range(3))
    words = rng.choices(WORDS, k=rng.randint(2, 6))
    name, other = rng.sample(NAMES, 2)
    day, month, year = rng.randint(1, 28), rng.choice(MONTHS), rng.randint(1900, 2099)
    values = {
        "a": a, "b": b, "c": c, "d": rng.randrange(10), "low": min(a, b), "high": max(a, b),
        "spaced": " ".join(str(a)), "first": str(a)[0], "last": str(a)[-1],
        "words": " ".join(words), "word": words[0], "count": len(words),
        "date": f"{day} {month} {year}", "day": day, "month": month, "year": year,
        "name": name, "other": other, "thing": rng.choice(THINGS), "city": rng.choice(CITIES),
    }  # fmt: skip
    prompt, completion = rng.choice(PLAIN)
    return prompt.format(**values), completion.format(**values)


def _calculations(items: Iterable[Mapping[str, Any]]) -> frozenset[tuple[int, str, int]]:
    """(first operand, operator, second operand) of the items, without those in which both have one digit."""
    found = set()
    for index, item in enumerate(items):
        if item.get("igc_operator") == NO_ARITHMETIC:
            continue
        if item.get("igc_operator") is not None:
            (first, second), operator = item["igc_operands"], item["igc_operator"]
        elif (question := parse_question(str(item.get("prompt")))) is not None:
            first, operator, second = question
        else:
            raise ValueError(
                f"`exclude`, item {index}: no calculation can be told from {item.get('prompt')!r}. Give it "
                "`igc_operator` and `igc_operands`, or leave it out."
            )
        a, b = int(first), int(second)
        if max(abs(a), abs(b)) > 9:
            found.add((a, operator, b))
    return frozenset(found)
