"""What training rows are made of: `Mixture`, its fractions, and the mixture for the token interface.

Only numbers; `arithmetic` makes the rows. Try it: `pytest tests/test_data.py -k mixture`.
"""

from dataclasses import dataclass, fields


__all__ = ["TOKENS_MIXTURE", "Mixture"]


@dataclass(frozen=True)
class Mixture:
    """What the rows are made of: fractions of 0..1. What the first five leave is ordinary arithmetic.

    Those from `unsupported` on, but `special`, need a `wording`.

    Args:
        none: Texts that ask for no calculation. Less, and the adapter fires on every number it sees.
        overflow: Calculations that are too long: an operand of `num_digits` + 1..3 digits; if `result_digits` was
            given, half of them operands that fit with a result that does not.
        undefined: Divisions by zero (none without `/`).
        inexact: Divisions with a remainder (none without `/`, nor where `division` gives them a result).
        negative: Of the ordinary arithmetic, the part in which one operand or both are made negative.
        bigbench: Of the ordinary arithmetic, the part phrased as in BIG-bench, besides its chance among the others.
        system: Of all conversational rows, the part with a system prompt.
        unsupported: Arithmetic that the calculator does not do (three operands, decimals, percent, powers): `"none"`.
        special: Of the ordinary arithmetic, the part with an operand 0 or 1, or with equal operands, besides chance.
        spelled_signs: Of the negative numbers, the part written `(-58)` or `negative 58`.
        separators: Of the texts, the part in which numbers of four digits and more are written `1,234,567`.
        contexts: Of the texts, the part with a greeting, a sentence or a number of a list around the request.
        sentences: Of the rows with a result whose text ends as a sentence, the part that asks for an answer in a
            sentence and gets one. All other completions are the bare number.
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

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= (value := getattr(self, field.name)) <= 1:
                raise ValueError(f"`{field.name}={value}` is no fraction: set `Mixture({field.name}=...)` to 0..1.")
        if (total := self.none + self.overflow + self.undefined + self.inexact + self.unsupported) > 1:
            raise ValueError(
                f"`none`, `overflow`, `undefined`, `inexact` and `unsupported` add up to {total:g}, which leaves no "
                "room for arithmetic. Lower one of them."
            )


TOKENS_MIXTURE = Mixture(
    none=0.24,
    overflow=0.0,
    undefined=0.01,
    inexact=0.02,
    negative=0.18,
    bigbench=0.05,
    system=0.25,
    unsupported=0.2,
    special=0.06,
    spelled_signs=0.6,
    separators=0.2,
    contexts=0.65,
    sentences=0.2,
)
