"""What the package is made of, in Rust; arrays are bytes of C order unless they say otherwise."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Planes = Sequence[tuple[NDArray[np.uint8], int]]
_Arrays = tuple[NDArray[np.uint8], NDArray[np.uint8]]

class EngineError(Exception): ...
class BackendError(EngineError): ...

class Engine:
    threads: int
    def __init__(self, backend: str, device: str | None, threads: int | None) -> None: ...
    def info(self) -> tuple[str, str, str]: ...
    def close(self) -> None: ...

class Spec:
    layout: str
    patch: int
    dtype: str
    mean: list[float]
    std: list[float]
    outside: str
    capacity: int
    def __init__(self, keys: str) -> None: ...
    def grid(self, extent: tuple[int, int]) -> tuple[int, int] | None: ...
    def plan(
        self,
        extent: tuple[int, int],
        fixations: Sequence[tuple[float, float]],
        relevance: NDArray[np.float64] | None,
    ) -> NDArray[np.uint8]: ...

class Pyramid:
    frame_seq: int
    time_ns: int
    bounds: tuple[int, int]
    level_extents: list[tuple[int, int]]
    cell: int
    tile_grid: tuple[int, int]
    def __init__(
        self,
        engine: Engine,
        planes: _Planes,
        format: str,
        extent: tuple[int, int],
        matrix: str,
        range: str,
        threshold: int | None,
        time_ns: int,
    ) -> None: ...
    def update(self, planes: _Planes, time_ns: int) -> NDArray[np.uint8]: ...
    def level(self, level: int) -> NDArray[np.uint8]: ...
    def sample(
        self, spec: Spec, fixations: Sequence[tuple[float, float]], relevance: NDArray[np.float64] | None
    ) -> _Arrays: ...
    def features(self) -> NDArray[np.uint8]: ...
    def channels(self) -> tuple[NDArray[np.float32], tuple[int, int]]: ...
    def relevance(
        self, scorer: str | None, weights: dict[str, float], gain: float
    ) -> tuple[NDArray[np.float64], tuple[int, int]]: ...
    def close(self) -> None: ...

class Batch:
    def __init__(
        self,
        engine: Engine,
        spec: Spec,
        format: str,
        extent: tuple[int, int],
        matrix: str,
        range: str,
        size: int,
    ) -> None: ...
    def sample(
        self,
        pictures: Sequence[_Planes],
        fixations: Sequence[Sequence[tuple[float, float]]],
        relevance: Sequence[NDArray[np.float64] | None],
    ) -> list[_Arrays]: ...
    def close(self) -> None: ...

class Folder:
    def __init__(
        self,
        engine: Engine,
        spec: Spec,
        paths: Sequence[str],
        place: tuple[float, float],
        decoders: int,
        max_pixels: int,
        background: tuple[int, int, int],
        gray_range: tuple[int, int] | str | None,
    ) -> None: ...
    def next_files(
        self,
    ) -> list[
        tuple[
            PathLike[str],
            tuple[tuple[int, int], tuple[float, float], _Arrays] | None,
            str | None,
            tuple[list[int], str | None] | None,
        ]
    ]: ...
    def info(self) -> tuple[str, str, str]: ...
    def close(self) -> None: ...

class Video:
    """Only in builds with the feature ``gst``."""

    duration: float | None
    def __init__(
        self,
        engine: Engine,
        source: str,
        is_pipeline: bool,
        spec: Spec,
        threshold: int | None,
        by_source: bool,
        max_pixels: int,
        background: tuple[int, int, int],
        gray_range: tuple[int, int] | str | None,
    ) -> None: ...
    def next_frame(
        self, start_ns: int
    ) -> (
        tuple[
            tuple[int, int | None],
            tuple[int, int],
            list[tuple[float, float]],
            tuple[int, int],
            tuple[int, int],
            _Arrays,
            list[int] | None,
        ]
        | None
    ): ...
    def info(self) -> tuple[str, str, str]: ...
    def close(self) -> None: ...

def listed(folder: str | PathLike[str], deep: bool) -> list[PathLike[str]]: ...
def decode(
    bytes: bytes,
    max_pixels: int,
    background: tuple[int, int, int],
    gray_range: tuple[int, int] | None,
) -> tuple[NDArray[np.uint8], tuple[int, int], str | None]: ...
def decode_file(
    path: str,
    max_pixels: int,
    background: tuple[int, int, int],
    gray_range: tuple[int, int] | None,
) -> tuple[NDArray[np.uint8], tuple[int, int], str | None]: ...
def owned(array: NDArray[Any], index: int | None = None) -> NDArray[Any]: ...
def composite(pixels: NDArray[np.uint8], background: tuple[int, int, int]) -> None: ...
def formats() -> list[str]: ...
def channel_names() -> list[str]: ...
