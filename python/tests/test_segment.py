"""A segment that is broken, or made to hurt, leads to an error that names the cause; never to a crash or a leak."""

from __future__ import annotations

import fcntl
import os
import random
import tempfile
import unittest

from support import SEALS, FakeRing, abi, descriptors, foveate, mappings, sealed_copy

from foveate.ring import Ring
from foveate.segment import opened


class SegmentIsChecked(unittest.TestCase):
    def setUp(self) -> None:
        ring = FakeRing()
        ring.publish()
        self.content = ring.bytes.tobytes()

    def test_a_whole_copy_opens(self) -> None:
        frame = Ring(opened(sealed_copy(self.content))).read_newest()
        assert frame is not None
        self.assertEqual((frame.ring_sequence, frame.view, frame.layout), (1, "front/policy", "foveal"))

    def test_what_is_no_segment_is_refused(self) -> None:
        self.assert_refused(b"f" + self.content[1:], "it begins with b'fOVEATE")
        self.assert_refused(self.content[:4088], "4088 bytes")
        self.assert_refused(b"", "0 bytes")
        with tempfile.TemporaryFile() as file:
            with self.assertRaisesRegex(foveate.BrokenSegment, "not a Foveate segment"):
                opened(os.dup(file.fileno()))

    def test_another_major_version_is_refused_with_both_versions(self) -> None:
        changed = self.changed("abi_major", 7)
        self.assert_refused(
            changed, rf"follows ABI 7\.{abi.ABI_MINOR}, but .* {abi.ABI_MAJOR}\.{abi.ABI_MINOR}: install"
        )

    def test_a_later_minor_version_opens(self) -> None:
        info = opened(sealed_copy(self.changed("abi_minor", 70))).info
        self.assertEqual(info.abi, (abi.ABI_MAJOR, 70))

    def test_memory_that_could_change_or_shrink_is_refused(self) -> None:
        for seal in (fcntl.F_SEAL_GROW, fcntl.F_SEAL_SHRINK, 0x10):
            with self.assertRaisesRegex(foveate.BrokenSegment, "F_SEAL_"):
                opened(sealed_copy(self.content, SEALS & ~seal))

    def test_memory_that_is_not_reserved_is_refused(self) -> None:
        file = sealed_copy(self.content[: abi.HEADER_BYTES], size=len(self.content))
        with self.assertRaisesRegex(foveate.BrokenSegment, "reserved"):
            opened(file)

    def test_each_field_that_contradicts_the_size_is_named(self) -> None:
        far = (1 << 64) - 64
        for field, value in [
            ("total_bytes", 1 << 40),
            ("header_bytes", 64),
            ("slot_count", 1),
            ("slot_count", 1025),
            ("slot_stride", far),
            ("slot_stride", 4097),
            ("slot_header_bytes", 0),
            ("record_bytes", 57),
            ("records_offset", 0),
            ("token_capacity", (1 << 32) - 1),
            ("token_capacity", 0),
            ("plane_count", 9),
            ("plane_count", 0),
            ("source_width", 0),
            ("source_height", 1 << 20),
            ("backend_kind", 0),
            ("view_name", b"\xff"),
            ("patch_side", 16),
            ("fovea_capacity", 0),
            ("fovea_capacity", 9),
            ("grid_columns", 1),
            ("grid_rows", 1),
            ("outside", 2),
            ("rounding", 2),
            ("pixel_aspect_width", 64),
        ]:
            with self.subTest(field=field, value=value):
                named = {"source_width": "source_", "source_height": "source_", "patch_side": "shape"}.get(field, field)
                named = "grid_columns x grid_rows" if field.startswith("grid") else named
                self.assert_refused(self.changed(field, value), named)

    def test_a_grid_of_more_tokens_than_there_is_room_for_is_refused(self) -> None:
        for columns, rows in ((3, 3), (9, 1), (1 << 31, 2), ((1 << 32) - 1, (1 << 32) - 1)):
            ring = FakeRing(capacity=8, grid_columns=columns, grid_rows=rows)
            self.assert_refused(ring.bytes.tobytes(), rf"grid_columns x grid_rows is \({columns}, {rows}\)")
        for columns, rows in ((4, 2), (1, 8), (1, 1)):
            ring = FakeRing(capacity=8, grid_columns=columns, grid_rows=rows)
            self.assertEqual(opened(ring.descriptor()).info.grid, (columns, rows))

    def test_each_field_of_a_plane_that_leaves_its_slot_is_named(self) -> None:
        far = (1 << 64) - 64
        for field, value, named in [
            ("dtype", 0, "planes.dtype"),
            ("dtype", 4, "planes.token_stride"),
            ("ndim", 0, "planes.ndim"),
            ("ndim", 5, "planes.ndim"),
            ("shape", (4, 3, 2, 2), "planes.shape"),
            ("offset", 64, "planes.offset"),
            ("offset", far, "planes.bytes"),
            ("bytes", 1 << 20, "planes.bytes"),
            ("token_stride", far, "planes.token_stride"),
            ("token_stride", 16, "planes.token_stride"),
            ("name", b"other", "planes.0..name"),
            ("order", b"NHWC", "planes.0..order"),
        ]:
            with self.subTest(field=field, value=value):
                ring = FakeRing()
                ring.header["planes"][0][field] = value
                self.assert_refused(ring.bytes.tobytes(), named)

    def test_each_field_of_the_second_plane_is_checked_as_well(self) -> None:
        for field, value, named in [
            ("dtype", 5, "planes.dtype"),
            ("ndim", 0, "planes.ndim"),
            ("ndim", 2, "planes.shape"),
            ("shape", (4, 0, 0, 0), "planes.shape"),
            ("offset", 64, "planes.offset"),
            ("offset", 4096, "planes.bytes"),
            ("bytes", 1 << 20, "planes.bytes"),
            ("token_stride", 3, "planes.token_stride"),
            ("token_stride", 5, "planes.token_stride"),
            ("name", b"\xff", "name"),
            ("name", b"pixels", "planes.name"),
        ]:
            with self.subTest(field=field, value=value):
                ring = FakeRing()
                ring.header["planes"][1][field] = value
                self.assert_refused(ring.bytes.tobytes(), named)

    def test_the_table_of_planes_is_told(self) -> None:
        self.assertEqual(
            opened(sealed_copy(self.content)).info.planes,
            (
                foveate.PlaneInfo("pixels", "NCHW", "u8", (8, 3, 2, 2)),
                foveate.PlaneInfo("relevance", "N", "f32", (8,)),
            ),
        )

    def test_no_change_of_bytes_leads_to_another_error(self) -> None:
        chance = random.Random(1)
        for _ in range(3000):
            content = bytearray(self.content)
            for _ in range(chance.randrange(1, 6)):
                content[chance.randrange(abi.HEADER_BYTES + 4096)] = chance.choice((0, 1, 2, 63, 64, 127, 128, 255))
            read_all_that_opens(bytes(content))

    def test_no_extreme_number_leads_to_another_error(self) -> None:
        extremes = (0, 1, 2, 7, 4095, 4096, (1 << 32) - 1, 1 << 32, 1 << 63, (1 << 64) - 1)
        for offset in range(0, abi.CAMERA_FRAME_OFFSET + abi.CAMERA_FRAME_BLOCK.itemsize, 4):
            for value in extremes:
                content = bytearray(self.content)
                content[offset : offset + 8] = value.to_bytes(8, "little")
                read_all_that_opens(bytes(content))

    def test_nothing_is_left_open_of_a_segment_that_is_refused(self) -> None:
        before = descriptors(), mappings()
        # What an error refers to, tracebacks included, must hold nothing.
        errors = []
        for content in (self.changed("abi_major", 9), self.changed("slot_count", 3), b""):
            try:
                opened(sealed_copy(content))
            except foveate.BrokenSegment as error:
                errors.append(error)
        self.assertEqual(len(errors), 3)
        self.assertEqual((descriptors(), mappings()), before)

    def test_nothing_is_left_open_of_a_ring_that_was_closed(self) -> None:
        before = descriptors(), mappings()
        ring = Ring(opened(sealed_copy(self.content)))
        frame = ring.read_newest()
        ring.close()
        self.assertEqual((descriptors(), mappings()), before)
        assert frame is not None
        self.assertEqual(frame.pixels[0, 0, 0, 0], 1)

    def test_nobody_writes_through_what_a_reader_has(self) -> None:
        ring = FakeRing()
        ring.publish()
        frame = ring.reader().borrow_newest()
        assert frame is not None
        for items in frame.planes.values():
            with self.assertRaises(ValueError):
                items[0] = 0
            with self.assertRaises(ValueError):
                items.flags.writeable = True

    def changed(self, field: str, value: object) -> bytes:
        ring = FakeRing()
        ring.publish()
        ring.header[field] = value
        return ring.bytes.tobytes()

    def assert_refused(self, content: bytes, pattern: str) -> None:
        with self.assertRaisesRegex(foveate.BrokenSegment, pattern):
            opened(sealed_copy(content))


def read_all_that_opens(content: bytes) -> None:
    """Only errors of the package may come of it."""
    try:
        ring = Ring(opened(sealed_copy(content)))
    except foveate.FoveateError:
        return
    for read in (ring.read_newest, ring.read_next, ring.borrow_newest, lambda: ring.read_nearest(0), ring.state):
        try:
            read()
        except foveate.FoveateError:
            pass
    ring.close()


if __name__ == "__main__":
    unittest.main()
