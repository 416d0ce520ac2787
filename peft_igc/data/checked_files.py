"""Files whose calculations are checked: texts, Markdown, JSON lines or CSV, each also compressed.

In: a file. Out: its claims, each with its line. Files are read line by line; of JSON every text is read, at any depth,
and of CSV every cell.
Try it: `pytest tests/text/test_checking.py`
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..text.claims import Claim, check


class Found(NamedTuple):
    """A claim of a file.

    Attributes:
        line: of the file, from 1.
        field: of JSON, or the column of CSV; "" in a text.
        text: the line of a text that has the claim.
        claim: the claim.
    """

    line: int
    field: str
    text: str
    claim: Claim

    def as_dict(self) -> dict[str, Any]:
        """The fields of `peft-igc check --json`. Columns count characters of the line's text, from 1."""
        claim = self.claim
        return {
            "line": self.line,
            **({"field": self.field} if self.field else {}),
            "column": claim.span[0] + 1,
            "text": self.text[slice(*claim.span)],
            "verdict": claim.verdict.value,
            "number": claim.number,
            "value": claim.value,
            "rounded": claim.rounded,
            "reason": claim.reason.name.lower(),
        }


def find_files(names: Iterable[str]) -> list[Path]:
    """The paths of files, all of which have to be there before one is read.

    Raises:
        FileNotFoundError: Some are not; names all of them.
    """
    paths = [Path(name).expanduser() for name in names]
    if missing := [f"`{path}`" for path in paths if not path.is_file()]:
        raise FileNotFoundError(
            f"{', '.join(missing)}: no such file, so nothing was checked. Pass text, Markdown, JSONL or CSV files."
        )
    return paths


def check_file(path: Path) -> Iterator[Found]:
    """The claims of a file, in order.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is not in UTF-8, not a gzip file, or a line of JSON is malformed; names the line.
    """
    name = path.name.lower()
    opened = gzip.open if name.endswith(".gz") else open
    kind = Path(name.removesuffix(".gz")).suffix
    reader = {".jsonl": _json_lines, ".csv": _cells}.get(kind, _text_lines)
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            for line, field, text in reader(path, file):
                yield from (Found(line, field, text, claim) for claim in check(text))
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` is not in UTF-8: {error}. Save it in this encoding.") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"`{path}` is not a complete gzip file: {error}. Copy it again.") from error


_Lines = Iterator[tuple[int, str, str]]  # the first three fields of `Found`


def _text_lines(path: Path, file: IO[str]) -> _Lines:
    for number, text in enumerate(file, start=1):
        yield number, "", text.rstrip("\r\n")


def _json_lines(path: Path, file: IO[str]) -> _Lines:
    for number, text in enumerate(file, start=1):
        try:
            row = json.loads(text) if text.strip() else None
        except ValueError as error:
            raise ValueError(f"`{path}`, line {number}: not valid JSON: {error}.") from error
        for field, found in _texts(row, ""):
            yield from ((number, field, one) for one in found.splitlines())


def _texts(value: Any, field: str) -> Iterator[tuple[str, str]]:
    """The texts within a JSON value, each with its path: `messages.1.content`."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(inner, f"{field}.{key}" if field else str(key))


def _cells(path: Path, file: IO[str]) -> _Lines:
    reader = csv.reader(file)
    names: list[str] = next(reader, [])
    try:
        for row in reader:
            for at, cell in enumerate(row):
                field = names[at] if at < len(names) else str(at + 1)
                yield from ((reader.line_num, field, one) for one in cell.splitlines())
    except csv.Error as error:
        raise ValueError(f"`{path}`, line {reader.line_num}: not valid CSV: {error}.") from error
