"""Promises of the state on a cache: whatever happens to its rows and its length, it is that of the text.

A schedule is a random series of feeds (1 to 4 tokens a row, the first with rows of mixed lengths), crops, reorderings,
repeats and selections. After every feed the logits are those of an uncached pass over each row's text alone, from
scratch; at the end the steps are, too, and where each result has been told. The texts are made of numbers, anchors and
the results of their own steps, so that sequences of two tokens are split by feeds and cut by crops, and an earlier
step governs again. A schedule that fails names its seed. Try it: `pytest tests/test_schedules.py`
"""

import functools
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
import torch
from checks import MARGIN, TOLERANCE, adapted, calculations, margin, positions_of, record_of, watching
from tiny_vocabulary import NUMBERS, TABLE, TEXTS, encode
from transformers import DynamicCache

from peft_igc.calculator import Status
from peft_igc.runs import NumberTokens
from peft_igc.spelling import spell
from peft_igc.steps import Step


SLOW = ["gpt2", "mistral", "mistral-window", "qwen2", "qwen3", "gemma", "gpt_neox", "opt"]
ARCHITECTURES = ["llama", *(pytest.param(arch, marks=pytest.mark.slow) for arch in SLOW)]
INTERFACES = ["hidden", "tokens"]
SCHEDULES, MOVES = 36, 15
WINDOW = 6

TURN, INLINE = encode("A").tolist(), [encode("=").tolist(), encode(" is\n").tolist()]
TOKENS = NumberTokens(TABLE)
OTHERS = ["=", " is", "\n", "A", " +", " *", "-", ";", " and"]


@dataclass
class Row:
    """One text, and the tokens that it should go on with."""

    ids: list[int] = field(default_factory=list)
    owed: list[int] = field(default_factory=list)
    padding: int = 0

    def copy(self):
        return Row([*self.ids], [*self.owed], self.padding)


@functools.cache
def made(arch, interface, context):
    """A telling model with anchors where a turn begins and within texts."""
    arch, _, window = arch.partition("-")
    rules = {"anchor": "tokens", "anchor_token_ids": [TURN], "inline_token_ids": INLINE, "reading_context": context}
    overrides = {"sliding_window": WINDOW} if window else None
    return adapted(arch, overrides=overrides, interface=interface, result_digits=8, **rules)


def contexts(interface):
    return ["since_last_anchor", "row", 7] if interface == "tokens" else ["since_last_anchor", "row"]


def alone(model, ids):
    """Logits [L, V] of a pass over one text alone, nothing cached, and its step, if any."""
    with watching() as seen, torch.no_grad():
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    return logits, next((s for s in seen if isinstance(s, Step)), None)


def told(record):
    """Where the result of each step of each row has been told, in real tokens from the text's start; -1: not yet."""
    rows = []
    for at, told, valid in zip(record.anchors.tolist(), record.told.tolist(), record.valid, strict=True):
        real = valid.cumsum(0) - 1
        steps = sorted((a, t) for a, t in zip(at, told, strict=True) if a >= 0)
        rows.append([int(real[t]) if t >= 0 else -1 for _, t in steps])
    return rows


class Schedule:
    """A cache, the texts that it holds, and what has happened to them."""

    def __init__(self, model, seed):
        self.model, self.draw = model, random.Random(seed)
        self.cache = DynamicCache(config=model.config)
        for layer in self.cache.layers:
            if hasattr(layer, "activate_past_recording"):
                layer.activate_past_recording()
        self.sliding = bool(getattr(model.config, "sliding_window", None))
        self.rows = [Row() for _ in range(self.draw.randint(1, 3))]
        self.fresh = 0  # tokens fed since the last crop
        self.seen = Counter()

    def play(self):
        self.feed()
        for move in self.draw.choices(
            [self.feed, self.crop, self.reorder, self.repeat, self.select], [6, 2, 1, 1, 1], k=MOVES
        ):
            move()
        self.feed()
        self.check_steps()

    def more_for(self, row, count):
        """`count` tokens that go on with a row, none of which makes a tie, and the logits of its text with them."""
        for attempt in range(20):
            owed, more = [*row.owed] if attempt < 5 else [], []
            while len(more) < count:
                if not owed and self.draw.random() < 0.6:
                    owed = self.question()
                if owed and self.draw.random() < 0.95:
                    more.append(owed.pop(0))
                else:
                    more.append(TEXTS.index(self.draw.choice(NUMBERS if self.draw.random() < 0.45 else OTHERS)))
            logits, step = alone(self.model, row.ids + more)
            if step is None or margin(step) > MARGIN:
                break
        else:
            raise AssertionError("whatever follows, there is a tie")
        known = len(row.ids)
        row.ids, row.owed = row.ids + more, owed
        if step is not None:
            self.owe(row, step, known)
        return logits[-count:]

    def question(self):
        """Two numbers, what to do with them, and an anchor."""
        parts = [self.draw.choice(texts) for texts in ([";", ";", "A"], NUMBERS, [" +", " *", "-"], NUMBERS)]
        return [TEXTS.index(part) for part in parts] + self.draw.choice([*INLINE, TURN])

    def owe(self, row, step, known):
        """The result of a step that has just come about is what the row goes on with, sometimes."""
        at, ok = step.anchors[0], step.result.status[0] == int(Status.OK)
        self.seen["ok"] += int((ok & (at >= known)).sum())
        self.seen["split"] += int(row.ids[known - 1 : known + 1] == INLINE[1]) if known else 0
        if ok[-1] and at[-1] >= known and self.draw.random() < 0.85:
            line = spell(TOKENS, step.result.digits[0, -1], step.result.sign[0, -1])
            row.owed = [token for token in line.tolist() if token >= 0]
            behind = row.ids[int(at[-1]) + 1 :]
            row.owed = row.owed if not behind else encode(";").tolist() + row.owed

    def feed(self):
        first = not self.rows[0].ids
        count = self.draw.randint(1, 4)
        counts = [self.draw.randint(1, count) if first else count for _ in self.rows]
        wanted = [self.more_for(row, n) for row, n in zip(self.rows, counts, strict=True)]
        if first:
            for row, n in zip(self.rows, counts, strict=True):
                row.padding = count - n
        # the longest row of the first feed may be gone by now, and padding alone is left before the others
        mask = torch.tensor([[0] * row.padding + [1] * len(row.ids) for row in self.rows])
        given = {"attention_mask": mask, "position_ids": positions_of(mask)[:, -count:]}
        ids = torch.tensor([([0] * row.padding + row.ids)[-count:] for row in self.rows])
        with torch.no_grad():
            got = self.model(input_ids=ids, **given, past_key_values=self.cache).logits
        for i, (logits, n) in enumerate(zip(wanted, counts, strict=True)):
            torch.testing.assert_close(got[i, -n:], logits, atol=TOLERANCE, rtol=0)
        self.fresh += count

    def crop(self):
        most = min(len(row.ids) for row in self.rows) - 1
        # What a window no longer shows, transformers (5.23) cannot bring back.
        most = min(most, self.fresh) if self.sliding else most
        if most < 1:
            return
        count = self.draw.randint(1, min(most, 6))
        before = record_of(self.cache)
        length = before.length - count
        self.seen["crop"] += int(((before.anchors >= length) & (before.status == int(Status.OK))).sum())
        self.seen["untold"] += int(((before.told >= length) & (before.anchors < length)).sum())
        self.seen["cut"] += sum(row.ids[-count - 1 : len(row.ids) - count + 1] == INLINE[1] for row in self.rows)
        self.cache.crop(-count)
        self.fresh = 0
        for row in self.rows:
            row.ids, row.owed = row.ids[:-count], []

    def reorder(self):
        order = [self.draw.randrange(len(self.rows)) for _ in self.rows]
        self.cache.reorder_cache(torch.tensor(order))
        self.rows = [self.rows[i].copy() for i in order]
        self.seen["reorder"] += order != sorted(order)

    def repeat(self):
        if len(self.rows) < 3:
            self.cache.batch_repeat_interleave(2)
            self.rows = [row.copy() for row in self.rows for _ in range(2)]
            self.seen["repeat"] += 1

    def select(self):
        if len(self.rows) > 1:
            chosen = self.draw.sample(range(len(self.rows)), self.draw.randint(1, len(self.rows)))
            self.cache.batch_select_indices(torch.tensor(chosen))
            self.rows = [self.rows[i] for i in chosen]
            self.seen["select"] += 1

    def check_steps(self):
        """The record's steps are those of one pass over each text alone."""
        record = record_of(self.cache)
        steps, places = calculations(record), told(record)
        for i, row in enumerate(self.rows):
            cache = DynamicCache(config=self.model.config)
            with torch.no_grad():
                self.model(input_ids=torch.tensor([row.ids]), past_key_values=cache)
            scratch = record_of(cache)
            assert steps[i] == calculations(scratch)[0]
            assert places[i] == told(scratch)[0]
            with self.model.disable_adapter():
                base, _ = alone(self.model, row.ids)
            self.seen["written"] += bool((alone(self.model, row.ids)[0] - base).abs().max() > 100 * TOLERANCE)
            self.seen["told"] += sum(place >= 0 for place in places[i])


def run(arch, interface, seeds):
    """Plays schedules and says what happened in them."""
    seen = Counter()
    for seed in seeds:
        context = contexts(interface)[seed % len(contexts(interface))]
        schedule = Schedule(made(arch, interface, context), seed)
        try:
            schedule.play()
        except Exception as error:
            error.add_note(f"schedule {seed} of {arch}, {interface}, reading_context={context!r}")
            raise
        seen += schedule.seen
    return seen


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_after_any_schedule_of_moves_logits_and_steps_are_those_of_the_texts_from_scratch(arch, interface):
    seen = run(arch, interface, range(SCHEDULES))
    least = {"ok": 60, "written": 20, "crop": 10, "split": 5, "cut": 1, "reorder": 5, "repeat": 5, "select": 5}
    if interface == "tokens":
        least |= {"told": 5, "untold": 1}
    assert {name: seen[name] for name in least if seen[name] < least[name]} == {}
