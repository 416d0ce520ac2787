"""Rows in which number tokens are equally frequent: our reading of the paper's "optimized dataset by filtering out
frequently-occurring subsequences of tokens".

In: an endless stream of rows with operand columns, a tokenizer or its token table. Out: n of them, and how far the
commonest token of each place stood above the median before and after. A place is an operand and the index of a token
within it: in groups of three, `58213 - 907` has "582" and "13" in the places (1, 0) and (1, 1) and "907" in (2, 0).
The rule: a row is taken if none of its tokens was taken `level` times before in its place. The level begins at 1, and
rises by one each time that `patience` rows of one kind were refused running, for this kind. Kinds (operator, and
number or refusal) keep the shares that they have in the stream. Rows without operands are taken as they come.
It makes short numbers rarer, because few tokens spell them. Results, phrasings and signs are not balanced, nothing is
made up, and refused rows are not kept in memory. Try it: `pytest tests/benchmarks/test_balance.py`.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from peft_igc.numbers.token_table import TokenTable
from peft_igc.numbers.tokenizer_profile import TokenizerProfile
from peft_igc.text.token_bytes import token_ids


__all__ = ["Balanced", "balanced", "spread"]

_Place = tuple[int, int]  # operand 1 or 2, index of the token within it
_Key = tuple[_Place, str]
_Split = Callable[[str], list[str]]  # a number to what its tokens spell


class Balanced(NamedTuple):
    """What `balanced` gives.

    Attributes:
        rows: In an order drawn with the seed.
        report: As JSON values: `rows`, `drawn` (rows of the stream that were looked at), `levels` (the last one of
            each kind), `before` (`spread` of the first n rows of the stream) and `after` (of those taken).
    """

    rows: list[dict[str, Any]]
    report: dict[str, Any]


def balanced(
    rows: Iterable[Mapping[str, Any]], tokenizer: Any, n: int, seed: int = 0, *, patience: int = 20
) -> Balanced:
    """Takes n rows of a stream so that each number token is about equally frequent in each place.

    Args:
        rows: Without end, such as `data.ArithmeticRows`; with operand columns for one anchor.
        tokenizer: A tokenizer, which is asked how it splits each number; or a `TokenTable`, which splits in groups
            from the left.
        n: Rows to take.
        seed: Of their order. Which rows are taken follows from the stream alone.
        patience: Rows of one kind refused running before its level rises. More: flatter, and more of the stream is
            drawn.

    Raises:
        ValueError: The stream ends before n rows; `n` or `patience` below 1; a row with several anchors, or with
            operands that are no numbers; a tokenizer without tokens for digits.
    """
    for name, value in (("n", n), ("patience", patience)):
        if value < 1:
            raise ValueError(f"`{name}={value}` must be at least 1.")
    split = _splitter(tokenizer)
    drawn: Counter[str] = Counter()  # rows by kind
    taken: Counter[str] = Counter()
    before: Counter[_Key] = Counter()
    after: Counter[_Key] = Counter()
    levels: Counter[str] = Counter()
    misses: Counter[str] = Counter()
    made: list[dict[str, Any]] = []
    for row in rows:
        where = f"row {drawn.total()} of the stream"
        kind, keys = _kind(row, where), _keys(row, split, where)
        if drawn.total() < n:
            before.update(keys)
        drawn[kind] += 1
        level = levels.setdefault(kind, 1)
        if taken[kind] * drawn.total() > n * drawn[kind]:
            continue  # this kind has its share of n rows
        if any(after[key] >= level for key in keys):
            misses[kind] += 1
            if misses[kind] == patience:
                levels[kind], misses[kind] = level + 1, 0
            continue
        misses[kind] = 0
        taken[kind] += 1
        after.update(keys)
        made.append(dict(row))
        if len(made) == n:
            break
    else:
        raise ValueError(
            f"The stream ended after {drawn.total():,} rows, of which {len(made):,} of {n:,} were taken. Pass an "
            "endless one, such as `ArithmeticRows`, or take fewer."
        )
    random.Random(f"balanced/{seed}").shuffle(made)
    report = {"rows": n, "drawn": drawn.total(), "levels": dict(sorted(levels.items()))}
    return Balanced(made, report | {"before": _spread(before), "after": _spread(after)})


def spread(rows: Iterable[Mapping[str, Any]], tokenizer: Any) -> dict[str, dict[str, Any]]:
    """How unequal the number tokens of rows are, by place.

    Args:
        rows, tokenizer: As in `balanced`, but with an end.

    Returns:
        For each place, such as `"operand 1, token 0"`: `tokens` (different ones), `max` and `median` of how often each
        occurs, and their ratio `max_over_median`. Tokens that do not occur do not count.
    """
    split, counts = _splitter(tokenizer), Counter[_Key]()
    for index, row in enumerate(rows):
        counts.update(_keys(row, split, f"row {index}"))
    return _spread(counts)


def _spread(counts: Counter[_Key]) -> dict[str, dict[str, Any]]:
    """As `spread`, of counts."""
    places: dict[_Place, list[int]] = {}
    for (place, _), count in sorted(counts.items()):
        places.setdefault(place, []).append(count)
    found: dict[str, dict[str, Any]] = {}
    for (operand, index), many in places.items():
        most, median = max(many), statistics.median(many)
        found[f"operand {operand}, token {index}"] = {
            "tokens": len(many),
            "max": most,
            "median": median,
            "max_over_median": round(most / median, 3),
        }
    return found


def _splitter(tokenizer: Any) -> _Split:
    """How a number's digits are cut into tokens."""
    if isinstance(tokenizer, TokenTable):
        group = tokenizer.group
        return lambda number: [number[start : start + group] for start in range(0, len(number), group)]
    profile = TokenizerProfile.from_tokenizer(tokenizer)
    if profile.family != "irregular" and not profile.gaps:
        return _splitter(profile.table)
    digits = profile.digits

    def pieces(number: str) -> list[str]:
        found = [digits[token] for token in token_ids(tokenizer, [number])[0] if token in digits]
        if "".join(found) != number:
            raise ValueError(f"The tokens of {number} spell {found}. Use another tokenizer, or pass a `TokenTable`.")
        return found

    return pieces


def _kind(row: Mapping[str, Any], where: str) -> str:
    """What keeps its share: the operator, and what becomes of it where that is no number."""
    operator, result = row.get("igc_operator"), row.get("igc_result")
    if isinstance(operator, (list, tuple)):
        raise ValueError(f"{where} has several anchors, but numbers are balanced for one. Pass rows with one.")
    refusal = "" if not isinstance(result, str) or result.lstrip("-").isdecimal() else f" {result}"
    return f"{operator}{refusal}"


def _keys(row: Mapping[str, Any], split: _Split, where: str) -> list[_Key]:
    """The tokens of a row's operands, each with its place; no two are equal."""
    keys = []
    for operand, number in enumerate(row.get("igc_operands") or (), start=1):
        if not isinstance(number, str) or not number.lstrip("-").isdecimal():
            raise ValueError(f"{where}: `igc_operands` holds {number!r}, which is no number written as a string.")
        keys += [((operand, index), piece) for index, piece in enumerate(split(number.lstrip("-")))]
    return keys
