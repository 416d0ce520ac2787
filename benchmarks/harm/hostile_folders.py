"""Damaged and hostile adapter folders: is each refused with a sentence, or does it load as a sound adapter?

A folder of a good adapter is copied and changed in one of the ways of `KINDS`, and `load_adapter` loads it onto a tiny
model. The outcomes:

* `refused`: a `ValueError` or `OSError` of this package, whose message names the folder, a field or a weight;
* `loaded`: it answers a prompt with finite logits, as after a change of a harmless setting;
* `unclean`: another exception, a message without a place, logits that are not finite, more memory or time than
  allowed, a connection to the network, or a program that ran. There must be none.

    python -m benchmarks.harm.hostile_folders --count 10000 --output benchmarks/results/hostile_folders.json
"""

from __future__ import annotations

import collections
import json
import os
import pickle
import random
import resource
import shutil
import signal
import socket
import struct
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft import PeftType, get_peft_model
from safetensors.torch import load_file, save_file
from tqdm import trange
from transformers import LlamaConfig, LlamaForCausalLM

import peft_igc
from benchmarks.common.measuring import command, facts, write
from peft_igc import IGCConfig, tiny_base
from peft_igc.inference.loading import load_adapter
from peft_igc.text import Vocabulary
from peft_igc.tuner.saving.vocabulary_file import VOCABULARY


SECONDS = 20  # for one folder
MEMORY = 2 << 30  # bytes that the process may grow by
CONFIG, WEIGHTS, PICKLE = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
OUTCOMES = ("refused", "loaded", "unclean")
Change = Callable[[Path, random.Random], None]


class Program(str):
    """The path of a file that is made by a program when this is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self}",)


# ------------------------------------------------------------------------------------------ the changes
def cut(folder: Path, rng: random.Random) -> None:
    """A file that ends early."""
    path = folder / rng.choice((CONFIG, WEIGHTS))
    length = len(content := path.read_bytes())
    path.write_bytes(content[: rng.choice((0, 1, 8, length - 1, rng.randrange(length)))])


def flip(folder: Path, rng: random.Random) -> None:
    """Bytes of a file that are others."""
    path = folder / rng.choice((CONFIG, WEIGHTS))
    content = bytearray(path.read_bytes())
    last = len(content) if rng.random() < 0.5 else min(len(content), 4096)  # the header, or anywhere
    for place in rng.sample(range(last), rng.randint(1, 8)):
        content[place] = rng.randrange(256)
    path.write_bytes(content)


def swap(folder: Path, rng: random.Random) -> None:
    """A file that is missing, is a folder, or leads nowhere."""
    path, kind = folder / rng.choice((CONFIG, WEIGHTS)), rng.choice(("missing", "folder", "loop", "zeros", "long"))
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "zeros":
        path.write_bytes(bytes(rng.randrange(1 << 16)))
    elif kind == "long":
        with path.open("wb") as file:  # sparse: takes no room on the disk
            file.truncate(1 << 30)


def unpickle(folder: Path, rng: random.Random) -> None:
    """A pickle that runs a program, under the name of either format."""
    name = rng.choice((WEIGHTS, PICKLE))
    (folder / WEIGHTS).unlink()
    program = Program(str(folder.parent / "executed"))
    if rng.random() < 0.5:
        torch.save({"base_model.model.x": program, "y": torch.zeros(1 << 16)}, folder / name)
    else:
        (folder / name).write_bytes(pickle.dumps(program) + bytes(1 << 18))  # not refused for its size


def header(folder: Path, rng: random.Random) -> None:
    """A header of the weights that promises what is not there."""
    content = (folder / WEIGHTS).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    entries = json.loads(content[8 : 8 + length])
    name = rng.choice([key for key in entries if key != "__metadata__"])
    promised: dict[str, Any] = {
        "shape": ([1 << 40], [1 << 62, 4], [-1], [0], [], [1.5], "x", [1] * 99),
        "dtype": ("F64", "I32", "U32", "F16", "BOOL", "F8_E4M3", "COMPLEX", 7),
        "data_offsets": ([0, 1 << 50], [8, 4], [-4, 0], [0], [1 << 63, 1 << 64]),
    }
    kind = rng.choice((*promised, "length"))
    if kind in promised:
        entries[name][kind] = rng.choice(promised[kind])
    text = json.dumps(entries).encode()
    size = rng.choice((1 << 63, (1 << 64) - 1, 1 << 33, 0, len(text) + 1)) if kind == "length" else len(text)
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", size) + text + content[8 + length :])


DTYPES = ("int64", "bool", "complex64", "float64", "float16", "uint8")
REPLACED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nan": lambda x: torch.where(torch.arange(x.numel()).view_as(x) == x.numel() // 2, float("nan"), x.float()),
    "inf": lambda x: torch.full_like(x, float("inf"), dtype=torch.float32),
    "huge values": lambda x: torch.full_like(x, 3e38, dtype=torch.float32),
    **{name: lambda x, name=name: x.to(getattr(torch, name)) for name in DTYPES},
    "flat": lambda x: x.flatten()[:-1],
    "longer": lambda x: torch.cat([x, x]) if x.dim() else x,
    "scalar": lambda x: torch.tensor(1.0),
    "empty": lambda x: torch.empty(0),
}


def tensor(folder: Path, rng: random.Random) -> None:
    """A weight of other values, another dtype or shape, under another name, or none."""
    weights = load_file(folder / WEIGHTS)
    name = rng.choice(sorted(weights))
    kind = rng.choice((*REPLACED, "renamed", "dropped", "added", "all dropped"))
    if kind in REPLACED:
        weights[name] = REPLACED[kind](weights[name])
    elif kind == "added":
        other = rng.choice(("base_model.model.lm_head.weight", name + ".extra", "x" * 5000))
        weights[other] = weights[name].clone()
    else:
        value = weights.pop(name)
        if kind == "renamed":
            weights[rng.choice((name + "x", "x", name.replace("igc_", "lora_"), "../" + name))] = value
        elif kind == "all dropped":
            weights = {}
    save_file({key: one.contiguous() for key, one in weights.items()}, folder / WEIGHTS)


VALUES: tuple[Any, ...] = (None, True, False, 0, 1, -1, 3, 65, 1 << 16, (1 << 16) + 1, 1 << 31, 1 << 63, 10**30, 0.5)
VALUES += (1e308, float("nan"), float("inf"), "", "x", "tokens", "hidden", "../../etc/passwd", "x" * 10_000, [], [[]])
VALUES += ([0], {}, [[1 << 62]], [[-5]], [["a"]], ["+", "+"], [None], [[3]] * 5000, {"a": 1}, "9" * 5000, "exit()")
VALUES += ([1 << 23], list(range(3000)), ["7"])
VALUES += ({"7" * 5000: [0, 0]}, {"7": [0, 9]}, {"9999999": [0, 0]}, {"7": [1, 1]})


def setting(folder: Path, rng: random.Random) -> None:
    """A field of the config, or of the facts about numbers in it, with another value, missing, or unknown."""
    path = folder / CONFIG
    config = json.loads(path.read_text())
    inner = rng.random() < 0.4 and config.get("number_tokens")
    fields = config["number_tokens"] if inner else config
    name = rng.choice([*fields, "no_such_field", "modules_to_save", "auto_mapping", "runtime_config"])
    if rng.random() < 0.25:
        fields.pop(name, None)
    else:
        fields[name] = rng.choice(VALUES)
    path.write_text(json.dumps(config))


def vocabulary(folder: Path, rng: random.Random) -> None:
    """A vocabulary that unpacks to gigabytes, has millions of tokens, one of megabytes, or other texts than those."""
    weights = load_file(folder / WEIGHTS)
    key = next(key for key in weights if key.endswith(VOCABULARY))
    kind = rng.choice(("bomb", "many", "long", "shuffled", "forged", "foreign"))
    known = Vocabulary.from_bytes(weights[key].numpy().tobytes())
    tokens = list(known.tokens)
    if kind == "many":
        tokens += [b"7 a"] * rng.choice((1_000_000, 4_000_000))
    elif kind == "long":
        part, times = rng.choice((b"7", b"a", b"7+", b"\xe2", b" ")), rng.choice((30_000, 5_000_000))
        tokens[rng.randrange(len(tokens))] = part * times
    elif kind == "shuffled":
        rng.shuffle(tokens)
    elif kind == "forged":
        tokens = [rng.choice((one, "\ufdd0".encode(), rng.randbytes(4))) for one in tokens]
    saved = Vocabulary(tokens, known.control).to_bytes()
    if kind == "bomb":
        packer = zlib.compressobj(9)
        saved = b"".join(packer.compress(bytes(1 << 24)) for _ in range(64)) + packer.flush()
    elif kind == "foreign":
        saved = zlib.compress(rng.choice((b"[" * (1 << 20), b"{}", b'{"tokens": {"a": "b"}}', b'{"tokens": [[]]}')))
    weights[key] = torch.tensor(bytearray(saved), dtype=torch.uint8)
    save_file(weights, folder / WEIGHTS)


def document(folder: Path, rng: random.Random) -> None:
    """A config that is no object, or in no encoding, or nested without end."""
    texts = ("[]", "null", "7", '"x"', "{", "", "[" * 100_000, '{"a":' * 100_000, "\ud800", "{}", '{"peft_type": 7}')
    mark = b"\xff\xfe" if rng.random() < 0.3 else b""
    (folder / CONFIG).write_bytes(mark + rng.choice(texts).encode("utf-8", "surrogatepass"))


def foreign(folder: Path, rng: random.Random) -> None:
    """A config of another method, or that calls itself one."""
    path = folder / CONFIG
    method = rng.choice([*PeftType.__members__, "NOTHING", "igc", "IGC "])
    mine = json.loads(path.read_text())
    plain: dict[str, Any] = {"peft_type": method, "task_type": "CAUSAL_LM", "target_modules": ["q_proj"]}
    plain |= rng.choice(({}, {"r": 8}, {"num_virtual_tokens": 4}, {"r": -1}, {"target_modules": "all-linear"}))
    plain |= {"auto_mapping": {"parent_library": "os", "base_model_class": "system"}} if rng.random() < 0.3 else {}
    path.write_text(json.dumps(plain if rng.random() < 0.5 else mine | {"peft_type": method}))


KINDS: tuple[Change, ...] = (cut, flip, swap, unpickle, header, tensor, setting, setting, vocabulary)
KINDS += (document, foreign)


# ------------------------------------------------------------------------------------------ the attempts
def base_model() -> Any:
    """A tiny Llama with the vocabulary of the embedded base."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=4096, max_position_embeddings=256, **sizes)).eval()


def good_folders(where: Path) -> list[Path]:
    """Adapters of both interfaces, saved."""
    tokenizer = tiny_base()[1]
    sizes = {"reading_dim": 16, "reading_ffn": 16, "num_heads": 2, "writing_ffn": 16, "gate_dim": 4, "num_digits": 6}
    configs = {
        "tokens": IGCConfig.from_tokenizer(tokenizer, interface="tokens", **sizes),
        "hidden": IGCConfig(writing_dim=16, **sizes),
    }
    for name, config in configs.items():
        get_peft_model(base_model(), config).save_pretrained(where / name, save_embedding_layers=False)
    return [where / name for name in configs]


class Forbidden(BaseException):
    """Something that loading an adapter must not do."""


@contextmanager
def guarded(seconds: int, memory: int) -> Iterator[None]:
    """Ends what takes too long, and refuses memory and connections."""

    def late(number: int, frame: Any) -> None:
        raise Forbidden(f"more than {seconds} seconds")

    def connect(*args: Any) -> None:
        raise Forbidden(f"a connection to {args[1:]}")

    before, used = socket.socket.connect, int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    previous = signal.signal(signal.SIGALRM, late)
    socket.socket.connect = connect  # type: ignore[assignment, method-assign]
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, limits[1]))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
        socket.socket.connect = before  # type: ignore[method-assign]
        resource.setrlimit(resource.RLIMIT_AS, limits)


def attempt(folder: Path) -> tuple[str, str]:
    """Loads a folder; returns the outcome and what was said."""
    base, ids = base_model(), torch.arange(5, 21)[None]
    try:
        with guarded(SECONDS, MEMORY), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            logits = load_adapter(base, folder)(input_ids=ids).logits
        if not logits.isfinite().all():
            return "unclean", "logits that are not finite"
        outcome = "loaded", ""
    except (ValueError, OSError) as error:
        outcome = _judged(error, folder)
    except (Forbidden, Exception) as error:
        outcome = "unclean", f"{type(error).__name__}: {error}"
    if (folder.parent / "executed").exists():
        return "unclean", "a program ran"
    return outcome


def _judged(error: Exception, folder: Path) -> tuple[str, str]:
    """Whether an error is one for users: raised by the package, with a place."""
    said = " ".join(str(error).split())
    raised = traceback.extract_tb(error.__traceback__)[-1].filename
    ours = Path(raised).is_relative_to(Path(peft_igc.__file__).parent) or isinstance(error, OSError)
    named = "`" in said or str(folder) in said
    return ("refused" if ours and named else "unclean"), f"{type(error).__name__}: {said}"


def run(count: int, seed: int) -> dict[str, Any]:
    """Changes and loads; counts by kind and outcome, what was unclean, and the longest time."""
    rng, counts = random.Random(seed), collections.Counter[tuple[str, str]]()
    unclean, slowest = list[dict[str, Any]](), 0.0
    with tempfile.TemporaryDirectory() as name:
        good = good_folders(Path(name) / "good")
        for folder in good:  # or nothing below would mean anything
            assert attempt(folder) == ("loaded", ""), folder
        for index in trange(count, mininterval=20):
            folder = Path(name) / "changed" / "adapter"
            change = rng.choice(KINDS)
            shutil.rmtree(folder.parent, ignore_errors=True)
            shutil.copytree(good[0] if change is vocabulary else rng.choice(good), folder)
            change(folder, rng)
            begin = time.perf_counter()
            outcome, said = attempt(folder)
            slowest = max(slowest, time.perf_counter() - begin)
            counts[change.__name__, outcome] += 1
            if outcome == "unclean":
                unclean.append({"index": index, "change": change.__name__, "said": said[:300]})
                print(f"{index}: {change.__name__}: {said[:200]}")
    kinds = {kind.__name__: {outcome: counts[kind.__name__, outcome] for outcome in OUTCOMES} for kind in KINDS}
    found = {"count": count, "seed": seed, "kinds": kinds, "unclean": unclean[:50]}
    return found | {"slowest_seconds": round(slowest, 2)}


def main() -> None:
    """The command line."""
    parser = command(__doc__, output=False)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = run(given.count, given.seed) | facts()
    if given.output is not None:
        write(given.output, found)
    print(json.dumps(found["kinds"], indent=1))


if __name__ == "__main__":
    main()
