"""Promises of the token table, of the text of tokens, and of the profile: what a tokenizer's ids mean for numbers.

The families of real tokenizers are also built here, small, so that every promise is tested without files.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path

import pytest
from real_tokenizers import GPT2, LLAMA, QWEN, needs_real, saved
from tiny_training import tokenizer as character_tokenizer
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizer, PreTrainedTokenizerFast

from peft_igc.mappings.places import number_runs
from peft_igc.numbers.tokenizer_profile import TokenizerProfile, check_tokenizer
from peft_igc.text import Vocabulary
from peft_igc.text.literals import ends_in_minus
from peft_igc.text.token_table import TokenTable


SPECIAL = ["<unk>", "<s>", "</s>"]
WORDS = ("is", "COVID", "the")


def _merges(words: list[str], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """The merges that make each word out of its beginning and its last character; adds the words."""
    merges = []
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in vocabulary:
                vocabulary[word[:end]] = len(vocabulary)
                merges.append((word[: end - 1], word[end - 1]))
    return merges


def byte_level(words: list[str], digits: str, normalizer=None, ignore_merges=True) -> PreTrainedTokenizerFast:
    """Byte-level BPE in which `words` are tokens and `digits` is how runs of digits are cut before merging."""
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    merges = _merges([*words, *WORDS, "=-", "*-", "--", "Ġ-", "Ã·"], vocabulary)
    backend = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=ignore_merges))
    cut = pre_tokenizers.Split(Regex(digits), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(False, use_regex=False)])
    backend.decoder = decoders.ByteLevel()
    if normalizer:
        backend.normalizer = normalizer
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")


NUMBERS = [f"{n:0{length}}" for length in (2, 3) for n in range(10**length)]


def falcon(missing=("957", "008")):
    """Threes from the left; two groups are no token."""
    return byte_level([number for number in NUMBERS if number not in missing], "[0-9]{1,3}")


def irregular():
    """As GPT-2: some numbers of two and three digits are tokens, with and without a space."""
    draw = random.Random(5)
    words = draw.sample(NUMBERS[:100], 40) + [f"Ġ{number}" for number in draw.sample(NUMBERS, 60)]
    return byte_level(words, " ?[0-9]+", ignore_merges=False)


def pieces(prefix: str) -> PreTrainedTokenizerFast:
    """Sentencepiece's way: `▁` for a space, single digits, single bytes for what is not in the vocabulary."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = sorted({*"".join(WORDS), *"0123456789+-*/=.,:%!?()<>xabcy\n_"})
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *bytes_, "▁", *letters])}
    merges = _merges(["▁-", "▁is", "▁(", "=-", "--", "▁=", "▁+"], vocabulary)
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    replace = normalizers.Replace(" ", "▁")
    backend.normalizer = normalizers.Sequence([normalizers.Prepend(prefix), replace]) if prefix else replace
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<unk>"
    )


class Characters(PreTrainedTokenizer):
    """A tokenizer in Python, one token per character."""

    def __init__(self, letters="0123456789-+=()*/?%^._,$ abcdefghijklmnopqrstuvwxyz", **kwargs):
        self.letters = ["<unk>", *letters]
        super().__init__(unk_token="<unk>", **kwargs)

    @property
    def vocab_size(self):
        return len(self.letters)

    def get_vocab(self):
        return {letter: i for i, letter in enumerate(self.letters)} | self.added_tokens_encoder

    def _tokenize(self, text, **kwargs):
        return list(text)

    def _convert_token_to_id(self, token):
        return self.letters.index(token) if token in self.letters else 0

    def _convert_id_to_token(self, index):
        return self.letters[index]

    def convert_tokens_to_string(self, tokens):
        return "".join(tokens)


def word_pieces() -> PreTrainedTokenizerFast:
    """As BERT: an alphabet that is not known to `vocabulary`; every token must be decoded."""
    letters = [*"0123456789=-x", "is"]
    vocabulary = {token: i for i, token in enumerate(["<unk>", *letters, *("##" + letter for letter in letters)])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(cleanup=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


BUILT = {
    "falcon": falcon,
    "threes": lambda: falcon(missing=()),
    "irregular": irregular,
    "mistral": lambda: pieces("▁"),
    "gemma": lambda: pieces(""),
    "characters": character_tokenizer,
    "python": Characters,
    "embedded": lambda: saved("tiny"),
}
ALL = [*BUILT, LLAMA, QWEN, GPT2]
_made: dict[str, tuple] = {}


def made(name):
    """A tokenizer and its profile, made once."""
    if name not in _made:
        tokenizer = BUILT[name]() if name in BUILT else saved(name)
        _made[name] = tokenizer, TokenizerProfile.from_tokenizer(tokenizer)
    return _made[name]


def ids_of(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("name", ALL)
def test_the_numeric_tokens_are_those_whose_decoded_text_is_digits(name):
    tokenizer, profile = made(name)
    found = {}
    head = ids_of(tokenizer, "x")
    start = tokenizer.decode(head)
    for token in range(len(profile.vocabulary)):
        if token in tokenizer.all_special_ids:
            continue
        text = tokenizer.decode([*head, token], clean_up_tokenization_spaces=False).removeprefix(start)
        if re.fullmatch(" ?[0-9]+", text) and not str(tokenizer.convert_ids_to_tokens(token)).startswith("<0x"):
            found[token] = text
    assert found == profile.numbers


@pytest.mark.parametrize("name", ALL)
def test_a_saved_vocabulary_and_the_saved_facts_give_the_table(name):
    profile = made(name)[1]
    facts = json.loads(json.dumps(profile.facts))
    assert len(json.dumps(facts)) < 500
    known = Vocabulary.from_bytes(profile.vocabulary.to_bytes())
    assert TokenTable.of(known, facts) == profile.table
    negative = ids_of(made(name)[0], "-5")
    assert negative[-2:] == [profile.table.minus, negative[-1]]


def read(name, text):
    """The operand candidates of a text, by `runs`."""
    runs = number_runs(made(name)[1].table, ids_of(made(name)[0], text))
    return [run.digits for run in runs if run.digits is not None]


@pytest.mark.parametrize("name", ALL)
def test_reading_is_exact_with_every_tokenizer(name):
    draw = random.Random(4)
    signs = "+-*/" if name in ("characters", "python") else "+-*/÷×\u2212"
    for sign in signs:
        for space, length in itertools.product(("", " "), range(1, 21)):
            a, b = (str(draw.randrange(10 ** (length - 1), 10**length)) for _ in range(2))
            assert read(name, f"{a}{space}{sign}{space}{b}") == [a, b]
            assert read(name, f"is ({a}{space}{sign}{space}-{b})=") == [a, b]


WITH_MARKS = [name for name in ALL if name not in ("characters", "python")]


@pytest.mark.parametrize("name", WITH_MARKS)
def test_what_touches_a_number_breaks_it_or_leaves_it_whole_also_in_several_tokens(name):
    page = (Path(__file__).parents[2] / "docs" / "tokenizers.md").read_text(encoding="utf-8")
    assert "`5%`, `5th`, `1.5`, `10:30` and `1'000`" in page
    for text in ("5%", "5th", "1.5", "10:30", "1'000", "5²", "5½", "5٣", "5é", "é5", "COVID-19"):
        assert read(name, f"is {text}") == []
        assert read(name, text) == []
    assert read(name, "is 1,000.") == ["1000"]
    assert read(name, "5÷7 5×7 5\u22127 £85 5€") == ["5", "7", "5", "7", "5", "7", "85", "5"]


def test_a_token_ends_in_a_sign_that_a_number_may_have():
    signs = {"-": True, " -": True, "=-": True, "--": True, "---": False, "x-": False, "=": False}
    assert {token: ends_in_minus(token) for token in signs} == signs


FAMILIES = [
    ("falcon", "groups of 3 from the left", "single digits", "a token of its own"),
    ("threes", "groups of 3 from the left", "groups of 3", "a token of its own"),
    ("irregular", "irregular", "single digits", "merges with the digits"),
    ("mistral", "single digits", "single digits", "a token of its own"),
    ("gemma", "single digits", "single digits", "a token of its own"),
    ("characters", "single digits", "single digits", "a token of its own"),
    ("python", "single digits", "single digits", "a token of its own"),
    ("embedded", "groups of 3 from the left", "groups of 3", "a token of its own"),
    pytest.param("llama3.1", "groups of 3 from the left", "groups of 3", "a token of its own", marks=needs_real),
    pytest.param("qwen2.5", "single digits", "single digits", "a token of its own", marks=needs_real),
    pytest.param("gpt2", "irregular", "single digits", "merges with the digits", marks=needs_real),
]


@pytest.mark.parametrize(("name", "family", "number_format", "space"), FAMILIES)
def test_every_family_is_recognised(name, family, number_format, space):
    profile = made(name)[1]
    assert (profile.family, profile.number_format, profile.space) == (family, number_format, space)
    assert profile.interface == "tokens"
    assert f"groups of {profile.table.group}" == number_format or profile.table.group == 1


def test_groups_that_are_no_token_are_named_and_many_of_them_or_groups_from_the_right_are_irregular():
    assert made("falcon")[1].gaps == ("008", "957")
    assert made("threes")[1].gaps == ()
    assert "008, 957" in made("falcon")[1].report()
    few = TokenizerProfile.from_tokenizer(falcon(missing=NUMBERS[100:200]))
    assert (few.family, few.gaps) == ("irregular", ())
    right = TokenizerProfile.from_tokenizer(byte_level(NUMBERS, "[0-9]{1,3}(?=([0-9]{3})*(?![0-9]))"))
    assert (right.family, right.table.group, right.splits[4]) == ("irregular", 1, "1+3 100%")


TEXTS = [*"0123456789", "00", " 7", "-", "."]
FACTS = {"group": 1, "minus": 12, "point": 13, "unused": []}


@pytest.mark.parametrize(
    ("texts", "facts", "message"),
    [
        (TEXTS, {"minus": 99}, r"names token 99, but the tokens are 0\.\.13"),
        (TEXTS, {"unused": [14]}, r"names token 14, but the tokens are 0\.\.13"),
        (TEXTS, {"point": 12}, "`point=12` has the text '-', not '.'"),
        (TEXTS, {"group": 0}, r"`group=0` is not in 1\.\.6"),
        ([*TEXTS, "7"], {}, "Tokens 7 and 14 both spell '7'"),
        ([*"012345678", "x", *TEXTS[10:]], {}, "No token spells the single digit 9"),
        (TEXTS, {"digits": {}}, "The facts about numbers have the keys .* got .*'digits'"),
    ],
)
def test_facts_that_contradict_the_vocabulary_are_refused(texts, facts, message):
    with pytest.raises(ValueError, match=message):
        TokenTable.of(Vocabulary([text.encode() for text in texts]), FACTS | facts)


def test_a_tokenizer_agrees_with_its_table_also_with_more_tokens():
    tokenizer = falcon()
    stored = TokenizerProfile.from_tokenizer(tokenizer).table
    tokenizer.add_tokens(["= =", "hello"])
    tokenizer.add_special_tokens({"pad_token": "PAD"})
    later = TokenizerProfile.from_tokenizer(tokenizer)
    assert len(later.vocabulary) > len(stored.vocabulary)
    facts = {"group": stored.group, "minus": stored.minus, "point": stored.point}
    assert later.difference(stored.numbers, facts) is None


def differing(numbers, **facts):
    """How the tokenizer of threes differs from an adapter's with these facts, which writes no decimals."""
    profile = made("threes")[1]
    return profile.difference(profile.numbers | numbers, {"minus": profile.table.minus, "group": 3} | facts)


def test_a_tokenizer_names_the_first_difference_to_an_adapter():
    first, ten = (made("threes")[1].table.tokens[text] for text in ("0", "10"))
    for message, found in {
        f"token {first} spelled '4444' and now spells '0'": differing({first: "4444", ten: "11"}),
        f"token {first} spelled ' 0' and now spells '0'": differing({first: " 0"}),
        "token 2 spelled '777777' and now spells no digits": differing({2: "777777"}),
        f"token {ten} spelled no digits and now spells '10'": differing({ten: None}),
        "the minus sign was token 1 and now is": differing({}, minus=1),
        "the number of digits in a group was 2 and now is 3": differing({}, group=2),
        "the decimal point was token 1 and now is": differing({}, point=1),
    }.items():
        assert message in found
        assert "The tokenizer `" in found
    assert differing({}) is None  # the adapter writes no decimals


@pytest.mark.parametrize(
    ("letters", "reason"),
    [
        ("0123456x89-+= isabc", "No token spells the digit 7 alone"),
        ("0123456789x+= isabc", "No token spells a minus sign alone"),
    ],
)
def test_a_tokenizer_that_cannot_write_every_number_is_for_the_hidden_interface(letters, reason):
    profile = TokenizerProfile.from_tokenizer(Characters(letters))
    assert (profile.interface, profile.number_format) == ("hidden", "as learned")
    assert reason in profile.report()
    with pytest.raises(ValueError, match=f'{reason}.*Set `interface="hidden"`'):
        _ = profile.table
    with pytest.raises(ValueError, match="differs from the tokenizer"):
        check_tokenizer(made("python")[1].table, Characters(letters))


def test_a_special_token_of_digits_is_no_number():
    tokenizer = falcon()
    tokenizer.add_special_tokens({"pad_token": "4444"})
    profile = TokenizerProfile.from_tokenizer(tokenizer)
    assert "4444" not in profile.numbers.values()
    assert profile.interface == "hidden"
    assert "do not spell it" in profile.report()


def test_superscripts_that_become_digits_are_noted():
    plain, folded = (byte_level(NUMBERS, "[0-9]{1,3}", normalizer) for normalizer in (None, normalizers.NFKC()))
    assert TokenizerProfile.from_tokenizer(plain).obstacles == ()
    assert "`5²` reads as 52" in TokenizerProfile.from_tokenizer(folded).report()
