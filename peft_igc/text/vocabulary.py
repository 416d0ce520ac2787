"""The vocabulary: the characters of every token, saved with an adapter.

In: a Hugging Face tokenizer, fast or slow, or saved bytes. Out: a `Vocabulary`, which spells token ids as the
characters that `reading` takes, and says which token holds each of them.

Tokenizers write tokens in one of several alphabets: bytes as printable characters (GPT-2, Llama 3, Qwen), or text with
`▁` for a space and `<0x0A>` for single bytes (Llama 2, Mistral, Gemma). It is determined by trial: in the right one,
the tokens of a text spell that text. Try it: `pytest tests/text/test_vocabulary.py`

Shapes: V ids of the vocabulary.
"""

from __future__ import annotations

import codecs
import itertools
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from .pieces import CONTROL, UNKNOWN


# Ids of positions whose token is not known. All other ids are those of the tokenizer.
EMBEDDED = -1  # given as an embedding: a number, or a part of one, may be anywhere in such a text
UNSEEN = -2  # processed while the adapter was off: may end or begin with a part of a number, or hold several
PADDING = -3  # not text

# Of a saved vocabulary, which a file of a few bytes may claim to have; the largest known have a few hundred thousand
# tokens in 4 MB.
MOST_BYTES, MOST_TOKENS, LONGEST_TOKEN = 1 << 24, 1 << 20, 1 << 16
_PART = "\ufffd"  # bytes that are no character
# Without anything that tokenizers normalise: leading or doubled spaces, compatibility characters.
_PROBES = ("12 x 34", "a = -5", "x\n7", "Zwölf × ß", "日本 9")
# GPT-2's alphabet: printable characters of Latin-1 represent themselves, those from U+0100 on the other bytes, in
# order. These other bytes are no characters of it: they map to U+FFFD, which Latin-1 cannot encode.
_HIDDEN = [byte for byte in range(256) if byte not in {*range(33, 127), *range(161, 173), *range(174, 256)}]
_BYTE_OF = {256 + place: byte for place, byte in enumerate(_HIDDEN)} | dict.fromkeys(_HIDDEN, 0xFFFD)
_CURE = "Create it again: `Vocabulary.from_tokenizer(tokenizer)`."


class Spelled(NamedTuple):
    """The characters of a text, and which tokens they are in."""

    text: str  # the characters
    # for each token, the number of characters up to its end. A character in several tokens counts for the first one,
    # so the ends of a text do not change when it goes on.
    ends: list[int]


class Vocabulary:
    """The characters of the tokens 0..V-1. It does not change after it is made; copies are the object itself.

    Args:
        tokens: The UTF-8 bytes of V tokens, `b""` for an unused id. A token may begin or end within a character.
        control: Ids of control tokens, such as the begin of a text and of a chat's turn.
        unknown: Ids of tokens whose text is not known, such as `<unk>`.
        header: Ids of the tokens that name the role before a user's message, from the control token on, if the chat
            template names it in words, as in `<|im_start|>user`. All of them count as control tokens where they follow
            each other, because the name of a role is no word of the message. Empty for other templates.

    Attributes:
        texts: The text of each token, with U+FFFD for parts of characters and `""` for an unused id.

    Raises:
        ValueError: An id is not in 0..V-1.
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        control: Iterable[int] = (),
        unknown: Iterable[int] = (),
        header: tuple[int, ...] = (),
    ) -> None:
        self.tokens = tuple(tokens)
        self.control = frozenset(control)
        self.unknown = frozenset(unknown)
        self.header = tuple(header)
        for name, ids in {"control": self.control, "unknown": self.unknown, "header": self.header}.items():
            if bad := [token for token in ids if not 0 <= token < len(self.tokens)]:
                raise ValueError(f"`{name}` has token {bad[0]}, but the tokens are 0..{len(self.tokens) - 1}. {_CURE}")
        self._saved: bytes | None = None
        self.texts = [spelled.decode("utf-8", "replace") for spelled in self.tokens]
        self._texts = [_plain(text) or UNKNOWN for text in self.texts]  # as `spell` gives them
        for token in self.control:
            self._texts[token] = CONTROL
        for token in self.unknown:
            self._texts[token] = UNKNOWN
        # Tokens that hold parts of characters, which those of other tokens may complete.
        self._partial = {token for token, text in enumerate(self._texts) if _PART in text}

    @classmethod
    def from_tokenizer(cls, tokenizer: Any) -> Vocabulary:
        """The vocabulary of a Hugging Face tokenizer; nothing is tokenized but a few probes."""
        unknown = {tokenizer.unk_token_id} - {tokenizer.bos_token_id, tokenizer.eos_token_id, None}
        return cls(_bytes_of(tokenizer), special_tokens(tokenizer), unknown, _named_role(tokenizer))

    def to_bytes(self) -> bytes:
        """The vocabulary in a compact form, made once: a second for the largest."""
        if self._saved is None:
            tokens = [spelled.decode("latin-1") for spelled in self.tokens]
            ids = {"control": sorted(self.control), "unknown": sorted(self.unknown), "header": list(self.header)}
            saved = json.dumps({"tokens": tokens, **ids}, ensure_ascii=False, separators=(",", ":"))
            self._saved = zlib.compress(saved.encode(), 9)
        return self._saved

    @classmethod
    def from_bytes(cls, data: bytes) -> Vocabulary:
        """The vocabulary that was saved by `to_bytes`.

        Raises:
            ValueError: `data` is damaged, or was made by something else.
        """
        unpack = zlib.decompressobj()
        try:
            plain = unpack.decompress(data, MOST_BYTES)
            if not unpack.eof or unpack.unused_data:
                raise ValueError(f"it does not end within {MOST_BYTES} bytes, or not where it should")
            saved = json.loads(plain.decode())
            tokens = [spelled.encode("latin-1") for spelled in saved.pop("tokens")]
            if any(type(token) is not int for ids in saved.values() for token in ids):
                raise TypeError("ids must be integers")
            if len(tokens) > MOST_TOKENS or max(map(len, tokens), default=0) > LONGEST_TOKEN:
                raise ValueError(f"it has over {MOST_TOKENS:,} tokens, or one of over {LONGEST_TOKEN:,} bytes")
            made = cls(tokens, **saved)
        except (zlib.error, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise ValueError(f"The saved vocabulary is damaged ({error}). {_CURE}") from error
        made._saved = bytes(data)
        return made

    def spell(self, ids: Sequence[int]) -> Spelled:
        """The characters of token ids; any integers are allowed.

        A control token is the character `CONTROL`; one whose text is not known, an id outside the vocabulary, and
        `EMBEDDED` and `UNSEEN` are `UNKNOWN`; `PADDING` is nothing. Bytes that are no character are U+FFFD.
        """
        texts, size, header = self._texts, len(self._texts), self.header
        parts = [texts[one] if 0 <= one < size else "" if one == PADDING else UNKNOWN for one in ids]
        for place in [place for place, one in enumerate(ids) if header and one == header[0]]:
            if tuple(ids[place : place + len(header)]) == header and parts[place] is CONTROL:
                parts[place : place + len(header)] = [CONTROL] * len(header)
        if self._partial.isdisjoint(ids):
            return Spelled("".join(parts), list(itertools.accumulate(map(len, parts))))
        ends: list[int] = []
        total, begun = 0, b""
        for place, token in enumerate(ids):
            text = parts[place]
            if token in self._partial and text is not CONTROL:
                spelled = begun + self.tokens[token]
                text, used = codecs.utf_8_decode(spelled, "replace", False)
                text, begun = _plain(text), spelled[used:]
            elif begun and text:
                text, begun = _PART + text, b""
            parts[place] = text
            total += len(text)
            ends.append(total + bool(begun))
        return Spelled("".join(parts) + _PART * bool(begun), ends)

    def text_of(self, token: int) -> str:
        """The characters of one token, as of `spell`."""
        known = 0 <= token < len(self._texts) and token not in self._partial
        return self._texts[token] if known else self.spell([token]).text

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((len(self.tokens), self.control, self.header))

    def __deepcopy__(self, memo: Any) -> Vocabulary:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.tokens, self.control, self.unknown, self.header)


def _plain(text: str) -> str:
    """A text without the characters that take the place of tokens, so that no text can be mistaken for those."""
    return text.replace(CONTROL, _PART).replace(UNKNOWN, _PART)


def _named_role(tokenizer: Any) -> tuple[int, ...]:
    """`Vocabulary.header` of a tokenizer."""
    try:
        ids = user_header(tokenizer)
    except Exception:  # none; or the template, a program of its author, wants a system prompt or parts of messages
        return ()
    control = special_tokens(tokenizer)
    last = max((place for place, token in enumerate(ids) if token in control), default=len(ids))
    return tuple(ids[last:]) if len(ids) - last > 1 else ()


def user_header(tokenizer: Any) -> list[int]:
    """Token ids with which the chat template begins every message of a user.

    Raises:
        ValueError: if there are none, such as without a chat template.
    """
    first, answer, last = "forty-two", "twenty-one", "eighty-four"
    chat = [{"role": "user", "content": first}, {"role": "assistant", "content": answer}]
    chat.append({"role": "user", "content": last})
    text = tokenizer.apply_chat_template(chat, tokenize=False) if getattr(tokenizer, "chat_template", None) else ""
    parts = [text.partition(first)[0], text.partition(answer)[2].partition(last)[0]]
    before, between = token_ids(tokenizer, parts)
    ids, ends = list(os.path.commonprefix([before[::-1], between[::-1]])[::-1]), turn_ends(tokenizer)
    while ids and (ids[0] in ends or not tokenizer.decode(ids[:1]).strip()):
        ids = ids[1:]
    while ids and not tokenizer.decode(ids[-1:]).strip():  # white space may be one token with a message
        ids = ids[:-1]
    if not ids:
        raise ValueError(
            f"The chat template of `{type(tokenizer).__name__}` has no beginning of a user's message that could be "
            'found. Leave out `reading_context="message"`, or pass `anchors={"users": [...], ...}`.'
        )
    return ids


def turn_ends(tokenizer: Any) -> list[int]:
    """Special tokens that end a turn: the end-of-text token, and the one of the chat template after an answer."""
    ends = set() if tokenizer.eos_token_id is None else {int(tokenizer.eos_token_id)}
    if getattr(tokenizer, "chat_template", None):
        answer = "forty-two"
        chat = [{"role": "user", "content": "1"}, {"role": "assistant", "content": answer}]
        text = tokenizer.apply_chat_template(chat, tokenize=False)
        after = text.rpartition(answer)[2]
        ends |= special_tokens(tokenizer).intersection(token_ids(tokenizer, [after])[0][:1])
    return sorted(ends)


def token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text, without special tokens."""
    return [list(ids) for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"]]


def special_tokens(tokenizer: Any) -> frozenset[int]:
    """The ids of control tokens: begin and end of text, chat roles, reserved tokens."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return frozenset(tokenizer.all_special_ids) | {token for token, entry in added.items() if entry.special}


def _bytes_of(tokenizer: Any) -> list[bytes]:
    """`Vocabulary.tokens` of a tokenizer. In an unknown alphabet, a part of a character is U+FFFD."""
    vocabulary = tokenizer.get_vocab()
    names: list[Any] = [None] * (1 + max(vocabulary.values()))
    for name, token in vocabulary.items():
        names[token] = name
    spell = max((_from_text, _from_byte_alphabet), key=lambda way: _probes_spelled(tokenizer, names, way))
    if _probes_spelled(tokenizer, names, spell):
        spelled = [b"" if name is None else (spell(name) or b"") for name in names]
    else:  # the text that each token appends to a decoded one, whose first space may be stripped
        start = token_ids(tokenizer, ["="])[0]
        texts = [
            tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            for ids in (start, *([*start, token] for token in range(len(names))))
        ]
        spelled = [text.removeprefix(texts[0]).encode("utf-8", "replace") for text in texts[1:]]
    for text, token in tokenizer.get_added_vocab().items():
        spelled[token] = text.encode("utf-8", "replace")  # added tokens are plain text in every alphabet
    return spelled


def _probes_spelled(tokenizer: Any, names: Sequence[Any], spell: Callable[[Any], bytes | None]) -> int:
    """The number of probes that are reproduced when `spell` gives the bytes of each token."""
    right = 0
    for probe, ids in zip(_PROBES, token_ids(tokenizer, _PROBES), strict=True):
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
    """The bytes of a token in GPT-2's alphabet of printable bytes; None if it has other characters."""
    try:
        return name.translate(_BYTE_OF).encode("latin-1")
    except (UnicodeEncodeError, AttributeError):
        return None
