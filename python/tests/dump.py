"""Prints frames of a view as JSON, one a line, for comparison with the readers in other languages. Floating-point numbers
are given by the bits of a binary64.

``dump.py VIEW [COUNT] [--socket PATH]``: reads COUNT frames in order, or all up to the end of the stream.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import foveate
from foveate import abi, codes

_CLOCK_CODES = {name: code for code, name in codes.CAPTURE_CLOCKS.items()}
_REASON_CODES = {name: code for code, name in codes.FIXATION_REASONS.items()}
_DTYPE_CODES = {name: code for code, name in codes.DTYPE_NAMES.items()}
_BACKEND_CODES = {name: code for code, name in codes.BACKENDS.items()}
_OUTSIDE_CODES = {name: code for code, name in codes.OUTSIDES.items()}
_ROUNDING_CODES = {name: code for code, name in codes.ROUNDINGS.items()}
_MATRIX_CODES = {name: code for code, name in codes.COLOR_MATRICES.items()}
_RANGE_CODES = {name: code for code, name in codes.COLOR_RANGES.items()}
_TRANSFER_CODES = {name: code for code, name in codes.COLOR_TRANSFERS.items()}


def fnv1a_64(content: bytes) -> str:
    """The FNV-1a hash of 64 bits, in hexadecimal."""
    state = 0xCBF29CE484222325
    for byte in content:
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def bits_of(numbers: Any) -> list[int]:
    """The bits of numbers as binary64."""
    return [struct.unpack("<Q", struct.pack("<d", number))[0] for number in numbers]


def described_camera(camera: foveate.Camera | None) -> dict[str, Any] | None:
    """Every field of a camera."""
    if camera is None:
        return None
    pose = camera.parent_from_optical
    return {
        "distortion": camera.distortion,
        "optical_frame": camera.optical_frame,
        "parent_frame": camera.parent_frame or "",
        "k": bits_of(camera.k.flat),
        "coefficients": bits_of(camera.coefficients),
        "parent_from_optical": [] if pose is None else bits_of(pose.flat),
        "source_from_calibrated": bits_of(camera.source_from_calibrated.flat),
        "extent": list(camera.extent),
    }


def described_color(color: foveate.Color | None) -> dict[str, int]:
    """Its codes; 0 where nothing is known."""
    if color is None:
        return dict.fromkeys(("color_matrix", "color_range", "color_transfer", "color_assumed"), 0)
    return {
        "color_matrix": codes.COLOR_MATRIX_RGB if color.matrix is None else _MATRIX_CODES[color.matrix],
        "color_range": _RANGE_CODES[color.range],
        "color_transfer": 0 if color.transfer is None else _TRANSFER_CODES[color.transfer],
        "color_assumed": sum(bit for bit, name in codes.COLOR_ASSUMED.items() if name in color.assumed),
    }


def described_segment(info: foveate.SegmentInfo) -> dict[str, Any]:
    """Every field of a segment."""
    columns, rows = info.grid or (0, 0)
    return {
        "stream": info.stream,
        "view": info.view,
        "layout": info.layout,
        "pixel_format": info.pixel_format,
        "device": info.device,
        "abi_minor": info.abi[1],
        "epoch": info.epoch,
        "patch": info.patch,
        "dtype": _DTYPE_CODES[info.dtype],
        "capacity": info.capacity,
        "grid_columns": columns,
        "grid_rows": rows,
        "foveae": info.foveae,
        "outside": _OUTSIDE_CODES[info.outside],
        "rounding": _ROUNDING_CODES[info.rounding],
        "pixel_aspect_width": info.pixel_aspect[0],
        "pixel_aspect_height": info.pixel_aspect[1],
        **described_color(info.color),
        "width": info.extent[0],
        "height": info.extent[1],
        "backend": _BACKEND_CODES[info.backend],
        "slot_count": info.slot_count,
        "mean": bits_of(info.mean),
        "std": bits_of(info.std),
        "camera": described_camera(info.camera),
    }


def described_fixations(frame: foveate.Frame) -> list[dict[str, int]]:
    """Every field of the fixations in a slot."""
    blocks = [dict.fromkeys(abi.FIXATION_BLOCK.names or (), 0) for _ in range(abi.FOVEAE_MAX)]
    for block, fixation in zip(blocks, frame.fixations, strict=False):
        x, y, weight = bits_of((fixation.x, fixation.y, fixation.weight))
        block.update(
            id=fixation.id, x=x, y=y, since_frame=fixation.since_frame, weight=weight, reason=_REASON_CODES[fixation.reason]
        )
    return blocks


def described_head(frame: foveate.Frame) -> dict[str, Any]:
    """Every field of the header of a slot. Those that have another form in a frame come first; the others have their name
    there.
    """
    head: dict[str, Any] = {
        "lock": 2 * frame.ring_sequence,
        "flags": 0 if frame.pts_ns is None else abi.FLAG_PTS,
        "capture_clock": _CLOCK_CODES[frame.capture_clock],
        "sample_bound": frame.bounds.sample,
        "rgb_bound": frame.bounds.rgb,
        "token_count": len(frame),
        "fixation_count": len(frame.fixations),
        "fixations": described_fixations(frame),
        "motion": [0] * 6 if frame.motion is None else bits_of(frame.motion.ravel()),
        "reserved": 0,
    }
    for name in abi.SLOT_HEADER.names or ():
        if name not in head:
            head[name] = getattr(frame, name) or 0
    return head


def described(frame: foveate.Frame) -> dict[str, Any]:
    """Every field of a frame and of its segment, and digests of its arrays."""
    return {
        **described_segment(frame.info),
        **described_head(frame),
        "tokens": frame.tokens.tobytes().hex(),
        "pixels": fnv1a_64(frame.pixels.tobytes()),
        "relevance": fnv1a_64(frame.plane("relevance").tobytes()),
        **described_pictures(frame),
    }


def described_pictures(frame: foveate.Frame) -> dict[str, str]:
    """Digests of the pictures of a small source."""
    width, height = frame.info.extent
    if 3 * width * height > 1 << 20:
        return {}
    return {
        "blocks": fnv1a_64(frame.rebuild(smooth=False).tobytes()),
        "smooth": fnv1a_64(frame.rebuild().tobytes()),
    }


def described_canvas(canvas: foveate.Canvas, frame: foveate.Frame) -> dict[str, Any]:
    """What a canvas is after the frame, if the view is for one."""
    if "tiles" not in frame.planes:
        return {}
    update = canvas.update(frame)
    arrays = (canvas.pixels, canvas.steps, canvas.frames, update.places, canvas.picture())
    digests = [fnv1a_64(array.tobytes()) for array in arrays]
    return {"canvas": [*digests, update.is_new, canvas.wants_refresh]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("view")
    parser.add_argument("count", nargs="?", type=int)
    parser.add_argument("--socket")
    arguments = parser.parse_args()
    with foveate.open(arguments.view, arguments.socket) as view:
        # Described only afterwards: a digest takes longer than a frame.
        frames: list[foveate.Frame] = []
        try:
            while len(frames) != arguments.count:
                frames.append(view.read(timeout=None, newest=False))
        except foveate.Ended as ended:
            if ended.hung_up or arguments.count is not None:
                raise
    canvas = foveate.Canvas()
    for frame in frames:
        print(json.dumps({**described(frame), **described_canvas(canvas, frame)}))


if __name__ == "__main__":
    main()
