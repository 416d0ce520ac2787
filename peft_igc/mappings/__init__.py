"""The learned modules: reading a calculation from a text (input mapping), writing its result (output mapping).

* `attention`: the attention block of both, the RMS of hidden states, and several layers' states as one.
* `readings`: the distributions that are read, the choice that is made from them, and their loss.
* `hidden_interface`: the paper's mappings, which learn to read and write digits.
* `token_interface`: mappings that know the digits from the token ids, and learn which numbers are operands.
* `places`: the numbers of a text, and what the reader of the token interface reads.
* `decisions`: what a text says and what was read in it, decided and calculated on the host.

In: hidden states, and in the token interface token ids and embeddings. Out: a `Choice` for the calculator, and updates
of the hidden states. Imports `numbers`, `text` and torch. Code is tagged with the equations of
`docs/how_it_works.md`. Start with `hidden_interface`.

Shapes, in all modules: B rows, T positions of this call, L tokens of the text so far, n of them at hand, H hidden
size, A anchors per row, N steps (B * A), W places that are read, M different numbers, S slots or operands of a target,
D digits of an operand, R digits of a result, C = 11 digit classes, K operations, d width of a mapping, N_h attention
heads, E width of the token embeddings. In `attention`: N texts or steps, Q queries, M entries of the memory or layers.
"""

__all__ = ["attention", "decisions", "hidden_interface", "places", "readings", "token_interface"]
