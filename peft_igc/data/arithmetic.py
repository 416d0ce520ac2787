"""Training rows: an endless, seeded stream of arithmetic with operand columns.

`ArithmeticRows` yields rows `{"prompt", "completion", "igc_operator", "igc_operands", "igc_result"}`: calculations,
texts that ask for none (`"none"`), and calculations that must be refused, in the fractions of a `Mixture`. Expressions
of more than two numbers have `igc_expression` instead of operands.
"""

import hashlib
import itertools
import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from fractions import Fraction
from typing import Any

from ..numbers.calculator import NO_ARITHMETIC
from ..text.pieces import CONTROL
from ..text.reading import read
from ..text.values import Limits, Value, spelled
from .bigbench import parse_question
from .columns import EXPRESSION_COLUMN, columns_of, has_number
from .dataset import in_turn
from .exact_values import EXPRESSION, STATUSES, NotAnExpression, StepLabel, label_expression
from .mixture import Mixture, happens
from .operands import Operands
from .wording import handwritten, symbol_expressions
from .wording.drawing import surround
from .wording.phrases import OPERATOR_WORDS, UNABLE, casual, with_places
from .wording.wording import FEW, Wording, in_sentences


Row = dict[str, Any]
_Made = tuple[str, str | None, Row]  # prompt, completion and columns; without a completion it is the result

# Shares of the kinds of expressions; those of two integers are read by the network, too. With decimals they have a
# result more often.
_KINDS = {"two": 0.4, "chain": 0.16, "brackets": 0.13, "power": 0.1, "decimals": 0.09, "percent": 0.07, "money": 0.05}
_WITH_DECIMALS = _KINDS | {"two": 0.3, "decimals": 0.18, "quotient": 0.1, "percent": 0.1, "money": 0.08}
_REFUSED = 0.05  # share of the drawn expressions without a value that are kept, to be refused
# Where rules may read an expression; a call such as `min(3, 5)` only at the beginning of a sentence.
_DECIMAL = re.compile(r"[0-9]\.[0-9]")
_SYMBOLS = re.compile(r"[-+*/^×÷·\u2212]|[0-9] x |% of|(?:^|[.!?:,\n]\s*)=?[A-Za-z]+\(")

_TERSE = re.compile(r"only|with a number|explanation|brief|short")  # such a text asks for the bare number
_REPEATS = 10_000  # consecutive repeated rows after which a stream of distinct rows counts as exhausted


def conversation(prompt: str, completion: str | None, columns: Row) -> Row:
    """A conversational row; without a completion it is the result, or a fixed sentence where there is no number."""
    result = columns["igc_result"]
    completion = completion or (result if has_number(result) else UNABLE)
    messages = {"prompt": [{"role": "user", "content": prompt}]}
    return {**messages, "completion": [{"role": "assistant", "content": completion}], **columns}


@dataclass(eq=False)
class ArithmeticRows:
    """An endless stream of training rows; equal arguments give equal rows, on every machine and in every iteration.

    Rows whose status is not ok have a fixed sentence as their completion. It trains nothing of the adapter: for such
    a row the write is exactly zero, so no gradient of the language-model loss reaches the adapter. The same holds for
    the completions of `"none"`. A LoRA that is trained with the adapter does learn these completions; set the
    fractions to 0 to avoid that.

    Args:
        seed: Seed of the stream.
        max_digits: Length of the longest ordinary operand; at most D, the length of the longest that is read.
        num_digits: D, without `limits`.
        limits: Of the numbers, the operations and the results, as `Limits.of(config)`; each operation is drawn equally
            often. Results of more digits are labelled as overflow, and half of the rows with an overflow have such
            results. With more than two operands, arithmetic of the kind `unsupported` that is read by rule has its
            expression and its value; else all of it is labelled `"none"`. Without decimals hardly any are drawn, and
            they are labelled as inexact. If divisions are rounded to integers, a fifth of them leave a remainder.
            None: two integers of `num_digits` digits, and results as long as these are.
        mixture: Fractions of the kinds of rows. None: those of `Mixture()`.
        exclude: Test items whose (first operand, operator, second operand) must not occur. Items with two one-digit
            operands are exempt: those subtasks contain all pairs.
        conversational: Prompts and completions are messages for a chat template, or else plain strings (the
            completion with a leading space).
        wording: Draws the texts: `wording.FEW` or `wording.TRAINING`.
        distinct: Skip rows whose prompt has occurred before. The stream then stores eight bytes per row.
        avoid: Skip rows whose prompt contains one of these texts, such as the `Q:` and `A:` that begin the turns of a
            completion model, where a message would begin anew or a calculator would be asked twice.

    Raises:
        ValueError: Lengths that do not fit, an operation or a fraction that the wording has no texts for, an item to
            exclude that has no calculation.
    """

    seed: int = 0
    _: KW_ONLY
    max_digits: int = 5
    num_digits: InitVar[int] = 10
    limits: Limits = None  # type: ignore[assignment]
    mixture: Mixture = None  # type: ignore[assignment]
    exclude: InitVar[Iterable[Mapping[str, Any]]] = ()
    conversational: bool = True
    wording: Wording = FEW
    distinct: bool = False
    avoid: Collection[str] = ()

    def __post_init__(self, num_digits: int, exclude: Iterable[Mapping[str, Any]]) -> None:
        may_have_long_results = self.limits is not None
        self.limits = self.limits or Limits(num_digits, num_digits, 2, decimals=False)
        self.mixture = self.mixture or Mixture()
        if not 1 <= self.max_digits <= self.limits.digits:
            raise ValueError(
                f"`max_digits={self.max_digits}` must be in 1..`num_digits={self.limits.digits}`. Use "
                "`Mixture(overflow=...)` for longer operands."
            )
        if not set() < set(self.limits.operations) <= set(OPERATOR_WORDS):
            raise ValueError(
                f"`operations={self.limits.operations}` must be some of `+`, `-`, `*` and `/`, for which there are "
                "texts. Functions have rows of their own (`data.functions`)."
            )
        if unused := [name for name in self.wording.lacks if getattr(self.mixture, name)]:
            raise ValueError(
                f"`Mixture({unused[0]}=...)` has no effect on this wording: pass `wording=TRAINING` of "
                "`peft_igc.data.wording`, or set it to 0."
            )
        if not self.limits.decimal_operands:
            self.mixture = replace(self.mixture, decimals=0.0)
        self.operands = Operands(self.max_digits, self.limits, self.mixture, _calculations(exclude))
        self._kinds, self._limits = self._shares(may_have_long_results)
        read_by_rule = self.mixture.expressions + self.mixture.unsupported + self.mixture.by_hand
        self.has_expressions = self.limits.operands > 2 and read_by_rule > 0  # in the column `igc_expression`

    def _shares(self, refuse_results: bool) -> tuple[list[str], list[float]]:
        """The kinds of rows, and their cumulative fractions."""
        mixture, divides = self.mixture, "/" in self.limits.operations
        long_results = mixture.overflow / 2 if refuse_results and self.operands.overflowing() else 0.0
        parts = {
            "none": mixture.none,
            "long result": long_results,
            "long operand": mixture.overflow - long_results,
            "undefined": mixture.undefined if divides else 0.0,
            "inexact": mixture.inexact if divides and self.limits.rounding.division == "exact" else 0.0,
            "unsupported": mixture.unsupported,
            "expression": mixture.expressions if set("+-*/") <= set(self.limits.operations) else 0.0,
            "look-alike": mixture.look_alikes,
            "by hand": mixture.by_hand,
        }
        return [*parts, "ordinary"], [*itertools.accumulate(parts.values()), 1.0]

    def __iter__(self) -> Iterator[Row]:
        rng, seen, repeats = random.Random(f"ArithmeticRows/{self.seed}"), set[bytes](), 0
        by_hand = in_turn(self.wording.texts if self.mixture.by_hand else (), rng)
        while repeats < _REPEATS:
            row = self._row(rng, by_hand)
            prompt = row["prompt"]
            texts = [prompt] if isinstance(prompt, str) else [message["content"] for message in prompt]
            is_left_out = any(one in text for one in self.avoid for text in texts)
            if self.distinct and not is_left_out:
                key = hashlib.blake2b(repr(prompt).encode(), digest_size=8).digest()
                is_left_out = key in seen
                seen.add(key)
            repeats = repeats + 1 if is_left_out else 0
            if not is_left_out:
                yield row
        raise ValueError(
            f"No row is left after {len(seen):,}: the last {_REPEATS:,} were repeats or contained `avoid`. Take "
            "fewer, raise `max_digits`, or avoid longer texts."
        )

    def take(self, n: int) -> list[Row]:
        """The first `n` rows of the stream."""
        return list(itertools.islice(self, n))

    def _row(self, rng: random.Random, by_hand: Iterator[handwritten.Handwritten]) -> Row:
        (kind,) = rng.choices(self._kinds, cum_weights=self._limits)
        system = self._system(rng) if self.wording.surrounds else None
        if kind == "expression":
            prompt, completion, columns = self._expression(rng)
        elif kind == "by hand":
            prompt, completion, columns = self._by_hand(by_hand, rng)
        elif kind in ("none", "unsupported", "look-alike"):
            prompt, completion, columns = self._silent(kind, rng)
        else:
            prompt, completion, columns = self._request(kind, system, rng)
        if not self.has_expressions:
            columns.pop(EXPRESSION_COLUMN, None)
        elif columns.setdefault(EXPRESSION_COLUMN, None) is not None and system is not None:
            system = None if self._read(prompt, system) is None else system  # its numbers may refuse the expression
        if not self.wording.surrounds:
            system = self._system(rng)
        row = conversation(prompt, completion, columns)
        if not self.conversational:
            return row | {"prompt": prompt, "completion": f" {row['completion'][0]['content']}"}
        if system is not None:
            row["prompt"].insert(0, {"role": "system", "content": system})
        return row

    def _request(self, kind: str, system: str | None, rng: random.Random) -> _Made:
        mixture, wording = self.mixture, self.wording
        operator, *numbers = self.operands.draw(kind, rng)
        a, b = with_places([*map(str, numbers)], mixture.decimals if kind == "ordinary" else 0.0, rng)
        columns = columns_of(operator, (a, b), self.limits)
        bigbench = kind == "ordinary" and rng.random() < mixture.bigbench
        text = wording.request(operator, a, b, rng, mixture, bigbench)
        around = self._around(text.text, rng, typed=not bigbench)
        in_sentence = has_number(columns["igc_result"]) and wording.surrounds and rng.random() < mixture.sentences
        if not in_sentence or not around.endswith((".", "?", "!")) or _TERSE.search(f"{system}{around}"):
            return around, None, columns
        text = text._replace(text=around)
        return *in_sentences(text, operator, a, b, columns["igc_result"], rng), columns

    def _silent(self, kind: str, rng: random.Random) -> _Made:
        """A row that asks for no calculation, or for an unsupported one."""
        wording, mixture = self.wording, self.mixture
        numbers = [str(self.operands.short(rng)) for _ in range(0 if kind == "look-alike" else wording.numbers)]
        if kind == "look-alike":
            text = wording.look_alike(rng)
        elif kind == "none":
            text = wording.plain_text(numbers, rng, mixture)
        else:
            text = wording.unsupported_request(with_places(numbers, mixture.decimals, rng), rng, mixture)
            while self.limits.decimal_operands and text.kind == "decimals" and _DECIMAL.search(text.text):
                text = wording.unsupported_request(with_places(numbers, mixture.decimals, rng), rng, mixture)
        around = self._around(text.text, rng, typed=text.kind != "copying")  # what is copied stays as it is
        return self._unasked(around, text.completion, reads=kind == "unsupported")

    def _unasked(self, prompt: str, completion: str, reads: bool) -> _Made:
        """A row of a text that asks for no pair; `reads`: unless rules read an expression there."""
        read = self._read(prompt) if reads and self.limits.operands > 2 else None
        if read is not None and read.operator == EXPRESSION:  # of a pair, the network decides whether it is asked for
            return prompt, self._as_asked(prompt), read.columns
        return prompt, completion, columns_of(NO_ARITHMETIC, (), self.limits)

    def _by_hand(self, texts: Iterator[handwritten.Handwritten], rng: random.Random) -> _Made:
        while True:
            text, operator, operands = handwritten.draw(next(texts), rng, self.mixture, self.operands.longest(rng))
            if operands is None:
                return self._unasked(self._around(text, rng), UNABLE, reads=True)
            if operator in self.limits.operations and self.operands.allows(operator, operands):
                return self._around(text, rng), None, columns_of(operator, operands, self.limits)

    def _around(self, text: str, rng: random.Random, typed: bool = True) -> str:
        """A text as it is typed, and in a fraction of the rows with other text around it."""
        text = casual(text, rng) if typed and happens(self.mixture.casual, rng) else text
        if self.wording.surrounds and rng.random() < self.mixture.contexts:
            return surround(text, self.wording.held_out, rng)
        return text

    def _read(self, prompt: str, system: str = "") -> StepLabel | None:
        """The expression that rules read in a prompt, and what it gives; None without one."""
        if not _SYMBOLS.search(prompt):  # most prompts, and a search is a thousand times as fast
            return None
        text = f"{CONTROL}{system}{CONTROL}{prompt}{CONTROL}{CONTROL}" if self.conversational else prompt
        found = read(text, self.limits)
        if not isinstance(found, Value) and not (found.ruled and found.reason in STATUSES):
            return None
        try:
            return label_expression(spelled(found.items), self.limits)
        except NotAnExpression:  # a value that no column has, such as a percentage
            return None

    def _expression(self, rng: random.Random) -> _Made:
        if happens(self.mixture.rounded, rng):
            return self._rounded(rng)
        kinds = _WITH_DECIMALS if self.limits.decimals else _KINDS
        if self.limits.operands == 2:
            kinds = {"two": 1.0}
        while True:
            kind = rng.choices(tuple(kinds), tuple(kinds.values()))[0]
            shown, expression = symbol_expressions.draw(kind, self.operands.max_digits, rng)
            try:
                step = label_expression(expression, self.limits)
            except NotAnExpression:  # too many numbers
                continue
            if step.result is None and rng.random() >= _REFUSED:
                continue
            if step.operands and not self.operands.allows(str(step.operator), step.operands):
                continue
            prompt = self.wording.expression(shown, rng)
            prompt = casual(prompt, rng) if happens(self.mixture.casual, rng) else prompt
            around = self._around(prompt, rng, typed=False)
            if step.operands and kind == "two":  # the network reads it, whatever is around it
                return around, None, step.columns
            # A number in the text around it may refuse an expression, and so may a frame; the bare one is read.
            for text in dict.fromkeys((around, prompt, shown)):
                read = self._read(text)
                if read is not None and (read.result, read.status) == (step.result, step.status):
                    return text, None, step.columns

    def _rounded(self, rng: random.Random) -> _Made:
        """A row with a quotient whose rounding is asked in words, which the network reads as without them."""
        while True:
            shown, operands = symbol_expressions.draw_rounded(self.operands.max_digits, rng)
            prompt = self.wording.expression(shown, rng)
            if (completion := self._as_asked(prompt)) is not None:
                return prompt, completion, columns_of("/", operands, self.limits)

    def _as_asked(self, prompt: str) -> str | None:
        """The value of an expression rounded as its prompt asks, which its columns do not say; None if it does not."""
        found = read(f"{CONTROL}{prompt}{CONTROL}{CONTROL}", self.limits)
        return found.text if isinstance(found, Value) and found.rounded else None

    def _system(self, rng: random.Random) -> str | None:
        """A system prompt, in a fraction of the conversational rows."""
        return self.wording.system(rng) if self.conversational and rng.random() < self.mixture.system else None


def _calculations(items: Iterable[Mapping[str, Any]]) -> frozenset[tuple[Fraction, str, Fraction]]:
    """(first operand, operator, second operand) of the items, without those in which both have one digit."""
    found = set()
    for index, item in enumerate(items):
        if item.get("igc_operator") in (NO_ARITHMETIC, EXPRESSION):
            continue
        if item.get("igc_operator") is not None:
            (first, second), operator = item["igc_operands"], item["igc_operator"]
        elif (question := parse_question(str(item.get("prompt")))) is not None:
            first, operator, second = question
        else:
            raise ValueError(
                f"`exclude`, item {index}: no calculation found in {item.get('prompt')!r}. Give it "
                "`igc_operator` and `igc_operands`, or leave it out."
            )
        a, b = Fraction(first), Fraction(second)
        if max(abs(a), abs(b)) > 9:
            found.add((a, operator, b))
    return frozenset(found)
