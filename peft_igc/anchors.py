"""Where the anchors are: the positions at which a calculation is known to be fully described.

In: what a forward pass knows. Out: [B, A] int64 positions in the text (index into ids with padding, from the text's
first token), -1 for none. The rules, first match wins: positions given by the caller; configured token sequences; the
prompt's end in `generate`; the token before each labelled stretch; the last real token of each row. The last rule does
not hold for a pass that is handed a cache: the end of its text is not known.

Shapes: B rows, T positions of this call, P tokens of a prompt, A anchors per row, L tokens of the text so far.
Try it: `pytest tests/test_anchors.py`
"""

from __future__ import annotations

import torch

from .state import Call, repeat_rows


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


def ends_of_sequences(
    ids: torch.Tensor, valid: torch.Tensor, sequences: list[list[int]], new: int
) -> torch.Tensor | None:
    """Where one of the token sequences ends within the last `new` tokens of `ids` [B, L], as [B, A].

    Returns None where there is none in any row. Costs one synchronisation with the device.
    """
    length = ids.shape[1]
    ids = ids.masked_fill(~valid, -1)  # padding is no text, whatever its id
    hits = torch.zeros_like(ids, dtype=torch.bool)
    for sequence in sequences:
        n = len(sequence)
        if n <= length:
            windows = ids.unfold(1, n, 1) == torch.tensor(sequence, device=ids.device)  # [B, L - n + 1, n]
            hits[:, n - 1 :] |= windows.all(-1)
    hits[:, : length - new] = False
    return _positions(hits) if bool(hits.any()) else None


def _positions(hits: torch.Tensor) -> torch.Tensor:
    """Positions of the True entries of `hits` [B, T], ascending, as [B, A], -1 behind the last; A at least 1."""
    count = max(int(hits.sum(1).max()), 1) if hits.numel() else 1
    place = torch.arange(hits.shape[1], device=hits.device).expand(hits.shape)
    ordered = place.masked_fill(~hits, hits.shape[1]).sort(1).values
    ordered = torch.nn.functional.pad(ordered, (0, count), value=hits.shape[1])[:, :count]
    return ordered.masked_fill(ordered == hits.shape[1], -1)


def anchors_of_call(
    call: Call, sequences: list[list[int]] | None, ids: torch.Tensor, valid: torch.Tensor, new: int
) -> torch.Tensor | None:
    """Anchors among the `new` last tokens of the text.

    Args:
        call: the forward pass.
        sequences: the configured token sequences, or None.
        ids: [B, L] int64 ids of the text so far, this call's included; -1 if unknown.
        valid: [B, L] bool, False for padding.
        new: T, tokens of this call.

    Returns:
        [B, A] int64 positions in 0..L-1, -1 for none; None if no row has one, as far as the host knows.
    """
    start = ids.shape[1] - new
    if call.anchors is not None:
        given = call.anchors.to(ids.device)
        return torch.where(given >= 0, given + start, -1)
    generation = call.generation
    if generation is not None and generation.anchors is not None:
        first, last = generation.span
        if last < start or first >= start + new:
            return None
        at = repeat_rows(generation.anchors, ids.shape[0]).to(ids.device)
        return torch.where((at >= start) & (at < start + new), at, -1)
    if sequences is not None and call.input_ids is not None:  # embeddings show no token sequences
        return ends_of_sequences(ids, valid, sequences, new)
    if call.labels is not None:
        at = before_labels(call.labels.to(ids.device))
    elif call.cache is None:
        at = last_tokens(valid[:, start:])
    else:
        # A cache that the caller handed in may hold any part of a text that goes on: its end is not known here.
        return None
    return torch.where(at >= 0, at + start, -1)
