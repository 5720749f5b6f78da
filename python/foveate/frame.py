"""A frame of tokens: header, planes and records, and conversions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from . import picture, texels
from .errors import BrokenSegment, FoveateError, Lapped

if TYPE_CHECKING:
    from torch import Tensor

    from .segment import SegmentInfo

#: An array whose dtype depends on the view.
Texels = NDArray[Any]

#: Side of the tiles that change detection works on, in pixels.
_TILE_SIDE = 32

#: How to get planes that a view does not always publish.
_PLANE_REMEDIES = {
    "depth": "set `depth = true` for the view (needs [stream.depth])",
    "tiles": 'open the view with `layout = "adaptive"` and `memory = "canvas"`',
    "boxes": "set `boxes = true` for the view (needs [stream.depth] and [stream.camera])",
}


class Fixation(NamedTuple):
    """A point that a view looks at.

    :ivar x: Pixels right of the source's left edge.
    :ivar y: Pixels below the source's top edge.
    :ivar id: Number of the fixation in the view, from 1.
    :ivar since_frame: ``frame_seq`` of the first frame sampled around it.
    :ivar reason: The reason: ``"policy"``, ``"look"``, ``"attend"``, ``"saliency"`` or ``"relevance"``.
    :ivar weight: How strongly the map asked for it when it was chosen, as a share of the map's greatest value; 1 for
        a point.
    """

    x: float
    y: float
    id: int
    since_frame: int
    reason: str
    weight: float = 1.0


class Bounds(NamedTuple):
    """Largest possible errors of a frame's tokens.

    :ivar sample: Largest possible difference between a camera sample and the one in the pyramid, 0 to 255.
    :ivar rgb: Largest possible difference between a channel of a texel, before it is normalised, and the one made of the
        newest frame.
    """

    sample: int
    rgb: int


class Padded(NamedTuple):
    """A frame padded to the capacity of the view, for compiled graphs.

    :ivar pixels: [capacity, 3, P, P] of the frame's dtype; 0 beyond the frame's tokens.
    :ivar tokens: [capacity] of :data:`foveate.TOKEN`; 0 beyond the frame's tokens.
    :ivar mask: [capacity] of bool: whether it is a real token.
    """

    pixels: Texels
    tokens: NDArray[np.void]
    mask: NDArray[np.bool_]

    def torch(self, device: Any = "cpu") -> tuple[Tensor, Tensor]:
        """:attr:`pixels`, of the view's own dtype, bfloat16 included, and :attr:`mask`, as ``torch.Tensor``. On the CPU
        they share the memory of the arrays.

        :param device: their device, as PyTorch names it.
        """
        return _tensor(self.pixels, device), _tensor(self.mask, device)


@dataclass(eq=False, repr=False)
class Frame:
    """The tokens of one camera frame in one view. ``len(frame)`` is N.

    Frames that were read are copies. Borrowed frames have their planes in shared memory and end with the ``with``
    block; everything else in them is a copy too.

    :ivar info: The description of the segment: extent, patch side, normalisation, camera and more.
    :ivar ring_sequence: Counts the frames of the segment, from 1.
    :ivar frame_seq: Counts the frames of the stream, from 1; a gap is a dropped frame, or one that was not read.
    :ivar pts_ns: Presentation time in the stream in ns, or None if the source has none.
    :ivar capture_ns: When the frame was captured: CLOCK_MONOTONIC in ns.
    :ivar capture_unix_ns: The same time: CLOCK_REALTIME in ns since 1970. This is ``header.stamp`` of ROS.
    :ivar capture_clock: The source of these: ``"running-time"``, ``"reference"``, or ``"unknown"``, if the arrival
        was used.
    :ivar capture_error_ns: Bound of the error of CLOCK_REALTIME when the frame arrived, in ns, as the daemon's kernel
        promises; None if it promises nothing, or the capture time is of another clock.
    :ivar clock_steps: How often CLOCK_REALTIME was set since the daemon started: between two frames with different
        numbers ``capture_unix_ns`` jumped.
    :ivar arrival_ns: When the frame reached the daemon: CLOCK_MONOTONIC in ns.
    :ivar publish_ns: When the tokens were published: CLOCK_MONOTONIC in ns.
    :ivar fixations: Where the view looked, each in the place that it keeps: 1 to ``info.foveae``.
    :ivar bounds: Largest possible errors of the tokens.
    :ivar dirty_tiles: Tiles of 32 x 32 pixels that were ingested for this frame, of :attr:`tile_count`.
    :ivar tile_count: Tiles of the source.
    :ivar relevance_frame: ``frame_seq`` of the frame that the tokens' relevance was made from; 0 without a
        relevance map.
    :ivar asked_ns: When the message that led to the newest fixation reached the daemon: CLOCK_MONOTONIC in ns; 0 if
        none did.
    :ivar channels_frame: ``frame_seq`` of the frame that the plane ``channels`` was made from; 0 before the first
        decision of the view, and without that plane.
    :ivar depth_capture_ns: When the depth picture of the planes ``depth`` and ``boxes`` was captured: CLOCK_MONOTONIC in ns;
        None if the frame has none, and without those planes. Then all depths in them are NaN.
    :ivar depth_frame: Number of that picture, from 1: counts those of the depth pipeline; 0 if there is none.
    :ivar motion: How the picture moved up to frame :attr:`motion_frame`, [2, 3] float32: from (x, y, 1) in source pixels
        of the frame that the stream took before that one to source pixels of it. ``None`` if it is not known.
    :ivar motion_frame: ``frame_seq`` of that frame, an earlier one than this; 0 without :attr:`motion`.
    :ivar tokens: One record per token, [N] of :data:`foveate.TOKEN`. A token covers P ``sx`` + ``extra_width`` by P ``sy``
        + ``extra_height`` source pixels from (``x``, ``y``), :attr:`sizes`, and each of its P x P texels is the mean of
        the pixels under its share of them, :attr:`steps`; ``size`` is P. Real pixels have the texels [``first_column``,
        ``first_column`` + ``columns``) of the rows [``first_row``, ``first_row`` + ``rows``); the others are as
        ``info.outside`` says. ``box`` is what the token covers (x0, y0, x1, y1, half-open, in source pixels); ``group``
        its pyramid level, ring, window or block; ``fovea`` the index of its fixation; and ``changed_frame`` and
        ``relevance`` are as ``docs/reference/abi.md`` says.
    :ivar missed: Frames between this one and the one read before: skipped as older or too old, or overwritten by
        the writer.
    """

    info: SegmentInfo
    ring_sequence: int
    frame_seq: int
    pts_ns: int | None
    capture_ns: int
    capture_unix_ns: int
    capture_clock: str
    capture_error_ns: int | None
    clock_steps: int
    arrival_ns: int
    publish_ns: int
    fixations: tuple[Fixation, ...]
    bounds: Bounds
    dirty_tiles: int
    tile_count: int
    relevance_frame: int
    asked_ns: int
    channels_frame: int
    depth_capture_ns: int | None
    depth_frame: int
    motion: NDArray[np.float32] | None
    motion_frame: int
    tokens: NDArray[np.void]
    missed: int = field(default=0, init=False)
    _planes: dict[str, Texels] | None
    #: Of a borrowed frame: whether the writer has not replaced it.
    _is_held: Callable[[], bool] | None = field(default=None, init=False)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"<foveate.Frame {self.frame_seq} of {self.view}: {len(self)} tokens, {self.age_ns / 1e6:.1f} ms old>"

    @property
    def pixels(self) -> Texels:
        """The texels, [N, 3, P, P]: token, channel (R, G, B), row, column.

        uint8, float16 or float32, depending on the view's ``dtype``; bfloat16 as its bits in uint16, see :meth:`torch`.
        They are normalised: (value / 255 - ``info.mean``) / ``info.std``, except uint8, which is 0 to 255.

        :raises FoveateError: if the frame was borrowed and given back.
        """
        return self.planes["pixels"]

    @property
    def planes(self) -> Mapping[str, Texels]:
        """The arrays of the frame by name: :attr:`pixels` and ``relevance``, [N, ...] with an item for each token;
        ``channels``, [channels, rows, columns], if the view publishes some; and any that later daemons add.
        ``info.planes`` describes them; bfloat16 comes as its bits in uint16.

        :raises FoveateError: if the frame was borrowed and given back.
        """
        if self._planes is None:
            raise FoveateError("a borrowed frame ends with its `with` block: use view.read() for a copy that stays")
        return self._planes

    def plane(self, name: str) -> Texels:
        """One of :attr:`planes`, such as ``"relevance"``: [N] float32, the weight of each token in the layout.

        :raises FoveateError: if there is none with that name, as without depth or in a segment of an older daemon, or
            as for :attr:`planes`.
        """
        planes = self.planes
        if name not in planes:
            remedy = _PLANE_REMEDIES.get(name) or (
                f"its daemon follows ABI {self.info.abi[0]}.{self.info.abi[1]}, and a newer one may publish more"
            )
            raise FoveateError(
                f"{self.view} does not publish the plane {name!r}, only {', '.join(planes)}: {remedy}"
            )
        return planes[name]

    def channel(self, name: str) -> Texels:
        """A channel that the view publishes, such as ``"strokes"``: [rows, columns] float16 or float32, a number for
        each cell of ``info.cell`` pixels a side. It is of the frame :attr:`channels_frame`.

        :raises FoveateError: if it publishes no such channel, or as for :attr:`planes`.
        """
        planes = self.planes
        if name not in self.info.channels:
            published = ", ".join(self.info.channels) or "none"
            raise FoveateError(
                f"{self.view} does not publish the channel {name!r}, only {published}: name it in the view's key "
                '`channels`, with the policy "auto" or "relevance"'
            )
        return planes["channels"][self.info.channels.index(name)]

    @property
    def tiles(self) -> NDArray[np.uint64]:
        """Of each tile of 32 x 32 pixels the newest ``frame_seq`` that changed a pixel of it, [rows, columns] uint64, in a
        view with ``memory = "canvas"``.

        :raises FoveateError: in another view, or as for :attr:`planes`.
        """
        plane = self.plane("tiles")
        width, height = self.info.extent
        expected = (-(-height // _TILE_SIDE), -(-width // _TILE_SIDE), 8)
        if plane.shape != expected or plane.dtype != np.uint8:
            raise BrokenSegment(f"invalid segment: `tiles` is {plane.dtype} of {plane.shape} (expected uint8 of {expected})")
        return np.asarray(plane.view("<u8")[..., 0])

    @property
    def fixation(self) -> Fixation:
        """The first of :attr:`fixations`."""
        return self.fixations[0]

    @property
    def origins(self) -> NDArray[np.int32]:
        """Left and top edges of the tokens, [N, 2] int32: x and y in source pixels, negative outside the picture."""
        return np.stack([self.tokens["x"], self.tokens["y"]], axis=1)

    @property
    def sizes(self) -> NDArray[np.int32]:
        """Width and height of the tokens, [N, 2] int32, in source pixels, with what lies outside the picture."""
        return sizes_of(self.tokens, self.info.patch)

    @property
    def steps(self) -> NDArray[np.float64]:
        """Width and height of the tokens' texels, [N, 2] float64, in source pixels: :attr:`sizes` / P."""
        return self.sizes / self.info.patch

    @property
    def age_ns(self) -> int:
        """Time since the capture of the frame, in ns, now."""
        return max(0, time.clock_gettime_ns(time.CLOCK_MONOTONIC) - self.capture_ns)

    @property
    def view(self) -> str:
        """The view that it comes from, such as ``"front/robot"``."""
        return self.info.name

    @property
    def layout(self) -> str:
        """Name of the layout, such as ``"adaptive"``."""
        return self.info.layout

    @property
    def epoch(self) -> int:
        """Identity of the segment. Tokens of the same place, ``changed_frame`` and epoch have the same bytes."""
        return self.info.epoch

    @property
    def still_valid(self) -> bool:
        """Whether everything read from it so far belongs to this frame. Always true for a copy."""
        return self._planes is not None and (self._is_held is None or self._is_held())

    def centres(self) -> NDArray[np.float64]:
        """The centres of the tokens' boxes, [N, 2] float64: x and y in source pixels. That of a token outside the
        picture lies on the picture's edge."""
        box = self.tokens["box"].astype(np.float64)
        return (box[:, :2] + box[:, 2:]) / 2

    def grid(self) -> Texels:
        """:attr:`pixels` as a grid, [rows, columns, 3, P, P]; shares their memory.

        :raises FoveateError: if the tokens form no grid, as in all layouts but ``"uniform"``, or as for
            :attr:`pixels`.
        """
        if self.info.grid is None:
            raise FoveateError(
                f"the tokens of {self.view} do not form a grid, because its layout is {self.layout!r}: "
                'use a view with layout = "uniform"'
            )
        columns, rows = self.info.grid
        if len(self) != columns * rows:
            raise FoveateError(f"the frame has {len(self)} tokens, which do not form a grid of {columns} x {rows}")
        return self.pixels.reshape(rows, columns, *self.pixels.shape[1:])

    def rays(self) -> NDArray[np.float64]:
        """The directions of the tokens' centres.

        :returns: unit vectors in the camera's optical frame (x right, y down, z forward), [N, 3] float64; NaN outside
            the range of the distortion model.
        :raises FoveateError: if the stream has no camera model, or an unknown one.
        """
        camera = self.info.camera
        if camera is None:
            raise FoveateError(
                f"{self.info.stream} has no camera model: give it one with [stream.camera] in the daemon's configuration"
            )
        return camera.rays(self.centres())

    def padded(self) -> Padded:
        """The frame with a constant number of tokens, ``info.capacity``, and a mask. All of it is a copy;
        :meth:`Padded.torch` has it as tensors."""
        count, capacity = len(self), self.info.capacity
        pixels = np.zeros((capacity, *self.pixels.shape[1:]), self.pixels.dtype)
        tokens = np.zeros(capacity, self.tokens.dtype)
        pixels[:count], tokens[:count] = self.pixels, self.tokens
        return Padded(pixels, tokens, np.arange(capacity) < count)

    def rebuild(self, smooth: bool = True, box: Sequence[int] | None = None) -> NDArray[np.uint8]:
        """The picture rebuilt from the tokens.

        :param smooth: without the edges of texels and tokens, for models and people: Catmull-Rom splines between texels,
            exact where a texel is a pixel; :func:`foveate.picture.smoothed` is the definition. Otherwise each texel fills
            the source pixels whose centres lie in it, and the finest token is on top, which shows what the tokens are.
        :param box: the part of the picture to draw, (x0, y0, x1, y1) in source pixels, half-open; it takes a fraction of the
            time of all of it, and gives the same pixels. Cut to the picture.
        :returns: [height, width, 3] uint8, R, G, B, of the box if there is one; black where no token lies.
        :raises ValueError: if the box has no pixel of the picture.
        """
        width, height = self.info.extent
        x0, y0, x1, y1 = map(int, box or (0, 0, width, height))
        part = max(0, x0), max(0, y0), min(x1, width), min(y1, height)
        if part[2] <= part[0] or part[3] <= part[1]:
            raise ValueError(
                f"invalid `box` {(x0, y0, x1, y1)} (expected x0 < x1 and y0 < y1 over a picture of {width}x{height})"
            )
        draw = picture.smoothed if smooth else picture.replicated
        rgb = np.moveaxis(texels.rgb(self.pixels, self.info), 1, 3)
        return draw(self.tokens, rgb, self.info.extent, part)

    def torch(self, device: Any = "cpu", indices: Any = None) -> Tensor:
        """The texels as a ``torch.Tensor``, [N, 3, P, P], of the view's own dtype, bfloat16 included.

        On the CPU it shares the memory of :attr:`pixels` if that is a copy and ``indices`` is None.

        :param device: its device, as PyTorch names it.
        :param indices: take only these tokens, [M] of int: the tensor is [M, 3, P, P].
        """
        return _tensor(self.pixels if indices is None else self.pixels[indices], device)

    # What follows is for the ring that the frame comes from.

    def _own_planes(self) -> None:
        """Copies planes out of shared memory. The copy is valid only if the frame is :attr:`still_valid` afterwards."""
        self._planes = {name: items.copy() for name, items in self.planes.items()}

    def _lend(self, is_held: Callable[[], bool]) -> None:
        """Makes it a borrowed frame, which ends with :meth:`_give_back`."""
        self._is_held = is_held

    def _give_back(self) -> None:
        """Ends the borrowing.

        :raises Lapped: if the writer replaced the frame meanwhile.
        """
        is_valid = self.still_valid
        self._end()
        if not is_valid:
            raise Lapped(self.ring_sequence)

    def _end(self) -> None:
        """Removes the planes."""
        self._planes = None


class TokenInfo(Protocol):
    """What the models read of the description of tokens."""

    @property
    def layout(self) -> str: ...
    @property
    def patch(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def grid(self) -> tuple[int, int] | None: ...
    @property
    def outside(self) -> str: ...
    @property
    def extent(self) -> tuple[int, int]: ...
    @property
    def mean(self) -> Sequence[float]: ...
    @property
    def std(self) -> Sequence[float]: ...
    @property
    def epoch(self) -> int: ...


class TokenFrame(Protocol):
    """What the models read of a frame: a :class:`Frame`, or ``foveate_engine.Tokens``."""

    @property
    def info(self) -> TokenInfo: ...
    @property
    def tokens(self) -> NDArray[np.void]: ...
    @property
    def pixels(self) -> NDArray[Any]: ...


def sizes_of(tokens: NDArray[np.void], patch: int) -> NDArray[np.int32]:
    """:attr:`Frame.sizes` of records whose P is ``patch``."""
    sides = [tokens[step].astype(np.int32) * patch + tokens[extra] for step, extra in _SIDES]
    return np.stack(sides, axis=1)


#: The fields of a record that a token's width and height consist of.
_SIDES = (("sx", "extra_width"), ("sy", "extra_height"))


def _tensor(array: NDArray[Any], device: Any) -> Tensor:
    """``array`` as a tensor; the bits of bfloat16, the only uint16 there is, as what they mean."""
    import torch

    if not array.flags.writeable:
        # PyTorch has no read-only tensors.
        array = array.copy()
    if array.dtype != np.uint16:
        return torch.from_numpy(array).to(device)
    return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
