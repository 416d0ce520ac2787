"""Labels of requests in everyday words: with the right reading the rules give the labelled result, in all wordings."""

import random

import pytest
import torch

from peft_igc.data.wording.phrases import expand, pools
from peft_igc.mappings.readings import NEVER, Pointing
from peft_igc.mappings.requests import Context
from peft_igc.numbers.calculator import Status
from peft_igc.numbers.digits import canonical
from peft_igc.numbers.number_runs import find_runs
from peft_igc.tuner.steps import result_of_step
from tests.mappings.test_symbol_steps import answer, tools


WANTED = {"+": "175", "-": "105", "*": "4900", "/": "4"}  # of 140 and 35
PLAIN = {
    "+": ("add {a} and {b}", "{a} plus {b}"),
    "-": ("subtract {b} from {a}", "{a} minus {b}"),
    "*": ("multiply {a} by {b}", "{a} times {b}"),
    "/": ("divide {a} by {b}", "{a} divided by {b}"),
}


def some(line, n):
    """At most n templates of a line, always the same."""
    texts = list(dict.fromkeys(expand(line)))
    return random.Random(line).sample(texts, min(n, len(texts)))


def order(text):
    """Which of the numbers of a text is 140, and which is 35."""
    first = 0 if text.find("140") < text.find("35") else 1
    return first, 1 - first


def answers(texts, operator):
    """What becomes of texts whose reading points at 140 and 35, as in `test_symbol_steps.answer`, all in one batch."""
    tokenizer, config, reader = tools()
    rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    valid = torch.arange(longest) >= torch.tensor([[longest - len(row)] for row in rows])
    runs = find_runs(reader.tokens, ids, valid, config.num_digits + 1)
    scores = torch.full((len(rows), 1, 2, longest, 2), NEVER)
    for row, text in enumerate(texts):
        places = runs.number[row].nonzero().flatten().tolist()
        for slot, which in enumerate(order(text)):
            scores[row, 0, slot, places[which], 0] = 0
    logits = torch.full((len(rows), 1, len(config.operations) + 1), -10.0)
    logits[..., config.operations.index(operator)] = 10.0
    none, positions = torch.zeros(len(rows), 1, dtype=torch.bool), torch.arange(longest).expand(len(rows), 1, -1)
    excuses = torch.full((len(rows), 1, longest), -5.0)
    reading = Pointing(scores, logits, runs.digits[:, None], positions, none, excuses).cooled(config.temperature)
    since, anchors = valid.int().argmax(1, keepdim=True), torch.full((len(rows), 1), longest - 1)
    context = Context.of(ids, valid, anchors, since)
    _, _, result, _ = result_of_step(config, reader, context, reading, ~none, by_rule=True)
    ok = result.status[:, 0] == Status.OK
    values = iter(canonical(*(x[:, 0][ok] for x in (result.digits, result.sign, result.scale))))
    return [next(values) if of == Status.OK else Status(of).name for of in result.status[:, 0].tolist()]


def wrong(templates, operator):
    """Texts, and what becomes of them, unless that is their label."""
    texts = [template.format(a=140, b=35) for template in templates]
    found = zip(texts, answers(texts, operator), strict=True)
    return [(text, answered) for text, answered in found if answered != WANTED[operator]]


def test_texts_of_a_batch_are_answered_as_each_alone():
    texts = ["140 plus 35", "What is the sum of 35 and 140, please?", "What is 140 in 35 digits?", "Add 35 to my 140"]
    alone = [answer(text, order(text), "+", twice=False)[0] for text in texts]
    assert answers(texts, "+") == alone == ["175", "175", "NONE", "175"]


@pytest.mark.parametrize("operator", WANTED)
def test_requests_are_what_the_rules_find_too(operator):
    templates = []
    for form, lines in pools("everyday")["expressions"][operator].items():
        around = "please tell me what {} makes" if form in ("words", "nouns") else "{}"
        templates += [around.replace("{}", text) for line in lines for text in some(line, 6)]
    assert wrong(templates, operator) == []


@pytest.mark.parametrize("operator", WANTED)
def test_no_frame_changes_what_is_asked(operator):
    templates = []
    for form, frames in pools("everyday")["frames"].items():
        inner = PLAIN[operator][form != "verbs"]
        for text in (one for line in frames for one in some(line, 3)):
            templates.append(text.replace("{x}", inner).replace("{X}", inner.capitalize()))
    assert wrong(templates, operator) == []


@pytest.mark.parametrize("operator", WANTED)
def test_no_lead_and_no_tail_changes_what_is_asked(operator):
    inner, tails = PLAIN[operator][1], [*pools("casual")["tails"], *pools("casual")["asking tails"]]
    templates = [text + inner for line in pools("casual")["leads"] for text in some(line, 3)]
    templates += [inner + text for line in tails for text in some(line, 3)]
    assert wrong(templates, operator) == []


def test_no_text_asks_for_two_things():
    meant = {}
    for operator, forms in pools("everyday")["expressions"].items():
        for text in (one for lines in forms.values() for line in lines for one in expand(line)):
            order = ("{a}", "{b}") if text.find("{a}") < text.find("{b}") else ("{b}", "{a}")
            shape = text.lower().replace(order[0], "1").replace(order[1], "2")
            # the order of operands does not matter in sums and products
            meant.setdefault(shape, set()).add((operator, order if operator in "-/" else None))
    assert [shape for shape, things in meant.items() if len(things) > 1] == []
