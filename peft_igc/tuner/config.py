"""`IGCConfig`: every setting of the Integrated Gated Calculator, each documented once.

The fields are in the order in which a hidden state passes their stages. What each accepts is in `config_values`, what
a saved file means in `saving/saved_fields`. The config does not look at a model: `layer` is compared with the model's
number of layers when the adapter is injected.
"""

from __future__ import annotations

import enum
import os
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

from peft import PeftConfig, TaskType
from peft.utils import SAFETENSORS_WEIGHTS_NAME
from torch import nn

from ..numbers.tokenizer_profile import TokenizerProfile
from ..text.token_table import TokenTable
from ..text.vocabulary import Vocabulary, turn_ends, user_header
from .anchor_rules import assistant_header, text_rule
from .base_model import TINY, TINY_FOLDER
from .call import EMBEDDINGS
from .config_values import MESSAGE, PROMPT_END, SINCE_LAST_ANCHOR, settle, with_help
from .saving.model_card import write_card
from .saving.saved_fields import FORMAT, OldFormatError, check_saved_fields
from .saving.vocabulary_file import vocabulary_in


# Not a `StrEnum`: `get_model_status` of PEFT 0.21 prints the part of `str(peft_type)` after the dot.
class IGCPeftType(str, enum.Enum):  # noqa: UP042
    """The method's name in PEFT's tables. `PeftType` belongs to PEFT, so it is not extended."""

    IGC = "IGC"


IGC_PEFT_TYPE: Any = IGCPeftType.IGC

NO_TEXTS = "Load the weights, or make a new config with `IGCConfig.from_tokenizer(tokenizer)`."


@with_help
@dataclass
class IGCConfig(PeftConfig):
    """Configuration of [`IGCModel`], the Integrated Gated Calculator (paper, section "Methods").

    An adapter reads the output of one decoder layer at *anchors*, the positions at which a calculation is fully
    described, calculates exactly, and writes the result into the hidden states from the anchor on. One reading with
    its calculation is a *step*. Sizes are absolute numbers. `None` means the interface's default, which
    `__post_init__` fills in.

    Args:
        interface (`str`, *optional*, defaults to `"hidden"`):
            How numbers pass between text and calculator. `"hidden"` (the paper's) learns to read digits from hidden
            states and needs no tokenizer. `"tokens"` takes the digits from the token ids and learns only which
            numbers and which operation are meant, so that operands of any length are exact. Choose it with
            [`IGCConfig.from_tokenizer`], which falls back to `"hidden"` where the tokenizer does not allow it.
        number_tokens (`dict`, *optional*):
            How the tokenizer spells numbers, as far as the texts of its tokens do not tell (`TokenizerProfile.facts`).
            Required by the token interface and refused by the hidden one. Set by [`IGCConfig.from_tokenizer`].

    > Where

        layer (`int`, *optional*, defaults to `1`):
            Index of the decoder layer whose output is written, and read unless `read_from` names others, from 0 to the
            model's number of layers minus 1. The paper obtained its best results at early layers. Later layers have
            lost the digits of number tokens, which the hidden interface needs, and make training steps that end after
            the reading slower.
        read_from (`list[int]`, *optional*):
            Indices of the decoder layers whose outputs are read, in ascending order, none of them above `layer`, where
            the result is written. Several are mixed by learned weights. `None`: `layer` alone. The digits of a number
            are known in early layers; what a text asks for is understood in middle ones. Every step waits for `layer`.
        anchors (`str` or `dict`, *optional*):
            Where steps run, made by [`IGCConfig.from_tokenizer`] from rules in words. A dict of:
            `"prompt_end"` (`bool`): the last token of the prompt is an anchor; in a forward pass with `labels`, the
            token before each labelled span; without `labels`, the last real token of each row.
            `"turns"` (`list[list[int]]`): token sequences that begin a turn, such as the assistant header of a chat
            template; the last token of each occurrence is an anchor, in generation and likelihood scoring alike.
            `"inline"` (`list[list[int]]`): token sequences within a text, such as every token that ends in `=`, so
            that the model's own reasoning receives results.
            `"users"` (`list[list[int]]`): token sequences that begin a message of a user, for `reading_context`.
            `"ends"` (`list[int]`): tokens that end a turn; from there on nothing is written until the next anchor.
            `None` and `"prompt_end"` mean `{"prompt_end": True}`.

    > Read

        reading_context (`str`, *optional*, defaults to `"since_last_anchor"`):
            How far back a step reads. `"since_last_anchor"`: from the previous anchor, inclusive; at an anchor that
            begins a turn, from the previous anchor that begins a turn. Only anchors named by token sequences begin a
            context, so with the end of the prompt alone the whole text is read. `"message"`: the same, but nothing
            before the last message of a user (`"users"` of `anchors`), so that system prompts cost no time. `"row"`:
            the whole text, also across turns.
        num_digits (`int`, *optional*):
            Maximum number of digits of an operand, at least 1; 10 (tokens: 40) if `None`. A longer operand gives the
            status `overflow` and no answer, never a truncated number. In the hidden interface every digit place is
            learned, so larger values need more training data, with operands of every length. In the token interface
            they add no parameters.
        reading_dim (`int`, *optional*, defaults to `512`):
            Width of the input mapping, at least 1 and a multiple of `num_heads`. It is also the number of features
            stored per token with the KV cache, so smaller values save memory in generation.
        reading_layers (`int`, *optional*):
            Number of bidirectional encoder layers over the text up to the anchor, at least 0; 1 (tokens: 2) if
            `None`. Without one (0), the hidden interface read about a fifth of the calculations.
        compares_numbers (`bool`, *optional*, defaults to `False`):
            Whether the reader is told the ranks of a text's numbers, and which are multiples or divisors of another
            one: this tells a quotient from a product where words do not. [`IGCConfig.from_tokenizer`] sets it; the
            hidden interface, which does not know the numbers, refuses it.
        decimal_operands (`bool`, *optional*, defaults to `False`):
            Whether the numbers of a request in words may have a point, as in `4.5 plus 3.25`; those of symbols may
            anyway. Functions set it to `True`, and so does [`IGCConfig.from_tokenizer`] for the token interface; the
            hidden interface refuses it. The adapter must be trained with it.
        reading_ffn (`int`, *optional*):
            Hidden width of the input mapping's feed-forward layers, at least 1; 2,048 (tokens: 512) if `None`.
        confidence (`float` or `dict`, *optional*, defaults to `0.0`):
            Minimum probability of a reading (operands, signs and operator together), in 0..1 without 1. Below it the
            status is `none` and nothing is written. Larger values give fewer wrong answers, but also fewer answers.
            Of the token interface it is also that an answer is requested, its odds doubled where the text states the
            operation, and at least 0.5 is needed.
            A dict has one for each kind of operations: `"arithmetic"` (symbols), `"functions"` of one or two numbers,
            and `"lists"` (functions of a set of numbers).
            Of an expression in symbols it is the probability that arithmetic is asked, where the network decides that.
            It can be changed after training; `peft-igc calibrate` chooses it for texts of yours.
        temperature (`float`, *optional*, defaults to `1.0`):
            Divides the logits of the reading in eval mode, so that `confidence` is compared with calibrated
            probabilities; 0.001 to 1000. Above 1 they are closer to chance. The most probable reading stays the same.
            Set by `peft-igc calibrate`.
        num_heads (`int`, *optional*, defaults to `8`):
            Attention heads of both mappings, at least 1. Must divide `reading_dim` and `writing_dim`.

    > Compute

        operations (`list[str]`, *optional*, defaults to `["+", "-", "*", "/"]`):
            Symbols of the operations, and names of functions, in the order of the operator classes. The token
            interface has those of `text.operations.FUNCTIONS`, such as `"sum"` and `"percent"`, and
            `peft_igc.register_operation` adds one; some take one number or many.
            The hidden interface has those of `numbers.OPERATIONS`. The adapter has one operator class for each and
            must be trained with them.
        max_operands (`int`, *optional*, defaults to `8`):
            Maximum number of operands of an expression in symbols, at least 2; 2 is the paper's calculator. A longer
            expression gets no answer. Needs a vocabulary; a request in words has as many as its operation takes.
        result_digits (`int`, *optional*):
            Maximum number of digits of a result, at least 1; `num_digits` if `None`. A longer result gives the status
            `overflow`. Use `2 * num_digits` to hold every product.

        rounding (`str`, *optional*, defaults to `"refuse"`):
            Result of a division with remainder: `"refuse"/"floor"/"trunc"/"half_up:2"/...`.
            `"refuse"`: the status `inexact` where the value does not end as a decimal, such as `10 / 3`, or where a
            story divides integers without stating the division. `"floor"` rounds every quotient down, as Python's
            `//`, `"trunc"` toward zero. `"half_up:2"` rounds a value that does not end to two places after the point,
            `"half_up:3s"` to three significant digits; also `half_even`, `down` and `up`. These four need a token for
            the point, and a value that they would round to zero is refused.

    > Write

        writing_dim (`int`, *optional*):
            Hidden interface: width of the attention over the result's digits, at least 1 and a multiple of
            `num_heads`; 512 if `None`.
        writing_ffn (`int`, *optional*):
            Hidden width of the MLP that computes the update, at least 1; 1,024 (tokens: 768) if `None`. Its input is
            the attended digits in the hidden interface, the next token's embedding in the token interface.
        gate_dim (`int`, *optional*, defaults to `128`):
            Hidden width of the MLP that computes the gate, at least 1.
        write_again (`bool`, *optional*, defaults to `True`):
            Token interface: whether the gate may write a result after the first number after its anchor. With `False`
            the output is the base model's from there to the next anchor, bit for bit, whatever that number is; only a
            point or comma directly after the result is written to, as `7.` must not become 7.5. It suits worked
            solutions, where every result is after its `=` once.

    > Train

        teacher_forcing (`bool`, *optional*, defaults to `True`):
            In training mode, pass the correct result to the output mapping where the ground truth is known, so that
            the writing learns before the reading has converged (paper, section "Training Method"). Never in eval
            mode. With `False` the output mapping is trained on the calculator's own results, wrong ones included.
        detach_reading (`bool`, *optional*, defaults to `True`):
            Stop the gradient of the reading at the adapter's input. Set it to `False` to train the layers below, for
            example a LoRA, with the reading loss as well; it changes nothing where they are frozen.

    > Set by itself

        trained_with (`list[str]`, *optional*):
            Adapters of other methods that were active when this one was trained, such as a LoRA, as paths of their
            folders from this adapter's. `PeftModel.from_pretrained` loads them with it. With `[]` it is loaded alone.

    `vocabulary`, the texts of the tokens (`text.Vocabulary`), is an argument and an attribute, but no field: it is
    saved with the weights. A config without the file of its weights has None until these are loaded.
    """

    interface: str = "hidden"
    number_tokens: dict[str, Any] | None = None

    layer: int = 1
    read_from: list[int] | None = None
    anchors: Any = None

    reading_context: str = SINCE_LAST_ANCHOR
    num_digits: int | None = None
    reading_dim: int = 512
    reading_layers: int | None = None
    compares_numbers: bool = False
    decimal_operands: bool = False
    reading_ffn: int | None = None
    confidence: float | dict[str, float] = 0.0
    temperature: float = 1.0
    num_heads: int = 8

    operations: list[str] = field(default_factory=lambda: ["+", "-", "*", "/"])
    max_operands: int = 8
    rounding: str = "refuse"
    result_digits: int | None = None

    writing_dim: int | None = None
    writing_ffn: int | None = None
    gate_dim: int = 128
    write_again: bool = True

    teacher_forcing: bool = True
    detach_reading: bool = True

    trained_with: list[str] | None = None

    # PEFT (0.21) and TRL (1.16) read these names on every config. IGC finds its module by `layer`.
    target_modules: list[str] | str | None = field(default=None, metadata={"help": "not used: set `layer`"})
    exclude_modules: list[str] | str | None = field(default=None, metadata={"help": "not used: set `layer`"})
    modules_to_save: list[str] | None = field(default=None, metadata={"help": "further modules to train and save"})
    trainable_token_indices: list[int] | None = field(default=None, metadata={"help": "not used"})

    vocabulary: InitVar[Vocabulary | None] = None

    def __post_init__(self, vocabulary: Vocabulary | None) -> None:
        super().__post_init__()
        if not isinstance(vocabulary, Vocabulary | None):
            raise ValueError(f"`vocabulary` is of type `{type(vocabulary).__name__}`. {NO_TEXTS}")
        self.vocabulary = vocabulary
        # Where the config was loaded from; no fields, so they are not saved.
        self.loaded_from: str | None = None
        self.source: tuple[str, str, dict[str, Any]] = ("", "", {})  # folder or hub id, subfolder, options of the hub
        self.peft_type = IGC_PEFT_TYPE
        if self.base_model_name_or_path == TINY and not os.path.isdir(TINY):  # type: ignore[has-type]
            self.base_model_name_or_path = str(TINY_FOLDER)  # `AutoPeftModelForCausalLM` looks there for the base
        if self.task_type is None:  # type: ignore[has-type]
            self.task_type = TaskType.CAUSAL_LM
        settle(self)

    @staticmethod
    def begin(reader: Any, writer: Any) -> None:
        """Changes the random weights of a new adapter so that its update is zero; the gradient is not."""
        nn.init.zeros_(writer.write_down.weight)
        nn.init.zeros_(writer.write_down.bias)

    @property
    def decimals(self) -> bool:
        """Whether results with decimal places are written: the tokenizer has a token for the point."""
        return self.number_tokens is not None and self.number_tokens["point"] is not None

    @property
    def layers_read(self) -> tuple[int, ...]:
        """Indices of the decoder layers whose outputs are read."""
        return (self.layer,) if self.read_from is None else tuple(self.read_from)

    @property
    def inputs(self) -> tuple[int, ...]:
        """What tokens are compressed from: `layers_read`, and in the token interface `EMBEDDINGS`."""
        return self.layers_read if self.interface == "hidden" else (*self.layers_read, EMBEDDINGS)

    @property
    def layers_captured(self) -> list[int]:
        """Those of `inputs` that are kept until `layer` has run, in the order in which they come."""
        return sorted({*self.inputs} - {self.layer})

    def to_dict(self) -> dict[str, Any]:
        """As PEFT's, with the name of the base model inside the package in place of its path on this machine."""
        saved: dict[str, Any] = super().to_dict()
        if saved["base_model_name_or_path"] == str(TINY_FOLDER):
            saved["base_model_name_or_path"] = TINY
        saved["format_version"] = FORMAT
        return saved

    @property
    def token_table(self) -> TokenTable | None:
        """How the tokenizer spells numbers; None in the hidden interface.

        Raises:
            ValueError: the config has no vocabulary yet, or a wrong one.
        """
        if self.number_tokens is None:
            return None
        place = f" of `{self.loaded_from}`" if self.loaded_from else ""
        if self.vocabulary is None:
            raise ValueError(f"The config{place} has no vocabulary, which is saved with the weights. {NO_TEXTS}")
        try:
            return TokenTable.of(self.vocabulary, self.number_tokens, decimals=self.decimal_operands)
        except ValueError as error:
            raise ValueError(
                f"`number_tokens` and the vocabulary{place} contradict each other: {str(error).rstrip('.')}. "
                "Copy the folder again, or make a new config with `IGCConfig.from_tokenizer(tokenizer)`."
            ) from error

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, subfolder: str | None = None, **kwargs: Any
    ) -> IGCConfig:
        """Loads a saved config, and the vocabulary from the file of the weights, if that is local.

        Every way of loading an adapter begins here, so a damaged file is reported before anything is attached.

        Raises:
            ValueError: if there is no config, if it is of another format, or if its weights are damaged.
        """
        folder = os.path.join(pretrained_model_name_or_path, subfolder or "").rstrip(os.sep)
        try:
            config = super().from_pretrained(pretrained_model_name_or_path, subfolder=subfolder, **kwargs)
        except OldFormatError as error:
            raise OldFormatError(error.what, folder) from None
        config.loaded_from = folder
        config.source = str(pretrained_model_name_or_path), subfolder or "", cls._split_kwargs(kwargs)[0]
        weights = os.path.join(folder, SAFETENSORS_WEIGHTS_NAME)
        if os.path.isfile(weights) and (vocabulary := vocabulary_in(weights)) and config.interface == "tokens":
            config.vocabulary = vocabulary
        return config

    def save_pretrained(self, save_directory: str, **kwargs: Any) -> None:
        """Saves the config and the model card. PEFT calls it last, after it has written a card of its own there."""
        super().save_pretrained(save_directory, **kwargs)
        write_card(Path(save_directory), self.base_model_name_or_path)

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: Any,
        layer: int = 1,
        anchors: list[str | list[int]] | dict[str, Any] | None = None,
        **overrides: Any,
    ) -> IGCConfig:
        """Creates a config with the interface and the anchors that suit a tokenizer.

        Args:
            tokenizer: a Hugging Face tokenizer.
            layer: index of the decoder layer.
            anchors: list of all anchor rules. A text such as `"="`: every token that ends in it is an inline anchor.
                A list of token ids, such as `assistant_header(tokenizer)`: the sequence begins a turn.
                `"prompt_end"`: the end of the prompt. `None`: the assistant header of the chat template alone. A
                dict: the field as it is. The tokens that end a turn are added to all of them.
            overrides: any other field. `interface` defaults to the one that `TokenizerProfile` recommends, which is
                the token interface wherever digits have tokens of their own.

        Raises:
            ValueError: if an anchor rule does not fit the tokenizer (see `assistant_header`, `text_rule`), or if
                `interface="tokens"` does not.
        """
        if not isinstance(anchors, dict):
            rules: Any = [assistant_header(tokenizer)] if anchors is None else anchors
            if isinstance(rules, str) or not rules:
                raise ValueError(f"`anchors={rules!r}` is not a list of rules. Pass one text as `['=']`.")
            texts = [rule for rule in rules if isinstance(rule, str) and rule != PROMPT_END]
            found = {
                PROMPT_END: PROMPT_END in rules,
                "turns": [rule for rule in rules if not isinstance(rule, str)],
                "inline": [ids for text in texts for ids in text_rule(tokenizer, text).sequences],
            }
            anchors = {name: rule for name, rule in found.items() if rule}
        if ends := turn_ends(tokenizer):
            anchors = {"ends": ends} | anchors
        if overrides.get("reading_context") == MESSAGE and "users" not in anchors:
            anchors = {"users": [user_header(tokenizer)]} | anchors
        if overrides.get("interface") != "hidden" and "number_tokens" not in overrides:
            profile = TokenizerProfile.from_tokenizer(tokenizer)
            if overrides.setdefault("interface", profile.interface) == "tokens":
                overrides = {"compares_numbers": True, "decimal_operands": True} | overrides
                overrides |= {"number_tokens": profile.facts, "vocabulary": profile.vocabulary}
        return cls(layer=layer, anchors=anchors, **overrides)


IGCConfig.__init__ = check_saved_fields(IGCConfig.__init__)  # type: ignore[method-assign]
