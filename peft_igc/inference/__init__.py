"""Using an adapter: loading it, generating greedy answers, comparing them with targets, showing what happened.

* `loading`: base models and adapters, from a folder or a hub id.
* `decoding`: prompts to tokens, and the settings of greedy decoding.
* `evaluation`: generates answers and compares them with their targets; `trace`, one answer with its record.
* `records`: the record of a text, of tokens and steps, also as text and JSON; answers. `pages` shows it as HTML.
* `tracing`: records whatever a block of code generates, with all of each step.
* `audit`: sorts wrong answers by the part that caused them.
* `chat`: a conversation in a terminal, with every step under its line.
* `harness`: a model class and tasks for lm-evaluation-harness.

Start with `evaluation`.
"""

from .evaluation import evaluate, generate_answers, trace
from .loading import load_adapter, load_base, tiny_base, tiny_igc
from .tracing import igc_trace


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
