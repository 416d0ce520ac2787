"""The golden file: what texts mean, or why they are refused. It is the specification of `peft_igc.text`.

A line has a text and its `value` in canonical form, or `refused` with the id of the reason; `limits` are those that
differ from the default. A text that is answered wrongly becomes a line; a change of a meaning is a change of a line.

* `culprit`: the characters that caused a refusal; `reaches`, `alone`, `alike`: what else is known of a value.
* `operation`: the text is a request in words, and the network has read this operation on its first and last number,
  or on all of its numbers for a function; `swapped`, `negated`: in another order, with the signs of words.
* `numbers`, `integers`: those that are found, and `?` for each thing that is not understood.
* `claims`: the verdicts of `check`, in order.
* `sentences`: how many numbers each sentence with numbers has, in the tokens of the embedded base.
"""

import functools
import json
import re
from collections import Counter
from pathlib import Path

from peft_igc import tiny_base
from peft_igc.mappings.places import places_of
from peft_igc.numbers.tokenizer_profile import TokenizerProfile
from peft_igc.text import Limits, Value, Verdict, check, read
from peft_igc.text.literals import integers, numbers_of
from peft_igc.text.pieces import split
from peft_igc.text.requests import answer


LINES = [json.loads(line) for line in Path(__file__).with_name("golden.jsonl").read_text("utf-8").splitlines()]
FOUND = {"value", "refused", "culprit", "reaches", "alone", "alike", "numbers", "integers", "claims", "sentences"}


def requested(line, limits):
    """What the request of a line is worth, given what the network reads."""
    spans = [match.span() for match in re.finditer(r"[0-9][0-9,.]*[0-9]|[0-9]", line["text"])]
    spans = [spans[0], spans[-1]] if line["operation"] in "+-*/" else spans
    spans = spans[::-1] if line.get("swapped") else spans
    negated = tuple(line.get("negated", [False] * len(spans)))
    return answer(line["text"], line["operation"], spans, negated, limits).found


@functools.cache
def embedded():
    """The embedded base's tokenizer and what it means for numbers."""
    tokenizer = tiny_base()[1]
    return tokenizer, TokenizerProfile.from_tokenizer(tokenizer).table


def by_sentence(text):
    """The count of the numbers of each sentence that has some; `</s>` is a special token."""
    tokenizer, table = embedded()
    ids = tokenizer(text.replace("</s>", tokenizer.eos_token))["input_ids"]
    places = places_of(table, ids, 0, len(ids) - 1, len(ids))
    return [*Counter(places.sentence[at] for at in places.numbers).values()]


def verdict(claim):
    """A verdict with the right value, where there is one."""
    return f"untrue, {claim.value}" if claim.verdict is Verdict.UNTRUE else claim.verdict.value


def outcome(line):
    """What is read of a line's text, in the form of the file."""
    text, limits = line["text"], Limits(**line.get("limits", {}))
    if "numbers" in line:
        return {"numbers": ["?" if one.value is None else str(one.value) for one in numbers_of(split(f"{text}\n"))]}
    if "integers" in line:
        return {"integers": [digits or "?" for _, _, digits in integers(text)]}
    if "sentences" in line:
        return {"sentences": by_sentence(text)}
    if "claims" in line:
        return {"claims": [verdict(claim) for claim in check(text)]}
    found = requested(line, limits) if "operation" in line else read(text, limits)
    made = {"value": found.text} if isinstance(found, Value) else {"refused": found.id}
    made |= {name: getattr(found, name) for name in ("reaches", "alone", "alike") if name in line}
    return made | ({"culprit": text[slice(*found.culprit)]} if "culprit" in line else {})


def test_every_text_of_the_golden_file_has_its_value_or_its_reason():
    wrong = []
    for number, line in enumerate(LINES, 1):
        due, found = {key: line[key] for key in FOUND & line.keys()}, outcome(line)
        if found != due:
            wrong.append(f"line {number}: {line['text']!r} must be {due}, got {found}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(LINES)} lines:", *wrong[:40]])


def test_the_golden_file_has_all_its_lines_each_once():
    kinds, keys = ("value", "refused", "numbers", "integers", "claims", "sentences"), set()
    for line in LINES:
        (kind,) = (kind for kind in kinds if kind in line)
        asked = {name: value for name, value in line.items() if name not in FOUND}
        keys.add(json.dumps([asked, "value" if kind == "refused" else kind]))
    assert len(keys) == len(LINES)
