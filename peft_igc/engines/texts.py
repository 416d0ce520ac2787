"""The known half of the method for an engine: each text on the host, as a value, and what an adapter knows of it.

In: the ids of a text, in chunks of any size. Out: the steps at its anchors (`Known.extended`), their results
(`Known.decide`), and what continues a result after each of the new tokens (`Known.continued`). Everything is a
function of the ids up to a token, so an engine may forget a text and make it again from its ids. What needs the
network is asked through `reader`, once for all steps of a pass. Try it: `pytest tests/engines/test_texts.py`

Shapes: n steps, W places that the network reads of each, d features of a token.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, NamedTuple

import torch

from ..mappings.decisions import Decision, decided, packed_of
from ..mappings.places import StepTexts
from ..numbers.places import LEAD
from ..text.spelling import Continuation, Row
from ..text.values import Limits
from ..tuner.adapter import Adapter
from ..tuner.anchors import context_starts, found_on_host
from ..tuner.config import IGCConfig
from ..tuner.state.text_state import INLINE, TURN
from ..tuner.state.told import progress_of
from ..tuner.steps import decisions_of


__all__ = ["Kept", "Known", "Step", "Text", "check"]

Gather = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
NOTHING_ASKED = (0,) * 8  # the integers of a reading that is sure that nothing is asked for


def check(config: IGCConfig) -> None:
    """Refuses adapters whose texts cannot be followed on the host.

    Raises:
        ValueError: for the hidden interface.
    """
    place = f"The adapter in `{config.loaded_from}`" if config.loaded_from else "The adapter"
    if config.interface != "tokens":
        raise ValueError(
            f"{place} has the hidden interface, which reads and writes whole rows in the network, but an engine packs "
            "several texts into one. Use `generate` with a padded batch, or train one with `interface='tokens'`."
        )


class Text(NamedTuple):
    """A text as far as it is known.

    Attributes:
        ids: its tokens. The list is shared with the texts that continue this one, and may be longer.
        length: number of its tokens.
        anchors: position and kind of each anchor.
        row: how far the results of its steps are written.
    """

    ids: list[int]
    length: int = 0
    anchors: tuple[tuple[int, int], ...] = ()
    row: Row = Row()

    def appended(self, ids: Sequence[int]) -> Text:
        """The text with more tokens, whose anchors are not known yet."""
        own = self.ids if len(self.ids) == self.length else self.ids[: self.length]  # another text continues this one
        own.extend(ids)
        return self._replace(ids=own, length=len(own))

    def cropped(self, length: int) -> Text:
        """The text's first tokens."""
        if length == self.length:
            return self
        anchors = tuple(anchor for anchor in self.anchors if anchor[0] < length)
        return Text(self.ids, length, anchors, self.row.cropped(length))


class Step(NamedTuple):
    """A step that is to be decided: the position of its anchor, and of the first token that it reads."""

    anchor: int
    since: int


class Kept:
    """The compressed tokens of the contexts of steps, indexed like a tensor [n, places, d].

    Args:
        gather: the compressed tokens [n, W, d] of requests [n, 1] at positions [n, W] of their texts; called when the
            network reads, which it seldom does.
        requests: [n] int64, the request of each step.
        firsts: [n] int64, the position of each context's first token.
    """

    def __init__(self, gather: Gather, requests: torch.Tensor, firsts: torch.Tensor) -> None:
        self.device = requests.device
        self._gather, self._requests, self._firsts = gather, requests, firsts

    def __getitem__(self, index: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """[n, W, d] at rows [n, 1] and places [n, W]."""
        rows, places = index
        return self._gather(self._requests[rows], places + self._firsts[rows])


class Known:
    """What an adapter of the token interface knows without its network.

    Args:
        adapter: the adapter.
        reads: whether the network is asked where a text alone does not decide; else such a step is silent.
    """

    def __init__(self, adapter: Adapter, reads: bool = True) -> None:
        assert adapter.style is not None
        self.config, self.reader, self.reads = adapter.config, adapter.reader, reads
        self.rules, self.style = adapter.rules, adapter.style
        self._window = max([len(sequence) for sequence in self.rules.sequences], default=1) - 1
        self._lasts = {sequence[-1] for sequence in self.rules.sequences}

    def extended(self, text: Text, ids: Sequence[int], end: int = -1) -> tuple[Text, list[Step]]:
        """The text with more tokens, and the steps at the anchors among these.

        Args:
            text: the text.
            ids: the tokens.
            end: position of the last token of the prompt, if that is an anchor; else -1.
        """
        start, text = text.length, text.appended(ids)
        ends = start <= end < text.length
        if self._lasts.isdisjoint(ids) and not ends:
            return text, []
        found = self._anchors(text, start)
        if ends and end not in dict(found):
            found = sorted([*found, (end, 0)])
        if not found:
            return text, []
        (anchors, kinds), earlier = torch.tensor(found).T[:, None], torch.tensor(text.anchors or [(-1, 0)]).T[:, None]
        since = context_starts(self.config.reading_context, self.rules, anchors, kinds, (earlier[0], earlier[1]))
        steps = [Step(at, first) for (at, _), first in zip(found, since[0].tolist(), strict=True)]
        return text._replace(anchors=(*text.anchors, *found)), steps

    def made(self, ids: list[int]) -> tuple[Text, Step | None]:
        """A text of which nothing but its ids is known, and its last step, if that may still be written."""
        text, steps = self.extended(Text([]), ids)
        is_over = not steps or not set(self.style.ends).isdisjoint(ids[steps[-1].anchor + 1 :])
        return text, None if is_over else steps[-1]

    def _anchors(self, text: Text, start: int) -> list[tuple[int, int]]:
        """Position and kind of the anchors from a position on."""
        first = max(start - self._window, 0)
        ids = text.ids[first : text.length]
        found: dict[int, int] = {}
        for kind, sequences in ((TURN, self.rules.turns), (INLINE, self.rules.inline)):
            found |= dict.fromkeys(found_on_host(sequences, [ids], text.length - start)[0], kind)
        return [(start + at, kind) for at, kind in sorted(found.items())]

    def decide(
        self, texts: MutableMapping[int, Text], asked: Sequence[tuple[int, Step]], gather: Gather, device: Any = None
    ) -> Sequence[Decision]:
        """Decides steps at once, and begins their results in `texts`.

        Args:
            texts: the texts by request; these change.
            asked: the request and the step of each.
            gather: of `Kept`.
            device: where the compressed tokens are.
        """
        if not asked:
            return []
        firsts = [max(step.since - LEAD, 0) for _, step in asked]
        rows = [texts[one].ids[first : step.anchor + 1] for (one, step), first in zip(asked, firsts, strict=True)]
        last = [step.anchor - first for (_, step), first in zip(asked, firsts, strict=True)]
        since = [step.since - first for (_, step), first in zip(asked, firsts, strict=True)]
        step_texts = StepTexts.of_lists(self.reader.tokens, self.reader.max_distance, rows, last, since)
        requests, places = torch.tensor([[one for one, _ in asked], firsts]).to(device)
        decisions = self._decisions(step_texts, Kept(gather, requests, places))
        for (one, step), decision in zip(asked, decisions, strict=True):
            progress = progress_of(self.style, step.anchor, *packed_of(decision, self.config.result_digits or 0))
            texts[one] = texts[one]._replace(row=texts[one].row.begun([(step.anchor, progress)]))
        return decisions

    def _decisions(self, texts: StepTexts, kept: Any) -> Sequence[Any]:
        """The decisions of steps that all have an anchor."""
        if self.reads:
            return decisions_of(self.config, self.reader, kept, texts, torch.tensor(texts.anchors)[:, None])
        limits, confidence = Limits.of(self.config), self.config.confidence
        return decided(limits, confidence, texts, lambda steps: [NOTHING_ASKED] * len(steps))

    @staticmethod
    def continued(text: Text, start: int) -> tuple[Text, list[Continuation | None]]:
        """The text, and what continues its results after each token from a position on; nothing if none is open."""
        need = text.row.needs(start)
        if need is None:
            return text, []
        first = min(start, need)
        row, found = text.row.continued(text.ids[first : text.length], first, start)
        return text._replace(row=row), found
