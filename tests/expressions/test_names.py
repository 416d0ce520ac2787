"""What a text names: operations in words and in formulas of letters, whatever the tokenizer's cuts."""

import pytest

from peft_igc import tiny_base
from peft_igc.expressions.literals import literals
from peft_igc.expressions.names import NAMED, Name
from peft_igc.expressions.symbols import SymbolTokens
from peft_igc.expressions.words import WordList
from tests.helpers.symbol_texts import encode


@pytest.fixture(scope="module")
def embedded():
    tokenizer = tiny_base()[1]
    return tokenizer, SymbolTokens.from_tokenizer(tokenizer)


def found(embedded, text):
    """The names in a text, and its numbers of assignments and of operators between variables."""
    tokenizer, tokens = embedded
    read = literals(tokens, *encode(tokenizer, [text]), 8)
    names = {name for name, there in zip(list(Name)[:-1], read.names[0].any(0).tolist(), strict=True) if there}
    return names, int(read.assigned.sum()), int(read.formula.sum())


@pytest.mark.parametrize("word", NAMED)
def test_a_listed_word_has_its_names_wherever_it_stands(embedded, word):
    for text in (f"The {word} of 5 and 7", f"{word.title()} is 5 7", f"5 7 {word.upper()}"):
        assert found(embedded, text) == (set(NAMED[word]) - {Name.TIMES}, 0, 0), text
    assert found(embedded, f"{word}q 5 un{word}") == (set(), 0, 0)


@pytest.mark.parametrize("text", ["What is 5 times 7?", "5 Times -7", "What is x times y?"])
def test_times_before_a_value_names_an_operation(embedded, text):
    assert found(embedded, text)[0] == {Name.MULTIPLICATION, Name.DIVISION}


@pytest.mark.parametrize("word", NAMED)
def test_every_name_is_in_the_list_of_words(word):
    assert word in WordList.of("en").symbols


@pytest.mark.parametrize(
    ("text", "names", "assigned", "operators"),
    [
        ("x = 3, y=5. What is x + y?", {Name.ADDITION}, 2, 1),
        ("a=3 b=5 a*b", {Name.MULTIPLICATION}, 2, 1),
        ("What is x + y - x?", {Name.ADDITION, Name.SUBTRACTION}, 0, 2),
        ("What is x/y?", {Name.DIVISION}, 0, 1),
        ("x = 3, y = 5, x × y", {Name.MULTIPLICATION}, 2, 1),  # some characters are several tokens
        ("x÷y − x is", {Name.DIVISION, Name.SUBTRACTION}, 0, 2),
        ("3 + 5 = 8", set(), 0, 0),
        ("The well-known total = 5", set(), 0, 0),
        ("", set(), 0, 0),
    ],
)
def test_formulas_of_variables_name_their_operations(embedded, text, names, assigned, operators):
    assert found(embedded, text) == (names, assigned, operators)
