"""The known half of the method for an engine: each text on the host, as a value, and what an adapter knows of it.

In: the ids of texts, in chunks of any size. Out: what continues a result after each of the new tokens of a pass
(`Known.told`), from the steps at the anchors (`Known.extended`) and their results (`Known.decide`). Everything is a
function of the ids up to a token, so an engine may forget a text and make it again from its ids. What needs the
network is asked once for all steps of a pass.

Shapes: n steps, W places that the network reads of each, d features of a token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ..mappings.decisions import Decision
from ..mappings.places import LEAD, StepTexts
from ..text.spelling import Continuation, Row
from ..tuner.adapter import Adapter
from ..tuner.anchors import Anchor, anchors_of_row, context_starts
from ..tuner.config import IGCConfig
from ..tuner.steps import decisions_of
from ..tuner.writing import progress_of


# Compressed tokens [n, W, d] of the requests [n, 1] of a pass at positions [n, W].
Gather = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Kept:
    """The compressed tokens of the contexts of steps, indexed like a tensor [n, places, d], and gathered when they are
    read, which is seldom. Requests and first positions of the contexts are [n] int64."""

    def __init__(self, gather: Gather, requests: torch.Tensor, firsts: torch.Tensor) -> None:
        self.device, self._gather, self._requests, self._firsts = requests.device, gather, requests, firsts

    def __getitem__(self, index: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        rows, places = index
        return self._gather(self._requests[rows], places + self._firsts[rows])


def check(config: IGCConfig) -> None:
    """Refuses adapters of the hidden interface, whose texts cannot be followed on the host (a ValueError)."""
    if config.interface != "tokens":
        place = f"The adapter in `{config.loaded_from}`" if config.loaded_from else "The adapter"
        raise ValueError(
            f"{place} has the hidden interface, which reads and writes whole rows in the network, but an engine packs "
            "several texts into one. Use `generate` with a padded batch, or train one with `interface='tokens'`."
        )


class Text(NamedTuple):
    """A text as far as it is known."""

    ids: list[int]  # its tokens. The list is shared with the texts that continue this one, and may be longer.
    length: int = 0  # number of its tokens
    anchors: tuple[Anchor, ...] = ()  # its anchors
    row: Row = Row()  # how far the results of its steps are written
    end: int = -1  # position of the last token of the prompt, if that is an anchor

    def appended(self, ids: Sequence[int]) -> Text:
        """The text with more tokens, whose anchors are not known yet."""
        own = self.ids if len(self.ids) == self.length else self.ids[: self.length]  # another text continues this one
        own.extend(ids)
        return Text(own, len(own), self.anchors, self.row, self.end)

    def cropped(self, length: int) -> Text:
        """The text's first tokens."""
        if length == self.length:
            return self
        anchors = tuple(anchor for anchor in self.anchors if anchor.at < length)
        return self._replace(length=length, anchors=anchors, row=self.row.cropped(length))


class Step(NamedTuple):
    """A step that is to be decided: the position of its anchor, and of the first token that it reads."""

    anchor: int
    since: int


Asked = tuple[int, Step]  # a step of a request


class Known:
    """What an adapter of the token interface knows without its network, which is asked where a text alone does not
    decide, if it `reads`; else such a step is silent."""

    def __init__(self, adapter: Adapter, reads: bool = True) -> None:
        assert adapter.style is not None
        self.adapter, self.config, self.reads = adapter, adapter.config, reads
        self.rules, self.style = adapter.rules, adapter.style
        self._lasts = self.rules.lasts

    def extended(self, text: Text, ids: Sequence[int]) -> tuple[Text, list[Step]]:
        """The text with more tokens, and the steps at the anchors among these."""
        start, text = text.length, text.appended(ids)
        ends = start <= text.end < text.length
        if self._lasts.isdisjoint(ids) and not ends:
            return text, []
        read = text.ids[max(start - self.rules.longest + 1, 0) : text.length]
        found = anchors_of_row(self.rules, read, start, len(ids), [text.end] if ends else [])
        since = context_starts(self.config.reading_context, self.rules, found, text.anchors, text.ids)
        steps = [Step(one.at, first) for one, first in zip(found, since, strict=True)]
        return text._replace(anchors=(*text.anchors, *found)), steps

    def told(
        self, texts: dict[int, Text], tokens: dict[int, list[int]], gather: Gather, again: Sequence[Asked] = ()
    ) -> tuple[dict[int, list[Continuation | None]], list[tuple[Asked, Decision]]]:
        """Adds the `tokens` of a pass to the `texts` of its requests.

        Returns what continues a result after each token, or nothing; and the steps that were decided, `again` too.
        """
        asked, told = [*again], {}
        for one, ids in tokens.items():
            texts[one], steps = self.extended(texts[one], ids)
            asked += [(one, step) for step in steps]
        decisions = self.decide(texts, asked, gather)
        for one, ids in tokens.items():
            texts[one], told[one] = self.continued(texts[one], texts[one].length - len(ids))
        return told, [*zip(asked, decisions, strict=True)]

    def made(self, ids: list[int]) -> tuple[Text, Step | None]:
        """A text of which nothing but its ids is known, and its last step, if that may still be written."""
        text, steps = self.extended(Text([]), ids)
        is_over = not steps or not set(self.style.ends).isdisjoint(ids[steps[-1].anchor + 1 :])
        return text, None if is_over else steps[-1]

    def decide(self, texts: dict[int, Text], asked: Sequence[Asked], gather: Gather) -> Sequence[Decision]:
        """Decides steps, `asked` by request, at once, and begins their results in the `texts` of the requests."""
        if not asked:
            return []
        reader = self.adapter.reader
        firsts = [max(step.since - LEAD, 0) for _, step in asked]
        rows = [texts[one].ids[first : step.anchor + 1] for (one, step), first in zip(asked, firsts, strict=True)]
        last = [step.anchor - first for (_, step), first in zip(asked, firsts, strict=True)]
        since = [step.since - first for (_, step), first in zip(asked, firsts, strict=True)]
        step_texts = StepTexts.of_lists(reader.tokens, rows, last, since)
        kept: Any = None
        if self.reads:
            device = reader.compression.weight.device
            kept = Kept(gather, *torch.tensor([[one for one, _ in asked], firsts]).to(device))
        decisions: Any = decisions_of(self.adapter, kept, step_texts)
        for (one, step), decision in zip(asked, decisions, strict=True):
            progress = progress_of(self.style, step.anchor, decision.result)
            texts[one] = texts[one]._replace(row=texts[one].row.begun([(step.anchor, progress)]))
        return decisions

    @staticmethod
    def continued(text: Text, start: int) -> tuple[Text, list[Continuation | None]]:
        """The text, and what continues its results after each token from a position on; nothing if none is open."""
        need = text.row.needs(start)
        if need is None:
            return text, []
        first = min(start, need)
        row, found = text.row.continued(text.ids[first : text.length], first, start)
        return text._replace(row=row), found
