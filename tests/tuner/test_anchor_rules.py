"""Anchors: every token that ends in a text and the assistant header are found, as loops over the tokens find them."""

import functools
import random
import re

import pytest
import torch
from real_tokenizers import GPT2, LLAMA, QWEN, saved

import peft_igc
from peft_igc import IGCConfig
from peft_igc.mappings.places import places_of
from peft_igc.text.vocabulary import PADDING, Vocabulary, special_tokens
from peft_igc.tuner.anchor_rules import assistant_header, text_rule
from peft_igc.tuner.anchors import (
    INLINE,
    Anchor,
    Rules,
    anchors_of_call,
    anchors_of_labels,
    anchors_of_row,
    context_starts,
    even,
    positions,
)
from peft_igc.tuner.anchors import TURN as BEGIN
from peft_igc.tuner.call import Call
from peft_igc.tuner.config_values import SINCE_LAST_ANCHOR
from tests.numbers.test_token_table import Characters, made, word_pieces
from tests.tuner.test_config import TURNS, make_tokenizer


NAMES = ["falcon", "irregular", "mistral", "gemma", "characters", "python", "embedded", LLAMA, QWEN, GPT2]


@functools.cache
def texts_of(tokenizer, size):
    """The texts of the `size` tokens of a tokenizer; seconds for one with 128,000."""
    return Vocabulary.from_tokenizer(tokenizer).texts


def anchors(tokenizer, rule, text):
    """How much of a text stands up to each anchor of a rule, by the definition: its last tokens are a sequence."""
    texts, ids = texts_of(tokenizer, len(tokenizer)), tokenizer(text, add_special_tokens=False)["input_ids"]
    found = []
    for end in range(1, len(ids) + 1):
        if any(ids[max(end - len(sequence), 0) : end] == sequence for sequence in rule.sequences):
            found.append("".join(texts[token] for token in ids[:end]).removeprefix(" "))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_token_with_the_text_ends_in_it_or_is_told_as_hidden(name):
    tokenizer = made(name)[0]
    texts, special = Vocabulary.from_tokenizer(tokenizer).texts, special_tokens(tokenizer)
    rule = text_rule(tokenizer, "=")
    single = {sequence[0] for sequence in rule.sequences if len(sequence) == 1}
    assert single
    assert len(rule.sequences) == len(set(map(tuple, rule.sequences)))
    for token, text in enumerate(texts):
        end = text.rpartition("=")[2]
        assert (token in single) == (
            "=" in text and re.fullmatch(" ?[-$€£]?", end) is not None and token not in special
        ), text
        assert (token in rule.hidden) == ("=" in text and token not in single and token not in special), text


@pytest.mark.parametrize("name", NAMES)
def test_a_text_of_calculations_has_an_anchor_behind_every_sign_of_equality(name):
    tokenizer = made(name)[0]
    rule, draw = text_rule(tokenizer, "="), random.Random(0)
    for _ in range(30):
        a, b, space = draw.randrange(1000), draw.randrange(100), draw.choice(["", " "])
        said = f"is {a}{space}+{space}{b}{space}={space}"
        shown = [found.rstrip() for found in anchors(tokenizer, rule, f"{said}{a + b} is {said}{a + b}")]
        assert shown == [said.rstrip(), f"{said}{a + b} is {said}".rstrip()]


def test_a_text_of_several_tokens_is_found_behind_anything():
    tokenizer = peft_igc.tiny_base()[1]
    rule = text_rule(tokenizer, "answer is")
    assert all(len(sequence) > 1 for sequence in rule.sequences)
    for text in ("answer is 5", "The answer is 5", "7 answer is", "(answer is"):
        assert anchors(tokenizer, rule, text) == [text.partition(" is")[0] + " is"]
    assert anchors(tokenizer, rule, "What is the answer?") == []
    assert rule.hidden == {}


@pytest.mark.parametrize("name", ["embedded", LLAMA, QWEN, GPT2])
def test_a_text_of_several_tokens_has_its_anchor_also_where_its_end_begins_the_result(name):
    tokenizer = made(name)[0]
    for rule in (text_rule(tokenizer, "so:="), text_rule(tokenizer, "total =")):
        for sign in ("", "-", " ", " -"):
            assert anchors(tokenizer, rule, f"x {rule.text}{sign}5")[:1] != [], (rule, sign)


def test_a_vocabulary_that_must_be_decoded_has_rules_too():
    tokenizer = word_pieces()
    spelled = {tokenizer.convert_ids_to_tokens(ids[-1]) for ids in text_rule(tokenizer, "=").sequences}
    assert spelled == {"=", "##="}


def test_special_tokens_are_no_text():
    tokenizer = Characters()
    plain = text_rule(tokenizer, "=")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<=", "<=>"]})
    assert text_rule(tokenizer, "=") == plain
    tokenizer.add_tokens(["<==", "<==>"])
    added = tokenizer.convert_tokens_to_ids(["<==", "<==>"])
    rule = text_rule(tokenizer, "=")
    assert rule.sequences == [*plain.sequences, [added[0]]]
    assert rule.hidden == {added[1]: "<==>"}


def test_a_text_that_is_empty_or_that_no_tokens_end_in_is_refused():
    for text in ("", " ", "\n", "#", "a#", "=#"):
        message = f"No tokens of `Characters` end in the anchor rule {text!r}. Use another text, or pass `anchors="
        message = message if text.strip() else f"The anchor rule {text!r} is empty. Pass a text that a result follows"
        with pytest.raises(ValueError, match=re.escape(message)):
            text_rule(made("python")[0], text)


def test_a_header_of_several_tokens_is_taken_whole():
    tokenizer = make_tokenizer(TURNS + "{% if add_generation_prompt %}<|assistant|>A: {% endif %}")
    assert assistant_header(tokenizer) == tokenizer.convert_tokens_to_ids(["<|assistant|>", "A", ":", " "])


@pytest.mark.parametrize("name", ["characters", GPT2])
def test_without_a_chat_template_the_message_names_both_ways_that_work(name):
    tokenizer = made(name)[0]
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="has no chat template") as caught:
        IGCConfig.from_tokenizer(tokenizer)
    lines = re.findall(r"`(IGCConfig\.from_tokenizer\(.*?\))`", str(caught.value))
    configs = [eval(line, {"IGCConfig": IGCConfig, "tokenizer": tokenizer}) for line in lines]
    assert ["prompt_end" in config.anchors for config in configs] == [True, False]
    assert configs[1].anchors["inline"]


def test_a_header_that_is_empty_or_merges_with_the_answer_is_refused():
    with pytest.raises(ValueError, match="adds nothing before an answer .*Pass `anchors="):
        assistant_header(make_tokenizer(TURNS))
    # ":7" is one token: the header's last token is another one before an answer than at the end of a prompt
    tokenizer = make_tokenizer(TURNS + "{% if add_generation_prompt %}A:{% endif %}", ":7")
    with pytest.raises(ValueError, match="assistant header 'A:' .* split into other tokens.*Pass `anchors="):
        assistant_header(tokenizer)


@pytest.mark.parametrize("name", [LLAMA, QWEN])
def test_real_chat_templates_end_with_the_header_whatever_is_asked(name):
    tokenizer = saved(name)
    header = assistant_header(tokenizer)
    assert tokenizer.decode(header).strip().endswith(("assistant<|end_header_id|>", "<|im_start|>assistant"))
    for question in ("58 * 36", "What is 58 times 36?\n", "12\n\n", ""):
        chat = [{"role": "user", "content": question}]
        prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        assert prompt[-len(header) :] == header
        answered = tokenizer.apply_chat_template([*chat, {"role": "assistant", "content": "2088"}], return_dict=False)
        found = [i for i in range(len(answered)) if answered[i : i + len(header)] == header]
        assert found == [len(prompt) - len(header)]


@pytest.mark.parametrize("name", ["embedded", LLAMA, QWEN])
def test_with_the_context_message_nothing_before_the_last_message_of_a_user_is_read(name):
    tokenizer = made(name)[0] if name == "embedded" else saved(name)
    config = IGCConfig.from_tokenizer(tokenizer, reading_context="message")
    said = {"system": "At most 9 digits.", "user": "1 + 2", "assistant": "3"}
    chat = [{"role": role, "content": text} for role, text in (*said.items(), ("user", "Add 5 and 12."))]
    for messages, numbers in ((chat, ["5", "12"]), (chat[3:], ["5", "12"]), (chat[:2], ["1", "2"])):
        ids = list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))
        anchor = anchors_of_labels(Rules.of(config), ids, [-100] * len(ids))[-1:]
        (since,) = context_starts("message", Rules.of(config), anchor, ids=ids)
        found = places_of(config.token_table, ids, since, anchor[0].at)
        assert [run.digits for run in found.numbers.values()] == numbers


def test_the_message_context_without_messages_of_users_is_refused():
    tokenizer = make_tokenizer("{{ messages[0].content }}{% if add_generation_prompt %}A: {% endif %}")
    with pytest.raises(ValueError, match='no beginning of a user\'s message .*Leave out `reading_context="message"`'):
        IGCConfig.from_tokenizer(tokenizer, reading_context="message")


TURN, SIGN, TEXT = 7, 8, 1
IDS = torch.tensor([[0, 0, 5, 6, 7, 8], [3, 4, 5, 6, 7, 8], [3, 4, 5, 6, 7, 8]])
VALID = IDS > 0


def rules(turns, inline=()):
    return Rules(False, list(turns), list(inline))


def test_sequences_are_found_as_a_loop_over_the_tokens_finds_them():
    draw = random.Random(0)
    for _ in range(200):
        shape = draw.randint(1, 3), draw.randint(1, 12)
        ids = torch.tensor([[draw.randrange(3) for _ in range(shape[1])] for _ in range(shape[0])])
        valid = torch.tensor([[draw.random() < 0.9 for _ in range(shape[1])] for _ in range(shape[0])])
        sequences = [[draw.randrange(3) for _ in range(draw.randint(1, 3))] for _ in range(draw.randint(0, 3))]
        new = draw.randint(1, shape[1])
        for row, real in zip(ids.tolist(), valid.tolist(), strict=True):
            shown = [token if there else PADDING for token, there in zip(row, real, strict=True)]
            ends = range(shape[1] - new + 1, shape[1] + 1)
            named = [end for end in ends if any(shown[max(end - len(one), 0) : end] == one for one in sequences)]
            for found, kind in ((rules(sequences), BEGIN), (rules(sequences, sequences), INLINE)):
                assert anchors_of_row(found, shown, 0, new, []) == [Anchor(at - ends[0], kind) for at in named]


def test_a_training_batch_has_the_anchors_of_its_forward_pass():
    labels = torch.tensor([[-100, -100, -100, 6, 7, 8], [-100, 4, 5, -100, -100, 8], [3, 4, 5, 6, 7, 8]])
    call = Call(torch.nn.Identity(), input_ids=IDS, labels=labels)
    for fields, wanted in (
        ({"prompt_end": True}, [[2, -1], [0, 4], [-1, -1]]),  # before each labelled span that something precedes
        ({"turns": [[5, 6]]}, [[3], [3], [3]]),
        ({"prompt_end": True, "inline": [[7], [0]]}, [[2, 4], [0, 4], [4, -1]]),
        ({"inline": [[4]]}, [[-1], [1], [1]]),
        ({"prompt_end": True, "turns": [[6]], "inline": [[7, 8]]}, [[2, 3, 5, -1], [0, 3, 4, 5], [3, 5, -1, -1]]),
        ({"inline": [[0]]}, [[-1], [-1], [-1]]),
    ):
        config, ids = Rules.of(IGCConfig(anchors=fields)), IDS.masked_fill(~VALID, PADDING)
        rows = [anchors_of_labels(config, *row) for row in zip(ids.tolist(), labels.tolist(), strict=True)]
        assert positions(even(rows)).tolist() == wanted
        assert anchors_of_call(call, config, ids, 0, IDS.shape[1]) == (even(rows) if any(rows) else None)


def test_contexts_are_found_as_a_loop_over_the_anchors_finds_them():
    draw, both = random.Random(0), rules([[TURN]], [[SIGN]])
    for _ in range(200):
        ids = [draw.choice([TURN, SIGN, TEXT, TEXT]) for _ in range(draw.randint(1, 14))]
        at = sorted(draw.sample(range(len(ids)), draw.randint(1, len(ids))))
        cut = draw.randrange(len(at))
        expected = []
        for anchor in at:
            kinds = (TURN, SIGN) if ids[anchor] == SIGN else (TURN,)
            earlier = [a for a in at if a < anchor and ids[a] in kinds]
            expected.append(earlier[-1] if earlier else 0)
        known = [Anchor(one, both.kind(ids, one + 1)) for one in at]
        for context, wanted in ((SINCE_LAST_ANCHOR, expected), ("row", [0] * len(at))):
            assert context_starts(context, both, known[cut:], known[:cut]) == wanted[cut:], (ids, at)
        draw.shuffle(known)  # as a caller may give them
        assert context_starts(SINCE_LAST_ANCHOR, both, known) == [expected[at.index(one)] for one, _ in known]
