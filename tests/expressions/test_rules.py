"""The rules as a function: total, the same as their tables, and small."""

import torch

from peft_igc.expressions.alphabet import CHARACTERS, Symbol
from peft_igc.expressions.reasons import Reason
from peft_igc.expressions.rules.after import START, automaton, facts_of, rule
from peft_igc.expressions.rules.before import Done
from peft_igc.expressions.rules.in_words import literal_automaton, literal_rule
from peft_igc.expressions.rules.inside import Label


def read(text):
    """The last state and the labels of a text without letters, from its beginning."""
    state, labels = START, []
    for char in reversed(text):
        state, label = rule(state, CHARACTERS.get(char, Symbol.SPACE))
        labels.append(label)
    return rule(state, Symbol.EDGE)[0], labels[::-1]


def test_the_labels_of_an_expression_are_its_items():
    last, labels = read("-1,5=$2**3%+4=")
    assert last == Done(Reason.NONE)
    assert labels[5:] == [
        Label.CURRENCY,
        Label.DIGIT,
        Label.POWER_MARK,
        Label.TIMES,
        Label.DIGIT,
        Label.PERCENT,
        Label.PLUS,
        Label.DIGIT,
        Label.NONE,
    ]


def test_tables_give_what_the_rules_give_on_random_symbols():
    tables = automaton()
    symbols = torch.randint(len(Symbol), (200, 60), generator=torch.Generator().manual_seed(0))
    states, labels = tables.run(symbols)
    for row in range(len(symbols)):
        state = START
        for place, symbol in enumerate(symbols[row].tolist()):
            state, label = rule(state, symbol)
            assert tables.facts[states[row, place]] == facts_of(state)
            assert labels[row, place] == label


def test_the_tables_for_requests_in_words_give_what_the_rules_give():
    tables = literal_automaton()
    symbols = torch.randint(len(Symbol), (200, 60), generator=torch.Generator().manual_seed(1))
    _, labels = tables.run(symbols)
    start = next(iter(tables.states))
    for row in range(len(symbols)):
        state = start
        for place, symbol in enumerate(symbols[row].tolist()):
            state, label = literal_rule(state, symbol)
            assert labels[row, place] == label


def test_every_text_comes_to_an_end():
    for state in automaton().states:
        assert isinstance(rule(state, Symbol.EDGE)[0], Done), state


def test_the_tables_are_small():
    assert len(automaton().facts) < 1000
    assert len(literal_automaton().facts) < 150
