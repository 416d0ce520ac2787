"""Teach the reading of a calculator what words mean, with a larger language model as its teacher.

The embedded base has seen little prose, so a reading on it learns from labels alone which words mean the same. Here
its encoder first learns to tell the teacher's hidden states at the end of each word of the training authors' texts,
and the teacher's embeddings of random words, many of which are in none of these texts. Targets are standardized, and
reduced to their principal components. In: a folder of the teacher. Out: `--output DIR`, a calculator with this encoder
and with the writing of the package's adapter; it reads no calculation yet. `tiny_by_hand.yaml` goes on from it.

    python recipes/teach_reading.py --teacher .cache/smollm2/base --output build/tiny-words

Source: Romero et al. (2015), "FitNets: Hints for thin deep nets".
"""

from __future__ import annotations

import argparse
import copy
import functools
import itertools
import random
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from peft import get_peft_model
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, get_cosine_schedule_with_warmup

from peft_igc import tiny_base, tiny_igc
from peft_igc.data.wording.handwritten import texts_by
from peft_igc.mappings.attention import rms
from peft_igc.mappings.places import StepTexts, place_tensors
from peft_igc.sft.sets import texts_of_authors
from peft_igc.text import Limits
from peft_igc.trainer.optimizer import calculators, muon_adamw
from peft_igc.trainer.precision import in_bf16
from peft_igc.trainer.two_stage import without_calculator


FITTED = 24  # batches that the components are found in
DIM, FFN = 192, 576  # of the reading
ROWS, WORDS = 64, 20  # texts of a batch, words of a list
LISTS = 0.15  # share of the steps with random words
COMPONENTS = 192  # principal components of the targets
RATE, MUON_RATE, DECAY, WARMUP = 2e-3, 1e-2, 0.1, 60
_PIECE = re.compile("Ġ[A-Za-z][a-z]+")
_WORD = re.compile(r"\d[\d.,]*\d|\d|[^\W\d_]+(?:['’][^\W\d_]+)*|[^\w\s]")
TURN = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"  # of SmolLM2, without its system prompt


class Row(NamedTuple):
    """A text as the student reads it, and what it has to tell."""

    ids: list[int]
    ends: list[int]  # the last token of each of k words
    targets: Tensor  # [k, COMPONENTS]


class Components:
    """Standardizes vectors [n, H], and reduces them to their principal components, with a mean square of 1."""

    def __init__(self, vectors: Tensor) -> None:
        self.mean, self.deviation = vectors.mean(0), vectors.std(0) + 1e-4
        scaled = (vectors - self.mean) / self.deviation
        basis = torch.linalg.svd(scaled, full_matrices=False).Vh[:COMPONENTS].T
        self.basis = basis / (scaled @ basis).square().mean().sqrt()

    def __call__(self, vectors: Tensor) -> Tensor:
        return (((vectors - self.mean) / self.deviation) @ self.basis).bfloat16()


def ends_of(tokenizer: Any, chat: str, text: str) -> tuple[list[int], dict[int, int]]:
    """The ids of a chat, and for each position in a text of it the token that ends there, if one does."""
    told, start = tokenizer(chat, add_special_tokens=False, return_offsets_mapping=True), chat.index(text)
    spans = enumerate(told["offset_mapping"])
    return told["input_ids"], {end - start: at for at, (begin, end) in spans if end > begin}


def chat_of(tokenizer: Any, text: str) -> str:
    """The chat with one message."""
    messages = [{"role": "user", "content": text}]
    return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))


def rows_of(texts: Sequence[str], folder: Path, layer: int, tokenizer: Any) -> Iterator[Row]:
    """The texts, shuffled, with the teacher's hidden states after a decoder layer."""
    its = AutoTokenizer.from_pretrained(folder)
    teacher = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).model.eval()
    del teacher.layers[layer + 1 :]
    teacher.norm = nn.Identity()
    pairs = []
    for text in texts:
        ids, ends = ends_of(tokenizer, chat_of(tokenizer, text), text)
        its_ids, its_ends = ends_of(its, TURN.format(text), text)
        words = [match.end() for match in _WORD.finditer(text)]
        both = [(ends[at], its_ends[at]) for at in words if at in ends and at in its_ends]
        pairs.append((ids, its_ids, [*both, (len(ids) - 1, len(its_ids) - 1)]))  # at last, where the answer begins
    pairs.sort(key=lambda pair: len(pair[1]))
    batches = [pairs[start : start + ROWS] for start in range(0, len(pairs), ROWS)]
    random.Random(0).shuffle(batches)  # the first ones are those that the components are found in
    components, waiting = None, []
    for number, batch in enumerate(batches, start=1):
        padded = pad_sequence([torch.tensor(ids) for _, ids, _ in batch], batch_first=True)
        mask = pad_sequence([torch.ones(len(ids), dtype=torch.int64) for _, ids, _ in batch], batch_first=True)
        with torch.no_grad():
            h = teacher(input_ids=padded, attention_mask=mask, use_cache=False).last_hidden_state.float()
        h = h / rms(h)
        waiting += [(ids, ends, h[at, [its for _, its in ends]]) for at, (ids, _, ends) in enumerate(batch)]
        if components is None and number in (FITTED, len(batches)):
            components = Components(torch.cat([states for *_, states in waiting]))
        if components is not None:
            yield from (Row(ids, [end for end, _ in ends], components(states)) for ids, ends, states in waiting)
            waiting = []


def words_of(folder: Path) -> dict[str, Tensor]:
    """The words that are one token of the teacher's each, frequent ones first, as byte-pair encoding found them, and
    the components [COMPONENTS] of their embeddings."""
    table = AutoModelForCausalLM.from_pretrained(folder).get_input_embeddings().weight.detach().float()
    known = AutoTokenizer.from_pretrained(folder).get_vocab().items()
    words = [(token[1:], at) for token, at in sorted(known, key=lambda one: one[1]) if _PIECE.fullmatch(token)]
    vectors = table[[at for _, at in words]]
    return dict(zip((word for word, _ in words), Components(vectors)(vectors), strict=True))


def list_of(words: Mapping[str, Tensor], tokenizer: Any, rng: random.Random) -> Row:
    """A list of random words, mostly frequent ones, some in capitals."""
    known = list(words)
    chosen = [known[int(len(known) * rng.random() ** 2)] for _ in range(WORDS)]
    text = " ".join(rng.choice((str, str, str.lower, str.upper))(word) for word in chosen)
    ids, ends = ends_of(tokenizer, chat_of(tokenizer, text), text)
    last = [ends[at - 1] for at in itertools.accumulate(len(word) + 1 for word in chosen)]
    return Row(ids, last, torch.stack([words[word] for word in chosen]))


class Student(nn.Module):
    """The encoder of a reading, with linear heads after its first half and at its end for texts, and two for words."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.base = model.get_base_model()
        (layer,) = calculators(model)
        self.config, self.reader = model.peft_config["default"], layer.adapter("default").reader
        self.heads = nn.ModuleList(nn.Linear(self.config.reading_dim, COMPONENTS) for _ in range(4))

    def loss(self, rows: Sequence[Row], heads: Sequence[Any]) -> Tensor:
        """How far two heads are from the targets of some rows: the mean square of the second and half that of the
        first."""
        ids = pad_sequence([torch.tensor(row.ids) for row in rows], batch_first=True)
        mask = pad_sequence([torch.ones(len(row.ids), dtype=torch.int64) for row in rows], batch_first=True)
        with torch.no_grad(), without_calculator(self.base):
            states = self.base.model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        reader, (read,) = self.reader, self.config.layers_read
        texts = StepTexts.of_lists(reader.tokens, ids.tolist(), [len(row.ids) - 1 for row in rows], [0] * len(rows))
        width, steps = self.config.num_digits + 1, range(len(rows))
        (places,) = place_tensors(texts, width, steps=steps, with_columns=False, device=ids.device)
        x, visible, distance = reader.placed(reader.compress(states[read + 1], states[0]), places)
        at, place = [], []  # the row of each target, and its place, among those that end the row
        for index, row in enumerate(rows):
            known = texts.places[index].at
            at += [index] * len(row.ends)
            place += [bisect_right(known, end) - 1 - len(known) for end in row.ends]
        targets = torch.cat([row.targets for row in rows]).float()
        half = reader.encode(x, visible, distance, 0)
        whole = reader.encode(half, visible, distance, 1)
        told = [head(reader.memory_norm(y)[at, place]) for head, y in zip(heads, (half, whole), strict=True)]
        return 0.5 * F.mse_loss(told[0].float(), targets) + F.mse_loss(told[1].float(), targets)


def train(student: Student, rows: Sequence[Row], lists: Callable[[random.Random], Row], steps: int) -> None:
    """Trains the reading and the heads on rows, of which those of like length are read together, and on lists."""
    rng, batches = random.Random(0), list[list[Row]]()
    trained = [p for p in (*student.reader.parameters(), *student.heads.parameters()) if p.requires_grad]
    adamw = torch.optim.AdamW(trained, RATE, (0.9, 0.98), weight_decay=0.0)
    optimizer = muon_adamw(adamw, student.base, MUON_RATE, DECAY)
    schedule = get_cosine_schedule_with_warmup(optimizer, WARMUP, steps)
    progress = tqdm(range(steps))
    for _ in progress:
        if rng.random() < LISTS:
            batch, heads = [lists(rng) for _ in range(ROWS)], student.heads[2:]
        else:
            if not batches:
                order = sorted(rng.sample(rows, len(rows)), key=lambda row: len(row.ids))
                batches = [order[start : start + ROWS] for start in range(0, len(order), ROWS)]
                rng.shuffle(batches)
            batch, heads = batches.pop(), student.heads[:2]
        with torch.autocast("cpu", torch.bfloat16, enabled=in_bf16("cpu")):
            loss = student.loss(batch, heads)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        progress.set_postfix(loss=float(loss.detach()))


def main(argv: Sequence[str] | None = None) -> None:
    """Reads the options, and trains and saves the calculator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", type=Path, required=True, help="folder of SmolLM2-135M-Instruct")
    parser.add_argument("--output", type=Path, required=True, help="folder of the calculator")
    parser.add_argument("--layer", type=int, default=18, help="of the teacher, whose hidden states are told")
    parser.add_argument("--steps", type=int, default=4500)
    parser.add_argument("--texts", type=int, help="default: all")
    options = parser.parse_args(argv)
    torch.manual_seed(0)
    old, tokenizer = tiny_igc()
    config = copy.deepcopy(old.peft_config["default"])
    config.reading_dim, config.reading_ffn = DIM, FFN
    config.inference_mode, config.loaded_from = False, None
    model = get_peft_model(tiny_base()[0], config)
    (writing,), (layer,) = calculators(old), calculators(model)
    layer.igc_output_mapping.load_state_dict(writing.igc_output_mapping.state_dict())
    count = options.texts or len(texts_by("trained"))
    texts = [item["prompt"] for item in texts_of_authors("trained", count, 0, Limits())]
    rows = list(tqdm(rows_of(texts, options.teacher, options.layer, tokenizer), total=count, desc="Teacher"))
    lists = functools.partial(list_of, words_of(options.teacher), tokenizer)
    train(Student(model), rows, lists, options.steps)
    model.save_pretrained(options.output, save_embedding_layers=False)  # or PEFT (0.21) looks the base up on the hub
    tokenizer.save_pretrained(options.output)


if __name__ == "__main__":
    main()
