"""Exact match during training: a sample of an eval set, answered by greedy generation and compared as a whole.

In: a dataset whose rows have `prompt` and `completion`, or `messages`, as text. Out: questions (the tokens of a prompt
and the correct answer), and the number of those that a model answers correctly. The model is given nothing but the
prompt; operand columns are never read. Only the last answer of a row is used.
"""

from __future__ import annotations

import itertools
import json
import logging
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from trl.data_utils import apply_chat_template

from ..inference.decoding import end_tokens, longest_text
from ..inference.evaluation import answer_tokens, decode_answer, is_right


logger = logging.getLogger(__name__)

Question = dict[str, Any]  # `prompt`: token ids before the answer; `target`: text of the correct answer, stripped


@dataclass
class ExactMatch:
    """Draws questions from datasets, and counts the ones that a model answers correctly."""

    tokenizer: Any
    rows: int  # drawn from a dataset
    max_new_tokens: int  # of an answer, including the end token
    batch_size: int
    seed: int = 0  # of the draw
    chat_template: str | None = None  # instead of the tokenizer's
    # (dataset, questions, skipped rows) by name: every evaluation asks the same questions.
    _drawn: dict[str, tuple[Any, list[Question], int]] = field(default_factory=dict)

    @classmethod
    def of_trainer(cls, trainer: Any, tokenizer: Any) -> ExactMatch | None:
        """The `ExactMatch` that `igc_exact_match` requests, or None. It has its questions, so errors come early."""
        rows = getattr(trainer.args, "igc_exact_match", 0)
        if not rows:
            return None
        args, parallelism = trainer.args, trainer.accelerator.parallelism_config
        shards = parallelism is not None and parallelism.non_data_parallel_size > 1
        if shards or trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise ValueError(
                "`igc_exact_match` generates on each process separately, but FSDP, DeepSpeed or `parallelism_config` "
                "shards the model across processes. Set it to 0 and run `peft-igc eval` on a checkpoint, or train "
                "with data parallelism (DDP)."
            )
        sizes = rows, args.igc_exact_match_tokens, args.per_device_eval_batch_size
        made = cls(tokenizer, *sizes, args.seed, trainer.chat_template)
        sets = trainer.eval_dataset if isinstance(trainer.eval_dataset, dict) else {"": trainer.eval_dataset}
        for name, dataset in sets.items():
            if dataset is None:
                logger.warning("`igc_exact_match` is set, but there is no `eval_dataset` to draw rows from.")
            else:
                made.draw(trainer.model, dataset, name)
        return made

    def draw(self, model: Any, dataset: Any, name: str = "") -> tuple[list[Question], int]:
        """The questions of a dataset, or of the first ones of other rows, and the number of rows without a question.

        The model has the end tokens and the maximum length. `name` is that of the dataset, or "" of a single one.

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
        if hasattr(dataset, "select"):  # random rows in their order
            count = min(self.rows, len(dataset))
            sample = dataset.select(sorted(random.Random(self.seed).sample(range(len(dataset)), count)))
        else:  # a stream, whose length is not known
            sample = itertools.islice(iter(dataset), self.rows)
        made = [self._question(model, row) for row in sample]
        questions = [one for one in made if not isinstance(one, str)]
        skipped = Counter(one for one in made if isinstance(one, str))
        title = f"the eval set {name!r}" if name else "the eval set"
        reasons = ", ".join(f"{reason} ({count})" for reason, count in skipped.items())
        counted = f"{skipped.total()} of {len(made)} rows drawn from {title} cannot be answered: {reasons}"
        if not questions:
            raise ValueError(
                f"`igc_exact_match={self.rows}`: {counted}. Use rows with `prompt` and `completion`, or with "
                "`messages` that end in an answer, raise `igc_exact_match_tokens`, or set `igc_exact_match=0`."
            )
        if skipped:
            logger.warning(f"`igc_exact_match`: {counted}.")
        self._drawn[name] = (dataset, questions, skipped.total())
        return self._drawn[name][1:]

    def _question(self, model: Any, row: Mapping[str, Any]) -> Question | str:
        """The question of a row, or the reason why it has none."""
        texts = self._texts(row)  # operand columns are not looked at
        special = isinstance(row.get("prompt"), str)  # a rendered text has its special tokens already
        if texts is None or not (prompt := self.tokenizer(text=texts[0], add_special_tokens=special)["input_ids"]):
            return "no prompt followed by an answer"
        answer = self.tokenizer(text=texts[1], add_special_tokens=False)["input_ids"]
        ends = end_tokens(model, self.tokenizer)
        # The end token counts: an answer that is cut before it is wrong.
        if next((index for index, token in enumerate(answer) if token in ends), len(answer)) >= self.max_new_tokens:
            return f"an answer longer than `igc_exact_match_tokens={self.max_new_tokens}`"
        limit = longest_text(model)
        if len(prompt) + self.max_new_tokens > limit:
            return f"longer than the model's {limit} positions"
        return {"prompt": prompt, "target": decode_answer(self.tokenizer, answer, ends)[0].strip()}

    def _texts(self, row: Mapping[str, Any]) -> tuple[str, str] | None:
        """The texts of the prompt and of the last answer, rendered as for training; None if there are none."""
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
        tools = json.loads(tools) if isinstance(tools, str) else tools
        options = {"chat_template": self.chat_template} | (row.get("chat_template_kwargs") or {})
        texts = apply_chat_template({"prompt": prompt, "completion": [last]}, self.tokenizer, tools, **options)
        return texts["prompt"], texts["completion"]

    def counts(self, model: Any, questions: list[Question]) -> tuple[int, int]:
        """The numbers of correct answers, and of those without an end after `max_new_tokens`, which are wrong."""
        prompts = [question["prompt"] for question in questions]
        answers = answer_tokens(model, self.tokenizer, prompts, self.batch_size, self.max_new_tokens)
        right = sum(is_right(answer, question) for question, answer in zip(questions, answers, strict=True))
        return right, sum(answer.cut for answer in answers)

    def measure(self, trainer: Any, dataset: Any, name: str) -> dict[str, float]:
        """The metrics of a dataset of an evaluation, named unless it is the only one; of a dict none, because its sets
        come one by one.

        Each process answers a part of the questions, so they generate different numbers of tokens. A sharded model
        would need all of them in step, which is why `of_trainer` refuses it.
        """
        dataset = trainer.eval_dataset if dataset is None else dataset
        dataset = trainer.eval_dataset[dataset] if isinstance(dataset, str) else dataset
        if dataset is None or isinstance(dataset, dict):
            return {}
        questions, skipped = self.draw(trainer.model, dataset, name)
        mine = questions[trainer.accelerator.process_index :: trainer.accelerator.num_processes]  # may be empty
        counts = torch.tensor(self.counts(trainer.model, mine), dtype=torch.float32)
        right, cut = trainer.accelerator.gather(counts.to(trainer.args.device)[None]).sum(0).tolist()
        named = {"": right / len(questions), "_skipped": float(skipped), "_cut": cut}
        return {f"exact_match{end}": value for end, value in named.items()}
