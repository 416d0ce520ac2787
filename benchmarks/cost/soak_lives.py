"""Lives of KV caches, for the soak test: a cache is filled, gives a few answers in one of several ways, is dropped.

In: a `Plan`: a `Subject` (model and kind of cache), a kind of life, which is a method of `_Life`, and a seed. Out:
`Answer`s, each with the text that it follows, so that it can be compared with a fresh generation of the same text.
Equal plans give equal lives. Nothing is compared or counted here; `soak` does that.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peft import PeftModel, get_peft_model
from transformers import DynamicCache, MistralConfig, MistralForCausalLM, StaticCache, StoppingCriteriaList

from benchmarks.common.shapes import INTERFACES, TINY, igc_config, made_base, shallow_copy, twin
from peft_igc.inference.decoding import prompt_tokens


DYNAMIC, STATIC = CACHES = ("dynamic", "static")
WINDOW = 24  # tokens: about a turn and a half
ROOM = 192  # tokens of a static cache
NEW = 5  # most tokens of an answer
PADDING = 0  # on the left of the shorter rows of a batch
# The kinds of lives of each cache. A static one is not cropped, and its copies need their own memory.
LIVES = {DYNAMIC: ("growing", "cropped", "copied", "deep_copied", "reordered", "reset", "abandoned")}
LIVES[STATIC] = tuple(kind for kind in LIVES[DYNAMIC] if kind not in ("cropped", "copied"))
FILLER = "The house was old and it stood in a green garden near the river.".split()
REQUESTS = (
    "What is {a} {word} {b}?",
    "What is {a} {sign} {b}?",
    "{filler} What is {a} {word} {b}?",
    "What is the name of it?",
    "{filler} Who lives in number {a}?",
)
WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}


class Answer(NamedTuple):
    """Ids of a text up to the end of a prompt, and the ids that were generated after it."""

    text: tuple[int, ...]
    new: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Subject:
    """A model with an adapter, and the kind of cache that it is used with."""

    name: str  # for messages
    model: Any  # in eval mode, without gradients; subjects that differ by their cache share it
    cache: str  # of `CACHES`
    tokenizer: Any  # the embedded one


class Plan(NamedTuple):
    """One life."""

    subject: Subject  # whose cache it is
    kind: str  # of `LIVES`
    seed: str  # of the texts, and of what happens to the cache


class Abandoned(BaseException):
    """Ends a forward pass or a generation in the middle. Like `KeyboardInterrupt` it is no `Exception`."""


def subjects(seed: int, adapter: Path | None = None) -> list[Subject]:
    """Both models with both interfaces and both kinds of cache; the trained `adapter` takes its interface's place."""
    base, tokenizer = made_base(TINY, seed, torch.device("cpu"))
    found = []
    for kind, one in (("llama", base), ("window", windowed(base))):
        torch.manual_seed(seed)
        models = {name: get_peft_model(twin(one), igc_config(tokenizer, one, name)) for name in INTERFACES}
        if adapter is not None:
            trained = PeftModel.from_pretrained(twin(one), str(adapter))
            models[trained.peft_config["default"].interface] = trained
        for name, model in models.items():
            model.eval().requires_grad_(False)
            found += [Subject(f"{kind} {name} {cache}", model, cache, tokenizer) for cache in CACHES]
    return found


def windowed(base: Any) -> Any:
    """The embedded base as a Mistral with a sliding window, whose weights have the same names."""
    kept = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    kept += ("num_key_value_heads", "head_dim", "rms_norm_eps", "rope_parameters", "tie_word_embeddings")
    kept += ("max_position_embeddings", "pad_token_id", "bos_token_id", "eos_token_id")
    fields = {name: getattr(base.config, name) for name in kept}
    model = MistralForCausalLM(MistralConfig(**fields, sliding_window=WINDOW))
    model.load_state_dict(base.state_dict())
    model.generation_config = copy.deepcopy(base.generation_config)
    return model.eval().requires_grad_(False)


def lived(plan: Plan) -> list[Answer]:
    """The answers of one life."""
    life = _Life(plan.subject, random.Random(plan.seed))
    getattr(life, plan.kind)()
    return life.answers


class _Life:
    """One life of a cache; each public method is a kind of life."""

    def __init__(self, subject: Subject, draw: random.Random) -> None:
        self.subject, self.draw = subject, draw
        self.start, self.end = subject.tokenizer.bos_token_id, subject.tokenizer.eos_token_id
        self.answers: list[Answer] = []

    def growing(self) -> None:
        """Two to four turns of a chat, each after the answer to the one before."""
        cache, text = self._cache(), [self.start]
        for _ in range(self.draw.randint(2, 4)):
            text = text + self._turn()
            new = self._ask(cache, [text])[0]
            text = [*text, *new, self.end]

    def cropped(self) -> None:
        """Three questions, each cropped away up to a place in it, also in a number, from which another one goes on."""
        cache, text = self._cache(), [self.start]
        cache.activate_past_recording()  # without it a window cannot be cropped (transformers 5.23)
        for _ in range(3):
            asked = self._completed(text)
            self._ask(cache, [asked])
            text = asked[: self.draw.randint(len(text), len(asked) - 1)]
            cache.crop(-(int(cache.get_seq_length()) - len(text)))

    def copied(self) -> None:
        """Forks that share the tensors of their prefix."""
        self._fork(shallow_copy)

    def deep_copied(self) -> None:
        """Forks with tensors of their own."""
        self._fork(copy.deepcopy)

    def reordered(self) -> None:
        """Two or three rows, padded on the left, whose places change shortly before their ends."""
        rows = [[self.start, *self._turn()] for _ in range(self.draw.randint(2, 3))]
        cache, width = self._cache(), max(map(len, rows))
        rows = [[PADDING] * (width - len(row)) + row for row in rows]
        self._feed(cache, rows, 0, width - self.draw.randint(1, 4))
        order = [self.draw.randrange(len(rows)) for _ in rows]
        cache.reorder_cache(torch.tensor(order))
        rows = [rows[i] for i in order]
        if self.subject.cache == DYNAMIC and self.draw.random() < 0.5:
            cache.batch_repeat_interleave(2)
            rows = [row for row in rows for _ in range(2)]
            chosen = self.draw.sample(range(len(rows)), 2)
            cache.batch_select_indices(torch.tensor(chosen))
            rows = [rows[i] for i in chosen]
        self._ask(cache, rows)

    def reset(self) -> None:
        """Three texts, one after the other."""
        cache = self._cache()
        for _ in range(3):
            self._ask(cache, [[self.start, *self._turn()]])
            cache.reset()

    def abandoned(self) -> None:
        """A text that is not answered, in one of four ways, and then again with a new cache."""
        cache, text = self._cache(), [self.start, *self._turn()]
        how = self.draw.choice(("half", "cycle", "pass", "generation"))
        try:
            if how == "pass":
                _interrupt(cache, self.draw.randrange(len(cache.layers)), self.draw.randrange(NEW))
            if how in ("pass", "generation"):
                self._generate(cache, [text], [_abandon] if how == "generation" else [])
            else:
                self._feed(cache, [text], 0, self.draw.randint(1, len(text)))
        except Abandoned:
            pass
        if how == "cycle":
            cache.itself = cache  # only the garbage collector frees it
        self._ask(self._cache(), [text])

    def _fork(self, copied: Any) -> None:
        """Two or three forks, whose questions arrive in turn, a token at a time, and the prefix itself after them."""
        cache, text = self._cache(), [self.start, *self._turn()]
        text = text[: self.draw.randint(1, len(text))]
        self._feed(cache, [text], 0, len(text))
        forks = [(copied(cache), self._completed(text)) for _ in range(self.draw.randint(1, 2))]
        forks.append((cache, self._completed(text)))
        for at in range(len(text), max(len(asked) for _, asked in forks) - 1):
            for fork, asked in forks:
                if at < len(asked) - 1:
                    self._feed(fork, [asked], at, at + 1)
        for fork, asked in forks:
            self._ask(fork, [asked])

    def _completed(self, text: list[int]) -> list[int]:
        """The beginning of a text with a request, and the rest of another request from the same place on."""
        rest = self._turn()[len(text) - 1 :]
        return [*text, *(rest or self._turn())]

    def _turn(self) -> list[int]:
        """Ids of a request and the assistant header; sometimes with words before the request."""
        operator = self.draw.choice(list(WORDS))
        a, b = (self.draw.randrange(10 ** self.draw.randint(1, 4)) for _ in range(2))
        filler = " ".join(self.draw.choices(FILLER, k=self.draw.randint(1, 10)))
        request = self.draw.choice(REQUESTS).format(a=a, b=b, sign=operator, word=WORDS[operator], filler=filler)
        (ids,) = prompt_tokens(self.subject.tokenizer, [request], raw=False)
        return ids[1:]  # without the beginning of a text

    def _cache(self) -> Any:
        """An empty cache."""
        config = self.subject.model.config
        if self.subject.cache == STATIC:
            return StaticCache(config=config, max_cache_len=ROOM)
        return DynamicCache(config=config)

    def _feed(self, cache: Any, rows: list[list[int]], start: int, end: int) -> None:
        """A pass over the tokens from `start` to `end` of rows."""
        ids = torch.tensor(rows)
        mask = (ids != PADDING).long()
        with torch.no_grad():
            self.subject.model(
                input_ids=ids[:, start:end],
                attention_mask=mask[:, :end],
                position_ids=(mask.cumsum(1) - 1).clamp(min=0)[:, start:end],
                past_key_values=cache,
            )

    def _ask(self, cache: Any, rows: list[list[int]]) -> list[list[int]]:
        """Generates after each row, records the answers and gives their ids."""
        new = self._generate(cache, rows)
        texts = [tuple(token for token in row if token != PADDING) for row in rows]
        self.answers += [Answer(text, tuple(ids)) for text, ids in zip(texts, new, strict=True)]
        return new

    def _generate(self, cache: Any, rows: list[list[int]], criteria: Sequence[Any] = ()) -> Any:
        """Ids that are generated after rows, of which the cache may hold the beginning."""
        options = {"past_key_values": cache, "stopping_criteria": StoppingCriteriaList(criteria)}
        return generated(self.subject.model, rows, self.draw.randint(2, NEW), **options)


def generated(model: Any, rows: Sequence[Sequence[int]], new: int, **options: Any) -> list[list[int]]:
    """The ids of `new` tokens after each of some rows of equal length; `options` are those of `generate`."""
    ids = torch.tensor(rows)
    mask = (ids != PADDING).long()
    made = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=new, do_sample=False, **options)
    return made[:, ids.shape[1] :].tolist()


def _interrupt(cache: Any, layer: int, passes: int) -> None:
    """Makes a layer of the cache raise `Abandoned` after some passes: within a pass, before or after the adapter."""
    update, left = cache.layers[layer].update, [passes]

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if not left[0]:
            raise Abandoned
        left[0] -= 1
        return update(*args, **kwargs)

    cache.layers[layer].update = interrupted


def _abandon(input_ids: torch.Tensor, scores: Any, **_: Any) -> bool:
    """Raises `Abandoned` after the first token of a generation."""
    raise Abandoned
