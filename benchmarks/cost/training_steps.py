"""One training step of IGC beside LoRA's: steps and tokens per second, and memory, on bases of several sizes.

The methods take turns in one process, each time with fresh weights on the same base, and train through `IGCTrainer`
(for LoRA it is TRL's `SFTTrainer`) on rows of equal length that end in arithmetic. `igc_tokens_reading` is the first
stage of the two-stage option: its passes end behind the reading. `igc_tokens_skipping` is trained with every second
row labelled "none" and `igc_skip_silent_rows`. LoRA is put on every linear layer, its rank is the one that comes
nearest to the number of parameters of the token interface. All of them compute logits at labels only;
`igc_tokens_all_logits` and `lora_all_logits` at all positions, as TRL (1.16) does on a CPU. Shapes are those of
`shapes.py`, with random weights but for `tiny`; `-4bit` is the same through bitsandbytes. Accuracy is not measured.

A part of `training_speed.py`, which has the command.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PrinterCallback, set_seed

from benchmarks.common.measuring import summary
from benchmarks.common.shapes import HALF, LARGEST, SMALL_LM, TINY, lora_rank, made_base, missing
from benchmarks.cost.step_times import ALONE, GPU_PEAK, WHOLE, Held, StepTimes
from peft_igc import IGCConfig
from peft_igc.data.arithmetic import ArithmeticRows
from peft_igc.data.mixture import Mixture
from peft_igc.demo.batches import tokenized
from peft_igc.demo.progress import duration
from peft_igc.demo.run import demo_config
from peft_igc.demo.settings import SETTINGS
from peft_igc.trainer import labels_only
from peft_igc.trainer.config import IGCSFTConfig
from peft_igc.trainer.labels_only import score_labels_only
from peft_igc.trainer.precision import computes_bf16
from peft_igc.trainer.trainer import BaselineTrainer, IGCTrainer
from peft_igc.tuner.base_model import innermost_model


HIDDEN, TOKENS, READING, LORA = METHODS = ("igc_hidden", "igc_tokens", "igc_tokens_reading", "lora")
ALL_LOGITS = "_all_logits"
SKIPPING = "igc_tokens_skipping"
METHODS += (SKIPPING, TOKENS + ALL_LOGITS, LORA + ALL_LOGITS)
READS, WRITES = ".igc_input_mapping.", ".igc_output_mapping."
GATE_STEPS, GATE_ROWS = 3, 2  # LoRA's first matrices stand still in the first step
UNUSED = (".broken",)  # weights for what no row holds: decimals
FILLER = "The road along the river was quiet, and nobody had lit the lamps yet. "  # before a question; no digits
MARK = "\u2022"
FOUR_BIT = "-4bit"  # behind the name of a shape
SIZES = {  # rows and tokens of a training step
    TINY: (128, 32),
    TINY + FOUR_BIT: (128, 32),
    "100m": (8, 128),
    SMALL_LM: (16, 80),
    SMALL_LM + HALF: (16, 80),
    LARGEST: (8, 512),
    LARGEST + FOUR_BIT: (8, 512),
}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BIGBENCH_ONLY = Mixture(none=0.0, overflow=0.0, undefined=0.0, inexact=0.0, bigbench=1.0)


@dataclasses.dataclass(frozen=True)
class Plan:
    """What one part of the benchmark runs."""

    shape: str
    rows: int
    length: int
    warmup: int
    steps: int
    repetitions: int
    muon: bool
    labels: int = 0  # labelled tokens of a row; 0: those of its answer


def rows_of_length(tokenizer: Any, length: int, n: int, seed: int, labels: int = 0) -> list[dict[str, Any]]:
    """Rows of exactly so many tokens: prose, then a question in BIG-bench's form and its answer, which is labelled.

    With `labels` prose follows the answer, until so many tokens are labelled.

    Raises:
        SystemExit: A row is longer without any prose, or its answer has more labels.
    """
    rows = ArithmeticRows(seed, max_digits=5, num_digits=5, result_digits=10, mixture=BIGBENCH_ONLY).take(n)
    chat = tokenizer.apply_chat_template([{"role": "user", "content": MARK}], tokenize=False)
    start = len(tokenizer(chat.partition(MARK)[0], add_special_tokens=False)["input_ids"])
    filler = tokenizer(FILLER * (1 + length // len(FILLER.split())), add_special_tokens=False)["input_ids"]
    made = tokenized(rows, tokenizer)
    for row in made:
        unlabelled = labels - sum(label != -100 for label in row["labels"]) if labels else 0
        if unlabelled < 0:
            raise SystemExit(f"`--labels {labels}` is too few: an answer has {labels - unlabelled} tokens by itself.")
        for column in ("input_ids", "labels"):  # before the end token
            row[column] = row[column][:-1] + filler[:unlabelled] + row[column][-1:]
        lacking = length - len(row["input_ids"])
        if lacking < 0:
            raise SystemExit(f"`--length {length}` is too short: a row has {len(row['input_ids'])} tokens by itself.")
        prose = filler[len(filler) - lacking :]  # its end, which is the end of a sentence
        row["input_ids"] = row["input_ids"][:start] + prose + row["input_ids"][start:]
        row["labels"] = [-100] * lacking + row["labels"]
    return made


def left_out(shape: str) -> str | None:
    """Why a shape cannot be trained here, as far as that is known before; None where it may be."""
    if shape.endswith(FOUR_BIT) and find_spec("bitsandbytes") is None:
        return "bitsandbytes is not installed"
    return missing(shape.removesuffix(FOUR_BIT))


def base_of(shape: str) -> tuple[Any, Any]:
    """The base of a shape and its tokenizer."""
    gc.collect()  # of the base before
    base, tokenizer = made_base(shape.removesuffix(FOUR_BIT), 0, DEVICE)
    return (in_four_bits(base) if shape.endswith(FOUR_BIT) else base), tokenizer


def in_four_bits(base: Any) -> Any:
    """A base model as bitsandbytes loads it: from a folder."""
    dtype = base.dtype
    bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype)
    with tempfile.TemporaryDirectory() as folder:
        base.save_pretrained(folder)
        return AutoModelForCausalLM.from_pretrained(
            folder, quantization_config=bits, dtype=dtype, device_map={"": DEVICE}
        )


def checksum(base: Any) -> dict[str, int]:
    """A number of each tensor of a model that any changed weight changes, but for sums that happen to be equal."""
    integers = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return {
        name: int(tensor.detach().contiguous().view(integers[tensor.element_size()]).sum(dtype=torch.int64))
        for name, tensor in base.state_dict().items()
        if torch.is_tensor(tensor)
    }


def config_of(method: str, base: Any, tokenizer: Any, plan: Plan) -> Any:
    """The adapter's config: of the demonstration at its shape, else the package's defaults; LoRA as large as IGC."""
    if method.startswith(LORA):
        model = get_peft_model(base, config_of(TOKENS, base, tokenizer, plan))
        wanted = model.num_parameters(only_trainable=True)
        model.unload()
        rank = lora_rank(base, wanted)
        return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    interface = "hidden" if method == HIDDEN else "tokens"
    if plan.shape.startswith(TINY):
        return demo_config(tokenizer, SETTINGS[interface])
    return IGCConfig.from_tokenizer(tokenizer, interface=interface)


def trainer_of(
    method: str, model: Any, tokenizer: Any, rows: list[dict[str, Any]], plan: Plan, folder: str
) -> IGCTrainer:
    """A trainer of an attached adapter, for the warm-up and the timed steps."""
    if method.startswith(LORA):  # it has no use for operands
        rows = [{name: row[name] for name in ("input_ids", "labels")} for row in rows]
    if method == SKIPPING:
        refusal = {"igc_operator": "none", "igc_operands": None, "igc_result": None}
        rows = [{**row, **(refusal if index % 2 else {})} for index, row in enumerate(rows)]
    steps = plan.warmup + plan.steps
    args = IGCSFTConfig(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=plan.rows,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        igc_muon_learning_rate=1e-3 if plan.muon and not method.startswith(LORA) else None,
        igc_skip_silent_rows=method == SKIPPING,
        igc_writing_every=steps if method == READING else 1,  # the first step of the warm-up is whole
        logging_steps=1,
        logging_nan_inf_filter=False,  # or the gate would not see them
        max_length=None,
        activation_checkpointing=False,
        bf16=(DEVICE.type == "cuda" or computes_bf16()) and plan.shape != SMALL_LM,
        use_cpu=DEVICE.type == "cpu",
        save_strategy="no",
        report_to="none",
        igc_curves=False,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = BaselineTrainer(model, args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)
    trainer.remove_callback(PrinterCallback)
    score_labels_only(innermost_model(model))  # done already for IGC
    return trainer


class Attached:
    """A method on the base for a while: trained, asked, and taken off again, so that the base is as it was."""

    def __init__(self, method: str, base: Any, tokenizer: Any, config: Any, plan: Plan) -> None:
        set_seed(0)
        self.base, self.model = base, get_peft_model(base, config)
        self.all_logits = method.endswith(ALL_LOGITS)
        rows = rows_of_length(tokenizer, plan.length, plan.rows * (plan.warmup + plan.steps), 0, plan.labels)
        self.folder = tempfile.TemporaryDirectory()
        self.trainer = trainer_of(method, self.model, tokenizer, rows, plan, self.folder.name)
        self.times, self.held = StepTimes(), Held(plan.warmup)
        for callback in (self.times, self.held):
            self.trainer.add_callback(callback)

    def __enter__(self) -> Attached:
        return self

    def __exit__(self, *error: Any) -> None:
        self.model.unload()
        # TRL (1.16) puts its own `forward` on the base, and would put the next one on top of it.
        self.base.__dict__.pop("forward", None)
        self.folder.cleanup()
        del self.trainer, self.model
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def train(self) -> list[float]:
        """All steps; their losses."""
        with patch.object(labels_only, "_helps", lambda labels: False) if self.all_logits else nullcontext():
            self.trainer.train()
        return [entry["loss"] for entry in self.trainer.state.log_history if "loss" in entry]

    def weights(self) -> dict[str, torch.Tensor]:
        """Copies of what is trained."""
        return {name: p.detach().clone() for name, p in self.model.named_parameters() if p.requires_grad}


def check_trained(
    method: str, losses: list[float], before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]
) -> None:
    """Refuses a method whose loss is no number, or whose weights did not move as they should.

    Raises:
        SystemExit: So it is.
    """
    if not losses or not all(torch.tensor(losses).isfinite()):
        raise SystemExit(f"Gate: the losses of `{method}` are {losses}, not numbers. Nothing is reported.")
    still = [name for name in before if torch.equal(before[name], after[name]) and not name.endswith(UNUSED)]
    if not before or still:
        raise SystemExit(f"Gate: `{method}` was trained, but {still or 'nothing'} did not move. Nothing is reported.")


def check_base(before: dict[str, int], after: dict[str, int]) -> None:
    """Refuses a base that training changed, or that kept something of an adapter.

    Raises:
        SystemExit: So it is.
    """
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    if changed:
        raise SystemExit(f"Gate: the base's `{min(changed)}` is not what it was. Nothing is reported.")


def gate(base: Any, tokenizer: Any, configs: dict[str, Any], plan: Plan) -> None:
    """Trains each method for a few steps on a few rows: losses, weights and base are as they should."""
    plan = dataclasses.replace(plan, rows=GATE_ROWS, warmup=0, steps=GATE_STEPS)
    whole = checksum(base)
    for method, config in configs.items():
        if method in (READING, SKIPPING) or method.endswith(ALL_LOGITS):  # the same adapters, trained otherwise
            continue
        with Attached(method, base, tokenizer, config, plan) as one:
            before = one.weights()
            losses = one.train()
            check_trained(method, losses, before, one.weights())
        check_base(whole, checksum(base))


def turns(methods: list[str], repetitions: int) -> Iterator[str]:
    """The methods in turn, another one first each time."""
    for repetition in range(repetitions):
        first = repetition % len(methods)
        yield from itertools.chain(methods[first:], methods[:first])


def measure(plan: Plan, methods: list[str], keep: Callable[[dict[str, Any]], None]) -> None:
    """The gate, then all methods in turn; `keep` takes what is known so far after each repetition."""
    base, tokenizer = base_of(plan.shape)
    configs = {method: config_of(method, base, tokenizer, plan) for method in methods}
    gate(base, tokenizer, configs, plan)
    print(f"{plan.shape}: the gate is green", flush=True)
    seconds: dict[str, list[list[float]]] = {method: [] for method in methods}
    told: dict[str, dict[str, Any]] = {method: {} for method in methods}
    begin, count = time.perf_counter(), plan.repetitions * len(methods)
    for done, method in enumerate(turns(methods, plan.repetitions), start=1):
        with Attached(method, base, tokenizer, configs[method], plan) as one:
            one.train()
            wanted = ALONE if method == READING else WHOLE
            steps = [s for s in one.times.steps if s["step"] >= plan.warmup and s["kind"] == wanted]
            seconds[method].append([step["seconds"] for step in steps])
            told[method] = {
                "parameters": one.model.num_parameters(only_trainable=True),
                "optimizer_share": sum(s["optimizer"] for s in steps) / sum(s["seconds"] for s in steps),
                "bytes": one.held.bytes,
            }
        left = (time.perf_counter() - begin) / done * (count - done)
        middle = statistics.median(seconds[method][-1])
        print(f"{plan.shape}  {method:20s} {middle:8.3f} s per step  {duration(left)} left", flush=True)
        if done % len(methods) == 0:
            keep(compared(plan, told, seconds))


def compared(plan: Plan, told: dict[str, dict[str, Any]], seconds: dict[str, list[list[float]]]) -> dict[str, Any]:
    """Steps and tokens per second, and how long a step is beside LoRA's of the same repetition."""
    made: dict[str, Any] = {"plan": dataclasses.asdict(plan), "methods": {}}
    for method, repetitions in seconds.items():
        speeds = summary([1 / one for steps in repetitions for one in steps])
        made["methods"][method] = found = {**told[method], "steps_per_second": speeds}
        found["tokens_per_second"] = speeds["median"] * plan.rows * plan.length
        if LORA in seconds:
            pairs = zip(repetitions, seconds[LORA], strict=True)
            ratios = [statistics.median(own) / statistics.median(its) for own, its in pairs]
            found["step_beside_lora"] = summary(ratios)
    return made


def table(shape: str, found: dict[str, Any]) -> str:
    """A line per method; the memory of its tensors (weights, gradients, optimizer), and on a GPU the peak of all."""
    lines = [
        f"{shape:<24}{'parameters':>12}{'steps/s':>10}{'tokens/s':>11}{'x LoRA':>11}{'tensors MiB':>13}"
        f"{'GPU peak MiB':>14}"
    ]
    for method, told in found["methods"].items():
        tensors = sum(value for name, value in told["bytes"].items() if name != GPU_PEAK) / 2**20
        peak = f"{told['bytes'][GPU_PEAK] / 2**20:.1f}" if GPU_PEAK in told["bytes"] else "-"
        beside = told.get("step_beside_lora", {}).get("median", float("nan"))
        lines.append(
            f"{method:<24}{told['parameters']:>12,}{told['steps_per_second']['median']:>10.3f}"
            f"{told['tokens_per_second']:>11.0f}{beside:>11.2f}{tensors:>13.1f}{peak:>14}"
        )
    return "\n".join(lines)
