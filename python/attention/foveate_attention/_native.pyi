"""What the package is made of, in Rust; arrays have C order."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: ``grid``, ``coarse``, ``tops``, ``biases`` and ``scale`` of an attention.
_Asked = tuple[tuple[int, int], int, Sequence[float], Sequence[float], float]

class DeviceError(Exception): ...

class AttentionDevice:
    """Only in builds with the feature ``vulkan``."""

    def __init__(self, device: str | None) -> None: ...
    def attention_f32(
        self, q: NDArray[np.float32], k: NDArray[np.float32], v: NDArray[np.float32], asked: _Asked
    ) -> NDArray[np.float32]: ...
    def attention_f16(
        self, q: NDArray[np.float16], k: NDArray[np.float16], v: NDArray[np.float16], asked: _Asked
    ) -> NDArray[np.float16]: ...

def owned(array: NDArray[Any]) -> NDArray[Any]: ...
def attention_f32(
    q: NDArray[np.float32], k: NDArray[np.float32], v: NDArray[np.float32], asked: _Asked, threads: int
) -> NDArray[np.float32]: ...
def attention_f16(
    q: NDArray[np.float16], k: NDArray[np.float16], v: NDArray[np.float16], asked: _Asked, threads: int
) -> NDArray[np.float16]: ...
