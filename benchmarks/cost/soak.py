"""Whether answers stay right and memory stays flat over 10,000 generations, and over minutes of eight threads.

First phase: lives of caches that grow, are cropped, forked, reordered, reset and abandoned (`soak_lives`). Each answer
is compared with a fresh generation of the same text, without a cache of the caller's. Second phase: the same lives
again, in threads that share one model at a time; each answer is compared with that of the first phase.

Between lives, and between rounds of threads, memory is measured when no cache is in use, after a garbage collection.
After a warm-up the last sample has as many objects of a kind (`KINDS`) as there were before the run, at most `TENSORS`
more tensors than the first one, and the median of the last third exceeds that of the first third by at most `HEAP`
bytes in use and `RESIDENT` bytes of the resident set, which also has free fragments of the allocator. Two answers may
differ where a fresh pass over the text shows a tie, because the choice then depends on the order of additions. These
are counted as `ties`, and may be at most `TIES` of the answers. With any other difference, or where memory grows, the
exit code is 1; the JSON is written all the same.

    peft-igc demo --output build/tokens --seed 0
    python -m benchmarks.cost.soak --adapter build/tokens/adapter --output benchmarks/results/soak.json

The other interface, and both without `--adapter`, have random adapters that calculate wherever they read numbers.
Nothing is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers.cache_utils import Cache

from benchmarks.common.measuring import Progress, command, facts, write
from benchmarks.cost import soak_lives
from benchmarks.cost.soak_lives import Answer, Plan, Subject, lived
from peft_igc.mappings.readings import NEVER, Pointing
from peft_igc.numbers.calculator import Status
from peft_igc.tuner.call import Call, Generation, observing
from peft_igc.tuner.state.text_state import TextState
from peft_igc.tuner.steps import Step


KINDS = (TextState, Call, Generation, Cache)
TENSORS = 16  # tables that libraries make on first use
HEAP, RESIDENT = 2 * 2**20, 64 * 2**20  # bytes
TIES = 0.005  # of the answers
CLOSE = 1e-2  # nats between the best two of a reading or of the next token: what another order of additions may move
SAMPLES = 24  # of a phase, at most
SHORTEST = 2.0  # seconds of a round of threads, but for very short runs
EXAMPLES = 10  # of wrong answers
KEPT = 2  # lives of each subject and kind that threads repeat


# ------------------------------------------------------------------------------------------ memory
def measured(generations: int) -> dict[str, Any]:
    """Collects garbage and counts what is left after some generations: bytes of the heap and of the resident set, None
    where the system does not tell them; the number of tensors, and of objects by the name of their kind."""
    gc.collect()
    # The type, not `isinstance`, which would ask proxies for the class of what they stand for.
    types = Counter(type(one) for one in gc.get_objects())
    objects = {kind.__name__: sum(n for t, n in types.items() if issubclass(t, kind)) for kind in KINDS}
    tensors = sum(n for t, n in types.items() if issubclass(t, torch.Tensor))
    sizes = {"heap": heap(), "resident": resident()}
    return {"generations": generations, **sizes, "tensors": tensors, "objects": objects}


class _HeapInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc (2.33), `malloc.h`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def heap() -> int | None:
    """Bytes that are in use on the heap, those of all tensors on the CPU included, or None without glibc."""
    try:
        info = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    info.restype = _HeapInfo
    found = info()
    return int(found.uordblks + found.hblkhd)  # from the pools, and mapped


def resident() -> int | None:
    """Bytes of the process's resident set, or None, once the allocator has given back what it can."""
    with suppress(AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else None


def growth(memory: list[dict[str, Any]], before: dict[str, int]) -> list[str]:
    """What has grown in the samples after the warm-up, in sentences; `before` has the number of objects of each kind
    before the run."""
    first, last = memory[0], memory[-1]
    found = [
        f"{last['objects'][name] - n} objects `{name}` are alive after {last['generations']} generations although no "
        "cache is in use: a cache, a thread's stack or a table keeps them."
        for name, n in before.items()
        if last["objects"][name] > n
    ]
    if last["tensors"] > first["tensors"] + TENSORS:
        found.append(f"{last['tensors'] - first['tensors']} more tensors are alive at the end; {TENSORS} may be.")
    for name, most in (("heap", HEAP), ("resident", RESIDENT)):
        more = growth_of(memory, name)
        if more is not None and more > most:
            found.append(
                f"`{name}` has grown by {more / 2**20:.1f} MiB from the first third of the samples after the warm-up "
                f"to the last; {most / 2**20:.0f} MiB may be."
            )
    return found


def growth_of(memory: list[dict[str, Any]], name: str) -> float | None:
    """Bytes by which the median of `heap` or `resident` grows from the first third of samples to the last."""
    sizes = [one[name] for one in memory]
    if None in sizes:
        return None
    third = max(1, len(sizes) // 3)
    return statistics.median(sizes[-third:]) - statistics.median(sizes[:third])


# ------------------------------------------------------------------------------------------ counts
@dataclass
class Counts:
    """What came of some answers.

    Attributes:
        answers: their number by subject and kind of life.
        ok: those after a step that is ok; not counted in threads.
        ties: those that differ from the expected one where it is a tie.
        wrong: those that differ elsewhere.
        examples: the first of these, in words.
    """

    answers: Counter[str] = field(default_factory=Counter)
    ok: int = 0
    ties: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def generations(self) -> int:
        """Answers so far."""
        return sum(self.answers.values())

    def add(self, plan: Plan, answer: Answer, expected: tuple[int, ...]) -> None:
        """Counts one answer."""
        self.answers[f"{plan.subject.name}, {plan.kind}"] += 1
        if answer.new == expected:
            return
        if is_tie(plan.subject, answer, expected):
            self.ties += 1
            return
        self.wrong += 1
        decode = plan.subject.tokenizer.decode
        text, got, right = (decode(list(ids)) for ids in (answer.text, answer.new, expected))
        example = f"{plan.subject.name}, {plan.kind}, seed {plan.seed}: after {text!r} came {got!r}, not {right!r}"
        self.examples = [*self.examples, example][:EXAMPLES]

    def merge(self, other: Counts) -> None:
        """Adds those of a thread."""
        self.answers += other.answers
        self.ok, self.ties, self.wrong = self.ok + other.ok, self.ties + other.ties, self.wrong + other.wrong
        self.examples = [*self.examples, *other.examples][:EXAMPLES]


class Phase:
    """What came of a phase's answers, and the memory meanwhile, from before the first answer on.

    Args:
        warm_up: how many samples of the memory are not judged; never less than a quarter of them.
    """

    def __init__(self, warm_up: int = 1) -> None:
        self.counts, self.warm_up, self.start = Counts(), warm_up, time.perf_counter()
        self.memory = [measured(0)]

    def sample(self) -> None:
        """Measures the memory now."""
        self.memory.append(measured(self.counts.generations))

    def told(self, name: str, before: dict[str, int]) -> tuple[dict[str, Any], list[str]]:
        """The phase for JSON, and what is wrong, in sentences; `before` has the number of objects before the run."""
        counts, judged = self.counts, self.memory[max(self.warm_up, len(self.memory) // 4) :]
        found = growth(judged, before)
        if counts.wrong:
            found.append(
                f"{counts.wrong} of {counts.generations} answers are not those to the same text alone. "
                f"The first: {counts.examples[0]}."
            )
        if counts.ties > max(1, TIES * counts.generations):
            found.append(f"{counts.ties} of {counts.generations} answers differ at a tie; {TIES:.1%} may be.")
        told = {"generations": counts.generations, **vars(counts), "seconds": time.perf_counter() - self.start}
        told |= {f"{size}_growth": growth_of(judged, size) for size in ("heap", "resident")}
        told |= {"warm_up": len(self.memory) - len(judged), "memory": self.memory}
        return told, [f"{name}: {one}" for one in found]


# ------------------------------------------------------------------------------------------ answers
@contextmanager
def steps_seen() -> Iterator[list[Step]]:
    """The steps that run meanwhile in this thread."""
    seen: list[Step] = []
    with observing(lambda event: seen.append(event) if isinstance(event, Step) else None):
        yield seen


def fresh(subject: Subject, answer: Answer) -> tuple[tuple[int, ...], bool]:
    """The answer to the same text from scratch, and whether a step of it is ok."""
    with steps_seen() as seen:
        (expected,) = soak_lives.generated(subject.model, [list(answer.text)], len(answer.new))
    return tuple(expected), any(bool((step.result.status == int(Status.OK)).any()) for step in seen)


def is_tie(subject: Subject, answer: Answer, expected: tuple[int, ...]) -> bool:
    """Whether a pass over the text, up to where two answers part, has a choice between two of which none is better."""
    same = next(i for i, (a, b) in enumerate(zip(answer.new, expected, strict=True)) if a != b)
    with torch.no_grad(), steps_seen() as steps:
        logits = subject.model(input_ids=torch.tensor([[*answer.text, *expected[:same]]]), use_cache=False).logits
    best = logits[0, -1].log_softmax(-1).topk(2).values
    return min([float(best[0] - best[1]), *map(margin, steps)]) < CLOSE


def margin(step: Step) -> float:
    """The smallest distance between the best two of a slot, in nats; infinite where there is nothing to choose."""
    reading = step.reading
    if isinstance(reading, Pointing):
        # The second operand is another number than the first one: the third best may be the next choice.
        pointers = reading.scores.movedim(2, 0).flatten(3).topk(3, -1).values  # [2, B, A, 3]
        slots = [pointers[0], pointers[1], reading.operator.log_softmax(-1).topk(2, -1).values]
    else:
        slots = [one.log_softmax(-1).topk(2, -1).values for one in reading]
    gaps = [(one[..., :-1] - one[..., 1:])[one[..., 1:] > NEVER / 2] for one in slots]
    return min((float(gap.min()) for gap in gaps if gap.numel()), default=float("inf"))


# ------------------------------------------------------------------------------------------ phases
def alone(subjects: list[Subject], generations: int, seed: int) -> tuple[Phase, dict[Plan, list[Answer]]]:
    """Lives one after the other, each answer compared with a fresh generation; also gives the answers of the first."""
    phase, known, progress = Phase(), {}, Progress(generations)
    cells = [(subject, kind) for subject in subjects for kind in subject.lives]
    every = max(1, generations // SAMPLES)
    for number in itertools.count():
        plan = Plan(*cells[number % len(cells)], f"{seed}-{number // len(cells)}")
        answers = lived(plan)
        for answer in answers:
            expected, ok = fresh(plan.subject, answer)
            phase.counts.add(plan, answer, expected)
            phase.counts.ok += ok
        if number < KEPT * len(cells):
            known[plan] = answers
        done = phase.counts.generations
        progress.step("generations", min(len(answers), generations - progress.done))
        if done >= every * len(phase.memory):
            phase.sample()
        if done >= generations:
            return phase, known
    raise AssertionError  # not reached: there is no end to counting


def together(known: dict[Plan, list[Answer]], threads: int, seconds: float, seed: int) -> Phase:
    """The same lives in threads, in rounds of one model each, between which memory is measured."""
    models = list({id(plan.subject.model): plan.subject.model for plan in known}.values())
    phase = Phase(warm_up=1 + len(models))  # each thread makes buffers for each model
    rounds = max(3 * len(models), min(SAMPLES, round(seconds / SHORTEST)))
    progress = Progress(rounds)
    with ThreadPoolExecutor(threads) as pool:  # its threads live on, with whatever is left on their stacks
        for number in range(rounds):
            model = models[number % len(models)]
            lives = [(plan, answers) for plan, answers in known.items() if plan.subject.model is model]
            end = time.perf_counter() + seconds / rounds
            draws = [random.Random(f"{seed}-{number}-{thread}") for thread in range(threads)]
            for counts in list(pool.map(lambda draw, lives=lives, end=end: until(end, lives, draw), draws)):
                phase.counts.merge(counts)
            progress.step("rounds of threads")
            phase.sample()
    return phase


def until(end: float, lives: list[tuple[Plan, list[Answer]]], draw: random.Random) -> Counts:
    """Repeats lives in one thread up to a moment, at least one, and compares their answers with the known ones."""
    counts = Counts()
    while not counts.answers or time.perf_counter() < end:
        plan, answers = draw.choice(lives)
        for answer, before in zip(lived(plan), answers, strict=True):
            # The texts differ where an earlier answer of this life was a tie.
            expected = before.new if answer.text == before.text else fresh(plan.subject, answer)[0]
            counts.add(plan, answer, expected)
    return counts


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
