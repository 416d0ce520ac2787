"""How fast the calculator is: operations per second by digits and batch, compared with Python's int and NumPy objects.

All calculate the same operands, take turns (see `measuring`), and have to agree on every row, or the command ends. The
others convert from digits and back, as they would have to in a forward pass. Divisions leave no remainder. `all` is
what an adapter does: a mixture of the four operations, each of which is computed for all rows.

    python -m benchmarks.cost.calculator --output benchmarks/results/calculator.json
"""

from __future__ import annotations

import argparse
import itertools
import json
import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.common.measuring import Progress, alternating, facts, loops_for, seconds, summary
from peft_igc.numbers.calculator import OPERATIONS, Status, calculate
from peft_igc.numbers.digits import decode, encode


ALL = "all"
PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}
LEAST = 0.02  # seconds of one measurement
Found = tuple[torch.Tensor, torch.Tensor]  # digits and signs of the results


class Operands(NamedTuple):
    """One set of operands.

    Attributes:
        symbols: the operations, one or all of them.
        digits: [B, 2, D] int64; signs: [B, 2] int64; operator: [B] int64, an index into `symbols`.
        width: digits of the longest result.
    """

    symbols: tuple[str, ...]
    digits: torch.Tensor
    signs: torch.Tensor
    operator: torch.Tensor
    width: int


def operands_of(symbol: str, digits: int, batch: int, seed: int, device: torch.device) -> Operands:
    """Random operands: D digits with a random sign; a divisor has half as many, and divides without a remainder."""
    rng = random.Random(f"{seed} {symbol} {digits} {batch}")
    symbols = tuple(OPERATIONS) if symbol == ALL else (symbol,)
    which = [row % len(symbols) for row in range(batch)]
    texts = [str(number) for index in which for number in _pair(symbols[index], digits, rng)]
    given, signs = encode(texts, digits, device)
    index = torch.tensor(which, device=device)
    return Operands(symbols, given.view(batch, 2, digits), signs.view(batch, 2), index, 2 * digits)


def _pair(symbol: str, digits: int, rng: random.Random) -> tuple[int, int]:
    """Two operands of an operation."""

    def number(size: int) -> int:
        return rng.randint(10 ** (size - 1), 10**size - 1)

    a, b = number(digits), number(digits)
    if symbol == "/":
        b = number((digits + 1) // 2)
        a = b * rng.randint(-(-(10 ** (digits - 1)) // b), (10**digits - 1) // b)
    return a * rng.choice((1, -1)), b * rng.choice((1, -1))


def by_tensors(given: Operands) -> Found:
    """The package's calculator."""
    sizes = {"operations": given.symbols, "result_digits": given.width, "division": "exact"}
    result = calculate(given.digits, given.signs, given.operator, **sizes)
    return result.digits, result.sign


def _integers(given: Operands) -> list[tuple[int, int]]:
    flat = [int(text) for text in decode(given.digits.flatten(0, 1), given.signs.flatten())]
    return list(zip(flat[::2], flat[1::2], strict=True))


def _digits(integers: Any, given: Operands) -> Found:
    return encode([str(number) for number in integers], given.width, given.digits.device)


def by_python(given: Operands) -> Found:
    """Python's integers, row by row."""
    which = given.operator.tolist()
    made = (PYTHON[given.symbols[at]](a, b) for at, (a, b) in zip(which, _integers(given), strict=True))
    return _digits(made, given)


def by_numpy(given: Operands) -> Found:
    """Arrays of Python's integers, one operation after the other."""
    pairs = np.array(_integers(given), dtype=object)
    which, found = given.operator.cpu().numpy(), np.empty(len(pairs), dtype=object)
    for at, symbol in enumerate(given.symbols):
        rows = which == at
        found[rows] = PYTHON[symbol](pairs[rows, 0], pairs[rows, 1])
    return _digits(found.tolist(), given)


METHODS: dict[str, Callable[[Operands], Found]] = {"calculator": by_tensors, "python": by_python, "numpy": by_numpy}


@torch.inference_mode()
def measured(given: Operands, repetitions: int) -> dict[str, Any]:
    """Operations per second of all methods.

    Raises:
        SystemExit: they do not agree, or the calculator refuses a row.
    """
    device, batch = given.digits.device, len(given.operator)
    sizes = {"operations": given.symbols, "result_digits": given.width, "division": "exact"}
    if (calculate(given.digits, given.signs, given.operator, **sizes).status != int(Status.OK)).any():
        raise SystemExit("The calculator refuses a row.")
    results = {name: decode(*method(given)) for name, method in METHODS.items()}
    if len(set(map(tuple, results.values()))) > 1:
        raise SystemExit(f"The methods do not agree: { ({name: found[:3] for name, found in results.items()}) }.")
    loops = {name: loops_for(lambda m=method: m(given), device, LEAST) for name, method in METHODS.items()}
    turns = {
        name: lambda m=method, n=loops[name]: {"": seconds(lambda: m(given), device, n)}
        for name, method in METHODS.items()
    }
    times = alternating(turns, repetitions)[""]
    return {
        name: {"seconds": summary(values), "per_second": batch / summary(values)["median"]}
        for name, values in times.items()
    }


def main() -> None:
    """Measures all cells, and writes results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--operations", nargs="+", default=[*PYTHON, ALL], choices=[*PYTHON, ALL])
    parser.add_argument("--digits", type=int, nargs="+", default=[5, 20], metavar="D")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 64, 4096], metavar="B")
    parser.add_argument("--repetitions", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the operands")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results: dict[str, Any] = {**facts(), "device": device.type, "repetitions": arguments.repetitions, "cells": []}
    cells = list(itertools.product(arguments.operations, arguments.digits, arguments.batches))
    progress = Progress(len(cells))
    for symbol, size, batch in cells:
        cell = measured(operands_of(symbol, size, batch, arguments.seed, device), arguments.repetitions)
        results["cells"].append({"operation": symbol, "digits": size, "batch": batch, "methods": cell})
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        progress.step(f"{symbol}, {size} digits, batch {batch}: {cell['calculator']['per_second']:,.0f} per second")


if __name__ == "__main__":
    main()
