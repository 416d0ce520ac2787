"""Whether answers stay right and memory stays flat over 10,000 generations, and over minutes of eight threads.

First phase: lives of caches (`soak_lives`), each answer compared with a fresh generation of the same text. Second
phase: the same lives again, in threads that share one model at a time, compared with the answers of the first phase.

Between lives memory is measured when no cache is in use, after a garbage collection. After a warm-up there are no more
objects of a kind (`KINDS`) than before the run, at most `TENSORS` more tensors than at first, and the median of the
last third of the samples exceeds that of the first third by at most `HEAP` bytes in use and `RESIDENT` bytes of the
resident set, which also has free fragments of the allocator. Two answers may differ where a fresh pass over the text
shows a tie, as the choice then depends on the order of additions: at most `TIES` of them. With another difference, or
where memory grows, the exit code is 1; the JSON is written all the same.

    peft-igc demo --output build/tokens --seed 0
    python -m benchmarks.cost.soak --adapter build/tokens/adapter --output benchmarks/results/soak.json

The other interface, and both without `--adapter`, have random adapters that calculate wherever they read numbers.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import psutil
import torch
from tqdm import tqdm, trange
from transformers.cache_utils import Cache

from benchmarks.common.measuring import command, facts, write
from benchmarks.cost import soak_lives
from benchmarks.cost.soak_lives import Answer, Plan, Subject, lived
from peft_igc.tuner.call import Call, Generation
from peft_igc.tuner.state.text_state import TextState


KINDS = (TextState, Call, Generation, Cache)
TENSORS = 16  # tables that libraries make on first use
HEAP, RESIDENT = 2 * 2**20, 64 * 2**20  # bytes
TIES = 0.005  # of the answers
CLOSE = 1e-2  # nats between the best two next tokens: what another order of additions may move
SAMPLES = 24  # of a phase, at most
SHORTEST = 2.0  # seconds of a round of threads, but for very short runs
EXAMPLES = 10  # of wrong answers
KEPT = 2  # lives of each subject and kind that threads repeat


def measured(generations: int) -> dict[str, Any]:
    """What is left after a garbage collection: bytes in use on the heap, those of all tensors included, and of the
    resident set; the number of tensors, and of objects by the name of their kind."""
    gc.collect()
    # The type, not `isinstance`, which would ask proxies for the class of what they replace.
    types = Counter(type(one) for one in gc.get_objects())
    objects = {kind.__name__: sum(n for t, n in types.items() if issubclass(t, kind)) for kind in KINDS}
    tensors = sum(n for t, n in types.items() if issubclass(t, torch.Tensor))
    heap = psutil.heap_info()
    psutil.heap_trim()  # so that the resident set has few free fragments of the allocator
    sizes = {"heap": heap.heap_used + heap.mmap_used, "resident": psutil.Process().memory_info().rss}
    return {"generations": generations, **sizes, "tensors": tensors, "objects": objects}


def growth(memory: list[dict[str, Any]], before: dict[str, int]) -> Iterator[str]:
    """What has grown in the samples after the warm-up, in sentences; `before` has the number of objects of each kind
    before the run."""
    first, last = memory[0], memory[-1]
    for name, n in before.items():
        if last["objects"][name] > n:
            yield (
                f"{last['objects'][name] - n} objects `{name}` are alive after {last['generations']} generations "
                "although no cache is in use: a cache, a thread's stack or a table keeps them."
            )
    if last["tensors"] > first["tensors"] + TENSORS:
        yield f"{last['tensors'] - first['tensors']} more tensors are alive at the end; {TENSORS} may be."
    for name, most in (("heap", HEAP), ("resident", RESIDENT)):
        if (more := growth_of(memory, name)) > most:
            yield f"`{name}` has grown by {more / 2**20:.1f} MiB after the warm-up; {most / 2**20:.0f} MiB may be."


def growth_of(memory: list[dict[str, Any]], name: str) -> float:
    """Bytes by which the median of `heap` or `resident` grows from the first third of samples to the last."""
    sizes = [one[name] for one in memory]
    third = max(1, len(sizes) // 3)
    return statistics.median(sizes[-third:]) - statistics.median(sizes[:third])


class Phase:
    """What came of a phase's answers, and the memory meanwhile. The first `warm_up` of its samples, and never less
    than a quarter, are not judged."""

    def __init__(self, warm_up: int = 1) -> None:
        self.answers = Counter[str]()  # by subject and kind of life
        self.ties, self.wrong = 0, list[str]()  # those that differ from the expected one: at a tie, and elsewhere
        self.warm_up, self.start, self.lock = warm_up, time.perf_counter(), Lock()
        self.memory = [measured(0)]

    def add(self, plan: Plan, answer: Answer, expected: tuple[int, ...]) -> None:
        """Counts one answer, of any thread."""
        is_right = answer.new == expected
        tied = not is_right and is_tie(plan.subject, answer, expected)
        with self.lock:
            self.answers[f"{plan.subject.name}, {plan.kind}"] += 1
            self.ties += tied
            if not (is_right or tied):
                decode = plan.subject.tokenizer.decode
                text, got, right = (decode(list(ids)) for ids in (answer.text, answer.new, expected))
                where = f"{plan.subject.name}, {plan.kind}, seed {plan.seed}"
                self.wrong.append(f"{where}: after {text!r} came {got!r}, not {right!r}")

    def sample(self) -> None:
        """Measures the memory now."""
        self.memory.append(measured(self.answers.total()))

    def told(self, name: str, before: dict[str, int]) -> tuple[dict[str, Any], list[str]]:
        """The phase for JSON, and what is wrong, in sentences; `before` has the number of objects before the run."""
        n, judged = self.answers.total(), self.memory[max(self.warm_up, len(self.memory) // 4) :]
        found = list(growth(judged, before))
        if self.wrong:
            found.append(
                f"{len(self.wrong)} of {n} answers are not those to the same text alone. The first: {self.wrong[0]}."
            )
        if self.ties > max(1, TIES * n):
            found.append(f"{self.ties} of {n} answers differ at a tie; {TIES:.1%} may be.")
        told = {"generations": n, "answers": self.answers, "ties": self.ties, "wrong": len(self.wrong)}
        told |= {"examples": self.wrong[:EXAMPLES], "seconds": time.perf_counter() - self.start}
        told |= {f"{size}_growth": growth_of(judged, size) for size in ("heap", "resident")}
        told |= {"warm_up": len(self.memory) - len(judged), "memory": self.memory}
        return told, [f"{name}: {one}" for one in found]


def fresh(subject: Subject, answer: Answer) -> tuple[int, ...]:
    """The answer to the same text from scratch."""
    return tuple(soak_lives.generated(subject.model, [answer.text], len(answer.new))[0])


def is_tie(subject: Subject, answer: Answer, expected: tuple[int, ...]) -> bool:
    """Whether a pass over the text, up to where two answers part, has two next tokens of which none is better."""
    same = next(i for i, (a, b) in enumerate(zip(answer.new, expected, strict=True)) if a != b)
    with torch.no_grad():
        logits = subject.model(input_ids=torch.tensor([[*answer.text, *expected[:same]]]), use_cache=False).logits
    best = logits[0, -1].log_softmax(-1).topk(2).values
    return float(best[0] - best[1]) < CLOSE


def alone(subjects: list[Subject], generations: int, seed: int) -> tuple[Phase, dict[Plan, list[Answer]]]:
    """Lives one after the other, each answer compared with a fresh generation; also gives the answers of the first."""
    phase, known, progress = Phase(), {}, tqdm(total=generations, mininterval=20)
    cells = [(subject, kind) for subject in subjects for kind in soak_lives.LIVES[subject.cache]]
    every = max(1, generations // SAMPLES)
    number = 0
    while phase.answers.total() < generations:
        plan = Plan(*cells[number % len(cells)], f"{seed}-{number // len(cells)}")
        answers = lived(plan)
        for answer in answers:
            phase.add(plan, answer, fresh(plan.subject, answer))
        if number < KEPT * len(cells):
            known[plan] = answers
        number += 1
        progress.update(len(answers))
        if phase.answers.total() >= every * len(phase.memory):
            phase.sample()
    return phase, known


def together(known: dict[Plan, list[Answer]], threads: int, seconds: float, seed: int) -> Phase:
    """The same lives in threads, in rounds of one model each, between which memory is measured."""
    models = list({id(plan.subject.model): plan.subject.model for plan in known}.values())
    phase = Phase(warm_up=1 + len(models))  # each thread makes buffers for each model
    rounds = max(3 * len(models), min(SAMPLES, round(seconds / SHORTEST)))
    with ThreadPoolExecutor(threads) as pool:  # its threads live on, with whatever is left on their stacks
        for number in trange(rounds, mininterval=20):
            model = models[number % len(models)]
            lives = [(plan, answers) for plan, answers in known.items() if plan.subject.model is model]
            end = time.perf_counter() + seconds / rounds
            draws = [random.Random(f"{seed}-{number}-{thread}") for thread in range(threads)]
            list(pool.map(lambda draw, lives=lives, end=end: until(end, lives, draw, phase), draws))
            phase.sample()
    return phase


def until(end: float, lives: list[tuple[Plan, list[Answer]]], draw: random.Random, phase: Phase) -> None:
    """Repeats lives in one thread up to a moment, at least one, and compares their answers with the known ones."""
    is_first = True
    while is_first or time.perf_counter() < end:
        is_first, (plan, answers) = False, draw.choice(lives)
        for answer, before in zip(lived(plan), answers, strict=True):
            # The texts differ where an earlier answer of this life was a tie.
            phase.add(plan, answer, before.new if answer.text == before.text else fresh(plan.subject, answer))


def soak(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs both phases; gives the results for JSON, with what is wrong under `faults`."""
    subjects = soak_lives.subjects(arguments.seed, arguments.adapter)
    before, results = measured(0)["objects"], dict[str, Any]()
    phase, known = alone(subjects, arguments.generations, arguments.seed)
    results["alone"], faults = phase.told("alone", before)
    if arguments.minutes > 0:
        phase = together(known, arguments.threads, 60 * arguments.minutes, arguments.seed)
        results["together"], more = phase.told("together", before)
        faults += more
    bounds = {"tensors": TENSORS, "heap": HEAP, "resident": RESIDENT, "ties": TIES, "objects": before}
    return {"bounds": bounds, **results, "faults": faults}


def main() -> None:
    """Runs the soak test and writes its results; exit code 1 if something is wrong."""
    made = command(__doc__)
    made.add_argument("--adapter", type=Path, metavar="DIR", help="a trained adapter of the embedded base")
    made.add_argument("--generations", type=int, default=10_000, help="of the first phase (default: %(default)s)")
    made.add_argument("--threads", type=int, default=8, help="of the second phase (default: %(default)s)")
    made.add_argument("--minutes", type=float, default=5.0, help="of the second phase (default: %(default)s)")
    made.add_argument("--seed", type=int, default=0)
    arguments = made.parse_args()
    # oneDNN keeps a compiled primitive for each shape that it meets, up to 1,024: some MiB in thousands of texts. It
    # reads this variable at its first use.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0")
    torch.set_num_threads(1)
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in vars(arguments).items()}
    results = {**facts(), "settings": settings, **soak(arguments)}
    write(arguments.output, results)
    if results["faults"]:
        raise SystemExit("\n".join(results["faults"]))
    print("All answers are right, and memory is flat.", flush=True)


if __name__ == "__main__":
    main()
