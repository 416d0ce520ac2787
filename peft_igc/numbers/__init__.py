"""Numbers as digits, as tokens of a text, and as operands of the calculator. No model and no learned weights here.

* `digits`: the number format, integers as left-aligned digit tensors.
* `calculator`: exact arithmetic on digit tensors, with a status for every result.
* `tokenizer_profile`: how a tokenizer splits numbers.

Imports `text` and torch. Start with `digits`, then `calculator`; `docs/how_it_works.md` has their place.
"""

__all__ = ["calculator", "digits", "tokenizer_profile"]
