"""The learned modules: reading a calculation from a text (input mapping), writing its result (output mapping).

* `attention`: the attention block of both, the RMS of hidden states, and several layers' states as one.
* `readings`: the distributions that are read, the choice that is made from them, and their loss.
* `hidden_interface`: the paper's mappings, which learn to read and write digits.
* `token_interface`: mappings that know the digits from the token ids, and learn which numbers are operands.
* `places`: the numbers of a text, and what the reader of the token interface reads.
* `decisions`: what a text says and what was read in it, decided and calculated on the host.

In: hidden states, and in the token interface token ids and embeddings. Out: a `Choice` for the calculator, and updates
of the hidden states. Imports `numbers`, `text` and torch. Code is tagged with the equations of
`docs/how_it_works.md`, which also has the legend of shape letters. Start with `hidden_interface`.
"""

__all__ = ["attention", "decisions", "hidden_interface", "places", "readings", "token_interface"]
