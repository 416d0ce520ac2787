"""`Mixture`, the fractions of the kinds of training rows, and `TOKENS_MIXTURE`, that of the token interface."""

import random
from dataclasses import dataclass, fields


# Fractions of all rows.
_OF_ALL = ("none", "overflow", "undefined", "inexact", "unsupported", "expressions", "look_alikes", "by_hand")


@dataclass(frozen=True)
class Mixture:
    """Fractions (0..1) of the kinds of rows.

    `none`, `overflow`, `undefined`, `inexact`, `unsupported`, `expressions`, `look_alikes` and `by_hand` are fractions
    of all rows; the rest of the rows is ordinary arithmetic. `unsupported`, `spelled_signs`, `separators`, `contexts`,
    `sentences`, `expressions`, `rounded`, `look_alikes` and `casual` need the wording `wording.TRAINING`.

    Args:
        none: Texts that ask for no calculation. With too few, the adapter activates on every number.
        overflow: Calculations that are too long: an operand of `num_digits` + 1..3 digits; if `result_digits` was
            given, half of them have operands that fit and a result that does not.
        undefined: Divisions by zero (none without `/`).
        inexact: Divisions with a remainder (none without `/` or if `rounding` gives them an integer).
        negative: Fraction of the ordinary arithmetic in which one operand or both are made negative. With
            `wording.TRAINING` also the fraction of the other texts in which numbers may be negative.
        bigbench: Fraction of the ordinary arithmetic in the form of BIG-bench, which may also be drawn otherwise.
        system: Fraction of all conversational rows that have a system prompt.
        unsupported: Arithmetic that the calculator does not support in words (three operands, percent, powers, and
            decimals unless `Limits.decimal_operands`), with the operator `"none"`. What rules read of it has its
            expression (`ArithmeticRows`).
        special: Fraction of the ordinary arithmetic with an operand 0 or 1, or with equal operands; these may also be
            drawn otherwise.
        spelled_signs: Fraction of the negative numbers that are written `(-58)` or `negative 58`.
        separators: Fraction of the texts in which numbers of four digits and more are written `1,234,567`.
        contexts: Fraction of the texts with a greeting, a sentence or a list number around the request.
        long: Fraction of the ordinary arithmetic, and of the texts by hand, with numbers of up to 20 digits.
        decimals: Fraction of the texts, BIG-bench's form included, whose numbers have up to four places: `4.5 plus
            3.25`. It has no effect without `Limits.decimal_operands`.
        sentences: Fraction of the rows with a result, whose prompt ends as a sentence, that ask for a sentence and
            have one as their completion. All other completions are the bare number.
        expressions: Expressions in symbols, bare (`12*34=`) and in sentences: of two integers, and with `max_operands`
            above 2 with more numbers, brackets, powers, decimals, per cent and money (none without all of `+ - * /`).
        rounded: Fraction of the expressions that are a quotient whose decimals do not end, with a rounding asked in
            words: `10 / 3 to 2 decimal places`.
        look_alikes: Signs between numbers that ask for nothing: dates, scores, ranges, versions, code.
        casual: Fraction of the texts that are typed in a hurry, but for the form of BIG-bench.
        by_hand: Texts with slots by many hands, calculations and others, as in `Wording.by_hand`.
        multiples: Fraction of the pairs in which a number is made a multiple of the other one though nothing asks for
            it, so that this does not tell a division from the other operations (`IGCConfig.compares_numbers`).
    """

    none: float = 0.10
    overflow: float = 0.05
    undefined: float = 0.01
    inexact: float = 0.01
    negative: float = 0.0
    bigbench: float = 0.1
    system: float = 0.0
    unsupported: float = 0.0
    special: float = 0.0
    spelled_signs: float = 0.0
    separators: float = 0.0
    contexts: float = 0.0
    sentences: float = 0.0
    expressions: float = 0.0
    rounded: float = 0.0
    look_alikes: float = 0.0
    casual: float = 0.0
    by_hand: float = 0.0
    multiples: float = 0.0
    long: float = 0.0
    decimals: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= (value := getattr(self, field.name)) <= 1:
                raise ValueError(f"`{field.name}={value}` is no fraction: set `Mixture({field.name}=...)` to 0..1.")
        if (total := sum(getattr(self, name) for name in _OF_ALL)) > 1:
            raise ValueError(
                f"{', '.join(f'`{name}`' for name in _OF_ALL[:-1])} and `{_OF_ALL[-1]}` add up to {total:g}, which "
                "leaves no room for arithmetic. Lower one of them."
            )


def happens(share: float, rng: random.Random) -> bool:
    """Whether a draw is within a share; nothing is drawn for a share of zero."""
    return share > 0 and rng.random() < share


TOKENS_MIXTURE = Mixture(
    none=0.21,
    overflow=0.0,
    undefined=0.01,
    inexact=0.02,
    negative=0.18,
    bigbench=0.05,
    system=0.25,
    unsupported=0.19,
    special=0.06,
    spelled_signs=0.6,
    separators=0.2,
    contexts=0.65,
    sentences=0.2,
    expressions=0.12,
    look_alikes=0.04,
    multiples=0.25,
    decimals=0.15,
)
