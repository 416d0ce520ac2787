"""Training rows: an endless, seeded stream of arithmetic with operand columns.

`ArithmeticRows` yields rows `{"prompt", "completion", "igc_operator", "igc_operands", "igc_result"}`: calculations,
texts that ask for none (`"none"`), and calculations that must be refused, in the fractions of a `Mixture`. Expressions
of more than two numbers have `igc_expression` instead of operands. Operands come from `operands`, the texts
from a wording, either the few templates of `templates.FEW` or the hundreds of `wording.TRAINING`. No tokenizer,
no dataset library (`dataset`), no row with several anchors (`chats`).
Try it: `python -c "from peft_igc.data import ArithmeticRows; print(ArithmeticRows().take(3))"`.
"""

import hashlib
import itertools
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..numbers.calculator import NO_ARITHMETIC, Status
from ..text.pieces import CONTROL
from ..text.rounding import Rounding
from ..text.values import Limits
from .bigbench import parse_question
from .columns import EXPRESSION, EXPRESSION_COLUMN, label
from .exact_values import NotAnExpression, Worked, expression_in, work_out, written
from .mixture import Mixture
from .operands import Operands
from .wording import handwritten, symbol_expressions
from .wording.phrases import UNABLE
from .wording.templates import FEW, Templates
from .wording.wording import Wording, answer, cue


__all__ = ["ArithmeticRows", "Row"]

Row = dict[str, Any]

# Shares of the kinds of expressions; those of two integers are read by the network, too. With decimals they have a
# result more often.
_KINDS = {"two": 0.4, "chain": 0.16, "brackets": 0.13, "power": 0.1, "decimals": 0.09, "percent": 0.07, "money": 0.05}
_WITH_DECIMALS = _KINDS | {"two": 0.3, "decimals": 0.18, "quotient": 0.1, "percent": 0.1, "money": 0.08}
_REFUSED = 0.05  # share of the drawn expressions without a value that are kept, to be refused
_LONGEST = 20  # digits of the long numbers in texts by many hands
_SYMBOLS = re.compile(r"[-+*/^×÷·\u2212]|[0-9] x |% of")
_SILENT = ("none", "unsupported", "look-alike")

_REPEATS = 10_000  # consecutive repeated rows after which a stream of distinct rows counts as exhausted


class ArithmeticRows:
    """An endless stream of training rows; equal arguments give equal rows, on every machine and in every iteration.

    Rows whose status is not ok have a fixed sentence as their completion. It trains nothing of the adapter: for such
    a row the write is exactly zero, so no gradient of the language-model loss reaches the adapter. The same holds for
    the completions of `"none"`. A LoRA that is trained with the adapter does learn these completions; set the
    fractions to 0 to avoid that.

    Args:
        seed: Seed of the stream.
        max_digits: Length of the longest ordinary operand; at most `num_digits`.
        num_digits: D, the length of the longest operand that the adapter reads.
        result_digits: R, the length of the longest result that it writes; longer ones are labelled as overflow. None:
            `num_digits`.
        operations: Symbols, each drawn equally often.
        rounding: As in `IGCConfig`; with `"floor"` and `"trunc"` a fifth of the divisions leave a remainder.
        mixture: Fractions of the kinds of rows.
        exclude: Test items whose (first operand, operator, second operand) must not occur. Items with two one-digit
            operands are exempt: those subtasks contain all pairs.
        conversational: Prompts and completions are messages for a chat template, or else plain strings (the
            completion with a leading space).
        wording: Draws the texts: `templates.FEW`, a `Templates` of your own, or `wording.TRAINING`.
        distinct: Skip rows whose prompt has occurred before. The stream then stores eight bytes per row.
        max_operands: Numbers of an expression that the adapter reads by rule, as in `IGCConfig` with the token
            interface. Arithmetic of the kind `unsupported` that is read so has its expression and its value. 2: none
            is, and all of it is labelled `"none"`.
        decimals: Whether results with decimal places are written, as in `IGCConfig`. Without it hardly any are drawn,
            and they are labelled as inexact.

    Raises:
        ValueError: Lengths that do not fit, an operation or a fraction that the wording has no texts for, an item to
            exclude that has no calculation.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        max_digits: int = 5,
        num_digits: int = 10,
        result_digits: int | None = None,
        operations: Sequence[str] = ("+", "-", "*", "/"),
        rounding: str = "refuse",
        mixture: Mixture | None = None,
        exclude: Iterable[Mapping[str, Any]] = (),
        conversational: bool = True,
        wording: Wording | Templates = FEW,
        distinct: bool = False,
        max_operands: int = 2,
        decimals: bool = False,
    ) -> None:
        mixture = mixture or Mixture()
        if not 1 <= max_digits <= num_digits:
            raise ValueError(
                f"`max_digits={max_digits}` must be in 1..`num_digits={num_digits}`. Use `Mixture(overflow=...)` for "
                "longer operands."
            )
        if not operations:
            raise ValueError("`operations` is empty: name at least one symbol.")
        if missing := [symbol for symbol in operations if symbol not in wording.operations]:
            raise ValueError(
                f"The wording has no phrasings for {missing}: pass "
                f"`wording=Templates({{{missing[0]!r}: [...], ...}})` of `peft_igc.data.wording`."
            )
        if unused := [name for name in wording.lacks if getattr(mixture, name)]:
            raise ValueError(
                f"`Mixture({unused[0]}=...)` has no effect on this wording: pass `wording=TRAINING` of "
                "`peft_igc.data.wording`, or set it to 0."
            )
        self.seed, self.mixture, self.wording, self.distinct = seed, mixture, wording, distinct
        self.conversational = conversational
        self.num_digits, self.max_operands = num_digits, max_operands
        self.result_digits = num_digits if result_digits is None else result_digits
        self.operations = tuple(operations)
        rounds = Rounding.of(rounding)
        self.limits = Limits(num_digits, self.result_digits, max_operands, self.operations, decimals, rounds)
        self.excluded = _calculations(exclude)
        self.operands = Operands(max_digits, self.limits, mixture, self.excluded)
        self._kinds = self._thresholds(result_digits is not None)

    @property
    def has_expressions(self) -> bool:
        """Whether rows have the column `igc_expression`."""
        mixture = self.mixture
        return self.max_operands > 2 and mixture.expressions + mixture.unsupported + mixture.by_hand > 0

    def _thresholds(self, refuse_results: bool) -> list[tuple[float, str]]:
        """Cumulative fractions of the kinds of rows that are not ordinary arithmetic."""
        mixture, divides = self.mixture, "/" in self.operations
        long_results = mixture.overflow / 2 if refuse_results and self.operands.overflowing() else 0.0
        parts = {
            "none": mixture.none,
            "long result": long_results,
            "long operand": mixture.overflow - long_results,
            "undefined": mixture.undefined if divides else 0.0,
            "inexact": mixture.inexact if divides and self.limits.rounding.division == "exact" else 0.0,
            "unsupported": mixture.unsupported,
            "expression": mixture.expressions if set("+-*/") <= set(self.operations) else 0.0,
            "look-alike": mixture.look_alikes,
            "by hand": mixture.by_hand,
        }
        return list(zip(itertools.accumulate(parts.values()), parts, strict=True))

    def __iter__(self) -> Iterator[Row]:
        rng = random.Random(f"ArithmeticRows/{self.seed}")
        if not self.distinct:
            while True:
                yield self._row(rng)
        seen: set[bytes] = set()
        while True:
            for _ in range(_REPEATS):
                row = self._row(rng)
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
        wording, draw = self.wording, rng.random()
        kind = next((kind for limit, kind in self._kinds if draw < limit), "ordinary")
        system = self._system(wording, rng) if wording.system_first else None
        if kind == "expression" and isinstance(wording, Wording):
            prompt, completion, columns = self._expression(wording, rng)
        elif kind == "by hand" and isinstance(wording, Wording):
            prompt, completion, columns = self._by_hand(wording, rng)
        elif kind in _SILENT:
            prompt, completion, columns = self._silent(kind, wording, rng)
        else:
            prompt, completion, columns = self._request(kind, wording, system, rng)
        if self.has_expressions and columns.setdefault(EXPRESSION_COLUMN, None) is not None and system is not None:
            system = None if self._read(prompt, system) is None else system  # its numbers may refuse the expression
        if not wording.system_first:
            system = self._system(wording, rng)
        if not self.conversational:
            return {"prompt": prompt, "completion": f" {completion}", **columns}
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        return {"prompt": messages, "completion": [{"role": "assistant", "content": completion}], **columns}

    def _request(
        self, kind: str, wording: Wording | Templates, system: str | None, rng: random.Random
    ) -> tuple[str, str, Row]:
        """Prompt, completion and columns of a row that asks for a calculation."""
        mixture = self.mixture
        operator, first, second = self.operands.draw(kind, rng)
        a, b = str(first), str(second)
        result = label(operator, a, b, self.limits)
        bigbench = kind == "ordinary" and rng.random() < mixture.bigbench
        text = wording.request(operator, a, b, rng, mixture, bigbench)
        typed = text.text if bigbench else wording.typed(text.text, rng, mixture)
        around = wording.in_context(typed, rng, mixture)
        if isinstance(result, Status):
            completion, result = UNABLE, result.name.lower()
        else:
            completion = result
            if wording.in_sentence(around, system, rng, mixture):
                around = cue(around, rng)
                completion = answer(operator, a, b, result, text.thing, rng)
        return around, completion, {"igc_operator": operator, "igc_operands": [a, b], "igc_result": result}

    def _silent(self, kind: str, wording: Wording | Templates, rng: random.Random) -> tuple[str, str, Row]:
        """Prompt, completion and columns of a row that asks for no calculation, or for an unsupported one."""
        if kind == "look-alike" and isinstance(wording, Wording):
            text = wording.look_alike(rng)
        else:
            text = wording.without_calculation(kind, lambda: str(self.operands.short(rng)), rng, self.mixture)
        # What is to be copied stays as it is.
        typed = text.text if text.kind == "copying" else wording.typed(text.text, rng, self.mixture)
        around = wording.in_context(typed, rng, self.mixture)
        return around, *self._unasked(around, text.completion, reads=kind == "unsupported")

    def _unasked(self, prompt: str, completion: str, reads: bool) -> tuple[str, Row]:
        """Completion and columns of a text that asks for no pair; `reads`: unless rules read an expression there."""
        if reads and self.max_operands > 2:
            read = self._read(prompt)
            if read is not None and read[1].pair is None:  # of a pair, the network decides whether it is asked for
                return self._columns(*read)
        return completion, {"igc_operator": NO_ARITHMETIC, "igc_operands": None, "igc_result": None}

    def _by_hand(self, wording: Wording, rng: random.Random) -> tuple[str, str, Row]:
        """Prompt, completion and columns of a row with a text from a file."""
        mixture = self.mixture
        numbers: dict[str, Any] = {"separators": mixture.separators, "spelled_signs": mixture.spelled_signs}
        numbers |= {"max_digits": self.operands.max_digits, "longest": min(_LONGEST, self.num_digits)}
        while True:
            text = handwritten.draw(wording.texts, rng, **numbers)
            operands = text.operands
            if operands is None:
                around = wording.in_context(wording.typed(text.text, rng, mixture), rng, mixture)
                return around, *self._unasked(around, UNABLE, reads=True)
            a, b = operands
            if text.operator in self.operations and (int(a), text.operator, int(b)) not in self.excluded:
                break
        result = label(text.operator, a, b, self.limits)
        shown = result.name.lower() if isinstance(result, Status) else result
        around = wording.in_context(wording.typed(text.text, rng, mixture), rng, mixture)
        columns = {"igc_operator": text.operator, "igc_operands": [a, b], "igc_result": shown}
        return around, UNABLE if isinstance(result, Status) else result, columns

    def _read(self, prompt: str, system: str = "") -> tuple[str, Worked] | None:
        """The expression that rules read in a prompt, and what it gives; None without one."""
        if not _SYMBOLS.search(prompt):  # most prompts, and a search is a thousand times as fast
            return None
        text = f"{CONTROL}{system}{CONTROL}{prompt}{CONTROL}{CONTROL}" if self.conversational else prompt
        expression = expression_in(text, self.limits)
        try:
            return None if expression is None else (expression, work_out(expression, self.limits))
        except NotAnExpression:
            return None

    def _columns(self, expression: str, worked: Worked) -> tuple[str, Row]:
        """Completion and columns of a row with an expression that was worked out."""
        result = worked.status.name.lower() if worked.value is None else written(worked.value)
        columns: Row = {"igc_operator": EXPRESSION, "igc_operands": None, "igc_result": result}
        if worked.pair is not None:
            operator, *operands = worked.pair
            columns = {"igc_operator": operator, "igc_operands": operands, "igc_result": result}
        if self.has_expressions:
            columns[EXPRESSION_COLUMN] = expression
        return UNABLE if worked.value is None else result, columns

    def _expression(self, wording: Wording, rng: random.Random) -> tuple[str, str, Row]:
        """Prompt, completion and columns of a row with an expression in symbols."""
        kinds = _WITH_DECIMALS if self.limits.decimals else _KINDS
        if self.max_operands == 2:
            kinds = {"two": 1.0}
        while True:
            kind = rng.choices(tuple(kinds), tuple(kinds.values()))[0]
            drawn = symbol_expressions.draw(kind, self.operands.max_digits, rng)
            try:
                worked = work_out(drawn.expression, self.limits)
            except NotAnExpression:  # too many numbers
                continue
            if worked.value is None and rng.random() >= _REFUSED:
                continue
            pair = worked.pair
            if pair is not None and (int(pair[1]), pair[0], int(pair[2])) in self.excluded:
                continue
            prompt = wording.typed(wording.expression(drawn.text, rng), rng, self.mixture)
            around = wording.in_context(prompt, rng, self.mixture)
            if pair is not None and kind == "two":  # the network reads it, whatever is around it
                return around, *self._columns(drawn.expression, worked)
            # A number in the text around it may refuse an expression, and so may a frame; the bare one is read.
            for text in dict.fromkeys((around, prompt, drawn.text)):
                read = self._read(text)
                if read is not None and (read[1].value, read[1].status) == (worked.value, worked.status):
                    return text, *self._columns(drawn.expression, worked)

    def _system(self, wording: Wording | Templates, rng: random.Random) -> str | None:
        """A system prompt, in a fraction of the conversational rows."""
        return wording.system(rng) if self.conversational and rng.random() < self.mixture.system else None


def _calculations(items: Iterable[Mapping[str, Any]]) -> frozenset[tuple[int, str, int]]:
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
        a, b = int(first), int(second)
        if max(abs(a), abs(b)) > 9:
            found.add((a, operator, b))
    return frozenset(found)
