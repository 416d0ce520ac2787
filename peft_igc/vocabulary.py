"""The text of every token of a Hugging Face tokenizer.

A vocabulary writes tokens in an alphabet of its own: bytes as printable stand-ins (GPT-2, Llama 3, Qwen), or text with
`▁` for a space and `<0x0A>` for single bytes (Llama 2, Mistral, Gemma). Which one is found by trying: the tokens of
some texts, spelled in the right alphabet, give these texts. In: a tokenizer, fast or slow, asked by duck typing. Out:
texts; what they mean for numbers is the matter of `tokens`. Try it: `pytest tests/test_tokens.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any


__all__ = ["special_tokens", "token_ids", "token_texts"]

# Texts without what tokenizers normalise: a space in front, doubled spaces, compatibility characters.
PROBES = ("12 x 34", "a = -5", "x\n7", "Zwölf × ß", "日本 9")


def token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text, without special tokens."""
    return [list(ids) for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"]]


def token_texts(tokenizer: Any) -> list[str]:
    """The text of ids 0..V-1, with U+FFFD for a part of a character and `""` for an id that is not in use."""
    vocabulary = tokenizer.get_vocab()
    names: list[Any] = [None] * (1 + max(vocabulary.values()))
    for name, token in vocabulary.items():
        names[token] = name
    spell = max((_from_text, _from_byte_alphabet), key=lambda way: _probes_spelled(tokenizer, names, way))
    if _probes_spelled(tokenizer, names, spell):
        texts = ["" if name is None else (spell(name) or b"").decode("utf-8", "replace") for name in names]
    else:
        texts = _decoded(tokenizer, len(names))
    for text, token in tokenizer.get_added_vocab().items():
        texts[token] = text  # added tokens are written as they are
    return texts


def special_tokens(tokenizer: Any) -> frozenset[int]:
    """The ids that are no text: begin and end, roles of a chat, reserved ones."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return frozenset(tokenizer.all_special_ids) | {token for token, entry in added.items() if entry.special}


def _probes_spelled(tokenizer: Any, names: Sequence[Any], spell: Callable[[Any], bytes | None]) -> int:
    """How many probes come back when their tokens are spelled so."""
    right = 0
    for probe, ids in zip(PROBES, token_ids(tokenizer, PROBES), strict=True):
        parts = [spell(names[token]) for token in ids]
        text = b"".join(part or b"" for part in parts).decode("utf-8", "replace")
        right += None not in parts and text.removeprefix(" ") == probe
    return right


def _from_text(name: Any) -> bytes:
    """The bytes of a token that is written as text; some slow tokenizers hand out the bytes themselves."""
    if isinstance(name, bytes):
        return name
    byte = re.fullmatch("<0x([0-9A-Fa-f]{2})>", name)
    return bytes([int(byte[1], 16)]) if byte else name.replace("▁", " ").encode()


def _from_byte_alphabet(name: Any) -> bytes | None:
    """The bytes of a token that is written in stand-ins for bytes; None if it is not."""
    try:
        return name.translate(_BYTE_OF).encode("latin-1")
    except (UnicodeEncodeError, AttributeError):
        return None


def _decoded(tokenizer: Any, size: int) -> list[str]:
    """What each token adds to a decoded text: for vocabularies in an alphabet that is not known here."""
    start = token_ids(tokenizer, ["="])[0]

    def decode(ids: list[int]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    return [decode([*start, token]).removeprefix(decode(start)) for token in range(size)]


def _byte_alphabet() -> dict[int, int]:
    """From the code of a stand-in to its byte: printable characters of Latin-1 stand for themselves, the other bytes
    are numbered from 256. Codes below 256 that stand for nothing lead out of Latin-1."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {256 + place: byte for place, byte in enumerate(hidden)} | dict.fromkeys(hidden, 0xFFFD)


_BYTE_OF = _byte_alphabet()
