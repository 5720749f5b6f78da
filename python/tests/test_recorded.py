"""Segments that were recorded when a version of the ABI was new are read by every later reader of the same major version as
they were then, and refused by readers of another."""

from __future__ import annotations

import hashlib
import unittest
from pathlib import Path

from support import abi, foveate, sealed_copy

from foveate.ring import Ring
from foveate.segment import opened

SEGMENTS = Path(__file__).resolve().parents[2] / "tests" / "data" / "segments"

#: Of each recorded segment of this major version: digests of the newest frame's tokens, texels and relevance.
RECORDED = {version: ("01d0dc0fca56861d", "7e696dc71e6e1504", "380b9ca614e3da8b") for version in ("2.0", "2.1", "2.2")}
RECORDED.update(
    (version, ("8b00070d6e0186a4", "7e696dc71e6e1504", "380b9ca614e3da8b")) for version in ("2.3", "2.4")
)

#: What segments from 2.2 on say of their colour.
HDR = foveate.Color(matrix="bt2020", range="limited", transfer="smpte2084", assumed=("range",))


def digest(content: bytes) -> str:
    """Sixteen digits that tell one array from another."""
    return hashlib.sha256(content).hexdigest()[:16]


def ring_of(version: str) -> Ring:
    return Ring(opened(sealed_copy((SEGMENTS / f"{version}.segment").read_bytes())))


class RecordedSegmentsAreReadOrRefused(unittest.TestCase):
    def setUp(self) -> None:
        versions = {path.stem for path in SEGMENTS.glob("*.segment")}
        self.others = {version for version in versions if version.split(".")[0] != str(abi.ABI_MAJOR)}
        self.assertEqual(versions - self.others, set(RECORDED))

    def test_every_recorded_segment_of_this_major_version_is_read_as_it_was_written(self) -> None:
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
                aspect, color = ((64, 45), HDR) if "2.2" <= version else ((1, 1), None)
                self.assertEqual((info.pixel_aspect, info.color), (aspect, color))
                self.assertEqual(
                    [fixation.reason for fixation in frame.fixations], ["saliency", "policy", "look", "attend"]
                )
                self.assertEqual(ring.state(), ("stalled", "no frame for 2 s"))
                assert info.camera is not None
                self.assertEqual((info.camera.optical_frame, info.camera.distortion), ("front_optical", "plumb_bob"))

    def test_every_recorded_segment_of_another_major_version_is_refused_with_both_versions(self) -> None:
        self.assertIn("1.3", self.others)
        for version in self.others:
            both = f"follows ABI {version}, but this reader supports {abi.ABI_MAJOR}.{abi.ABI_MINOR}: install"
            with self.assertRaisesRegex(foveate.BrokenSegment, both):
                ring_of(version)


if __name__ == "__main__":
    unittest.main()
