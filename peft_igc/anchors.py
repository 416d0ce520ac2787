"""Where the anchors are, the positions at which a calculation is known to be fully described, and how far is read.

In: what a forward pass knows. Out: [B, A] int64 positions in the text (index into ids with padding, from the text's
first token), -1 for none. Positions given by the caller count alone. Else all rules hold that are set: configured
token sequences, where a turn begins and within texts (`inline`), in any part of a text that goes on; and the prompt's
end, which is that of a `generate`, or before each labelled stretch, or the last real token of each row. The last of
these does not hold for a pass that is handed a cache: the end of its text is not known.

Shapes: B rows, T positions of this call, P tokens of a prompt, A anchors per row, L tokens of the text so far.
Try it: `pytest tests/test_anchors.py`
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from .config import PROMPT_END, ROW, IGCConfig
from .state import Call, repeat_rows


Sequences = list[list[int]]
FEW = 256  # so many new tokens of a batch are faster looked at by the host


class Rules(NamedTuple):
    """A config's anchor rules.

    Attributes:
        prompt_end: Whether the end of a prompt is an anchor.
        turns: Token sequences that begin a turn.
        inline: Token sequences within texts.
    """

    prompt_end: bool
    turns: Sequences
    inline: Sequences

    @classmethod
    def of(cls, config: IGCConfig) -> Rules:
        """The rules of a config."""
        return cls(config.anchor == PROMPT_END, config.anchor_token_ids or [], config.inline_token_ids or [])

    @property
    def sequences(self) -> Sequences:
        """Token sequences of both kinds."""
        return self.turns + self.inline


def check_anchors(anchors: torch.Tensor, shape: torch.Size, mask: torch.Tensor | None) -> None:
    """Refuses `igc_anchors` that are no positions of the input. Looks at values, unless a graph is being compiled.

    Args:
        anchors: what the caller gave, to be [B, A] int64.
        shape: (B, T) of the input.
        mask: [B, at least T], 1 for real tokens, or None.

    Raises:
        ValueError: for another shape or type, or a position outside of the input or on padding.
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
    """The last real token of each row of `mask` [B, T] (left or right padded), as [B, 1]; -1 in a row of padding."""
    place = torch.arange(mask.shape[1], device=mask.device)
    return place.masked_fill(~mask.bool(), -1).amax(1, keepdim=True)


def before_labels(labels: torch.Tensor) -> torch.Tensor:
    """The token before each labelled stretch of `labels` [B, T] (-100: no label), as [B, A]; A at least 1.

    A stretch that begins with the row has no token before it and gets no anchor.
    """
    labelled = labels != -100
    starts = ~labelled[:, :-1] & labelled[:, 1:]  # [B, T - 1]: the next token is the first of a stretch
    return _positions(starts)


def ends_of_sequences(ids: torch.Tensor, valid: torch.Tensor, sequences: Sequences, new: int) -> torch.Tensor:
    """Where one of the token sequences ends within the last `new` tokens of `ids` [B, L], as [B, new] bool."""
    longest = max(map(len, sequences), default=1)
    window = ids[:, max(ids.shape[1] - new - longest + 1, 0) :]
    # padding is no text, whatever its id
    window = window.masked_fill(~valid[:, valid.shape[1] - window.shape[1] :], -1)
    single = [sequence[0] for sequence in sequences if len(sequence) == 1]
    hits = torch.isin(window, torch.tensor(single, dtype=torch.int64, device=ids.device))
    for sequence in sequences:
        n = len(sequence)
        if 1 < n <= window.shape[1]:
            found = window.unfold(1, n, 1) == torch.tensor(sequence, device=ids.device)  # [B, M - n + 1, n]
            hits[:, n - 1 :] |= found.all(-1)
    return hits[:, hits.shape[1] - new :]


def _positions(hits: torch.Tensor) -> torch.Tensor:
    """Positions of the True entries of `hits` [B, T], ascending, as [B, A], -1 behind the last; A at least 1."""
    count = max(int(hits.sum(1).max()), 1) if hits.numel() else 1
    place = torch.arange(hits.shape[1], device=hits.device).expand(hits.shape)
    ordered = place.masked_fill(~hits, hits.shape[1]).sort(1).values
    ordered = torch.nn.functional.pad(ordered, (0, count), value=hits.shape[1])[:, :count]
    return ordered.masked_fill(ordered == hits.shape[1], -1)


def anchors_in_text(
    rules: Rules,
    ids: torch.Tensor,
    valid: torch.Tensor,
    new: int,
    prompt_ends: torch.Tensor | None,
    searched_from: int = 0,
) -> torch.Tensor | None:
    """Anchors by all rules among the `new` last tokens of a text.

    Looking for token sequences costs a synchronisation with the device, and more where one is found.

    Args:
        rules: the config's.
        ids: [B, L] int64.
        valid: [B, L] bool, False for padding.
        new: T.
        prompt_ends: [B, A] positions in 0..L-1 of ends of prompts, -1 for none; None: no such rule holds here.
        searched_from: token sequences count from here on only.

    Returns:
        [B, A] int64 ascending; None if no row has one, as far as the host knows.
    """
    if not rules.sequences:
        return prompt_ends
    if prompt_ends is None and new * len(ids) <= FEW and not torch.compiler.is_compiling():
        # A token of decoding rarely ends a sequence: seeing that on the host takes the one synchronisation alone.
        ends = {sequence[-1] for sequence in rules.sequences}
        if ends.isdisjoint(ids[:, ids.shape[1] - new :].flatten().tolist()):
            return None
    hits = ends_of_sequences(ids, valid, rules.sequences, new)
    start = ids.shape[1] - new
    hits[:, : max(searched_from - start, 0)] = False
    if prompt_ends is not None:  # a rule of its own; the same position may be named by both
        at = torch.where(prompt_ends >= start, prompt_ends - start, new)  # the last column takes what is none
        hits = torch.nn.functional.pad(hits, (0, 1)).scatter(1, at, True)[:, :new]
    if not bool(hits.any()):
        return None
    at = _positions(hits)
    return torch.where(at >= 0, at + start, -1)


def anchors_of_call(call: Call, rules: Rules, ids: torch.Tensor, valid: torch.Tensor, new: int) -> torch.Tensor | None:
    """Anchors among the `new` last tokens of the text.

    Args:
        call: the forward pass.
        rules: the config's.
        ids: [B, L] int64 ids of the text so far, this call's included; -1 if unknown.
        valid: [B, L] bool, False for padding.
        new: T, tokens of this call.

    Returns:
        [B, A] int64 positions in 0..L-1, -1 for none; None if no row has one, as far as the host knows.
    """
    if call.anchors is not None:
        given = call.anchors.to(ids.device)
        return torch.where(given >= 0, given + ids.shape[1] - new, -1)
    generation = call.generation
    behind = generation.mask.shape[1] if generation is not None and generation.given else 0
    return anchors_in_text(rules, ids, valid, new, _prompt_ends(call, rules, ids, valid, new), behind)


def _prompt_ends(call: Call, rules: Rules, ids: torch.Tensor, valid: torch.Tensor, new: int) -> torch.Tensor | None:
    """Ends of prompts among the `new` last tokens, arguments and result as in `anchors_of_call`."""
    start = ids.shape[1] - new
    generation = call.generation
    if generation is not None and generation.anchors is not None:
        first, last = generation.span
        if last < start or first >= start + new:
            return None
        at = repeat_rows(generation.anchors, ids.shape[0]).to(ids.device)
        return torch.where((at >= start) & (at < start + new), at, -1)
    if not rules.prompt_end and call.input_ids is not None:  # embeddings show no token sequences
        return None
    if call.labels is not None:
        at = before_labels(call.labels.to(ids.device))
    elif call.cache is None:
        at = last_tokens(valid[:, start:])
    else:
        # A cache that the caller handed in may hold any part of a text that goes on: its end is not known here.
        return None
    return torch.where(at >= 0, at + start, -1)


def find_anchors(ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor, config: IGCConfig) -> torch.Tensor:
    """Anchors of a training batch by the same rules as in the model's forward pass.

    Args:
        ids: [B, T] int64.
        mask: [B, T], 0 for padding.
        labels: [B, T] int64, -100 for no label.
        config: the adapter's.

    Returns:
        [B, A] int64 positions in ascending order, -1 behind the last; A at least 1.
    """
    rules = Rules.of(config)
    prompt_ends = before_labels(labels) if rules.prompt_end else None
    found = anchors_in_text(rules, ids, mask.bool(), ids.shape[1], prompt_ends)
    return ids.new_full((ids.shape[0], 1), -1) if found is None else found


def context_starts(
    context: str | int, rules: Rules, ids: torch.Tensor, valid: torch.Tensor, anchors: torch.Tensor, before: Any
) -> torch.Tensor:
    """The first token that is read at each anchor.

    Where a turn begins, the step before it is that of the turn before, whatever inline anchors stand between: in
    `12 + 30 =` the sign is an anchor, and the question still belongs to the answer.

    Args:
        context: `IGCConfig.reading_context`.
        rules: the config's.
        ids: [B, L] int64.
        valid: [B, L] bool.
        anchors: [B, A] int64 of this call, -1 for none.
        before: [B, A'] int64, those of earlier calls.

    Returns:
        [B, A] int64 in 0..L-1.
    """
    if context == ROW or (isinstance(context, str) and not rules.sequences):
        return torch.zeros_like(anchors)
    if isinstance(context, int):
        return (anchors - context + 1).clamp(min=0)
    every = torch.cat([before, anchors], 1)  # [B, A' + A]
    place = every.clamp(min=0)
    inline, named = (
        ends_of_sequences(ids, valid, kind, ids.shape[1]).gather(1, place) for kind in (rules.inline, rules.sequences)
    )
    own = ~inline[:, before.shape[1] :, None]  # [B, A, 1]: a turn begins here
    # What only the caller or the end of a prompt named does not count: a later pass over the text may not know of it.
    earlier = (every[:, None] < anchors[..., None]) & named[:, None] & ~(own & inline[:, None])  # [B, A, A' + A]
    return torch.where(earlier, every[:, None], -1).amax(-1).clamp(min=0)
