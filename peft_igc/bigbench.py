"""The BIG-bench arithmetic task: items in its exact form, and a reader for the real one.

Twenty groups `{1..5}_digit_{addition,subtraction,multiplication,division}` with prompts such as `What is 0 plus 1?`.
Items come out as rows `{"prompt", "target", "group", "igc_operator", "igc_operands", "igc_result"}`; the operand
columns serve training (to leave these calculations out) and inspection, an evaluation never shows them to a model.
Made here by `bigbench_items` and `bigbench_test_set`; read from files or a hub by `load_bigbench`.
Try it: `pytest tests/test_data.py -k bigbench`.

What the real task fixes: division is exact, its dividend has n digits and its divisor is any divisor of that;
differences may be negative; one-digit addition, subtraction and multiplication are all 100 pairs, one-digit division
the 23 exact ones with a dividend of 1..9. What it leaves open and is chosen here: both operands of +, -, * have n
digits exactly (0..9 for n = 1) and are uniform; the dividend is uniform, and so is the divisor among its divisors.
"""

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .calculator import evaluate_exactly
from .templates import BIGBENCH


__all__ = [
    "GROUPS",
    "bigbench_items",
    "bigbench_size",
    "bigbench_test_set",
    "draw_operands",
    "load_bigbench",
    "parse_question",
    "random_divisor",
]

_NAMES = {"+": "addition", "-": "subtraction", "*": "multiplication", "/": "division"}
_SYMBOLS = {name: symbol for symbol, name in _NAMES.items()}
_PHRASES = {"plus": "+", "minus": "-", "times": "*", "divided by": "/"}
_QUESTION = re.compile(r"What is (-?[0-9]+) (plus|minus|times|divided by) (-?[0-9]+)\?")
_GROUP = re.compile(r"([1-5])_digit_(addition|subtraction|multiplication|division)")
_SMALL_PRIMES = tuple(p for p in range(2, 1000) if all(p % q for q in range(2, int(p**0.5) + 1)))

_SUFFIXES = {".json": "json", ".jsonl": "json", ".parquet": "parquet"}

GROUPS = tuple(f"{digits}_digit_{name}" for name in _NAMES.values() for digits in range(1, 6))


def bigbench_size(group: str) -> int:
    """How many different items a group has."""
    digits, operator = _parse_group(group)
    if operator != "/":
        return 100 if digits == 1 else (9 * 10 ** (digits - 1)) ** 2
    below, top = 10 ** (digits - 1) - 1, 10**digits - 1
    # The exact pairs with a dividend up to n are sum(n // divisor): every divisor divides that many dividends.
    return sum(top // divisor - below // divisor for divisor in range(1, top + 1))


def bigbench_items(group: str, n: int, seed: int = 0) -> list[dict[str, Any]]:
    """`n` different items of a group, in the order in which they were drawn.

    Args:
        group: One of `GROUPS`.
        n: How many; at most `bigbench_size(group)`.
        seed: Equal seeds give equal items, on every machine.

    Returns:
        Rows `{"prompt", "target", "group", "igc_operator", "igc_operands", "igc_result"}`.

    Raises:
        ValueError: An unknown group, or more items than it has.
    """
    digits, operator = _parse_group(group)
    if n > (size := bigbench_size(group)):
        raise ValueError(
            f"`n={n}` is too many: the group `{group}` has {size} different items. Ask for at most {size}."
        )
    rng = random.Random(f"{seed}/{group}")
    pairs: dict[tuple[int, int], None] = {}
    while len(pairs) < n:
        pairs[draw_operands(operator, digits, rng)] = None
    return [_item(BIGBENCH[operator].format(a=a, b=b), group, operator, str(a), str(b)) for a, b in pairs]


def bigbench_test_set(per_group: int = 200, seed: int = 0) -> list[dict[str, Any]]:
    """All twenty groups: `per_group` items each, or the whole group where it has fewer (the four one-digit ones)."""
    return [item for group in GROUPS for item in bigbench_items(group, min(per_group, bigbench_size(group)), seed)]


def _parse_group(group: str) -> tuple[int, str]:
    """Number of digits and operator of a group."""
    match = _GROUP.fullmatch(group)
    if match is None:
        raise ValueError(
            f"The group {group!r} is unknown: groups are `1_digit_addition` to `5_digit_division`, see `GROUPS`."
        )
    return int(match[1]), _SYMBOLS[match[2]]


def draw_operands(operator: str, digits: int, rng: random.Random) -> tuple[int, int]:
    """Two operands as the task draws them: of n digits; a division's are such a dividend and any of its divisors."""
    low, high = 10 ** (digits - 1), 10**digits
    if operator == "/":
        dividend = rng.randrange(low, high)
        return dividend, random_divisor(dividend, rng)
    low = 0 if digits == 1 else low
    return rng.randrange(low, high), rng.randrange(low, high)


def random_divisor(number: int, rng: random.Random) -> int:
    """A divisor of a positive number, each with the same chance if the number is below a million.

    Larger numbers keep a cofactor without prime factors below 1,000 in one piece: what comes out is still a divisor.
    """
    divisor, rest = 1, number
    for prime in _SMALL_PRIMES:
        if prime * prime > rest:
            break
        power = 0
        while rest % prime == 0:
            rest //= prime
            power += 1
        if power:
            divisor *= prime ** rng.randrange(power + 1)
    return divisor * rest if rest > 1 and rng.random() < 0.5 else divisor


def _item(prompt: str, group: str, operator: str, a: str, b: str) -> dict[str, Any]:
    """A row whose target is what the oracle says."""
    result = evaluate_exactly(operator, a, b)
    if not isinstance(result, str):
        raise ValueError(f"The question {prompt!r} has no exact answer, so it is no item of this task.")
    return {
        "prompt": prompt,
        "target": result,
        "group": group,
        "igc_operator": operator,
        "igc_operands": [a, b],
        "igc_result": result,
    }


def parse_question(prompt: str) -> tuple[str, str, str] | None:
    """(first operand, operator, second operand) of the only BIG-bench question in a text, or None.

    Text round the question ("Q: ...", "A:") is allowed; several questions (examples before the real one) give None.
    """
    found = _QUESTION.findall(prompt)
    if len(found) != 1:
        return None
    a, phrase, b = found[0]
    return a, _PHRASES[phrase], b


def load_bigbench(path_or_hub_id: str | Path, *, config: str | None = None) -> list[dict[str, Any]]:
    """Reads the real task, or any task in one of its forms.

    Args:
        path_or_hub_id: A `task.json`; a folder with one, or with one per subtask
            (`arithmetic/1_digit_addition/task.json`); a `.jsonl` or `.parquet` file, or a folder of such files,
            with the columns of the hub forms (`inputs`, `targets`); or a dataset id on the hub.
        config: The hub dataset's configuration. None: `arithmetic_zero_shot` for `hails/bigbench`, else
            `arithmetic`.

    Returns:
        Items `{"prompt", "target", "group"}` with prompts as they stand. The group is the subtask's folder, else
        it is told from the question, else it is the task's name. Items with a BIG-bench question also have the
        operand columns, so that training can leave them out.

    Raises:
        FileNotFoundError: A path that does not exist.
        ValueError: Data in none of these forms, an item without exactly one target, no items; names file and item.
    """
    path = Path(path_or_hub_id)
    if path.is_file() and path.suffix == ".json":
        items = _from_task_files([path])
    elif path.is_dir() and (files := sorted([*path.glob("task.json"), *path.glob("*/task.json")])):
        items = _from_task_files(files)
    else:
        items = _from_rows(_load_rows(path_or_hub_id, config), str(path_or_hub_id))
    if not items:
        raise ValueError(f"`{path_or_hub_id}` holds no items. Check that the download is complete.")
    return items


def _from_task_files(files: Sequence[Path]) -> list[dict[str, Any]]:
    """The items of task files, in the order of the files."""
    items = []
    for file in files:
        try:
            task = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:  # bad JSON or bad UTF-8
            raise ValueError(f"`{file}` is no JSON: {error}. Download it again.") from error
        examples = task.get("examples") if isinstance(task, dict) else None
        if not isinstance(examples, list):
            raise ValueError(f'`{file}` has no list "examples", so it is no BIG-bench task in JSON form.')
        folder = file.parent.name
        name = folder if _GROUP.fullmatch(folder) else str(task.get("name", folder))
        for index, example in enumerate(examples):
            where = f"`{file}`, example {index}"
            if not isinstance(example, dict) or not isinstance(example.get("input"), str):
                raise ValueError(f'{where}: expected an object with a string "input", got {example!r}.')
            target = example["target"] if "target" in example else _best(example.get("target_scores"), where)
            items.append(_finish(example["input"], target, name, where))
    return items


def _load_rows(path_or_hub_id: str | Path, config: str | None) -> Iterable[Mapping[str, Any]]:
    """Rows of a file, a folder or a hub dataset; the split "default", or all splits where there is none."""
    from datasets import load_dataset

    path = Path(path_or_hub_id)
    if path.is_file():
        if path.suffix not in _SUFFIXES:
            raise ValueError(f"`{path}` has an unknown suffix: expected one of {', '.join(_SUFFIXES)}.")
        splits = load_dataset(_SUFFIXES[path.suffix], data_files=str(path))
    elif path.is_dir():
        splits = load_dataset(str(path))
    elif path.is_absolute() or str(path_or_hub_id).startswith(".") or len(path.parts) > 2 or path.suffix in _SUFFIXES:
        raise FileNotFoundError(f"`{path}` does not exist. Give a task.json, its folder, or an id on the hub.")
    else:
        name = str(path_or_hub_id)
        default = "arithmetic_zero_shot" if name == "hails/bigbench" else "arithmetic"
        splits = load_dataset(name, config or default)
    return splits["default"] if "default" in splits else (row for split in splits.values() for row in split)


def _from_rows(rows: Iterable[Mapping[str, Any]], source: str) -> list[dict[str, Any]]:
    """Items of rows with the hub forms' columns."""
    items = []
    for index, row in enumerate(rows):
        where = f"`{source}`, row {index}"
        if not isinstance(row.get("inputs"), str) or "targets" not in row:
            raise ValueError(f'{where}: expected the columns "inputs" and "targets", got {sorted(row)}.')
        target = row["targets"]
        if not target and row.get("multiple_choice_targets"):
            scores = row["multiple_choice_scores"]
            target = _best(dict(zip(row["multiple_choice_targets"], scores, strict=True)), where)
        items.append(_finish(row["inputs"], target, Path(source).name, where))
    return items


def _best(scores: Any, where: str) -> str:
    """The choice with the highest score."""
    if not isinstance(scores, dict) or not scores:
        raise ValueError(f'{where}: expected a "target" or a "target_scores" with choices, got {scores!r}.')
    best = [choice for choice, score in scores.items() if score == max(scores.values())]
    if len(best) != 1:
        raise ValueError(f"{where}: {len(best)} choices share the highest score, so there is no single target.")
    return best[0]


def _finish(prompt: str, target: Any, name: str, where: str) -> dict[str, Any]:
    """An item with its group, and its operand columns where the question is the task's own."""
    targets = [target] if isinstance(target, str) else target
    if not isinstance(targets, list) or len(targets) != 1 or not isinstance(targets[0], str):
        raise ValueError(f"{where}: exact match needs exactly one target string, got {target!r}.")
    question = parse_question(prompt)
    if question is None:
        return {"prompt": prompt, "target": targets[0], "group": name}
    a, operator, b = question
    digits = max(len(number.lstrip("-")) for number in (a, b))
    group = name if _GROUP.fullmatch(name) else f"{digits}_digit_{_NAMES[operator]}"
    return {
        "prompt": prompt,
        "target": targets[0],
        "group": group,
        "igc_operator": operator,
        "igc_operands": [a, b],
        "igc_result": targets[0].strip(),
    }
