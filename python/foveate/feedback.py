"""Feedback: the messages that steer a view."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import Refused
from .frame import Frame

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keys import EgoOptions, FrameOptions, LookOptions

#: The most rows, and columns, of an attention map.
_MAP_SIDE_MAX = 128
#: The most points to look at: as many foveae as a view can have.
_POINTS_MAX = 8
#: The longest that a look can hold, in ms.
_FOR_MS_MAX = 2**32 - 1


class Feedback(NamedTuple):
    """A request for a view.

    :ivar op: The ``op`` of the request.
    :ivar payload: Raw bytes after the request.
    :ivar fields: Other fields of the request, without the view.
    """

    op: str
    payload: bytes | None
    fields: dict[str, Any]


def look(
    x: float | None, y: float | None, box: Sequence[float] | None, **options: Unpack[LookOptions]
) -> Feedback:
    """See :meth:`foveate.View.look`."""
    if box is None:
        if x is None or y is None:
            raise ValueError("no point (expected `x` and `y`, or `box`)")
        return look_at([(x, y)], **options)
    if x is not None or y is not None:
        raise ValueError("several kinds of points (expected `x` and `y`, or `box`)")
    edges = [float(edge) for edge in box]
    if len(edges) != 4 or not all(map(math.isfinite, edges)) or edges[2] <= edges[0] or edges[3] <= edges[1]:
        raise ValueError(f"invalid `box` {edges} (expected finite (x0, y0, x1, y1) with x0 < x1 and y0 < y1)")
    if options.get("normalised") and not (0 <= min(edges) and max(edges) <= 1):
        raise ValueError(f"invalid normalised `box` {edges} (expected shares of the sides, 0 to 1)")
    return Feedback("look", None, {"box": edges, **_look_fields(**options)})


def look_at(points: Sequence[Sequence[float]], **options: Unpack[LookOptions]) -> Feedback:
    """See :meth:`foveate.View.look_at`."""
    if not 0 < len(points) <= _POINTS_MAX:
        raise ValueError(f"invalid `points`: {len(points)} points (expected 1 to {_POINTS_MAX})")
    places = [[float(x), float(y)] for x, y in points]
    for x, y in places:
        if options.get("normalised") and not (0 <= x <= 1 and 0 <= y <= 1):
            raise ValueError(f"invalid normalised point {x}, {y} (expected shares of the sides, 0 to 1)")
        if not (math.isfinite(x) and math.isfinite(y)):
            raise ValueError(f"invalid x or y: {x}, {y} (expected finite numbers)")
    return Feedback("look", None, {"points": places, **_look_fields(**options)})


def _look_fields(
    share: float | None = None,
    normalised: bool = False,
    for_ms: int | None = None,
    **options: Unpack[FrameOptions],
) -> dict[str, Any]:
    """The fields of a look, without the points."""
    if share is not None and not 0 < share <= 1:
        raise ValueError(f"invalid `share`: {share} (expected a number above 0 and up to 1)")
    if for_ms is not None and not 0 <= for_ms <= _FOR_MS_MAX:
        raise ValueError(f"invalid `for_ms`: {for_ms} (expected milliseconds, 0 to {_FOR_MS_MAX})")
    return {
        **_fields(
            share=None if share is None else float(share), for_ms=None if for_ms is None else int(for_ms)
        ),
        **_flags(normalised=normalised),
        **_frame_fields(**options),
    }


def attend(weights: ArrayLike, box: Sequence[float] | None, **options: Unpack[FrameOptions]) -> Feedback:
    """See :meth:`foveate.View.attend`."""
    numbers, fields = _map(weights, "an attention map", box)
    return Feedback("attend", numbers, {**fields, **_frame_fields(**options)})


def attend_tokens(frame: Frame | int, scores: ArrayLike, **options: Unpack[EgoOptions]) -> Feedback:
    """See :meth:`foveate.View.attend_tokens`."""
    numbers, dtype = _numbers(scores, "the scores of tokens", 1)
    return Feedback("attend_tokens", numbers.tobytes(), {"dtype": dtype, **_frame_fields(frame, **options)})


def inject(
    name: str, values: ArrayLike, frame: Frame | int | None, box: Sequence[float] | None, ttl: float, strict: bool
) -> Feedback:
    """See :meth:`foveate.View.inject`."""
    ttl_ms = round(ttl * 1000)
    if ttl_ms < 1:
        raise ValueError(f"invalid `ttl`: {ttl} s (expected at least 0.001)")
    numbers, fields = _map(values, "a channel", box)
    return Feedback(
        "inject", numbers, {"name": name, "ttl_ms": ttl_ms, **fields, **_frame_fields(frame, strict=strict)}
    )


def weigh(weights: Mapping[str, float]) -> Feedback:
    """See :meth:`foveate.View.weigh`."""
    numbers = {name: float(weight) for name, weight in weights.items()}
    for name, weight in numbers.items():
        if not math.isfinite(weight):
            raise ValueError(f"invalid weight of {name}: {weight} (expected a finite number)")
    return Feedback("weigh", None, {"weights": numbers})


#: See :meth:`foveate.View.release`.
RELEASE = Feedback("release", None, {})
#: See :meth:`foveate.View.refresh`.
REFRESH = Feedback("refresh", None, {})


def _numbers(array: ArrayLike, what: str, ndim: int) -> tuple[NDArray[Any], str]:
    """The numbers in a format that can be sent, and the name of the format."""
    if hasattr(array, "detach"):
        # A tensor of PyTorch, whose bfloat16 NumPy does not know.
        tensor = array.detach().cpu()
        array = tensor.float() if "bfloat16" in str(tensor.dtype) else tensor
    numbers = np.asarray(array)
    if numbers.ndim != ndim:
        raise ValueError(f"invalid shape of {what}: {numbers.shape} (expected {ndim} axes)")
    names = {"float32": "f32", "float16": "f16", "uint8": "u8"}
    name = names.get(numbers.dtype.name)
    if name is None:
        numbers, name = numbers.astype(np.float32), "f32"
    return np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<")), name


def _map(array: ArrayLike, what: str, box: Sequence[float] | None) -> tuple[bytes, dict[str, Any]]:
    """The raw bytes of a map, and the fields that describe it."""
    numbers, dtype = _numbers(array, what, 2)
    rows, columns = numbers.shape
    if not (0 < min(rows, columns) and max(rows, columns) <= _MAP_SIDE_MAX):
        raise Refused(
            "map-too-large",
            f"invalid map size: {rows} rows and {columns} columns (expected 1 to {_MAP_SIDE_MAX} each); pool it first",
        )
    fields: dict[str, Any] = {"shape": [rows, columns], "dtype": dtype}
    if box is not None:
        fields["box"] = [float(edge) for edge in box]
    return numbers.tobytes(), fields


def _frame_seq(frame: Frame | int | None) -> int | None:
    if frame is None:
        return None
    return frame.frame_seq if isinstance(frame, Frame) else int(frame)


def _frame_fields(
    frame: Frame | int | None = None,
    *,
    strict: bool = False,
    homography: ArrayLike | None = None,
    rotation: ArrayLike | None = None,
    wait: bool = False,
) -> dict[str, Any]:
    """The fields for the frame that a message refers to, and the camera's motion since."""
    if homography is not None and rotation is not None:
        raise ValueError("`homography` and `rotation` exclude each other (expected one of them)")
    if frame is None and (homography is not None or rotation is not None):
        raise ValueError("ego motion needs `frame`, the frame since which the camera moved")
    given = _fields(
        frame=_frame_seq(frame),
        homography=_finite(homography, [(3, 3), (9,)], "`homography`"),
        rotation=_finite(rotation, [(4,)], "`rotation`"),
    )
    return {**given, **_flags(strict=strict, wait=wait)}


def _finite(array: ArrayLike | None, shapes: list[tuple[int, ...]], what: str) -> list[float] | None:
    """The numbers, row by row."""
    if array is None:
        return None
    numbers = np.asarray(array, np.float64)
    if numbers.shape not in shapes or not np.isfinite(numbers).all():
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"invalid {what}: {numbers.tolist()} (expected finite numbers of shape {expected})")
    return [float(number) for number in numbers.ravel()]


def _fields(**fields: object) -> dict[str, Any]:
    """The fields to send: None means absent."""
    return {name: value for name, value in fields.items() if value is not None}


def _flags(**flags: bool) -> dict[str, bool]:
    """The flags to send: only those that are set."""
    return {name: True for name, is_set in flags.items() if is_set}
