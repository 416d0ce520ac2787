"""Exact match while training: a sample of an eval set, answered by greedy generation and compared whole.

In: a dataset whose rows have `prompt` and `completion`, or `messages`, as text. Out: `Question`s (a prompt's tokens
and the right answer), and how many of them a model answers right. The prompt is all that the model is given; operand
columns are not even looked at. A row's last answer is the one that is asked for. Rows without one, and those too long,
are counted by reason. When to measure, and to whom to tell, is the trainer's business.
Try it: `pytest tests/test_exact_match.py`
"""

from __future__ import annotations

import itertools
import json
import logging
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from .decoding import end_tokens
from .evaluation import answer_tokens, decode_answer, longest_text


__all__ = ["ExactMatch", "Question"]

logger = logging.getLogger(__name__)

_SHARED = (
    "`igc_exact_match` generates on each process by itself, but {what} spreads one model over several. Set it to 0 "
    "and run `peft-igc eval` on a checkpoint, or train with data parallelism (DDP)."
)


class Question(NamedTuple):
    """What is asked, and the right answer.

    Args:
        prompt: Token ids up to where the answer begins.
        answer: The right answer's text without white space at both ends.
    """

    prompt: list[int]
    answer: str


class ExactMatch:
    """Asks a model the same questions at every evaluation.

    Args:
        tokenizer: The model's.
        rows: How many rows of a dataset are drawn.
        max_new_tokens: The longest answer, its end token included.
        batch_size: Questions per call of `generate`.
        seed: Of the draw.
        chat_template: In the place of the tokenizer's, or None.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        rows: int,
        max_new_tokens: int,
        batch_size: int,
        seed: int = 0,
        chat_template: str | None = None,
    ) -> None:
        self.tokenizer, self.rows, self.max_new_tokens = tokenizer, rows, max_new_tokens
        self.batch_size, self.seed, self.chat_template = batch_size, seed, chat_template
        self._drawn: dict[str, tuple[Any, list[Question], int]] = {}

    @classmethod
    def of_trainer(cls, trainer: Any, tokenizer: Any) -> ExactMatch | None:
        """The one that a trainer's arguments ask for; None if they do not. Its eval sets are looked through at once.

        Raises:
            ValueError: The model is spread over processes; as in `draw`.
        """
        rows = getattr(trainer.args, "igc_exact_match", 0)
        if not rows:
            return None
        parallelism = trainer.accelerator.parallelism_config
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise ValueError(_SHARED.format(what="FSDP" if trainer.is_fsdp_enabled else "DeepSpeed"))
        if parallelism is not None and parallelism.non_data_parallel_size > 1:
            raise ValueError(_SHARED.format(what="`parallelism_config`"))
        made = cls(
            tokenizer,
            rows=rows,
            max_new_tokens=trainer.args.igc_exact_match_tokens,
            batch_size=trainer.args.per_device_eval_batch_size,
            seed=trainer.args.seed,
            chat_template=trainer.chat_template,
        )
        sets = trainer.eval_dataset if isinstance(trainer.eval_dataset, dict) else {"": trainer.eval_dataset}
        for name, dataset in sets.items():
            if dataset is None:
                logger.warning("`igc_exact_match` is set, but there is no `eval_dataset` to draw rows from.")
            else:
                made.draw(trainer.model, dataset, name)
        return made

    def draw(self, model: Any, dataset: Any, name: str = "") -> tuple[list[Question], int]:
        """The questions of a dataset, and the number of drawn rows that make none.

        Args:
            model: Knows the end tokens and the longest text.
            dataset: A `datasets.Dataset`, or an iterable of rows, of which the first are taken.
            name: Of the dataset, or "" if it is the only one.

        Raises:
            ValueError: No row makes a question, or nothing would end an answer.
        """
        if name in self._drawn and self._drawn[name][0] is dataset:
            return self._drawn[name][1:]
        if not end_tokens(model, self.tokenizer):
            raise ValueError(
                "`igc_exact_match` compares whole answers, but neither the model's `generation_config.eos_token_id` "
                "nor the tokenizer's `eos_token` says where one ends. Set one of them."
            )
        made = [self._question(model, row) for row in self._sample(dataset)]
        questions = [one for one in made if isinstance(one, Question)]
        skipped = Counter(one for one in made if isinstance(one, str))
        title = f"the eval set {name!r}" if name else "the eval set"
        told = f"{len(made) - len(questions)} of {len(made)} rows drawn from {title} cannot be answered: " + ", ".join(
            f"{reason} ({count})" for reason, count in skipped.items()
        )
        if not questions:
            raise ValueError(
                f"`igc_exact_match={self.rows}`: {told or 'there are none'}. Give rows with `prompt` and "
                "`completion`, or `messages` that end in an answer, raise `igc_exact_match_tokens`, or set "
                "`igc_exact_match=0`."
            )
        if skipped:
            logger.warning(f"`igc_exact_match`: {told}.")
        self._drawn[name] = (dataset, questions, len(made) - len(questions))
        return self._drawn[name][1:]

    def _sample(self, dataset: Any) -> list[Mapping[str, Any]]:
        """Rows drawn with the seed; the first of a stream, whose length nobody knows."""
        if not hasattr(dataset, "select"):
            return list(itertools.islice(iter(dataset), self.rows))
        count = min(self.rows, len(dataset))
        return list(dataset.select(sorted(random.Random(self.seed).sample(range(len(dataset)), count))))

    def _question(self, model: Any, row: Mapping[str, Any]) -> Question | str:
        """The row's question, or why it has none."""
        tokens = self._tokens(row)
        if tokens is None:
            return "no prompt with an answer behind it"
        prompt, answer = tokens
        ends = end_tokens(model, self.tokenizer)
        text, _ = decode_answer(self.tokenizer, answer, ends)
        length = next((index for index, token in enumerate(answer) if token in ends), len(answer)) + 1
        if length > self.max_new_tokens:
            return f"an answer longer than `igc_exact_match_tokens={self.max_new_tokens}`"
        limit = longest_text(model)
        if limit is not None and len(prompt) + self.max_new_tokens > limit:
            return f"longer than the model's {limit} positions"
        return Question(prompt, text.strip())

    def _tokens(self, row: Mapping[str, Any]) -> tuple[list[int], list[int]] | None:
        """Tokens of the prompt and of the last answer, as TRL tokenizes them for training."""
        prompt, answer = row.get("prompt"), row.get("completion")
        if prompt is None and answer is None and row.get("messages"):
            prompt, answer = row["messages"][:-1], row["messages"][-1:]
        if isinstance(prompt, str) and isinstance(answer, str):
            ids = self.tokenizer(text=prompt)["input_ids"]
            return _split(ids, self.tokenizer(text=prompt + answer)["input_ids"], self._plain(answer))
        if not (isinstance(prompt, list) and isinstance(answer, list) and answer):
            return None
        last, prompt = answer[-1], [*prompt, *answer[:-1]]
        if not prompt or last.get("role") != "assistant" or not isinstance(last.get("content"), str):
            return None
        tools = row.get("tools")
        options = {
            "tools": json.loads(tools) if isinstance(tools, str) else tools,
            "chat_template": self.chat_template,
            **(row.get("chat_template_kwargs") or {}),
        }
        apply = self.tokenizer.apply_chat_template
        ids = apply(prompt, tokenize=True, return_dict=True, add_generation_prompt=True, **options)["input_ids"]
        whole = apply([*prompt, last], tokenize=True, return_dict=True, **options)["input_ids"]
        return _split(ids, whole, self._plain(last["content"]))

    def _plain(self, answer: str) -> list[int]:
        """An answer's tokens by itself."""
        tokens: list[int] = self.tokenizer(text=answer, add_special_tokens=False)["input_ids"]
        return tokens

    def counts(self, model: Any, questions: list[Question], share: int = 0, shares: int = 1) -> tuple[int, int]:
        """(right answers, answers that had not ended at `max_new_tokens`) among every `shares`-th question.

        The model is put into eval mode and back. An answer without an end is wrong however it begins.
        """
        mine = questions[share::shares]
        prompts = [question.prompt for question in mine]
        answers = answer_tokens(model, self.tokenizer, prompts, self.batch_size, self.max_new_tokens)
        right = [
            not cut and text.strip() == question.answer for question, (text, cut, _) in zip(mine, answers, strict=True)
        ]
        return sum(right), sum(cut for _, cut, _ in answers)


def _split(prompt: list[int], whole: list[int], answer: list[int]) -> tuple[list[int], list[int]] | None:
    """Prompt and answer; the answer as it stands in the whole text, unless that begins otherwise than the prompt."""
    if not prompt:
        return None
    is_prefix = whole[: len(prompt)] == prompt
    return prompt, whole[len(prompt) :] if is_prefix else answer
