"""The engine: pictures in, tokens out."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _native
from ._native import EngineError
from .arrays import BLACK, Color, Colorimetry, Image, Picture, picture
from .batches import Batches, Fixation, each, maps, pictures
from .keys import LayoutKeys, layout_keys
from .tokens import Tokens, made, spec

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: What a tile looks like, in sums over its pixels; ``docs/reference/relevance.md`` says what they are.
FEATURES = np.dtype(
    [
        ("count", "<u4"),
        ("luma", "<u4"),
        ("luma_squared", "<u4"),
        ("differences", "<u4", 2),
        ("gradient", "<u4", 2),
        ("gradient_squared", "<u4", 2),
        ("gradient_product", "<i4"),
        ("coarse_differences", "<u4"),
        ("coarse_squared", "<u4"),
        ("strokes", "<u4", 2),
        ("histogram", "<u4", 16),
        ("color", "<u4", 3),
    ]
)

#: Most pixels of a picture from a file, where no other number is given.
MAX_PIXELS = 128_000_000

#: Time from one picture to the next where none is given, in ns.
_FRAME_NS = 33_333_333


class _OnBackend:
    """What runs on a backend, and may leave it for the CPU."""

    _native: Any

    @property
    def backend(self) -> str:
        """``"cpu"`` or ``"vulkan"``; a GPU that is not required and fails is left for the CPU."""
        return self._native.info()[0]

    @property
    def device(self) -> str:
        """Name of the processor or GPU."""
        return self._native.info()[1]

    @property
    def reason(self) -> str:
        """Why it is the backend; after a GPU was left, what failed."""
        return self._native.info()[2]


class Engine(_OnBackend):
    """A backend, and the threads that work for it. Any number of pyramids and batches are made from one.

    Any thread may use it; work is done without Python's global lock. It belongs to the process that made it: after a fork,
    make one in each child. It cannot be pickled.

    :ivar threads: Threads that share a stage.
    """

    def __init__(self, backend: str = "auto", device: str | None = None, threads: int | None = None) -> None:
        """
        :param backend: ``"auto"`` (a GPU if there is one), ``"cpu"`` or ``"vulkan"``.
        :param device: part of a GPU's name.
        :param threads: threads that share a stage, from 1 on; None is one per processor, up to 4.
        :raises ValueError: if an argument is none of these.
        :raises BackendError: if Vulkan is required, and there is no such device.
        """
        if threads is not None and not 1 <= threads <= 64:
            raise ValueError(f"threads={threads} (expected a number from 1 to 64, or None)")
        self._native = _native.Engine(backend, device, threads)
        self._batches = Batches(self._native)
        self.threads = self._native.threads

    def __repr__(self) -> str:
        try:
            return f"<foveate_engine.Engine on {self.device} ({self.backend})>"
        except EngineError as error:
            return f"<foveate_engine.Engine: {error}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Engine has threads and may have a device, and cannot be pickled: make one in each process")

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends it. Pyramids that were made from it stay."""
        self._batches.close()
        self._native.close()

    def pyramid(
        self,
        image: Image,
        format: str | None = None,
        *,
        matrix: str | None = None,
        range: str | None = None,
        threshold: int | str = 0,
        background: Color = BLACK,
    ) -> Pyramid:
        """The pyramid of a picture, resident on the device.

        :param image: the picture; see :func:`foveate_engine.arrays.picture` for what is taken. The call begins with a copy
            of it.
        :param format: its format, as GStreamer names it; None is by shape: gray, RGB or RGBA.
        :param matrix: of Y'CbCr: ``"bt601"``, ``"bt709"``, ``"bt2020"``, ``"fcc"`` or ``"smpte240m"``; None is BT.709 above
            576 lines, and BT.601 else, as GStreamer has it.
        :param range: ``"full"`` or ``"limited"``; None is full for RGB and gray, and limited else.
        :param threshold: by so much may a sample of a later picture differ, 0 to 255, and not count as changed; ``"auto"``
            measures the camera's noise.
        :param background: R, G and B, 0 to 255, on which RGBA and BGRA are composited, in later pictures too. RGBx has no
            alpha.
        :raises TypeError: if the picture holds no 8-bit samples in memory of the CPU.
        :raises ValueError: if its shape or another argument is wrong.
        :raises BackendError: if the device refuses.
        """
        checked = color_of(background)
        return Pyramid(self, picture(image, format, background=checked), matrix, range, threshold, checked)

    def batch(
        self,
        images: Sequence[Image] | NDArray[np.uint8],
        fixations: Fixation | Sequence[Fixation] | None = None,
        *,
        format: str | None = None,
        matrix: str | None = None,
        range: str | None = None,
        relevance: ArrayLike | Sequence[ArrayLike | None] | None = None,
        background: Color = BLACK,
        **layout: Unpack[LayoutKeys],
    ) -> list[Tokens]:
        """Tokens of many pictures of one size, the same bytes as one by one: on a GPU up to 32 of them in one submission, on
        the CPU a picture to each thread.

        :param images: pictures of one size and format, as :meth:`pyramid` takes them, or an array of them, [B, H, W, 3] and
            so on.
        :param fixations: where to look: one point for all, or for each picture a point or a list of points; None is the
            middle.
        :param format: as for :meth:`pyramid`; so are ``matrix``, ``range`` and ``background``.
        :param relevance: a map for each picture, or None; as for :meth:`Pyramid.sample`.
        :param layout: keys of :class:`foveate_engine.keys.LayoutKeys`.
        :returns: the tokens of each picture, in order.
        :raises TypeError: as for :meth:`pyramid`.
        :raises ValueError: if the pictures differ in size or format, or an argument is wrong.
        :raises BackendError: if the device refuses.
        """
        checked = spec(layout_keys(**layout))
        tokens: list[Tokens] = []
        for read in pictures(images, format, color_of(background)):
            first, start, stop = read[0], len(tokens), len(tokens) + len(read)
            colors = Colorimetry.of(first.format, first.extent[1], matrix, range)
            points = [fixations_of(given, first.extent) for given in each(fixations, len(images))[start:stop]]
            cells = [weights(given) for given in maps(relevance, len(images))[start:stop]]
            batch = self._batches.of(checked, first, colors, len(images))
            arrays = batch.sample([image.planes for image in read], points, cells)
            tokens.extend(made(checked, first.extent, at, given) for at, given in zip(points, arrays, strict=True))
        return tokens

    def folder(
        self,
        path: str | PathLike[str] | Iterable[str | PathLike[str]],
        place: tuple[float, float] = (0.5, 0.5),
        *,
        deep: bool = False,
        unreadable: str = "skip",
        progress: bool | None = None,
        max_pixels: int = MAX_PIXELS,
        background: Color = BLACK,
        gray_range: tuple[int, int] | str | None = None,
        **layout: Unpack[LayoutKeys],
    ) -> Folder:
        """Tokens of the pictures of a folder, of any size, decoded ahead on threads of their own, within 512 MiB; those of
        one size are sampled together.

        :param path: the folder, whose pictures come in the natural order of their names (``2.png`` before ``10.png``), or
            the files themselves. Of a file the first picture is taken, upright as its EXIF says, in 8 bits.
        :param place: where to look in each, as shares of width and height, 0 to 1.
        :param deep: the pictures of its folders, too, each after those beside it.
        :param unreadable: ``"skip"`` leaves out files that cannot be read, and keeps them in :attr:`Folder.skipped`;
            ``"refuse"`` ends with an error at the first.
        :param progress: whether a bar is shown on standard error; None is only if that is a terminal.
        :param max_pixels: a picture of more cannot be read.
        :param background: R, G and B, 0 to 255, on which what is transparent is composited.
        :param gray_range: (low, high), the samples of 16-bit gray that become black and white; ``"auto"`` takes those of
            each picture, without the outermost thousandth; None takes (0, 65535), and warns where samples become equal.
            ``tokens.gray_range`` has it.
        :param layout: keys of :class:`foveate_engine.keys.LayoutKeys`.
        :returns: an iterator of the tokens of each file; ``tokens.source`` is its path.
        :raises FileNotFoundError: if there is no such folder; other OSErrors if it cannot be read.
        :raises ValueError: if it has no pictures, or an argument is wrong.
        """
        options = (pixels_of(max_pixels), color_of(background), gray_of(gray_range))
        return Folder(self, path, place, deep, unreadable, progress, spec(layout_keys(**layout)), options)

    def video(
        self,
        source: str | PathLike[str] | None = None,
        *,
        pipeline: str | None = None,
        gaze: Mapping[str, Any] | None = None,
        frames: int | None = None,
        start: float = 0.0,
        threshold: int | str = "source",
        max_pixels: int = MAX_PIXELS,
        background: Color = BLACK,
        gray_range: tuple[int, int] | str | None = None,
        **layout: Unpack[LayoutKeys],
    ) -> Video:
        """Tokens of every frame of a clip, as ``foveate extract`` makes them; needs a build with the feature ``gst``.

        :param source: a file, a folder of pictures of one size, or an ``http(s)://`` address.
        :param pipeline: a gst-launch description instead, which ends in ``appsink name=frames`` and is not live.
        :param gaze: who chooses where to look, as ``[stream.view.gaze]`` of the daemon has it: {"policy": "saliency"},
            {"policy": "fixed", "x": 0.5, "y": 0.5}, {"policy": "relevance", "scorer": path} and so on; None is the middle.
        :param frames: ends after so many.
        :param start: leaves out the frames before this time of the clip, in seconds; they are decoded, and keep their
            numbers.
        :param threshold: as for :meth:`pyramid`, or ``"source"``: 0 for pictures and what no lossy codec made, ``"auto"``
            for others.
        :param max_pixels: as for :meth:`folder`, of a folder of pictures; so are ``background`` and ``gray_range``, of a
            clip too, where ``"auto"`` takes the samples of the first frame.
        :param layout: keys of :class:`foveate_engine.keys.LayoutKeys`.
        :returns: an iterator of the tokens of each frame.
        :raises EngineError: if this build has no GStreamer, or the clip cannot be played; of a clip that fails later, the
            frames before have been given.
        :raises ValueError: if an argument is wrong.
        """
        if (source is None) == (pipeline is None):
            raise ValueError("either `source` or `pipeline` is expected")
        if frames is not None and frames < 1:
            raise ValueError(f"frames={frames} (expected a number from 1 on, or None)")
        if not (math.isfinite(start) and 0 <= start < 2**32):
            raise ValueError(f"start={start} (expected a time in seconds from 0 on)")
        keys = {**layout_keys(**layout), "gaze": dict(gaze or {"policy": "fixed"})}
        by_source = threshold == "source"
        steps = None if by_source else steps_of(threshold)
        options = (by_source, pixels_of(max_pixels), color_of(background), gray_of(gray_range))
        return Video(self, source, pipeline, frames, start, steps, spec(keys), options)


class Video(_OnBackend):
    """The tokens of the frames of a clip, one after the other. ``Engine.video`` makes it.

    Leaving it early, as by ``break``, and :meth:`close` stop the decoder.
    """

    def __init__(
        self,
        engine: Engine,
        source: str | PathLike[str] | None,
        pipeline: str | None,
        frames: int | None,
        start: float,
        steps: int | None,
        checked: _native.Spec,
        options: tuple[bool, int, Color, tuple[int, int] | str | None],
    ) -> None:
        if not hasattr(_native, "Video"):
            raise EngineError(
                "this build of foveate_engine has no GStreamer: install it with the feature `gst`, as "
                "pip install ./python/engine --config-settings=build-args='--features gst', which needs GStreamer's "
                "-dev packages"
            )
        self._source = str(pipeline) if source is None else fspath(source)
        self._native = _native.Video(engine._native, self._source, source is None, checked, steps, *options)
        self._spec, self._left, self._start_ns = checked, frames, round(start * 1e9)

    @property
    def duration(self) -> float | None:
        """Duration of the clip in seconds, if it is known."""
        return self._native.duration

    def __iter__(self) -> Video:
        return self

    def __next__(self) -> Tokens:
        frame = None if self._left == 0 else self._native.next_frame(self._start_ns)
        if frame is None:
            raise StopIteration
        if self._left is not None:
            self._left -= 1
        (frame_seq, pts_ns), extent, points, (dirty, count), bounds, arrays, gray = frame
        seconds = None if pts_ns is None else pts_ns / 1e9
        tokens = made(self._spec, extent, points, arrays, frame_seq, bounds, self._source)
        return replace(tokens, seconds=seconds, changed=dirty / count, gray_range=gray and (gray[0], gray[1]))

    def __enter__(self) -> Video:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Video is being played, and cannot be pickled: open it in each process")

    def close(self) -> None:
        """Ends it, and stops the decoder."""
        self._native.close()


def decode(
    source: str | PathLike[str] | bytes | bytearray | memoryview,
    *,
    max_pixels: int = MAX_PIXELS,
    background: Color = BLACK,
    gray_range: tuple[int, int] | None = None,
) -> NDArray[np.uint8]:
    """The pixels of a file: JPEG, PNG, WebP, TIFF, GIF, BMP or PNM.

    :param source: its path, or its bytes.
    :param max_pixels: a picture of more is refused before it is decoded.
    :param background: R, G and B, 0 to 255, on which what is transparent is composited.
    :param gray_range: (low, high), the samples of 16-bit gray that become black and white; None takes (0, 65535), and warns
        where samples become equal.
    :returns: [H, W, 3] uint8, R, G, B: the first picture, upright as its EXIF says, in 8 bits.
    :raises OSError: if the file cannot be read.
    :raises EngineError: if it is not a regular file, its picture is damaged or cut off, or has too many pixels.
    """
    if isinstance(gray_range, str):
        raise ValueError(f"gray_range={gray_range!r} (expected (low, high) or None): a chosen range could not be returned")
    options = (pixels_of(max_pixels), color_of(background), gray_of(gray_range))
    if isinstance(source, (bytes, bytearray, memoryview)):
        pixels, (width, height), warning = _native.decode(bytes(source), *options)
    else:
        pixels, (width, height), warning = _native.decode_file(fspath(source), *options)
    if warning:
        warnings.warn(warning, stacklevel=2)
    return pixels.reshape(height, width, 3)


class Folder(_OnBackend):
    """The tokens of files, one after the other. ``Engine.folder`` makes it.

    Leaving it early, as by ``break``, ends the decoding; so does :meth:`close`.

    :ivar skipped: The files that could not be read so far: the path and the reason of each.
    """

    def __init__(
        self,
        engine: Engine,
        path: str | PathLike[str] | Iterable[str | PathLike[str]],
        place: tuple[float, float],
        deep: bool,
        unreadable: str,
        progress: bool | None,
        checked: _native.Spec,
        options: tuple[int, Color, tuple[int, int] | str | None],
    ) -> None:
        if unreadable not in ("skip", "refuse"):
            raise ValueError(f'unreadable={unreadable!r}: "skip" or "refuse" is expected')
        if not all(0 <= share <= 1 for share in place):
            raise ValueError(f"place={place} (expected shares of width and height, 0 to 1)")
        files = _native.listed(path, deep) if isinstance(path, (str, PathLike)) else list(path)
        if not files:
            raise ValueError("path is an empty list (expected at least one file)")
        self._paths = [fspath(file) for file in files]
        self._native = _native.Folder(engine._native, checked, self._paths, place, os.cpu_count() or 1, *options)
        self._spec, self._refuses = checked, unreadable == "refuse"
        self._shows = sys.stderr.isatty() if progress is None else progress
        self._ready: list[Any] = []
        self._done, self._has_warned = 0, False
        self.skipped: list[tuple[str, str]] = []

    def __len__(self) -> int:
        """Number of files, the unreadable ones included."""
        return len(self._paths)

    def __iter__(self) -> Folder:
        return self

    def __next__(self) -> Tokens:
        while True:
            if not self._ready:
                self._ready = self._native.next_files()[::-1]
                if not self._ready:
                    self._show(last=True)
                    raise StopIteration
            path, seen, error, gray = self._ready.pop()
            self._done += 1
            self._show()
            if seen is None:
                self.skipped.append((fspath(path), str(error)))
                if self._refuses:
                    self.close()
                    raise EngineError(f"{fspath(path)} {error}; unreadable=\"skip\" leaves such files out")
                continue
            extent, point, arrays = seen
            tokens = made(self._spec, extent, [point], arrays, source=fspath(path))
            if gray is None:
                return tokens
            (low, high), loss = gray
            if loss and not self._has_warned:
                self._has_warned = True
                warnings.warn(f"{fspath(path)}: {loss}", stacklevel=2)
            return replace(tokens, gray_range=(low, high))

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Folder is being read, and cannot be pickled: open it in each process")

    def close(self) -> None:
        """Ends it, and the threads that decode ahead."""
        self._native.close()

    def _show(self, last: bool = False) -> None:
        if not self._shows:
            return
        total, width = len(self._paths), 40
        filled = width * self._done // total
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        end = "\n" if last else ""
        print(
            f"\r[{'#' * filled}{' ' * (width - filled)}] {self._done}/{total}{skipped} ",
            end=end,
            file=sys.stderr,
            flush=True,
        )


class Pyramid:
    """A picture, every level of it, and what changed since the one before. ``Engine.pyramid`` makes it.

    One thread at a time works on it; others wait. Arrays that it returns are the caller's own, and stay when it is closed.

    :ivar extent: Width and height of the picture in pixels.
    :ivar format: The picture's format.
    :ivar colorimetry: How its samples become RGB.
    """

    def __init__(
        self,
        engine: Engine,
        image: Picture,
        matrix: str | None,
        range: str | None,
        threshold: int | str,
        background: Color,
    ) -> None:
        self._background = background
        steps = steps_of(threshold)
        self.extent, self.format = image.extent, image.format
        self.colorimetry = Colorimetry.of(image.format, image.extent[1], matrix, range)
        colors = (self.colorimetry.matrix, self.colorimetry.range)
        self._native = _native.Pyramid(engine._native, image.planes, self.format, self.extent, *colors, steps, 0)

    def __repr__(self) -> str:
        width, height = self.extent
        return f"<foveate_engine.Pyramid of {width} x {height}, {self.format}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Pyramid lies in its device's memory, and cannot be pickled: pickle the picture, or its tokens")

    def __enter__(self) -> Pyramid:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Gives its memory back. Arrays that were made from it stay."""
        self._native.close()

    @property
    def frame_seq(self) -> int:
        """Number of the newest picture, from 1."""
        return self._native.frame_seq

    @property
    def level_count(self) -> int:
        """Number of levels; the sides of each are half of those before, rounded up."""
        return len(self._native.level_extents)

    def update(self, image: Image, seconds: float | None = None) -> NDArray[np.bool_]:
        """Takes in the next picture: only tiles of 32 x 32 pixels that changed are read into the pyramid.

        :param image: of the same shape and format as the first. The call begins with a copy of it.
        :param seconds: its time since the first picture, ascending, for what moves and when; None is a thirtieth after the
            one before. Tokens do not depend on it.
        :returns: which tiles changed, [rows, columns].
        :raises TypeError: as for :meth:`Engine.pyramid`.
        :raises ValueError: if it has another shape, or its time is before that of the last.
        """
        given = picture(image, self.format, background=self._background)
        if given.extent != self.extent:
            (width, height), (own_width, own_height) = given.extent, self.extent
            raise ValueError(
                f"image is {width} x {height} pixels, and the pyramid {own_width} x {own_height}: make another pyramid "
                "for another size"
            )
        before = self._native.time_ns
        if seconds is None:
            time_ns = before + _FRAME_NS
        elif math.isfinite(seconds) and before <= seconds * 1e9 < 2**63:
            time_ns = round(seconds * 1e9)
        else:
            raise ValueError(f"seconds={seconds} (expected a time from {before / 1e9} on, that of the picture before)")
        tiles = self._native.update(given.planes, time_ns)
        columns, rows = self._native.tile_grid
        return tiles.view(np.bool_).reshape(rows, columns)

    def level(self, level: int) -> NDArray[np.uint8]:
        """A level, [H, W, 3] uint8, R, G, B: each texel is the mean of the 2^level x 2^level source pixels under it, rounded
        once.

        :param level: 0, the picture itself, to :attr:`level_count` - 1.
        :raises IndexError: if there is no such level.
        """
        extents = self._native.level_extents
        if not 0 <= level < len(extents):
            raise IndexError(f"level={level}: this pyramid has the levels 0 to {len(extents) - 1}")
        width, height = extents[level]
        return self._native.level(level).reshape(height, width, 3)

    def sample(
        self,
        fixation: Fixation | None = None,
        *,
        relevance: ArrayLike | None = None,
        **layout: Unpack[LayoutKeys],
    ) -> Tokens:
        """Tokens of the newest picture, byte for byte those of the daemon for the same place.

        :param fixation: where to look, x and y in source pixels, or several such points; by default the middle.
        :param relevance: how much each part of the picture matters, [rows, columns] of cells that divide it evenly: weights
            from 1/16 to 16 (others are clamped), such as :meth:`relevance` returns.
        :param layout: keys of :class:`foveate_engine.keys.LayoutKeys`: ``layout``, ``budget``, ``patch``,
            ``dtype`` and more.
        :raises TypeError: if there is no such argument.
        :raises ValueError: if one is wrong, or does not go with another.
        """
        checked = spec(layout_keys(**layout))
        points = fixations_of(fixation, self.extent)
        arrays = self._native.sample(checked, points, weights(relevance))
        return made(checked, self.extent, points, arrays, self.frame_seq, self._native.bounds)

    def features(self) -> NDArray[Any]:
        """What each tile of 32 x 32 pixels looks like, [rows, columns] of :data:`FEATURES`, in sums over its pixels."""
        columns, rows = self._native.tile_grid
        return self._native.features().view(FEATURES).reshape(rows, columns)

    @property
    def cell(self) -> int:
        """Side of a cell of :meth:`channels`, in source pixels."""
        return self._native.cell

    def channels(self) -> dict[str, NDArray[np.float32]]:
        """What is known about each cell of the picture, by name, [rows, columns] float32 each;
        ``docs/reference/relevance.md`` has the table.

        What is about the past, such as ``change`` and ``motion_x``, counts from the first call of this or :meth:`relevance`
        on: call it once before the first :meth:`update`. Nobody looks anywhere here, so ``eccentricity`` and ``unseen`` are
        1.
        """
        cells, (columns, rows) = self._native.channels()
        names = _native.channel_names()
        return dict(zip(names, cells.reshape(len(names), rows, columns), strict=True))

    def relevance(
        self,
        scorer: str | PathLike[str] | None = None,
        weights: Mapping[str, float] | None = None,
        gain: float = 0.5,
    ) -> NDArray[np.float64]:
        """How much each part of the picture matters, [rows, columns] float64, 1/16 to 16, 1 on average, for :meth:`sample`.

        :param scorer: a file as ``foveate.learn`` writes it; None is the one that needs no training.
        :param weights: what channels add to the score, in octaves for each of a channel's units, by name.
        :param gain: exponent of the weights, 0 (nothing) to 1.
        :raises ValueError: if the file is not a scorer, or an argument is wrong.
        """
        given = dict(weights or {})
        unknown = set(given) - set(_native.channel_names())
        if unknown:
            raise ValueError(
                f"weights names {', '.join(map(repr, sorted(unknown)))}; the channels are "
                f"{', '.join(_native.channel_names())}"
            )
        if not all(math.isfinite(weight) for weight in given.values()):
            raise ValueError("invalid weights (expected finite numbers)")
        if not 0 <= gain <= 1:
            raise ValueError(f"gain={gain} (expected a number from 0 to 1)")
        cells, (columns, rows) = self._native.relevance(None if scorer is None else fspath(scorer), given, gain)
        return cells.reshape(rows, columns)


def steps_of(threshold: int | str) -> int | None:
    """A threshold as the engine takes it; None is ``"auto"``.

    :raises ValueError: if it is none.
    """
    if threshold == "auto":
        return None
    if isinstance(threshold, int) and 0 <= threshold <= 255:
        return threshold
    raise ValueError(f'threshold={threshold!r}: a whole number from 0 to 255, or "auto", is expected')


def color_of(given: Color) -> Color:
    """A colour as the engine takes it.

    :raises ValueError: if it is none.
    """
    if (
        isinstance(given, (tuple, list))
        and len(given) == 3
        and all(isinstance(part, int) and 0 <= part <= 255 for part in given)
    ):
        return (given[0], given[1], given[2])
    raise ValueError(f"background={given!r} (expected R, G and B, each a whole number from 0 to 255)")


_GrayRange = TypeVar("_GrayRange", bound="tuple[int, int] | str | None")


def gray_of(given: _GrayRange) -> _GrayRange:
    """The scaling of 16-bit gray, as the engine takes it.

    :raises ValueError: if the range is invalid.
    """
    if given is None or given == "auto":
        return given
    if isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(sample, int) for sample in given):
        low, high = given
        if 0 <= low < high <= 65535:
            return cast(_GrayRange, (low, high))
    raise ValueError(f'gray_range={given!r} (expected (low, high) with 0 <= low < high <= 65535, "auto" or None)')


def pixels_of(given: int) -> int:
    """Most pixels as the engine takes them.

    :raises ValueError: if it is not a whole number from 1 on.
    """
    if isinstance(given, int) and 1 <= given < 2**32:
        return given
    raise ValueError(f"max_pixels={given!r} (expected a whole number from 1 on)")


def fixations_of(
    given: Fixation | None, extent: tuple[int, int]
) -> list[tuple[float, float]]:
    """Points as the engine takes them; None is the middle of a picture of ``extent``.

    :raises ValueError: if they are not points.
    """
    if given is None:
        return [(extent[0] / 2, extent[1] / 2)]
    try:
        points = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        points = np.empty(0)
    if points.shape == (2,):
        points = points[None]
    if points.ndim != 2 or points.shape[1] != 2 or not len(points):
        raise ValueError(f"fixation={given!r} (expected (x, y) in source pixels, or a list of such points)")
    return cast("list[tuple[float, float]]", [tuple(point) for point in points.tolist()])


def weights(relevance: ArrayLike | None) -> NDArray[np.float64] | None:
    """A map as the engine takes it.

    :raises ValueError: if it is not a map.
    """
    if relevance is None:
        return None
    try:
        cells = np.ascontiguousarray(relevance, np.float64)
    except (TypeError, ValueError):
        cells = np.empty(0)
    if cells.ndim != 2 or not cells.size:
        raise ValueError("relevance must be an array of numbers, [rows, columns]")
    return cells
