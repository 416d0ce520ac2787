"""The tokenizer of the embedded base model: byte-level BPE that splits numbers as Llama 3 does.

In: training texts and a vocabulary size. Out: a `PreTrainedTokenizerFast` with chat template and generation marks.
Every group of one to three digits, counted from the left, is one token; no merge ever produces or crosses a digit.
It never fails on a text: what has no token of its own is spelled in bytes. Try it: `pytest
tests/recipes/test_tiny_base.py`.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast


PAD, BEGIN, END = "<|pad|>", "<|begin|>", "<|end|>"
ROLES = ("system", "user", "assistant")
SPECIAL_TOKENS = (PAD, BEGIN, END, *(f"<|{role}|>" for role in ROLES))
NUMERIC_TOKENS = tuple(f"{value:0{digits}d}" for digits in (1, 2, 3) for value in range(10**digits))
CONTEXT_LENGTH = 1024

# Llama 3's own pattern.
_PIECES = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",  # endings of words
        r"[^\r\n\p{L}\p{N}]?\p{L}+",  # a word with one blank or sign before it
        r"\p{N}{1,3}",  # numbers by threes; a blank before them stays alone
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",  # punctuation
        r"\s*[\r\n]+",  # ends of lines
        r"\s+(?!\S)|\s+",  # blanks
    )
)
# `{% generation %}` marks what the assistant says: trainers learn from these tokens only.
CHAT_TEMPLATE = """\
{{- bos_token -}}
{%- for message in messages -%}
    {{- '<|' + message['role'] + '|>' -}}
    {%- if message['role'] == 'assistant' -%}
        {%- generation -%}{{- message['content'] + eos_token -}}{%- endgeneration -%}
    {%- else -%}
        {{- message['content'] + eos_token -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|assistant|>' -}}
{%- endif -%}
"""


def build_tokenizer(texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Learn merges from `texts` and return a tokenizer of exactly `size` tokens: special, numeric, bytes, merges.

    The merges are learned from text without digits and the numeric tokens have none: with `ignore_merges` (Llama 3's
    setting) a piece that is in the vocabulary is one token whatever the merges say. Equal texts give equal tokenizers.
    """
    vocabulary, merges = _learn_words(texts, size - len(SPECIAL_TOKENS) - len(NUMERIC_TOKENS))
    order = [*SPECIAL_TOKENS, *NUMERIC_TOKENS, *vocabulary]
    if len(order) != size:
        raise ValueError(f"`size={size}` is not reached: the texts give {len(order)} tokens. Use more text.")
    ids = {token: index for index, token in enumerate(order)}
    core = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=True))
    core.pre_tokenizer = _pieces()
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS])
    core.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, ids[BEGIN])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        extra_special_tokens=list(SPECIAL_TOKENS[3:]),
        padding_side="left",
        model_max_length=CONTEXT_LENGTH,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write `tokenizer` to `folder` without the traces of its use.

    A tokenizer that has padded a batch would save that padding and apply it to every text after reloading.
    """
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    for key in ("is_local", "local_files_only"):  # where it was loaded from is nobody's business
        settings.pop(key, None)
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def _pieces() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _learn_words(texts: Iterable[str], size: int) -> tuple[list[str], list[tuple[str, str]]]:
    """`size` tokens (bytes first, ASCII digits left out) and their merges, learned from `texts` without digits."""
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = _pieces()
    digits = set("0123456789")
    trainer = trainers.BpeTrainer(
        vocab_size=size + len(digits),  # the digits are among the bytes, and among the numeric tokens too
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        max_token_length=16,
        show_progress=False,
    )
    learned.train_from_iterator((re.sub(r"\d+", " ", text) for text in texts), trainer)
    ids = learned.get_vocab()
    merges = [tuple(merge) for merge in json.loads(learned.to_str())["model"]["merges"]]
    return [token for token in sorted(ids, key=ids.__getitem__) if token not in digits], merges
