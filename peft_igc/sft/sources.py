"""Rows of a loaded dataset and the file that they come from: a name for each row, and the exact numbers.

In: a dataset with operand columns as `datasets` has loaded it, and the path that the user gave. Out: the same dataset
with the column `igc_row`, by which errors name a row that was shuffled, split off or held out since, and with integers
as strings, so that datasets can be joined. `datasets` (5.2) gives each column one type: JSON if it has integers and
strings, floats if it has integers and a float, or one beyond 64 bits. The values are then read from the JSONL file.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from ..data.columns import ALL_COLUMNS, COLUMNS, ROW_COLUMN, canonical


_SUFFIXES = (".jsonl", ".json")  # of files with one object per line
_MARK = b"\xef\xbb\xbf"  # byte order mark


def with_named_rows(part: Any, path: str) -> Any:
    """The dataset with names of its rows and with integers as strings. One without operand columns stays as it is.

    Of a stream, the lines are not known. `path` is what the user named: a file, a folder or a hub id.

    Raises:
        ValueError: A number in a JSONL file is not exact; the message names the line.
    """
    if not hasattr(part, "__len__") or not set(ALL_COLUMNS) & set(part.column_names):
        return part
    file, lines = _file_of(part, Path(path).expanduser())
    rows = [f"`{file}`, line {number}" for number, _ in lines] or [f"`{path}`, row {i}" for i in range(len(part))]
    for name in set(COLUMNS[1:]) & set(part.column_names):
        loaded = part[name][:]
        values = [json.loads(line).get(name) for _, line in lines] or loaded
        texts = [_text(value, name, row) for value, row in zip(values, rows, strict=True)]
        if texts != loaded:
            with contextlib.suppress(TypeError, ValueError):  # of Arrow: other types, which are refused later
                part = part.remove_columns(name).add_column(name, texts)
    return part.add_column(ROW_COLUMN, rows)


def _file_of(part: Any, path: Path) -> tuple[Path | None, list[tuple[int, bytes]]]:
    """The JSONL file that has the rows of a dataset, and its lines with their numbers; (None, []) if it is not known.

    Of a folder with several files it is the one with as many lines as there are rows.
    """
    files = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    found = []
    for file in (file for file in files if file.suffix in _SUFFIXES and file.is_file()):
        numbered = enumerate(file.read_bytes().removeprefix(_MARK).split(b"\n"), start=1)
        lines = [(number, line) for number, line in numbered if line.strip()]
        if len(lines) == len(part) and all(line.lstrip().startswith(b"{") for _, line in lines):
            found.append((file, lines))
    return found[0] if len(found) == 1 else (None, [])


def _text(value: Any, name: str, row: str) -> Any:
    """An entry of a column with integers as strings; floats are refused."""
    if isinstance(value, list):
        return [_text(one, name, row) for one in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return canonical(value, name, row) if is_number else value
