"""Without an IGC adapter `BaselineTrainer` is `SFTTrainer`: both run side by side and must end with the same bits.

`IGCTrainer` refuses such a model, and is the same class in all else. TRL's own tests are not run: they are in neither
its wheel nor its source distribution, and load models from the hub.
"""

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from tiny_models import tiny_model
from tiny_training import QUICK, chat, rows, tokenizer
from trl import SFTConfig, SFTTrainer

from peft_igc.trainer.config import IGCSFTConfig
from peft_igc.trainer.trainer import BaselineTrainer


pytestmark = [
    pytest.mark.filterwarnings("ignore:.*will be removed in v2:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.return_outputs=True.:FutureWarning"),
]

PLAIN = [{"prompt": row["prompt"], "completion": row["completion"]} for row in rows(8)]
TEXT = [{"text": row["prompt"] + row["completion"]} for row in rows(8)]
CHAT = [{"messages": chat(row)} for row in rows(8)]
TIMES = ("runtime", "per_second")


def lora():
    return {"peft_config": LoraConfig(target_modules=["q_proj", "v_proj"])}


def _squared(outputs, labels, num_items_in_batch=None):
    """A loss of one's own."""
    return (outputs.logits**2).mean()


CASES = {
    "prompt and completion": (PLAIN, {}, dict),
    "text": (TEXT, {}, dict),
    "assistant turns": (CHAT, {"assistant_only_loss": True}, dict),
    "operand columns that nobody reads": (rows(8), {}, lora),
    "checkpointing and bf16": (PLAIN, {"gradient_checkpointing": True, "bf16": True}, lora),
    "a loss of one's own": (PLAIN, {}, lambda: {"compute_loss_func": _squared}),
}


def run(folder, cls, config, data, options, more, streaming=False):
    """Two steps and an evaluation: weights, logs, metrics, first batch."""
    data = Dataset.from_list(data)
    made = cls(
        model=tiny_model("llama"),
        args=config(output_dir=str(folder), **{**QUICK, **options}),
        train_dataset=data.to_iterable_dataset() if streaming else data,
        eval_dataset={"a": data, "b": data.select(range(3))},
        processing_class=tokenizer(),
        **more,
    )
    batch = next(iter(made.get_train_dataloader()))
    made.train()
    logs = [{k: v for k, v in log.items() if not any(t in k for t in TIMES)} for log in made.state.log_history]
    metrics = {k: v for k, v in made.evaluate().items() if not any(t in k for t in TIMES)}
    return dict(made.model.named_parameters()), logs, metrics, batch


@pytest.mark.versions
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if i == 0 else pytest.mark.slow) for i, name in enumerate(CASES)]
)
def test_both_trainers_end_with_the_same_bits(tmp_path, name):
    data, options, more = CASES[name]
    streaming = name == "text"
    theirs = run(tmp_path, SFTTrainer, SFTConfig, data, options, more(), streaming)
    ours = run(tmp_path, BaselineTrainer, IGCSFTConfig, data, options, more(), streaming)
    assert theirs[1] == ours[1]
    assert theirs[2] == ours[2]
    assert set(theirs[3]) == set(ours[3])
    assert all(torch.equal(theirs[3][key], ours[3][key]) for key in ours[3])
    assert set(theirs[0]) == set(ours[0])
    assert all(torch.equal(theirs[0][key], ours[0][key]) for key in ours[0])
