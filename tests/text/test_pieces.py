"""Words: what the files of languages hold. What a text is split into is seen in `test_golden`."""

import tomllib
from collections import Counter

import pytest

from peft_igc.text.operations import FUNCTIONS, OPERATORS
from peft_igc.text.pieces import FOLDER, words
from peft_igc.text.reading import read
from peft_igc.text.values import Refusal


LANGUAGES = sorted(path.stem for path in FOLDER.glob("??.toml"))
# Functions of a list: what follows `of` may be an expression that is the list's value.
LISTED = {"sum", "add", "minus", "min", "max", "multiply", "divide"}
ENGLISH = tomllib.loads((FOLDER / "en.toml").read_text("utf-8"))["words"]


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
    assert {"sqrt", "sum", "mean"} <= set(read["functions"]) <= {*FUNCTIONS, "log", "round"}  # these two refuse
    assert set(read) - {"joints", "reasons"} == {"words", "units", "functions", "operations", "labels"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_name_of_a_function_is_never_read_over(language):
    listed, kinds = tomllib.loads((FOLDER / f"{language}.toml").read_text("utf-8")), words().kinds
    of = listed["words"].get("of", [""])
    named = [word for name, group in listed["functions"].items() if name not in LISTED for word in group]
    assert [word for word in named if not isinstance(read(f"{word} {of[0]} 3.5 + 4 ="), Refusal)] == []
    assert [word for word in of if word and kinds[word] != "of"] == []


def test_a_word_of_several_languages_keeps_the_class_of_english():
    kinds = words().kinds
    assert all(kinds[word] == kind for kind, listed in ENGLISH.items() for word in listed)
    assert words().units["kilometers"] == words().units["km"] == ("length", "kilometer")
    assert (kinds["min"], "min" in words().operations, words().functions["min"]) == ("unit", False, "min")
