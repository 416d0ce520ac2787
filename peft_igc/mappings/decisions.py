"""Decides each step on the host: what its text says in symbols, what the network reads in it, and what that is worth.

In: the texts of the steps and, where the network is asked, the integers of its reading. Out: a `Decision` for each
step, and results as tensors.

* An expression in symbols that ends at the anchor, or is the whole message, is read by rule; so is the refusal of one.
* If it is among words, the network decides whether it is asked for.
* Everything else is the network's: numbers and an operation. `text.requests` calculates, and has the only vetoes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..numbers.calculator import Result, Status
from ..numbers.digits import classes
from ..text.operations import FUNCTIONS, takes
from ..text.pieces import CONTROL, words
from ..text.pieces import kind_of as kind_of_piece
from ..text.reading import read
from ..text.requests import Stated, answer
from ..text.values import Limits, Reason, Refusal, Span, Value, written
from ..text.vocabulary import EMBEDDED, PADDING, UNSEEN, Vocabulary
from .places import Run, StepTexts
from .readings import SCALE, Mark


# Kinds of operations: symbols between two numbers; functions of one or two numbers; and those of a set of numbers.
ARITHMETIC, GIVEN, LISTS = KINDS = ("arithmetic", "functions", "lists")
LEAST_ASKED = 0.5  # probability below which nothing is written, whatever `confidence` is
STATED_ODDS = 2.0  # of the odds that a calculation is asked, where the text states the operation that is read
_DASHES = ("-", "\u2212", "－")
_NOWHERE = (-1, -1)
_UNDEFINED = (Reason.UNDEFINED, Reason.NO_VALUE, Reason.FAILED, Reason.NOT_RATIONAL, Reason.TIMED_OUT)
_STATUSES = dict.fromkeys(_UNDEFINED, Status.UNDEFINED) | {Reason.INEXACT: Status.INEXACT}
_STATUSES |= dict.fromkeys((Reason.TOO_LONG, Reason.OVERFLOW), Status.OVERFLOW)


class Said(NamedTuple):
    """What one text says in symbols, and where."""

    found: Value | Refusal  # of `text.read`
    text: str  # the characters that were read
    begin: int  # the first token that was read
    ends: list[int]  # characters up to the end of each token from `begin` on

    @property
    def ruled(self) -> bool:
        """Whether the text says one expression, so that its value, or the refusal of it, is the result."""
        return isinstance(self.found, Value) or self.found.ruled

    @property
    def is_final(self) -> bool:
        """Whether no network is asked: an expression ends at an equals sign, or the message is nothing else."""
        found = self.found
        if found.reaches:
            return True
        if isinstance(found, Value):
            return found.alone and not found.alike
        return found.reason is not Reason.NO_EXPRESSION and not found.ruled and self._has_no_words()

    @property
    def value(self) -> str | None:
        """The value in canonical form, `0.17` of `17%`; None if there is none."""
        return written(self.found.value) if isinstance(self.found, Value) else None

    @property
    def reason(self) -> Reason:
        """Why there is no value; `NONE` if there is one."""
        return Reason.NONE if isinstance(self.found, Value) else self.found.reason

    def span_of(self, run: Run) -> Span:
        """The characters of a number."""
        first, last = run.first - self.begin, run.last - self.begin
        return (self.ends[first - 1] if first else 0), self.ends[last]

    @property
    def tokens(self) -> tuple[int, int]:
        """`tokens_of` the expression."""
        return self.tokens_of(self.found.span)

    @property
    def culprit(self) -> tuple[int, int]:
        """`tokens_of` what caused a refusal of the text; of a refused value none."""
        found = self.found
        return self.tokens_of(None if isinstance(found, Value) or found.ruled else found.culprit)

    def tokens_of(self, span: Span | None) -> tuple[int, int]:
        """The first and the last token of some characters, -1 for none."""
        if span is None:
            return _NOWHERE
        return self.begin + bisect_right(self.ends, span[0]), self.begin + bisect_left(self.ends, span[1])

    def message_of(self, span: Span) -> int:
        """The first token of the message that some characters are in."""
        begin = self.text.rfind(CONTROL, 0, span[0]) + 1
        return self.tokens_of((begin, begin + 1))[0]

    def refuses_between(self, first: Span, second: Span) -> bool:
        """Whether the refusal of an expression in symbols is final, because nothing but symbols joins two numbers.

        The network's is what may be a date or a size, unless a dash joins it, and so are further numbers, two numbers
        with a space between that are no group of thousands (`sum 34 12`), a bracket that is before them (`:) 3 + 4`),
        and their operation before a colon (`Subtract: 71 - 16`).
        """
        between, found = self.text[first[1] : second[0]], self.found
        if isinstance(found, Value) or any(map(str.isalpha, between)):
            return False
        begin, end = found.culprit or first
        match found.reason:
            case Reason.NO_EXPRESSION | Reason.OTHER_NUMBER:
                return False
            case Reason.LOOK_ALIKE:  # `747-400`, `1914-18`, but `7000 - 350` and `3600/60` may be asked for
                tight = self.text[first[1] : second[0] + 1].startswith(_DASHES)
                return tight and not self.text[second[0] : second[0] + 1].isspace()
            case Reason.MALFORMED:
                return not between.isspace() or len(self.text[slice(*second)].strip()) == 3
            case Reason.UNBALANCED:
                return end > first[0]
        sign, name = kind_of_piece(between.strip()), words().operations.get(self.text[begin:end].casefold().strip(":"))
        return name != {"x": "*"}.get(sign, sign) or ":" not in self.text[begin : first[0]]

    def _has_no_words(self) -> bool:
        """Whether the message has numbers and signs only."""
        last = max(self.text.rfind(digit) for digit in "0123456789")
        before, message = self.text[: max(last, 0)], self.text[max(last, 0) :]
        return not any(map(str.isalpha, before.rpartition(CONTROL)[2] + message.partition(CONTROL)[0]))


class Decision(NamedTuple):
    """What becomes of one step."""

    said: Said  # what its text says in symbols
    # the value that is written, or why there is none; None where the network asks for nothing
    found: Value | Refusal | None
    silence: str | None  # why a step without a value is silent, a key of `tuner.records.EXPLANATIONS`; None with one
    # whether the text says what is calculated, and the network no more than that it is asked for
    by_rule: bool = False
    stated: Stated = Stated.NOTHING  # of what is calculated
    culprit: tuple[int, int] = _NOWHERE  # the first and the last token of what refuses, -1 for none
    kind: str = ARITHMETIC  # of the operation that a network reads; of an expression in symbols always arithmetic
    probability: float | None = None  # that `confidence` is compared with; None where no network is asked

    @property
    def result(self) -> str:
        """The value as it is written, empty if there is none."""
        return self.found.text if isinstance(self.found, Value) else ""

    @property
    def status(self) -> Status:
        """The status of the step."""
        if isinstance(self.found, Value):
            return Status.OK
        if self.found is None or (self.found is self.said.found and not self.found.ruled):
            return Status.NONE
        return _STATUSES.get(self.found.reason, Status.NONE)


def said_at(vocabulary: Vocabulary, ids: Sequence[int], anchor: int, since: int, limits: Limits) -> Said:
    """What the tokens of a row from `since` to `anchor` say."""
    lead = min(since, len(vocabulary.header))  # the name of a role belongs to the control token before it
    text, ends = vocabulary.spell(ids[since - lead : anchor + 1])
    start = ends[lead - 1] if lead else 0
    return Said(read(text[start:], limits), text[start:], since, [end - start for end in ends[lead:]])


def kind_of(operation: str) -> str:
    """The kind of an operation, one of `KINDS`."""
    return ARITHMETIC if not operation.isalpha() else GIVEN if takes(operation) else LISTS


def least_of(confidence: float | Mapping[str, float], kind: str) -> float:
    """The `confidence` of a kind of operations."""
    return confidence[kind] if isinstance(confidence, Mapping) else confidence


def needed(confidence: float | Mapping[str, float], kind: str) -> float:
    """The probability that a reading of the token interface needs; none with a `confidence` below 0, as in a fit."""
    least = least_of(confidence, kind)
    return max(least, LEAST_ASKED) if least >= 0 else 0.0


def certainty(chances: Sequence[float], stated: Stated) -> float:
    """The probability that `confidence` is compared with: that a calculation is asked for, and that it is the one that
    is read. `chances` are the first three of `readings.Chances`.

    A text that states its operation seldom asks for anything else. What it states, the network is not asked.
    """
    asked, operation, operands = chances
    odds = STATED_ODDS if stated else 1.0
    asked = odds * asked / (odds * asked + 1 - asked)
    return asked * (1.0 if stated >= Stated.BETWEEN else operation) * (1.0 if stated == Stated.WHOLE else operands)


def decided(
    limits: Limits,
    confidence: float | Mapping[str, float],
    texts: StepTexts,
    read: Callable[[list[int]], Sequence[Sequence[int]]],
) -> tuple[Decision | None, ...]:
    """The decisions of all steps, None for one without an anchor.

    `read` says what a network reads in the steps whose texts do not decide alone, as of `Pointing.summary`; it is not
    called if there are none.
    """
    fewest = min(FUNCTIONS[one].fewest if one in FUNCTIONS else 2 for one in limits.operations)
    said = {
        step: said_at(texts.table.vocabulary, texts.ids_of(step), anchor, texts.since[step], limits)
        for step, anchor in enumerate(texts.anchors)
        if anchor >= 0
    }
    found = {step: _decided_alone(one, texts, step, fewest) for step, one in said.items()}
    if asked := [step for step, alone in found.items() if alone is None]:
        for step, reading in zip(asked, read(asked), strict=True):
            kind = ARITHMETIC if said[step].ruled else kind_of(limits.operations[reading[0]])
            least = needed(confidence, kind)
            one = _decided(limits, least, said[step], texts, step, reading)
            found[step] = one._replace(kind=kind, probability=certainty(_chances(reading), one.stated))
    return tuple(map(found.get, range(len(texts.anchors))))


def _decided_alone(said: Said, texts: StepTexts, step: int, fewest: int) -> Decision | None:
    """The decision that needs no network, None if there is none; a request has `fewest` numbers."""
    if EMBEDDED in texts.ids_of(step):
        return Decision(said, None, "unseen" if len(texts.places[step].numbers) > 1 else "few_numbers")
    if said.is_final:
        return _by_rule(said)
    if len(texts.operands_of(step)) < fewest and not said.ruled:
        return _silent(said, "few_numbers")
    return None


def _chances(reading: Sequence[int]) -> list[float]:
    """The probabilities of `Pointing.summary`."""
    return [chance / SCALE for chance in reading[1:4]]


def _decided(
    limits: Limits, least: float, said: Said, texts: StepTexts, step: int, reading: Sequence[int]
) -> Decision:
    """The decision of a step that a network has read; `least` is the certainty that it needs."""
    chances = _chances(reading)
    if certainty(chances, Stated.WHOLE) < least:
        return _silent(said, "no_arithmetic" if chances[0] < LEAST_ASKED else "unsure")
    if said.ruled:
        return _by_rule(said)
    symbol = limits.operations[reading[0]]
    pointed, cut = _pointed(texts, step, takes(symbol), reading)
    if not pointed:
        return _silent(said, "few_numbers")
    spans = tuple(said.span_of(run) for run, _ in pointed)
    if UNSEEN in texts.ids_of(step)[said.message_of(min(spans)) :]:
        return _silent(said, "unseen")
    if cut:
        return _silent(said, "too_long")
    if len(spans) == 2 and said.refuses_between(*sorted(spans)):
        return _silent(said, said.reason.name.lower())
    found, stated = answer(said.text, symbol, spans, [negated for _, negated in pointed], limits)
    if certainty(chances, stated) < least:
        return _silent(said, "unsure")._replace(stated=stated)
    if isinstance(found, Value):
        return Decision(said, found, None, stated=stated)
    return Decision(said, found, found.id, stated=stated, culprit=said.tokens_of(found.culprit))


def _pointed(texts: StepTexts, step: int, count: int, reading: Sequence[int]) -> tuple[list[tuple[Run, bool]], bool]:
    """The numbers that a network points at, each with whether it is negated, and whether places before those that
    were read may belong to them; no numbers if one is none, or is there twice. `count` as of `operations.takes`."""
    begins = {run.first: run for run in texts.places[step].numbers.values() if run.digits is not None}
    if count:
        at = list(zip(reading[4 : 4 + count], map(bool, reading[6 : 6 + count]), strict=True))
        cut = False
    else:
        read = [divmod(one, len(Mark)) for one in reading[8:] if one >= 0]
        at = [(one, mark == Mark.NEGATED) for one, mark in read if mark != Mark.NO_OPERAND]
        before = texts.ids_of(step)[texts.since[step] : min(one for one, _ in read)]
        cut = any(token != PADDING for token in before)
    runs = [(begins[one], negated) for one, negated in at if one in begins]
    return (runs if len(runs) == len(at) == len({one for one, _ in at}) else []), cut


def _by_rule(said: Said) -> Decision:
    """The value of an expression, or its refusal."""
    silence = None if isinstance(said.found, Value) else said.found.id
    return Decision(said, said.found, silence, by_rule=True, stated=Stated.WHOLE, culprit=said.culprit)


def _silent(said: Said, why: str) -> Decision:
    """A step without a value; a refusal of the symbols that its text has says more than that nothing is asked."""
    found, of_words = said.found, said.reason is Reason.NO_EXPRESSION or len(said.found.items) < 2
    if isinstance(found, Refusal) and not found.ruled and not of_words:
        return Decision(said, None, found.id, culprit=said.culprit)
    return Decision(said, None, why, stated=Stated.WHOLE if said.ruled else Stated.NOTHING)


def _packed(decision: Decision | None, width: int) -> list[int]:
    """The integers of a result: status, sign and scale, and `width` digits."""
    status, text = (Status.NONE, "") if decision is None else (decision.status, decision.result)
    plain = text.removesuffix("%")
    digits = plain.replace(".", "").lstrip("-0") or "0" * bool(text)
    places = len(plain.partition(".")[2])
    scale = places if plain == text else -1 - places
    return [int(status), text[:1] == "-", scale, *classes(digits, width)]


def results_of(decisions: Sequence[Decision | None], shape: Sequence[int], width: int, device: Any) -> Result:
    """The results of [B, A] steps, None for one without an anchor."""
    packed = torch.tensor([_packed(one, width) for one in decisions], dtype=torch.int64, device=device)
    packed = packed.view(*shape, 3 + width)
    return Result(packed[..., 3:], packed[..., 1], packed[..., 0], packed[..., 2])
