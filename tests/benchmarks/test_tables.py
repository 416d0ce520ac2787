"""The tables of the pages are those of the recorded results, and the judge of written calculations is right."""

from __future__ import annotations

import re

import pytest

from benchmarks import tables


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
