"""Does vLLM's engine answer as `generate` does, token for token, and leave silent texts as they are?

Requests, silent chats, chats of several turns, chats with a shared beginning, and `=` in running text, by default of
the embedded base with its adapter, in several ways of running an engine. The baseline is `generate`, one text at a
time; its answers are computed once and kept in `--expected`. Where an answer differs, the model is asked for the
logits of the two tokens at the first difference: a tie is a difference of at most `TIE`, which another order of
additions may move. For silent texts the baseline is the engine without the plugin: the log-probabilities of the three
best tokens are equal, bit for bit. With any other difference the exit code is 1; the JSON is written all the same.

    .cache/vllm/bin/python -m benchmarks.cost.vllm_answers --output build/vllm_answers.json
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.common.engine_texts import answers, prompts, with_equals_signs
from benchmarks.common.measuring import command, facts, write
from benchmarks.common.vllm_engines import ask, engine, log_probabilities, metric
from peft_igc.inference.loading import find_base, load_adapter, load_base
from peft_igc.tuner.base_model import TINY, TINY_ADAPTER_FOLDER


TOKENS = 24
TIE = 1e-3  # difference of two logits
SAMPLES = 4
DRAFTS = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
WAYS: dict[str, dict[str, Any]] = {  # settings of an engine; each answers all texts twice, then from its prefix cache
    "eager": {},
    "chunks of 16 tokens": {"max_num_batched_tokens": 16, "max_num_seqs": 16},
    "18 blocks": {"num_gpu_blocks_override": 18},
    "drafts": {"speculative_config": DRAFTS},
}
COUNTERS = ("num_preemptions", "prefix_cache_hits", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens")


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """A parser of the arguments of `prepared`."""
    parser = command(str(description))
    parser.add_argument("-n", type=int, default=1000, help="number of texts")
    expected = Path("build/vllm_expected.json")
    parser.add_argument("--expected", type=Path, default=expected, help="answers of `generate`")
    return parser


@contextmanager
def prepared(
    n: int, expected: Path, base: str = TINY, adapter: Path = TINY_ADAPTER_FOLDER
) -> Iterator[tuple[Path, Any, Any, list[list[int]], list[list[int]]]]:
    """The folder of the adapter with anchors at `=`, the tokenizer, the model with it, the texts, and the answers of
    `generate`."""
    alone, tokenizer = load_base(base)
    with tempfile.TemporaryDirectory() as folder:
        served = with_equals_signs(Path(folder), tokenizer, adapter)
        model, texts = load_adapter(alone.float(), served), prompts(tokenizer, n)  # as the engine computes
        yield served, tokenizer, model, texts, expected_answers(model, texts, expected)


def expected_answers(model: Any, texts: list[list[int]], path: Path) -> list[list[int]]:
    """The answers of `generate`, from the file if it has those of these texts."""
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["texts"] == texts:
            return list(kept["answers"])
    found = [answers(model, [ids], TOKENS)[0] for ids in tqdm(texts, mininterval=20)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"texts": texts, "answers": found}))
    return found


def compared(model: Any, texts: list[list[int]], found: list[list[int]], wanted: list[list[int]]) -> dict[str, Any]:
    """How many answers are the same; the differences that are ties, with the difference of the logits; and others."""
    told: dict[str, Any] = {"texts": len(texts), "same": 0, "ties": [], "others": []}
    for ids, one, right in zip(texts, found, wanted, strict=True):
        if one == right:
            told["same"] += 1
            continue
        at = next((at for at, (a, b) in enumerate(zip(one, right, strict=False)) if a != b), None)
        gap = None if at is None else logit_gap(model, ids + right[:at], one[at], right[at])
        kind = "others" if gap is None or gap > TIE else "ties"
        told[kind].append({"text": ids, "found": one, "wanted": right, "gap": gap})
    return told


def logit_gap(model: Any, ids: list[int], first: int, second: int) -> float:
    """The difference of the logits of two tokens after a text."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
    return float((logits[first] - logits[second]).abs())


def answered(served: tuple[Path, Path], model: Any, texts: list[list[int]], wanted: list[list[int]], name: str) -> Any:
    """The comparisons of one way of running an engine; an adapter and its base are served."""
    with engine(*served, **WAYS[name]) as llm:
        told = {"first": compared(model, texts, [one[0] for one in ask(llm, texts)], wanted)}
        told["again"] = compared(model, texts, [one[0] for one in ask(llm, texts)], wanted)
        if name == "eager":
            several = ask(llm, texts, n=SAMPLES, temperature=0.001, top_k=1)
            for at, samples in enumerate(zip(*several, strict=True)):
                told[f"sample {at}"] = compared(model, texts, list(samples), wanted)
        counted = {counter: metric(llm, counter) for counter in COUNTERS}
    return {**told, "counters": {counter: int(count) for counter, count in counted.items() if count}}


def silent(served: tuple[Path, Path], texts: list[list[int]], tokens: int) -> dict[str, Any]:
    """How many places of silent texts have the same log-probabilities with and without the plugin."""
    found = []
    for adapter in (served[0], None):
        with engine(adapter, served[1], max_num_batched_tokens=256) as llm:
            found.append(log_probabilities(llm, texts, tokens))
    return {"tokens": len(found[0]), "equal": sum(a == b for a, b in zip(*found, strict=True))}


def main() -> None:
    """Compares, and writes the results."""
    parser = parser_of(__doc__)
    parser.add_argument("--base", default=TINY, help="a folder or hub id")
    parser.add_argument("--adapter", type=Path, default=TINY_ADAPTER_FOLDER, help="the folder of its adapter")
    parser.add_argument("--silent", type=int, default=5000, help="number of tokens of silent texts")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), help="ways of running an engine")
    args = parser.parse_args()
    with prepared(args.n, args.expected, args.base, args.adapter) as (adapter, tokenizer, model, texts, wanted):
        served = adapter, Path(find_base(args.base))
        found: dict[str, Any] = {**facts(), "base": args.base, "n": args.n, "ways": {}}
        for name in args.ways:
            found["ways"][name] = answered(served, model, texts, wanted, name)
            runs = [(run, told) for run, told in found["ways"][name].items() if run != "counters"]
            print(
                name, {run: (told["same"], len(told["ties"]), len(told["others"])) for run, told in runs}, flush=True
            )
        per_text = 48
        found["silent"] = silent(served, prompts(tokenizer, -(-args.silent // per_text) * 5)[1::5], per_text)
    write(args.output, found)
    others = sum(len(told["others"]) for way in found["ways"].values() for told in way.values() if "others" in told)
    raise SystemExit(int(others > 0 or found["silent"]["equal"] < found["silent"]["tokens"]))


if __name__ == "__main__":
    main()
