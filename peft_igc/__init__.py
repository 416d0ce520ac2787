"""An exact calculator inside the forward pass of any causal language model, as a PEFT adapter.

    from peft import get_peft_model
    from peft_igc import IGCConfig
    model = get_peft_model(model, IGCConfig(layer=1))

Importing the package registers the method with PEFT, so that `PeftModel.from_pretrained` and all of PEFT's other ways
know it. Training with operand columns is in `peft_igc.trainer` (needs TRL), the command line in `peft_igc.cli`.
"""

from .anchor_rules import assistant_header
from .config import IGCConfig
from .layer import IGCLayer
from .loading import load_base, tiny_base
from .model import IGCModel
from .register import register


__version__ = "0.1.0"
__all__ = ["IGCConfig", "IGCLayer", "IGCModel", "assistant_header", "load_base", "register", "tiny_base"]
