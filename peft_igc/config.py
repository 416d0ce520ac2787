"""`IGCConfig`: every setting of the Integrated Gated Calculator, each documented once.

A field stands in the group of the stage that it controls, in the order in which a hidden state meets the stages:
where, read, compute, write, train. Sizes are absolute numbers; the defaults give about 17 M parameters on
Llama-3.1-8B. The config knows nothing of a model: `layer` is checked against one when the adapter is injected.

Try it: `python -c "from peft_igc import IGCConfig; print(IGCConfig(layer=1))"`
"""

from __future__ import annotations

import enum
import os
from dataclasses import dataclass, field
from typing import Any

from peft import PeftConfig, TaskType
from peft.utils import SAFETENSORS_WEIGHTS_NAME, PeftType
from safetensors import SafetensorError, safe_open

from .anchor_rules import assistant_header, text_rule
from .profile import TokenizerProfile
from .sizes import fill_sizes
from .tokens import TokenTable


class IGCPeftType(str, enum.Enum):  # noqa: UP042 - as `PeftType`: PEFT (0.21) shows what stands behind the dot
    """PEFT's name of the method. `PeftType` belongs to PEFT and stays as it is."""

    IGC = "IGC"


# Should PEFT gain a member of this name, it is the one to use: equality and hash then agree everywhere.
IGC_PEFT_TYPE: Any = PeftType["IGC"] if "IGC" in PeftType.__members__ else IGCPeftType.IGC

DIVISIONS = ("exact", "floor", "trunc")
INTERFACES = ("hidden", "tokens")
PROMPT_END, TOKENS = ANCHORS = ("prompt_end", "tokens")
LEFT, RIGHT = ALIGNMENTS = ("left", "right")
BESIDE, ONLY = SHORTCUTS = ("beside", "only")
SINCE_LAST_ANCHOR, ROW = CONTEXTS = ("since_last_anchor", "row")


@dataclass
class IGCConfig(PeftConfig):
    """Configuration of [`IGCModel`], the Integrated Gated Calculator (paper, section "Methods").

    Args:
        interface (`str`, *optional*, defaults to `"hidden"`):
            How numbers pass between text and calculator. `"hidden"` (the paper's) learns to read digits out of hidden
            states, and needs no tokenizer. `"tokens"` knows how the tokenizer spells numbers: it learns only which
            numbers and which operation are meant, is exact at any length, and is made by
            [`IGCConfig.from_tokenizer`].
        number_tokens (`dict`, *optional*):
            How the tokenizer spells numbers (`tokens.TokenTable.to_json()`). The token interface cannot do without.

    > Where

        layer (`int`, *optional*, defaults to `1`):
            Index of the decoder layer whose output is read and written, 0 for the first. The paper found early layers
            best; later ones have lost the digits of a number token.
        anchor (`str`, *optional*):
            `"prompt_end"`: the last token of the prompt (`generate`), the token before each labelled stretch (`labels`
            given), or the last real token of a row. `"tokens"`: only what the next two fields name. If not given,
            `"prompt_end"` where `anchor_token_ids` is not. All rules that are set hold at once.
        anchor_token_ids (`list[list[int]]`, *optional*):
            Token sequences whose last token is an anchor where a turn begins, wherever one ends: assistant headers.
            Set by [`IGCConfig.from_tokenizer`], so that generation and likelihood scoring agree.
        inline_token_ids (`list[list[int]]`, *optional*):
            Token sequences whose last token is an anchor within a text, such as every token that ends in `=`: there
            the model's own reasoning gets its results. Set by `from_tokenizer(..., anchors=[..., "="])`.

    > Read

        reading_context (`str` or `int`, *optional*, defaults to `"since_last_anchor"`):
            How far back a step reads. `"since_last_anchor"`: from the anchor before it on, that token included; where
            a turn begins, from the beginning of the turn before it, whatever inline anchors stand between. `"row"`:
            the whole text. Only anchors that token sequences name begin a context, so with `anchor="prompt_end"` alone
            it is the whole text, too. An integer: so many tokens, the anchor included; numbers cut by that are not
            read (token interface only).
        num_digits (`int`, *optional*):
            Longest operand, 10 (tokens: 40) if not given. A longer one gives the status `overflow` and no answer,
            never a truncated number. In the hidden interface more digits need more training: every slot must have
            been seen filled.
        reading_dim (`int`, *optional*, defaults to `512`):
            Width of what is kept of a hidden state for reading, also the bytes per token beside the KV cache.
        reading_layers (`int`, *optional*):
            Bidirectional encoder layers over the text up to the anchor, 1 (tokens: 2) if not given. 0 reads a fifth
            of the operands.
        reading_ffn (`int`, *optional*):
            Hidden width of the reading's feed-forward layers, 2,048 (tokens: 512) if not given.
        reading_dropout (`float`, *optional*, defaults to `0.0`):
            Token interface: in training, the part of the rows whose reading sees token embeddings alone, without
            hidden states. It keeps the reading from relying on states that change with the length of the numbers.
        confidence (`float`, *optional*, defaults to `0.0`):
            Least probability of a reading (operands, signs and operator together); below it the status is `none`.
        alignment (`str`, *optional*, defaults to `"left"`):
            Hidden interface, an ablation (paper, "Tokenization"): the digit that has a fixed place, in what is read
            and in what is written. `"left"`: the first one. `"right"`: the last one, zeros in front; often fails to
            converge where tokens hold several digits. A placeholder read in front of all digits counts as a zero; any
            other gives the status `undefined`.
        fixed_inputs (`int`, *optional*):
            Hidden interface, an ablation (paper, "Dependency on Multiple Tokens"): read only so many tokens, the
            anchor included, each at a fixed place, by an MLP (`reading_ffn` wide, 256 if not given) instead of encoder
            and attention. The paper found it much worse. Numbers cut by the limit are misread: choose it longer than
            every question.
        num_heads (`int`, *optional*, defaults to `8`):
            Attention heads of reading and writing; divides `reading_dim` and `writing_dim`.
        max_distance (`int`, *optional*):
            Hidden: tokens before the anchor that are told apart by their distance (256 if not given); all farther
            ones share one embedding. Tokens: positions before the anchor that are read at all (512 if not given), a
            number counting as one.

    > Compute

        operations (`list[str]`, *optional*, defaults to `["+", "-", "*", "/"]`):
            Symbols of the operations, in the order of the operator classes; see `calculator.OPERATIONS`.
        division (`str`, *optional*, defaults to `"exact"`):
            `"exact"` refuses a division with remainder (status `inexact`), `"floor"` rounds down as Python's `//`,
            `"trunc"` rounds toward zero.
        result_digits (`int`, *optional*):
            Longest result, `num_digits` if not given; a longer one gives the status `overflow`.

    > Write

        writing_dim (`int`, *optional*):
            Hidden interface: width of the attention over the result's digits, 512 if not given.
        writing_ffn (`int`, *optional*):
            Hidden width of the map to the hidden state, from attended digits (1,024 if not given) or from the next
            token's embedding (768).
        gate_dim (`int`, *optional*, defaults to `128`):
            Hidden width of the gate.
        max_offset (`int`, *optional*):
            Hidden interface: tokens after the anchor that are told apart by their offset, 64 if not given.
        shortcut (`str`, *optional*):
            Hidden interface, an ablation (paper, "Ablations"): the reading also hands vectors to the writing, past the
            calculator, so that the language-model loss trains both. `"beside"`: calculator and shortcut. `"only"`: no
            calculator, like other finetuning; operand columns then train nothing, and every status is `none`. With
            either, text behind an anchor is written whatever the status: the promise that nothing changes where the
            status is not `ok` does not hold.

    > Train

        teacher_forcing (`bool`, *optional*, defaults to `True`):
            In training mode, rows with ground truth hand the correct result to the writing, so that it learns before
            the reading has converged (paper, section "Training Method"). Never in eval mode.
        detach_reading (`bool`, *optional*, defaults to `True`):
            Stop the reading's gradient at the adapter. `False` lets it reach the layers below, if they are trained.
        init_weights (`bool`, *optional*, defaults to `True`):
            `True`: a fresh adapter changes nothing. `False`: random updates and readings of two digits, for tests.
    """

    interface: str = field(default="hidden", metadata={"help": "one of " + ", ".join(INTERFACES)})
    number_tokens: dict[str, Any] | None = field(default=None, metadata={"help": "how the tokenizer spells numbers"})

    layer: int = field(default=1, metadata={"help": "index of the decoder layer that is read and written"})
    anchor: str | None = field(default=None, metadata={"help": "one of " + ", ".join(ANCHORS)})
    anchor_token_ids: list[list[int]] | None = field(
        default=None, metadata={"help": "token sequences whose last token is an anchor where a turn begins"}
    )
    inline_token_ids: list[list[int]] | None = field(
        default=None, metadata={"help": "token sequences whose last token is an anchor within a text"}
    )

    reading_context: str | int = field(
        default=SINCE_LAST_ANCHOR, metadata={"help": f"{SINCE_LAST_ANCHOR}, {ROW} or a number of tokens"}
    )
    num_digits: int | None = field(default=None, metadata={"help": "longest operand"})
    reading_dim: int = field(default=512, metadata={"help": "width kept of a hidden state for reading"})
    reading_layers: int | None = field(default=None, metadata={"help": "bidirectional encoder layers of the reading"})
    reading_ffn: int | None = field(default=None, metadata={"help": "width of the reading's feed-forward layers"})
    reading_dropout: float = field(default=0.0, metadata={"help": "rows trained on token embeddings alone"})
    confidence: float = field(default=0.0, metadata={"help": "least probability of a reading that is used"})
    alignment: str = field(default=LEFT, metadata={"help": "digit places, one of " + ", ".join(ALIGNMENTS)})
    fixed_inputs: int | None = field(default=None, metadata={"help": "tokens read at fixed places; None: attention"})
    num_heads: int = field(default=8, metadata={"help": "attention heads of reading and writing"})
    max_distance: int | None = field(default=None, metadata={"help": "distances to the anchor that are told apart"})

    operations: list[str] = field(
        default_factory=lambda: ["+", "-", "*", "/"], metadata={"help": "symbols of the operations"}
    )
    division: str = field(default="exact", metadata={"help": "one of " + ", ".join(DIVISIONS)})
    result_digits: int | None = field(default=None, metadata={"help": "longest result; None: `num_digits`"})

    writing_dim: int | None = field(default=None, metadata={"help": "width of the attention over the result's digits"})
    writing_ffn: int | None = field(default=None, metadata={"help": "hidden width of the map to the hidden state"})
    gate_dim: int = field(default=128, metadata={"help": "hidden width of the gate"})
    max_offset: int | None = field(default=None, metadata={"help": "offsets from the anchor that are told apart"})
    shortcut: str | None = field(
        default=None, metadata={"help": "a way past the calculator, one of " + ", ".join(SHORTCUTS)}
    )

    teacher_forcing: bool = field(
        default=True, metadata={"help": "give the correct result to the writing in training"}
    )
    detach_reading: bool = field(default=True, metadata={"help": "stop the reading's gradient at the adapter"})
    init_weights: bool = field(default=True, metadata={"help": "a fresh adapter changes nothing"})

    # PEFT and TRL read these names on every config. IGC finds its module by `layer`; nothing else of a base is tuned.
    target_modules: list[str] | str | None = field(default=None, metadata={"help": "not used: set `layer`"})
    exclude_modules: list[str] | str | None = field(default=None, metadata={"help": "not used: set `layer`"})
    modules_to_save: list[str] | None = field(default=None, metadata={"help": "further modules to train and save"})
    trainable_token_indices: list[int] | None = field(default=None, metadata={"help": "not used"})

    def __post_init__(self) -> None:
        super().__post_init__()
        self.loaded_from: str | None = None  # no field: where `from_pretrained` found it, for error messages
        self.peft_type = IGC_PEFT_TYPE
        if self.task_type is None:  # type: ignore[has-type]
            self.task_type = TaskType.CAUSAL_LM  # there is no other: the method writes into a text as it is produced
        for name in ("target_modules", "exclude_modules", "trainable_token_indices"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"`{name}={getattr(self, name)!r}` has no meaning for IGC, which works on one decoder layer. "
                    "Set `IGCConfig(layer=...)`."
                )
        self._check_interface()
        self._check_ablations()
        fill_sizes(self)
        self._check_choices()
        self._check_anchors()

    def _check_interface(self) -> None:
        """The interface, and what the token interface cannot do without."""
        if self.interface not in INTERFACES:
            raise ValueError(f"`interface={self.interface!r}` is unknown. Choose one of {', '.join(INTERFACES)}.")
        if (self.interface == "tokens") != (self.number_tokens is not None):
            raise ValueError(
                "The token interface and `number_tokens` belong together. Use `IGCConfig.from_tokenizer(tokenizer)`, "
                'which sets both, or `interface="hidden"` without `number_tokens`.'
            )
        if self.number_tokens is not None:
            TokenTable.from_json(self.number_tokens)  # raises if it is none
        for name in ("reading_dropout", "confidence"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
                raise ValueError(f"`{name}={value!r}` is not in 0..1 (1 excluded). Set `IGCConfig({name}=...)`.")
        if self.reading_dropout and self.interface == "hidden":
            raise ValueError(
                f"`reading_dropout={self.reading_dropout!r}` has no meaning for `interface='hidden'`. Leave it out."
            )

    def _check_ablations(self) -> None:
        """The variants of the paper's experiments, which the hidden interface alone has."""
        for name, choices in (("alignment", ALIGNMENTS), ("shortcut", (None, *SHORTCUTS))):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}={getattr(self, name)!r}` is unknown. Choose one of {', '.join(map(str, choices))}."
                )
        for name, default in (("alignment", LEFT), ("fixed_inputs", None), ("shortcut", None)):
            if self.interface != "hidden" and getattr(self, name) != default:
                raise ValueError(
                    f"`{name}={getattr(self, name)!r}` has no meaning for `interface={self.interface!r}`: it is a "
                    "variant of the hidden interface. Leave it out, or set `interface='hidden'`."
                )

    def _check_choices(self) -> None:
        """Operations, and the meaning of a division with remainder."""
        if self.division not in DIVISIONS:
            raise ValueError(f"`division={self.division!r}` is unknown. Choose one of {', '.join(DIVISIONS)}.")
        if not isinstance(self.operations, list) or not self.operations:
            raise ValueError(f"`operations={self.operations!r}` is not a list of symbols such as `['+', '-']`.")
        if len(set(self.operations)) < len(self.operations):
            raise ValueError(f"`operations={self.operations}` names an operation twice. Name each one once.")

    def _check_anchors(self) -> None:
        """Rules that name anchors at all, and a context that can be read."""
        for name in ("anchor_token_ids", "inline_token_ids"):
            sequences = getattr(self, name)
            if sequences is None:
                continue
            listed = isinstance(sequences, (list, tuple)) and len(sequences) > 0
            if not listed or not all(
                isinstance(s, (list, tuple)) and s and set(map(type, s)) == {int} for s in sequences
            ):
                raise ValueError(
                    f"`{name}={sequences!r}` is not a list of non-empty lists of token ids. "
                    "One sequence `[27, 9]` is given as `[[27, 9]]`."
                )
        if self.anchor is None:
            self.anchor = PROMPT_END if self.anchor_token_ids is None else TOKENS
        if self.anchor not in ANCHORS:
            raise ValueError(f"`anchor={self.anchor!r}` is unknown. Choose one of {', '.join(ANCHORS)}.")
        if self.anchor == TOKENS and self.anchor_token_ids is None and self.inline_token_ids is None:
            raise ValueError(
                '`anchor="tokens"` names no anchor without `anchor_token_ids` or `inline_token_ids`. Set one of them, '
                "or use `IGCConfig.from_tokenizer(tokenizer)`."
            )
        context = self.reading_context
        is_number = isinstance(context, int) and not isinstance(context, bool)
        if context not in CONTEXTS and not (is_number and int(context) > 0):
            raise ValueError(
                f"`reading_context={context!r}` is neither {' nor '.join(map(repr, CONTEXTS))} nor a number of tokens "
                "above 0."
            )
        if is_number and self.interface == "hidden":
            raise ValueError(
                f"`reading_context={context}` may cut a number in two, which the hidden interface would read as "
                f"another one. Set {' or '.join(map(repr, CONTEXTS))}, or use the token interface."
            )

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str, subfolder: str | None = None, **kwargs: Any
    ) -> IGCConfig:
        """A saved config, as PEFT loads it; the first thing that every way of loading an adapter does.

        Raises:
            ValueError: if there is no config, or if the weights beside it are damaged.
        """
        config = super().from_pretrained(pretrained_model_name_or_path, subfolder=subfolder, **kwargs)
        config.loaded_from = os.path.join(pretrained_model_name_or_path, subfolder or "").rstrip(os.sep)
        weights = os.path.join(config.loaded_from, SAFETENSORS_WEIGHTS_NAME)
        if os.path.isfile(weights):
            try:
                safe_open(weights, framework="pt").__exit__(None, None, None)
            except SafetensorError as error:
                # PEFT (0.21) lets this pass without the name of the file.
                raise ValueError(
                    f"`{weights}` is damaged and cannot be read as a safetensors file ({error}). "
                    "Copy or download it again, or save the adapter again with `save_pretrained`."
                ) from error
        return config

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Any, layer: int = 1, anchors: list[str | list[int]] | None = None, **overrides: Any
    ) -> IGCConfig:
        """A config made for a tokenizer: its interface, and its anchors.

        Args:
            tokenizer: a Hugging Face tokenizer.
            layer: as in the config.
            anchors: all anchor rules. A text such as `"="` anchors within texts, behind every token that ends in it; a
                list of token ids anchors where a turn begins, as `assistant_header(tokenizer)` does; `"prompt_end"` is
                the rule of that name. `None`: the assistant header of the chat template alone.
            overrides: any other field of the config. The interface is the one that `TokenizerProfile` recommends, the
                token interface wherever digits have tokens of their own.

        Raises:
            ValueError: as `assistant_header` and `text_rule`; for `interface="tokens"` with a tokenizer that does not
                allow it; for `anchors` beside the fields that it sets.
        """
        fields = ("anchor", "anchor_token_ids", "inline_token_ids")
        given = [name for name in fields if name in overrides]
        if anchors is not None and given:
            raise ValueError(f"`anchors` and `{given[0]}` both say where the anchors are. Pass one of them.")
        if anchors is None and not given:
            anchors = [assistant_header(tokenizer)]
        if anchors is not None:
            overrides |= _anchor_fields(tokenizer, anchors)
        if overrides.get("interface") != "hidden" and "number_tokens" not in overrides:
            profile = TokenizerProfile.from_tokenizer(tokenizer)
            if overrides.setdefault("interface", profile.interface) == "tokens":
                overrides["number_tokens"] = profile.table.to_json()
        return cls(layer=layer, **overrides)


def _anchor_fields(tokenizer: Any, anchors: Any) -> dict[str, Any]:
    """The fields of a config for the rules of `from_tokenizer`."""
    if isinstance(anchors, str) or not anchors:
        raise ValueError(f"`anchors={anchors!r}` is not a list of rules. One text is given as `['=']`.")
    turns = [rule for rule in anchors if not isinstance(rule, str)]
    inline = [rule for rule in anchors if isinstance(rule, str) and rule != PROMPT_END]
    return {
        "anchor": PROMPT_END if PROMPT_END in anchors else TOKENS,
        "anchor_token_ids": turns or None,
        "inline_token_ids": [ids for text in inline for ids in text_rule(tokenizer, text).sequences] or None,
    }
