"""Names the calculator where vLLM must find it: `--worker-extension-cls peft_igc.engines.vllm.required.Calculator`.

vLLM (0.32) serves the base alone, with a line in its log, where a plugin is missing, cannot be imported or is not in
`VLLM_PLUGINS`. A class that it is told to add to its workers is imported in any case, or no worker starts.
Try it: `make test-vllm`
"""

from .attach import install


class Calculator:
    """Adds nothing to a worker; its module has been imported."""


install()
