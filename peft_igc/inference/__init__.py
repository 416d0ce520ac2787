"""Using an adapter: loading it, generating greedy answers, comparing them with targets, tracing one of them.

* `loading`: base models and adapters, from a folder or a hub id.
* `decoding`: prompts to tokens, and the settings of greedy decoding.
* `evaluation`: generates answers and compares them with their targets.
* `tracing`: shows what was read, calculated and written while one prompt was answered; `equals`: which `=` were exact.
* `recording`: the same for whatever a block of code generates. `records` has the records, `trace_text` and
  `trace_page` show them in a terminal and on a page.
* `chat`: a conversation in a terminal, with every step in the margin.
* `audit`, `audit_causes`, `audit_page`: sorts wrong answers by the part that caused them; a page of it.
* `harness`, `harness_tasks`: a model class and tasks for lm-evaluation-harness.

Imports `numbers`, `expressions`, `mappings`, `data` and `tuner`; outside of the package torch, transformers, peft,
safetensors and jinja2, and rich where it is installed; for the harness lm_eval and datasets.
Start with `evaluation`. Try it: `pytest tests/inference`
"""

from .evaluation import evaluate, generate_answers
from .loading import load_adapter, load_base, tiny_base, tiny_igc
from .recording import igc_trace
from .tracing import trace


__all__ = [
    "evaluate",
    "generate_answers",
    "igc_trace",
    "load_adapter",
    "load_base",
    "tiny_base",
    "tiny_igc",
    "trace",
]
