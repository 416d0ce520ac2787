"""Exact match during training: a sample of an eval set, answered by greedy generation and compared as a whole.

In: a dataset whose rows have `prompt` and `completion`, or `messages`, as text. Out: `Question`s (the tokens of a
prompt and the correct answer), and the number of those that a model answers correctly. The model is given nothing but
the prompt; operand columns are never read. Only the last answer of a row is used. Rows without an answer and rows that
are too long are counted by reason. The trainer decides when to measure, and logs the result.
Try it: `pytest tests/trainer/test_exact_match.py`
"""

from __future__ import annotations

import itertools
import json
import logging
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

from ..inference.decoding import end_tokens, longest_text
from ..inference.evaluation import answer_tokens, decode_answer, is_right


__all__ = ["ExactMatch", "Question"]

logger = logging.getLogger(__name__)

_SHARED = (
    "`igc_exact_match` generates on each process separately, but {what} shards the model across processes. Set it to "
    "0 and run `peft-igc eval` on a checkpoint, or train with data parallelism (DDP)."
)


class Question(NamedTuple):
    """A prompt and its correct answer.

    Args:
        prompt: Token ids before the answer.
        answer: Text of the correct answer, stripped.
    """

    prompt: list[int]
    answer: str


class ExactMatch:
    """Draws questions from datasets, and counts the ones that a model answers correctly.

    Args:
        tokenizer: The model's tokenizer.
        rows: Number of rows drawn from a dataset.
        max_new_tokens: Maximum length of an answer, including the end token.
        batch_size: Questions per call of `generate`.
        seed: Seed of the draw.
        chat_template: Used instead of the tokenizer's chat template, unless None.
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
        # (dataset, questions, skipped rows) by name: every evaluation asks the same questions.
        self._drawn: dict[str, tuple[Any, list[Question], int]] = {}

    @classmethod
    def of_trainer(cls, trainer: Any, tokenizer: Any) -> ExactMatch | None:
        """Makes the `ExactMatch` that `args.igc_exact_match` requests, or None.

        Draws the questions of all eval sets now, so that errors precede the training.

        Raises:
            ValueError: The model is sharded across processes; also as in `draw`.
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
        """Draws the questions of a dataset.

        Args:
            model: The model, for its end tokens and its maximum length.
            dataset: A `datasets.Dataset`, or an iterable of rows, of which the first ones are used.
            name: Name of the dataset, or "" if it is the only one.

        Returns:
            The questions, and the number of drawn rows without a question.

        Raises:
            ValueError: No row has a question, or there is no token that ends an answer.
        """
        # `evaluate` may be called with another dataset under the same name, or under none.
        if name in self._drawn and self._drawn[name][0] is dataset:
            return self._drawn[name][1:]
        if not end_tokens(model, self.tokenizer):
            raise ValueError(
                "`igc_exact_match` compares whole answers, but neither the model's `generation_config.eos_token_id` "
                "nor the tokenizer's `eos_token` marks the end of one. Set one of them."
            )
        made = [self._question(model, row) for row in self._sample(dataset)]
        questions = [one for one in made if isinstance(one, Question)]
        skipped = Counter(one for one in made if isinstance(one, str))
        title = f"the eval set {name!r}" if name else "the eval set"
        reasons = ", ".join(f"{reason} ({count})" for reason, count in skipped.items())
        counted = f"{len(made) - len(questions)} of {len(made)} rows drawn from {title} cannot be answered: {reasons}"
        if not questions:
            raise ValueError(
                f"`igc_exact_match={self.rows}`: {counted}. Use rows with `prompt` and `completion`, or with "
                "`messages` that end in an answer, raise `igc_exact_match_tokens`, or set `igc_exact_match=0`."
            )
        if skipped:
            logger.warning(f"`igc_exact_match`: {counted}.")
        self._drawn[name] = (dataset, questions, len(made) - len(questions))
        return self._drawn[name][1:]

    def _sample(self, dataset: Any) -> list[Mapping[str, Any]]:
        """Random rows in their order, or the first rows of a stream, whose length is not known."""
        if not hasattr(dataset, "select"):
            return list(itertools.islice(iter(dataset), self.rows))
        count = min(self.rows, len(dataset))
        return list(dataset.select(sorted(random.Random(self.seed).sample(range(len(dataset)), count))))

    def _question(self, model: Any, row: Mapping[str, Any]) -> Question | str:
        """The question of a row, or the reason why it has none."""
        texts = self._texts(row)  # operand columns are not looked at
        prompt = [] if texts is None else self._ids(texts[0], isinstance(row.get("prompt"), str))
        if texts is None or not prompt:
            return "no prompt followed by an answer"
        answer, ends = self._ids(texts[1], False), end_tokens(model, self.tokenizer)
        text, _ = decode_answer(self.tokenizer, answer, ends)
        # The end token counts: an answer that is cut before it is wrong.
        length = next((index for index, token in enumerate(answer) if token in ends), len(answer)) + 1
        if length > self.max_new_tokens:
            return f"an answer longer than `igc_exact_match_tokens={self.max_new_tokens}`"
        limit = longest_text(model)
        if limit is not None and len(prompt) + self.max_new_tokens > limit:
            return f"longer than the model's {limit} positions"
        return Question(prompt, text.strip())

    def _texts(self, row: Mapping[str, Any]) -> tuple[str, str] | None:
        """The texts of the prompt and of the last answer, rendered as TRL (1.16) does for training."""
        prompt, answer = row.get("prompt"), row.get("completion")
        if prompt is None and answer is None and row.get("messages"):
            prompt, answer = row["messages"][:-1], row["messages"][-1:]
        if isinstance(prompt, str) and isinstance(answer, str):
            return prompt, answer
        if not (isinstance(prompt, list) and isinstance(answer, list) and answer):
            return None
        last, prompt = answer[-1], [*prompt, *answer[:-1]]  # a completion may have several messages
        if not prompt or last.get("role") != "assistant" or not isinstance(last.get("content"), str):
            return None
        tools = row.get("tools")  # Arrow has no type for arbitrary schemas, so TRL also takes them as JSON
        options = {
            "tools": json.loads(tools) if isinstance(tools, str) else tools,
            "chat_template": self.chat_template,
            **(row.get("chat_template_kwargs") or {}),
        }
        before = self.tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True, **options)
        whole = self.tokenizer.apply_chat_template([*prompt, last], tokenize=False, **options)
        # A template may write text of its own after the header, which then is a part of the answer.
        return before, whole.removeprefix(before) if whole.startswith(before) else last["content"]

    def _ids(self, text: str, special: bool) -> list[int]:
        """The tokens of a text; a rendered one has its special tokens already."""
        tokens: list[int] = self.tokenizer(text=text, add_special_tokens=special)["input_ids"]
        return tokens

    def counts(self, model: Any, questions: list[Question], share: int = 0, shares: int = 1) -> tuple[int, int]:
        """Counts the correct answers of a model, which is in eval mode meanwhile.

        Args:
            model: The model.
            questions: Questions returned by `draw`.
            share: Index of the first question; with several processes, the rank.
            shares: Distance of the questions that are asked; with several processes, their number.

        Returns:
            The number of correct answers, and the number of answers that had not ended after `max_new_tokens`. These
            count as wrong.
        """
        mine = questions[share::shares]  # may be empty
        prompts = [question.prompt for question in mine]
        answers = answer_tokens(model, self.tokenizer, prompts, self.batch_size, self.max_new_tokens)
        right = sum(is_right(one, {"target": question.answer}) for question, one in zip(mine, answers, strict=True))
        return right, sum(one.cut for one in answers)

    def measure(self, trainer: Any, dataset: Any, name: str) -> dict[str, float]:
        """The metrics of a dataset, answered by all processes of a trainer; of a dict none, its sets come one by one.

        Each answers a part of the questions, so they generate different numbers of tokens. A sharded model would need
        all of them in step, which is why `of_trainer` refuses it.

        Args:
            trainer: The trainer.
            dataset: Of an evaluation; a name, or None for the trainer's own.
            name: Of the dataset, or "" if it is the only one.
        """
        dataset = trainer.eval_dataset if dataset is None else dataset
        dataset = trainer.eval_dataset[dataset] if isinstance(dataset, str) else dataset
        if dataset is None or isinstance(dataset, dict):
            return {}
        questions, skipped = self.draw(trainer.model, dataset, name)
        ranks = trainer.accelerator.process_index, trainer.accelerator.num_processes
        counts = torch.tensor(self.counts(trainer.model, questions, *ranks), dtype=torch.float32)
        right, cut = trainer.accelerator.gather(counts.to(trainer.args.device)[None]).sum(0).tolist()
        named = {"": right / len(questions), "_skipped": float(skipped), "_cut": cut}
        return {f"exact_match{end}": value for end, value in named.items()}
