"""What `benchmarks/harm/hostile_folders.py` promises: hostile folders are refused or harmless; its alarms."""

import random
import shutil
import time

import pytest
import torch

from benchmarks.harm import hostile_folders as hostile


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return hostile.good_folders(tmp_path_factory.mktemp("good"))


def test_sound_adapters_load(good):
    for folder in good:
        assert hostile.attempt(folder, hostile.base_model()) == ("loaded", "")


@pytest.mark.parametrize("change", dict.fromkeys(hostile.KINDS), ids=lambda change: change.__name__)
def test_no_change_of_a_kind_is_unclean(good, change, tmp_path):
    rng = random.Random(change.__name__)
    for index in range(4):
        folder = tmp_path / str(index) / "adapter"
        shutil.copytree(good[0 if change in (hostile.table, hostile.vocabulary) else index % 2], folder)
        what = change(folder, rng)
        outcome, said = hostile.attempt(folder, hostile.base_model())
        assert outcome in ("refused", "loaded"), (what, said)


@pytest.mark.slow
def test_two_hundred_folders_are_refused_or_harmless():
    found = hostile.run(200, seed=1)
    assert found["unclean"] == []
    assert all(kind["refused"] for kind in found["kinds"].values())
    assert found["slowest_seconds"] < hostile.SECONDS


# ------------------------------------------------------------------------------------------ the alarms
@pytest.mark.parametrize(
    ("deed", "said"),
    [
        (lambda: time.sleep(3), "more than 1 seconds"),
        (lambda: torch.empty(1 << 34, dtype=torch.int8), "RuntimeError"),
        (lambda: hostile.socket.create_connection(("127.0.0.1", 9)), "a connection to"),
        (lambda: {}["x"], "KeyError"),
        (lambda: int("x"), "ValueError: invalid literal"),  # not raised by the package
    ],
    ids=["time", "memory", "network", "other error", "another's error"],
)
def test_what_must_not_happen_is_noticed(good, monkeypatch, deed, said):
    monkeypatch.setattr(hostile, "SECONDS", 1)
    monkeypatch.setattr(hostile, "load_adapter", lambda base, folder: deed())
    outcome, words = hostile.attempt(good[0], hostile.base_model())
    assert outcome == "unclean"
    assert said in words


def test_a_program_that_ran_and_logits_that_are_not_finite_are_noticed(good, monkeypatch, tmp_path):
    shutil.copytree(good[0], tmp_path / "adapter")

    class Broken:
        def __call__(self, input_ids):
            return self

        logits = torch.tensor([float("nan")])

    monkeypatch.setattr(hostile, "load_adapter", lambda base, folder: Broken())
    assert hostile.attempt(tmp_path / "adapter", None) == ("unclean", "logits that are not finite")
    hostile.pickle.loads(hostile.pickle.dumps(hostile.Program(tmp_path / "executed")))
    assert hostile.attempt(tmp_path / "adapter", None)[0] == "unclean"
    monkeypatch.undo()
    assert hostile.attempt(tmp_path / "adapter", hostile.base_model()) == ("unclean", "a program ran")


def test_without_the_limits_the_sizes_of_a_config_would_be_made(good, tmp_path):
    """The checks that refuse them are worth their names: each of these was loaded or did not end before."""
    import json

    for name, value, message in (
        ("reading_ffn", 1 << 16, "describes an adapter of"),
        ("reading_layers", 10**9, "is above 64"),
        ("num_digits", 1 << 40, "is above 65,536"),
    ):
        folder = tmp_path / name
        shutil.copytree(good[1], folder)
        config = json.loads((folder / hostile.CONFIG).read_text())
        (folder / hostile.CONFIG).write_text(json.dumps(config | {name: value}))
        outcome, said = hostile.attempt(folder, hostile.base_model())
        assert outcome == "refused"
        assert message in said
