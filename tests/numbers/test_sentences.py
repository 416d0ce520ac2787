"""Sentences, and numbers beside the operands: what makes a text no calculation of two numbers, whatever is asked.

Try it: `pytest tests/numbers/test_sentences.py`
"""

import random

import pytest
import reference_tokens as naive
import torch
from tiny_vocabulary import NUMBERS, TABLE, TEXTS

from peft_igc import tiny_base
from peft_igc.numbers.number_runs import NumberTokens, find_runs, numbers_aside, sentences
from peft_igc.numbers.tokenizer_profile import TokenizerProfile
from tests.numbers.test_number_runs import without_letters


@pytest.fixture(scope="module")
def known():
    """The embedded base's tokenizer and what it means for numbers."""
    tokenizer = tiny_base()[1]
    return tokenizer, NumberTokens(TokenizerProfile.from_tokenizer(tokenizer).table)


def ids_of(known, texts, behind=0):
    """ids and validity of texts, left-padded; `behind` tokens at the end are not to be seen."""
    rows = [known[0](text)["input_ids"] for text in texts]
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in rows])
    valid = torch.tensor(
        [[False] * (width - len(row)) + [True] * (len(row) - behind) + [False] * behind for row in rows]
    )
    return ids, valid


def read(known, texts, behind=0):
    """Sentence of each number of each text, arguments as in `ids_of`."""
    ids, valid = ids_of(known, texts, behind)
    runs = find_runs(known[1], ids, valid, 6)
    return sentences(known[1], ids, valid, runs), runs.number | runs.broken


def aside(known, texts, chosen, behind=0, tokens=None):
    """Whether a further number stands beside those that `chosen` counts, in each text up to its last seen token."""
    ids, valid = ids_of(known, texts, behind)
    sentence, number = read(known, texts, behind)
    places = torch.stack([row.nonzero().flatten()[list(two)] for row, two in zip(number, chosen, strict=True)])
    anchor = torch.full((len(texts), 1), ids.shape[1] - 1 - behind)
    return numbers_aside(tokens or known[1], ids, valid, sentence, number, places, anchor).tolist()


def groups(known, text):
    """How many numbers stand in each sentence that has any, in order."""
    sentence, number = read(known, [text, "x " * 30])
    of_numbers = sentence[0][number[0]].tolist()
    return [of_numbers.count(s) for s in dict.fromkeys(of_numbers)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is 5 plus 3?", [2]),
        ("I am 9. What is 5 plus 3?", [1, 2]),
        ("I am 9! What is 5 plus 3?", [1, 2]),
        ("Am I 9? What is 5 plus 3?", [1, 2]),
        ("Page 9; what is 5 plus 3?", [1, 2]),
        ("Question 9: what is 5 plus 3?", [1, 2]),
        ("Today: 9\nWhat is 5 plus 3?", [1, 2]),
        ("9\n\n5 + 3 =", [1, 2]),
        ("9. What is 5 plus 3?", [1, 2]),
        ("9) What is 5 plus 3?", [1, 2]),
        ("(9) What is 5 plus 3?", [1, 2]),
        ("[9] What is 5 plus 3?", [1, 2]),
        ("I am 9, what is 5 plus 3?", [3]),
        ("What is 1.5 plus 3?", [3]),  # a decimal is two broken numbers, and its point no full stop
        ("At 10:30 add 5 and 3.", [4]),
        ("What is 5 plus (3) plus 2?", [3]),
        ("What is 1,234 plus 3?", [2]),
        ("What is 5 plus 3? It is 9 o'clock.", [2, 1]),
    ],
)
def test_numbers_by_sentence(known, text, expected):
    assert groups(known, text) == expected


@pytest.mark.parametrize("padding", [0, 1, 7])
@pytest.mark.parametrize("text", ["9) What is 5 plus 3?", "(9) What is 5 plus 3?"])
def test_a_list_number_at_the_very_beginning_stands_apart_whatever_the_padding(known, text, padding):
    row = known[0](text, add_special_tokens=False)["input_ids"]
    ids = torch.tensor([[0] * padding + row])
    valid = torch.tensor([[False] * padding + [True] * len(row)])
    runs = find_runs(known[1], ids, valid, 6)
    nine, five, three = sentences(known[1], ids, valid, runs)[0][runs.number[0]].tolist()
    assert nine < five == three


def test_a_special_token_ends_a_sentence(known):
    tokenizer, _ = known
    end = tokenizer.eos_token
    assert groups(known, f"I am 9{end}5 + 3") == [1, 2]


@pytest.mark.parametrize(
    ("text", "chosen", "expected"),
    [
        ("What is 5 plus 3?", (0, 1), False),
        ("What is 5 plus 3?", (1, 0), False),
        ("What is 5 plus 3 plus 2?", (0, 1), True),
        ("What is 5 plus 3 plus 2?", (0, 2), True),
        ("What is 5 plus 3 plus 2?", (2, 1), True),
        ("What is 5 plus 3.5?", (0, 1), True),
        ("What is 5 plus 3 percent of 20%?", (0, 1), True),
        ("It is 9. What is 5 plus 3? I have 2.", (1, 2), False),
        ("Anna has 5 pens. Ben has 3 pens. How many are there?", (0, 1), False),
        ("Anna has 5 pens. Tom is 9. Ben has 3 pens. How many are there?", (0, 2), True),
        ("Anna has 5 pens. Tom is 9. Ben has 3 pens. How many are there?", (0, 1), False),
        ("Anna has 5 pens and 2 books. Ben has 3 pens.", (0, 2), True),
    ],
)
def test_a_further_number_among_the_operands(known, text, chosen, expected):
    """`chosen` counts the numbers of the text; padding in front changes nothing."""
    assert aside(known, [text, "5 + 3 " * 20], [chosen, (0, 1)])[0] is expected


@pytest.mark.parametrize(
    ("text", "chosen", "expected"),
    [
        # An expression in symbols up to its anchor is apart from the words before it,
        ("so there are 4*12=", (0, 1), False),
        ("the 3 boxes then hold 4*12=", (1, 2), False),
        ("the 3 boxes then hold 4*12 =", (2, 1), False),
        ("In 3 boxes of 7 there are (4*12)=", (2, 3), False),
        ("12. 4*12=", (1, 2), False),
        ("12) 4*12=", (1, 2), False),
        # but not from what stands in it.
        ("3+4*12=", (1, 2), True),
        ("3+4*12=", (0, 2), True),
        ("3+4*12=", (0, 1), True),
        ("the 3+4*12=", (1, 2), True),
        ("(3+4)*12=", (1, 2), True),
        ("5% * 4*12=", (1, 2), True),
        ("1.5*4*12=", (2, 3), True),
        ("7 5 x 3 =", (1, 2), True),
        ("5 X 3 =", (0, 1), False),
        # A single word may be a unit, an operation or a variable.
        ("the 3 and 4*12=", (1, 2), True),
        ("3 plus 4*12=", (1, 2), True),
        ("2 apples + 3 + 4 =", (1, 2), True),
        ("10 km / 2 + 3 =", (1, 2), True),
        ("20% of 30 + 4 =", (1, 2), True),
        ("5kg + 3 + 4 =", (1, 2), True),
        ("2y+3+4=", (1, 2), True),
        (r"3 \times 4 + 5 =", (1, 2), True),
        (r"3 \cdot 4 + 5 =", (1, 2), True),
        # Words within it, or behind it, leave the sentence to decide.
        ("In 3 boxes are 4 times 12 =", (1, 2), True),
        ("the 3 and 4*12 is", (1, 2), True),
        ("3 boxes. 4 times 12 =", (1, 2), False),
    ],
)
def test_an_expression_in_symbols_is_apart_from_words_before_it(known, text, chosen, expected):
    assert aside(known, [text, "5 + 3 " * 20 + "="], [chosen, (0, 1)])[0] is expected


def test_a_turn_that_begins_behind_the_question_leaves_the_sentence_to_decide(known):
    begins = "<|end|><|assistant|>"
    texts = [f"There are 3 boxes. What is 4*12?{begins}", f"In 3 boxes what is 4*12{begins}", f"4*12{begins}"]
    assert aside(known, texts, [(1, 2), (1, 2), (0, 1)]) == [False, True, False]


def test_a_table_without_letters_takes_every_number_of_the_sentence_into_account(known):
    old = NumberTokens(without_letters(known[1].table))
    texts, chosen = ["the 3 boxes then hold 4*12=", "3 boxes. 4*12=", "so there are 4*12="], [(1, 2), (1, 2), (0, 1)]
    assert aside(known, texts, chosen) == [False] * 3
    assert aside(known, texts, chosen, tokens=old) == [True, False, False]


def test_numbers_beside_the_operands_are_found_as_a_loop_over_the_tokens_finds_them():
    tokens, draw = NumberTokens(TABLE), random.Random(0)
    numbers = [TEXTS.index(number) for number in NUMBERS]
    others = [token for token, text in enumerate(TEXTS) if text not in NUMBERS]
    length, rows, anchors = 16, [], []
    while len(rows) < 4000:
        some = draw.sample(others, draw.randint(2, 8))  # few kinds, so that many texts are without words
        row = [draw.choice(numbers if draw.random() < 0.4 else some) for _ in range(length)]
        rows, anchors = [*rows, row], [*anchors, draw.randrange(4, length)]
    ids, anchor = torch.tensor(rows), torch.tensor(anchors)[:, None]
    valid = (torch.arange(length) <= anchor) & (torch.rand(ids.shape) < 0.97)
    runs = find_runs(tokens, ids, valid, 6)
    number, sentence = runs.number | runs.broken, sentences(tokens, ids, valid, runs)
    enough = number.sum(1) >= 3
    ids, valid, sentence, number, anchor = (x[enough] for x in (ids, valid, sentence, number, anchor))
    chosen = torch.tensor([draw.sample(row.nonzero().flatten().tolist(), 2) for row in number])
    found = numbers_aside(tokens, ids, valid, sentence, number, chosen, anchor).tolist()
    expected, in_symbols = [], []
    for row, told in zip(range(len(ids)), found, strict=True):
        texts = [
            TEXTS[token] if there else naive.NOTHING
            for token, there in zip(ids[row].tolist(), valid[row], strict=True)
        ]
        arguments = sentence[row].tolist(), number[row].tolist(), chosen[row].tolist(), int(anchor[row])
        expected.append(naive.numbers_aside(texts, *arguments))
        assert told == expected[-1], (texts, *arguments)
        in_symbols.append(naive.in_symbols(texts, arguments[0], min(arguments[2]), arguments[3]))
    for symbols in (True, False):  # both rules have both outcomes
        outcomes = [told for told, rule in zip(expected, in_symbols, strict=True) if rule is symbols]
        assert min(outcomes.count(True), outcomes.count(False)) > 30


def test_rows_do_not_see_each_other(known):
    texts = ["What is 5 plus 3 plus 2?", "What is 5 plus 3?"]
    assert aside(known, texts, [(0, 1), (0, 1)]) == [True, False]


def test_what_is_not_to_be_seen_counts_for_nothing(known):
    text = "What is 5 plus 3 plus 2"
    assert read(known, [text], behind=3)[1].sum() == 2
    assert aside(known, [text], [(0, 1)], behind=3) == [False]


def test_the_end_of_a_line_joins_no_numbers(known):
    """The tokenizer makes one token of `!` and the line break, which breaks the factorial before it alone."""
    tokenizer, tokens = known
    ids = torch.tensor([tokenizer("3!\n5 boxes")["input_ids"]])
    runs = find_runs(tokens, ids, torch.ones_like(ids, dtype=torch.bool), 6)
    assert (int(runs.broken.sum()), int(runs.number.sum())) == (1, 1)
