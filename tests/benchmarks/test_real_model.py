"""Promises of the benchmark on a real model: the requests are those that were hashed."""

import pytest

from benchmarks.accuracy.real_model import plain_requests
from benchmarks.tables import real_model


@pytest.mark.parametrize(
    ("name", "n"),
    [
        *(("plain_requests", 300), ("new_plain_requests", 200), ("third_plain_requests", 200)),
        *(("fourth_plain_requests", 200), ("fifth_plain_requests", 200), ("sixth_plain_requests", 200)),
        *(("seventh_plain_requests", 200), ("eighth_plain_requests", 120), ("misleading_stories", 100)),
        *(("mentioned_calculations", 150), ("more_mentioned_calculations", 100), ("new_mentioned_calculations", 120)),
    ],
)
def test_the_requests_are_those_that_were_hashed(name, n, tmp_path):
    items = plain_requests(name)
    assert len({item["prompt"] for item in items}) == n
    assert all(item["target"] == item.get("igc_result", item["target"]) for item in items)
    assert all(("igc_operands" in item) == name.endswith("requests") for item in items)
    (tmp_path / f"{name}.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="was fixed before training"):
        plain_requests(name, tmp_path)


def test_the_table_has_a_number_for_each_seed():
    def run(right):
        told = {"n": 1000, "right": right, "wrong": 0, "silent": 1000 - right}
        return {"sets": {"bigbench": told, "harm": {}, "absent": None},
                "base": {"bigbench": {"whole_answer": 0.05, "number_only": 0.2}}}  # fmt: skip

    table = real_model({"runs": {"0": run(990), "1": run(980)}})
    assert table.splitlines()[2] == "| bigbench | 1,000 | 990, 980 | 0, 0 | 10, 20 | 5.0 | 20.0 |"
    assert len(table.splitlines()) == 3
