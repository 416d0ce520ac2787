"""`IGCArguments`: the arguments of `peft-igc sft` about the calculator and its data.

In: values from a command line or a YAML file. Out: an `IGCConfig` (`igc_config`). A field that is not set is not
passed on, so the config's own default applies. `check` refuses arguments about the calculator, a LoRA or quantization
that contradict each other or have no effect; TRL validates its other arguments itself. Nothing is loaded here.
"""

import dataclasses
import json
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..data.mixture import TOKENS_MIXTURE, Mixture
from ..trainer.config import IGCSFTConfig, settings_of
from ..tuner.anchor_rules import assistant_header
from ..tuner.config import IGCConfig
from ..tuner.config_values import INTERFACES, PROMPT_END, SIZES
from .measure import Demonstration


ADAPTERS = ("igc", "lora", "igc+lora", "none")
ASSISTANT_HEADER = "assistant_header"
OF_CONFIG = "As in `IGCConfig`: "  # begins the help of its fields
CONFIDENCE = 0.5  # a reading that is more probably wrong than right is not written

# Fields of `IGCConfig` that are no argument: made from the tokenizer or by PEFT, or fitted after the training.
_NOT_GIVEN = {"number_tokens", "anchors", "temperature", "trained_with", "target_modules", "exclude_modules"}
_NOT_GIVEN |= {"modules_to_save", "trainable_token_indices"}
# Beginnings of the arguments that also apply without a calculator; the second ones only if there are generated rows.
_FOR_ALL_RUNS = ("igc_adapter", "igc_generated_", "igc_exact_match", "igc_minutes")
_OF_ROWS: tuple[str, ...] = ("igc_interface", "igc_num_digits", "igc_result_digits", "igc_operations")
_OF_ROWS += ("igc_rounding", "igc_decimal_operands")
_LORA = ("lora_", "use_rslora", "use_dora")


def _argument(default: Any, text: str, **metadata: Any) -> Any:
    return field(default=default, metadata={"help": text, **metadata})


def _with_settings(cls: Any) -> Any:
    """Makes a class a dataclass with the fields of `IGCConfig`, too, with the prefix `igc_` and the default None."""
    hints = typing.get_type_hints(IGCConfig)
    for one in dataclasses.fields(IGCConfig):
        name = f"igc_{one.name}"
        if one.name in _NOT_GIVEN or one.name not in IGCConfig.__annotations__ or name in cls.__annotations__:
            continue
        hint = hints[one.name]
        if float in typing.get_args(hint):  # `confidence`: one number for all kinds of operations
            hint = float
        cls.__annotations__[name] = hint | None
        default = CONFIDENCE if one.name == "confidence" else one.default
        if one.name in SIZES["hidden"]:
            default = ", ".join(f"{size[one.name]} ({kind})" for kind, size in SIZES.items() if one.name in size)
        shown = "" if default in (None, dataclasses.MISSING) else f" (default: {default})"
        setattr(cls, name, _argument(None, f"{OF_CONFIG}{one.metadata['help']}{shown}."))
    return dataclass(cls)


@_with_settings
class IGCArguments:
    """Arguments of `peft-igc sft` about the calculator: these and, with the prefix `igc_`, the fields of `IGCConfig`.

    Fields that are not set keep the default of `IGCConfig`, apart from `igc_interface` and `igc_confidence`
    (`CONFIDENCE`). The `help` of a field documents it.
    """

    igc_adapter: str = _argument(
        "igc",
        "What to train. igc: a calculator; lora: TRL's LoRA (lora_r etc.) alone, as a baseline; igc+lora: a "
        "calculator over a LoRA; none: the base model itself.",
        choices=ADAPTERS,
    )
    igc_train_base: bool = _argument(
        False, "Also train all weights of the base model. It is saved as a whole in the subfolder `base`."
    )
    igc_init_from: str | None = _argument(
        None,
        "Folder of a saved calculator whose weights the training begins with, and those of the LoRA that was trained "
        "with it; tiny: that of the embedded base. Settings that are given have to be the saved ones, except "
        "igc_anchors, igc_write_again, igc_confidence, igc_teacher_forcing and igc_detach_reading; operations may be "
        "added. An interrupted run is continued with resume_from_checkpoint instead.",
    )
    igc_interface: str = _argument(
        "tokens",
        "How numbers pass between text and calculator. Generated rows use the phrasings and the mixture of this "
        "interface's demonstration, also for a LoRA, which sees the same rows if the sizes, operations and rounding "
        "are the same.",
        choices=INTERFACES,
    )
    igc_anchors: list[str] | None = _argument(
        None,
        f"Where steps run: {ASSISTANT_HEADER} (the default), {PROMPT_END}, a text such as `=`. Prompts and "
        f"completions that are plain strings have no header and need {PROMPT_END}.",
    )
    igc_generated_rows: int = _argument(
        0, "Number of rows of the package's own arithmetic to train on. All are distinct; other data is added."
    )
    igc_generated_max_digits: int | None = _argument(
        None, "Largest number of digits of their ordinary operands. None: 6, or num_digits if that is smaller."
    )
    igc_generated_mixture: dict[str, Any] | str | None = _argument(
        None, "Fractions of their kinds that differ from those of the interface. The kinds are the fields of Mixture."
    )
    igc_held_out: int = _argument(
        100,
        "Number of annotated rows held out for the closing evaluation; 0: none. At most a tenth is taken; rows of a "
        "test set are preferred, and generated rows are made in addition.",
    )
    igc_demonstration: dict[str, Any] | str | None = _argument(
        None,
        "Settings of a calibration and a measurement after the training, whose calculations are not trained. They are "
        "the fields of Demonstration.",
    )
    igc_minutes: float | None = _argument(
        None, "Time limit of the trainer's steps. A second stage is shortened in proportion."
    )

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Any]]

        def __getattr__(self, name: str) -> Any:
            """The fields of `IGCConfig`."""

    def __post_init__(self) -> None:
        if self.igc_adapter not in ADAPTERS:
            raise ValueError(f"`igc_adapter={self.igc_adapter!r}` is unknown. Choose one of {', '.join(ADAPTERS)}.")
        for name in ("igc_generated_rows", "igc_held_out"):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}={getattr(self, name)}` is negative. Set it to 0 or more.")
        if self.igc_minutes is not None and not self.igc_minutes > 0:
            raise ValueError(f"`igc_minutes={self.igc_minutes:g}` must be above 0. Leave it out for no limit.")
        for name in ("igc_generated_mixture", "igc_demonstration"):
            if isinstance(value := getattr(self, name), str):
                try:
                    setattr(self, name, json.loads(value))
                except ValueError as error:
                    raise ValueError(f"`{name}={value}` is no JSON: {error}. Put its names in quotes.") from error

    @property
    def demonstration(self) -> Demonstration | None:
        """The settings of `igc_demonstration`."""
        given = self.igc_demonstration
        return None if given is None else settings_of(Demonstration, given, "igc_demonstration")  # type: ignore[arg-type]

    @property
    def mixture(self) -> Mixture:
        """The mixture of the generated rows: that of the interface with the fractions that are given."""
        given = self.igc_generated_mixture or {}
        usual = TOKENS_MIXTURE if self.igc_interface == "tokens" else Mixture(bigbench=0.2, negative=0.1)
        return settings_of(Mixture, dataclasses.asdict(usual) | dict(given), "igc_generated_mixture")  # type: ignore[arg-type]

    @property
    def has_igc(self) -> bool:
        """Whether a calculator is trained."""
        return self.igc_adapter in ("igc", "igc+lora")

    @property
    def has_lora(self) -> bool:
        """Whether a LoRA is trained."""
        return self.igc_adapter in ("lora", "igc+lora")


class Parsed(NamedTuple):
    """A parsed command line."""

    script: Any  # TRL's `ScriptArguments`
    training: IGCSFTConfig
    model: Any  # TRL's `ModelConfig`
    mixture: Any  # TRL's `DatasetMixtureConfig`
    igc: IGCArguments
    launch: list[str]  # arguments of `accelerate launch`, from the YAML file and the command line


def check(parsed: Parsed) -> None:
    """Refuses arguments that contradict each other or have no effect. Here one is given if it is not its default."""
    model, arguments = parsed.model, parsed.igc
    adapter = arguments.igc_adapter
    parts = (parsed.training, model, arguments)
    fields = ((part, f) for part in parts for f in dataclasses.fields(part) if f.name.startswith(("igc_", *_LORA)))
    given = sorted(f.name for part, f in fields if getattr(part, f.name) != f.default)
    if model.use_peft:
        raise ValueError(f"`use_peft` is not used here. Set `igc_adapter` to one of {', '.join(ADAPTERS)}.")
    if not arguments.has_lora and (names := [name for name in given if name.startswith(_LORA)]):
        raise ValueError(
            f"`{names[0]}` is given, but `igc_adapter={adapter}` trains no LoRA. Leave it out, or set "
            f"`igc_adapter={'igc+lora' if arguments.has_igc else 'lora'}`."
        )
    for_all = (*_LORA, *_FOR_ALL_RUNS, *(_OF_ROWS if arguments.igc_generated_rows else ()))
    if not arguments.has_igc and (names := [name for name in given if not name.startswith(for_all)]):
        raise ValueError(
            f"`{names[0]}` is given, but `igc_adapter={adapter}` trains no calculator. Leave it out, or set "
            "`igc_adapter=igc`."
        )
    if arguments.igc_train_base and arguments.has_lora:
        raise ValueError("`igc_train_base` trains the base itself, so a LoRA on it has no use. Set `igc_adapter=igc`.")
    if arguments.igc_demonstration is not None and (arguments.igc_train_base or model.model_revision != "main"):
        raise ValueError(
            "`igc_demonstration` measures on the base of that name, loaded anew, and not on one that is trained with "
            "the calculator or has another revision. Leave out `igc_train_base` and `model_revision`, or it."
        )
    if (model.load_in_4bit or model.load_in_8bit) and (arguments.igc_train_base or adapter == "none"):
        raise ValueError(
            "A base in 4 or 8 bit cannot be trained itself. Leave out `load_in_4bit` and `load_in_8bit`, or set "
            "`igc_adapter` to igc, lora or igc+lora, without `igc_train_base`."
        )
    trained_below = arguments.igc_train_base or arguments.has_lora
    answered = parsed.training.igc_exact_match or (arguments.has_igc and arguments.igc_held_out)
    rows = arguments.igc_generated_rows, "without `igc_generated_rows`. Set both or none."
    for name, (has_effect, reason) in {
        "igc_exact_match": (parsed.training.eval_strategy != "no", "without an evaluation. Set `eval_strategy`."),
        "igc_exact_match_tokens": (answered, "without `igc_exact_match` or `igc_held_out`. Set one of them."),
        "igc_generated_max_digits": rows,
        "igc_generated_mixture": rows,
        "igc_detach_reading": (
            trained_below,
            "because nothing below the calculator is trained. Set `igc_train_base` or `igc_adapter=igc+lora`.",
        ),
    }.items():
        if name in given and not has_effect:
            raise ValueError(f"`{name}` is given, but has no effect {reason}")


def igc_config(arguments: IGCArguments, tokenizer: Any) -> IGCConfig:
    """The config of the calculator that the arguments describe, for the tokenizer of the base model."""
    given = {
        f.name: value
        for f in dataclasses.fields(IGCConfig)
        if f.name not in _NOT_GIVEN and (value := getattr(arguments, f"igc_{f.name}", None)) is not None
    }
    given.setdefault("confidence", CONFIDENCE)
    anchors: Any = arguments.igc_anchors or [ASSISTANT_HEADER]
    if not isinstance(anchors, str):  # `from_tokenizer` refuses a string with an explanation
        anchors = [assistant_header(tokenizer) if rule == ASSISTANT_HEADER else rule for rule in anchors]
    return IGCConfig.from_tokenizer(tokenizer, anchors=anchors, **given)
