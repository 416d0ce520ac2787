"""The vocabulary of an adapter, a tensor in the file of its weights, so that it is loaded without its tokenizer.

A reader keeps the tensor as the buffer `characters`, see `TokenInputMapping`.
"""

import torch
from safetensors import SafetensorError, safe_open

from ...text.vocabulary import Vocabulary


VOCABULARY = ".igc_input_mapping.characters"  # the end of its key in a file


def vocabulary_in(path: str) -> Vocabulary | None:
    """The vocabulary in a safetensors file, None if there is none. A damaged one or file is a ValueError."""
    try:
        with safe_open(path, framework="pt") as file:
            found = [file.get_tensor(key) for key in file.keys() if key.endswith(VOCABULARY)]  # noqa: SIM118
    except SafetensorError as error:
        # Without this, PEFT 0.21 raises the error without the name of the file.
        raise ValueError(
            f"`{path}` is damaged and cannot be read as a safetensors file ({error}). "
            "Copy or download it again, or save the adapter again with `save_pretrained`."
        ) from error
    return vocabulary_of(found[0], path) if found else None


def vocabulary_of(saved: torch.Tensor, source: str | None) -> Vocabulary:
    """The vocabulary of a tensor [n] uint8. A damaged one is a ValueError, which names the file or folder `source`."""
    problem = f"is of dtype {saved.dtype} and shape {tuple(saved.shape)}, not uint8 and one-dimensional"
    if saved.dtype == torch.uint8 and saved.dim() == 1:
        try:
            return Vocabulary.from_bytes(saved.cpu().numpy().tobytes())
        except ValueError as error:
            problem = f"cannot be read: {error.__cause__ or error}"
    raise ValueError(
        f"The vocabulary{f' in `{source}`' if source else ''} (`{VOCABULARY.removeprefix('.')}`) {problem}. Copy the "
        "file again, or save the adapter again with `save_pretrained`."
    )
