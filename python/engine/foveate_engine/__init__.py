"""Foveated, multi-resolution tokens of arrays, folders and clips, exactly those of Foveate's daemon.

    import foveate_engine

    engine = foveate_engine.Engine()
    pyramid = engine.pyramid(image)                  # [H, W, 3] uint8, and more
    tokens = pyramid.sample((640, 360), budget=273)  # tokens.pixels: [273, 3, 16, 16] float16
    changed = pyramid.update(next_image)             # which tiles changed

``docs/guide/engine.md`` is the guide.
"""

from ._native import BackendError, EngineError
from .engine import FEATURES, Engine, Folder, Pyramid, Video, decode
from .tokens import TOKEN, TokenInfo, Tokens

#: The version of this package.
__version__ = "0.1.0"

__all__ = [
    "FEATURES",
    "TOKEN",
    "BackendError",
    "Engine",
    "EngineError",
    "Folder",
    "Pyramid",
    "TokenInfo",
    "Tokens",
    "Video",
    "__version__",
    "decode",
]
