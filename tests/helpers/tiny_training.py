"""What training tests share: a tokenizer of single characters with a chat template, arithmetic rows, quick arguments.

Everything is made in memory. `tokenizer()` knows the printable ASCII characters and five special tokens, so that its
ids fit the 128 rows of `tiny_models`; `rows(n)` gives plain prompt-completion rows with operand columns.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import datasets
import torch
from peft import LoraConfig, get_peft_model
from tiny_models import small_config, tiny_model
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from peft_igc.data.dataset import to_dataset
from peft_igc.trainer.config import IGCSFTConfig
from peft_igc.trainer.trainer import IGCTrainer
from peft_igc.tuner.saving import companions


# For `pytest.mark.filterwarnings`.
NESTED = tuple(f"ignore:{message}:UserWarning" for message in companions.NESTED)

datasets.disable_progress_bars()

SPECIAL = ("<pad>", "<bos>", "<eos>", "<user>", "<assistant>")
CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "{% if m['role'] == 'assistant' %}<assistant>{% generation %}{{ m['content'] }}<eos>{% endgeneration %}"
    "{% else %}<user>{{ m['content'] }}<eos>{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per character; ids 0..4 are `SPECIAL`, as the tiny models' configs have them."""
    vocabulary = {token: i for i, token in enumerate((*SPECIAL, *map(chr, range(32, 127))))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens(list(SPECIAL))
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        additional_special_tokens=["<user>", "<assistant>"],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def rows(n: int, seed: int = 0, digits: int = 2, unsupervised: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """`n` sums as prompt-completion rows; those at the indices `unsupervised` have empty operand columns."""
    source = random.Random(seed)
    made: list[dict[str, Any]] = []
    for index in range(n):
        a, b = (source.randrange(10**digits) for _ in range(2))
        row: dict[str, Any] = {"prompt": f"{a}+{b}=", "completion": f"{a + b}"}
        supervised = index not in unsupervised
        row["igc_operator"] = "+" if supervised else None
        row["igc_operands"] = [str(a), str(b)] if supervised else None
        row["igc_result"] = str(a + b) if supervised else None
        made.append(row)
    return made


def chat(row: dict[str, Any]) -> list[dict[str, str]]:
    """Prompt and completion of a row as messages."""
    return [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["completion"]}]


# Two short steps in fp32 on the CPU, nothing saved; for trainers of transformers and, with `QUICK`, of TRL.
OF_TRANSFORMERS: dict[str, Any] = {
    "use_cpu": True,
    "learning_rate": 1e-2,
    "max_steps": 2,
    "per_device_train_batch_size": 4,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
}
QUICK = {**OF_TRANSFORMERS, "bf16": False, "gradient_checkpointing": False}


def arguments(folder: Path, **overrides: Any) -> IGCSFTConfig:
    """Two short steps in fp32 on the CPU, nothing saved."""
    return IGCSFTConfig(**{"output_dir": str(folder), **QUICK, **overrides})


def igc_model(seed: int = 0, arch: str = "llama", **overrides: Any) -> Any:
    """A tiny model with a fresh adapter, the same for the same arguments."""
    model = tiny_model(arch, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, small_config(**{"init_weights": True, **overrides}))


def save_base(folder: Path, **fields: Any) -> str:
    """A tiny random Llama with a tokenizer of characters, in a folder."""
    tiny_model("llama", max_position_embeddings=1024, **fields).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def weights(model: Any) -> dict[str, torch.Tensor]:
    """Copies of a model's parameters."""
    return {name: p.detach().clone() for name, p in model.named_parameters()}


# Arguments of a trainer's constructor; the others are settings.
OF_TRAINERS = ("callbacks", "compute_loss_func", "data_collator", "eval_dataset", "peft_config", "processing_class")


def trainer(folder: Path, data: Any = None, model: Any = None, cls: Any = IGCTrainer, **overrides: Any) -> IGCTrainer:
    """An `IGCTrainer` over `data` (rows or a dataset), or a trainer of another class."""
    kwargs = {name: overrides.pop(name) for name in OF_TRAINERS if name in overrides}
    data = rows(8) if data is None else data
    return cls(
        model=igc_model() if model is None else model,
        args=arguments(folder, **overrides),
        train_dataset=to_dataset(data) if isinstance(data, list) else data,
        **{"processing_class": tokenizer(), **kwargs},
    )


def beside_lora(outside):
    """A model with a LoRA `style` and a calculator `adder`; the one named is outside."""
    lora = LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    methods = {"style": lora, "adder": small_config(init_weights=True)}
    torch.manual_seed(0)
    model = tiny_model("llama")
    for name in sorted(methods, key=lambda name: name == outside):
        model = get_peft_model(model, methods[name], adapter_name=name)
    return model


def join_as(rank, port):
    """Makes this process the one with that rank of two, with one thread."""
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_SIZE": "2", "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
