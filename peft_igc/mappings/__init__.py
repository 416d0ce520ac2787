"""The learned modules: reading a calculation from a text (input mapping), writing its result (output mapping).

* `attention`: the attention block of both, and the RMS of hidden states. `layer_mix`: several layers' states as one.
* `readings`: the distributions that are read, the choice that is made from them, and their loss.
* `hidden_interface`: the paper's mappings, which learn to read and write digits.
* `token_interface`: mappings that know the digits from the token ids, and learn which numbers are operands.
* `symbol_reading`: what texts say in symbols, read on the host; `symbol_steps`: where it decides over what was read.
* `requests`: what contradicts a request in words; `certain_operations`: what it states beyond doubt.

In: hidden states, and in the token interface token ids and embeddings. Out: a `Choice` for the calculator, and updates
of the hidden states. Imports `numbers`, `expressions`, `text` and torch. Code is tagged with the equations of
`docs/how_it_works.md`, which also has the legend of shape letters. Start with `hidden_interface`.
Try it: `pytest tests/mappings`
"""

from .hidden_interface import HiddenInputMapping, HiddenOutputMapping
from .readings import Choice, Pointing, Reading, Targets
from .token_interface import TokenInputMapping, TokenOutputMapping


__all__ = [
    "Choice",
    "HiddenInputMapping",
    "HiddenOutputMapping",
    "Pointing",
    "Reading",
    "Targets",
    "TokenInputMapping",
    "TokenOutputMapping",
]
