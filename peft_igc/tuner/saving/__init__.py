"""The folder of a saved adapter: which weights it has, and its model card.

* `adapter_files`: keys and values of the weights, and checks that they fit.
* `saved_fields`: what the fields of its config mean to this version. `conversion`: adapters of earlier versions.
* `vocabulary_file`: the texts of the tokens, in the file of the weights.
* `model_card`: its `README.md`.
* `companions`: the adapters that were trained together with a calculator.

Start with `adapter_files`.
"""

__all__ = ["adapter_files", "companions", "conversion", "model_card", "saved_fields", "vocabulary_file"]
