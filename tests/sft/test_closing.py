"""Promises of the closing evaluation: counts are right, nothing of the model changes, and a failure is said."""

import re
from pathlib import Path

import pytest
import torch
from tiny_training import NESTED, beside_lora, rows, trainer

from peft_igc.data.dataset import to_dataset
from peft_igc.data.files import read_rows
from peft_igc.numbers.calculator import Result, Status
from peft_igc.sft import closing, run
from peft_igc.sft.closing import FILE_NAME, Closing, close, evaluate_closing, learned_nothing, write_closing
from peft_igc.trainer.exact_match import ExactMatch
from peft_igc.trainer.trainer import IGCTrainer
from peft_igc.tuner.layer import IGCLayer
from peft_igc.tuner.steps import Step
from tests.sft.test_sft import SMALL, arguments, write


pytestmark = pytest.mark.filterwarnings(*NESTED)

OK, NONE = int(Status.OK), int(Status.NONE)
GOOD = Closing(30, asked=20, read=19, misread=1, refusals=10, answers=20, right=18, right_without=3)


def test_results_are_compared_with_the_labels_of_supervised_anchors():
    # asked and right, asked and wrong, asked and silent, refusal kept, refusal broken, not supervised, no anchor
    status = torch.tensor([[OK, OK, NONE, NONE, OK, OK, OK]])
    digits = torch.tensor([[[1], [2], [1], [1], [1], [1], [1]]])
    labels = {
        "igc_anchors": torch.tensor([[1, 2, 3, 4, 5, 6, -1]]),
        "igc_operator": torch.tensor([[0, 0, 0, 1, 1, -100, 0]]),
        "igc_operands": torch.ones(1, 7, 2, 3, dtype=torch.int64),
        "igc_signs": torch.zeros(1, 7, 2, dtype=torch.int64),
        "igc_result": torch.ones(1, 7, 1, dtype=torch.int64),
        "igc_result_sign": torch.zeros(1, 7, dtype=torch.int64),
        "igc_result_status": torch.tensor([[OK, OK, OK, NONE, NONE, NONE, OK]]),
        "igc_result_scale": torch.zeros(1, 7, dtype=torch.int64),
    }
    zero = torch.zeros(1, 7, dtype=torch.int64)
    step = Step(labels["igc_anchors"], None, Result(digits, zero, status, zero))
    found = closing._compared(step, labels)
    assert found == {"asked": 3, "read": 1, "misread": 1, "refusals": 2, "spoken": 1}
    negative = step._replace(result=step.result._replace(sign=torch.ones(1, 7, dtype=torch.int64)))
    assert closing._compared(negative, labels) == found | {"read": 0, "misread": 2}
    tenths = step._replace(result=step.result._replace(scale=zero + 1))
    assert closing._compared(tenths, labels) == found | {"read": 0, "misread": 2}


def test_rows_are_counted_by_what_their_labels_ask_for(tmp_path):
    made = trainer(tmp_path)
    refusal = {"prompt": "1/0=", "completion": "?", "igc_operator": "/", "igc_operands": ["1", "0"]}
    refusal["igc_result"] = "undefined"
    silence = {"prompt": "a 1 b 2=", "completion": "c", **dict.fromkeys(refusal.keys() - {"prompt", "completion"})}
    silence["igc_operator"] = "none"
    found = evaluate_closing(made, to_dataset([*rows(5, unsupervised=(4,)), refusal, silence]))
    assert (found.rows, found.asked, found.refusals, found.answers) == (7, 4, 2, 4)
    assert found.read + found.misread <= 4


def test_rows_without_a_calculation_have_no_answer_to_compare(tmp_path):
    found = evaluate_closing(trainer(tmp_path), to_dataset(rows(2, unsupervised=(0, 1))))
    assert (found.asked, found.answers) == (0, 0)
    assert found.unanswered == "no held-out row asks for a calculation"
    made = trainer(tmp_path, igc_exact_match_tokens=1)
    found = evaluate_closing(made, to_dataset(rows(2)))
    assert found.answers == 0
    assert "igc_exact_match_tokens=1" in found.unanswered


def test_a_run_that_a_time_limit_ends_is_evaluated(tmp_path):
    (made := trainer(tmp_path)).state.max_steps = 2
    assert "The reading learned next to nothing" in close(made, to_dataset(rows(4)), None)


def test_answers_without_the_calculator_are_those_of_the_model_with_its_lora(tmp_path, monkeypatch):
    model = beside_lora("adder")
    made = trainer(tmp_path, model=model)
    layers = [module for module in model.modules() if isinstance(module, IGCLayer)]
    loras = [module for module in model.modules() if hasattr(module, "lora_A")]
    seen = []

    def counts(self, model, questions, *ranks):
        seen.append(({one.disable_adapters for one in layers}, {one.disable_adapters for one in loras}))
        return (3, 0) if len(seen) == 1 else (1, 0)

    monkeypatch.setattr(ExactMatch, "counts", counts)
    found = evaluate_closing(made, to_dataset(rows(4)))
    assert (found.right, found.right_without) == (3, 1)
    assert seen == [({False}, {False}), ({True}, {False})]


def test_nothing_of_the_model_changes(tmp_path):
    model = beside_lora("adder")
    made = trainer(tmp_path, model=model)
    model.train()
    before = {name: (p.detach().clone(), p.requires_grad, p.grad) for name, p in model.named_parameters()}
    evaluate_closing(made, to_dataset(rows(4)))
    assert model.training
    for name, p in model.named_parameters():
        value, requires_grad, grad = before[name]
        assert torch.equal(p, value), name
        assert (p.requires_grad, p.grad) == (requires_grad, grad), name
    assert not any(module.disable_adapters for module in model.modules() if isinstance(module, IGCLayer))


def test_the_counts_are_printed_in_words():
    assert GOOD.format().splitlines() == [
        "Closing evaluation of 30 rows that were held out:",
        "  19 of 20 calculations are read right (95% interval 76 to 99%), 1 wrong, 0 not at all",
        "  10 of 10 refusals are left alone",
        "  18 of 20 whole answers are right (95% interval 70 to 97%), without the calculator 3",
    ]
    assert "no answer was generated: too long" in Closing(3, asked=1, unanswered="too long").format()


def test_a_failure_is_one_from_the_first_calculation_if_nothing_was_gained():
    for line in read_rows(Path(__file__).with_name("closing.jsonl")):
        failure = Closing(**line["found"]).failure()
        assert (failure is None) == (line["failure"] is None), line
        assert failure is None or failure.startswith(line["failure"])
        assert failure is None or "`igc_learning_rate`" in failure


def test_file_and_card_say_whether_anything_was_learned(tmp_path):
    card = tmp_path / "README.md"
    assert not learned_nothing(tmp_path)
    for found, failed in ((GOOD, False), (Closing(3, asked=3), True)):
        card.write_text("# An adapter\n")
        write_closing(found, tmp_path)
        assert learned_nothing(tmp_path) == failed
        assert ("**Not fit for use.** The reading learned next to nothing: 0 of 3" in card.read_text()) == failed
        assert found.format() in card.read_text()


def line_of(base, folder, *more):
    data = write(folder / "d", rows(200, digits=3))
    return arguments(base, folder / "out", *SMALL, *more, dataset_name=data, max_steps="1")


@pytest.mark.slow
def test_a_run_that_learned_nothing_says_so_and_ends_with_1(base, tmp_path, capsys, caplog, monkeypatch):
    cards = []
    monkeypatch.setattr(IGCTrainer, "init_hf_repo", lambda self: setattr(self, "hub_model_id", "me/it"))
    upload = lambda *_, folder_path, **__: cards.append(Path(folder_path, "README.md").read_text())  # noqa: E731
    monkeypatch.setattr("huggingface_hub.HfApi.upload_folder", upload)
    assert run.run(line_of(base, tmp_path, "--push_to_hub")) == 1
    printed = capsys.readouterr().out
    assert "Labels of 180 rows: + 180; 0 rows not supervised." in printed
    assert "Learning rate: 0.01 for the calculator." in printed
    assert "Closing evaluation of 20 rows" in printed
    assert re.search("\nSaved, but not fit for use: The (reading|writing) learned", printed)
    assert cards == [(tmp_path / "out" / "README.md").read_text()]
    assert "**Not fit for use.**" in cards[0]
    assert "No row asks for `-`, `*`, `/`" in caplog.text
    assert 'No row has the operator "none"' in caplog.text
    assert (tmp_path / "out" / "adapter_model.safetensors").is_file()
    # A later run in the same folder that evaluates nothing leaves no old verdict.
    assert run.run(line_of(base, tmp_path, "--igc_held_out", "0")) == 0
    assert not (tmp_path / "out" / FILE_NAME).exists()
    assert "Not evaluated: no annotated rows were held out" in capsys.readouterr().out
