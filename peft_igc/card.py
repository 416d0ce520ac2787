"""The quick start of a model card: how to load an IGC adapter, for cards written by TRL and by PEFT.

In: the path of a `README.md`. Out: the same file, whose quick start imports `peft_igc` first; without that, loading
the adapter ends in `KeyError: 'IGC'`. Metadata and the rest of the card stay.
Try it: `pytest tests/test_trainer.py -k card`
"""

from __future__ import annotations

import os
from pathlib import Path


HEADING = "## Quick start"

_QUICK_START = (
    HEADING
    + """

The adapter is an Integrated Gated Calculator: `pip install peft-igc`, and `import peft_igc` before it is loaded.

```python
import peft_igc  # makes the method known to PEFT; without it loading ends in `KeyError: 'IGC'`
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{base}")
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("{base}"), "{adapter}")
chat = [{{"role": "user", "content": "What is 58 times 36?"}}]
inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
answer = model.generate(**inputs, max_new_tokens=24)[0, inputs["input_ids"].shape[1] :]
print(tokenizer.decode(answer, skip_special_tokens=True))
```

"""
)


def write_quick_start(card: Path, base: str | None, adapter: str) -> None:
    """Puts our quick start into a card: in the place of the one that is there, or at the end.

    Args:
        card: path of the `README.md`.
        base: name of the base model; a local folder is not named.
        adapter: hub id or path of the adapter.
    """
    name = "BASE_MODEL" if not base or os.path.isdir(base) else base
    ours = _QUICK_START.format(base=name, adapter=adapter)
    text = card.read_text(encoding="utf-8")
    before, heading, after = text.partition(HEADING)
    _, next_heading, rest = after.partition("\n## ")
    text = before + ours + "## " + rest if heading and next_heading else before.rstrip() + "\n\n" + ours
    card.write_text(text, encoding="utf-8")
