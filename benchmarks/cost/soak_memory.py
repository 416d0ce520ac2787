"""Memory at moments at which no KV cache is in use, and whether it has grown between them.

In: nothing but the process. Out: `Memory` samples, and sentences about what grew. A sample has the process's resident
set, tensors, and objects that belong to texts and calls, after a garbage collection, and after the allocator has given
its free pages back, where it can (glibc). The first quarter of the samples is the warm-up. After that

* as many objects of a kind (`KINDS`) are alive as before the run;
* at most `TENSORS` more tensors are alive than at the end of the warm-up;
* the median resident set of the last third of the samples exceeds that of the first third by at most `RESIDENT`.

Try it: `pytest tests/benchmarks/test_soak.py`
"""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers.cache_utils import Cache

from peft_igc.tuner.call import Call, Generation
from peft_igc.tuner.text_state import StaticText, TextState


KINDS = (TextState, StaticText, Call, Generation, Cache)
TENSORS = 16  # tables that libraries make on first use
RESIDENT = 16 * 2**20  # bytes; fragments vary by a few MiB


@dataclass
class Memory:
    """What is alive at one moment.

    Attributes:
        generations: made so far in this phase.
        seconds: since the phase began.
        resident: bytes of the process's resident set; None where there is no `/proc`.
        tensors: number of tensors.
        objects: number of objects by the name of their kind.
        load: the machine's load average over one minute.
    """

    generations: int
    seconds: float
    resident: int | None
    tensors: int
    objects: dict[str, int]
    load: float


def measured(generations: int, seconds: float) -> Memory:
    """Collects garbage and counts what is left."""
    gc.collect()
    # The type, not `isinstance`, which would ask proxies for the class of what they stand for.
    types = Counter(type(one) for one in gc.get_objects())
    objects = {kind.__name__: sum(n for t, n in types.items() if issubclass(t, kind)) for kind in KINDS}
    tensors = sum(n for t, n in types.items() if issubclass(t, torch.Tensor))
    return Memory(generations, seconds, resident(), tensors, objects, os.getloadavg()[0])


def resident() -> int | None:
    """Bytes of the process's resident set, or None."""
    with suppress(AttributeError):  # not glibc: what each thread's pool holds in reserve counts as well
        ctypes.CDLL(None).malloc_trim(0)
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else None


def growth(memory: list[Memory], before: dict[str, int]) -> list[str]:
    """What has grown, in sentences; `before` has the number of objects before the run."""
    counted = memory[len(memory) // 4 :]
    first, last = counted[0], counted[-1]
    found = [
        f"{last.objects[name] - n} objects `{name}` are alive after {last.generations} generations although no cache "
        "is in use: a cache, a thread's stack or a table keeps them."
        for name, n in before.items()
        if last.objects[name] > n
    ]
    if last.tensors > first.tensors + TENSORS:
        found.append(
            f"{last.tensors - first.tensors} more tensors are alive after {last.generations} generations than after "
            f"{first.generations}; {TENSORS} may be."
        )
    more = resident_growth(memory)
    if more is not None and more > RESIDENT:
        found.append(
            f"The resident set has grown by {more / 2**20:.1f} MiB from the first third of the samples after the "
            f"warm-up to the last; {RESIDENT / 2**20:.0f} MiB may be."
        )
    return found


def resident_growth(memory: list[Memory]) -> float | None:
    """Bytes by which the resident set grows from the first third of the samples after the warm-up to the last."""
    sizes = [one.resident for one in memory[len(memory) // 4 :]]
    if None in sizes:
        return None
    third = max(1, len(sizes) // 3)
    return statistics.median(sizes[-third:]) - statistics.median(sizes[:third])  # type: ignore[type-var]
