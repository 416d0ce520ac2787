"""What is known of a text between forward passes, and where it is kept.

* `text_state`: compressed tokens, token ids and the results of all steps, as values.
* `cache`: one state per adapter on a layer of the KV cache, following its rows and its length.

Start with `TextState` in `text_state`. Try it: `pytest tests/tuner/test_text_state.py`
"""

__all__ = ["cache", "text_state"]
