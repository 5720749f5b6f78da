"""``docs/reference/abi.md`` and the package describe the same bytes."""

from __future__ import annotations

import re
import unittest
from typing import Any

from support import PACKAGE_ROOT, abi

DOCUMENT = (PACKAGE_ROOT.parent / "docs" / "reference" / "abi.md").read_text()
ROW = re.compile(r"^\| (\d+) \| (\d+) \| `(\w+)` \|", re.MULTILINE)

#: Each struct, the name of its section, and where the offsets of that begin.
STRUCTS = {
    "SegmentHeader": (abi.SEGMENT_HEADER, 0),
    "CameraBlock": (abi.CAMERA_BLOCK, 0),
    "CameraFrameBlock": (abi.CAMERA_FRAME_BLOCK, 0),
    "ChannelBlock": (abi.CHANNEL_BLOCK, abi.CHANNEL_OFFSET),
    "PlaneEntry": (abi.PLANE_ENTRY, 0),
    "LiveBlock": (abi.LIVE_BLOCK, abi.LIVE_OFFSET),
    "StateBlock": (abi.STATE_BLOCK, 0),
    "SlotHeader": (abi.SLOT_HEADER, 0),
    "FixationBlock": (abi.FIXATION_BLOCK, 0),
    "TokenRecord": (abi.TOKEN, 0),
}
#: In the arrays of Python the four edges of a box are one field.
BOX = [(8, 4, "x0"), (12, 4, "y0"), (16, 4, "x1"), (20, 4, "y1")]


class AbiMatchesTheDocument(unittest.TestCase):
    def test_every_field_lies_where_the_document_says(self) -> None:
        for name, (dtype, base) in STRUCTS.items():
            with self.subTest(struct=name):
                section = section_of(name)
                self.assertIsNotNone(section)
                rows = [(int(offset), int(size), field) for offset, size, field in ROW.findall(section or "")]
                base = rows[0][0] if name == "CameraFrameBlock" else base
                self.assertEqual(fields(dtype, base), rows)

    def test_blocks_follow_one_another(self) -> None:
        self.assertEqual(abi.LIVE_OFFSET, 1408)
        self.assertEqual(abi.CAMERA_FRAME_OFFSET, 1792)
        self.assertEqual(abi.CHANNEL_OFFSET, 2072)
        self.assertEqual(abi.CHANNEL_OFFSET + abi.CHANNEL_BLOCK.itemsize, abi.HEADER_BYTES)

    def test_the_version_is_the_documents(self) -> None:
        title = re.match(r"# The segment: ABI (\d+)\.(\d+)", DOCUMENT)
        assert title is not None
        self.assertEqual(int(title[1]), abi.ABI_MAJOR)
        # A reader may know more than the document in hand; it must not know less.
        self.assertGreaterEqual(abi.ABI_MINOR, int(title[2]))


def section_of(name: str) -> str | None:
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    return found and found[1]


def fields(dtype: Any, base: int) -> list[tuple[int, int, str]]:
    rows = []
    for name in dtype.names:
        field, offset = dtype.fields[name][:2]
        rows += BOX if name == "box" else [(base + offset, field.itemsize, name)]
    return rows


if __name__ == "__main__":
    unittest.main()
