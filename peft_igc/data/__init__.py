"""Training and test rows: operand columns, generated arithmetic, BIG-bench.

* `columns`: the operand columns of a dataset, checked and encoded as tensors.
* `exact_values`: the value of an expression in a column, and the expression that is read in a text.
* `wording`: the texts of generated rows; `mixture`, `operands`, `arithmetic`: an endless stream of rows with them.
* `functions`: rows for functions of given numbers, such as percentages.
* `bigbench`: the BIG-bench arithmetic task, generated.
* `writing_rows`: rows that train the writing alone.
* `dataset`: any rows as a `datasets.Dataset`, and what they teach; `files`: rows and evaluation items from files, and
  the calculations that a file states.

It imports `numbers`, `text`, torch and, inside the functions that make a dataset, `datasets`; no model
and no tokenizer. Start with `columns`.
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
