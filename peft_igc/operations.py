"""Operations of one's own: a Python function, or a look-up in a database, that the calculator calls.

    import peft_igc
    from peft_igc.operations import sqlite_lookup

    price = sqlite_lookup("prices.sqlite", "select price from articles where number = ?")
    peft_igc.register_operation(name="price", operands=1, strings=True)(price)

Register it before an adapter that names it is loaded. Try it: `pytest tests/text/test_operations.py`
"""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .text.operations import register_operation


__all__ = ["register_operation", "sqlite_lookup"]


def sqlite_lookup(path: str | Path, query: str) -> Callable[..., Any]:
    """A function of keys that looks up one value in a SQLite database.

    Args:
        path: Of the database, which is opened for reading only, in each call.
        query: With a `?` for each key. Keys are parameters, so nothing of a text becomes SQL. They are strings of
            digits, as SQLite compares them with columns of numbers and of texts.

    Returns:
        A function that returns the first value of the first row, None without a row. Register it with `strings=True`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The query cannot be run on it.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"`{path}` does not exist. Pass the path of a SQLite database.")

    def first(query: str, keys: tuple[str, ...]) -> Any:
        with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(query, keys).fetchone()
        return None if found is None else found[0]

    try:
        first(f"explain {query}", ("0",) * query.count("?"))
    except sqlite3.Error as error:
        raise ValueError(f"The query {query!r} cannot be run on `{path}`: {error}. Correct it or the path.") from error
    return lambda *keys: first(query, keys)
