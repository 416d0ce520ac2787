"""The plugin of vLLM: `vllm serve MODEL --additional-config '{"igc": {"adapter": DIR_OR_HUB_ID}}'`.

* `attach`: adds the calculator to a model that vLLM has made.
* `checks`: refuses what it cannot serve, before weights are loaded; `adapter`: loads what is served.
* `ops`: the custom operators inside of the model.
* `calculator`: one forward pass; `records`: what is kept of each token, in vLLM's KV cache.
* `client`: what a client sees: `/igc/steps` and `/igc/metrics`.

Nothing of vLLM is imported before `register` or `endpoint` is called. Start with `attach`.
Try it: `make test-vllm`
"""

from __future__ import annotations

from typing import Any


__all__ = ["endpoint", "register"]


def register() -> None:
    """Entry point of the group `vllm.general_plugins`; vLLM calls it in every process, maybe several times."""
    from .attach import install

    install()


def endpoint() -> Any:
    """Entry point of the group `vllm.endpoint_plugins`; vLLM calls it in the server if `VLLM_PLUGINS` names it."""
    from .client import Routes

    return Routes()
