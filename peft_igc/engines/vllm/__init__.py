"""The plugin of vLLM: `vllm serve MODEL --additional-config '{"igc": {"adapter": DIR_OR_HUB_ID}}'`.

* `attach`: adds the calculator to a model that vLLM has made; `required`: refuses to run without one.
* `checks`: refuses what it cannot serve, before weights are loaded; `adapter`: loads what is served, LoRAs too.
* `ops`: the custom operator inside of the model.
* `calculator`: one forward pass; `fused`: its two learned maps; `records`: what is kept of each token, in its cache.
* `client`: what a client sees: `/igc/steps` and `/igc/metrics`.

Nothing but this file is imported before `register` or `endpoint` is called: vLLM goes on without a plugin that cannot
be imported, but not without one that cannot be called. Start with `attach`. Try it: `make test-vllm`
"""

from typing import Any


__all__ = ["endpoint", "register"]


def register() -> None:
    """Entry point of the group `vllm.general_plugins`; vLLM calls it in every process, maybe several times.

    Raises:
        ImportError: if it does not run with this version of vLLM.
    """
    try:
        from .attach import install
    except ImportError as error:
        raise ImportError(
            f"The calculator does not run in this environment ({error}). Install `vllm==0.32.*` and `peft-igc[vllm]`, "
            "or leave `igc` out of `VLLM_PLUGINS` to serve without it."
        ) from error
    install()


def endpoint() -> Any:
    """Entry point of the group `vllm.endpoint_plugins`; vLLM calls it in the server if `VLLM_PLUGINS` names it."""
    from .client import Routes

    return Routes()
