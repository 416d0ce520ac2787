"""Teach the embedded base model to write worked solutions: word problems of one to six steps, in GSM8K's form.

In: the base model of the package and generated texts (no network, no files). Out: `--output DIR`, a folder for
`load_base`, with weights in bf16. All weights are trained, on the solutions and on a part of what the base was made
from (`tiny_base.questions`, prose), so that it keeps what it can. In every fourth solution the results are labelled
too. It learns to plan and to copy; it does not learn to calculate. An
interrupted run starts again.

    python recipes/extend_tiny_base.py --output build/tiny_solutions   # 53 minutes on two cores, beside other work
    python recipes/extend_tiny_base.py --output build/trial --steps 20             # a trial
"""

import argparse
import random
import re
import sys
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parent))  # so that `tiny_base` is found from any folder

import pretrain_tiny_base as pretrain
import torch
from tiny_base import corpus
from tiny_base.batches import IGNORED, SORTED_TOGETHER, Batches, Sizes, of_similar_length, pad_right
from tiny_base.worked_solutions import WorkedSolutions

from peft_igc.inference.loading import tiny_base


SOLUTIONS_SHARE, PROSE_SHARE = 0.75, 0.05  # of the steps; the others are short conversations
ROWS = 64
MUON_RATE, ADAM_RATE = 4e-3, 2e-3
RESULTS_SHARE = 0.25  # of the solutions with their results labelled: what cannot be learned hides what can


class Solutions:
    """Batches of questions with their solutions, of similar length; the solutions are labelled."""

    def __init__(self, tokenizer, seed: int):
        self.tokenizer, self.rng = tokenizer, random.Random(seed)
        self.rows = iter(WorkedSolutions(seed))
        self.sorted: list = []

    def batch(self):
        """(ids [B, T], labels [B, T])"""
        if not self.sorted:
            rows = [self.row(next(self.rows)) for _ in range(SORTED_TOGETHER * ROWS)]
            self.sorted = of_similar_length(rows, ROWS, self.rng)
        return pad_right(self.sorted.pop(), self.tokenizer.pad_token_id)

    def row(self, solution):
        chat = [{"role": "user", "content": solution["question"]}]
        prompt = self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        answer = re.sub("<<.*?>>", "", solution["answer"]) + self.tokenizer.eos_token
        ids = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        told = self.tokenizer(answer, add_special_tokens=False, return_offsets_mapping=True)
        hidden = [] if self.rng.random() < RESULTS_SHARE else _results(solution["answer"])
        labels = [
            IGNORED if any(start < end and begin < stop for begin, end in hidden) else token
            for token, (start, stop) in zip(told["input_ids"], told["offset_mapping"], strict=True)
        ]
        return ids + told["input_ids"], [IGNORED] * len(ids) + labels


def _results(answer: str) -> list[tuple[int, int]]:
    """Where the results stand in an answer without its annotations: (begin, end) in characters."""
    found, gone = [], 0
    for match in re.finditer(r"<<.*?>>(\d+)", answer):
        gone += match.start(1) - match.start()
        found.append((match.start(1) - gone, match.end(1) - gone))
    return found


def main() -> None:
    """Read the options, train, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder for the model and its tokenizer")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model, tokenizer = tiny_base()
    model.set_attn_implementation("eager")
    settings = pretrain.Settings(
        seed=options.seed, steps=options.steps, muon_rate=MUON_RATE, adam_rate=ADAM_RATE, log_every=50
    )
    old = Batches(
        tokenizer, corpus.training_texts(), Sizes(seed=options.seed + 1, chat_rows=ROWS, prose_rows=8, long_rows=4)
    )
    draw = {"solutions": Solutions(tokenizer, options.seed).batch, "prose": old.english, "chat": old.chats}
    shares = {"solutions": SOLUTIONS_SHARE, "prose": PROSE_SHARE, "chat": 1 - SOLUTIONS_SHARE - PROSE_SHARE}
    pretrain.train(settings, model, draw, shares)
    model.set_attn_implementation("sdpa")
    pretrain.save(model, tokenizer, options.output)


if __name__ == "__main__":
    main()
