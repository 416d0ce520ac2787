"""The target behind a number is the base's own distribution without what would continue the number."""

import torch

from peft_igc import IGCConfig, tiny_base
from peft_igc.numbers.token_table import TokenTable
from peft_igc.trainer.number_ends import digit_tokens, divergence, without_digits


TABLE = TokenTable(
    digits={at: str(at) for at in range(10)} | {10: "00", 11: "5"},
    spaced=frozenset({11}),
    edges=bytes([0x11] * 12 + [0x33, 0x11, 0x11, 0x00]),
    group=1,
    minus=15,
    point=12,
    points={12: ".", 13: ".5", 14: "0."},
)


def test_digits_without_a_space_continue_a_number_and_zeros_leave_a_decimal_as_it_is():
    digits, changing = digit_tokens(TABLE, 16)
    assert digits.nonzero()[:, 0].tolist() == [*range(11), 13, 14]
    assert changing.nonzero()[:, 0].tolist() == [*range(1, 10), 13]


def test_the_target_is_the_distribution_of_the_base_without_digits():
    logits = torch.randn(2, 16, generator=torch.Generator().manual_seed(0))
    found = without_digits(logits, torch.tensor([False, True]), digit_tokens(TABLE, 16)).exp()
    assert torch.allclose(found.sum(-1), torch.ones(2))
    for row, allowed in zip((0, 1), ([11, 12, 15], [0, 10, 11, 12, 14, 15]), strict=True):
        assert (found[row] > 0).nonzero()[:, 0].tolist() == allowed
        expected = logits[row].softmax(-1)[allowed]
        assert torch.allclose(found[row, allowed], expected / expected.sum())


def test_the_divergence_is_zero_at_the_target_and_grows_with_the_digits():
    logits = torch.randn(3, 16, generator=torch.Generator().manual_seed(1))
    target = without_digits(logits, torch.zeros(3, dtype=torch.bool), digit_tokens(TABLE, 16))
    assert float(divergence(target, target)) == 0.0
    allowed = target > -100
    expected = -(logits.softmax(-1) * allowed).sum(-1).log().sum()  # what the base gives to digits is missing
    torch.testing.assert_close(divergence(logits, target), expected)
    more = logits + 5.0 * ~allowed
    assert divergence(more, target) > divergence(logits, target) > 0


def test_the_digits_of_a_real_table_are_its_own():
    base, tokenizer = tiny_base()
    digits, _ = digit_tokens(IGCConfig.from_tokenizer(tokenizer).token_table, base.vocab_size)
    texts = [tokenizer.decode([token]) for token in digits.nonzero()[:, 0].tolist()]
    assert {str(digit) for digit in range(10)} <= set(texts)
    assert all(text.replace(".", "").isdigit() and text == text.strip() for text in texts)
