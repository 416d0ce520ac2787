"""Numbers as digits, as tokens of a text, and as operands of the calculator. No model and no learned weights here.

* `digits`: the number format, integers as left-aligned digit tensors.
* `calculator`: exact arithmetic on digit tensors, with a status for every result.
* `token_table`, `tokenizer_profile`: the digits that each token of a tokenizer spells.
* `places`: the numbers of a text, from its token ids, on the host.

Imports `text` and torch. Start with `digits`, then `calculator`. The place of both in the method
is described in `docs/how_it_works.md`. Try it: `pytest tests/numbers`
"""

from .calculator import OPERATIONS, Operation, Result, Status, calculate, evaluate_exactly, register_operation
from .digits import PAD, decode, encode
from .places import number_runs
from .token_table import TokenTable
from .tokenizer_profile import TokenizerProfile, check_tokenizer


__all__ = [
    "OPERATIONS",
    "PAD",
    "Operation",
    "Result",
    "Status",
    "TokenTable",
    "TokenizerProfile",
    "calculate",
    "check_tokenizer",
    "decode",
    "encode",
    "evaluate_exactly",
    "number_runs",
    "register_operation",
]
