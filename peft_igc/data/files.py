"""Files of rows, of prompts, and of texts to check: JSON lines, CSV, plain text, each also compressed with gzip.

Errors name the file and the line.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..text.claims import Claim, check


def read_items(path: str | Path) -> list[dict[str, Any]]:
    """Evaluation items from a file: CSV if its name ends in `.csv` or `.csv.gz`, else JSON lines.

    The fields `prompt` and `target` are required, `group` is optional; other fields are kept. A `target` in JSON may
    be an integer. A CSV file begins with a line of names.

    Raises:
        FileNotFoundError: No such file.
        ValueError: An empty file, or a line that is no item; the message names file and line.
    """
    return [_checked(item, where) for where, item in placed_rows(path, 'with "prompt" and "target"')]


def read_rows(path: str | Path, *, wanted: str = "that is a training row") -> list[dict[str, Any]]:
    """The objects of a file with one JSON object per line, which may be compressed (`.gz`); their fields are not
    checked. `wanted` completes "an object" in error messages.

    Raises:
        FileNotFoundError: No such file.
        ValueError: An empty file, or a line that is not an object; the message names file and line.
    """
    with _opened(Path(path), "rb") as file:
        lines = file.read().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if lines[-1] in (b"", b"\r"):
        lines.pop()  # after the end of the last line
    if not lines:
        raise ValueError(f"`{path}` is empty: expected one JSON object {wanted} per line.")
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        where = f"`{path}`, line {number}"
        if not line.strip():
            raise ValueError(f"{where}: the line is empty. Remove it, or restore its object.")
        try:
            rows.append(json.loads(line))
        except ValueError as error:  # bad JSON or bad UTF-8
            raise ValueError(f"{where}: not valid JSON: {error}. Write one object per line.") from error
        if not isinstance(rows[-1], dict):
            raise ValueError(f"{where}: expected an object {wanted}, got {rows[-1]!r}.")
    return rows


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSON lines, compressed if the name ends in `.gz`, and makes the folder."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    Path(path).write_bytes(gzip.compress(text) if Path(path).suffix.lower() == ".gz" else text)


def read_prompts(path: str | Path) -> list[str]:
    """Prompts from a file: JSON lines (a name that ends in `.jsonl` or `.json`) or CSV with the field `prompt`, or a
    text file with one prompt per line.

    Empty lines of a text are left out. Each of them may be compressed (`.gz`).

    Raises:
        FileNotFoundError: No such file.
        ValueError: A file without prompts, or a line that has none; the message names file and line.
    """
    if str(path).lower().removesuffix(".gz").endswith((".csv", ".jsonl", ".json")):
        found = []
        for where, row in placed_rows(path, 'with "prompt"'):
            if not isinstance(prompt := row.get("prompt"), str) or not prompt.strip():
                raise ValueError(f'{where}: "prompt" must be a text, got {prompt!r}; the fields are {sorted(row)}.')
            found.append(prompt)
        return found
    with _opened(Path(path)) as file:
        lines = [line for line in file.read().splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"`{path}` is empty: expected one prompt per line.")
    return lines


def placed_rows(path: str | Path, wanted: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of CSV or JSON lines, each after its file and line; `wanted` as in `read_rows`. An empty `group` of
    CSV is no group."""
    if not str(path).lower().removesuffix(".gz").endswith(".csv"):
        return [(f"`{path}`, line {at}", row) for at, row in enumerate(read_rows(path, wanted=wanted), start=1)]
    items = []
    with _opened(Path(path)) as file:
        reader = csv.DictReader(file, strict=True)
        try:
            for row in reader:
                where = f"`{path}`, line {reader.line_num}"
                if None in row or None in row.values():
                    raise ValueError(f"{where}: expected {len(reader.fieldnames or ())} fields as in the first line.")
                items.append((where, {k: v for k, v in row.items() if v or k != "group"}))
        except csv.Error as error:
            raise ValueError(f"`{path}`, line {reader.reader.line_num}: not valid CSV: {error}.") from error
    if not items:
        raise ValueError(f"`{path}` is empty: expected a line of names, such as `prompt,target`, and items below it.")
    return items


@contextmanager
def _opened(path: Path, mode: str = "rt") -> Iterator[IO[Any]]:
    """A file, decompressed; as text without a byte order mark, whose line ends stay as they are."""
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"The file `{path}` {problem}. Pass the name of a file.")
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    options = {"encoding": "utf-8-sig", "newline": ""} if mode == "rt" else {}
    try:
        with opener(path, mode, **options) as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` is not in UTF-8: {error}. Save it in this encoding.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"`{path}` is not a complete gzip file: {error}. Copy it again.") from error


def _checked(item: dict[str, Any], where: str) -> dict[str, Any]:
    """An object as an evaluation item, with its target as a string."""
    for name in ("prompt", "target"):
        if name not in item:
            raise ValueError(f'{where}: the field "{name}" is missing; there are {sorted(item)}.')
    if isinstance(item["target"], int) and not isinstance(item["target"], bool):
        item = item | {"target": str(item["target"])}  # exact, unlike a float
    if item["target"] is None:
        raise ValueError(
            f'{where}: "target" is null, so there is nothing to compare an answer with. Leave the row out, or write '
            "the right answer there; `peft-igc calibrate` takes rows in which silence is right."
        )
    for name in ("prompt", "target", "group"):
        if name in item and not isinstance(item[name], str):
            raise ValueError(f'{where}: "{name}" must be a string, got {item[name]!r}. Put it in quotation marks.')
    if not item["prompt"].strip():
        raise ValueError(f'{where}: "prompt" is empty.')
    return item


# ------------------------------------------------------------------------------------------ claims of a file
class Found(NamedTuple):
    """A claim of a file."""

    line: int  # of the file, from 1
    field: str  # of JSON, or the column of CSV; "" in a text
    text: str  # the line of a text that has the claim
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
            f"{', '.join(missing)}: no such file, or a folder, so nothing was checked. Pass text, JSONL or CSV files."
        )
    return paths


def check_file(path: Path) -> Iterator[Found]:
    """The claims of a file, line by line: of JSON in every text, at any depth, and of CSV in every cell.

    Raises:
        FileNotFoundError: No such file.
        ValueError: It is not in UTF-8, not a gzip file, or a line of JSON is malformed; names the line.
    """
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    reader = {".jsonl": _json_lines, ".csv": _cells}.get(kind, _text_lines)
    with _opened(path) as file:
        for line, field, text in reader(path, file):
            yield from (Found(line, field, text, claim) for claim in check(text))


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
    reader, names, begin = csv.reader(file), list[str](), 1
    try:
        for row in reader:
            for at, cell in enumerate(row):
                field = names[at] if at < len(names) else str(at + 1)
                yield from ((begin, field, one) for one in cell.splitlines())
            names, begin = names or row, reader.line_num + 1  # the first line may have names
    except csv.Error as error:
        raise ValueError(f"`{path}`, line {reader.line_num}: not valid CSV: {error}.") from error
