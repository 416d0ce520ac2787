"""IGC as a PEFT tuner type: configuration, layer and model as in every PEFT method, and the modules they need.

* `config`: every setting; `config_values`: what each accepts; `anchor_rules`: token sequences at which a step runs.
* `layer`: where an adapter acts; `adapter`: its parts; `passes`: one forward pass from beginning to end; `graphs`: the
  same in a compiled graph.
* `anchors`: positions of the steps in a text; `steps`: from a text to results; `writing`: where these are written.
* `state`: what is known of a text between passes, and how it travels with the KV cache.
* `call`: context of one forward pass.
* `hooks`: arguments into the model, losses and steps out of it; `records`: the record of a step.
* `model`, `base_model`: injection into a causal LM; `saving`: the folder of an adapter.
* `register`: PEFT's tables.

Shapes, in all modules: B rows, T positions of this call, L tokens of the text so far, n of them at hand, P tokens of a
prompt, H hidden size, A anchors per row, each with one step, D digits of an operand, R digits of a result, d width of
a mapping.
Start with `config`, then read `act` in `passes`. Try it: `pytest tests/tuner`
"""

from .config import IGCConfig
from .layer import IGCLayer
from .model import IGCModel
from .register import register


__all__ = ["IGCConfig", "IGCLayer", "IGCModel", "register"]
