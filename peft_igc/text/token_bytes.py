"""The text of every token of a Hugging Face tokenizer.

In: a tokenizer, fast or slow. Out: one text per id, or its bytes. Vocabularies are written in one of several
alphabets: bytes as printable characters (GPT-2, Llama 3, Qwen), or text with `▁` for a space and `<0x0A>` for single
bytes (Llama 2, Mistral, Gemma). The alphabet is determined by trial: in the right one, the tokens of a text spell
that text. See `vocabulary` for a text of several tokens. Try it: `pytest tests/numbers/test_token_table.py`

Shapes: V ids of the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any


__all__ = ["special_tokens", "token_bytes", "token_ids", "token_texts"]

# Without anything that tokenizers normalise: leading or doubled spaces, compatibility characters.
PROBES = ("12 x 34", "a = -5", "x\n7", "Zwölf × ß", "日本 9")


def token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text, without special tokens."""
    return [list(ids) for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"]]


def token_texts(tokenizer: Any) -> list[str]:
    """The texts of ids 0..V-1, with U+FFFD for part of a character and `""` for an unused id."""
    return [spelled.decode("utf-8", "replace") for spelled in token_bytes(tokenizer)]


def token_bytes(tokenizer: Any) -> list[bytes]:
    """The UTF-8 bytes of ids 0..V-1, `b""` for an unused id.

    A token may begin or end within a character. For a vocabulary in an unknown alphabet such a part is U+FFFD.
    """
    vocabulary = tokenizer.get_vocab()
    names: list[Any] = [None] * (1 + max(vocabulary.values()))
    for name, token in vocabulary.items():
        names[token] = name
    spell = max((_from_text, _from_byte_alphabet), key=lambda way: _probes_spelled(tokenizer, names, way))
    if _probes_spelled(tokenizer, names, spell):
        spelled = [b"" if name is None else (spell(name) or b"") for name in names]
    else:
        spelled = [text.encode("utf-8", "replace") for text in _decoded(tokenizer, len(names))]
    for text, token in tokenizer.get_added_vocab().items():
        spelled[token] = text.encode("utf-8", "replace")  # added tokens are plain text in every alphabet
    return spelled


def special_tokens(tokenizer: Any) -> frozenset[int]:
    """The ids of control tokens: begin and end of text, chat roles, reserved tokens."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return frozenset(tokenizer.all_special_ids) | {token for token, entry in added.items() if entry.special}


def _probes_spelled(tokenizer: Any, names: Sequence[Any], spell: Callable[[Any], bytes | None]) -> int:
    """The number of probes that are reproduced when `spell` gives the bytes of each token."""
    right = 0
    for probe, ids in zip(PROBES, token_ids(tokenizer, PROBES), strict=True):
        parts = [spell(names[token]) for token in ids]
        text = b"".join(part or b"" for part in parts).decode("utf-8", "replace")
        right += None not in parts and text.removeprefix(" ") == probe
    return right


def _from_text(name: Any) -> bytes:
    """The bytes of a token in an alphabet of text; some slow tokenizers give bytes themselves."""
    if isinstance(name, bytes):
        return name
    byte = re.fullmatch("<0x([0-9A-Fa-f]{2})>", name)
    return bytes([int(byte[1], 16)]) if byte else name.replace("▁", " ").encode()


def _from_byte_alphabet(name: Any) -> bytes | None:
    """The bytes of a token in an alphabet of printable bytes; None if it has other characters."""
    try:
        return name.translate(_BYTE_OF).encode("latin-1")
    except (UnicodeEncodeError, AttributeError):
        return None


def _decoded(tokenizer: Any, size: int) -> list[str]:
    """The text that each token appends to a decoded text, for vocabularies in an unknown alphabet."""

    def decode(ids: list[int]) -> str:
        return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    start = token_ids(tokenizer, ["="])[0]  # decoding may strip the space of a first token
    prefix = decode(start)
    return [decode([*start, token]).removeprefix(prefix) for token in range(size)]


def _byte_alphabet() -> dict[int, int]:
    """A table for `str.translate` from GPT-2's alphabet to bytes in Latin-1.

    Printable characters of Latin-1 represent themselves, characters from U+0100 on the other bytes, in order. Those
    other bytes are not used as characters: they map to U+FFFD, which Latin-1 cannot encode.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {256 + place: byte for place, byte in enumerate(hidden)} | dict.fromkeys(hidden, 0xFFFD)


_BYTE_OF = _byte_alphabet()
