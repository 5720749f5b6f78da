"""A segment: opened from a descriptor, checked once, then trusted."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from . import abi, codes
from .camera import Camera
from .errors import BrokenSegment, FoveateError

#: fcntl.F_SEAL_FUTURE_WRITE, which the standard library knows only since Python 3.12.
_F_SEAL_FUTURE_WRITE = 0x10
_REQUIRED_SEALS = {
    "F_SEAL_GROW": fcntl.F_SEAL_GROW,
    "F_SEAL_SHRINK": fcntl.F_SEAL_SHRINK,
    "F_SEAL_FUTURE_WRITE": _F_SEAL_FUTURE_WRITE,
}
#: Pages are mapped at once if Python supports it (3.10), so that the first frames cause no page faults.
_MAP_FLAGS = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
#: Bytes of a shared word.
_WORD_BYTES = 8


@dataclass(frozen=True)
class PlaneInfo:
    """One entry of a segment's table of planes: an array with an item for each token if ``order`` begins with N.

    :ivar name: Name of the plane, such as ``"relevance"``.
    :ivar order: One letter for each axis, such as ``"NCHW"``.
    :ivar dtype: Element type: ``"u8"``, ``"f16"``, ``"bf16"`` or ``"f32"``.
    :ivar shape: Extent of each axis; that of the tokens is the capacity.
    """

    name: str
    order: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Color:
    """What the samples of a source mean, in GStreamer's names.

    :ivar matrix: How they became RGB, such as ``"bt709"``; None if they are RGB.
    :ivar range: ``"limited"`` or ``"full"``.
    :ivar transfer: How they follow from light: ``"bt709"``, ``"srgb"``, ``"smpte2084"`` (PQ), ``"arib-std-b67"`` (HLG) or
        another; None if the source does not say it. Samples are used as they are, whatever it is.
    :ivar assumed: What the source does not say: ``"matrix"``, ``"range"``, or both.
    """

    matrix: str | None
    range: str
    transfer: str | None
    assumed: tuple[str, ...]


@dataclass(frozen=True)
class SegmentInfo:
    """The description of a segment. It never changes.

    :ivar abi: Version of the ABI: major and minor.
    :ivar epoch: A random number, different for every segment.
    :ivar stream: Name of the stream.
    :ivar view: Name of the view.
    :ivar layout: Name of the layout, such as ``"adaptive"``.
    :ivar patch: P: side of a token in texels.
    :ivar dtype: Number format of a texel: ``"u8"``, ``"f16"``, ``"bf16"`` or ``"f32"``.
    :ivar capacity: Most tokens of a frame.
    :ivar grid: Columns and rows of the tokens, if they form a grid, row by row (layout ``"uniform"``); else None.
    :ivar foveae: Most fixations of a frame, 1 to 8.
    :ivar outside: What a texel without a real pixel is: ``"edge"``, the nearest of its token that has one, or
        ``"mean"``, 0 in a normalised view.
    :ivar rounding: How the mean of a texel's pixels becomes 8 bits: ``"half-up"`` or ``"floor"``.
    :ivar extent: Width and height of the source in pixels.
    :ivar mean: R, G, B: a texel is (value / 255 - mean) / std.
    :ivar std: R, G, B.
    :ivar pixel_format: The camera's format, as GStreamer names it.
    :ivar backend: The backend that keeps the pyramid: ``"cpu"`` or ``"vulkan"``.
    :ivar device: Name of the device that it runs on.
    :ivar slot_count: Frames that the ring holds.
    :ivar camera: The camera model, or None if the stream has none.
    :ivar planes: The table of planes; ``pixels`` come first.
    :ivar channels: Names of the channels in the plane ``channels``, in its order; empty if the view publishes none.
    :ivar cell: Side of a cell of these in source pixels; 0 if the view publishes none.
    :ivar pixel_aspect: Width and height of a pixel as it is meant to be shown, such as (64, 45); (1, 1) is a square.
    :ivar color: What the samples of the source mean, or None if that is not known.
    """

    abi: tuple[int, int]
    epoch: int
    stream: str
    view: str
    layout: str
    patch: int
    dtype: str
    capacity: int
    grid: tuple[int, int] | None
    foveae: int
    outside: str
    rounding: str
    extent: tuple[int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    pixel_format: str
    backend: str
    device: str
    slot_count: int
    camera: Camera | None
    planes: tuple[PlaneInfo, ...]
    channels: tuple[str, ...]
    cell: int
    pixel_aspect: tuple[int, int] = (1, 1)
    color: Color | None = None

    @property
    def name(self) -> str:
        """The view's address, such as ``"front/robot"``."""
        return f"{self.stream}/{self.view}"


@dataclass(frozen=True)
class PlanePlacement:
    """Location of a plane's items in a slot, in bytes."""

    name: str
    dtype: np.dtype[Any]
    offset: int
    #: Number of items, or None where they are the tokens.
    count: int | None
    #: Of one item.
    shape: tuple[int, ...]
    #: Of the axis of the items and those of an item.
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Placement:
    """The layout of a segment, in bytes, checked."""

    slot_count: int
    slot_stride: int
    records_offset: int
    planes: tuple[PlanePlacement, ...]
    capacity: int
    patch: int
    total_bytes: int

    @property
    def frame_bytes(self) -> int:
        """Size of a frame of as many tokens as the segment may hold."""
        items = sum((self.capacity if plane.count is None else plane.count) * plane.strides[0] for plane in self.planes)
        return self.capacity * abi.TOKEN.itemsize + items


class Segment:
    """A segment, mapped read-only.

    The mapping lives until :meth:`close`, or, if arrays of it are still in use, until the last of them is gone.
    """

    def __init__(self, descriptor: int) -> None:
        """Maps the segment behind ``descriptor``, which stays the caller's.

        :raises BrokenSegment: if it is not a segment, has another major version, is inconsistent, or could shrink or be
            written by others.
        """
        total_bytes = _checked_size(descriptor)
        self._mapping: Any = mmap.mmap(descriptor, total_bytes, flags=_MAP_FLAGS, prot=mmap.PROT_READ)
        try:
            header = np.frombuffer(self._mapping[: abi.HEADER_BYTES], abi.SEGMENT_HEADER, 1)[0]
            self.info, self.placement = _parsed(header, total_bytes, self._mapping[: abi.HEADER_BYTES])
        except BaseException:
            self._mapping.close()
            raise
        #: The segment as words, read-only: [total_bytes / 8] of uint64.
        self.words = np.frombuffer(self._mapping, "<u8")
        #: The same as halves of words: [total_bytes / 4] of uint32.
        self.half_words = self.words.view("<u4")

    def load(self, offset: int, size: int) -> bytes:
        """A copy of ``size`` bytes from ``offset`` on."""
        return self._mapping[offset : offset + size]

    def unpacked(self, form: struct.Struct, offset: int) -> tuple[Any, ...]:
        """Unpacks ``form`` at ``offset``."""
        return form.unpack_from(self._mapping, offset)

    def close(self) -> None:
        """Unmaps it, or leaves that to the last array still in use. Reading it afterwards is an error."""
        self.words = self.half_words = np.empty(0, "<u8")
        mapping, self._mapping = self._mapping, None
        try:
            mapping.close()
        except BufferError:
            # A borrowed array is still in use, and now owns the mapping.
            pass


def described(description: bytes) -> tuple[SegmentInfo, Placement]:
    """Parses the first bytes of a segment that is elsewhere.

    :raises BrokenSegment: if they describe none, or one of another major version, or are inconsistent.
    """
    if len(description) != abi.HEADER_BYTES:
        raise BrokenSegment(f"not a Foveate segment: its description has {len(description)} bytes")
    header = np.frombuffer(description, abi.SEGMENT_HEADER, 1)[0]
    return _parsed(header, int(header["total_bytes"]), description)


def _checked_size(descriptor: int) -> int:
    """The size in bytes of a memfd, after checking that its size and content are sealed and all pages are allocated, so
    that accessing its mapping is never fatal."""
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError as error:
        raise BrokenSegment("not a Foveate segment: it is not shared memory") from error
    missing = [name for name, seal in _REQUIRED_SEALS.items() if not seals & seal]
    if missing:
        raise BrokenSegment(f"not a Foveate segment: it lacks the seals {', '.join(missing)}")
    status = os.fstat(descriptor)
    size = status.st_size
    if size < abi.HEADER_BYTES or size % _WORD_BYTES:
        raise BrokenSegment(f"not a Foveate segment: it has {size} bytes")
    # st_blocks counts units of 512 bytes whatever the file system.
    reserved = status.st_blocks * 512
    if reserved < size:
        raise BrokenSegment(f"not a Foveate segment: only {reserved} of its {size} bytes are reserved")
    return size


def _parsed(header: np.void, file_bytes: int, segment: bytes) -> tuple[SegmentInfo, Placement]:
    """Parses ``header`` and the blocks of ``segment``, and checks them against the ABI and ``file_bytes`` bytes."""
    _check_version(header)
    _check_sizes(header, file_bytes)
    placement = _placement(header)
    cell, channels = _channels(header, segment)
    width, height = int(header["source_width"]), int(header["source_height"])
    _ensure(
        1 <= min(width, height) and max(width, height) <= abi.SOURCE_SIDE_MAX,
        "source_width x source_height",
        (width, height),
    )
    info = SegmentInfo(
        abi=(int(header["abi_major"]), int(header["abi_minor"])),
        epoch=int(header["epoch"]),
        stream=_text(header, "stream_name"),
        view=_text(header, "view_name"),
        layout=_text(header, "layout_name"),
        patch=placement.patch,
        dtype=codes.DTYPE_NAMES[int(header["planes"][0]["dtype"])],
        capacity=placement.capacity,
        grid=_grid(header),
        foveae=_foveae(header),
        outside=_named(codes.OUTSIDES, header, "outside"),
        rounding=_named(codes.ROUNDINGS, header, "rounding"),
        extent=(width, height),
        mean=tuple(header["mean"].tolist()),
        std=tuple(header["std"].tolist()),
        pixel_format=_text(header, "pixel_format"),
        backend=_named(codes.BACKENDS, header, "backend_kind"),
        device=_text(header, "backend_device"),
        slot_count=placement.slot_count,
        camera=_camera(header, segment),
        channels=channels,
        cell=cell,
        pixel_aspect=_pixel_aspect(header),
        color=_color(header),
        planes=tuple(_plane_info(entry) for entry in header["planes"][: int(header["plane_count"])]),
    )
    return info, placement


def _grid(header: np.void) -> tuple[int, int] | None:
    """Columns and rows of the tokens; None if they form no grid."""
    columns, rows = int(header["grid_columns"]), int(header["grid_rows"])
    if columns == rows == 0:
        return None
    _ensure(1 <= columns * rows <= int(header["token_capacity"]), "grid_columns x grid_rows", (columns, rows))
    return columns, rows


def _foveae(header: np.void) -> int:
    foveae = int(header["fovea_capacity"])
    _ensure(1 <= foveae <= abi.FOVEAE_MAX, "fovea_capacity", foveae)
    return foveae


def _pixel_aspect(header: np.void) -> tuple[int, int]:
    """Width and height of a pixel; square where the source does not say."""
    width, height = int(header["pixel_aspect_width"]), int(header["pixel_aspect_height"])
    _ensure((width == 0) == (height == 0), "pixel_aspect_width : pixel_aspect_height", (width, height))
    return (width, height) if width else (1, 1)


def _color(header: np.void) -> Color | None:
    """What the samples mean. Numbers of later versions count as unknown."""
    code, assumed = int(header["color_matrix"]), int(header["color_assumed"])
    matrix = codes.COLOR_MATRICES.get(code)
    levels = codes.COLOR_RANGES.get(int(header["color_range"]))
    if levels is None or (matrix is None and code != codes.COLOR_MATRIX_RGB):
        return None
    return Color(
        matrix=matrix,
        range=levels,
        transfer=codes.COLOR_TRANSFERS.get(int(header["color_transfer"])),
        assumed=tuple(name for bit, name in codes.COLOR_ASSUMED.items() if assumed & bit),
    )


def _named(names: dict[int, str], header: np.void, field: str) -> str:
    """What the number in ``field`` stands for."""
    return names.get(int(header[field])) or _malformed(field, header[field])


def _check_version(header: np.void) -> None:
    magic = bytes(header["magic"])
    if magic != abi.MAGIC:
        raise BrokenSegment(f"not a Foveate segment: it begins with {magic!r}")
    major, minor = int(header["abi_major"]), int(header["abi_minor"])
    if major != abi.ABI_MAJOR:
        raise BrokenSegment(
            f"the segment follows ABI {major}.{minor}, but this reader supports {abi.ABI_MAJOR}.{abi.ABI_MINOR}: "
            "install the foveate package of the daemon's version"
        )


def _check_sizes(header: np.void, file_bytes: int) -> None:
    """Checks that the slots fill the segment and that the records fit in a slot."""

    def is_at(field: str, expected: int) -> None:
        _ensure(int(header[field]) == expected, field, header[field])

    is_at("header_bytes", abi.HEADER_BYTES)
    is_at("slot_header_bytes", abi.SLOT_HEADER.itemsize)
    is_at("record_bytes", abi.TOKEN.itemsize)
    is_at("total_bytes", file_bytes)
    slot_count, stride = int(header["slot_count"]), int(header["slot_stride"])
    _ensure(abi.SLOT_COUNT_MIN <= slot_count <= abi.SLOT_COUNT_MAX, "slot_count", slot_count)
    _ensure(stride % abi.PLANE_ALIGNMENT == 0, "slot_stride", stride)
    _ensure(abi.HEADER_BYTES + slot_count * stride == file_bytes, "slot_stride", stride)
    records_offset = int(header["records_offset"])
    placed = abi.SLOT_HEADER.itemsize <= records_offset and records_offset % _WORD_BYTES == 0
    _ensure(placed, "records_offset", records_offset)
    capacity = int(header["token_capacity"])
    _ensure(1 <= capacity <= abi.TOKEN_CAPACITY_MAX and _records_end(header) <= stride, "token_capacity", capacity)


def _records_end(header: np.void) -> int:
    """End of the records, in bytes from the start of a slot."""
    return int(header["records_offset"]) + int(header["token_capacity"]) * abi.TOKEN.itemsize


def _placement(header: np.void) -> Placement:
    """The layout of a slot, after checking that the first plane is dense [capacity, 3, P, P]."""
    plane_count = int(header["plane_count"])
    _ensure(1 <= plane_count <= len(header["planes"]), "plane_count", plane_count)
    planes = tuple(_plane_placement(header, entry) for entry in header["planes"][:plane_count])
    names = [plane.name for plane in planes]
    _ensure(len(set(names)) == plane_count, "planes.name", names)
    pixels = header["planes"][0]
    capacity, side = int(header["token_capacity"]), int(header["patch_side"])
    _ensure(_text(pixels, "name") == "pixels", "planes[0].name", _text(pixels, "name"))
    _ensure(_text(pixels, "order") == "NCHW", "planes[0].order", _text(pixels, "order"))
    shape = pixels["shape"].tolist()
    _ensure(int(pixels["ndim"]) == 4 and shape == [capacity, 3, side, side], "planes[0].shape", shape)
    is_dense = 3 * side * side * planes[0].dtype.itemsize == int(pixels["token_stride"])
    _ensure(1 <= side <= abi.PATCH_SIDE_MAX and is_dense, "patch_side", side)
    return Placement(
        slot_count=int(header["slot_count"]),
        slot_stride=int(header["slot_stride"]),
        records_offset=int(header["records_offset"]),
        planes=planes,
        capacity=capacity,
        patch=side,
        total_bytes=int(header["total_bytes"]),
    )


def _plane_info(entry: np.void) -> PlaneInfo:
    """Parses a checked entry."""
    return PlaneInfo(
        name=_text(entry, "name"),
        order=_text(entry, "order"),
        dtype=codes.DTYPE_NAMES[int(entry["dtype"])],
        shape=tuple(entry["shape"][: int(entry["ndim"])].tolist()),
    )


def _plane_placement(header: np.void, entry: np.void) -> PlanePlacement:
    """The location of a plane, after checking that it is after the records and inside the slot, with room for every
    item."""
    dtype = codes.DTYPES.get(int(entry["dtype"])) or _malformed("planes.dtype", entry["dtype"])
    ndim = int(entry["ndim"])
    _ensure(1 <= ndim <= len(entry["shape"]), "planes.ndim", ndim)
    shape = entry["shape"][:ndim].tolist()
    is_of_tokens = _text(entry, "order").startswith("N")
    _ensure(not is_of_tokens or shape[0] == int(header["token_capacity"]), "planes.shape", shape)
    _ensure(0 not in shape, "planes.shape", shape)
    offset, size = int(entry["offset"]), int(entry["bytes"])
    _ensure(offset % abi.PLANE_ALIGNMENT == 0 and _records_end(header) <= offset, "planes.offset", offset)
    _ensure(offset + size <= int(header["slot_stride"]), "planes.bytes", size)
    strides = [dtype.itemsize]
    for side in reversed(shape[1:]):
        strides.insert(0, side * strides[0])
    stride = int(entry["token_stride"])
    _ensure(strides[0] <= stride and stride * shape[0] <= size, "planes.token_stride", stride)
    count = None if is_of_tokens else shape[0]
    return PlanePlacement(_text(entry, "name"), dtype, offset, count, tuple(shape[1:]), (stride, *strides[1:]))


def _camera(header: np.void, segment: bytes) -> Camera | None:
    """The camera model, if the segment has one."""
    block = header["camera"]
    if int(block["kind"]) == codes.CAMERA_NONE:
        return None
    count = int(block["coefficient_count"])
    _ensure(count <= len(block["coefficients"]), "camera.coefficient_count", count)
    place = np.frombuffer(segment, abi.CAMERA_FRAME_BLOCK, 1, abi.CAMERA_FRAME_OFFSET)[0]
    parent = _text(place, "parent_frame")
    return Camera(
        kind=int(block["kind"]),
        k=block["k"].reshape(3, 3).copy(),
        distortion=_text(block, "distortion_name"),
        coefficients=block["coefficients"][:count].copy(),
        extent=(int(place["calibrated_width"]), int(place["calibrated_height"])),
        source_from_calibrated=place["source_from_calibrated"].reshape(2, 3).copy(),
        optical_frame=_text(place, "optical_frame"),
        parent_frame=parent or None,
        parent_from_optical=place["parent_from_optical"].reshape(3, 4).copy() if parent else None,
    )


def _channels(header: np.void, segment: bytes) -> tuple[int, tuple[str, ...]]:
    """Side of a cell, and the names of the channels; 0 and none without their plane."""
    planes = [entry for entry in header["planes"][: int(header["plane_count"])] if _text(entry, "name") == "channels"]
    if not planes:
        return 0, ()
    plane, block = planes[0], np.frombuffer(segment, abi.CHANNEL_BLOCK, 1, abi.CHANNEL_OFFSET)[0]
    cell, count = int(block["cell_side"]), int(block["count"])
    _ensure(_text(plane, "order") == "CHW", "planes.order", _text(plane, "order"))
    _ensure(int(plane["ndim"]) == 3, "planes.ndim", plane["ndim"])
    _ensure(0 < cell, "channels.cell_side", cell)
    _ensure(count == int(plane["shape"][0]) and count <= len(block["names"]), "channels.count", count)
    return cell, tuple(_decoded(name, "channels.names") for name in block["names"][:count])


def _text(struct: np.void, field: str) -> str:
    return _decoded(struct[field], field)


def _decoded(text: bytes, field: str) -> str:
    padded = bytes(text)
    try:
        return unpadded(padded).decode("utf-8")
    except UnicodeDecodeError:
        _malformed(field, padded)


def unpadded(text: bytes) -> bytes:
    """The text before the first NUL."""
    return text.split(b"\0", 1)[0]


def _ensure(holds: bool, field: str, value: object) -> None:
    if not holds:
        _malformed(field, value)


def _malformed(field: str, value: object) -> NoReturn:
    raise BrokenSegment(f"invalid segment: {field} is {value}")


def opened(descriptor: int) -> Segment:
    """Opens the segment behind ``descriptor``, and closes the descriptor in any case."""
    try:
        return Segment(descriptor)
    except OSError as error:
        raise FoveateError(f"cannot map the segment: {error.strerror}") from error
    finally:
        os.close(descriptor)
