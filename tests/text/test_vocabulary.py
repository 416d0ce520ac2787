"""The vocabulary spells ids as characters, survives saving and refuses damage, for several tokenizers."""

import copy
import pickle
import random
import time
import zlib
from unittest.mock import Mock

import pytest
from real_tokenizers import GPT2, LLAMA, QWEN, saved

from peft_igc import tiny_base
from peft_igc.text import CONTROL, UNKNOWN, Vocabulary
from peft_igc.text.vocabulary import EMBEDDED, PADDING, UNSEEN


POUND, MINUS = "£".encode(), "\u2212".encode()
TOKENS = (b"<s>", b"<unk>", b"user", b"12", b" + ", POUND[:1], POUND[1:], MINUS[:2], MINUS[2:], b"5" + POUND[:1], b"")
START, UNK, USER, TWELVE, PLUS, POUND_A, POUND_B, MINUS_A, MINUS_B, FIVE_POUND_A, UNUSED = range(len(TOKENS))


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary(TOKENS, control=[START], unknown=[UNK], header=(START, USER))


@pytest.fixture(scope="module", params=["tiny", GPT2, LLAMA, QWEN])
def tokenizer(request):
    return saved(request.param)


@pytest.mark.parametrize(
    ("ids", "text", "ends"),
    [
        ([], "", []),
        ([TWELVE, PLUS, TWELVE], "12 + 12", [2, 5, 7]),
        ([TWELVE, POUND_A, POUND_B, TWELVE], "12£12", [2, 3, 3, 5]),
        ([FIVE_POUND_A, POUND_B], "5£", [2, 2]),
        ([MINUS_A, PADDING, MINUS_B, TWELVE], "\u221212", [1, 1, 1, 3]),
        ([POUND_A, TWELVE], "\ufffd12", [1, 3]),
        ([TWELVE, MINUS_A], "12\ufffd", [2, 3]),
        ([MINUS_A, POUND_A, POUND_B], "\ufffd£", [1, 2, 2]),
        ([POUND_B, MINUS_B, TWELVE], "\ufffd\ufffd12", [1, 2, 4]),
        ([POUND_A, START, POUND_B], f"\ufffd{CONTROL}\ufffd", [1, 2, 3]),
        ([POUND_A, UNSEEN, POUND_B], f"\ufffd{UNKNOWN}\ufffd", [1, 2, 3]),
        ([START, USER, USER], f"{CONTROL}{CONTROL}user", [1, 2, 6]),
        ([POUND_A, START, USER, POUND_B], f"\ufffd{CONTROL}{CONTROL}\ufffd", [1, 2, 3, 4]),
        ([USER, START, TWELVE], f"user{CONTROL}12", [4, 5, 7]),
        ([START, START, USER, TWELVE], f"{CONTROL * 3}12", [1, 2, 3, 5]),
        ([UNK, UNUSED, EMBEDDED, UNSEEN, 10**12, -(10**12), len(TOKENS)], UNKNOWN * 7, [1, 2, 3, 4, 5, 6, 7]),
        ([PADDING, PADDING, TWELVE, PADDING], "12", [0, 0, 2, 2]),
    ],
)
def test_ids_are_characters_and_each_token_has_its_end(vocabulary, ids, text, ends):
    assert vocabulary.spell(ids) == (text, ends)


def test_no_text_can_be_mistaken_for_a_control_token():
    forged = [CONTROL.encode(), UNKNOWN.encode()[:1], UNKNOWN.encode()[1:], f"a{UNKNOWN}".encode()]
    assert Vocabulary(forged).spell([0, 1, 2, 3]).text == "\ufffd\ufffda\ufffd"


def test_an_id_outside_the_vocabulary_is_refused():
    for name in ("control", "unknown", "header"):
        with pytest.raises(ValueError, match=rf"`{name}` has token 11, but the tokens are 0\.\.10\. Create it again"):
            Vocabulary(TOKENS, **{name: (11,)})


def test_a_saved_vocabulary_is_the_same(vocabulary):
    loaded = Vocabulary.from_bytes(vocabulary.to_bytes())
    assert loaded == vocabulary
    assert hash(loaded) == hash(vocabulary)
    assert loaded.spell([START, USER, POUND_A, POUND_B, UNK]) == vocabulary.spell([START, USER, POUND_A, POUND_B, UNK])
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary
    assert copy.deepcopy(vocabulary) is vocabulary
    for other in (TOKENS[:-1], (*TOKENS[:-1], b"x")):
        assert Vocabulary(other, [START], [UNK], (START, USER)) != vocabulary


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
        lambda data: data + b"x",
        lambda data: zlib.compress(b"[" * 100_000),
        lambda data: zlib.compress(b'{"tokens": [5]}'),
        lambda data: zlib.compress(b'{"tokens": ["a"], "control": [0.0]}'),
        lambda data: zlib.compress(b'{"tokens": ["a"], "header": "a"}'),
        lambda data: zlib.compress(b'{"tokens": ["a"], "control": [7]}'),
        lambda data: zlib.compress(b'{"tokens": ["a"], "colour": [0]}'),
        lambda data: zlib.compress(b" " * (1 << 27)),
        lambda data: Vocabulary([b"7" * ((1 << 16) + 1)]).to_bytes(),
    ],
)
def test_damaged_bytes_are_refused_with_the_cure(vocabulary, damage):
    with pytest.raises(ValueError, match=r"vocabulary is damaged \(.*Create it again: `Vocabulary.from_tokenizer"):
        Vocabulary.from_bytes(damage(vocabulary.to_bytes()))


TEXTS = ["What is £85 plus £79?", "12 × 34 − 5 = ２５ € ½ ٣ 日本 🤖 =\n", "=MINUS(6868,27)", "  a  b\t\r\n1,234.50%"]


def test_the_tokens_of_a_text_spell_it_and_the_role_of_a_users_message_is_no_word_of_it(tokenizer):
    known, without = Vocabulary.from_tokenizer(tokenizer), []
    for text in TEXTS:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
            without.append(text)
            continue
        spelled = known.spell(ids)
        assert spelled.text == text
        assert spelled.ends[-1] == len(text)
    assert len(without) < len(TEXTS)
    if not tokenizer.chat_template:
        return
    chat = [{"role": "user", "content": "What is 5 + 3?"}]
    ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    text = known.spell(ids).text
    before, after = text.split("What is 5 + 3?")
    assert before.rstrip()[-1] == CONTROL
    assert after.lstrip()[0] == CONTROL


def test_a_template_that_fails_leaves_no_header(monkeypatch):
    tokenizer = tiny_base()[1]
    for error in (KeyError("name"), AttributeError("x"), RuntimeError("strict"), ZeroDivisionError()):
        monkeypatch.setattr(tokenizer, "apply_chat_template", Mock(side_effect=error))
        assert Vocabulary.from_tokenizer(tokenizer).header == ()


def test_a_vocabulary_is_small_and_a_text_of_4096_tokens_is_spelled_in_time(tokenizer):
    known = Vocabulary.from_tokenizer(tokenizer)
    assert len(known.to_bytes()) < 5 * len(known)
    draw = random.Random(0)
    ids = [draw.randrange(len(known)) for _ in range(4096)]
    times = []
    for _ in range(20):
        start = time.perf_counter()
        known.spell(ids)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.01
