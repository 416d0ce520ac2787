"""Promises of `records`: tokens have the text that they add."""

from peft_igc.inference.records import Pieces, token_texts


def test_tokens_have_the_text_that_they_add():
    """Bytes of a character, and spaces that are lost at the beginning of a decoded text."""
    pieces = [b" a", "é".encode()[:1], "é".encode()[1:], b"b", "\U0001f600".encode()[:3]]

    def spell(ids):
        return b"".join(pieces[token] for token in ids).decode(errors="replace").removeprefix(" ")

    assert token_texts(spell, [0, 1, 2, 3]) == ["a", "", "é", "b"]
    assert token_texts(spell, [3, 0, 0]) == ["b", " a", " a"]
    assert token_texts(spell, [3, 4]) == ["b", "\ufffd"]
    assert token_texts(spell, []) == []
    growing = Pieces(spell)
    assert [growing.push(token) for token in (0, 1)] == ["a", ""]
    assert growing.rest() == "\ufffd"
