"""What models take from foveated tokens; ``docs/guide/models.md`` is the guide.

Each model is a module of its own: :mod:`.crops` (any API with pictures), :mod:`.qwen2_5_vl`, :mod:`.qwen3_vl`,
:mod:`.vit` (timm), :mod:`.video` (a ViT or a tower of Qwen on a stream), :mod:`.sglang`, :mod:`.vllm` and
:mod:`.weighted_grid`. All need NumPy alone to be imported; a function that gives tensors or runs a model imports its
library.
"""

from . import crops, qwen2_5_vl, qwen3_vl, sglang, video, vit, vllm, weighted_grid
from .common import MissingLibrary, Place, Unsuitable, content_id
from .video import VideoEncoder

__all__ = [
    "MissingLibrary",
    "Place",
    "Unsuitable",
    "VideoEncoder",
    "content_id",
    "crops",
    "qwen2_5_vl",
    "qwen3_vl",
    "sglang",
    "video",
    "vit",
    "vllm",
    "weighted_grid",
]
