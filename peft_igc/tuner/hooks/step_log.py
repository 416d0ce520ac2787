"""The steps of a `generate` for its caller: where each answer comes from.

A `StepRecord` for each step of each returned sequence is in the field `igc_steps` of an output of
`generate(..., return_dict_in_generate=True)`. Sequences of beam search are followed back through its `beam_indices`.
Try it: `pytest tests/tuner/test_step_log.py`
"""

from typing import NamedTuple

import torch

from ...numbers.calculator import Result
from ...text.spelling import Row
from ..anchors import Anchors
from ..config import IGCConfig
from ..records import Place, StepRecord, record_of
from ..state.text_state import TextState
from ..steps import Generated, Step


class _Pass(NamedTuple):
    """One forward pass: the index of the generated token that it predicts, and the steps of the text after it."""

    token: int
    anchors: Anchors
    steps: Result
    rows: tuple[Row, ...]  # empty in the hidden interface
    event: Step | None  # the last of these steps, which the pass has read


class StepLog:
    """Collects the steps of one running `generate` with an active adapter.

    `length` is the number of columns of the text up to the end of the prompt, those in the KV cache included. With
    `beams` rows are reordered, so that a returned sequence may have passed through several rows.
    """

    def __init__(self, config: IGCConfig, length: int, beams: bool) -> None:
        self.config, self.length, self.beams = config, length, beams
        self._passes: list[_Pass] = []

    def add(self, state: TextState, event: Step | None = None) -> None:
        """Logs one forward pass: the state of the text after it, and what it has read."""
        if not self.beams and self._passes and self._passes[-1].event is None:
            self._passes.pop()  # the steps of this pass contain all earlier ones
        token = max(state.length - self.length, 0)
        self._passes.append(_Pass(token, state.anchors, state.steps, state.rows, event))

    def of_sequences(self, finished: Generated, beams: torch.Tensor | None) -> tuple[tuple[StepRecord, ...], ...]:
        """The steps of each returned sequence, by position; `beams` [rows, longest answer] are its `beam_indices`, -1
        after an answer's end, None without beams."""
        found = []
        for row, answer in enumerate(finished.sequences[:, finished.prompt :].tolist()):
            count = next((at + 1 for at, token in enumerate(answer) if token in finished.ends), len(answer))
            lineage = [row] * max(count, 1) if beams is None else [at for at in beams[row].tolist() if at >= 0]
            # The last token was never read, and anchors that assisted decoding took back are after it.
            last = self.length + len(lineage) - 1
            places: dict[int, tuple[_Pass, int, int]] = {}
            events: dict[int, Place] = {}
            for one in self._passes:
                at = lineage[min(one.token, len(lineage) - 1)]
                # Assisted decoding reads more tokens than it keeps.
                if one.token < len(lineage) or not self.beams:
                    known = [anchor.at for anchor in one.anchors[at]]
                    if self.beams or one is self._passes[-1]:
                        places |= {place: (one, at, index) for index, place in enumerate(known) if 0 <= place < last}
                    if one.event is not None:
                        new = known[-one.event.anchors.shape[1] :]
                        events |= {place: Place(one.event, at, index) for index, place in enumerate(new)}
            steps, ids = [], finished.sequences[row, : finished.prompt + count].tolist()
            starts = [*sorted(places), finished.start + len(ids)]
            for (place, (seen, at, index)), until in zip(sorted(places.items()), starts[1:], strict=True):
                complete = None
                if seen.rows:
                    progress = dict(seen.rows[at].steps).get(place)
                    if place >= finished.start:
                        given = ids[place - finished.start : until - finished.start]
                        complete = progress is not None and progress.is_spelled(given)
                    else:  # in text of an earlier call, whose tokens are not among these
                        complete = progress is not None and 0 <= progress.completed < last
                result = Result(*(x[at, index] for x in seen.steps))
                steps.append(record_of(self.config, place - finished.start, result, events.get(place), complete))
            found.append(tuple(steps))
        return tuple(found)
