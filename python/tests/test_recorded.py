"""Segments that were recorded when a version of the ABI was new are read by every later reader of the same major version."""

from __future__ import annotations

import hashlib
import unittest
from pathlib import Path

from support import foveate, sealed_copy

from foveate.ring import Ring
from foveate.segment import opened

SEGMENTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "segments"

#: Of each recorded segment of this major version: digests of the newest frame's tokens, texels and relevance.
RECORDED = {"1.0": ("f0c9e8089cf3403b", "0599a48419f45e2b", "e8c9bbe9276793c0")}

#: What they say of their colour.
HDR = foveate.Color(matrix="bt2020", range="limited", transfer="smpte2084", assumed=("range",))


def digest(content: bytes) -> str:
    """Sixteen digits that tell one array from another."""
    return hashlib.sha256(content).hexdigest()[:16]


def ring_of(version: str) -> Ring:
    return Ring(opened(sealed_copy((SEGMENTS / f"{version}.segment").read_bytes())))


class RecordedSegmentsAreRead(unittest.TestCase):
    def test_every_one_has_its_digests(self) -> None:
        self.assertEqual({path.stem for path in SEGMENTS.glob("*.segment")}, set(RECORDED))

    def test_every_one_is_read_as_it_was_written(self) -> None:
        for version, digests in RECORDED.items():
            with self.subTest(version):
                ring = ring_of(version)
                self.addCleanup(ring.close)
                frame = ring.read_newest()
                assert frame is not None
                self.assertEqual((frame.view, frame.layout, frame.ring_sequence), ("camera/main", "foveal", 3))
                arrays = (frame.tokens, frame.pixels, frame.plane("relevance"))
                self.assertEqual(tuple(digest(array.tobytes()) for array in arrays), digests)
                self.assertEqual(frame.grid().shape, (1, 2, 3, 14, 14))
                info = frame.info
                self.assertEqual((info.grid, info.foveae, info.outside, info.rounding), ((2, 1), 5, "mean", "floor"))
                self.assertEqual((info.pixel_aspect, info.color), ((64, 45), HDR))
                self.assertEqual(
                    [fixation.reason for fixation in frame.fixations], ["saliency", "policy", "look", "attend"]
                )
                self.assertEqual(ring.state(), ("stalled", "no frame for 2 s"))
                assert info.camera is not None
                self.assertEqual((info.camera.optical_frame, info.camera.distortion), ("front_optical", "plumb_bob"))


if __name__ == "__main__":
    unittest.main()
