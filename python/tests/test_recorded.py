"""Segments that were recorded when a version of the ABI was new are read by every later reader as they were then."""

from __future__ import annotations

import hashlib
import unittest
from pathlib import Path

from support import sealed_copy

from foveate.ring import Ring
from foveate.segment import opened

SEGMENTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "segments"

#: Of each recorded segment: digest of the newest frame's tokens and texels, the optical frame of its camera, and the digest of its
#: relevance, which came with 1.3.
RECORDED = {
    "1.2": ("90f3f36550427c33", "15cc1f77414ad018", "front_optical", None),
    "1.3": ("90f3f36550427c33", "15cc1f77414ad018", "front_optical", "06b04710b411ef60"),
}


def digest(content: bytes) -> str:
    """Sixteen digits that tell one array from another."""
    return hashlib.sha256(content).hexdigest()[:16]


class RecordedSegmentsAreRead(unittest.TestCase):
    def test_every_recorded_segment_is_known(self) -> None:
        self.assertEqual({path.stem for path in SEGMENTS.glob("*.segment")}, set(RECORDED))

    def test_every_recorded_segment_is_read_as_it_was_written(self) -> None:
        for version, (tokens, pixels, optical_frame, relevance) in RECORDED.items():
            with self.subTest(version):
                ring = Ring(opened(sealed_copy((SEGMENTS / f"{version}.segment").read_bytes())))
                self.addCleanup(ring.close)
                frame = ring.read_newest()
                assert frame is not None
                self.assertEqual((frame.view, frame.layout, frame.ring_sequence), ("camera/main", "foveal", 3))
                self.assertEqual(frame.pixels.shape, (2, 3, 14, 14))
                self.assertEqual(digest(frame.tokens.tobytes()), tokens)
                self.assertEqual(digest(frame.pixels.tobytes()), pixels)
                self.assertEqual(set(frame.planes), {"pixels"} if relevance is None else {"pixels", "relevance"})
                if relevance is not None:
                    self.assertEqual(digest(frame.plane("relevance").tobytes()), relevance)
                self.assertEqual(ring.state(), ("stalled", "no frame for 2 s"))
                camera = ring.info.camera
                assert camera is not None
                self.assertEqual(camera.optical_frame, optical_frame)


if __name__ == "__main__":
    unittest.main()
