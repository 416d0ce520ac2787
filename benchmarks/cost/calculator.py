"""How fast the calculator is: operations per second by digits and batch, beside Python's int and NumPy object arrays.

All three calculate the very same operands, which take turns (see `measuring`), and have to agree on every one of them,
or the run ends without results. Each is timed twice: on what it works with itself (digit tensors; integers) and from
the other's to the other's, conversion included. Divisions leave no remainder. `all` is what an adapter does: a mixture
of the four operations, each of which is computed for all rows.

Bytes moved are those of all operators' inputs and outputs, as they run without a compiler, and those that no
implementation can avoid: operands in, results out. Both are set against the rate at which this machine copies memory.

    python -m benchmarks.cost.calculator --output DIR/calculator.json \\
        --figure DIR/calculator.png  (DIR: benchmarks/results)
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.common.measuring import Progress, alternating, facts, loops_for, seconds, summary
from peft_igc.numbers.calculator import OPERATIONS, Result, Status, calculate
from peft_igc.numbers.digits import decode, encode


ALL = "all"
PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
}
CALCULATOR, COMPILED, INT, NUMPY = "calculator", "calculator_compiled", "python", "numpy"
DIGITS, INTEGERS = "digits", "integers"  # what goes in and comes out
LEAST = 0.02  # seconds of one measurement
COPIED = 2**28  # bytes that are copied to learn the rate of the memory


class Operands(NamedTuple):
    """One set of operands, in all three forms.

    Attributes:
        symbols: the operations, one or all of them.
        which: index into `symbols` of each row.
        integers: pairs of Python integers.
        digits: [B, 2, D] int64; signs: [B, 2] int64; operator: [B] int64, as `which`.
        width: R, digits of the longest result.
    """

    symbols: tuple[str, ...]
    which: list[int]
    integers: list[tuple[int, int]]
    digits: torch.Tensor
    signs: torch.Tensor
    operator: torch.Tensor
    width: int


def operands_of(symbol: str, digits: int, batch: int, seed: int, device: torch.device) -> Operands:
    """Random operands: D digits with a random sign; a divisor has half as many, and divides without a remainder."""
    random_ = random.Random(f"{seed} {symbol} {digits} {batch}")
    symbols = tuple(OPERATIONS) if symbol == ALL else (symbol,)
    which = [row % len(symbols) for row in range(batch)]
    pairs = [_pair(symbols[index], digits, random_) for index in which]
    texts = [str(number) for pair in pairs for number in pair]
    given, signs = encode(texts, digits, device)
    index = torch.tensor(which, device=device)
    return Operands(symbols, which, pairs, given.view(batch, 2, digits), signs.view(batch, 2), index, 2 * digits)


def _pair(symbol: str, digits: int, random_: random.Random) -> tuple[int, int]:
    """Two operands of an operation."""

    def number(size: int) -> int:
        return random_.randint(10 ** (size - 1), 10**size - 1)

    if symbol == "/":
        divisor = number((digits + 1) // 2)
        least, most = -(-(10 ** (digits - 1)) // divisor), (10**digits - 1) // divisor
        a, b = divisor * random_.randint(least, most), divisor
    else:
        a, b = number(digits), number(digits)
    return a * random_.choice((1, -1)), b * random_.choice((1, -1))


# ---------------------------------------------------------------------------------------------- the three
def by_tensors(given: Operands, function: Callable[..., Result] = calculate) -> Result:
    """The package's calculator."""
    return function(
        given.digits,
        given.signs,
        given.operator,
        operations=given.symbols,
        result_digits=given.width,
        division="exact",
    )


def by_python(given: Operands, integers: list[tuple[int, int]]) -> list[int]:
    """A loop over Python's integers."""
    functions = [PYTHON[symbol] for symbol in given.symbols]
    return [functions[index](a, b) for index, (a, b) in zip(given.which, integers, strict=True)]


def by_numpy(given: Operands, pairs: Any) -> Any:
    """NumPy's object arrays [B, 2] to [B]; a mixture goes operation by operation."""
    result = np.empty(len(pairs), dtype=object)
    for index, symbol in enumerate(given.symbols):
        rows = slice(index, None, len(given.symbols))  # as `operands_of` lays them out
        result[rows] = PYTHON[symbol](pairs[rows, 0], pairs[rows, 1])
    return result


def to_integers(digits: torch.Tensor, signs: torch.Tensor) -> list[int]:
    """Digit tensors as Python integers."""
    return [int(text) for text in decode(digits, signs)]


def to_pairs(given: Operands) -> list[tuple[int, int]]:
    """The operands' digit tensors as pairs of Python integers."""
    flat = to_integers(given.digits, given.signs)
    return list(zip(flat[::2], flat[1::2], strict=True))


def to_digits(integers: Any, given: Operands) -> tuple[torch.Tensor, torch.Tensor]:
    """Results as digit tensors, on the operands' device."""
    return encode([str(number) for number in integers], given.width, given.digits.device)


def object_array(pairs: list[tuple[int, int]]) -> Any:
    """[B, 2] of Python integers."""
    array = np.empty((len(pairs), 2), dtype=object)
    array[:] = pairs
    return array


def by_tensors_from_integers(given: Operands) -> list[int]:
    """The package's calculator, from integers to integers."""
    digits, signs = encode(
        [str(n) for pair in given.integers for n in pair], given.digits.shape[-1], given.digits.device
    )
    converted = given._replace(digits=digits.view_as(given.digits), signs=signs.view_as(given.signs))
    result = by_tensors(converted)
    return to_integers(result.digits, result.sign)


def contestants(given: Operands, compiled: Callable[..., Result] | None) -> dict[str, dict[str, Callable[[], Any]]]:
    """What is timed, by what goes in and out, and by name."""
    array = object_array(given.integers)
    made: dict[str, dict[str, Callable[[], Any]]] = {
        DIGITS: {
            CALCULATOR: lambda: by_tensors(given),
            INT: lambda: to_digits(by_python(given, to_pairs(given)), given),
            NUMPY: lambda: to_digits(by_numpy(given, object_array(to_pairs(given))), given),
        },
        INTEGERS: {
            CALCULATOR: lambda: by_tensors_from_integers(given),
            INT: lambda: by_python(given, given.integers),
            NUMPY: lambda: by_numpy(given, array),
        },
    }
    if compiled is not None:
        made[DIGITS][COMPILED] = lambda: by_tensors(given, compiled)
    return made


def check(given: Operands, made: dict[str, dict[str, Callable[[], Any]]]) -> None:
    """Sees that all agree on every row; `SystemExit` names the first on which they do not."""
    right = [PYTHON[given.symbols[index]](a, b) for index, (a, b) in zip(given.which, given.integers, strict=True)]
    for form, functions in made.items():
        for name, function in functions.items():
            found = function()
            if isinstance(found, Result):
                refused = (found.status != int(Status.OK)).nonzero().flatten().tolist()
                if refused:
                    raise SystemExit(f"{name}, {form}: {_shown(given, refused[0])} is refused.")
            numbers = list(found) if form == INTEGERS else to_integers(found[0], found[1])
            wrong = [row for row, (one, two) in enumerate(zip(numbers, right, strict=True)) if one != two]
            if wrong:
                raise SystemExit(f"{name}, {form}: {_shown(given, wrong[0])} gives {numbers[wrong[0]]}.")


def _shown(given: Operands, row: int) -> str:
    """One calculation as text."""
    a, b = given.integers[row]
    return f"{a} {given.symbols[given.which[row]]} {b}"


# ---------------------------------------------------------------------------------------------- memory
class BytesMoved(TorchDispatchMode):
    """Within, sums the bytes that operators read and write; views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the operator and counts it."""
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            made = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
            # an expanded tensor is read from no more than it has in memory
            self.bytes += sum(min(x.nbytes, x.untyped_storage().nbytes()) for x in (*given, *made))
        return out


def bytes_moved(given: Operands) -> dict[str, int]:
    """Bytes that one batch moves: by all operators, and the least that has to be moved."""
    with BytesMoved() as counted:
        result = by_tensors(given)
    least = sum(x.nbytes for x in (given.digits, given.signs, given.operator, *result))
    return {"moved": counted.bytes, "least": least}


def copy_rate(device: torch.device) -> float:
    """Bytes per second that a copy reads and writes, the best of five."""
    source = torch.ones(COPIED, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * COPIED / min(seconds(lambda: target.copy_(source), device) for _ in range(6))


# ---------------------------------------------------------------------------------------------- runs
def measured(
    given: Operands, repetitions: int, rate: float, told: Callable[[], None], compiled: Callable[..., Result] | None
) -> dict[str, Any]:
    """Operations per second of all, checked before; bytes moved by the calculator as a share of the memory's rate."""
    device, batch = given.digits.device, len(given.which)
    made = contestants(given, compiled)
    check(given, made)
    runs = alternating(
        {
            name: _timer({form: named[name] for form, named in made.items() if name in named}, device)
            for name in made[DIGITS]
        },
        repetitions,
        told,
    )
    cell: dict[str, Any] = {}
    for form, by_name in runs.items():
        for name, values in by_name.items():
            speed = {"seconds": summary(values), "per_second": batch / summary(values)["median"]}
            cell.setdefault(form, {})[name] = speed
    best = min(cell[DIGITS][name]["seconds"]["median"] for name in (CALCULATOR, COMPILED) if name in cell[DIGITS])
    moved = bytes_moved(given)
    eager = cell[DIGITS][CALCULATOR]["seconds"]["median"]
    share = {"of_the_copy_rate": moved["moved"] / eager / rate, "least_of_the_copy_rate": moved["least"] / best / rate}
    return cell | {"bytes": moved | share}


def _timer(functions: dict[str, Callable[[], Any]], device: torch.device) -> Callable[[], dict[str, float]]:
    """What gives the seconds of one calculation of the batch, by what goes in and out."""
    loops = {form: loops_for(function, device, LEAST) for form, function in functions.items()}
    return lambda: {form: seconds(function, device, loops[form]) for form, function in functions.items()}


COLUMNS = ((DIGITS, CALCULATOR), (DIGITS, INT), (DIGITS, NUMPY), (INTEGERS, INT), (INTEGERS, NUMPY))


def table(results: dict[str, Any]) -> str:
    """Operations per second, from digits to digits and from integers to integers."""
    titles = (f"{name}, {form}" for form, name in COLUMNS)
    lines = [f"{'operation, digits, batch':<26}" + "".join(f"{title:>20}" for title in titles)]
    for cell in results["cells"]:
        found = (cell[form][name]["per_second"] for form, name in COLUMNS)
        where = f"{cell['operation']}, {cell['digits_of_operands']}, {cell['batch']}"
        lines.append(f"{where:<26}" + "".join(f"{speed:>20,.0f}" for speed in found))
    return "\n".join(lines)


def draw(results: dict[str, Any], path: Path) -> None:
    """Operations per second against the batch: a panel per operation, a colour per number of digits."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    operations = list(dict.fromkeys(cell["operation"] for cell in results["cells"]))
    sizes = list(dict.fromkeys(cell["digits_of_operands"] for cell in results["cells"]))
    figure = Figure(figsize=(3.2 * len(operations), 4), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(operations), sharey=True, squeeze=False)[0]
    for axes, symbol in zip(panels, operations, strict=True):
        axes.set(title=symbol, xlabel="batch", xscale="log", yscale="log")
        for colour, size in enumerate(sizes):
            cells = [c for c in results["cells"] if (c["operation"], c["digits_of_operands"]) == (symbol, size)]
            for name, line in ((CALCULATOR, "o-"), (INT, "x:")):
                points = [c["batch"] for c in cells], [c[DIGITS][name]["per_second"] for c in cells]
                axes.plot(*points, f"C{colour}{line}", markersize=3, label=f"{name}, {size} digits")
    panels[0].set_ylabel("operations per second, digits to digits")
    panels[0].legend(fontsize=6)
    figure.savefig(path, dpi=120)


def parsed(given: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    parser.add_argument("--figure", type=Path, metavar="FILE")
    parser.add_argument("--operations", nargs="+", default=[*PYTHON, ALL], choices=[*PYTHON, ALL])
    parser.add_argument("--digits", type=int, nargs="+", default=[1, 2, 5, 10, 20, 40], metavar="D")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 256, 4096, 65_536], metavar="B")
    parser.add_argument("--repetitions", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--compiled", action="store_true", help="also under torch.compile, which needs a compiler")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the operands")
    return parser.parse_args(given)


def main() -> None:
    """Measures all cells, and writes results after each."""
    arguments = parsed()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    compiled = torch.compile(calculate, fullgraph=True, dynamic=False) if arguments.compiled else None
    settings = {key: value for key, value in vars(arguments).items() if key not in ("output", "figure")}
    rate = copy_rate(device)
    results = {**facts(), "device": device.type, "settings": settings, "copy_bytes_per_second": rate, "cells": []}
    cells = list(itertools.product(arguments.operations, arguments.digits, arguments.batches))
    names = len((CALCULATOR, INT, NUMPY)) + (compiled is not None)
    progress = Progress(sum(size * batch + 1000 for _, size, batch in cells) * names * (arguments.repetitions + 1))
    for symbol, size, batch in cells:
        given = operands_of(symbol, size, batch, arguments.seed, device)
        told = functools.partial(progress.step, f"{symbol}, {size} digits, batch {batch}", size * batch + 1000)
        with torch.inference_mode():
            cell = measured(given, arguments.repetitions, rate, told, compiled)
        results["cells"].append({"operation": symbol, "digits_of_operands": size, "batch": batch, **cell})
        arguments.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))
    if arguments.figure is not None:
        draw(results, arguments.figure)


if __name__ == "__main__":
    main()
