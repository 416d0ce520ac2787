"""`IGCArguments`: what `peft-igc sft` asks about the calculator and its data, besides TRL's own arguments.

In: values from a command line or a YAML file. Out: an `IGCConfig` (`igc_config`). A field that is not set is not
passed on, so that the config's own default holds; one that would have no effect is refused (`check`), and so are TRL's
about LoRA, quantization and data sets, but not its training arguments.
Nothing is loaded here. Try it: `pytest tests/test_sft.py -k arguments`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

from .anchor_rules import assistant_header
from .config import INTERFACES, PROMPT_END, IGCConfig


__all__ = ["ADAPTERS", "ASSISTANT_HEADER", "IGCArguments", "check", "igc_config"]

ADAPTERS = ("igc", "lora", "igc+lora", "none")
ASSISTANT_HEADER = "assistant_header"

# Fields of `IGCArguments` that are no fields of the config. All others are, without their prefix.
_OF_THE_RUN = {"igc_adapter", "igc_train_base", "igc_anchors", "igc_annotated_fraction"}
_OF_THE_RUN |= {"igc_generated_rows", "igc_generated_max_digits"}
# Without a calculator these have no effect, nor have the config's fields, but for those that shape generated rows.
_CALCULATOR_ONLY = {"igc_train_base", "igc_anchors", "igc_annotated_fraction", "igc_loss_weight", "igc_curves"}
_CALCULATOR_ONLY |= {"igc_muon_learning_rate", "igc_writing_every", "igc_reading_steps"}
_OF_ROWS = {"igc_interface", "igc_num_digits", "igc_result_digits", "igc_operations", "igc_division"}
_LORA = ("lora_", "use_rslora", "use_dora")


def _same(name: str, **more: Any) -> Any:
    """A field that is handed to the config as it is; not set unless the user does."""
    declared = next((f for f in dataclasses.fields(IGCConfig) if f.name == name), None)
    text = f"As `{name}` of `IGCConfig`" + (f": {declared.metadata['help']}." if declared is not None else ".")
    return field(default=None, metadata={"help": text, **more})


@dataclass
class IGCArguments:
    """Arguments of `peft-igc sft` about the calculator.

    Args:
        igc_adapter (`str`, *optional*, defaults to `"igc"`):
            What is trained: `"igc"`, a calculator; `"lora"`, TRL's LoRA (`lora_r` and the like) alone, as a baseline;
            `"igc+lora"`, a calculator over a LoRA; `"none"`, the base model itself.
        igc_train_base (`bool`, *optional*, defaults to `False`):
            Train all weights of the base model beside the calculator. It is saved whole, under `base/`.
        igc_interface (`str`, *optional*, defaults to `"tokens"`):
            As in [`IGCConfig`], whose default is the other one: here a tokenizer is always at hand. Generated rows
            are those of its demonstration, also without a calculator: so a LoRA is trained on the same rows, if
            `igc_num_digits`, `igc_result_digits`, `igc_operations` and `igc_division` are the same too.
        igc_anchors (`list[str]`, *optional*):
            Where steps run: `assistant_header` (the default), `prompt_end` (for prompts and completions that are plain
            strings, which have no header), or a text such as `=`.
        igc_annotated_fraction (`float`, *optional*, defaults to `1.0`):
            Part of the annotated training rows whose operand columns are kept, chosen by `seed`. The others stay in
            the data and teach nothing to the reading.
        igc_generated_rows (`int`, *optional*, defaults to `0`):
            So many rows of the package's own arithmetic, all distinct, as the data or beside it.
        igc_generated_max_digits (`int`, *optional*):
            Their longest ordinary operand, 6 (at most `num_digits`) if not given.
        igc_layer, igc_reading_context, ..., igc_fixed_inputs:
            As in [`IGCConfig`], which documents them; its defaults hold where nothing is given.
    """

    igc_adapter: str = field(default="igc", metadata={"help": "What is trained.", "choices": ADAPTERS})
    igc_train_base: bool = field(default=False, metadata={"help": "Train the base model beside the calculator."})
    igc_interface: str = field(
        default="tokens", metadata={"help": "How numbers pass between text and calculator.", "choices": INTERFACES}
    )
    igc_anchors: list[str] | None = field(
        default=None,
        metadata={"help": f"Where steps run: {ASSISTANT_HEADER} (the default), {PROMPT_END}, a text such as `=`."},
    )
    igc_annotated_fraction: float = field(
        default=1.0, metadata={"help": "Part of the annotated rows whose annotation is kept."}
    )
    igc_generated_rows: int = field(default=0, metadata={"help": "Rows of the package's own arithmetic."})
    igc_generated_max_digits: int | None = field(
        default=None, metadata={"help": "Longest ordinary operand of the generated rows. None: 6."}
    )

    igc_layer: int | None = _same("layer")
    igc_reading_context: str | None = _same("reading_context")
    igc_num_digits: int | None = _same("num_digits")
    igc_reading_dim: int | None = _same("reading_dim")
    igc_reading_layers: int | None = _same("reading_layers")
    igc_reading_ffn: int | None = _same("reading_ffn")
    igc_reading_dropout: float | None = _same("reading_dropout")
    igc_confidence: float | None = _same("confidence")
    igc_num_heads: int | None = _same("num_heads")
    igc_max_distance: int | None = _same("max_distance")
    igc_operations: list[str] | None = _same("operations")
    igc_division: str | None = _same("division")
    igc_result_digits: int | None = _same("result_digits")
    igc_writing_dim: int | None = _same("writing_dim")
    igc_writing_ffn: int | None = _same("writing_ffn")
    igc_gate_dim: int | None = _same("gate_dim")
    igc_max_offset: int | None = _same("max_offset")
    igc_teacher_forcing: bool | None = _same("teacher_forcing")
    igc_detach_reading: bool | None = _same("detach_reading")
    igc_shortcut: str | None = _same("shortcut")
    igc_alignment: str | None = _same("alignment")
    igc_fixed_inputs: int | None = _same("fixed_inputs")

    def __post_init__(self) -> None:
        if self.igc_adapter not in ADAPTERS:
            raise ValueError(f"`igc_adapter={self.igc_adapter!r}` is unknown. Choose one of {', '.join(ADAPTERS)}.")
        if not 0 <= self.igc_annotated_fraction <= 1:
            raise ValueError(f"`igc_annotated_fraction={self.igc_annotated_fraction}` is not in 0..1.")
        if self.igc_generated_rows < 0:
            raise ValueError(f"`igc_generated_rows={self.igc_generated_rows}` is negative. Leave it out for none.")

    @property
    def has_igc(self) -> bool:
        """Whether a calculator is trained."""
        return self.igc_adapter in ("igc", "igc+lora")

    @property
    def has_lora(self) -> bool:
        """Whether a LoRA is trained."""
        return self.igc_adapter in ("lora", "igc+lora")


def check(script: Any, training: Any, model: Any, mixture: Any, arguments: IGCArguments, given: Set[str]) -> None:
    """Refuses arguments that contradict each other or would have no effect.

    Args:
        script, training, model, mixture, arguments: What was parsed: TRL's `ScriptArguments`, `IGCSFTConfig`, TRL's
            `ModelConfig` and `DatasetMixtureConfig`, `IGCArguments`.
        given: Names of all arguments that the user set.

    Raises:
        ValueError: names the argument and the cure.
    """
    adapter = arguments.igc_adapter
    if "use_peft" in given:
        raise ValueError(f"`use_peft` is not used here. Say what is trained by `igc_adapter`: {', '.join(ADAPTERS)}.")
    if not arguments.has_lora and (names := sorted(name for name in given if name.startswith(_LORA))):
        raise ValueError(
            f"`{names[0]}` is given, but `igc_adapter={adapter}` trains no LoRA. Leave it out, or set "
            f"`igc_adapter={'igc+lora' if arguments.has_igc else 'lora'}`."
        )
    of_config = {f.name for f in dataclasses.fields(IGCArguments)} - _OF_THE_RUN
    needing = (of_config - (_OF_ROWS if arguments.igc_generated_rows else set()) | _CALCULATOR_ONLY) & given
    if not arguments.has_igc and needing:
        raise ValueError(
            f"`{sorted(needing)[0]}` is given, but `igc_adapter={adapter}` trains no calculator. Leave it out, or set "
            "`igc_adapter=igc`."
        )
    if arguments.igc_train_base and arguments.has_lora:
        raise ValueError("`igc_train_base` trains the base itself, so a LoRA on it has no use. Set `igc_adapter=igc`.")
    if (model.load_in_4bit or model.load_in_8bit) and (arguments.igc_train_base or adapter == "none"):
        raise ValueError(
            "A base in 4 or 8 bit cannot be trained itself. Leave out `load_in_4bit` and `load_in_8bit`, or set "
            "`igc_adapter` to igc, lora or igc+lora, without `igc_train_base`."
        )
    if not arguments.igc_generated_rows and arguments.igc_generated_max_digits is not None:
        raise ValueError("`igc_generated_max_digits` is given, but no `igc_generated_rows`. Set both or none.")
    for dependent, has_effect, reason in _conditions(script, training, model, mixture, arguments):
        if not has_effect and (found := sorted(dependent & given)):
            raise ValueError(f"`{found[0]}` is given, but has no effect {reason}")


def _conditions(
    script: Any, training: Any, model: Any, mixture: Any, arguments: IGCArguments
) -> list[tuple[set[str], bool, str]]:
    """Arguments, whether they have an effect beside the others, and the end of the message if not."""
    no_test = "without an evaluation. Leave it out, or set `eval_strategy`."
    tested = training.eval_strategy != "no"
    of_named = {"dataset_config", "dataset_train_split", "dataset_test_split", "dataset_streaming"}
    trained_below = arguments.igc_train_base or arguments.has_lora
    return [
        ({"ignore_bias_buffers"}, False, "on supervised fine-tuning. Leave it out."),
        (of_named, bool(script.dataset_name), "without `dataset_name`. Leave it out; `datasets` has its own options."),
        ({"streaming"}, bool(mixture.datasets), "without `datasets`. Leave it out, or set `dataset_streaming`."),
        ({"dataset_test_split", "test_split_size"}, tested, no_test),
        ({"dataset_test_split"}, mixture.test_split_size is None, "beside `test_split_size`. Leave one of them out."),
        ({"igc_exact_match", "igc_exact_match_tokens"}, tested, no_test),
        ({"igc_exact_match_tokens"}, training.igc_exact_match > 0, "without `igc_exact_match`. Set both or none."),
        (
            {"bnb_4bit_quant_type", "bnb_4bit_quant_storage", "use_bnb_nested_quant"},
            model.load_in_4bit,
            "without `load_in_4bit`. Set both or none.",
        ),
        (
            {"igc_teacher_forcing", "igc_loss_weight"},
            arguments.igc_shortcut != "only",
            "with `igc_shortcut=only`, where nothing is calculated or read. Leave it out.",
        ),
        (
            {"igc_detach_reading"},
            trained_below,
            "while nothing below the calculator is trained. Set `igc_train_base` or `igc_adapter=igc+lora`, or leave "
            "it out.",
        ),
    ]


def igc_config(arguments: IGCArguments, tokenizer: Any) -> IGCConfig:
    """The calculator that the arguments describe.

    Args:
        arguments: What was parsed.
        tokenizer: That of the base model.

    Raises:
        ValueError: as `IGCConfig.from_tokenizer`; for a field that this version does not have.
    """
    given = {
        f.name.removeprefix("igc_"): getattr(arguments, f.name)
        for f in dataclasses.fields(arguments)
        if f.name not in _OF_THE_RUN and getattr(arguments, f.name) is not None
    }
    known = {f.name for f in dataclasses.fields(IGCConfig)}
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"`igc_{unknown[0]}` is given, but this version's `IGCConfig` has no `{unknown[0]}`.")
    if str(context := given.get("reading_context", "")).isdecimal():
        given["reading_context"] = int(context)
    anchors: Any = arguments.igc_anchors or [ASSISTANT_HEADER]
    if not isinstance(anchors, str):  # a string is an error that `from_tokenizer` explains
        anchors = [assistant_header(tokenizer) if rule == ASSISTANT_HEADER else rule for rule in anchors]
    return IGCConfig.from_tokenizer(tokenizer, anchors=anchors, **given)
