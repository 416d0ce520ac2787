"""Using an adapter: loading it, generating greedy answers, comparing them with targets, showing what happened.

* `loading`: base models and adapters, from a folder or a hub id.
* `decoding`: prompts to tokens, and the settings of greedy decoding.
* `evaluation`: generates answers and compares them with their targets.
* `records`: the record of a text, of tokens and steps, also as JSON; answers. `terminal` and `pages` show it.
* `tracing`: records whatever a block of code generates, or the answer to one prompt; `details`: all of one step.
* `audit`, `causes`: sorts wrong answers by the part that caused them.
* `chat`: a conversation in a terminal, with every step in the margin.
* `harness`, `harness_tasks`: a model class and tasks for lm-evaluation-harness.

Imports `text`, `numbers`, `data`, `tuner`; outside of the package torch, transformers, peft, safetensors, jinja2; for
the harness lm_eval and datasets. Start with `evaluation`. Try it: `pytest tests/inference`
"""

from .evaluation import evaluate, generate_answers
from .loading import load_adapter, load_base, tiny_base, tiny_igc
from .tracing import igc_trace, trace


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
