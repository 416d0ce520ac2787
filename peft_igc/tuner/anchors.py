"""Positions of the anchors in a text, and the first token that each step reads.

In: the context of a forward pass (`Call`) and the anchor rules of a config, which `IGCConfig.anchors` describes. Out:
`Anchors` on the host, with positions counted from the first token of a text with padding. Positions passed by the
caller (`igc_anchors`) are used alone; otherwise all rules that the config sets combine. A plain pass with a KV cache
has no end of the prompt, because its text may continue. Token sequences are made in `anchor_rules`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..text.vocabulary import PADDING
from .call import Call
from .config import IGCConfig
from .config_values import MESSAGE, PROMPT_END, ROW


INLINE, TURN = 1, 2  # kinds of anchors that a token sequence names: within a text, at the beginning of a turn
Sequences = list[list[int]]


class Anchor(NamedTuple):
    """A position at which a step runs."""

    at: int  # its position in the text, -1 for none
    kind: int = 0  # `INLINE` or `TURN` if a token sequence ends there, whoever named it


NONE = Anchor(-1)
Anchors = list[list[Anchor]]  # [B][A]: rows of equal length


class Rules(NamedTuple):
    """A config's anchor rules."""

    prompt_end: bool  # whether the end of a prompt is an anchor
    turns: Sequences  # token sequences that begin a turn
    inline: Sequences  # token sequences within a text
    users: Sequences = []  # token sequences that begin a message before which nothing is read

    @classmethod
    def of(cls, config: IGCConfig) -> Rules:
        """The rules of a config."""
        rules = config.anchors
        users = rules["users"] if config.reading_context == MESSAGE else []
        return cls(rules.get(PROMPT_END, False), rules.get("turns", []), rules.get("inline", []), users)

    @property
    def sequences(self) -> Sequences:
        """The token sequences of both kinds."""
        return self.turns + self.inline

    @property
    def lasts(self) -> set[int]:
        """The last token of each sequence."""
        return {sequence[-1] for sequence in self.sequences}

    @property
    def longest(self) -> int:
        """The number of tokens of the longest sequence, at least 1."""
        return max([1, *map(len, self.sequences)])

    def kind(self, ids: list[int], end: int) -> int:
        """`INLINE` or `TURN` if a sequence ends with the last of the first `end` tokens of a row; else 0."""
        for kind, sequences in ((INLINE, self.inline), (TURN, self.turns)):
            if any(ids[max(end - len(one), 0) : end] == one for one in sequences):
                return kind
        return 0

    def first_read(self, ids: Sequence[int], since: int, anchor: int) -> int:
        """The first token that is read of a row's tokens from `since` up to an anchor, -1 for none."""
        for end in range(anchor + 1, since, -1) if self.users else ():
            for one in self.users:
                if end - len(one) >= since and ids[end - 1] == one[-1] and list(ids[end - len(one) : end]) == one:
                    return end - len(one)
        return since


def check_anchors(anchors: torch.Tensor, shape: torch.Size, mask: torch.Tensor | None) -> None:
    """Refuses `igc_anchors` that are not [B, A] int64, or name a position outside the input of `shape` (B, T, ...) or
    on padding, where the `mask` [B, at least T] is 0. Values are not checked while `torch.compile` traces the pass."""
    rows, tokens = shape[:2]
    if anchors.dim() != 2 or anchors.shape[0] != rows or anchors.dtype != torch.int64:
        raise ValueError(
            f"`igc_anchors` is {anchors.dtype} of shape {tuple(anchors.shape)}, but the input has {rows} rows. "
            f"Pass torch.int64 of shape ({rows}, anchors per row), -1 for none."
        )
    if torch.compiler.is_compiling():
        return
    outside = (anchors < -1) | (anchors >= tokens)
    if bool(outside.any()):
        raise ValueError(
            f"`igc_anchors` has the position {int(anchors[outside][0])}, but the input has {tokens} tokens "
            f"(0..{tokens - 1}). Pass positions in `input_ids`, padding counted, and -1 for none."
        )
    if mask is not None:
        real = mask[:, -tokens:].to(anchors.device).bool().gather(1, anchors.clamp(min=0))
        if bool((~real & (anchors >= 0)).any()):
            raise ValueError(
                "`igc_anchors` has a position on padding (`attention_mask` is 0 there). "
                "Pass positions in the padded `input_ids`, and -1 for none."
            )


def last_tokens(rows: Sequence[Sequence[bool]]) -> list[list[int]]:
    """The position of the last real token of each row, padded on either side; none for a row of padding."""
    return [[at for at, real in enumerate(row) if real][-1:] for row in rows]


def before_labels(labels: Sequence[int]) -> list[int]:
    """Positions of the token before each labelled span of a row (-100: no label). A span at its beginning has none."""
    return [at for at in range(len(labels) - 1) if labels[at + 1] != -100 and labels[at] == -100]


def anchors_of_row(
    rules: Rules, ids: list[int], start: int, new: int, ends: Sequence[int], searched_from: int = 0
) -> list[Anchor]:
    """Anchors by token sequences and ends of prompts among the last T tokens of a text, ascending if the latter are.

    Args:
        ids: the last n tokens; T + the longest sequence - 1 of them, or all; none if there are no sequences.
        start, new: position in the text of the first of the T tokens, and T.
        ends: positions in the text of ends of prompts.
        searched_from: first position at which a token sequence may end.
    """
    first, lasts = start + new - len(ids), rules.lasts
    places = [at for at in range(max(start, searched_from), start + new) if ids[at - first] in lasts] if lasts else []
    found = {at: rules.kind(ids, at - first + 1) for at in (*places, *ends)}
    anchors = [Anchor(at, kind) for at, kind in found.items() if kind or at in ends]
    return sorted(anchors) if lasts else anchors


def anchors_of_labels(rules: Rules, ids: list[int], labels: Sequence[int]) -> list[Anchor]:
    """Anchors of a training row, by the same rules as in a forward pass; -100 for no label."""
    return anchors_of_row(rules, ids, 0, len(ids), before_labels(labels) if rules.prompt_end else [])


def even(rows: Sequence[Sequence[Anchor]]) -> Anchors:
    """Rows of equal length, at least 1, with `NONE` at their ends."""
    most = max([1, *map(len, rows)])
    return [[*row, *[NONE] * (most - len(row))] for row in rows]


def positions(anchors: Anchors, device: Any = None) -> torch.Tensor:
    """[B, A] int64: the positions of anchors."""
    return torch.tensor([[one.at for one in row] for row in anchors], device=device)


def anchors_of_call(call: Call, rules: Rules, ids: torch.Tensor, start: int, new: int) -> Anchors | None:
    """Anchors among the T tokens of a call, the caller's or those of the rules. None if no row has one.

    `ids` [B, n] int64, `start` and `new` are as in `anchors_of_row`; the anchors of the caller keep their places.
    """
    rows, before = ids.tolist() if rules.sequences else [[]] * len(ids), ids.shape[1] - new
    if call.anchors is not None:

        def named(row: list[int], at: int) -> Anchor:
            return Anchor(at + start, rules.kind(row, before + at + 1)) if at >= 0 else NONE

        return [[named(row, at) for at in places] for row, places in zip(rows, call.anchors.tolist(), strict=True)]
    ends, generation = _prompt_ends(call, rules, ids[:, before:], start), call.generation
    # Anchors that the caller passed to `generate` replace the rules within the prompt, not after it.
    searched_from = generation.mask.shape[1] if generation is not None and generation.given else 0
    both = zip(rows, ends or [[]] * len(rows), strict=True)
    found = [anchors_of_row(rules, row, start, new, own, searched_from) for row, own in both]
    return even(found) if any(found) else None


def _prompt_ends(call: Call, rules: Rules, ids: torch.Tensor, start: int) -> list[list[int]] | None:
    """Positions in the text of the ends of prompts among the T tokens `ids` [B, T] of a call; None if the rule does
    not apply."""
    new, generation = ids.shape[1], call.generation
    if generation is not None and generation.anchors is not None:
        generation.passed = start + new > max((at for row in generation.anchors for at in row), default=-1)
        copies = len(ids) // len(generation.anchors)  # beams and returned sequences
        return [[at for at in row if start <= at < start + new] for row in generation.anchors for _ in range(copies)]
    # Without ids no token sequence can be found, so the end of the prompt is then the rule.
    if not rules.prompt_end and call.input_ids is not None:
        return None
    if call.labels is not None:
        found = [before_labels(row) for row in call.labels.tolist()]
    elif call.cache is None:
        found = last_tokens((ids != PADDING).tolist())
    else:
        # With the caller's own KV cache this may be any chunk of a text that continues: its end is unknown here.
        return None
    return [[at + start for at in row] for row in found]


def context_starts(
    context: str, rules: Rules, anchors: Sequence[Anchor], earlier: Sequence[Anchor] = (), ids: Sequence[int] = ()
) -> list[int]:
    """The first token that the step at each anchor of a text reads, after `earlier` ones.

    With `"since_last_anchor"` this is the previous anchor that a token sequence names. At an anchor that begins a
    turn, inline anchors do not count: in the question `What is 12 + 30 =` the `=` is an inline anchor, and the anchor
    of the answer must still read the numbers before it. `context` and `rules` are those of the config.
    With `"message"` and the text's `ids` it is not before the last message of a user.
    """
    starts = [0] * len(anchors)
    if context != ROW and rules.sequences:
        # Anchors that only the caller or the end of a prompt named do not count, so that a later pass over the same
        # text, which may not know them, reads the same tokens.
        known = sorted(one for one in (*earlier, *anchors) if one.at >= 0)
        every, turns = ([at for at, kind in known if kind >= least] for least in (INLINE, TURN))
        counted = [every if kind == INLINE else turns for _, kind in anchors]
        before = [bisect_left(places, at) for places, (at, _) in zip(counted, anchors, strict=True)]
        starts = [places[index - 1] if index else 0 for places, index in zip(counted, before, strict=True)]
    return [rules.first_read(ids, start, one.at) if ids else start for start, one in zip(starts, anchors, strict=True)]
