"""Rows from files: JSON lines, for evaluations also CSV, and either of them compressed with gzip.

`read_items` reads the evaluation files of `peft-igc eval`, whose items are checked; `read_rows` reads the objects of a
file of JSON lines as they are; `read_prompts` reads prompts alone. Errors name the file and the line. Nothing is
tokenized here.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


_FIELDS = ("prompt", "target", "group")


def read_items(path: str | Path) -> list[dict[str, Any]]:
    """Evaluation items from a file: CSV if its name ends in `.csv` or `.csv.gz`, else JSON lines.

    The fields `prompt` and `target` are required, `group` is optional; other fields are kept. A `target` in JSON may
    be an integer. A CSV file begins with a line of names.

    Raises:
        FileNotFoundError: No such file.
        ValueError: An empty file, or a line that is no item; the message names file and line.
    """
    return [_checked(item, where) for where, item in _placed_rows(path, 'with "prompt" and "target"')]


def read_rows(path: str | Path, *, wanted: str = "that is a training row") -> list[dict[str, Any]]:
    """The objects of a file with one JSON object per line; their fields are not checked.

    Args:
        path: Path of the file, which may be compressed (`.gz`).
        wanted: Completes "an object" in error messages.

    Raises:
        FileNotFoundError: No such file.
        ValueError: An empty file, or a line that is not an object; the message names file and line.
    """
    lines = _content(Path(path)).split(b"\n")
    if lines[-1] in (b"", b"\r"):
        lines.pop()  # after the end of the last line
    if not lines:
        raise ValueError(f"`{path}` is empty: expected one JSON object {wanted} per line.")
    return [_parse_line(line, f"`{path}`, line {number}", wanted) for number, line in enumerate(lines, start=1)]


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSON lines, and makes the folder."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


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
        for where, row in _placed_rows(path, 'with "prompt"'):
            if not isinstance(prompt := row.get("prompt"), str) or not prompt.strip():
                raise ValueError(f'{where}: "prompt" must be a text, got {prompt!r}; the fields are {sorted(row)}.')
            found.append(prompt)
        return found
    lines = [line for line in _decoded(Path(path)).splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"`{path}` is empty: expected one prompt per line.")
    return lines


def _placed_rows(path: str | Path, wanted: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of CSV or JSON lines, each after its file and line; `wanted` as in `read_rows`."""
    if str(path).lower().removesuffix(".gz").endswith(".csv"):
        return _read_csv(Path(path))
    return [(f"`{path}`, line {number}", row) for number, row in enumerate(read_rows(path, wanted=wanted), start=1)]


def _content(path: Path) -> bytes:
    """The bytes of a file, decompressed and without a byte order mark."""
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise FileNotFoundError(f"The file `{path}` {problem}. Pass the name of a file.")
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"`{path}` is not a complete gzip file: {error}. Copy it again.") from error
    return content.removeprefix(b"\xef\xbb\xbf")


def _decoded(path: Path) -> str:
    """The text of a file."""
    try:
        return _content(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` is not in UTF-8: {error}. Save it in this encoding.") from error


def _parse_line(line: bytes, where: str, wanted: str) -> dict[str, Any]:
    """One object."""
    if not line.strip():
        raise ValueError(f"{where}: the line is empty. Remove it, or restore its object.")
    try:
        item = json.loads(line)
    except ValueError as error:  # bad JSON or bad UTF-8
        raise ValueError(f"{where}: not valid JSON: {error}. Write one object per line.") from error
    if not isinstance(item, dict):
        raise ValueError(f"{where}: expected an object {wanted}, got {item!r}.")
    return item


def _read_csv(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The lines of a CSV file, each after its place. An empty `group` is no group."""
    reader = csv.DictReader(io.StringIO(_decoded(path), newline=""), strict=True)
    items = []
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


def _checked(item: dict[str, Any], where: str) -> dict[str, Any]:
    """An object as an evaluation item, with its target as a string."""
    for name in _FIELDS[:2]:
        if name not in item:
            raise ValueError(f'{where}: the field "{name}" is missing; there are {sorted(item)}.')
    if isinstance(item["target"], int) and not isinstance(item["target"], bool):
        item = item | {"target": str(item["target"])}  # exact, unlike a float
    if item["target"] is None:
        raise ValueError(
            f'{where}: "target" is null, so there is nothing to compare an answer with. Leave the row out, or write '
            "the right answer there; `peft-igc calibrate` takes rows in which silence is right."
        )
    for name in _FIELDS:
        if name in item and not isinstance(item[name], str):
            raise ValueError(f'{where}: "{name}" must be a string, got {item[name]!r}. Put it in quotation marks.')
    if not item["prompt"].strip():
        raise ValueError(f'{where}: "prompt" is empty.')
    return item
