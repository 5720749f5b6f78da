"""Pictures as arrays: whatever holds 8-bit samples, as the engine reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

import numpy as np
from numpy.typing import NDArray

from . import _native

#: Bytes of a pixel, of the formats with one plane.
PIXEL_BYTES = {"GRAY8": 1, "YUY2": 2, "RGB": 3, "BGR": 3, "RGBA": 4, "BGRA": 4, "RGBx": 4, "BGRx": 4}

#: Formats with a plane of luma, and chroma at half width and half height.
PLANAR = ("NV12", "I420")

#: Formats with alpha.
_WITH_ALPHA = ("RGBA", "BGRA")

#: R, G and B.
Color = tuple[int, int, int]

#: What lies behind what is transparent, unless another colour is given.
BLACK = (0, 0, 0)

#: Modes of Pillow's images: the one that has the same colours as samples of 8 bits, and the format of that.
_PILLOW_MODES = {
    **{mode: ("L", "GRAY8") for mode in ("1", "L")},
    **{mode: ("RGB", "RGB") for mode in ("RGB", "P", "CMYK", "YCbCr", "HSV")},
    **{mode: ("RGBA", "RGBA") for mode in ("RGBA", "RGBa", "LA", "La", "PA")},
    "RGBX": ("RGBX", "RGBx"),
}

#: What the samples of libvips's images may mean; others are neither gray nor RGB.
_VIPS_INTERPRETATIONS = ("b-w", "multiband", "rgb", "srgb")

#: The matrix of Y'CbCr where none is given, as GStreamer chooses it: BT.709 above so many lines, else BT.601.
_STANDARD_LINES = 576


@dataclass(frozen=True)
class Colorimetry:
    """How samples become RGB.

    :ivar matrix: ``"bt601"``, ``"bt709"``, ``"bt2020"``, ``"fcc"`` or ``"smpte240m"``; of RGB and gray pictures it means
        nothing.
    :ivar range: ``"full"``, 0 to 255, or ``"limited"``, 16 to 235.
    """

    matrix: str
    range: str

    @classmethod
    def of(cls, format: str, height: int, matrix: str | None, range: str | None) -> Colorimetry:
        """What is given, or as GStreamer assumes it: full range for RGB and gray, and limited for Y'CbCr, by BT.709 above
        576 lines and BT.601 else."""
        is_ycbcr = format in PLANAR or format == "YUY2"
        return cls(
            matrix or ("bt709" if _STANDARD_LINES < height else "bt601"), range or ("limited" if is_ycbcr else "full")
        )


@dataclass(frozen=True)
class Picture:
    """A picture as the engine reads it.

    :ivar planes: The bytes of each plane, [bytes] uint8, with the bytes from one row to the next.
    :ivar format: Its format, as GStreamer names it.
    :ivar extent: Width and height in pixels.
    """

    planes: list[tuple[NDArray[np.uint8], int]]
    format: str
    extent: tuple[int, int]


#: A picture: an array, or the planes of one.
Image = Union[Any, "tuple[Any, ...]"]


def picture(image: Image, format: str | None = None, name: str = "image", background: Color = BLACK) -> Picture:
    """Reads a picture into memory of its own: the original may change once this returns.

    :param image: what :func:`array` takes, or an image of Pillow in any mode that Pillow converts to RGB or gray: [H, W, 3]
        (RGB), [H, W, 4] (RGBA) or [H, W] (gray); with a ``format`` that says so, BGR and the like, [H, W, 2] (YUY2) or [H *
        3 / 2, W] (NV12 and I420 with even sides, as OpenCV has them). Planes by themselves are a tuple: (y [H, W], uv [H /
        2, W / 2, 2]) for NV12, (y, u, v) for I420; odd sides are rounded up.
    :param format: ``"RGB"``, ``"BGR"``, ``"RGBA"``, ``"BGRA"``, ``"RGBx"``, ``"BGRx"``, ``"GRAY8"``, ``"NV12"``, ``"I420"``
        or ``"YUY2"``.
    :param name: what errors call it.
    :param background: R, G and B, on which RGBA and BGRA are composited.
    :raises TypeError: if it holds no 8-bit samples in memory of the CPU, or says that they are neither RGB nor gray.
    :raises ValueError: if its shape is none of these, or it says that it has another format.
    """
    if isinstance(image, tuple):
        format = format or {2: "NV12", 3: "I420"}.get(len(image), "NV12")
        if format not in PLANAR or len(image) != _plane_count(format):
            raise ValueError(f"{name} has {len(image)} planes; (y, uv) is expected as NV12, or (y, u, v) as I420")
        planes = [array(plane, f"{name}[{index}]") for index, plane in enumerate(image)]
        return _planar(planes, format, name)
    image, format = _said(image, format, name)
    return read(array(image, name), format, name, background)


def read(samples: NDArray[np.uint8], format: str | None, name: str, background: Color) -> Picture:
    """A picture in the memory of ``samples``, which nobody else has; as :func:`picture`."""
    format = format or _format_of(samples, name)
    if format in PLANAR:
        return _stacked(samples, format, name)
    if format not in PIXEL_BYTES:
        known = ", ".join([*PIXEL_BYTES, *PLANAR])
        raise ValueError(f"format={format!r} is unknown; expected one of {known}")
    count = PIXEL_BYTES[format]
    if samples.ndim == 2 and count == 1:
        samples = samples[:, :, None]
    if samples.ndim != 3 or samples.shape[2] != count:
        shape = "[H, W]" if count == 1 else f"[H, W, {count}]"
        raise ValueError(f"{name} has the shape {list(samples.shape)} (expected {shape} for {format})")
    height, width = samples.shape[:2]
    if format == "YUY2" and width % 2:
        raise ValueError(f"{name} is {width} pixels wide; YUY2 has them in pairs")
    if 0 in samples.shape:
        raise ValueError(f"{name} has the shape {list(samples.shape)} (expected at least one pixel)")
    if format in _WITH_ALPHA:
        _native.composite(samples, background if format == "RGBA" else background[::-1])
    return Picture([_rows(samples)], format, (width, height))


def _said(image: Any, format: str | None, name: str) -> tuple[Any, str | None]:
    """An image as something with samples, and their format where it says what they are; a shape alone does not tell RGB from
    HSV.
    """
    mode, interpretation = getattr(image, "mode", None), getattr(image, "interpretation", None)
    if isinstance(mode, str) and hasattr(image, "getbands") and hasattr(image, "convert"):
        return _converted(image, mode, format, name)
    if isinstance(interpretation, str) and interpretation not in _VIPS_INTERPRETATIONS:
        raise TypeError(
            f"{name} has the interpretation {interpretation!r} (expected RGB or gray): convert it with "
            "image.colourspace('srgb')"
        )
    if hasattr(image, "bgra") and hasattr(image, "__array_interface__"):
        # A screenshot of mss, whose fourth byte is padding.
        return image, format or "BGRx"
    return image, format


def _converted(image: Any, mode: str, format: str | None, name: str) -> tuple[Any, str]:
    """An image of Pillow in a mode that has samples of gray, RGB or RGBA."""
    if mode == "LAB":
        raise TypeError(
            f"{name} has the mode 'LAB' (expected RGB): convert it with PIL.ImageCms, from the profile 'LAB' to 'sRGB'"
        )
    if mode not in _PILLOW_MODES:
        raise TypeError(
            f"{name} has the mode {mode!r} (expected 8 bits a channel): scale its samples to 0 to 255, and convert it with "
            "image.convert('L')"
        )
    target, own = _PILLOW_MODES[mode]
    if "transparency" in image.info or getattr(getattr(image, "palette", None), "mode", None) == "RGBA":
        target, own = "RGBA", "RGBA"
    # One may leave alpha out, but not call red blue.
    if format not in (None, own) and (format, own) != ("RGBx", "RGBA"):
        raise ValueError(f"format={format!r}, and {name} has the mode {mode!r} (expected {own!r} or None)")
    if mode == "La":
        image = image.convert("LA")
    return (image if image.mode == target else image.convert(target)), format or own


def array(given: Any, name: str) -> NDArray[np.uint8]:
    """A copy of 8-bit samples. It is made while Python's global lock is held: at other times NumPy lets other threads move
    the memory.

    :param given: a NumPy array, or what has ``__dlpack__``, ``__array_interface__`` or the buffer protocol.
    :param name: what errors call it.
    :raises TypeError: if it is none of these, on another device, or of another type than uint8.
    """
    if not isinstance(given, np.ndarray):
        given = _imported(given, name)
    if isinstance(given, np.ma.MaskedArray) and given.mask.any():
        raise TypeError(f"{name} has masked samples; fill them first, as with {name}.filled(0)")
    if given.dtype != np.uint8:
        raise TypeError(
            f"{name} has the type {given.dtype} (expected uint8): pictures of 0 to 255 (scale and round others first)"
        )
    return _native.owned(given)


def _imported(given: Any, name: str) -> NDArray[Any]:
    try:
        if hasattr(given, "__dlpack_device__"):
            device = given.__dlpack_device__()[0]
            if device not in (1, 3):
                raise TypeError(f"{name} lies on another device (DLPack type {int(device)}); copy it to the CPU first")
            if not hasattr(np, "from_dlpack"):
                return np.asarray(given)
            return np.from_dlpack(given)
        if hasattr(given, "__array_interface__") or hasattr(given, "__array__"):
            return np.asarray(given)
        return np.asarray(memoryview(given))
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise TypeError(
            f"{name} is a {type(given).__name__}, which cannot be read ({error}); expected an array of uint8 with DLPack, "
            "__array_interface__ or the buffer protocol, on the CPU"
        ) from error


def _format_of(samples: NDArray[np.uint8], name: str) -> str:
    shape = samples.shape
    if samples.ndim == 2:
        return "GRAY8"
    by_count = {1: "GRAY8", 3: "RGB", 4: "RGBA"}
    if samples.ndim == 3 and shape[2] in by_count:
        return by_count[shape[2]]
    raise ValueError(
        f"{name} has the shape {list(shape)}; expected [H, W, 3] (RGB), [H, W, 4] (RGBA), [H, W] (gray), or another "
        "with `format`"
    )


def _plane_count(format: str) -> int:
    return 2 if format == "NV12" else 3


def _stacked(samples: NDArray[np.uint8], format: str, name: str) -> Picture:
    """A picture with its chroma below its luma."""
    if samples.ndim != 2 or samples.shape[0] % 3 or samples.shape[1] % 2 or 0 in samples.shape:
        raise ValueError(
            f"{name} has the shape {list(samples.shape)}; [H * 3 / 2, W] with even H and W is expected of {format}, or "
            "a tuple of planes"
        )
    rows, width = samples.shape
    height = rows * 2 // 3
    luma, chroma = samples[:height], samples[height:]
    if format == "NV12":
        return _planar([luma, chroma.reshape(height // 2, width // 2, 2)], format, name)
    halves = chroma.reshape(2, height // 2, width // 2)
    return _planar([luma, halves[0], halves[1]], format, name)


def _planar(planes: list[NDArray[np.uint8]], format: str, name: str) -> Picture:
    luma = planes[0]
    if luma.ndim != 2 or 0 in luma.shape:
        raise ValueError(f"{name}[0] has the shape {list(luma.shape)}; [H, W] is expected of luma")
    height, width = luma.shape
    half = ((height + 1) // 2, (width + 1) // 2)
    expected = (*half, 2) if format == "NV12" else half
    for index, plane in enumerate(planes[1:], 1):
        if plane.shape != expected:
            raise ValueError(f"{name}[{index}] has the shape {list(plane.shape)} (expected {list(expected)} for {format})")
    return Picture([_rows(plane) for plane in planes], format, (width, height))


def _rows(samples: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], int]:
    """The bytes of a plane, and those of a row."""
    return samples.reshape(-1), samples[0].size
