"""Memory at moments at which no KV cache is in use, and whether it has grown between them.

In: nothing but the process. Out: `Memory` samples, and sentences about what grew. A sample is taken after a garbage
collection. Among the samples after a warm-up

* the last one has as many objects of a kind (`KINDS`) as there were before the run;
* the last one has at most `TENSORS` more tensors than the first one;
* the median of the last third exceeds that of the first third by at most `HEAP` bytes in use on the heap, and by at
  most `RESIDENT` bytes of the resident set.

The resident set also has free fragments of the allocator's pools, of which there is one per thread. They grow for
minutes while as much is in use as before, so its bound is wide. How much is in use is known with glibc only.
The bounds are for runs of minutes: at first, each thread makes buffers of about 20 MiB for its longest texts.

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
from peft_igc.tuner.state.text_state import StaticText, TextState


KINDS = (TextState, StaticText, Call, Generation, Cache)
TENSORS = 16  # tables that libraries make on first use
HEAP, RESIDENT = 2 * 2**20, 64 * 2**20  # bytes


@dataclass
class Memory:
    """What is alive at one moment.

    Attributes:
        generations: made so far in this phase.
        seconds: since the phase began.
        heap: bytes in use on the heap; None where glibc does not tell.
        resident: bytes of the process's resident set; None where there is no `/proc`.
        tensors: number of tensors.
        objects: number of objects by the name of their kind.
        load: the machine's load average over one minute.
    """

    generations: int
    seconds: float
    heap: int | None
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
    return Memory(generations, seconds, heap(), resident(), tensors, objects, os.getloadavg()[0])


class _HeapInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc (2.33), `malloc.h`."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def heap() -> int | None:
    """Bytes that are in use on the heap, those of all tensors on the CPU included, or None."""
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


def growth(memory: list[Memory], before: dict[str, int]) -> list[str]:
    """What has grown, in sentences.

    Args:
        memory: samples after the warm-up.
        before: the number of objects of each kind before the run.
    """
    first, last = memory[0], memory[-1]
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
    for name, most in (("heap", HEAP), ("resident", RESIDENT)):
        more = growth_of(memory, name)
        if more is not None and more > most:
            found.append(
                f"`{name}` has grown by {more / 2**20:.1f} MiB from the first third of the samples after the warm-up "
                f"to the last; {most / 2**20:.0f} MiB may be."
            )
    return found


def growth_of(memory: list[Memory], name: str) -> float | None:
    """Bytes by which the median of `heap` or `resident` grows from the first third of samples to the last."""
    sizes = [getattr(one, name) for one in memory]
    if None in sizes:
        return None
    third = max(1, len(sizes) // 3)
    return statistics.median(sizes[-third:]) - statistics.median(sizes[:third])
