"""Labels of requests in everyday words: with the right reading the rules give the labelled result, in all wordings."""

import random

import pytest

from peft_igc.data.wording import casual, everyday
from peft_igc.data.wording.grammar import expand
from tests.mappings.test_symbol_steps import answer


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


def wrong(template, operator):
    """The text and what becomes of it, unless that is its label."""
    text = template.format(a=140, b=35)
    first = 0 if text.find("140") < text.find("35") else 1
    found = answer(text, operator=operator, operands=(first, 1 - first), twice=False)[0]
    return [] if found == WANTED[operator] else [(text, found)]


@pytest.mark.parametrize("operator", WANTED)
def test_requests_are_what_the_rules_find_too(operator):
    found = []
    for form, lines in everyday.EXPRESSIONS[operator].items():
        around = "please tell me what {} makes" if form in ("words", "nouns") else "{}"
        for text in (one for line in lines for one in some(line, 6)):
            found += wrong(around.replace("{}", text), operator)
    assert not found


@pytest.mark.parametrize("operator", WANTED)
def test_no_frame_changes_what_is_asked(operator):
    found = []
    for form, frames in everyday.FRAMES.items():
        inner = PLAIN[operator][form != "verbs"]
        for text in (one for line in frames for one in some(line, 3)):
            found += wrong(text.replace("{x}", inner).replace("{X}", inner.capitalize()), operator)
    assert not found


@pytest.mark.parametrize("operator", WANTED)
def test_no_lead_and_no_tail_changes_what_is_asked(operator):
    inner, found = PLAIN[operator][1], []
    for line in casual.LEADS:
        for text in some(line, 3):
            found += wrong(text + inner, operator)
    for line in (*casual.TAILS, *casual.ASKING_TAILS):
        for text in some(line, 3):
            found += wrong(inner + text, operator)
    assert not found


def test_no_text_asks_for_two_things():
    meant = {}
    for operator, forms in everyday.EXPRESSIONS.items():
        for text in (one for lines in forms.values() for line in lines for one in expand(line)):
            order = ("{a}", "{b}") if text.find("{a}") < text.find("{b}") else ("{b}", "{a}")
            shape = text.lower().replace(order[0], "1").replace(order[1], "2")
            # the order of operands does not matter in sums and products
            meant.setdefault(shape, set()).add((operator, order if operator in "-/" else None))
    assert [shape for shape, things in meant.items() if len(things) > 1] == []
