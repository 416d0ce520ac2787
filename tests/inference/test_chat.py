"""Promises of `chat`: answers are streamed, steps are under their lines, commands do what they say."""

import io

import pytest
import torch
from checks import adapted, watching
from traced import make

from peft_igc import tiny_igc
from peft_igc.inference.chat import COMMANDS, Chat, _Streamer
from peft_igc.inference.evaluation import generate_answers
from peft_igc.tuner.records import StepRecord
from peft_igc.tuner.steps import Step, Writing


@pytest.fixture(scope="module")
def made():
    return make()


def said(made, *lines, **settings):
    """What a conversation shows, and its `Chat`."""
    out = io.StringIO()
    chat = Chat(*made, out, **{"max_new_tokens": 8, **settings})
    chat.run(lines)
    return out.getvalue(), chat


def test_the_answer_is_that_of_an_evaluation_and_its_step_is_under_it(made):
    for prompt, note in [
        ("3 + 4 * (12 - 5) =", "  | 3 + 4 * (12 - 5) = 31 (by rule)"),
        ("3 + sin(16) =", "  | silent on (16): numeric and not understood (at ' sin')"),
    ]:
        shown, _ = said(made, prompt)
        (answer,) = generate_answers(*made, [prompt], max_new_tokens=8)
        *lines, last = shown.splitlines()
        assert "\n".join(lines).strip() == answer.strip()
        assert last == note


def test_silence_is_shown_as_clearly_as_speech_and_a_text_without_an_anchor_too():
    shown, _ = said(tiny_igc(), "What is 58 times 36?", "What is 6 multiplied by 7 minus 2?", "What is 7 / 0?", "/off")
    notes = [line.split("| ")[1] for line in shown.splitlines() if "| " in line]
    assert notes[0].startswith("58 * 36 = 2088 (")
    assert notes[1] == "silent: no arithmetic is read"
    assert notes[2].startswith("silent on 7 / 0: a division by zero")
    assert len(notes) == 3  # the base alone has no calculator to be silent
    model = adapted("llama", interface="hidden", anchors={"turns": [[1, 1, 1]]}, overrides={"vocab_size": 3072})
    assert "silent: the text has no anchor" in said((model, make()[1]), "Hello", max_new_tokens=2)[0]


def test_what_steers_a_terminal_is_replaced():
    _, tokenizer = make()
    out, steps = io.StringIO(), []
    out.isatty = lambda: True
    streamer = _Streamer(tokenizer, out, steps)
    streamer.put(torch.tensor([[1]]))
    steps += [StepRecord(0, "none", reason="unsure", culprit="\x1b[31m")] * 2  # the first belongs to an earlier answer
    for token in tokenizer("one\ntwo \x1b[2Jthree")["input_ids"]:
        streamer.put(torch.tensor([token]))
    streamer.end()
    first, note, second = out.getvalue().splitlines()
    assert (first, second) == ("one", "two \ufffd[2Jthree")
    assert note.startswith("\x1b[2m  | silent: the reading is less probable")
    assert note.endswith("\x1b[0m")
    assert note.count("\x1b") == 2


def test_tokens_are_shown_as_they_are_made(made):
    class Out(io.StringIO):
        def flush(self):
            flushed.append(self.getvalue())

    flushed, out = [], Out()
    Chat(*made, out, max_new_tokens=40).run(["Hello"])
    assert len(set(flushed)) > 2
    assert all(later.startswith(earlier) for earlier, later in zip(flushed, flushed[1:], strict=False))


def test_the_conversation_goes_on_until_a_new_one(made):
    model, tokenizer = made
    _, chat = said(made, "Hello", "3 + 4 =")
    first, answer, second, _ = chat._messages
    assert (first["content"], answer["role"], second["content"]) == ("Hello", "assistant", "3 + 4 =")
    text = tokenizer.apply_chat_template(chat._messages[:-1], tokenize=False, add_generation_prompt=True)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    (recorded,) = chat._last.texts
    assert [token.id for token in recorded.tokens if not token.generated] == ids
    shown, chat = said(made, "Hello", "/new", "3 + 4 =")
    assert [message["content"] for message in chat._messages][0] == "3 + 4 ="
    assert "A new conversation." in shown


def test_off_is_the_base_alone(made):
    model, _ = made
    with watching() as seen:
        _, chat = said(made, "3 + 4 * 5 =")
    assert seen
    out = chat._out = io.StringIO()
    with watching(Step | Writing) as seen:
        chat.run(["/off"])
    assert seen == []
    with model.disable_adapter():
        (answer,) = generate_answers(*made, ["3 + 4 * 5 ="], max_new_tokens=8)
    assert out.getvalue().split() == ["The", "base", "model", "alone:", *answer.split()]
    assert len(chat._messages) == 2
    (layer,) = (module for module in model.modules() if hasattr(module, "igc_config"))
    assert not layer.disable_adapters


def test_trace_writes_the_page_of_the_conversation(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown, _ = said(made, "Hello", "3 + 4 * 5 =", "/trace", "/trace other page.html", "/trace none/page.html")
    assert {path.name for path in tmp_path.iterdir()} == {"trace.html", "other page.html"}
    page = (tmp_path / "trace.html").read_text(encoding="utf-8")
    assert "4 * 5 = 20" in page
    assert "Hello" in page
    assert "without the calculator" in page
    assert "Written: `trace.html`" in shown
    assert "`none/page.html` cannot be written: No such file" in shown


def test_commands_end_and_explain_and_a_conversation_that_is_too_long_names_the_cure(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown, chat = said(made, "/trace", "/off", "", "  ", "/nonsense", "/quit", "Hello")
    assert shown.count("There is no answer yet.") == 2
    assert "`/nonsense` is no command." in shown
    assert all(name in shown for name in COMMANDS)
    assert chat._messages == []
    assert list(tmp_path.iterdir()) == []
    shown, chat = said(made, "Hello", "word " * 3000, "Hello again")
    assert "Begin a new one with /new." in shown
    assert [message["content"] for message in chat._messages][::2] == ["Hello", "Hello again"]


def test_an_interrupt_ends_the_answer_and_not_the_conversation(made, monkeypatch):
    model, _ = made
    generate, calls = model.generate, []

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return generate(*args, **kwargs)

    monkeypatch.setattr(model, "generate", interrupted)
    shown, chat = said(made, "Hello", "3 + 4 =")
    assert "(interrupted)" in shown
    assert [message["content"] for message in chat._messages][0] == "3 + 4 ="
