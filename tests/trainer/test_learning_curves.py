"""Learning curves: which values are drawn, where the picture is, what happens where it cannot be."""

import sys

from peft_igc.trainer import record as curves
from peft_igc.trainer.record import draw_curves, series


HISTORY = [
    {"loss": 3.0, "igc/loss_read": 2.0, "igc/read_accuracy": 0.0, "grad_norm": 1.0, "epoch": 0.1, "step": 10},
    {"eval_loss": 2.5, "eval_igc/loss_read": 1.5, "eval_exact_match": 0.25, "eval_runtime": 9.0, "step": 10},
    {"loss": 2.0, "igc/loss_read": 1.0, "igc/read_accuracy": 0.5, "learning_rate": 0.1, "step": 20},
    {"eval_sums_loss": 2.5, "eval_sums_exact_match": 0.5, "eval_sums_exact_match_skipped": 3.0, "step": 20},
    {"eval_sums_igc/read_accuracy": 0.75, "step": 20},
    {"train_runtime": 60.0, "train_loss": 2.5, "total_flos": 1, "step": 20},
]


def test_losses_read_accuracy_and_exact_match_are_taken_from_the_log_each_at_its_step():
    assert series(HISTORY) == {
        "loss (nats)": {
            "loss": [(10, 3.0), (20, 2.0)],
            "reading loss": [(10, 2.0), (20, 1.0)],
            "loss, eval": [(10, 2.5)],
            "reading loss, eval": [(10, 1.5)],
            "loss, eval sums": [(20, 2.5)],
        },
        "part right": {
            "read accuracy": [(10, 0.0), (20, 0.5)],
            "exact match, eval": [(10, 0.25)],
            "exact match, eval sums": [(20, 0.5)],
            "read accuracy, eval sums": [(20, 0.75)],
        },
    }


def test_what_prevents_a_picture_is_told_and_ends_nothing(tmp_path, monkeypatch, caplog):
    history = [{"loss": value, "step": step} for step, value in enumerate([float("nan"), float("inf"), -1.0, 0.0])]
    assert draw_curves(history, tmp_path / "new" / "curves.png")  # not even such losses
    assert not draw_curves([{"train_runtime": 1.0, "step": 2}], tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()
    (tmp_path / "file").write_text("in the way")
    assert not draw_curves(HISTORY, tmp_path / "file" / "curves.png")
    assert "The learning curves could not be written to" in caplog.text
    monkeypatch.setattr(curves, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import is an error
    assert not draw_curves(HISTORY, tmp_path / "curves.png")
    assert "matplotlib is not installed, so no learning curves are drawn" in caplog.text
