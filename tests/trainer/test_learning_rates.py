"""Promises of the learning rates in the log: each under its own name, at every step of a schedule."""

import pytest
from tiny_training import WARNINGS, igc_model, trainer

from peft_igc.trainer.learning_rates import name_rates


pytestmark = [pytest.mark.filterwarnings(warning) for warning in WARNINGS]
STEPS = {"max_steps": 4, "logging_steps": 1, "warmup_steps": 2, "lr_scheduler_type": "linear", "learning_rate": 1e-3}


def logged(tmp_path, capsys, **more):
    """The entries of the history with a learning rate, and what was printed."""
    made = trainer(tmp_path, model=igc_model(), **STEPS, **more)
    name_rates(made)
    made.train()
    return [entry for entry in made.state.log_history if "learning_rate" in entry], capsys.readouterr().out


def test_with_two_optimizers_both_rates_are_logged(tmp_path, capsys):
    entries, printed = logged(tmp_path / "muon", capsys, igc_muon_learning_rate=1e-2)
    plain, _ = logged(tmp_path / "plain", capsys)
    assert len(entries) == 4
    rates = [one["learning_rate"] for one in plain]
    assert [one["learning_rate"] for one in entries] == pytest.approx(rates)
    assert [one["learning_rate_muon"] for one in entries] == pytest.approx([10 * rate for rate in rates])
    assert len(set(rates)) > 2
    assert printed.count("'learning_rate_muon': '0.01'") == 1  # the peak


def test_with_one_optimizer_nothing_changes(tmp_path, capsys):
    entries, printed = logged(tmp_path, capsys)
    assert len(entries) == 4
    assert "learning_rate_muon" not in printed
