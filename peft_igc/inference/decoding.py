"""Prompts to token ids up to the beginning of the answer, padded batches, and settings of greedy decoding.

Shapes: B rows of a batch, P tokens of its longest prompt.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jinja2.exceptions import TemplateError
from tqdm import tqdm
from transformers import GenerationConfig


Prompt = str | Sequence[Mapping[str, str]]  # a user message, or the messages of a conversation


def prompt_tokens(tokenizer: Any, prompts: Sequence[Prompt], raw: bool) -> list[list[int]]:
    """Token ids of each prompt up to the beginning of the answer; with `raw`, of each plain text.

    Raises:
        ValueError: if there is no chat template, if it fails on a conversation, or if a prompt has no tokens.
        TypeError: if `prompts` is a single string, or one of them is no prompt.
    """
    if isinstance(prompts, str):  # a string is a sequence too: every character would become a prompt
        raise TypeError(f"`prompts` must be a list of strings, got the string {prompts!r}. Pass `[prompt]`.")
    for prompt in prompts:
        if not isinstance(prompt, str) and (raw or not _is_conversation(prompt)):
            raise TypeError(
                f"A prompt is a string or a conversation, got the {type(prompt).__name__} {prompt!r:.80}. Pass the "
                "message of a user, or without `raw` a list of messages with `role` and `content`, both strings, the "
                "last one not the assistant's; `[messages]` is one conversation."
            )
    if not prompts:
        return []
    if raw:
        rows = tokenizer(list(prompts))["input_ids"]
    else:
        chats = [[{"role": "user", "content": one}] if isinstance(one, str) else list(one) for one in prompts]
        texts = [chat_text(tokenizer, chat) for chat in chats]
        rows = tokenizer(texts, add_special_tokens=False)["input_ids"]  # the template contains them
    for prompt, row in zip(prompts, rows, strict=True):
        if not row:
            raise ValueError(f"The prompt {prompt!r} has no tokens, so there is nothing to continue.")
    return rows


def _is_conversation(prompt: Any) -> bool:
    """Whether it has messages, the last one of which is to be answered."""
    if not isinstance(prompt, Sequence) or not prompt or not all(isinstance(one, Mapping) for one in prompt):
        return False
    told = all(isinstance(one.get(name), str) for one in prompt for name in ("role", "content"))
    return told and prompt[-1]["role"] != "assistant"


def chat_text(
    tokenizer: Any,
    messages: Sequence[Mapping[str, str]],
    cure: str = "Pass `raw=True` (`--raw`) to use prompts without a chat template.",
) -> str:
    """A conversation, followed by the assistant header.

    Raises:
        ValueError: if there is no chat template, or if it fails; the message ends with `cure`.
    """
    if tokenizer.chat_template is None:
        raise ValueError(f"The tokenizer has no chat template. {cure}")
    try:
        return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except TemplateError as error:
        prompt = messages[-1]["content"]
        raise ValueError(f"The tokenizer's chat template fails on the prompt {prompt!r}: {error}. {cure}") from error


def longest_text(model: Any) -> int:
    """Number of positions of the model; without a limit more than any text has.

    Beyond it, learned position embeddings raise an error and rotary ones become inaccurate.
    """
    return getattr(model.config.get_text_config(), "max_position_embeddings", None) or sys.maxsize


def batches_of(tokens: Sequence[Sequence[int]], batch_size: int, progress: bool = False) -> Iterator[list[int]]:
    """The indices of the prompts in each batch, with a bar on stderr if `progress`.

    Similar lengths share a batch, which saves padding. Longest first: if memory runs out, it does so at once.
    """
    order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
    seconds = 0.1 if sys.stderr.isatty() else 30.0  # where it is no terminal, a line every half minute
    with tqdm(total=len(order), mininterval=seconds, delay=seconds, disable=not progress) as bar:
        for start in range(0, len(order), batch_size):
            yield order[start : start + batch_size]
            bar.update(len(order[start : start + batch_size]))


def left_padded(rows: Sequence[Sequence[int]], padding: int, device: Any = None) -> dict[str, torch.Tensor]:
    """`input_ids` and `attention_mask`, both [B, P] int64, with padding on the left."""
    longest = max(map(len, rows))
    ids = [[padding] * (longest - len(row)) + list(row) for row in rows]
    mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
    return {"input_ids": torch.tensor(ids, device=device), "attention_mask": torch.tensor(mask, device=device)}


@contextmanager
def eval_mode(model: Any) -> Iterator[None]:
    """Puts a model into eval mode, and afterwards every module back into its own earlier mode.

    The head gets contiguous states meanwhile: for the last position of B rows a processor would copy a frozen head's
    weights B times (torch 2.13), 20 GB for 64 rows of Gemma 3 270M.
    """
    modes, head = [(module, module.training) for module in model.modules()], model.get_output_embeddings()
    hooks = [] if head is None else [head.register_forward_pre_hook(lambda _, args: (args[0].contiguous(), *args[1:]))]
    model.eval()
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes:
            module.training = training


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """The tokens that end an answer: the model's, else the tokenizer's, else none."""
    ends = model.generation_config.eos_token_id
    ends = tokenizer.eos_token_id if ends is None else ends
    return [] if ends is None else [ends] if isinstance(ends, int) else list(ends)


def padding_token(model: Any, tokenizer: Any) -> int:
    """A token for padding: the tokenizer's, else an end token, else 0.

    Any token works, because padding is masked and answers are cut at their end; 0 is in every vocabulary.
    """
    return next((token for token in (tokenizer.pad_token_id, *end_tokens(model, tokenizer)) if token is not None), 0)


def greedy(model: Any, tokenizer: Any, max_new_tokens: int, *, with_steps: bool = False) -> GenerationConfig:
    """Settings of greedy decoding without any penalty; `with_steps`: `generate` returns `igc_steps`, too.

    Every field is set, because `generate` fills unset ones from the checkpoint's own defaults. A repetition penalty
    among those would make numbers with repeated digits wrong.
    """
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
        return_dict_in_generate=with_steps,
    )
