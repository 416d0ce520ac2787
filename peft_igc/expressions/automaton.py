"""Finite automata on the device: rules written as a function on the host, applied to rows of symbols in parallel.

In: a function that says for a state and a symbol which state follows and which label the symbol gets. `compiled`
tries it on every state that can be reached, so that the rules become two tables. `Automaton.run` applies the tables
to [N, W] symbols without a loop over rows: a row is cut into blocks, every block is read from all states at once,
and then the blocks are joined. The number of operations grows with the square root of W. Try it: `pytest
tests/expressions/test_automaton.py`

Shapes: N rows, W symbols of a row, Q states, K symbols of the alphabet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor


__all__ = ["Automaton", "compiled"]

MOST_STATES = 4096  # an error of the rules, not a limit that is met


StateT = TypeVar("StateT", bound=Hashable)


class Tables(NamedTuple):
    """The tables on one device."""

    state: Tensor  # [K, Q] int64, the state after a symbol
    label: Tensor  # [K * Q] int64, the symbol's label, indexed by symbol * Q + state before


class Automaton(Generic[StateT]):
    """Rules as tables, one copy per device. Make it once; it is not a module and holds no parameters.

    Args:
        states: Q states in any form, the start first.
        following: [K][Q] indices of states.
        labels: [K][Q] labels.
    """

    def __init__(self, states: list[StateT], following: list[list[int]], labels: list[list[int]]) -> None:
        self.states = states
        self._host = Tables(
            torch.tensor(following, dtype=torch.int64, device="cpu"),
            torch.tensor(labels, dtype=torch.int64, device="cpu").flatten(),
        )
        self._made: dict[torch.device, Tables] = {torch.device("cpu"): self._host}

    def on(self, device: torch.device) -> Tables:
        """The tables on a device. Call it once before a graph is compiled for that device."""
        made = self._made.get(device)
        if made is None:
            made = Tables(*(table.to(device) for table in self._host))
            if type(made.state) is Tensor and not torch.compiler.is_compiling():
                self._made[device] = made
        return made

    def run(self, symbols: Tensor) -> tuple[Tensor, Tensor]:
        """Reads rows of symbols, each from the start state.

        Args:
            symbols: [N, W] int64 in 0..K-1; W is at least 1.

        Returns:
            The state after each symbol and the label of each symbol, both [N, W] int64.
        """
        tables = self.on(symbols.device)
        n, width = symbols.shape
        size = max(1, math.isqrt(width))
        blocks = -(-width // size)
        padded = torch.nn.functional.pad(symbols, (0, blocks * size - width)).view(n, blocks, size)
        columns = padded.unbind(2)
        # The state after a block from every state before it. The last block leads nowhere.
        through = tables.state[columns[0]]  # [N, blocks, Q]
        for column in columns[1:]:
            through = tables.state[column].gather(2, through)
        before = [torch.zeros_like(symbols[:, :1])]  # [N, 1] each
        for block in range(blocks - 1):
            before.append(through[:, block].gather(1, before[-1]))
        state = torch.cat(before, 1)  # [N, blocks]
        flat = tables.state.flatten()
        states = [state]
        offsets = (padded * len(self.states)).unbind(2)
        for offset in offsets:
            states.append(flat[offset + states[-1]])
        entered = torch.stack(states[:-1], 2).view(n, -1)[:, :width]
        left = torch.stack(states[1:], 2).view(n, -1)[:, :width]
        return left, tables.label[symbols * len(self.states) + entered]


def compiled(start: StateT, alphabet: int, rule: Callable[[StateT, int], tuple[StateT, int]]) -> Automaton[StateT]:
    """Makes the tables of a rule.

    Args:
        start: The state before the first symbol.
        alphabet: K, the symbols are 0..K-1.
        rule: For a state and a symbol, the state after it and the symbol's label.

    Raises:
        ValueError: The rule reaches more than `MOST_STATES` states.
    """
    states: dict[StateT, int] = {start: 0}
    pending = [start]
    rows: list[list[tuple[int, int]]] = []
    for state in pending:
        row = []
        for symbol in range(alphabet):
            after, label = rule(state, symbol)
            if after not in states:
                states[after] = len(states)
                pending.append(after)
            row.append((states[after], int(label)))
        rows.append(row)
        if len(states) > MOST_STATES:
            raise ValueError(f"The rule reaches over {MOST_STATES} states. Its states must not count without end.")
    following = [[row[symbol][0] for row in rows] for symbol in range(alphabet)]
    labels = [[row[symbol][1] for row in rows] for symbol in range(alphabet)]
    return Automaton(list(states), following, labels)
