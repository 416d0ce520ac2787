"""Every number of the demonstrations: one with each interface.

`SETTINGS` holds them by interface; `demo` uses them and has none of its own. Try it: `pytest tests/test_demo.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .data import TOKENS_MIXTURE, Mixture


__all__ = ["SETTINGS", "DemoSettings"]


@dataclass(frozen=True)
class DemoSettings:
    """Every number of the demonstration, in the order in which they are used."""

    # The adapter: interface, layer, longest numbers, widths. What is None has no meaning in the interface.
    interface: str
    num_digits: int
    result_digits: int
    layer: int = 1
    reading_dim: int = 192
    reading_ffn: int = 384
    reading_dropout: float = 0.0
    confidence: float = 0.0
    num_heads: int = 4
    max_distance: int | None = None
    writing_dim: int | None = None
    writing_ffn: int = 768
    gate_dim: int = 64
    max_offset: int | None = None
    # The rows: longest operand, what they are made of, whether hundreds of phrasings are used or a few dozen, how many
    # rows there are (None: all are fresh), and how many batches are sorted by length at once.
    max_digits: int = 5
    mixture: Mixture = Mixture()
    many_phrasings: bool = False
    distinct_rows: int | None = None
    batches_at_once: int = 16
    # Training.
    steps: int = 1200
    batch_size: int = 128
    learning_rate: float = 3e-3
    muon_learning_rate: float | None = 4e-3
    adam_beta1: float = 0.9
    adam_beta2: float = 0.98
    weight_decay: float = 0.01
    warmup_steps: int = 100
    schedule: str = "cosine"
    max_grad_norm: float = 1.0
    bf16: bool = True  # autocast, on processors that have it
    reading_loss_weight: float = 1.0
    writing_every: int = 1
    reading_steps: int = 0  # the first so many are for the reading alone
    log_every: int = 100
    # What is measured: items per subtask in the test and on the way, from different seeds.
    per_group: int = 200
    test_seed: int = 0
    check_per_group: int = 5
    check_seed: int = 1
    checks: int = 5
    batch_size_of_test: int = 128
    max_new_tokens: int = 16
    target: float = 0.98
    target_per_operation: float = 0.97
    target_per_group: float = 0.0
    most_of_base: float = 0.35


SETTINGS = {
    "hidden": DemoSettings(
        interface="hidden",
        num_digits=5,
        result_digits=10,
        max_distance=64,
        writing_dim=192,
        max_offset=16,
        mixture=Mixture(bigbench=0.2, negative=0.1),
    ),
    "tokens": DemoSettings(
        interface="tokens",
        reading_dim=128,
        reading_ffn=256,
        num_digits=40,
        result_digits=40,
        max_digits=6,
        mixture=TOKENS_MIXTURE,
        many_phrasings=True,
        distinct_rows=10_000,
        steps=720,
        muon_learning_rate=1e-2,
        weight_decay=0.3,
        writing_every=4,
        target=0.999,
        target_per_operation=0.995,
        target_per_group=0.995,
    ),
}
