"""What is trained with a calculator is in the checkpoints, and the last complete one is found."""

import json
from pathlib import Path

import pytest
import torch
from peft import get_peft_model
from tiny_models import small_config, tiny_model
from tiny_training import NESTED, beside_lora, igc_model, rows, trainer, weights

from peft_igc.data.dataset import to_dataset
from peft_igc.trainer.checkpoints import TRAINED, last_complete_checkpoint
from peft_igc.trainer.trainer import IGCTrainer


pytestmark = pytest.mark.filterwarnings(*NESTED)

SAVED = {"save_strategy": "steps", "save_steps": 1, "per_device_train_batch_size": 2}


def with_base():
    """A model whose base is trained, too."""
    model = igc_model()
    model.requires_grad_(True)
    return model


def named():
    """A calculator alone, with a name of its own."""
    torch.manual_seed(0)
    return get_peft_model(tiny_model("llama"), small_config(init_weights=True), adapter_name="adder")


MODELS = {
    "calculator": igc_model,
    "named calculator": named,
    "calculator over LoRA": lambda: beside_lora("adder"),
    "LoRA over calculator": lambda: beside_lora("style"),
    "base": with_base,
}


def trained_for_the_best(folder, model):
    """A trainer after three steps, of which the second was the best, and the weights after each."""
    made = trainer(
        folder,
        model=model,
        eval_dataset=to_dataset(rows(4)),
        igc_exact_match=4,
        max_steps=3,
        eval_strategy="steps",
        eval_steps=1,
        load_best_model_at_end=True,
        metric_for_best_model="exact_match",
        **SAVED,
    )
    scores, after = iter([1, 3, 2]), []

    def counts(*_):
        after.append(weights(made.model))
        return next(scores), 0

    made._igc_exact_match.counts = counts
    made.train()
    return made, after


@pytest.mark.parametrize("kind", MODELS)
def test_the_best_model_is_the_best_in_all_that_is_trained(tmp_path, kind):
    made, after = trained_for_the_best(tmp_path, MODELS[kind]())
    end = weights(made.model)
    assert made.state.best_global_step == 2
    assert [name for name in end if not torch.equal(end[name], after[1][name])] == []
    learning = [name for name, p in made.model.named_parameters() if p.requires_grad]
    moved = [name for name in learning if not torch.equal(end[name], after[2][name])]
    assert len(moved) > 0.9 * len(learning)
    made.create_model_card("adder")
    text = (tmp_path / "README.md").read_text()
    for said in ("The weights are those of step 2, the best evaluated.", "Evaluated after step 2", "_match` | 0.75 |"):
        assert said in text


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if i == 0 else pytest.mark.slow) for i, kind in enumerate(MODELS)]
)
def test_a_resumed_run_has_the_bits_of_one_that_was_not_interrupted(tmp_path, kind):
    whole = trainer(tmp_path, model=MODELS[kind](), max_steps=3, **SAVED)
    whole.train()
    made = trainer(tmp_path, model=MODELS[kind](), max_steps=3, **SAVED)
    made.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    expected, found = weights(whole.model), weights(made.model)
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []


def test_resuming_on_other_rows_is_said(tmp_path, caplog):
    trainer(tmp_path, **SAVED).train()
    for digits, said in ((2, False), (1, True)):
        made = trainer(tmp_path, rows(8, digits=digits), **SAVED)
        made.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
        parts = "The training rows are not those of the checkpoint", "as many generated rows (`igc_generated_rows`"
        assert [part in caplog.text for part in parts] == [said] * 2


def test_a_checkpoint_of_a_run_that_trained_something_else_is_refused(tmp_path):
    trainer(tmp_path, **SAVED).train()
    with pytest.raises(ValueError, match=f"More is trained than one calculator, but .*no `{TRAINED}`"):
        trainer(tmp_path, model=with_base()).train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    trainer(tmp_path, model=with_base(), **SAVED).train()
    other = with_base()
    other.get_input_embeddings().requires_grad_(False)
    with pytest.raises(ValueError, match=r"is of another run: `.*embed_tokens.weight` is trained in one of them only"):
        trainer(tmp_path, model=other).train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


@pytest.mark.parametrize("flag", ["is_fsdp_enabled", "is_deepspeed_enabled"])
def test_sharded_weights_beside_the_calculator_are_refused(tmp_path, monkeypatch, flag):
    create = IGCTrainer.create_accelerator_and_postprocess

    def sharding(self):
        create(self)
        setattr(self, flag, True)

    monkeypatch.setattr(IGCTrainer, "create_accelerator_and_postprocess", sharding)
    with pytest.raises(ValueError, match="More is trained than the calculator, and with FSDP or DeepSpeed"):
        trainer(tmp_path, model=with_base())
    trainer(tmp_path)


def saved(folder, step, state='{"global_step": 1}', *more):
    path = folder / f"checkpoint-{step}"
    path.mkdir()
    if state is not None:
        (path / "trainer_state.json").write_text(state)
    for name in more:
        (path / name).write_text("")
    return str(path)


def test_the_last_checkpoint_that_was_saved_to_its_end_is_found_and_others_are_told(tmp_path, caplog):
    saved(tmp_path, 2)
    wanted = saved(tmp_path, 10)
    saved(tmp_path, 12, json.dumps({"global_step": 12})[:-4])
    saved(tmp_path, 14, None)
    saved(tmp_path, 16, "{}", "checkpoint-is-incomplete.txt")
    (tmp_path / "checkpoint-best").mkdir()
    assert last_complete_checkpoint(tmp_path) == wanted
    for step in (12, 14, 16):
        assert f"checkpoint-{step}` was not saved to its end" in caplog.text
    assert "checkpoint-2`" not in caplog.text


def test_a_checkpoint_of_several_processes_is_whole_when_each_has_written_its_own(tmp_path):
    paths = {step: Path(saved(tmp_path, step)) for step in (2, 4, 6, 8)}
    for step, ranks in {4: 2, 6: 2, 8: 1}.items():
        for rank in range(ranks):
            torch.save({"cpu": torch.zeros(1)}, paths[step] / f"rng_state_{rank}.pth")
    file = paths[6] / "rng_state_1.pth"
    file.write_bytes(file.read_bytes()[:-30])
    assert last_complete_checkpoint(tmp_path, processes=2) == str(paths[4])
    (paths[4] / "rng_state_1.pth").unlink()
    assert last_complete_checkpoint(tmp_path, processes=2) == str(paths[2])
    assert last_complete_checkpoint(tmp_path) == str(paths[8])


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_to_resume_from_is_an_error(tmp_path, exists):
    if exists:
        saved(tmp_path, 3, None)
    made = trainer(tmp_path)
    with pytest.raises(ValueError, match="has no complete checkpoint to resume from. Begin anew with `train"):
        made.train(resume_from_checkpoint=True)
