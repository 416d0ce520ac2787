"""Positions of the anchors in a text, and the first token that each step reads.

In: the context of a forward pass (`Call`) and the anchor rules of a config. Out: [B, A] int64 positions in the text,
counted from its first token with padding, -1 for none. Positions passed by the caller (`igc_anchors`) are used alone.
Otherwise the rules that the config sets combine:

* Token sequences (`turns`, `inline`) name anchors in any part of a text.
* The end of the prompt (`prompt_end`) is the end of `generate`'s prompt; in a plain forward pass the token
  before each labelled span; without labels the last real token of each row. A plain pass with a KV cache has no end of
  the prompt, because its text may continue.

The sequences themselves are made in `anchor_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..text.vocabulary import PADDING
from .call import Call, Generation, repeat_rows
from .config import IGCConfig
from .config_values import PROMPT_END, ROW


INLINE, TURN = 1, 2  # kinds of anchors that a token sequence names: within a text, at the beginning of a turn
Sequences = list[list[int]]


class Rules(NamedTuple):
    """A config's anchor rules."""

    prompt_end: bool  # whether the end of a prompt is an anchor
    turns: Sequences  # token sequences that begin a turn
    inline: Sequences  # token sequences within a text

    @classmethod
    def of(cls, config: IGCConfig) -> Rules:
        """The rules of a config."""
        rules = config.anchors
        return cls(rules.get(PROMPT_END, False), rules.get("turns", []), rules.get("inline", []))

    @property
    def sequences(self) -> Sequences:
        """The token sequences of both kinds."""
        return self.turns + self.inline

    def kind(self, ids: list[int], end: int) -> int:
        """`INLINE` or `TURN` if a sequence ends with the last of the first `end` tokens of a row; else 0."""
        for kind, sequences in ((INLINE, self.inline), (TURN, self.turns)):
            if any(ids[max(end - len(one), 0) : end] == one for one in sequences):
                return kind
        return 0

    def found(self, ids: list[int], new: int) -> dict[int, int]:
        """The kinds of the anchors among the `new` last tokens of a row, by their indices among these; `ids` begins as
        many tokens before these as the longest sequence has, less one."""
        lasts, before = {sequence[-1] for sequence in self.sequences}, len(ids) - new
        ends = (at for at in range(before, len(ids)) if ids[at] in lasts)
        return {at - before: kind for at in ends if (kind := self.kind(ids, at + 1))}


def check_anchors(anchors: torch.Tensor, shape: torch.Size, mask: torch.Tensor | None) -> None:
    """Refuses `igc_anchors` that are not [B, A] int64, or name a position outside the input or on padding.

    The input is of `shape` (B, T, ...), `mask` [B, at least T] is 1 for real tokens. Values are not checked while
    `torch.compile` traces the pass.
    """
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


def last_tokens(mask: torch.Tensor) -> torch.Tensor:
    """[B, 1] int64: position of the last real token of each row of `mask` [B, T], padded on either side; -1 for a row
    of padding."""
    place = torch.arange(mask.shape[1], device=mask.device)
    return place.masked_fill(~mask.bool(), -1).amax(1, keepdim=True)


def before_labels(labels: torch.Tensor) -> torch.Tensor:
    """[B, A] int64 ascending, then -1: positions of the token before each labelled span of `labels` [B, T] (-100: no
    label). A span at the beginning of a row has no token before it and gets no anchor; A is at least 1."""
    labelled = (labels != -100).tolist()
    rows = [[at for at in range(len(row) - 1) if row[at + 1] and not row[at]] for row in labelled]
    return _table(rows, labels.device)


def kinds_of(rules: Rules, ids: torch.Tensor, anchors: torch.Tensor, start: int) -> torch.Tensor:
    """[B, A] int64, the kinds of anchors [B, A]: `INLINE` or `TURN` if a token sequence ends there, whoever named it;
    else 0. `ids` [B, n] are tokens from the position `start` on, with the longest sequence up to each anchor."""
    if not rules.sequences:
        return torch.zeros_like(anchors)
    found = [
        [rules.kind(row, at - start + 1) if at >= 0 else 0 for at in places]
        for row, places in zip(ids.tolist(), anchors.tolist(), strict=True)
    ]
    return torch.tensor(found, dtype=torch.int64).view(anchors.shape).to(anchors.device)


def _table(rows: list[list[int]], device: torch.device) -> torch.Tensor:
    """[B, A] int64 of rows of integers, -1 after them; A is at least 1."""
    most = max([1, *map(len, rows)])
    return torch.tensor([row + [-1] * (most - len(row)) for row in rows], dtype=torch.int64).view(-1, most).to(device)


def anchors_in_text(
    rules: Rules,
    ids: torch.Tensor,
    start: int,
    new: int,
    prompt_ends: torch.Tensor | None,
    searched_from: int = 0,
) -> torch.Tensor | None:
    """Anchors by token sequences and ends of prompts among the last T tokens of a text, in one synchronization.

    Args:
        rules: the config's rules.
        ids: [B, n] int64, the last n tokens; T + the longest sequence - 1 of them, or all.
        start, new: position in the text of the first of the T tokens, and T.
        prompt_ends: [B, A] positions in the text of ends of prompts, -1 for none; None: the rule does not apply.
        searched_from: first position at which a token sequence may end.

    Returns:
        [B, A] int64 ascending, then -1. None if no row has an anchor, as far as the host knows.
    """
    if not rules.sequences:
        return prompt_ends
    named = (rules.found(row, new) for row in ids.tolist())
    found = [{at + start for at in row if at + start >= searched_from} for row in named]
    if prompt_ends is not None:  # both rules may name the same position
        ends = prompt_ends.tolist()
        found = [row | {at for at in more if at >= start} for row, more in zip(found, ends, strict=True)]
    return _table([sorted(row) for row in found], ids.device) if any(found) else None


def anchors_of_call(call: Call, rules: Rules, ids: torch.Tensor, start: int, new: int) -> torch.Tensor | None:
    """Anchors among the T tokens of a call, the caller's or those of the rules; other arguments and result as in
    `anchors_in_text`."""
    if call.anchors is not None:
        given = call.anchors.to(ids.device)
        return torch.where(given >= 0, given + start, -1)
    generation = call.generation
    # Anchors that the caller passed to `generate` replace the rules within the prompt, not after it.
    searched_from = generation.mask.shape[1] if generation is not None and generation.given else 0
    prompt_ends = _prompt_ends(call, rules, ids[:, ids.shape[1] - new :], start)
    return anchors_in_text(rules, ids, start, new, prompt_ends, searched_from)


def _prompt_ends(call: Call, rules: Rules, ids: torch.Tensor, start: int) -> torch.Tensor | None:
    """Ends of prompts among the T tokens `ids` [B, T] of a call; result as in `anchors_of_call`."""
    new, generation = ids.shape[1], call.generation
    if generation is not None and generation.anchors is not None:
        if not _within(start, new, generation):
            return None
        at = repeat_rows(generation.anchors, ids.shape[0]).to(ids.device)
        return torch.where((at >= start) & (at < start + new), at, -1)
    # Without ids no token sequence can be found, so the end of the prompt is then the rule.
    if not rules.prompt_end and call.input_ids is not None:
        return None
    if call.labels is not None:
        at = before_labels(call.labels.to(ids.device))
    elif call.cache is None:
        at = last_tokens(ids != PADDING)
    else:
        # With the caller's own KV cache this may be any chunk of a text that continues: its end is unknown here.
        return None
    return torch.where(at >= 0, at + start, -1)


def _within(start: int, new: int, generation: Generation) -> bool:
    """Whether an anchor of the prompt may be among the T tokens of a pass; remembers when the last one has passed."""
    first, last = generation.span
    generation.passed = start + new > last
    return start <= last and first < start + new


def find_anchors(ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor, config: IGCConfig) -> torch.Tensor:
    """Anchors of a training batch, by the same rules as in a forward pass: [B, A] int64 ascending, then -1; A is at
    least 1. `ids`, `mask` and `labels` are [B, T] int64, 0 for padding and -100 for no label."""
    rules = Rules.of(config)
    prompt_ends = before_labels(labels) if rules.prompt_end else None
    found = anchors_in_text(rules, ids.masked_fill(~mask.bool(), PADDING), 0, ids.shape[1], prompt_ends)
    return ids.new_full((ids.shape[0], 1), -1) if found is None else found


def context_starts(
    context: str | int,
    rules: Rules,
    anchors: torch.Tensor,
    kinds: torch.Tensor,
    earlier: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """The first token that the step at each anchor reads.

    With `"since_last_anchor"` this is the previous anchor that a token sequence names. At an anchor that begins a
    turn, inline anchors do not count: in the question `What is 12 + 30 =` the `=` is an inline anchor, and the anchor
    of the answer must still read the numbers before it.

    Args:
        context, rules: of the config.
        anchors, kinds: [B, A] int64 anchors of this call, -1 for none, and their `kinds_of`.
        earlier: the same [B, n] of earlier calls.

    Returns:
        [B, A] int64 positions in the text.
    """
    if context == ROW or (isinstance(context, str) and not rules.sequences):
        return torch.zeros_like(anchors)
    if isinstance(context, int):
        return (anchors - context + 1).clamp(min=0)
    before, before_kinds = earlier or (anchors[:, :0], kinds[:, :0])
    if anchors.shape[1] == 1 and not before.shape[1]:
        return torch.zeros_like(anchors)
    every, every_kind = torch.cat([before, anchors], 1)[:, None], torch.cat([before_kinds, kinds], 1)[:, None]
    # Anchors that only the caller or the end of a prompt named do not count, so that a later pass over the same text,
    # which may not know them, reads the same tokens.
    counts = (every_kind == TURN) | ((every_kind == INLINE) & (kinds == INLINE)[..., None])  # [B, A, all anchors]
    return torch.where((every < anchors[..., None]) & counts, every, -1).amax(-1).clamp(min=0)


def context_start(context: str | int, rules: Rules, anchor: int, kind: int, anchors: Sequence[tuple[int, int]]) -> int:
    """`context_starts` of one anchor on the host; `anchors` are positions and kinds of those of its text."""
    if isinstance(context, int):
        return max(anchor - context + 1, 0)
    if context == ROW or not rules.sequences:
        return 0
    counting = {TURN, INLINE} if kind == INLINE else {TURN}
    return max((at for at, one in anchors if at < anchor and one in counting), default=0)
