"""The rules as a function: the same as their tables, and small."""

import torch

from peft_igc.expressions.alphabet import Symbol
from peft_igc.expressions.rules.in_words import literal_automaton, literal_rule


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


def test_the_tables_are_small():
    assert len(literal_automaton().facts) < 150
