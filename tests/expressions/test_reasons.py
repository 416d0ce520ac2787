"""Every reason has a text for people."""

from peft_igc.expressions.reasons import REASON_TEXTS, Reason


def test_every_reason_has_a_text_of_its_own():
    assert set(REASON_TEXTS) == set(Reason)
    assert len(set(REASON_TEXTS.values())) == len(Reason)
    assert all(REASON_TEXTS.values())
