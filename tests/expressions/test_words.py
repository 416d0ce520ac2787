"""The word lists: the hash of a word is that of its pieces, classes exclude each other, users extend them."""

import pytest

from peft_igc.expressions.alphabet import Symbol
from peft_igc.expressions.words import POWERS, WordList, letters_hash, unit_of


_BITS = 1 << 64


@pytest.mark.parametrize("cut", range(1, 6))
def test_the_hash_of_a_word_is_that_of_its_pieces(cut):
    word = "twenty"
    moved = letters_hash(word[cut:]) * POWERS[cut]
    assert (letters_hash(word[:cut]) + moved) % _BITS == letters_hash(word) % _BITS


def test_no_two_words_share_a_hash():
    words = WordList.of().symbols
    assert len({letters_hash(word) for word in words}) == len(words)


def test_a_language_adds_its_words_and_keeps_the_classes_before_it():
    both = WordList.of("en", "de").symbols
    assert both["twelve"] is both["zwölf"] is Symbol.NUMBER_WORD
    assert "zwölf" not in WordList.of("en").symbols


def test_users_extend_the_list():
    words = WordList.of("en").extended({"number_word": ["ett", "Två"]})
    assert words.symbols["två"] is Symbol.NUMBER_WORD


def test_a_unit_and_its_plural_are_one():
    assert unit_of("hours") == unit_of("hour")
    assert unit_of("inches") == unit_of("inch")


def test_an_unknown_language_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"no words for `xx`. The languages are en, de"):
        WordList.of("xx")


def test_an_unknown_class_is_refused():
    with pytest.raises(ValueError, match="`numbers` is no class of words"):
        WordList({"numbers": ("two",)})


@pytest.mark.parametrize("word", ["", "two words", "x" * 40])
def test_what_is_no_word_is_refused(word):
    with pytest.raises(ValueError, match="of `number_word` is no word"):
        WordList({"number_word": (word,)})


def test_a_word_in_two_classes_is_refused():
    with pytest.raises(ValueError, match="'by' is in `of` and in `link`"):
        WordList({"of": ("by",), "link": ("by",)})
