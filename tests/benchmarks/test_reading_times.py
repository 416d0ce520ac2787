"""The benchmark of reading times: its texts are as long as they say, and all kinds are measured."""

from benchmarks.cost import reading_times
from peft_igc.text import Value, read


def test_texts_have_their_length_and_end_as_their_kind_says():
    for length in (64, 512):
        made = list(reading_times.texts("=", length, 20))
        assert all(len(text) >= length * reading_times.CHARACTERS - 1 for text in made)
        assert sum(isinstance(read(text), Value) for text in made) > 15
    assert all(not text.endswith("=") for text in reading_times.texts("message", 64, 20))


def test_every_function_kind_and_length_is_measured(monkeypatch):
    monkeypatch.setattr(reading_times, "LENGTHS", (16, 64))
    found = reading_times.measure(3)
    assert len({(row["function"], row["kind"], row["tokens"]) for row in found}) == len(found) == 12
    assert all(0 < row["p50"] <= row["p99"] for row in found)
