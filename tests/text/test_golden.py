"""The golden file: what texts mean, or why they are refused. It is the specification of `peft_igc.text`.

A line has a text and its `value` in canonical form, or `refused` with the id of the reason; `limits` are those that
differ from the default. A text that is answered wrongly becomes a line; a change of a meaning is a change of a line.
"""

import json
from pathlib import Path

from peft_igc.text import Limits, Value, read


LINES = [json.loads(line) for line in Path(__file__).with_name("golden.jsonl").read_text("utf-8").splitlines()]


def outcome(line):
    """What is read of a line's text, in the form of the file."""
    found = read(line["text"], Limits(**line.get("limits", {})))
    return {"value": found.text} if isinstance(found, Value) else {"refused": found.id}


def test_every_text_of_the_golden_file_has_its_value_or_its_reason():
    wrong = []
    for number, line in enumerate(LINES, 1):
        due = {key: line[key] for key in ("value", "refused") if key in line}
        if outcome(line) != due:
            wrong.append(f"line {number}: {line['text']!r} must be {due}, got {outcome(line)}")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(LINES)} lines:", *wrong[:40]])


def test_the_golden_file_has_all_its_lines_each_once():
    keys = [json.dumps([line["text"], line.get("limits")]) for line in LINES]
    assert len(keys) == len(set(keys))
    assert all(("value" in line) != ("refused" in line) for line in LINES)
