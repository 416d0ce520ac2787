"""An exact calculator inside the forward pass of any causal language model, as a PEFT adapter.

    from peft import get_peft_model
    from peft_igc import IGCConfig
    model = get_peft_model(model, IGCConfig(layer=1))

Importing the package registers the method with PEFT, so that `PeftModel.from_pretrained` and all of PEFT's other ways
know it. Training with operand columns is in `peft_igc.trainer` (needs TRL), the command line in `peft_igc.cli`.

Rooms, from the ground up; each imports only those before it: `numbers`, `mappings`, `data`, `tuner`, `inference`,
`trainer`, `annotation`, `sft`, `demo`, `cli`.
"""

from .inference.evaluation import evaluate
from .inference.loading import load_base, tiny_base
from .inference.tracing import trace
from .numbers.calculator import register_operation
from .tuner.anchor_rules import assistant_header
from .tuner.config import IGCConfig
from .tuner.hooks import choose_graph
from .tuner.layer import IGCLayer
from .tuner.model import IGCModel
from .tuner.register import register


__version__ = "0.2.0"
__all__ = [
    "IGCConfig",
    "IGCLayer",
    "IGCModel",
    "assistant_header",
    "choose_graph",
    "evaluate",
    "load_base",
    "register",
    "register_operation",
    "tiny_base",
    "trace",
]
