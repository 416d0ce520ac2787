"""Promises of `pages`: one safe file for every screen, whose size grows with the text alone."""

import base64
import hashlib
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from traced import PROMPTS, generate, make

from peft_igc import igc_trace
from peft_igc.inference.audit import Audit, Finding
from peft_igc.inference.pages import ASSETS, trace_page
from peft_igc.inference.records import Answer, TextRecord, TokenRecord
from peft_igc.tuner.records import NumberRecord, StepRecord


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \" ' & </style> 5 + 6 ="
VOID = {"meta"}


class Page(HTMLParser):
    """Elements with their attributes, the text of each kind of element, and whether all are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], {}, []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in set(self.open) if "a" not in self.open else ():  # without the numbers of steps between tokens
            self.texts[tag] = self.texts.get(tag, "") + data

    def all(self, tag, name=None):
        return [found for kind, found in self.elements if kind == tag and (name is None or name in found)]


@pytest.fixture(scope="module")
def recorded():
    model, tokenizer = make()
    with igc_trace(model, tokenizer, base=True) as trace:
        generate(model, tokenizer, [*PROMPTS, EVIL])
    return trace


def test_all_text_is_escaped(recorded, tmp_path):
    recorded.save_html(tmp_path / "page.html", title=EVIL)
    shown = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert {tag for tag, _ in shown.elements}.isdisjoint({"img", "iframe", "link", "object", "base"})
    assert len(shown.all("script")) == len(shown.all("style")) == 1
    assert not [name for _, found in shown.elements for name in found if name.startswith("on") or name == "style"]
    assert EVIL in shown.texts["h1"]
    for text in recorded.texts:
        assert "".join(token.text for token in text.tokens) in shown.texts["main"]
    assert EVIL in shown.texts["span"]
    page = trace_page([TextRecord(0, (TokenRecord("\x00\x1b[31m\ud800", 0.5, 0.1, 0, 7),), ())])
    assert not [char for char in page if char < " " and char != "\n"]


def test_the_page_is_for_every_screen_and_its_policy_allows_its_own_content_and_no_network(recorded):
    text = trace_page(recorded.texts)
    shown = Page(text)
    (policy,) = (meta["content"] for meta in shown.all("meta", "http-equiv"))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.keys() == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag in ("style", "script"):
        digest = hashlib.sha256(shown.texts[tag].encode()).digest()
        assert rules[f"{tag}-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"
    assert text.index("Content-Security-Policy") < text.index("<style>")
    own = "".join((ASSETS / name).read_text() for name in ("style.css", "script.js"))
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp|innerHTML|eval", own)
    assert not [found for _, found in shown.elements if {"src", "srcset", "data"} & found.keys()]
    assert all(found["href"].startswith("#") for found in shown.all("a"))
    assert [meta for meta in shown.all("meta", "name") if meta["content"] == "width=device-width, initial-scale=1"]
    assert all(part in shown.texts["style"] for part in ("prefers-color-scheme: dark", "overflow-wrap: anywhere"))


def test_every_step_can_be_chosen_and_lights_what_it_read(recorded):
    shown = Page(trace_page(recorded.texts))
    names = [found["id"] for found in shown.all("details")]
    assert len(names) == len(set(names)) == sum(len(text.steps) for text in recorded.texts)
    assert [found["href"][1:] for found in shown.all("a") if found["href"] != "#t0"] == names
    marked = {name for found in shown.all("span", "data-steps") for name in found["data-steps"].split()}
    assert marked == {
        f"s{number}-{i}"
        for number, text in enumerate(recorded.texts)
        for i, step in enumerate(text.steps)  # of those that have read something, or were silenced by it
        if step.spans or step.expression_span is not None or step.culprit_position is not None
    }
    for part in ("12 - 5 = 7", "numeric and not understood (at ' sin')"):
        assert part in shown.texts["details"]


def test_a_tokens_colour_and_numbers_are_those_of_its_gate():
    tokens = [
        TokenRecord("a", None, generated=False),
        TokenRecord("7", 0.7, 0.25, 1, 5, base="8", base_probability=0.5),
        TokenRecord("b", None, None, 2, 6),
    ]
    shown = Page(trace_page([TextRecord(0, tuple(tokens), ())])).all("span")
    (new,) = (found for found in shown if "g7" in found["class"].split())
    facts = ("token 1 '7'", "gate 0.700", "size 0.25 of the hidden state", "without the calculator '8' (50.00%)")
    assert new["data-facts"] == "; ".join(facts)
    assert "nothing written" in [found for found in shown if "data-facts" in found][-1]["data-facts"]
    assert "step" not in shown[0]["class"]


def test_the_page_grows_with_the_text_and_not_faster():
    number, sizes = NumberRecord("12", 0.9, 0.9, "13", 0.1), []
    for steps in (50, 500):
        tokens = [TokenRecord(f"{i} ", 0.5, 0.1, i, i, base="1", base_probability=0.5) for i in range(10 * steps)]
        made = [
            StepRecord(at + 9, "ok", None, "24", "12 + 12", operands=(number, number), spans=((at, at + 1),) * 2)
            for at in range(0, 10 * steps, 10)
        ]
        sizes.append(len(trace_page([TextRecord(0, tuple(tokens), tuple(made))])))
    assert sizes[1] < 11 * sizes[0]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_script_is_understood():
    done = subprocess.run(["node", "--check", str(ASSETS / "script.js")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_of_an_audit_holds_everything_and_does_nothing():
    step = StepRecord(1, "none", reason="unsure", expression=EVIL, anchor=EVIL, before=EVIL, culprit=EVIL)
    item, answer = {"prompt": EVIL, "target": EVIL}, Answer(EVIL, True, (step,))
    report = {"n": 10, "exact_match": 0.7, "groups": {EVIL: {"n": 10, "exact_match": 0.7}}, "steps": {"ok": 10}}
    report |= {"wrong": 3, "causes": {"operand": 3}, "details": {"operand": {EVIL: 3}}}
    audited = Audit(report, [Finding(i, item, answer, "operand", EVIL) for i in range(3)])
    text = audited.page(EVIL)
    shown = Page(text)
    assert {tag for tag, _ in shown.elements}.isdisjoint({"img", "iframe", "link", "object", "base", "script", "form"})
    assert "default-src 'none'" in text
    assert "script-src 'none'" in text
    assert not [name for _, found in shown.elements for name in found if name.startswith("on") or name == "style"]
    assert not [found for _, found in shown.elements if {"src", "href", "srcset", "data"} & found.keys()]
    assert shown.texts["article"].count(EVIL) == 3 * (4 + 2)  # four fields; of a step its text and expression
    assert shown.texts["h1"] == EVIL
    for examples, more in [(0, "3 more are not shown"), (2, "1 more are not shown"), (3, "")]:
        text = audited.page(examples=examples)
        assert (text.count("<article>"), more in text) == (examples, True)
