"""Training: TRL's `SFTTrainer` with operand columns and the auxiliary reading loss.

* `config`, `trainer`: `IGCSFTConfig`, `IGCTrainer` and `BaselineTrainer`; `collator`: batches with operand columns;
  `labels`: these columns assigned to anchors, and compared with the texts.
* `reading_only`: training steps that end after the reading, and run the frozen layers once per text.
* `two_stage`: after such steps alone, the writing, on prompts that are read once; `batches`: rows tokenized at once,
  batches of rows of similar length; `progress`: lines with losses and the time left.
* `optimizer`: Muon for matrices, AdamW for the rest; `precision`: whether bf16 is faster.
* `exact_match`: generated answers compared during training; `checkpoints`: which one is complete, all trained weights.
* `record`: learning curves, and the record in a card; `checks`: what is refused.

Start with `trainer`.
"""

from .config import IGCSFTConfig
from .trainer import BaselineTrainer, IGCTrainer


__all__ = ["BaselineTrainer", "IGCSFTConfig", "IGCTrainer"]
