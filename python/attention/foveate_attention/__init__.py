"""Hierarchical attention: near keys one by one, the rest as means of cells.

    from foveate_attention import hierarchical_attention

    result = hierarchical_attention(q, k, v, grid=(64, 64), coarse=4, top=0.1)

``docs/guide/attention.md`` is the guide.
"""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, SupportsFloat, SupportsIndex, TypeVar, cast

import numpy as np

from . import _native
from ._native import DeviceError

#: The version of this package.
__version__ = "0.1.0"

__all__ = ["DeviceError", "__version__", "hierarchical_attention"]

#: A NumPy array or a tensor of torch; the result is of the same kind.
Array = TypeVar("Array")

_LEVELS_MAX = 3
_BACKENDS = ("cpu", "vulkan")

#: Open Vulkan devices, by the process that opened them and the name that it asked for.
_devices: dict[tuple[int, str | None], Any] = {}


class _Settings(NamedTuple):
    """What was asked for, checked; `tops` and `biases` from level 1."""

    grid: tuple[int, int]
    coarse: int
    tops: list[float]
    biases: list[float]
    scale: float


def hierarchical_attention(
    q: Array,
    k: Array,
    v: Array,
    grid: tuple[int, int],
    coarse: int = 2,
    top: float | Sequence[float] = 0.1,
    levels: int = 1,
    bias: Sequence[float] | None = None,
    scale: float | None = None,
    backend: str = "cpu",
    device: str | None = None,
) -> Array:
    """Attention over a partition of the keys: fine where a query cares, coarse elsewhere.

    Keys lie on a grid, row by row. A cell of level `l` covers `coarse**l` by `coarse**l` keys, fewer at the right and
    bottom edges, and has the mean of their keys and of their values; its score is
    `scale * (q @ mean_key) + log(number_of_keys) + bias[l - 1]`. All cells of the coarsest level are scored, and for each
    query the best `ceil(top * cells)` are opened: replaced by their children one level down. Of these again at most
    `ceil(top * cells_of_that_level)` are opened, and so on down to the keys; of equal scores the lower index is opened.
    The result is the softmax over all cells that were not opened and all keys that were reached.

    With `top=1` that is full attention to rounding. With biases of zero, equal keys give what full attention gives at any
    `top`. docs/guide/attention.md says when it pays.

    Arrays are NumPy's, in float32 or float16, or tensors of torch. On the CPU a native kernel computes them on all
    processors that the process may use, unless a tensor needs gradients. Tensors that do, that are on another device, or
    that have another floating type are computed with torch's operations, which form all scores: that takes the memory of
    plain attention, and more time.

    With `backend="vulkan"` arrays and tensors in memory are copied to a Vulkan device, computed there in single precision,
    and copied back; gradients and other floating types are refused. The first call opens the device, which then stays open
    and belongs to the process: a fork of it cannot use Vulkan here.

    :param q: queries, [..., M, d]; leading axes are batch and heads.
    :param k: keys, [..., N, d], with the leading axes of `q`.
    :param v: values, [..., N, dv].
    :param grid: rows and columns of the grid of keys; `rows * columns` is N. Queries need not lie on it.
    :param coarse: side of a cell in cells of the level below, at least 2.
    :param top: share of a level's cells that is opened, above 0 and up to 1: one number for all levels, or one for each,
        from level 1. At the same share a cascade reaches as many keys as a single level, but in larger patches.
    :param levels: levels of cells, 1 to 3.
    :param bias: added to the scores of each level's cells, from level 1; zeros if `None`.
    :param scale: factor of the dot products; `1 / sqrt(d)` if `None`.
    :param backend: of arrays in memory: `"cpu"`, or `"vulkan"`, which is never chosen unless asked for.
    :param device: with `backend="vulkan"`, part of a device's name, which may then be software; `None` is a GPU.
    :returns: [..., M, dv] in the type of `q`, on its device.
    :raises TypeError: if an array is of another kind or number format, or a setting is not a number.
    :raises ValueError: if shapes do not fit together, or a setting is out of its range.
    :raises DeviceError: if there is no such device, keys or scores are too large for it, or it refuses or is lost (the
        next call reopens a lost one); and in a fork of a process that has used it.
    """
    torch = sys.modules.get("torch")
    is_torch = torch is not None and isinstance(q, torch.Tensor)
    arrays = (q, k, v)
    for name, array in zip("qkv", arrays, strict=True):
        _check_kind(name, array, torch if is_torch else None)
    settings = _settings(arrays, grid, coarse, top, levels, bias, scale)
    if backend not in _BACKENDS:
        raise ValueError(f"backend={backend!r} (expected {' or '.join(map(repr, _BACKENDS))})")
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device={device!r} (expected a part of a device's name, or None)")
    if backend == "vulkan":
        return cast(Array, _vulkan_attention(torch if is_torch else None, arrays, settings, device))
    if device is not None:
        raise ValueError(f"device is {device!r}, and backend {backend!r}: a device is for backend='vulkan'")
    if not is_torch:
        return cast(Array, _native_attention(*arrays, settings, _on_cpu))
    return cast(Array, _tensor_attention(torch, arrays, settings))


def _check_kind(name: str, array: object, torch: Any) -> None:
    if torch is not None:
        if not isinstance(array, torch.Tensor):
            raise TypeError(f"{name} is a {type(array).__name__} and q a tensor: give all three of one kind")
        if not array.is_floating_point():
            raise TypeError(f"{name} has {array.dtype}: expected a floating type; convert it with {name}.float()")
    elif not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is a {type(array).__name__}: expected an array of NumPy, or tensors of torch for all three")
    elif array.dtype not in (np.float32, np.float16):
        raise TypeError(
            f"{name} has {array.dtype}: expected float32 or float16; convert it with {name}.astype(numpy.float32)"
        )


def _settings(
    arrays: tuple[Any, Any, Any], grid: object, coarse: object, top: object, levels: object, bias: object, scale: object
) -> _Settings:
    q, k, v = arrays
    for name, array in (("k", k), ("v", v)):
        if array.dtype != q.dtype:
            raise TypeError(f"{name} has {array.dtype} and q {q.dtype}: convert them to one type")
        if getattr(array, "device", None) != getattr(q, "device", None):
            raise ValueError(f"{name} is on {array.device} and q on {q.device}: move them to one device")
    for name, array in zip("qkv", arrays, strict=True):
        if array.ndim < 2:
            raise ValueError(f"{name} has the shape {tuple(array.shape)}: expected [..., rows, numbers]")
        if array.shape[-1] == 0:
            raise ValueError(f"{name} has the shape {tuple(array.shape)}: its vectors need at least one number")
        if array.shape[:-2] != q.shape[:-2]:
            raise ValueError(
                f"{name} has the leading axes {tuple(array.shape[:-2])} and q {tuple(q.shape[:-2])}: they must be equal; "
                "expand them first"
            )
    if k.shape[-1] != q.shape[-1]:
        raise ValueError(f"k has vectors of {k.shape[-1]} numbers and q of {q.shape[-1]}: they must be equal")
    if v.shape[-2] != k.shape[-2]:
        raise ValueError(f"v has {v.shape[-2]} rows and k {k.shape[-2]}: there is one value for each key")
    rows, columns = _grid(grid)
    if rows * columns != k.shape[-2]:
        raise ValueError(
            f"grid is {rows} by {columns}, which is {rows * columns} keys, and k has {k.shape[-2]}: give the rows and "
            "columns that the keys were laid out in"
        )
    level_count = _whole("levels", levels)
    if not 1 <= level_count <= _LEVELS_MAX:
        raise ValueError(f"levels={level_count} (expected 1 to {_LEVELS_MAX})")
    side = _whole("coarse", coarse)
    if not 2 <= side < 1 << 31:
        raise ValueError(f"coarse is {side}: a cell is at least 2 by 2, and at most 2**31 - 1")
    tops = _numbers("top", top, level_count) if isinstance(top, (list, tuple)) else [_number("top", top)] * level_count
    for share in tops:
        if not 0 < share <= 1:
            raise ValueError(f"top={share} (expected a share of cells, above 0 and up to 1)")
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else _number("scale", scale)
    biases = [0.0] * level_count if bias is None else _numbers("bias", bias, level_count)
    return _Settings((rows, columns), side, tops, biases, factor)


def _grid(grid: object) -> tuple[int, int]:
    if not isinstance(grid, (tuple, list)) or len(grid) != 2:
        raise TypeError(f"grid={grid!r} (expected a pair, rows and columns)")
    rows, columns = (_whole("grid", side) for side in grid)
    if rows < 1 or columns < 1:
        raise ValueError(f"grid is {rows} by {columns}: expected at least one key")
    return rows, columns


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise TypeError(f"{name}={value!r} (expected a whole number)") from None


def _number(name: str, value: object) -> float:
    if isinstance(value, str):
        raise TypeError(f"{name}={value!r} (expected a number)")
    try:
        number = float(cast(SupportsFloat, value))
    except (TypeError, ValueError):
        raise TypeError(f"{name}={value!r} (expected a number)") from None
    if not math.isfinite(number) or float(np.finfo(np.float32).max) < abs(number):
        raise ValueError(f"{name}={number} (expected a finite number, in single precision too)")
    return number


def _numbers(name: str, values: object, count: int) -> list[float]:
    try:
        numbers = [_number(name, value) for value in cast(Iterable[object], values)]
    except TypeError:
        raise TypeError(f"{name}={values!r} (expected numbers, one for each level)") from None
    if len(numbers) != count:
        raise ValueError(f"{name} has {len(numbers)} numbers: expected {count}, one for each level")
    return numbers


def _native_attention(q: Any, k: Any, v: Any, settings: _Settings, compute: Callable[..., Any]) -> Any:
    """Of arrays of NumPy, by ``compute`` of heads in one axis."""
    shape = (*q.shape[:-1], v.shape[-1])
    if 0 in shape:
        return np.zeros(shape, q.dtype)
    q, k, v = (_native.owned(array).reshape(-1, *array.shape[-2:]) for array in (q, k, v))
    return compute(q, k, v, settings).reshape(shape)


def _on_cpu(q: Any, k: Any, v: Any, settings: _Settings) -> Any:
    """On all processors that this process may use."""
    compute = _native.attention_f16 if q.dtype == np.float16 else _native.attention_f32
    return compute(q, k, v, settings, len(os.sched_getaffinity(0)))


def _device(name: str | None) -> Any:
    """The open device of a name."""
    if not hasattr(_native, "AttentionDevice"):
        raise DeviceError(
            "backend='vulkan': this build has no Vulkan; build it with the feature `vulkan`, or use 'cpu'"
        )
    key = (os.getpid(), name)
    if key not in _devices:
        for process, _ in list(_devices):
            if process != key[0]:
                raise DeviceError(
                    f"backend='vulkan': process {process} has a Vulkan device open, and this is {key[0]}, a fork of "
                    "it, which has not: start workers that use one with multiprocessing's 'spawn', or before its first "
                    "use, or use backend='cpu' in them"
                )
        _devices.setdefault(key, _native.AttentionDevice(name))
    return _devices[key]


def _vulkan_attention(torch: Any, arrays: tuple[Any, Any, Any], settings: _Settings, device: str | None) -> Any:
    """Of arrays of NumPy, or tensors of torch."""

    def compute(q: Any, k: Any, v: Any, settings: _Settings) -> Any:
        opened = _device(device)
        return (opened.attention_f16 if q.dtype == np.float16 else opened.attention_f32)(q, k, v, settings)

    if torch is None:
        return _native_attention(*arrays, settings, compute)
    for name, array in zip("qkv", arrays, strict=True):
        if array.device.type != "cpu":
            raise ValueError(f"{name} is on {array.device}: backend='vulkan' takes tensors in memory, such as {name}.cpu()")
        if array.dtype not in (torch.float32, torch.float16):
            raise TypeError(
                f"{name} has {array.dtype}: backend='vulkan' takes float32 and float16; convert it with {name}.float()"
            )
        if torch.is_grad_enabled() and array.requires_grad:
            raise ValueError(
                f"{name} needs gradients, which backend='vulkan' does not compute: call it under torch.no_grad(), or with "
                "backend='cpu'"
            )
    q, k, v = (array.detach().numpy() for array in arrays)
    return torch.from_numpy(_native_attention(q, k, v, settings, compute))


def _tensor_attention(torch: Any, arrays: tuple[Any, Any, Any], settings: _Settings) -> Any:
    """Of tensors of torch."""
    is_plain = arrays[0].device.type == "cpu" and arrays[0].dtype in (torch.float32, torch.float16)
    needs_gradients = torch.is_grad_enabled() and any(array.requires_grad for array in arrays)
    if is_plain and not needs_gradients:
        q, k, v = (array.detach().numpy() for array in arrays)
        return torch.from_numpy(_native_attention(q, k, v, settings, _on_cpu))
    return _torch_attention(torch, *arrays, settings)


def _torch_attention(torch: Any, q: Any, k: Any, v: Any, settings: _Settings) -> Any:
    """The definition in torch's operations, from the coarsest level to the keys."""
    sums = torch.float64 if q.dtype == torch.float64 else torch.float32
    result_type, q, k, v = q.dtype, q.to(sums), k.to(sums), v.to(sums)
    cells = [
        _cells(torch, level, settings, k.device) for level in range(len(settings.tops) + 1)
    ]
    scores, values = [], []
    visible = None
    for level in reversed(range(len(cells))):
        owner, count = cells[level]
        mean_k, mean_v = (_means(torch, array, owner, count) for array in (k, v))
        score = settings.scale * (q @ mean_k.mT) + count.to(sums).log()
        if visible is not None:
            score = score.masked_fill(~visible, -math.inf)
        if level:
            score = score + settings.biases[level - 1]
            wanted = math.ceil(settings.tops[level - 1] * len(count))
            order = score.detach().sort(dim=-1, descending=True, stable=True).indices[..., :wanted]
            opened = torch.zeros_like(score, dtype=torch.bool).scatter(-1, order, True) & (score != -math.inf)
            score = score.masked_fill(opened, -math.inf)
            # The cell of this level that each cell of the level below is part of.
            below, below_count = cells[level - 1]
            parents = torch.zeros(len(below_count), dtype=torch.int64, device=k.device).scatter(0, below, owner)
            visible = opened[..., parents]
        scores.append(score)
        values.append(mean_v)
    return (torch.cat(scores, -1).softmax(-1) @ torch.cat(values, -2)).to(result_type)


def _cells(torch: Any, level: int, settings: _Settings, device: Any) -> tuple[Any, Any]:
    """The cell of each key at a level, and the keys of each cell."""
    rows, columns = settings.grid
    side = settings.coarse**level
    y = torch.arange(rows, device=device) // side
    x = torch.arange(columns, device=device) // side
    owner = (y[:, None] * -(-columns // side) + x).flatten()
    return owner, owner.bincount()


def _means(torch: Any, array: Any, owner: Any, count: Any) -> Any:
    sums = torch.zeros(*array.shape[:-2], len(count), array.shape[-1], dtype=array.dtype, device=array.device)
    return sums.index_add(-2, owner, array) / count[:, None]
