"""Prints frames of a view as JSON, one a line, for comparison with the readers in other languages.

``dump.py VIEW [COUNT] [--socket PATH]``: reads COUNT frames in order, or all up to the end of the stream.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import foveate
from foveate import abi

_CLOCK_CODES = {name: code for code, name in abi.CAPTURE_CLOCKS.items()}
_REASON_CODES = {name: code for code, name in abi.FIXATION_REASONS.items()}


def fnv1a_64(content: bytes) -> str:
    """The FNV-1a hash of 64 bits, in hexadecimal."""
    state = 0xCBF29CE484222325
    for byte in content:
        state = (state ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def described(frame: foveate.Frame) -> dict[str, Any]:
    """Every field of a frame, and digests of its arrays."""
    fixation = frame.fixation
    return {
        "ring_sequence": frame.ring_sequence,
        "frame_seq": frame.frame_seq,
        "pts_ns": frame.pts_ns,
        "capture_ns": frame.capture_ns,
        "capture_unix_ns": frame.capture_unix_ns,
        "capture_clock": _CLOCK_CODES[frame.capture_clock],
        "arrival_ns": frame.arrival_ns,
        "publish_ns": frame.publish_ns,
        "fixation_id": fixation.id,
        "fixation_x": fixation.x,
        "fixation_y": fixation.y,
        "fixation_since_frame": fixation.since_frame,
        "fixation_reason": _REASON_CODES[fixation.reason],
        "sample_bound": frame.bounds.sample,
        "rgb_bound": frame.bounds.rgb,
        "dirty_tiles": frame.dirty_tiles,
        "tile_count": frame.tile_count,
        "relevance_frame": frame.relevance_frame,
        "asked_ns": frame.asked_ns,
        "token_count": len(frame),
        "records": fnv1a_64(frame.tokens.tobytes()),
        "pixels": fnv1a_64(frame.pixels.tobytes()),
        "relevance": fnv1a_64(frame.plane("relevance").tobytes()),
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
