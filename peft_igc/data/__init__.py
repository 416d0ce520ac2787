"""Training and test rows: operand columns, generated arithmetic, BIG-bench.

* `columns`: the operand columns of a dataset, checked and encoded as tensors; `exact_values`: expressions in them.
* `mixture`, `operands`, `wording`, `arithmetic`: an endless stream of rows; `functions`: rows for functions.
* `bigbench`: the BIG-bench arithmetic task. `writing_rows`: rows that train the writing alone.
* `dataset`: any rows as a `datasets.Dataset`; `files`: rows, items and claims of files.

It imports `numbers`, `text`, torch and, inside the functions that make a dataset, `datasets`. Start with `columns`.
Try it: `python -c "from peft_igc.data import *; print(ArithmeticRows().take(3))"`.
"""

from .arithmetic import ArithmeticRows, Row
from .bigbench import GROUPS, bigbench_items, bigbench_size, bigbench_test_set, parse_question
from .dataset import shuffled, to_dataset
from .files import read_items, read_rows
from .mixture import TOKENS_MIXTURE, Mixture


__all__ = [
    "GROUPS",
    "TOKENS_MIXTURE",
    "ArithmeticRows",
    "Mixture",
    "Row",
    "bigbench_items",
    "bigbench_size",
    "bigbench_test_set",
    "parse_question",
    "read_items",
    "read_rows",
    "shuffled",
    "to_dataset",
]
