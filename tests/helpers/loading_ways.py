"""The ways in which an adapter is loaded from its folder, next to which the base is in the folder `base`."""

import dataclasses
import shutil

from peft import AutoPeftModelForCausalLM, PeftConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from peft.utils import load_peft_weights
from tiny_training import tokenizer
from transformers import AutoModelForCausalLM, pipeline

from peft_igc import IGCConfig
from peft_igc.inference.loading import load_adapter


def by_transformers(base, folder, **options):
    """The base, with the adapter."""
    base.load_adapter(str(folder), **options)
    return base


def from_memory(base, folder):
    """The same, from weights in memory."""
    base.load_adapter(peft_config=_config(folder), adapter_state_dict=load_peft_weights(str(folder)))
    return base


def from_state_dict(base, folder):
    """PEFT's function for weights in memory, and a config that was read without them."""
    model = get_peft_model(base, _config(folder))
    set_peft_model_state_dict(model, load_peft_weights(str(folder)))
    return model


def _config(folder):
    config = PeftConfig.from_pretrained(str(folder))
    config.base_model_name_or_path = None  # or PEFT warns that the base has another name
    return config


def with_base(folder):
    """The folder with the base in it."""
    shutil.copytree(folder.parent / "base", folder, dirs_exist_ok=True)
    return folder


# By a base and a folder. Those of `ALONE` load the base themselves.
WAYS = {
    "PeftModel": PeftModel.from_pretrained,
    "low memory": lambda base, folder: PeftModel.from_pretrained(base, folder, low_cpu_mem_usage=True),
    "transformers, low memory": lambda base, folder: by_transformers(base, folder, low_cpu_mem_usage=True),
    "a config": lambda base, folder: PeftModel.from_pretrained(
        base, folder, config=IGCConfig.from_pretrained(str(folder))
    ),
    "a changed config": lambda base, folder: PeftModel.from_pretrained(
        base, folder, config=dataclasses.replace(IGCConfig.from_pretrained(str(folder)))
    ),
    "the package": load_adapter,
    "transformers": by_transformers,
    "transformers, another name": lambda base, folder: by_transformers(base, folder, adapter_name="math"),
}
MEMORY = {"a state dict": from_state_dict, "transformers, a state dict": from_memory}
ALONE = {
    "AutoPeftModelForCausalLM": lambda base, folder: AutoPeftModelForCausalLM.from_pretrained(folder),
    "AutoModelForCausalLM": lambda base, folder: AutoModelForCausalLM.from_pretrained(folder),
    "the base in the folder": lambda base, folder: AutoModelForCausalLM.from_pretrained(with_base(folder)),
    "a pipeline": lambda base, folder: (
        pipeline("text-generation", str(with_base(folder)), tokenizer=tokenizer()).model
    ),
}
