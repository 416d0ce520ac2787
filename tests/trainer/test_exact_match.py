"""Exact match while training: what is asked, what counts as right, where the metric goes, what it leaves untouched."""

from collections import defaultdict

import pytest
import torch
from datasets import Dataset
from parrot import Parrot
from tiny_training import chat, igc_model, join_as, rows, tokenizer, trainer, weights

from peft_igc.data.dataset import to_dataset
from peft_igc.sft.launch import end
from peft_igc.trainer.exact_match import ExactMatch
from tests.trainer.test_trainer_invariants import SGD, _free_port


EVALUATED = {"eval_strategy": "steps", "eval_steps": 1, "igc_exact_match_tokens": 8}


def asked(**options):
    fields = {"rows": 8, "max_new_tokens": 8, "batch_size": 4}
    return ExactMatch(tokenizer(), **{**fields, **options})


def ids(text):
    return tokenizer()(text)["input_ids"]


def knowing(made, known):
    """A stand-in for the model of a trainer that knows the answers to some rows, and is wrong in all others."""
    answers = defaultdict(lambda: "?", {row["prompt"]: row["completion"] for row in known})
    return Parrot(made.model, tokenizer(), answers)


ROW = {"prompt": "1+2=", "completion": "3"}
TURNS = [*chat(ROW), *chat({"prompt": "4+5=", "completion": "9"})]


@pytest.mark.parametrize(
    ("row", "prompt", "answer"),
    [
        (ROW, "1+2=", "3"),
        ({"prompt": "1+2=", "completion": " 3 <eos>"}, "1+2=", "3"),  # as TRL prepares it
        ({"prompt": chat(ROW)[:1], "completion": chat(ROW)[1:]}, "<user>1+2=<eos><assistant>", "3"),
        ({"messages": TURNS}, "<user>1+2=<eos><assistant>3<eos><user>4+5=<eos><assistant>", "9"),
        (
            {"prompt": TURNS[:1], "completion": TURNS[1:]},
            "<user>1+2=<eos><assistant>3<eos><user>4+5=<eos><assistant>",
            "9",
        ),
    ],
)
def test_a_rows_last_answer_is_asked_for_and_its_prompt_is_all_that_stands_before(row, prompt, answer):
    questions, skipped = asked().draw(igc_model(), [row | {"igc_operator": "+", "igc_operands": ["1", "2"]}])
    assert questions == [{"prompt": ids(prompt), "target": answer}]
    assert skipped == 0


def test_the_sample_is_the_same_each_time_and_another_for_another_seed():
    data, model = to_dataset(rows(40)), igc_model()
    first = asked(rows=5).draw(model, data)[0]
    assert len(first) == 5
    assert first == asked(rows=5).draw(model, data)[0]
    assert first != asked(rows=5, seed=1).draw(model, data)[0]
    assert len(asked(rows=100).draw(model, data)[0]) == 40
    first_three = asked(rows=3).draw(model, data.to_iterable_dataset())[0]
    assert [one["target"] for one in first_three] == [row["completion"] for row in rows(3)]
    made = asked()
    assert made.draw(model, to_dataset(rows(4, 1)))[0] != made.draw(model, to_dataset(rows(4, 2)))[0]


def test_rows_that_cannot_be_answered_are_counted_by_reason(caplog):
    data = [
        ROW,
        {"prompt": None, "completion": None, "messages": None, "text": "plain"},
        {"messages": chat(ROW)[:1]},
        {"prompt": "", "completion": "3"},
        {"prompt": "1+2=", "completion": "12345678"},  # with its end a token too long
        {"prompt": "x" * 256, "completion": "3"},
    ]
    questions, skipped = asked().draw(igc_model(), data, "held-out")
    assert (len(questions), skipped) == (1, 5)
    assert "5 of 6 rows drawn from the eval set 'held-out' cannot be answered" in caplog.text
    assert "no prompt followed by an answer (3)" in caplog.text
    assert "an answer longer than `igc_exact_match_tokens=8` (1)" in caplog.text
    assert "longer than the model's 256 positions (1)" in caplog.text


def test_an_eval_set_without_any_answer_is_refused_before_training(tmp_path):
    plain = Dataset.from_list([{"text": "1+2=3"}] * 3)
    message = r"`igc_exact_match=4`: 3 of 3 rows drawn from the eval set 'b' cannot be answered: no prompt.*\(3\)"
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, eval_dataset={"a": to_dataset(rows(2)), "b": plain}, igc_exact_match=4)


def test_without_a_token_that_ends_an_answer_it_is_refused():
    made, model = asked(), igc_model()
    made.tokenizer.eos_token = None
    with pytest.raises(ValueError, match="nor the tokenizer's `eos_token` marks the end of one"):
        made.draw(model, [ROW])


@pytest.mark.parametrize("how", ["fsdp", "deepspeed"])
def test_a_model_in_pieces_is_refused(tmp_path, how):
    made = trainer(tmp_path, eval_dataset=to_dataset(rows(4)))
    made.args.igc_exact_match = 4
    setattr(made, f"is_{how}_enabled", True)
    with pytest.raises(ValueError, match="each process separately, but FSDP, DeepSpeed or .* shards the model across"):
        ExactMatch.of_trainer(made, tokenizer())


def test_no_eval_set_is_told(tmp_path, caplog):
    trainer(tmp_path, igc_exact_match=4)
    assert "`igc_exact_match` is set, but there is no `eval_dataset`" in caplog.text


def test_whole_answers_are_compared_and_an_answer_without_an_end_is_wrong():
    model, data = igc_model(), [{"prompt": f"{i}=", "completion": "12"} for i in range(4)]
    made = asked()
    questions, _ = made.draw(model, data)
    Parrot(model, tokenizer(), {"0=": "12", "1=": "1", "2=": "123", "3=": " 12 "})
    assert made.counts(model, questions) == (2, 0)
    # "12" and then on and on: right as far as it goes, but it goes on
    Parrot(model, tokenizer(), {f"{i}=": "12" for i in range(4)}, ends=False)
    assert made.counts(model, questions) == (0, 4)
    made.max_new_tokens = 2
    assert made.counts(model, questions) == (0, 4)


def test_it_is_logged_for_every_eval_set_and_modes_are_restored(tmp_path):
    sets = {"a": to_dataset(rows(4, 1)), "b": to_dataset([*rows(3, 2), *rows(1, 3)])}
    made = trainer(tmp_path, eval_dataset=sets, igc_exact_match=4, **EVALUATED)
    made.model.train()
    frozen = made.model.base_model.model.lm_head.eval()
    parrot = knowing(made, (*rows(4, 1), *rows(1, 3)))
    made._igc_exact_match.measure(made, "a", "a")
    assert parrot.trained == [False]
    assert made.model.training
    assert not frozen.training
    made._metrics["eval"].clear()
    metrics = made.evaluate()
    assert metrics["eval_a_exact_match"] == 1
    assert metrics["eval_b_exact_match"] == 0.25
    assert metrics["eval_b_exact_match_skipped"] == metrics["eval_b_exact_match_cut"] == 0
    logged = {key: value for log in made.state.log_history for key, value in log.items()}
    assert logged["eval_a_exact_match"] == 1
    assert made.evaluate(to_dataset(rows(2, 2)))["eval_exact_match"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
def test_training_ends_with_the_same_bits_whether_it_is_measured_or_not(tmp_path, checkpointing):
    ends, options = [], {**EVALUATED, "gradient_checkpointing": checkpointing}
    for count in (0, 4):
        made = trainer(tmp_path, eval_dataset=to_dataset(rows(4)), igc_exact_match=count, **options)
        made.train()
        ends.append((weights(made.model), [log.get("loss") for log in made.state.log_history]))
    assert all(torch.equal(ends[0][0][name], ends[1][0][name]) for name in ends[0][0])
    assert ends[0][1] == ends[1][1]


def _evaluate_as_rank(rank, port, folder):
    """One process of two that asks half of the questions."""
    join_as(rank, port)
    data = to_dataset(rows(5))
    made = trainer(folder, eval_dataset=data, ddp_backend="gloo", igc_exact_match=5, max_steps=1, **EVALUATED, **SGD)
    parrot = knowing(made, rows(3))
    made.train()
    torch.save((made.state.log_history, len(parrot.asked)), folder / f"rank-{rank}.pt")
    end(made)


@pytest.mark.slow
def test_two_processes_share_the_questions_and_agree_on_the_score(tmp_path):
    torch.multiprocessing.spawn(_evaluate_as_rank, (_free_port(), tmp_path), nprocs=2)
    logs = [torch.load(tmp_path / f"rank-{rank}.pt", weights_only=True) for rank in range(2)]
    assert sorted(count for _, count in logs) == [2, 3]
    for history, _ in logs:
        (score,) = [log["eval_exact_match"] for log in history if "eval_exact_match" in log]
        assert score == pytest.approx(0.6)
