"""A conversation in a terminal: answers are streamed, and every step is shown under its line.

In: lines (of a terminal, or of a pipe), a model with an IGC adapter, its tokenizer. Out: text. A line is a user
message or one of `COMMANDS`. The conversation is kept in memory and written nowhere, but for the page that `/trace`
writes. Answers are greedy, as in `evaluation`.

Try it: `peft-igc chat --base tiny --adapter tiny`
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from transformers import TextStreamer

from ..tuner.records import StepRecord
from .decoding import eval_mode, greedy, left_padded, longest_text, prompt_tokens
from .records import NOWHERE, harmless
from .tracing import Recording, igc_trace


COMMANDS = {
    "/trace": "write the last answer, with the conversation before it, as a page: /trace [FILE]",
    "/off": "answer the last message again with the base model alone",
    "/new": "begin a new conversation",
    "/help": "show the commands",
    "/quit": "end",
}
PAGE = "trace.html"  # where `/trace` writes without a name


class Chat:
    """A conversation with a causal LM that has an active IGC adapter and PEFT around it; answers go to `out`."""

    def __init__(self, model: Any, tokenizer: Any, out: TextIO, *, max_new_tokens: int = 256) -> None:
        self._model, self._tokenizer, self._out = model, tokenizer, out
        self._max_new_tokens = max_new_tokens
        self._messages: list[dict[str, str]] = []
        self._last: Recording | None = None

    def run(self, lines: Iterable[str]) -> None:
        """Answers each line, up to `/quit` or the end of the lines.

        Raises:
            ValueError: as `igc_trace`, or if the tokenizer has no chat template.
        """
        for text in filter(None, map(str.strip, lines)):
            command, _, argument = text.partition(" ")
            if command == "/quit":
                return
            if text.startswith("/"):
                self._obey(command, argument.strip())
            else:
                self._answer(text)

    def _obey(self, command: str, argument: str) -> None:
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
            try:
                with self._model.disable_adapter():
                    self._generate(self._messages[:-1], None)
            except KeyboardInterrupt:
                self._say("\n(interrupted)")

    def _write_page(self, recording: Recording, path: Path) -> None:
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
        """Streams the answer to a conversation, with notes of `steps`; None if there is no room for one."""
        (ids,) = prompt_tokens(self._tokenizer, [messages], raw=False)
        limit = longest_text(self._model)
        room = min(self._max_new_tokens, limit - len(ids))
        if room < 1:
            self._say(f"The conversation is longer than the model's {limit} tokens. Begin a new one with /new.")
            return None
        with eval_mode(self._model):
            output = self._model.generate(
                **left_padded([ids], 0, self._model.device),
                generation_config=greedy(self._model, self._tokenizer, room),
                streamer=_Streamer(self._tokenizer, self._out, steps),
            )
        return self._tokenizer.decode(output[0, len(ids) :].tolist(), skip_special_tokens=True).strip()

    def _say(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


class _Streamer(TextStreamer):
    """Writes an answer word by word as `generate` makes it, and under a line the steps that have run meanwhile.

    `steps` grows while the model runs; without it there are no notes.
    """

    def __init__(self, tokenizer: Any, out: TextIO, steps: list[StepRecord] | None) -> None:
        super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        self._out, self._steps = out, steps
        self._noted: int | None = None  # steps that have been noted, or belong to earlier answers

    def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
        """Takes text that no later token changes, which may be empty; called for each new token."""
        if self._noted is None:
            self._noted = max(len(self._steps or ()) - 1, 0)  # of the steps of the prompt, the last governs the answer
        *lines, rest = (harmless(text) + "\n" * stream_end).split("\n")
        for line in lines:
            self._out.write(line + "\n")
            self._note(stream_end)
        self._out.write(rest)
        self._out.flush()

    def _note(self, at_end: bool) -> None:
        if self._steps is None:
            return
        nothing = [NOWHERE] if at_end and not self._steps else []
        for step in [*self._steps[self._noted :], *nothing]:
            note = f"  | {harmless(step.summary)}"
            self._out.write(f"\x1b[2m{note}\x1b[0m\n" if self._out.isatty() else f"{note}\n")
        self._noted = len(self._steps)
