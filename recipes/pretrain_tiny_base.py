"""Train the base model that ships with the package (`peft_igc/assets/tiny_base/`): 2.8 million parameters, one core.

In: nothing but CPython's own documentation and generated questions (no network, no files). Out: `--output DIR`,
a folder for `AutoModelForCausalLM` and `AutoTokenizer` with weights in bf16, and `--results FILE`, settings,
versions, time and scores as JSON. It does not read what it wrote: an interrupted run starts again.
The schedule counts steps, never seconds: equal settings on an equal machine give an equal model. `--compile` makes a
step about a fifth faster after one or two minutes of compiling; it needs a C++ compiler.

    python recipes/pretrain_tiny_base.py --output build/tiny_base                      # the released model
    python recipes/pretrain_tiny_base.py --output build/trial --steps 300 --items 20   # a trial of two minutes
"""

import argparse
import dataclasses
import json
import os
import platform
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


sys.path.insert(0, str(Path(__file__).resolve().parent))  # so that `tiny_base` is found from any folder

import torch
import torch.nn.functional as F
import transformers
from tiny_base import corpus, questions, scores, vocabulary
from tiny_base.batches import IGNORED, Batch, Batches, Sizes
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


@dataclasses.dataclass(frozen=True)
class Settings(Sizes):
    """Every number of a run; each is an option of the command line."""

    steps: int = 3000
    threads: int = 1
    compile: bool = False
    # The model.
    vocabulary_size: int = 3072
    width: int = 192
    mlp_width: int = 512
    layers: int = 5
    head_width: int = 32
    embedding_std: float = 0.3
    # The data. Of all steps, a quarter is prose and 3% are conversations of many turns.
    prose_share: float = 0.25
    long_share: float = 0.03
    # The optimisers: Muon for the matrices inside the layers, AdamW for embeddings and norms.
    muon_rate: float = 6e-3
    adam_rate: float = 4e-3
    weight_decay: float = 0.5
    warmup: float = 0.02
    final_rate: float = 0.02
    max_norm: float = 1.0
    # What is told on the way and measured at the end.
    log_every: int = 100
    snapshot_every: int = 500
    items: int = 200


def build_model(settings: Settings, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A Llama with tied embeddings whose embeddings are not drowned by the layers' first outputs.

    With the default initialisation the residual stream grows a hundredfold in layer 0 and the identity of a token is
    lost to whoever reads there. So embeddings start large, every layer starts as the identity, and the last norm
    keeps the first logits small.
    """
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.width,
        intermediate_size=settings.mlp_width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.width // settings.head_width,
        num_key_value_heads=settings.width // settings.head_width,
        max_position_embeddings=vocabulary.CONTEXT_LENGTH,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        # On a CPU the backward of fused attention is slower than eager attention for rows this short.
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.normal_(0, settings.embedding_std)
        model.model.embed_tokens.weight[tokenizer.pad_token_id] = 0
        model.model.norm.weight.fill_(1 / (settings.embedding_std * settings.width**0.5))
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    return model


def build_optimizers(settings: Settings, model: LlamaForCausalLM) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for the rest; each group remembers its highest rate as `peak`."""
    matrices = [weight for weight in model.model.layers.parameters() if weight.ndim == 2]
    chosen = {id(weight) for weight in matrices}
    others = [weight for weight in model.parameters() if id(weight) not in chosen]
    optimizers = [
        torch.optim.Muon(
            matrices,
            lr=settings.muon_rate,
            momentum=0.95,
            weight_decay=settings.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(others, lr=settings.adam_rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return optimizers


def rate_factor(settings: Settings, step: int) -> float:
    """The share of the highest rate at `step` (0-based): up, then straight down to `final_rate`."""
    warm = max(1, round(settings.warmup * settings.steps))
    if step < warm:
        return (step + 1) / warm
    return 1 - (1 - settings.final_rate) * (step - warm) / max(1, settings.steps - 1 - warm)


def answer_loss(
    model: LlamaForCausalLM, body: Callable[..., Any], ids: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Mean cross-entropy over the labelled positions of `ids`, `labels` [B, T]; the head runs nowhere else."""
    states = body(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]  # [B, T-1, H]
    wanted = labels[:, 1:]  # [B, T-1]
    learned = wanted != IGNORED
    return F.cross_entropy(model.lm_head(states[learned]).float(), wanted[learned])


class Progress:
    """Mean losses, speed and time left since the last line, printed every `log_every` steps."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.begin = time.perf_counter()
        self.tokens = 0
        self.losses: dict[str, list[float]] = {}
        self.lines: list[dict[str, Any]] = []

    def add(self, step: int, kind: str, loss: float, tokens: int) -> None:
        """Note a step (1-based) and print when a line is due."""
        self.tokens += tokens
        self.losses.setdefault(kind, []).append(loss)
        if step % self.settings.log_every and step != self.settings.steps:
            return
        seconds = time.perf_counter() - self.begin
        means = {kind: round(sum(values) / len(values), 4) for kind, values in sorted(self.losses.items())}
        left = seconds / step * (self.settings.steps - step)
        shown = " ".join(f"{kind} {value:.3f}" for kind, value in means.items())
        speed = self.tokens / seconds
        print(
            f"step {step}/{self.settings.steps}  {shown}  {speed:,.0f} tokens/s  {seconds:.0f} s, {left:.0f} s left",
            flush=True,
        )
        self.lines.append({"step": step, "seconds": round(seconds, 1), "loss": means})
        self.losses = {}


def train(
    settings: Settings,
    model: LlamaForCausalLM,
    draw: dict[str, Callable[[], Batch]],
    shares: dict[str, float],
    snapshot: Callable[[int], None] = lambda step: None,
) -> Progress:
    """Run all steps.

    Args:
        settings: Of the run.
        model: The model, which is trained.
        draw: By kind what gives a batch.
        shares: Of the steps by kind.
        snapshot: Called with the number of steps every `snapshot_every` steps but the last.
    """
    body = torch.compile(model.model, dynamic=True) if settings.compile else model.model
    optimizers = build_optimizers(settings, model)
    rng, progress = random.Random(settings.seed), Progress(settings)
    model.train()
    for step in range(settings.steps):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * rate_factor(settings, step)
        (kind,) = rng.choices(list(shares), list(shares.values()))
        ids, labels = draw[kind]()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = answer_loss(model, body, ids, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_norm)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)
        progress.add(step + 1, kind, loss.item(), ids.numel())
        if (step + 1) % settings.snapshot_every == 0 and step + 1 < settings.steps:
            snapshot(step + 1)
    return progress


def save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a complete model folder with weights in bf16; `model` itself is not changed."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.to(torch.bfloat16) for name, value in model.state_dict().items()}
    twin = LlamaForCausalLM(model.config).to(torch.bfloat16)
    twin.load_state_dict(weights)
    twin.generation_config = GenerationConfig(
        do_sample=False,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    twin.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # it is written for its owner only
    vocabulary.save_tokenizer(tokenizer, folder)


def environment() -> dict[str, Any]:
    """Versions and hardware, as far as they decide the result and the time."""
    processor = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "processor": processor,
        "cores": os.cpu_count(),
    }


def build_everything(settings: Settings) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast, Batches, list[str]]:
    """The untrained model, its tokenizer, the batches, and the words of the training prose."""
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    prose = corpus.training_texts()
    words = " ".join(prose).split()
    talk = questions.Conversations(words, settings.seed + 2)
    spoken = [text.replace("<|", "\n").replace("|>", "\n") for _ in range(12_000) for text, _ in talk.short()]
    tokenizer = vocabulary.build_tokenizer(prose + spoken, settings.vocabulary_size)
    return build_model(settings, tokenizer), tokenizer, Batches(tokenizer, prose, settings), words


def run(settings: Settings, output: Path, results: Path) -> dict[str, Any]:
    """Train, save to `output`, measure the saved model as the package loads it, write `results`."""
    transformers.utils.logging.disable_progress_bar()
    model, tokenizer, batches, words = build_everything(settings)
    parameters = sum(weight.numel() for weight in model.parameters())
    print(f"{parameters:,} parameters, {len(batches.stream):,} tokens of prose", flush=True)
    held_out = corpus.held_out_texts()
    rng = random.Random(settings.seed + 3)
    repeats = [questions.repeat(rng) for _ in range(64)]
    part = output.with_name(output.name + "_part")
    curve = []

    def snapshot(step: int) -> None:
        save(model, tokenizer, part)
        model.eval()
        bits = round(scores.bits_per_byte(model, tokenizer, held_out), 4)
        repeated = round(scores.exact_match(model, tokenizer, repeats), 4)
        model.train()
        curve.append({"step": step, "bits_per_byte": bits, "repeat": repeated})
        print(
            f"step {step}: {bits} bits per byte of held-out prose, repeats {repeated:.0%}, saved to {part}", flush=True
        )

    draw = {"prose": batches.english, "long": batches.long_chats, "chat": batches.chats}
    shares = {"prose": settings.prose_share, "long": settings.long_share}
    progress = train(settings, model, draw, shares | {"chat": 1 - sum(shares.values())}, snapshot)
    seconds = time.perf_counter() - progress.begin
    save(model, tokenizer, output)
    shutil.rmtree(part, ignore_errors=True)
    stored = LlamaForCausalLM.from_pretrained(output, dtype=torch.float32)
    report = {
        "settings": dataclasses.asdict(settings),
        "environment": environment(),
        "parameters": parameters,
        "bytes": {path.name: path.stat().st_size for path in sorted(output.iterdir())},
        "tokens": progress.tokens,
        "training_seconds": round(seconds, 1),
        "losses": progress.lines,
        "curve": curve,
        "scores": scores.all_scores(stored, tokenizer, words=words, held_out=held_out, n=settings.items),
    }
    results.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return report


def main() -> None:
    """Read the options, run, print the scores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder for the model and its tokenizer")
    parser.add_argument("--results", type=Path, help="file for settings and scores (default: OUTPUT.json)")
    for field in dataclasses.fields(Settings):
        option = "--" + field.name.replace("_", "-")
        if field.type is bool:
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=field.default)
        else:
            parser.add_argument(option, type=field.type, default=field.default)
    options = vars(parser.parse_args())
    output, results = options.pop("output"), options.pop("results")
    report = run(Settings(**options), output, results or output.with_suffix(".json"))
    print(json.dumps(report["scores"], indent=2))


if __name__ == "__main__":
    main()
