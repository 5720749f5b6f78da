"""Qwen3-VL, and Qwen3.5 with the same image processor: patches of 16 texels, P = 32 for tokens of unlike size.
:mod:`.qwen` says what the functions give.

The values are those of ``preprocessor_config.json`` of Qwen/Qwen3-VL-4B-Instruct.
"""

from .qwen import Qwen, Rows, Tokens, embeddings, mrope_ids, tensors

MODEL = Qwen(
    name="models.qwen3_vl",
    patch=16,
    mean=(0.5, 0.5, 0.5),
    std=(0.5, 0.5, 0.5),
    normalisation='"siglip"',
)
rows = MODEL.rows
tokens = MODEL.tokens
tower = MODEL.tower
tower_arguments = MODEL.tower_arguments
model_arguments = MODEL.model_arguments

__all__ = [
    "MODEL",
    "Rows",
    "Tokens",
    "embeddings",
    "model_arguments",
    "mrope_ids",
    "rows",
    "tensors",
    "tokens",
    "tower",
    "tower_arguments",
]
