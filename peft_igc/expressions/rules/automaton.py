"""Finite automata on the device: rules written as a function on the host, applied to rows of symbols in parallel.

In: a function that says for a state and a symbol which state follows and which label the symbol gets. `compiled`
tries it on every state that can be reached, so that the rules become two tables. `Automaton.run` applies the tables
to [N, W] symbols without a loop over rows: a row is cut into blocks, every block is read from all states at once,
and then the blocks are joined. The number of operations grows with the square root of W. Try it: `pytest
tests/expressions/test_automaton.py`

Shapes: N rows, W symbols of a row, Q states, K symbols of the alphabet, F facts of a state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor


__all__ = ["Automaton", "compiled", "fake_like", "is_fake"]

MOST_STATES = 4096  # an error of the rules, not a limit that is met


StateT = TypeVar("StateT", bound=Hashable)
FactsT = TypeVar("FactsT", bound=tuple[int, ...])


def is_fake() -> bool:
    """Whether tensors made now are fake ones, of a `FakeTensorMode`, which allows no others beside them."""
    return not torch.compiler.is_compiling() and type(torch.empty(0, device="cpu")) is not Tensor


def fake_like(table: Tensor, device: torch.device) -> Tensor:
    """A fake tensor of the same shape and type, within a `FakeTensorMode`."""
    return torch.empty(tuple(table.shape), dtype=table.dtype, device=device)


class Tables(NamedTuple):
    """The tables on one device."""

    state: Tensor  # [K, Q] int64, the state after a symbol
    label: Tensor  # [K * Q] int64, the symbol's label, indexed by symbol * Q + state before
    facts: Tensor  # [F, Q] int64, what is known of a state


class Automaton(Generic[StateT, FactsT]):
    """Rules as tables, one copy per device. Make it once; it is not a module and holds no parameters.

    Args:
        facts: What is known of each of Q states, the start first.
        following: [Q, K] int64, states.
        labels: [Q, K] int64.
        states: The states before equal ones were joined, with the index of each, for tests.
    """

    def __init__(self, facts: list[FactsT], following: Tensor, labels: Tensor, states: dict[StateT, int]) -> None:
        self.facts = facts
        self.states = states
        known = torch.tensor(facts, dtype=torch.int64, device="cpu")
        self._host = Tables(following.T.contiguous(), labels.T.flatten(), known.T.contiguous())
        self._made: dict[torch.device, Tables] = {torch.device("cpu"): self._host}

    def on(self, device: torch.device) -> Tables:
        """The tables on a device. Call it once before a graph is compiled for that device."""
        if is_fake():
            return Tables(*(fake_like(table, device) for table in self._host))
        made = self._made.get(device)
        if made is None:
            made = Tables(*(table.to(device) for table in self._host))
            if not torch.compiler.is_compiling():
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
        offsets = (padded * len(self.facts)).unbind(2)
        for offset in offsets:
            states.append(flat[offset + states[-1]])
        entered = torch.stack(states[:-1], 2).view(n, -1)[:, :width]
        left = torch.stack(states[1:], 2).view(n, -1)[:, :width]
        return left, tables.label[symbols * len(self.facts) + entered]


def compiled(
    start: StateT,
    alphabet: int,
    rule: Callable[[StateT, int], tuple[StateT, int]],
    facts: Callable[[StateT], FactsT],
) -> Automaton[StateT, FactsT]:
    """Makes the tables of a rule. States that no text tells apart become one.

    Args:
        start: The state before the first symbol.
        alphabet: K, the symbols are 0..K-1.
        rule: For a state and a symbol, the state after it and the symbol's label.
        facts: What has to be known of a state; states of different facts are told apart.

    Raises:
        ValueError: The rule reaches more than `MOST_STATES` states.
    """
    states: dict[StateT, int] = {start: 0}
    pending = [start]
    following: list[list[int]] = []
    labels: list[list[int]] = []
    for state in pending:
        steps = [rule(state, symbol) for symbol in range(alphabet)]
        for after, _ in steps:
            if after not in states:
                states[after] = len(states)
                pending.append(after)
        following.append([states[after] for after, _ in steps])
        labels.append([int(label) for _, label in steps])
        if len(states) > MOST_STATES:
            raise ValueError(f"The rule reaches over {MOST_STATES} states. Its states must not count without end.")
    known = [facts(state) for state in pending]
    with torch.device("cpu"):  # PEFT loads adapters with "meta" as the default device
        return _joined(known, _table(following), _table(labels), states)


def _table(rows: list[list[int]]) -> Tensor:
    """Rows of integers on the CPU."""
    return torch.tensor(rows, dtype=torch.int64, device="cpu")


def _joined(
    known: list[FactsT], following: Tensor, labels: Tensor, states: dict[StateT, int]
) -> Automaton[StateT, FactsT]:
    """The automaton with equal states joined: classes are split until all states of a class lead to the same ones."""
    kinds = {fact: number for number, fact in enumerate(dict.fromkeys(known))}
    group = torch.tensor([kinds[fact] for fact in known], device="cpu")
    count = 0
    while True:
        rows = torch.cat([group.unsqueeze(1), group[following], labels], 1)
        group = torch.unique(rows, dim=0, return_inverse=True)[1]
        if int(group.max()) + 1 == count:
            break
        count = int(group.max()) + 1
    # Classes are numbered by their first state, so that the start is 0.
    first = torch.full((count,), len(known)).scatter_reduce(0, group, torch.arange(len(known)), "amin")
    order = first.argsort()
    number = torch.empty_like(order).scatter(0, order, torch.arange(count))
    group = number[group]
    chosen = first[order]
    joined = {state: int(group[index]) for state, index in states.items()}
    return Automaton([known[index] for index in chosen.tolist()], group[following[chosen]], labels[chosen], joined)
