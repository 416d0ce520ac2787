"""Pieces and words: what a text is split into, and what the files of languages hold."""

import tomllib
from collections import Counter
from fractions import Fraction

import pytest

from peft_igc.text.operations import OPERATORS
from peft_igc.text.pieces import FOLDER, literal, split, words
from peft_igc.text.reading import read
from peft_igc.text.values import Refusal


LANGUAGES = sorted(path.stem for path in FOLDER.glob("??.toml"))
# Functions of a list: what follows `of` may be an expression that is the list's value.
LISTED = {"sum", "add", "minus", "min", "max", "multiply", "divide"}
ENGLISH = words("en").kinds


def pieces(text):
    found = split(text, 0, words())
    return [(kind, said) for kind, said in zip(found.kinds[1:], found.said[1:], strict=True) if kind != "space"]


def test_a_text_is_split_into_numbers_words_and_marks():
    assert pieces("$1,234.50 × 3km") == [
        *[("currency", "$"), ("number", "1,234.50"), ("*", "×"), ("number", "3"), ("unit", "km")],
    ]
    assert [kind for kind, _ in pieces("2**3 x .5%")] == ["number", "^", "number", "x", "number", "%"]
    kinds = [kind for kind, _ in pieces("½ ² 五 IV n Wort\n")]
    assert kinds == ["strange", "strange", "strange", "letters", "letter", "letters", "line"]


@pytest.mark.parametrize(
    ("said", "value"),
    [("1,234.50", "2469/2"), (".5", "1/2"), ("007", "7"), ("5,000/-", "5000"), ("3,5", None), ("0,123", None),
     ("1.2.3", None), ("1,2345", None), (".", None)],
)  # fmt: skip
def test_a_literal_has_its_exact_value_or_none(said, value):
    assert literal(said) == (None if value is None else Fraction(value))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_language_has_its_words_once_and_in_casefold(language):
    read = tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8"))
    listed = [word for group in read["words"].values() for word in group]
    listed += [word for quantity in read["units"].values() for group in quantity.values() for word in group]
    assert [word for word, count in Counter(listed).items() if count > 1] == []
    assert all(word == word.casefold() and word.isalpha() for word in listed), listed
    assert set(read["words"]) <= set(tomllib.loads((FOLDER / "en.toml").read_text("utf-8"))["words"])
    assert set(read["operations"]) <= {*OPERATORS, "any"}
    assert {"number_word", "month", "scale"} <= set(read["words"])
    assert {"length", "duration", "mass", "money"} <= set(read["units"])
    assert {"sqrt", "sum", "mean"} <= set(read["functions"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_name_of_a_function_is_never_read_over(language):
    listed, kinds = tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8")), words().kinds
    of = listed["words"].get("of", [""])
    named = [word for name, group in listed["functions"].items() if name not in LISTED for word in group]
    assert [word for word in named if not isinstance(read(f"{word} {of[0]} 3.5 + 4 ="), Refusal)] == []
    assert [word for word in of if word and kinds[word] != "of"] == []


def test_a_word_of_several_languages_keeps_the_class_of_english():
    kinds = words().kinds
    assert all(kinds[word] == kind for word, kind in ENGLISH.items())
    assert words("de").kinds["meter"] == "unit"
    assert words().units["kilometers"] == words().units["km"] == ("length", "kilometer")
    assert words() is words()
