"""The tables of the benchmarks' README are those of the recorded results."""

from __future__ import annotations

import json

import pytest

from benchmarks import tables


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


def total(right, n, of):
    return {"exact_match": right / n if n else None, "n": n, "of": of, "generated_tokens": 5.25 if n else None}


def test_compared_methods_are_shown_with_what_they_skipped_and_what_is_quoted():
    keys = ("all", *tables.OPERATIONS, "held_out", "shifted", "longer")
    whole, part, none = total(9, 10, 10), total(4, 5, 10), total(0, 0, 10)
    run = {"totals": dict.fromkeys(keys, whole), "training": {"parameters": 1000, "seconds": 90.0}}
    skipping = {"totals": dict.fromkeys(keys, whole) | {"longer": part, "all": none}, "training": None}
    found = {
        "runs": {"igc_tokens": run, "scratchpad": skipping},
        "timing": {"igc_tokens": {"passes": 5.0, "seconds": {"median": 0.01}}},
        "quoted": {"accuracy": {"source": "a paper", "PaLM": dict.fromkeys(("all", *tables.OPERATIONS), 0.94)}},
        "traits": {"explicit": {"igc_tokens": {"holds": True}, "scratchpad": {"holds": None}}},
    }
    rows = tables.methods(found).splitlines()
    assert rows[2] == f"| igc tokens | {' | '.join(['90.0'] * 8)} | 5.2 | 5.0 | 10.0 | 1,000 | 2 |"
    assert rows[3] == f"| scratchpad | -* | {' | '.join(['90.0'] * 6)} | 80.0* | -* |  |  |  |  |"
    assert rows[4].startswith("| *quoted: PaLM* | *94* |")
    assert rows[-1] == "| explicit | yes | - |"
    assert len({row.count("|") for row in rows[:5]}) == 1


def test_overheads_are_shown_by_cell_and_method_beside_what_is_held_in_memory():
    cost = {"overhead": {"median": 0.05, "low": -0.01, "high": 0.111}}
    parts = {part: {"base": {}, "lora": cost} for part in ("prefill", "decode")}
    held = {"bytes": 2**20, "table_bytes": 2**19, "parameters": 1234}
    held |= {"record_bytes_per_token": 2048.0, "cache_bytes_per_token": 73728.0}
    cell = {"text": "plain", "mode": "eager", "batch": 8, "prompt": 128, "parts": parts}
    shape = {"cells": [cell], "memory": {"lora": held}, "bytes": 100 * 2**20}
    rows = tables.overhead({"shapes": {"100m": shape}}).splitlines()
    told = "+5.0 (-1.0 to +11.1)"
    assert rows[2] == f"| 100m | 8 × 128 | plain | eager | lora | {told} | - | {told} |"
    assert rows[-1] == "| 100m | lora | 1,234 | 1.00 | 0.50 | 1.50 | 2,048 | 73,728 |"
