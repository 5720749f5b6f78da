"""Qwen2.5-VL: patches of 14 texels, P = 28 for tokens of unlike size. :mod:`.qwen` says what the functions give.

The values are those of ``preprocessor_config.json`` of Qwen/Qwen2.5-VL-7B-Instruct: CLIP's mean and std.
"""

from .qwen import Qwen, Rows, Tokens, embeddings, mrope_ids, tensors

MODEL = Qwen(
    name="models.qwen2_5_vl",
    patch=14,
    mean=(0.48145466, 0.4578275, 0.40821073),
    std=(0.26862954, 0.26130258, 0.27577711),
    normalisation='"clip"',
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
