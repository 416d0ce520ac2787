"""The tables of the pages are those of the recorded results, and the judge of written calculations is right."""

from __future__ import annotations

import re

import pytest

from benchmarks import tables
from benchmarks.common.written_calculations import calculations


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.parent.name)
def test_every_table_is_that_of_its_results(page):
    text = page.read_text(encoding="utf-8")
    assert tables.filled(text) == text


def test_every_table_is_on_a_page_and_every_result_is_read_by_a_table():
    pages = "".join(page.read_text(encoding="utf-8") for page in tables.PAGES)
    assert set(re.findall(r"<!-- (\w+) -->", pages)) == set(tables.TABLES)
    source = (tables.ROOT / "benchmarks" / "tables.py").read_text(encoding="utf-8")
    for path in tables.RESULTS.glob("*.json"):
        assert f'"{path.stem}"' in source, f"`{path.name}` is in no table."


@pytest.mark.parametrize(("part", "shown"), [(1.0, "100.0"), (0.9999, "99.9"), (0.29, "29.0"), (0.0, "0.0")])
def test_shares_are_rounded_down(part, shown):
    assert tables.percent(part) == shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She sold 30 snakes * 3 birds/snake = 90 birds", True),
        ("She gets 10% of $5000/4 = $125", True),
        ("10/3 = 3.33", True),
        ("48/2 = 25", False),
        ("3 - 5 = 2", False),
        ("1 1/2 * 4 = 6", None),
        ("x = 5", None),
    ],
)
def test_true_calculations_are_told_from_untrue_and_unreadable_ones(text, expected):
    assert [one.is_true for one in calculations(text)] == [expected]
