"""The calculator inside engines that serve models, which keep no texts of their own for it.

* `texts`: what an adapter knows of a text, on the host: anchors, contexts, decisions, how far a result is written.
* `continuous_batching`: transformers' continuous batching.
* `vllm`: the plugin of vLLM.

Start with `texts`.
Try it: `pytest tests/engines/test_texts.py`, `make test-vllm`
"""

__all__ = ()  # nothing is imported here, so that vLLM can always import its plugin
