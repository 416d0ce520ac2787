"""The tables of both READMEs are those of the recorded results."""

from __future__ import annotations

import json

import pytest
import tables


RECORDED = [name for name in tables.TABLES if (tables.RESULTS / f"{name}.json").exists()]
BALANCED = {"runs": {"as drawn": {"0": {"exact_match": 0.98999}, "1": {"exact_match": 0.95}}}}


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results with one file."""
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "balanced_rows.json").write_text(json.dumps(BALANCED))


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.parent.name)
def test_every_table_is_that_of_its_results(page):
    text = page.read_text(encoding="utf-8")
    assert tables.filled(text) == text


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_results_are_shown_once(name):
    assert sum(page.read_text(encoding="utf-8").count(f"<!-- {name} -->\n") for page in tables.PAGES) == 1


def test_a_table_is_written_between_its_marks_and_nowhere_else(results):
    page = "before\n<!-- balanced_rows -->\nold\n<!-- /balanced_rows -->\nafter\n"
    table = "| rows | exact |\n| --- | --- |\n| as drawn | 95.0, 98.9 |\n"
    assert tables.filled(page) == f"before\n<!-- balanced_rows -->\n{table}<!-- /balanced_rows -->\nafter\n"


def test_a_table_without_an_end_is_refused(results):
    with pytest.raises(SystemExit, match="`<!-- balanced_rows -->` has no `<!-- /balanced_rows -->` behind it"):
        tables.filled("<!-- balanced_rows -->\nold\n")


@pytest.mark.parametrize(("part", "shown"), [(1.0, "100.0"), (0.9999, "99.9"), (0.29, "29.0"), (0.0, "0.0")])
def test_shares_are_rounded_down(part, shown):
    assert tables.percent(part) == shown
