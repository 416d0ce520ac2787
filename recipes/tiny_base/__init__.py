"""The parts of `recipes/pretrain_tiny_base.py`: text, questions, tokenizer, batches, scores.

corpus: English prose that every CPython carries. questions: the short questions the model learns to answer.
vocabulary: the tokenizer. batches: both of them as tensors. scores: what the finished model can and cannot do.
Nothing here is imported by the package `peft_igc`; start with `python recipes/pretrain_tiny_base.py --help`.
"""
