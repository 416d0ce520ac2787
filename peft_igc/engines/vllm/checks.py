"""Refuses what the plugin cannot serve, before weights are loaded, in a sentence with the cure.

In: vLLM's config and the adapter's. Out: nothing, or a ValueError. Try it: `make test-vllm`
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...text.vocabulary import Vocabulary
from ...tuner.anchors import Rules
from ...tuner.config import IGCConfig
from ..texts import check


class Setting(NamedTuple):
    """What the user has set."""

    adapter: str  # a folder or hub id
    # whether the network reads what a text does not say in symbols; else nothing is stored for it
    reading: bool = True

    @classmethod
    def of(cls, vllm_config: Any) -> Setting | None:
        """That of an engine; None if it runs without a calculator.

        Raises:
            ValueError: if the setting is of another form.
        """
        given = (vllm_config.additional_config or {}).get("igc")
        if given is None:
            return None
        is_named = isinstance(given, dict) and isinstance(given.get("adapter"), str)
        if not is_named or set(given) - set(cls._fields) or not isinstance(given.get("reading", True), bool):
            raise ValueError(
                f'`additional_config` has `"igc": {given!r}`. Pass `{{"igc": {{"adapter": DIR_OR_HUB_ID}}}}`, and '
                '`"reading": false` there to calculate expressions in symbols only.'
            )
        return cls(**given)


def check_engine(vllm_config: Any) -> None:
    """Refuses ways of running a model in which the calculator would not see every token, or not all of its state."""
    parallel = vllm_config.parallel_config
    refused = {
        "pipeline parallelism (`--pipeline-parallel-size`)": parallel.pipeline_parallel_size > 1,
        "context parallelism": parallel.decode_context_parallel_size > 1 or parallel.prefill_context_parallel_size > 1,
        "dual batch overlap (`--enable-dbo`)": bool(parallel.enable_dbo),
        "prompt embeddings (`--enable-prompt-embeds`)": bool(vllm_config.model_config.enable_prompt_embeds),
    }
    for name, is_on in refused.items():
        if is_on:
            raise ValueError(f"The calculator does not run with {name}. Start the engine without it.")


def check_adapter(config: IGCConfig, num_layers: int) -> None:
    """Refuses adapters whose answers are no function of the tokens up to a position, or that need more than ids."""
    check(config)
    place = f"The adapter in `{config.loaded_from}`"
    rules = Rules.of(config)
    if rules.prompt_end or not rules.sequences:
        raise ValueError(
            f"{place} calculates at the end of a prompt, which is no part of a text: shared prefixes would differ. "
            "Train one with `anchors=[assistant_header(tokenizer)]` or `anchors=['=']`."
        )
    if config.modules_to_save:
        raise ValueError(
            f"{place} was trained with `modules_to_save={list(config.modules_to_save)}`, modules of the base that the "
            "engine would leave as they were. Train it without them."
        )
    if config.layer >= num_layers:
        raise ValueError(
            f"{place} is for decoder layer {config.layer}, but the model has {num_layers}. Serve the base that it was "
            f"trained on, `{config.base_model_name_or_path}`."
        )


def check_tokenizer(config: IGCConfig, tokenizer: Any) -> None:
    """Refuses an adapter that was trained with other tokens; further ones are unknown to it."""
    known, found = config.vocabulary, Vocabulary.from_tokenizer(tokenizer)
    assert known is not None
    differs = next((at for at, (a, b) in enumerate(zip(known.tokens, found.tokens, strict=False)) if a != b), None)
    if differs is not None:
        raise ValueError(
            f"The adapter in `{config.loaded_from}` was trained with another tokenizer: token {differs} differs. "
            f"Serve the base that it was trained on, `{config.base_model_name_or_path}`, with its own tokenizer."
        )


def cannot_attach(why: str) -> ValueError:
    """The refusal of a model that is built in another way."""
    return ValueError(f"{why}, so the calculator cannot be attached. Serve the model with transformers.")
