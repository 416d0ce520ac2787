"""Automata: tables that read rows in parallel give what the rule gives one symbol at a time."""

import pytest
import torch

from peft_igc.expressions.rules.automaton import compiled


def remainder(state, symbol):
    """Digits in base 3: the state is the number's remainder by 7, the label tells whether it was 0 before."""
    return (state * 3 + symbol) % 7, int(state == 0)


def facts(state):
    return (state,)


@pytest.mark.parametrize("width", [1, 2, 3, 7, 16, 63, 100])
def test_rows_are_read_as_the_rule_reads_them(width):
    automaton = compiled(0, 3, remainder, facts)
    symbols = torch.randint(3, (5, width), generator=torch.Generator().manual_seed(width))
    states, labels = automaton.run(symbols)
    for row in range(5):
        state = 0
        for place, symbol in enumerate(symbols[row].tolist()):
            state, label = remainder(state, symbol)
            assert automaton.facts[states[row, place]] == (state,)
            assert labels[row, place] == label


def test_it_is_made_on_the_cpu_under_any_default_device():
    with torch.device("meta"):
        automaton = compiled(0, 3, remainder, facts)
    assert automaton.run(torch.tensor([[1, 2, 0]]))[0].tolist() == [[1, 5, 1]]


def test_states_that_no_text_tells_apart_become_one():
    def rule(state, symbol):
        return (state + symbol + 1) % 12, state % 2

    automaton = compiled(0, 2, rule, lambda state: (state % 2,))
    assert len(automaton.states) == 12
    assert len(automaton.facts) == 2
    assert automaton.facts[0] == (0,)


def test_a_rule_that_counts_without_end_is_refused():
    with pytest.raises(ValueError, match="reaches over 4096 states"):
        compiled(0, 1, lambda state, symbol: (state + 1, 0), lambda state: ())
