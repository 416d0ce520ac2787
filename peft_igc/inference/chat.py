"""A conversation in a terminal: answers are streamed, and every step is shown in the margin.

In: lines (of a terminal, or of a pipe), a model with an IGC adapter, its tokenizer. Out: text. A line is a user
message or one of `COMMANDS`. The conversation is kept in memory and written nowhere, but for the page that `/trace`
writes. Answers are greedy, as in `evaluation`.

Try it: `peft-igc chat --base tiny --adapter demo-output/adapter`, `pytest tests/inference/test_chat.py`
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

import torch
from transformers.generation.streamers import BaseStreamer

from .decoding import chat_text, eval_mode, greedy, longest_text
from .records import NOWHERE, Pieces, StepRecord
from .terminal import harmless
from .tracing import Recording, igc_trace


__all__ = ["COMMANDS", "Chat", "Margin"]

COMMANDS = {
    "/trace": "write the last answer, with the conversation before it, as a page: /trace [FILE]",
    "/off": "answer the last message again with the base model alone",
    "/new": "begin a new conversation",
    "/help": "show the commands",
    "/quit": "end",
}
PAGE = "trace.html"  # where `/trace` writes without a name


class Margin:
    """Writes a growing text in a column, and notes next to the line in which they come up.

    Args:
        out: where to.
        width: columns of the text.
        notes: columns of the notes.
    """

    def __init__(self, out: TextIO, width: int = 58, notes: int = 40) -> None:
        self._out, self._width, self._notes = out, width, notes
        self._column = 0
        self._word = ""  # the word that is not finished, which may have to move to the next line
        self._waiting: list[str] = []
        self._faint = ("\x1b[2m", "\x1b[0m") if out.isatty() else ("", "")

    def write(self, text: str) -> None:
        """Adds text; words are not broken unless they are longer than a line."""
        for char in harmless(text):
            if char == "\n":
                self._end_word()
                self._end_line()
            elif char.isspace():
                self._end_word()
                self._put(" ") if self._column < self._width else self._end_line()
            else:
                self._word += char
                if _columns(self._word) >= self._width:
                    self._end_word()
        self._out.flush()

    def note(self, text: str) -> None:
        """Adds a note, which is shown at the end of the current line."""
        self._waiting += textwrap.wrap(harmless(text), self._notes) or [""]

    def close(self) -> None:
        """Ends the text, and shows the notes that are left."""
        self._end_word()
        self._end_line()
        while self._waiting:
            self._end_line()
        self._out.flush()

    def _put(self, text: str) -> None:
        """Writes text that fits."""
        self._out.write(text)
        self._column += _columns(text)

    def _end_word(self) -> None:
        """Writes the finished word, on the next line if it does not fit."""
        word, self._word = self._word, ""
        if word and self._column and self._column + _columns(word) > self._width:
            self._end_line()
        self._put(word)

    def _end_line(self) -> None:
        """Ends the line, with the first note that waits."""
        if self._waiting:
            space = " " * max(self._width - self._column, 0)
            self._out.write(f"{space}  {self._faint[0]}| {self._waiting.pop(0)}{self._faint[1]}")
        self._out.write("\n")
        self._column = 0


class Chat:
    """A conversation with a model.

    Args:
        model: a causal LM with an active IGC adapter, with PEFT around it.
        tokenizer: its tokenizer, with a chat template.
        out: where answers are written.
        max_new_tokens: maximum length of an answer.
        width, notes: columns of the answers and of the margin.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        out: TextIO,
        *,
        max_new_tokens: int = 256,
        width: int = 58,
        notes: int = 40,
    ) -> None:
        self._model, self._tokenizer, self._out = model, tokenizer, out
        self._max_new_tokens, self._columns = max_new_tokens, (width, notes)
        self._messages: list[dict[str, str]] = []
        self._last: Recording | None = None

    def run(self, lines: Iterable[str]) -> None:
        """Answers each line, up to `/quit` or the end of the lines.

        Raises:
            ValueError: as `igc_trace`, or if the tokenizer has no chat template.
        """
        for line in lines:
            text = line.strip()
            if not text:
                continue
            if not text.startswith("/"):
                self._answer(text)
                continue
            command, _, argument = text.partition(" ")
            if command == "/quit":
                return
            self._obey(command, argument.strip())

    def _obey(self, command: str, argument: str) -> None:
        """Runs one of `COMMANDS`."""
        if command == "/new":
            self._messages, self._last = [], None
            self._say("A new conversation.")
        elif command == "/help" or command not in COMMANDS:
            if command != "/help":
                self._say(f"`{command}` is no command.")
            for name, text in COMMANDS.items():
                self._say(f"{name:<8}{text}")
        elif self._last is None:
            self._say("There is no answer yet. Write a message first.")
        elif command == "/trace":
            self._write_page(self._last, Path(argument or PAGE))
        else:
            self._say("The base model alone:")
            with self._model.disable_adapter():
                self._generate(self._messages[:-1], None)

    def _write_page(self, recording: Recording, path: Path) -> None:
        """Writes the page of the last answer."""
        with eval_mode(self._model):
            recording.add_base()
        try:
            recording.save_html(path, "Conversation")
        except OSError as error:
            self._say(f"`{path}` cannot be written: {error.strerror}. Name another file.")
            return
        self._say(f"Written: `{path}`")

    def _answer(self, text: str) -> None:
        """Answers a user message. An interrupt ends the answer and takes the message back."""
        messages = [*self._messages, {"role": "user", "content": text}]
        steps: list[StepRecord] = []
        try:
            with igc_trace(self._model, self._tokenizer, on_step=steps.append) as recording:
                answer = self._generate(messages, steps)
        except KeyboardInterrupt:
            self._say("\n(interrupted)")
            return
        if answer is not None:
            self._messages, self._last = [*messages, {"role": "assistant", "content": answer}], recording

    def _generate(self, messages: list[dict[str, str]], steps: list[StepRecord] | None) -> str | None:
        """Streams the answer to a conversation and returns it; None if there is no room for one.

        Args:
            messages: the conversation, which ends with a user message.
            steps: grows while the model runs; None: no notes.
        """
        text = chat_text(self._tokenizer, messages)
        ids = self._tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"].to(self._model.device)
        limit = longest_text(self._model)
        room = self._max_new_tokens if limit is None else min(self._max_new_tokens, limit - ids.shape[1])
        if room < 1:
            self._say(f"The conversation is longer than the model's {limit} tokens. Begin a new one with /new.")
            return None
        margin = Margin(self._out, *self._columns)
        streamer = _Streamer(self._tokenizer, margin, steps, ids.shape[1])
        with torch.no_grad(), eval_mode(self._model):
            output = self._model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                generation_config=greedy(self._model, self._tokenizer, room),
                streamer=streamer,
            )
        return self._tokenizer.decode(output[0, ids.shape[1] :].tolist(), skip_special_tokens=True).strip()

    def _say(self, text: str) -> None:
        """Writes a line of the program's own."""
        self._out.write(text + "\n")
        self._out.flush()


class _Streamer(BaseStreamer):
    """Writes tokens as `generate` makes them, and the steps that have run meanwhile as notes.

    Args:
        tokenizer: decodes.
        margin: where to.
        steps: the steps so far; grows while the model runs. None: no notes.
        prompt: number of tokens of the prompt, which is passed first.
    """

    def __init__(self, tokenizer: Any, margin: Margin, steps: list[StepRecord] | None, prompt: int) -> None:
        self._pieces = Pieces(
            lambda ids: tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )
        self._margin, self._steps, self._prompt = margin, steps, prompt
        self._told: int | None = None  # steps that have been noted, or belong to earlier answers

    def put(self, value: torch.Tensor) -> None:
        """Takes the prompt [1, P], then each new token [1]."""
        if self._prompt:
            self._prompt = 0
            return
        if self._told is None:  # of the steps of the prompt, the last one governs the answer
            self._told = max(len(self._steps or ()) - 1, 0)
        self._tell()
        for token in value.flatten().tolist():
            self._margin.write(self._pieces.push(token))

    def end(self) -> None:
        """Ends the text."""
        self._tell()
        if self._steps is not None and not self._steps:
            self._margin.note(NOWHERE.summary)
        self._margin.write(self._pieces.rest())
        self._margin.close()

    def _tell(self) -> None:
        """Notes the steps that are new."""
        for step in (self._steps or [])[self._told :]:
            self._margin.note(step.summary)
        self._told = len(self._steps or ())


def _columns(text: str) -> int:
    """Columns of a terminal that a text takes: two for wide characters, none for those that combine."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(bool(unicodedata.combining(char)) for char in text)
