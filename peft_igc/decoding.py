"""Prompts to tokens, and greedy decoding: what `tracing` and `evaluation` share.

In: prompts, a tokenizer, a model. Out: token ids up to where the answer begins (`prompt_tokens`), the settings of
plain arg max (`greedy`), and eval mode for a while (`eval_mode`). Nothing is generated here.
Try it: `pytest tests/test_evaluation.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from transformers import GenerationConfig


__all__ = ["end_tokens", "eval_mode", "greedy", "padding_token", "prompt_tokens"]


def prompt_tokens(tokenizer: Any, prompts: Sequence[str], raw: bool) -> list[list[int]]:
    """Token ids of each prompt, up to where the answer begins.

    Args:
        tokenizer: With a chat template, unless `raw`.
        prompts: User messages, or with `raw` texts.
        raw: Tokenize a prompt as it stands instead of putting it through the chat template.

    Raises:
        ValueError: No chat template, or one that fails on a single user message; a prompt without tokens.
        TypeError: A single string as `prompts`.
    """
    if isinstance(prompts, str):  # would be taken apart into letters
        raise TypeError(f"`prompts` must be a list of strings, got the string {prompts!r}. Pass `[prompt]`.")
    if not prompts:
        return []
    if raw:
        rows = tokenizer(list(prompts))["input_ids"]
    else:
        texts = [_chat_text(tokenizer, prompt) for prompt in prompts]
        rows = tokenizer(texts, add_special_tokens=False)["input_ids"]  # the template has written them
    for prompt, row in zip(prompts, rows, strict=True):
        if not row:
            raise ValueError(f"The prompt {prompt!r} has no tokens, so there is nothing to continue.")
    return rows


def _chat_text(tokenizer: Any, prompt: str) -> str:
    """The prompt as a user message, followed by the header of the assistant's answer."""
    from jinja2.exceptions import TemplateError  # the engine of chat templates, installed wherever they work

    cure = "Pass `raw=True` (`--raw` on the command line) to use prompts as they stand."
    if tokenizer.chat_template is None:
        raise ValueError(f"The tokenizer has no chat template. {cure}")
    messages = [{"role": "user", "content": prompt}]
    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        raise ValueError(f"The tokenizer's chat template fails on the prompt {prompt!r}: {error}. {cure}") from error


@contextmanager
def eval_mode(model: Any) -> Iterator[None]:
    """Eval mode for a while; afterwards every module is in its own earlier mode, frozen parts included."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """The tokens that end an answer: the model's own, else the tokenizer's, else none."""
    ends = model.generation_config.eos_token_id
    ends = tokenizer.eos_token_id if ends is None else ends
    return [] if ends is None else [ends] if isinstance(ends, int) else list(ends)


def padding_token(model: Any, tokenizer: Any) -> int:
    """Any token will do as padding: it is masked, and answers are cut at their end. 0 exists in every vocabulary."""
    return next((token for token in (tokenizer.pad_token_id, *end_tokens(model, tokenizer)) if token is not None), 0)


def greedy(model: Any, tokenizer: Any, max_new_tokens: int) -> GenerationConfig:
    """Plain arg max. What a checkpoint's own defaults would add is named here, because unset fields are filled from
    them: a repetition penalty, for one, makes numbers with repeated digits wrong."""
    return GenerationConfig(
        max_new_tokens=max_new_tokens,
        eos_token_id=end_tokens(model, tokenizer) or None,
        pad_token_id=padding_token(model, tokenizer),
        do_sample=False,
        num_beams=1,
        num_return_sequences=1,
        min_length=0,
        temperature=1.0,
        top_k=50,
        top_p=1.0,
        typical_p=1.0,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        use_cache=True,
        return_dict_in_generate=False,
    )
