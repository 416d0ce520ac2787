"""Promises of `records`: tokens have the text that they add, an answer says where it comes from."""

import io

from traced import PROMPTS, generate, make

from peft_igc import igc_trace
from peft_igc.inference.records import Answer, NumberRecord, StepRecord, TextRecord, TokenRecord, token_texts


OK = StepRecord(3, "ok", True, "2088", "58 * 36", None)


def test_untrue_calculations_are_found_whoever_wrote_them():
    tokens = [TokenRecord(piece, None) for piece in ("So 3*4", " = ", "13.\nThen", " 3+4 = 7, and 5", "+5", " is 11.")]
    text = TextRecord(0, tuple(tokens), ())
    assert [(one.position, one.written, one.value) for one in text.untrue] == [(2, "13", "12"), (5, "11", "10")]
    assert str(text.untrue[0]) == "3*4 = 13 (untrue: the value is 12)"
    assert "untrue     3*4 = 13 (untrue: the value is 12)" in text.format()


def test_tokens_have_the_text_that_they_add():
    """Bytes of a character, and spaces that are lost at the beginning of a decoded text."""
    pieces = [b" a", "é".encode()[:1], "é".encode()[1:], b"b", "\U0001f600".encode()[:3]]

    def spell(ids):
        return b"".join(pieces[token] for token in ids).decode(errors="replace").removeprefix(" ")

    assert token_texts(spell, [0, 1, 2, 3]) == ["a", "", "é", "b"]
    assert token_texts(spell, [3, 0, 0]) == ["b", " a", " a"]
    assert token_texts(spell, [3, 4]) == ["b", "\ufffd"]
    assert token_texts(spell, [3, 4, -1]) == ["b", "\ufffd", "\u2026"]
    assert token_texts(spell, []) == []


def test_of_several_steps_the_answer_has_that_of_the_last_one_it_spells():
    silent = StepRecord(9, "none", False, None, None, "no_arithmetic")
    assert Answer("2088 ...", False, (OK, silent)).step == OK
    nowhere = Answer("...", False, ())
    assert nowhere.source.endswith("calculator silent: the text has no anchor, or no adapter is active")


def test_an_answer_that_overrules_the_calculation_is_the_models_own():
    overruled = Answer("99", False, (StepRecord(3, "ok", False, "2088", "58 * 36", None),))
    assert not overruled.written
    assert overruled.source == "by the model alone, although 58 * 36 was calculated"


def test_a_probability_is_shown_rounded_down():
    number = NumberRecord("58", 0.99999, 0.999995)
    read = {"operands": (number, number), "operator": "*", "operator_probability": 1.0}
    shown = TextRecord(0, (), (StepRecord(11, "ok", True, "3364", "58 * 58", **read),)).format()
    assert "58  99.99%; least certain place 99.99%" in shown
    assert "*   100.00%" in shown


def test_the_text_has_every_token_with_its_gate_and_nothing_that_steers_a_terminal():
    with igc_trace(*make()) as trace:
        generate(*make(), prompts=[*PROMPTS[1:3], "[bold]\x1b[31m 5 + 6 ="], new=2)
    out = io.StringIO()
    trace.print(out)
    shown = " ".join(out.getvalue().split())
    for part in ("3 + 4 * (12 - 5)", "31", "[bold]", "not understood"):
        assert part in shown
    assert "\x1b" not in out.getvalue()
    for token in (token for text in trace.texts for token in text.generated):
        assert f"{'-' if token.gate is None else f'{token.gate:5.3f}'} {token.text!r}" in shown
