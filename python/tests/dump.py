"""Prints frames of a view as JSON, one a line, for comparison with the readers in other languages. Floating-point numbers are
given by the bits of a binary64.

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
from foveate import abi

_CLOCK_CODES = {name: code for code, name in abi.CAPTURE_CLOCKS.items()}
_REASON_CODES = {name: code for code, name in abi.FIXATION_REASONS.items()}
_DTYPE_CODES = {name: code for code, name in abi.DTYPE_NAMES.items()}
_BACKEND_CODES = {name: code for code, name in abi.BACKENDS.items()}
_OUTSIDE_CODES = {name: code for code, name in abi.OUTSIDES.items()}
_ROUNDING_CODES = {name: code for code, name in abi.ROUNDINGS.items()}
_MATRIX_CODES = {name: code for code, name in abi.COLOR_MATRICES.items()}
_RANGE_CODES = {name: code for code, name in abi.COLOR_RANGES.items()}
_TRANSFER_CODES = {name: code for code, name in abi.COLOR_TRANSFERS.items()}
_TOKEN_FIELDS = "x y sx sy size group first_column columns first_row rows fovea extra_width extra_height".split()


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
        "color_matrix": abi.COLOR_MATRIX_RGB if color.matrix is None else _MATRIX_CODES[color.matrix],
        "color_range": _RANGE_CODES[color.range],
        "color_transfer": 0 if color.transfer is None else _TRANSFER_CODES[color.transfer],
        "color_assumed": sum(bit for bit, name in abi.COLOR_ASSUMED.items() if name in color.assumed),
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


def described_fixation(fixation: foveate.Fixation) -> list[int]:
    """Every field of a fixation."""
    x, y, weight = bits_of((fixation.x, fixation.y, fixation.weight))
    return [fixation.id, x, y, fixation.since_frame, weight, _REASON_CODES[fixation.reason]]


def described_token(token: Any) -> list[int]:
    """Every field of a token."""
    places = [int(token[name]) for name in _TOKEN_FIELDS]
    return [int(token["changed_frame"]), *token["box"].tolist(), *places, *bits_of([token["relevance"]])]


def described(frame: foveate.Frame) -> dict[str, Any]:
    """Every field of a frame and of its segment, and digests of its arrays."""
    return {
        **described_segment(frame.info),
        "ring_sequence": frame.ring_sequence,
        "frame_seq": frame.frame_seq,
        "pts_ns": frame.pts_ns,
        "capture_ns": frame.capture_ns,
        "capture_unix_ns": frame.capture_unix_ns,
        "capture_clock": _CLOCK_CODES[frame.capture_clock],
        "capture_error_ns": frame.capture_error_ns or 0,
        "clock_steps": frame.clock_steps,
        "arrival_ns": frame.arrival_ns,
        "publish_ns": frame.publish_ns,
        "fixations": [described_fixation(fixation) for fixation in frame.fixations],
        "sample_bound": frame.bounds.sample,
        "rgb_bound": frame.bounds.rgb,
        "dirty_tiles": frame.dirty_tiles,
        "tile_count": frame.tile_count,
        "relevance_frame": frame.relevance_frame,
        "asked_ns": frame.asked_ns,
        "depth_capture_ns": frame.depth_capture_ns or 0,
        "depth_frame": frame.depth_frame,
        "motion": [] if frame.motion is None else bits_of(frame.motion.ravel()),
        "motion_frame": frame.motion_frame,
        "tokens": [described_token(token) for token in frame.tokens],
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
    for frame in frames:
        print(json.dumps(described(frame)))


if __name__ == "__main__":
    main()
