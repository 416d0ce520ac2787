"""What a model writes for GSM8K's questions: the numbers of human solutions, final answers, solutions of its own.

In: a model, and rows with `question` and `answer`. Out: counts and shares with intervals, as `gsm8k_solutions`
describes them, and examples of mistakes. Truth is judged by `written_calculations`, which shares nothing with the
package's rules. Nothing is trained here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from benchmarks.accuracy.expressions import MARK, sites_of
from benchmarks.common.written_calculations import calculations, final_answer, first_number, interval
from peft_igc.inference.decoding import batches_of, end_tokens, eval_mode, greedy, left_padded, padding_token
from peft_igc.inference.evaluation import decode_answer
from peft_igc.numbers.calculator import Status
from peft_igc.tuner.call import observing
from peft_igc.tuner.steps import Step, Writing


NUMBER_TOKENS = 16  # enough for the number after an `=` in single digits
SHOWN = 20  # examples of each kind of mistake in the results
BEFORE_ANSWER = "####"
_STATUSES = [status.name.lower() for status in Status]


class Solution(NamedTuple):
    """A text that the model wrote."""

    text: str  # up to the end token
    cut: bool  # whether there is no end token
    statuses: dict[int, str]  # by the index of the anchor's last character in the text; -1: the end of the prompt


@torch.no_grad()
def written(model: Any, tokenizer: Any, prompts: Sequence[str], longest: int, batch_size: int) -> list[Solution]:
    """Greedy continuations of prompts that are texts, the longest prompts first."""
    rows = tokenizer(list(prompts), add_special_tokens=False)["input_ids"]
    found: dict[int, Solution] = {}
    with eval_mode(model):
        for chosen in batches_of(rows, batch_size, progress=True):
            made = _batch(model, tokenizer, [rows[index] for index in chosen], longest)
            found.update(zip(chosen, made, strict=True))
    return [found[index] for index in range(len(rows))]


def _batch(model: Any, tokenizer: Any, rows: list[list[int]], longest: int) -> list[Solution]:
    """The solutions of one left-padded batch."""
    batch, width = left_padded(rows, padding_token(model, tokenizer), model.device), max(map(len, rows))
    statuses: list[dict[int, str]] = [{} for _ in rows]  # by position

    def watch(seen: Step | Writing) -> None:
        if isinstance(seen, Step):
            for one, at, got in zip(statuses, seen.anchors.tolist(), seen.result.status.tolist(), strict=True):
                one |= {place: _STATUSES[status] for place, status in zip(at, got, strict=True) if place >= 0}

    with observing(watch):
        output = model.generate(**batch, generation_config=greedy(model, tokenizer, longest))
    ends = end_tokens(model, tokenizer)
    made = []
    for tokens, found in zip(output[:, width:].tolist(), statuses, strict=True):
        text, cut = decode_answer(tokenizer, tokens, ends)
        placed = {}
        for position, status in found.items():
            if position >= width:
                before, _ = decode_answer(tokenizer, tokens[: position - width + 1], ends)
                placed[len(before.rstrip()) - 1] = status
            elif position == width - 1:
                placed[-1] = status
        made.append(Solution(text, cut, placed))
    return made


def asked(tokenizer: Any, question: str) -> str:
    """The prompt of a question."""
    chat = [{"role": "user", "content": question}]
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


def given_solutions(model: Any, tokenizer: Any, held: list[dict[str, Any]], batch_size: int) -> dict[str, Any]:
    """The number that the model writes after each annotated `=` of the human solutions."""
    sites = [(row["question"], site) for row in held for site in sites_of(row["answer"])]
    known = [site for _, site in sites if site.text is not None]
    prompts = [asked(tokenizer, said) + site.text.lstrip() for said, site in sites if site.text is not None]
    counts: Counter[str] = Counter()
    examples: dict[str, list[dict[str, Any]]] = {"wrong_though_ok": [], "wrong": []}
    for site, made in zip(known, written(model, tokenizer, prompts, NUMBER_TOKENS, batch_size), strict=True):
        number, status = first_number(made.text), made.statuses.get(-1, "no step")
        right = number is not None and number in site.values
        counts[f"{status}, {'right' if right else 'wrong'}"] += 1
        if not right:
            kind = "wrong_though_ok" if status == "ok" else "wrong"
            text = {"text": str(site.text)[-120:], "annotation": site.written, "written": made.text, "status": status}
            examples[kind] += [text] * (len(examples[kind]) < SHOWN)
    n = len(known)
    right = sum(count for name, count in counts.items() if name.endswith("right"))
    ok = sum(count for name, count in counts.items() if name.startswith("ok,"))
    return {
        "n": n,
        "without_equals": len(sites) - n,
        "right": right / max(n, 1),
        "right_interval": interval(right, n),
        "wrong_though_ok": counts["ok, wrong"] / max(n, 1),
        "ok": ok / max(n, 1),
        "counts": dict(counts.most_common()),
        "examples": examples,
    }


def copied_answers(model: Any, tokenizer: Any, held: list[dict[str, Any]], batch_size: int) -> dict[str, Any]:
    """The number that the model writes for the final answer of the human solutions."""
    texts = [MARK.sub("", row["answer"]).partition(BEFORE_ANSWER)[0] + BEFORE_ANSWER for row in held]
    prompts = [asked(tokenizer, row["question"]) + text for row, text in zip(held, texts, strict=True)]
    made = written(model, tokenizer, prompts, NUMBER_TOKENS, batch_size)
    answers = [final_answer(row["answer"]) for row in held]
    wrong = [
        {"text": text[-80:], "answer": str(wanted), "written": solution.text}
        for wanted, text, solution in zip(answers, texts, made, strict=True)
        if first_number(solution.text) != wanted
    ]
    right = len(held) - len(wrong)
    found = {"n": len(held), "right": right / max(len(held), 1), "right_interval": interval(right, len(held))}
    return found | {"examples": {"wrong": wrong[:SHOWN]}}


def own_solutions(
    model: Any, tokenizer: Any, held: list[dict[str, Any]], batch_size: int, longest: int
) -> dict[str, Any]:
    """Solutions of the model's own: calculations, final answers."""
    made = written(model, tokenizer, [asked(tokenizer, row["question"]) for row in held], longest, batch_size)
    counts: Counter[str] = Counter()
    examples: dict[str, list[dict[str, Any]]] = {"untrue_though_ok": [], "untrue": [], "solutions": []}
    for row, solution in zip(held, made, strict=True):
        wanted = final_answer(row["answer"])
        found = [one for one in calculations(solution.text) if not _is_cut_off(solution, one.place)]
        counts["equals"] += len(found)
        counts["cut"] += solution.cut
        counts["right"] += final_answer(solution.text) == wanted
        counts["without_answer"] += final_answer(solution.text) is None
        for one in found:
            status = solution.statuses.get(one.place, "no step")
            told = "unreadable" if one.is_true is None else "true" if one.is_true else "untrue"
            counts[f"{status}, {told}"] += 1
            if told == "untrue":
                kind = "untrue_though_ok" if status == "ok" else "untrue"
                line = {"text": solution.text[max(one.place - 100, 0) : one.place + 20], "value": str(one.value)}
                examples[kind] += [line] * (len(examples[kind]) < SHOWN)
        line = {"question": row["question"], "solution": solution.text, "answer": str(wanted)}
        examples["solutions"] += [line] * (len(examples["solutions"]) < SHOWN)
    return _own_report(counts, len(held)) | {"examples": examples}


def _is_cut_off(solution: Solution, place: int) -> bool:
    """Whether the limit of tokens ended a solution within the number after this `=`: `= 1` of `= 146`."""
    return solution.cut and not re.search(r"[^\s\d.,$€£%-]", solution.text[place + 1 :])


def _own_report(counts: Counter[str], n: int) -> dict[str, Any]:
    """Shares and intervals of `own_solutions`."""

    def share(name: str, hits: int, of: int) -> dict[str, Any]:
        return {name: hits / max(of, 1), f"{name}_n": of, f"{name}_interval": interval(hits, of)}

    pairs = {k: v for k, v in counts.items() if ", " in k}

    def told(word: str, status: str = "") -> int:
        return sum(v for k, v in pairs.items() if k.endswith(f", {word}") and k.startswith(status))

    return {
        "n": n,
        **share("answers_right", counts["right"], n),
        **share("true", told("true"), told("true") + told("untrue")),
        **share("true_though_ok", told("true", "ok,"), told("true", "ok,") + told("untrue", "ok,")),
        "equals_per_solution": counts["equals"] / max(n, 1),
        "cut": counts["cut"],
        "without_answer": counts["without_answer"],
        "counts": dict(sorted(pairs.items())),
    }
