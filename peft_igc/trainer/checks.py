"""What a trainer refuses before anything is trained: models, arguments and data that would teach nothing."""

from typing import Any

from torch import nn

from ..tuner.config import IGCConfig
from .checkpoints import weights_to_save
from .optimizer import calculators, own_parameters


def check_reading_alone(args: Any, has_adapter: bool, has_operands: bool) -> None:
    """Refuses steps that train only the reading if the reading could not learn in them."""
    for name, none in (("igc_writing_every", 1), ("igc_writing", None)):  # and its value without such steps
        value = getattr(args, name, none)
        if value == none:
            continue
        for fails, reason in (
            (not has_adapter, "the model has no IGC adapter. Attach one"),
            (not has_operands, "the training rows have no operands. Add `igc_operator` and the other operand columns"),
            (not args.igc_loss_weight, "with `igc_loss_weight=0` it learns nothing. Set the weight above 0"),
        ):
            if fails:
                raise ValueError(
                    f"`{name}={value}` trains the reading in separate steps, but {reason}, or set `{name}={none}`."
                )


def refuse_absent(model: nn.Module, config: IGCConfig | None, needed: bool) -> None:
    """Refuses a model without an active IGC adapter, whose config is None, if one is needed."""
    if config is not None or not needed:
        return
    if calculators(model):
        raise ValueError(
            "The model's IGC adapter is not active, so no calculator would be trained. Activate it with "
            "`model.set_adapter(name)`, or `model.base_model.enable_adapter_layers()` if adapters are disabled."
        )
    raise ValueError(
        "The model has no IGC adapter, so no calculator would be trained. Attach one with "
        "`get_peft_model(model, IGCConfig(...))`, or pass `peft_config=IGCConfig(...)`. To train a baseline "
        "without one, use `BaselineTrainer` or TRL's `SFTTrainer`."
    )


def refuse_sharded(trainer: Any) -> None:
    """Refuses options that split texts over processes, or trained weights other than the calculator's."""
    parallelism = trainer.accelerator.parallelism_config
    if parallelism is not None and (parallelism.cp_enabled or parallelism.sp_enabled):
        raise ValueError(
            "Context or sequence parallelism (`cp_size` or `sp_size` above 1) splits a text over processes, so a "
            "calculation would read only a part of it. Use data parallelism, or train without an IGC adapter."
        )
    if weights_to_save(trainer.model) and (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):
        raise ValueError(
            "More is trained than the calculator, and with FSDP or DeepSpeed a checkpoint would contain only a "
            "part of it. Train with DDP, or train the calculator alone, as the adapter `default`."
        )


def refuse_frozen(model: nn.Module) -> None:
    """Refuses a training of nothing. With a frozen calculator a LoRA may be trained for it."""
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(
            "No parameter of the model is trained: its IGC adapter was loaded for inference. Load it with "
            "`PeftModel.from_pretrained(base, folder, is_trainable=True)`, or set `requires_grad_(True)` on what "
            "is to be trained."
        )


def refuse_others_trained(model: nn.Module) -> None:
    """Refuses two stages where other weights than the calculator's are trained."""
    if {id(p) for p in model.parameters() if p.requires_grad} - own_parameters(model):
        raise ValueError(
            "`igc_writing` trains the calculator alone, but other weights are trainable, too. Leave it out, or freeze "
            "them."
        )


def refuse_packing(args: Any) -> None:
    """Refuses options that put several texts into one row, since a calculation would read across them."""
    for name in ("packing", "eval_packing", "padding_free"):
        if getattr(args, name, False):  # other training arguments, or none, have no such option
            raise ValueError(
                f"`{name}=True` puts several texts into one row and drops the operand columns, so the reading would "
                f"silently learn nothing. Set `{name}=False`, or train without an IGC adapter."
            )
