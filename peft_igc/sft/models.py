"""What a run of `peft-igc sft` trains: the base, its tokenizer, a calculator, a LoRA; new ones or saved ones.

In: the parsed arguments. Out: the model with the parts that are trained, and the calculator's config. With
`--igc_init_from DIR` the training goes on from a saved calculator, with or without a LoRA that was trained with it:
what is not given is as in the folder, and what is given is compared with it; operations may be added. Optimizer and
steps begin anew, unlike with `resume_from_checkpoint`.
"""

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from peft.utils import CONFIG_NAME, get_peft_model_state_dict, load_peft_weights, set_peft_model_state_dict
from transformers import AutoConfig, AutoTokenizer
from trl import get_peft_config, get_quantization_config
from trl.trainer.utils import create_model_from_path

from ..inference.loading import find_adapter, load_adapter, read_config, with_template
from ..numbers.tokenizer_profile import check_tokenizer
from ..tuner.base_model import innermost_model
from ..tuner.config import IGCConfig
from ..tuner.model import CHILD
from ..tuner.saving.companions import LOW_RANK, NESTED, companions_in
from .arguments import ASSISTANT_HEADER, Parsed, igc_config


# Fields that no weight depends on: they may be changed after training, or matter in training only.
_FREE = {"anchors", "confidence", "teacher_forcing", "detach_reading", "write_again"}
# Fields of TRL's `ModelConfig` (1.16) by their names in `LoraConfig`.
_LORA = {"r": "lora_r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout"}
_LORA |= {"target_modules": "lora_target_modules", "use_rslora": "use_rslora", "use_dora": "use_dora"}


def load_tokenizer(source: str, parsed: Parsed) -> Any:
    """The base's tokenizer, with the chat template of the training, which anchors are derived from. If they are to be
    and there is none, it is that of completion models, as `load_base` gives it."""
    remote = parsed.training.trust_remote_code
    tokenizer = AutoTokenizer.from_pretrained(source, revision=parsed.model.model_revision, trust_remote_code=remote)
    if template := parsed.training.chat_template_path:
        if not Path(template).is_file():
            raise ValueError(
                f"`chat_template_path={template}` is no file. Pass a Jinja file: another model's template could add "
                "tokens to the vocabulary that the calculator is made for."
            )
        tokenizer.chat_template = Path(template).read_text(encoding="utf-8")
    headed = parsed.igc.has_igc and ASSISTANT_HEADER in (parsed.igc.igc_anchors or [ASSISTANT_HEADER])
    return with_template(tokenizer) if headed else tokenizer


def make_config(source: str, parsed: Parsed, tokenizer: Any) -> IGCConfig:
    """The config of the calculator, made anew or that of `igc_init_from`, for the base in the folder `source`."""
    left = Path(parsed.training.output_dir) / LOW_RANK
    if not parsed.igc.has_lora and (left / CONFIG_NAME).is_file():
        raise ValueError(
            f"`{left}` has a LoRA of an earlier run, and would be loaded with the calculator of this one. Choose "
            "another `output_dir`, or remove that folder."
        )
    config = igc_config(parsed.igc, tokenizer)
    if parsed.igc.igc_init_from is not None:
        config = _saved_config(config, parsed, tokenizer)
    if Path(source).is_dir():  # refused before rows are made and the base is loaded
        base = AutoConfig.from_pretrained(source, revision=parsed.model.model_revision)
        layers = getattr(base.get_text_config(), "num_hidden_layers", None)
        if layers is not None and config.layer >= layers:
            raise ValueError(
                f"`layer={config.layer}` is out of range: the model has {layers} decoder layers (0..{layers - 1}). "
                "Set `IGCConfig(layer=...)`."
            )
    return config


def _saved_config(wanted: IGCConfig, parsed: Parsed, tokenizer: Any) -> IGCConfig:
    """The config of the calculator that `igc_init_from` names, which has to agree with the given arguments."""
    folder = find_adapter(str(parsed.igc.igc_init_from))
    saved = read_config(folder)
    if not isinstance(saved, IGCConfig):
        method = getattr(saved.peft_type, "value", saved.peft_type)
        raise ValueError(f"`igc_init_from={folder}` holds a {method} adapter, not a calculator. Name another folder.")
    check_tokenizer(saved.token_table, tokenizer)
    given = {f.name for f in dataclasses.fields(IGCConfig) if getattr(parsed.igc, f"igc_{f.name}", None) is not None}
    only_adds = set(saved.operations) <= set(wanted.operations)
    free = given & (_FREE | {"operations"} if only_adds else _FREE)
    for name in free:
        setattr(saved, name, getattr(wanted, name))
    different = {f"igc_{n}": getattr(saved, n) for n in given - free if getattr(saved, n) != getattr(wanted, n)}
    different |= _different_in_lora(folder, parsed)
    if different:
        listed = ", ".join(f"`{name}` (saved: {repr(value):.80})" for name, value in sorted(different.items()))
        raise ValueError(
            f"The adapter of `igc_init_from={folder}` has other settings than this run: {listed}. Leave these "
            "arguments out to go on with the saved ones, or leave out `igc_init_from`."
        )
    saved.base_model_name_or_path = None  # type: ignore[assignment]  # that of this run, set when it is saved
    return saved


def _different_in_lora(folder: Path, parsed: Parsed) -> dict[str, Any]:
    """Saved settings of the LoRA of the calculator that differ from the given arguments, those without a default."""
    different = {}
    for other in companions_in(folder):
        if not parsed.igc.has_lora:
            raise ValueError(
                f"The calculator of `igc_init_from={folder}` was trained with the adapter in `{other}`, which this "
                "run would leave out. Set `igc_adapter=igc+lora` to train both."
            )
        path = other / CONFIG_NAME
        saved = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}  # missing: refused when loaded
        defaults = {f.name: f.default for f in dataclasses.fields(parsed.model)}
        for name, argument in _LORA.items():
            value = getattr(parsed.model, argument)
            if name not in saved or value == defaults[argument] or isinstance(value, str):  # such as 'all-linear'
                continue
            both = [set(x) if isinstance(x, list) else x for x in (value, saved[name])]
            if both[0] != both[1]:
                different[argument] = saved[name]
    return different


def make_model(source: str, config: IGCConfig | None, parsed: Parsed) -> Any:
    """The base with the adapters that are trained, the calculator last: the outer one is saved in the output folder
    itself."""
    training, chosen = parsed.training, parsed.model
    model, options = _base(source, parsed), dict[str, Any]()
    plugin = training.deepspeed_plugin
    if plugin is not None and plugin.zero_stage == 3 and not (chosen.load_in_4bit or chosen.load_in_8bit):
        options["autocast_adapter_dtype"] = False  # as in TRL (1.16): ZeRO-3 gathers parameters of one dtype only
    saved = parsed.igc.igc_init_from if config is not None else None
    if parsed.igc.has_lora and not (saved and companions_in(find_adapter(saved))):
        chosen.use_peft = True
        lora = get_peft_config(chosen)
        assert isinstance(lora, LoraConfig)
        name = "default" if config is None else LOW_RANK
        try:
            model = get_peft_model(model, lora, adapter_name=name, **options)
        except ValueError as error:
            raise ValueError(
                f"`lora_target_modules={lora.target_modules}` cannot be used: {error} A single name is a pattern for "
                "whole paths: write `.*q_proj`, several names, or 'all-linear'."
            ) from error
    with warnings.catch_warnings():
        for message in NESTED:
            warnings.filterwarnings("ignore", message)
        if saved is not None:
            model = _with_saved(model, config, saved, **options)
        elif config is not None:
            model = get_peft_model(model, config, **options)
    if parsed.igc.igc_train_base:
        for name, parameter in model.named_parameters():
            if f".{CHILD}." not in name:
                parameter.requires_grad_(True)
    return model


def _with_saved(model: Any, config: Any, folder: str, **options: Any) -> Any:
    """The model with the saved calculator; the weights that it does not have are as in a new one."""
    before, after = read_config(find_adapter(folder)).operations, config.operations
    if before == after:
        return load_adapter(model, folder, config=config, is_trainable=True, **options)
    config.inference_mode = False
    model = get_peft_model(model, config, **options)
    weights = load_peft_weights(str(find_adapter(folder)), device="cpu")
    for name, value in get_peft_model_state_dict(model).items():
        saved = weights.get(name, value).to(value.device)
        if ".operator_head." in name:  # a row for each operation, and one for none
            rows = [before.index(one) if one in before else None for one in after] + [len(before)]
            saved = torch.stack([value[at] if row is None else saved[row] for at, row in enumerate(rows)])
        weights[name] = saved
    set_peft_model_state_dict(model, weights)
    return model


def _base(source: str, parsed: Parsed) -> Any:
    """The base model, as `SFTTrainer` loads it from a name."""
    options: dict[str, Any] = {
        "revision": parsed.model.model_revision,
        "trust_remote_code": parsed.training.trust_remote_code,
        "attn_implementation": parsed.model.attn_implementation,
        "dtype": parsed.model.dtype,
        **(parsed.training.model_init_kwargs or {}),
    }
    parsed.training.model_init_kwargs = None  # the trainer refuses them together with a loaded model
    if (quantization := get_quantization_config(parsed.model)) is not None:
        options["quantization_config"] = quantization
    if parsed.training.distributed_state.distributed_type in ("MULTI_GPU", "DEEPSPEED"):
        options["device_map"] = None  # "auto" would spread each process's model over all devices
    return create_model_from_path(source, **options)


def save_base(trainer: Any, folder: Path) -> None:
    """Saves a trained base without the calculator, and its tokenizer."""
    base = innermost_model(trainer.model)
    own = {name: value for name, value in base.state_dict().items() if f".{CHILD}." not in name}
    base.save_pretrained(folder, state_dict=own)
    trainer.processing_class.save_pretrained(folder)
