"""What is read from a ring is one whole frame, or an error says that it is not."""

from __future__ import annotations

import itertools
import os
import pickle
import platform
import signal
import threading
import unittest
from typing import Any
from unittest import mock

import numpy as np
from support import FakeRing, abi, descriptors, foveate, mappings, token_records, torch_or_skip, within

from foveate import picture
from foveate import ring as ring_module


class RingReadsInOrder(unittest.TestCase):
    def setUp(self) -> None:
        self.ring = FakeRing(slot_count=4)

    def test_a_reader_begins_with_the_frame_that_was_newest_when_it_came(self) -> None:
        self.ring.publish()
        self.ring.publish()
        reader = self.ring.reader()
        self.assertEqual([reader.read_next().ring_sequence, reader.read_next()], [2, None])

    def test_newest_passes_over_older_frames_and_counts_them(self) -> None:
        reader = self.ring.reader()
        self.assertIsNone(reader.read_newest())
        for _ in range(3):
            self.ring.publish()
        frame = reader.read_newest()
        self.assertEqual((frame.ring_sequence, frame.missed), (3, 2))
        self.assertIsNone(reader.read_newest())

    def test_next_reads_every_frame_that_is_left_and_counts_the_lost(self) -> None:
        reader = self.ring.reader()
        for _ in range(6):
            self.ring.publish()
        frames = [reader.read_next() for _ in range(4)]
        self.assertEqual([(frame.ring_sequence, frame.missed) for frame in frames], [(3, 2), (4, 0), (5, 0), (6, 0)])
        self.assertIsNone(reader.read_next())

    def test_next_finds_the_oldest_frame_however_far_it_fell_behind(self) -> None:
        reader = self.ring.reader()
        for _ in range(500):
            self.ring.publish()
        frame = reader.read_next()
        self.assertEqual((frame.ring_sequence, frame.missed), (497, 496))

    def test_next_skips_the_frame_that_the_writer_is_about_to_replace(self) -> None:
        reader = self.ring.reader()
        for _ in range(4):
            self.ring.publish()
        self.ring.begin(5)
        self.assertEqual(reader.read_next().ring_sequence, 2)

    def test_nearest_finds_the_frame_by_its_capture_time_and_passes_over_nothing(self) -> None:
        reader = self.ring.reader()
        for capture_ns in (1000, 2000, 3000):
            self.ring.publish(capture_ns=capture_ns)
        found = [reader.read_nearest(at).capture_ns for at in (0, 1400, 1600, 2999, 9999)]
        self.assertEqual(found, [1000, 1000, 2000, 3000, 3000])
        self.assertEqual(reader.read_next().capture_ns, 1000)

    def test_nearest_finds_no_frame_that_was_replaced(self) -> None:
        reader = self.ring.reader()
        for capture_ns in (1000, 2000, 3000, 4000):
            self.ring.publish(capture_ns=capture_ns)
        self.ring.begin(5)
        self.assertEqual(reader.read_nearest(0).capture_ns, 2000)


class RingNeverGivesAwayATornFrame(unittest.TestCase):
    def setUp(self) -> None:
        self.ring = FakeRing(slot_count=2)
        self.reader = self.ring.reader()

    def test_a_frame_that_is_being_written_is_not_read(self) -> None:
        self.ring.publish()
        self.ring.begin(1)
        for read in (self.reader.read_newest, self.reader.read_next, self.reader.borrow_newest):
            with self.assertRaises(foveate.Lapped):
                read()

    def test_a_newest_frame_that_never_comes_is_given_up(self) -> None:
        self.ring.live["newest"] = 1000
        with self.assertRaises(foveate.Lapped) as caught:
            self.reader.read_newest()
        self.assertEqual(caught.exception.ring_sequence, 1000)

    def test_a_frame_that_is_replaced_during_the_copy_is_read_anew(self) -> None:
        self.ring.publish()
        copy = foveate.Frame._own_planes

        def replaced_meanwhile(frame: foveate.Frame) -> None:
            copy(frame)
            if self.ring.newest == 1:
                self.ring.publish()
                self.ring.publish()

        with mock.patch.object(foveate.Frame, "_own_planes", replaced_meanwhile):
            frame = self.reader.read_newest()
        self.assertEqual((frame.ring_sequence, frame.frame_seq, set(frame.pixels.flat)), (3, 3, {3}))
        self.assertEqual(frame.plane("relevance").tolist(), [1])

    def test_a_slot_that_names_another_frame_is_refused(self) -> None:
        self.ring.publish(ring_sequence=7)
        with self.assertRaisesRegex(foveate.BrokenSegment, "ring_sequence is 7"):
            self.reader.read_newest()

    def test_a_frame_with_more_tokens_than_there_is_room_for_is_refused(self) -> None:
        self.ring.publish(token_count=9)
        with self.assertRaisesRegex(foveate.BrokenSegment, "token_count is 9"):
            self.reader.read_newest()

    def test_a_borrowed_frame_that_was_replaced_says_so(self) -> None:
        self.ring.publish()
        frame = self.reader.borrow_newest()
        self.assertTrue(frame.still_valid)
        self.ring.publish()
        self.assertTrue(frame.still_valid)
        self.ring.begin(3)
        self.assertFalse(frame.still_valid)
        with self.assertRaises(foveate.Lapped):
            frame._give_back()
        for taken in (lambda: frame.pixels, lambda: frame.planes, lambda: frame.plane("relevance")):
            with self.assertRaisesRegex(foveate.FoveateError, "with"):
                taken()

    def test_borrowed_planes_lie_in_the_ring_and_nothing_else_does(self) -> None:
        self.ring.publish(relevance=[1])
        frame = self.reader.borrow_newest()
        self.ring.publish(relevance=[2])
        self.ring.publish(relevance=[3])
        self.assertEqual((set(frame.pixels.flat), frame.plane("relevance").tolist()), ({3}, [3]))
        self.assertEqual((frame.frame_seq, frame.tokens["changed_frame"].tolist()), (1, [1]))

    def test_a_borrowed_array_outlives_the_ring(self) -> None:
        before = mappings()
        self.ring.publish()
        pixels = self.reader.borrow_newest().pixels
        self.reader.close()
        self.assertEqual(set(pixels.flat), {1})
        del pixels
        self.assertEqual(mappings(), before - 1)

    @unittest.skipUnless(platform.machine() == "x86_64", "the writer of this test has no fences")
    def test_no_torn_frame_comes_from_a_writer_in_another_process(self) -> None:
        ring = FakeRing(slot_count=2, capacity=64, patch=14)
        reader = ring.reader()
        writer = os.fork()
        if writer == 0:
            write_for_ever(ring)
        try:
            whole = lapped = 0
            for _ in within():
                if whole == 100 and lapped:
                    break
                try:
                    frame = reader.read_newest()
                except foveate.Lapped:
                    lapped += 1
                    continue
                if frame is None:
                    continue
                stamp = frame.ring_sequence % 256
                self.assertEqual((frame.frame_seq, len(frame)), (frame.ring_sequence, 1 + stamp % 64))
                self.assertTrue((frame.tokens["changed_frame"] == frame.ring_sequence).all())
                self.assertTrue((frame.pixels == stamp).all())
                self.assertTrue((frame.plane("relevance") == stamp).all())
                whole = min(100, whole + 1)
                lapped += self.lapped_while_borrowing(ring)
        finally:
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)

    def lapped_while_borrowing(self, ring: FakeRing) -> bool:
        """Holds a frame until the writer has come round to it."""
        frame = ring.reader().borrow_newest()
        for _ in within():
            if not frame.still_valid:
                return True
        return False


def write_for_ever(ring: FakeRing) -> None:
    """In a child: frames whose every byte says which they are."""
    try:
        while True:
            sequence = ring.newest + 1
            count = 1 + sequence % 256 % 64
            tokens = token_records(count, changed_frame=sequence, relevance=sequence % 256)
            ring.publish(tokens, np.full((count, 3, 14, 14), sequence % 256, np.uint8))
    finally:
        os._exit(1)


class FencesStandAroundTheCopy(unittest.TestCase):
    def test_the_copy_lies_between_two_fences_and_the_fences_between_two_looks_at_the_lock(self) -> None:
        ring = FakeRing()
        ring.publish()
        reader = ring.reader()
        log: list[str] = []
        lock, copy = ring_module.Ring._lock, foveate.Frame._own_planes
        with (
            mock.patch.object(ring_module, "_fence", lambda: log.append("fence")),
            mock.patch.object(ring_module.Ring, "_lock", lambda *arguments: (log.append("lock"), lock(*arguments))[1]),
            mock.patch.object(foveate.Frame, "_own_planes", lambda frame: (log.append("copy"), copy(frame))[0]),
        ):
            reader.read_newest()
        self.assertEqual(log[:2], ["fence", "lock"])
        self.assertEqual(log[log.index("copy") :], ["copy", "fence", "lock"])
        # The order before the copy: lock, fence, header, fence, lock, records, fence, lock.
        self.assertEqual(log[1 : log.index("copy")], ["lock", "fence", "fence", "lock", "fence", "lock"])

    def test_the_fence_of_other_machines_blocks_nobody(self) -> None:
        threads = [threading.Thread(target=lambda: [ring_module._lock_fence() for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive())


class RingTellsTheState(unittest.TestCase):
    def setUp(self) -> None:
        self.ring = FakeRing()
        self.reader = self.ring.reader()

    def test_the_state_is_the_one_that_was_finished_last(self) -> None:
        self.assertEqual(self.reader.state(), ("live", ""))
        self.ring.set_state(2, "no frame for 3 s")
        self.assertEqual(self.reader.state(), ("stalled", "no frame for 3 s"))
        # The writer may be killed at any instruction.
        self.ring.live["states"][0]["code"] = 3
        self.assertEqual(self.reader.state(), ("stalled", "no frame for 3 s"))

    def test_an_unknown_state_reads_as_the_end(self) -> None:
        self.ring.set_state(9, "")
        state, reason = self.reader.state()
        self.assertEqual(state, "ended")
        self.assertIn("9", reason)

    def test_a_writer_that_never_stops_keeps_no_reader(self) -> None:
        numbers = iter(range(1000))
        self.reader._state_sequence = lambda: next(numbers)
        self.assertEqual(self.reader.state(), ("ended", "the state changes faster than it can be read"))

    def test_a_state_that_changes_during_the_copy_is_read_anew(self) -> None:
        load = self.reader._segment.load

        def changed_meanwhile(offset: int, size: int) -> bytes:
            block = load(offset, size)
            if int(self.ring.live["state_sequence"]) < 2:
                self.ring.set_state(2, "stalls")
                self.ring.set_state(3, "ends")
            return block

        with mock.patch.object(self.reader._segment, "load", changed_meanwhile):
            self.assertEqual(self.reader.state(), ("ended", "ends"))


class FrameSaysEverything(unittest.TestCase):
    def test_each_field_of_the_header_arrives(self) -> None:
        ring = FakeRing()
        numbers = [name for name in abi.SLOT_HEADER.names or () if abi.SLOT_HEADER[name].kind == "u"]
        numbers = [name for name in numbers if name not in ("lock", "ring_sequence", "token_count", "fixation_count")]
        head: dict[str, Any] = {name: number for number, name in enumerate(numbers, 5)}
        head.update(flags=abi.FLAG_PTS, capture_clock=2, motion=(1, 0, 2.5, 0, 1, -3))
        ring.publish(fixations=[(10, 1.25, 2.5, 40, 0.75, 3), (8, -3, 4, 30, 0.5, 2)], **head)
        frame = ring.read()
        for name in set(numbers) - {"flags", "capture_clock", "sample_bound", "rgb_bound", "reserved"}:
            self.assertEqual(getattr(frame, name), head[name], name)
        self.assertEqual(frame.fixation, foveate.Fixation(1.25, 2.5, 10, 40, "saliency", 0.75))
        self.assertEqual(frame.fixations, (frame.fixation, foveate.Fixation(-3, 4, 8, 30, "attend", 0.5)))
        assert frame.motion is not None
        self.assertEqual(frame.motion.tolist(), [[1, 0, 2.5], [0, 1, -3]])
        self.assertEqual(frame.bounds, foveate.Bounds(sample=head["sample_bound"], rgb=head["rgb_bound"]))
        self.assertEqual((frame.capture_clock, frame.layout), ("reference", "foveal"))
        self.assertEqual((frame.view, frame.epoch), ("front/policy", int(ring.header["epoch"])))

    def test_a_frame_without_a_presentation_time_has_none(self) -> None:
        ring = FakeRing()
        ring.publish(pts_ns=5, flags=0)
        self.assertIsNone(ring.read().pts_ns)

    def test_an_unknown_error_of_the_clock_is_none(self) -> None:
        ring = FakeRing()
        ring.publish(capture_error_ns=0)
        self.assertIsNone(ring.read().capture_error_ns)

    def test_numbers_of_later_versions_read_as_the_plainest(self) -> None:
        ring = FakeRing()
        ring.publish(capture_clock=9, fixations=[(1, 0, 0, 1, 1, 9)])
        frame = ring.read()
        self.assertEqual((frame.capture_clock, frame.fixation.reason), ("unknown", "policy"))

    def test_a_count_of_fixations_out_of_bounds_is_clamped(self) -> None:
        ring = FakeRing()
        for count, clamped in ((0, 1), (1, 1), (8, 8), (9, 8), (200, 8), (2**32 - 1, 8)):
            ring.publish(fixations=[(number, 0, 0, 1, 1, 0) for number in range(8)], fixation_count=count)
            for frame in (ring.read(), ring.reader().borrow_newest()):
                self.assertEqual([fixation.id for fixation in frame.fixations], list(range(clamped)))

    def test_a_stamp_in_the_future_is_of_age_0(self) -> None:
        ring = FakeRing()
        ring.publish(capture_ns=1 << 62)
        self.assertEqual(ring.read().age_ns, 0)

    def test_the_fields_of_tokens_arrive(self) -> None:
        ring = FakeRing()
        tokens = token_records(
            3, x=[-7, 0, 90], y=[0, -2147483648, 5], sx=[1, 3, 2048], sy=[4, 3, 1], group=[0, 1, 2], changed_frame=[7, 8, 9],
            relevance=[1, 0.5, 16], first_column=[1, 0, 0], columns=[1, 2, 0], first_row=[0, 1, 0], rows=[2, 1, 2],
            fovea=[0, 7, 1], extra_width=[0, 1, 0], extra_height=[1, 0, 0], box=[(0, 0, 1, 8), (0, 0, 6, 3), (64, 5, 64, 7)],
        )  # fmt: skip
        ring.publish(tokens)
        frame = ring.read()
        np.testing.assert_array_equal(frame.tokens, tokens)
        self.assertEqual(
            frame.tokens.dtype.names,
            tuple(
                "changed_frame box x y sx sy size group first_column columns first_row rows fovea extra_width extra_height "
                "relevance".split()
            ),
        )
        self.assertEqual(frame.origins.tolist(), [[-7, 0], [0, -2147483648], [90, 5]])
        self.assertEqual(frame.sizes.tolist(), [[2, 9], [7, 6], [4096, 2]])
        self.assertEqual(frame.steps.tolist(), [[1, 4.5], [3.5, 3], [2048, 1]])
        self.assertEqual((frame.origins.dtype, frame.sizes.dtype, frame.steps.dtype), (np.int32, np.int32, np.float64))
        self.assertEqual(frame.centres().tolist(), [[0.5, 4], [3, 1.5], [64, 6]])

    def test_the_segment_says_how_its_texels_were_made(self) -> None:
        ring = FakeRing(fovea_capacity=3, outside=1, rounding=1, grid_columns=4, grid_rows=2)
        ring.publish()
        info = ring.read().info
        self.assertEqual((info.foveae, info.outside, info.rounding, info.grid), (3, "mean", "floor", (4, 2)))
        ring = FakeRing()
        ring.publish()
        info = ring.read().info
        self.assertEqual((info.foveae, info.outside, info.rounding, info.grid), (8, "edge", "half-up", None))

    def test_the_segment_says_what_its_pixels_are(self) -> None:
        ring = FakeRing(
            pixel_aspect_width=64, pixel_aspect_height=45, color_matrix=1, color_range=1, color_transfer=15, color_assumed=1
        )
        ring.publish()
        info = ring.read().info
        self.assertEqual(info.pixel_aspect, (64, 45))
        self.assertEqual(info.color, foveate.Color(None, "full", "arib-std-b67", ("matrix",)))
        # Numbers of later versions count as unknown.
        ring = FakeRing(color_matrix=6, color_range=2, color_transfer=99)
        ring.publish()
        self.assertEqual(ring.read().info.color, foveate.Color("bt2020", "limited", None, ()))
        for later in ({"color_matrix": 99, "color_range": 1}, {"color_matrix": 3, "color_range": 99}, {}):
            ring = FakeRing(**later)
            ring.publish()
            self.assertEqual((ring.read().info.pixel_aspect, ring.read().info.color), ((1, 1), None))


def ring_with_channels() -> tuple[FakeRing, Any]:
    """A ring with two channels of 2 x 3 cells in the room of the plane of relevance, and its block of channels."""
    ring = FakeRing(capacity=16)
    for field, value in dict(
        name=b"channels", order=b"CHW", dtype=4, ndim=3, shape=(2, 2, 3, 0), token_stride=24, bytes=48
    ).items():
        ring.header["planes"][1][field] = value
    block = ring.struct(abi.CHANNEL_BLOCK, abi.CHANNEL_OFFSET)
    block["cell_side"], block["count"], block["names"][:2] = 64, 2, [b"strokes", b"query"]
    return ring, block


class FrameHasItsPlanesByTheirNames(unittest.TestCase):
    def test_a_plane_is_an_array_with_an_item_for_each_token(self) -> None:
        ring = FakeRing()
        ring.publish(token_records(3), relevance=[0.5, 1, 16])
        for frame in (ring.read(), ring.reader().borrow_newest()):
            self.assertEqual(list(frame.planes), ["pixels", "relevance"])
            self.assertIs(frame.plane("pixels"), frame.pixels)
            relevance = frame.plane("relevance")
            self.assertEqual((relevance.dtype, relevance.tolist()), (np.float32, [0.5, 1, 16]))

    def test_a_plane_that_there_is_not_is_named_with_those_that_there_are(self) -> None:
        ring = FakeRing(plane_count=1)
        ring.publish()
        frame = ring.read()
        self.assertEqual([plane.name for plane in frame.info.planes], ["pixels"])
        with self.assertRaisesRegex(foveate.FoveateError, "front/policy .* 'relevance', only pixels: .* ABI 1.0"):
            frame.plane("relevance")
        for name in ("depth", "boxes"):
            with self.assertRaisesRegex(foveate.FoveateError, rf"only pixels: set `{name} = true` .*\[stream.depth\]"):
                frame.plane(name)

    def test_channels_are_had_by_their_names(self) -> None:
        ring = FakeRing(capacity=16)
        with self.assertRaisesRegex(foveate.FoveateError, "front/policy does not publish the channel 'strokes', only none"):
            ring.publish()
            ring.read().channel("strokes")
        ring, _ = ring_with_channels()
        # All of them count in a frame of any number of tokens.
        ring.publish(token_records(1), relevance=np.arange(12))
        info = ring.read().info
        self.assertEqual((info.channels, info.cell), (("strokes", "query"), 64))
        for frame in (ring.read(), ring.reader().borrow_newest()):
            self.assertEqual((len(frame), frame.plane("channels").shape), (1, (2, 2, 3)))
            self.assertEqual(frame.channel("strokes").tolist(), [[0, 1, 2], [3, 4, 5]])
            self.assertEqual(frame.channel("query").tolist(), [[6, 7, 8], [9, 10, 11]])
            with self.assertRaisesRegex(foveate.FoveateError, "does not publish the channel 'depth', only strokes, query"):
                frame.channel("depth")

    def test_channels_that_contradict_their_plane_are_named(self) -> None:
        for field, value in dict(cell_side=0, count=3, names=[b"\xff"] + [b""] * 62).items():
            ring, block = ring_with_channels()
            block[field] = value
            with self.subTest(field=field), self.assertRaisesRegex(foveate.BrokenSegment, f"channels.{field}"):
                ring.reader()

    def test_items_may_have_any_shape_and_lie_apart(self) -> None:
        ring = FakeRing(capacity=4)
        entry = ring.header["planes"][1]
        for field, value in dict(
            name=b"depth", order=b"NHW", dtype=3, ndim=3, shape=(4, 2, 3, 0), token_stride=20, bytes=80
        ).items():
            entry[field] = value
        # Twelve bytes an item, and eight that are nothing.
        places = np.zeros((4, 10), "<u2")
        places[:, :6] = np.arange(24).reshape(4, 6)
        ring.publish(token_records(4), relevance=places.view("<f4"))
        for frame in (ring.read(), ring.reader().borrow_newest()):
            depth = frame.plane("depth")
            self.assertEqual((depth.shape, depth.dtype), ((4, 2, 3), np.uint16))
            self.assertEqual(depth.ravel().tolist(), list(range(24)))


class FrameIsMadeIntoOtherThings(unittest.TestCase):
    def test_padding_keeps_the_tokens_and_marks_them(self) -> None:
        ring = FakeRing(capacity=8)
        ring.publish(token_records(3))
        padded = ring.read().padded()
        self.assertEqual((padded.pixels.shape, padded.tokens.shape), ((8, 3, 2, 2), (8,)))
        self.assertEqual(padded.mask.tolist(), [True] * 3 + [False] * 5)
        self.assertEqual((set(padded.pixels[:3].flat), set(padded.pixels[3:].flat)), ({1}, {0}))
        self.assertEqual(padded.tokens["size"].tolist(), [2] * 3 + [0] * 5)

    def test_rebuilding_gives_the_values_that_the_texels_were_made_from(self) -> None:
        values = np.arange(256, dtype=np.uint8).reshape(-1, 1, 2, 2).repeat(3, axis=1)
        for dtype in ("u8", "f16", "bf16", "f32"):
            with self.subTest(dtype=dtype):
                ring = FakeRing(capacity=64, dtype=dtype, extent=(128, 2))
                ring.publish(token_records(64), normalised(values, ring))
                picture = ring.read().rebuild(smooth=False)
                self.assertEqual((picture.shape, picture.dtype), ((2, 128, 3), np.uint8))
                # Token after token, each of 2 x 2.
                np.testing.assert_array_equal(picture.reshape(2, 64, 2, 3).transpose(1, 3, 0, 2), values)

    def test_rebuilding_fills_the_pixels_that_a_texel_is_the_mean_of(self) -> None:
        # 7 x 5 pixels: a token of texels of 2 x 2 of which 2 x 2 are real, and hang over the edges.
        ring = FakeRing(extent=(7, 5), patch=4)
        token = token_records(1, sx=2, sy=2, x=4, y=2, size=4, columns=2, rows=2, box=(4, 2, 7, 5))
        texels = np.arange(48).reshape(1, 3, 4, 4)
        ring.publish(token, texels)
        picture = ring.read().rebuild(smooth=False)
        red = np.zeros((5, 7), int)
        red[2:4, 4:6], red[2:4, 6:7], red[4:5, 4:6], red[4:5, 6:7] = 0, 1, 4, 5
        np.testing.assert_array_equal(picture[:, :, 0], red)
        self.assertEqual(picture[4, 6].tolist(), [5, 21, 37])

    def test_a_box_is_rebuilt_as_part_of_the_picture(self) -> None:
        random = np.random.default_rng(4)
        width, height = extent = (61, 47)
        ring = FakeRing(capacity=40, patch=4, extent=extent)
        for _ in range(4):
            steps = random.integers(1, 7, (2, 40))
            # Of real steps, outside the picture, and some that overlap.
            extras = random.integers(0, 4, (2, 40)) * random.integers(0, 2, 40)
            tokens = token_records(
                40, size=4, x=random.integers(-9, width, 40), y=random.integers(-9, height, 40), sx=steps[0], sy=steps[1]
            )
            tokens["extra_width"], tokens["extra_height"] = extras
            tokens["box"] = np.clip(tokens["box"].astype(np.int32), 0, np.tile(extent, 2))
            tokens["box"][:, 2:] = np.maximum(tokens["box"][:, :2], tokens["box"][:, 2:])
            ring.publish(tokens, random.integers(0, 256, (40, 3, 4, 4)))
            frame = ring.read()
            for smooth in (True, False):
                whole = frame.rebuild(smooth)
                self.assertEqual(whole.shape, (height, width, 3))
                for _ in range(8):
                    (x0, x1), (y0, y1) = np.sort(random.integers(-9, 70, 2)), np.sort(random.integers(-9, 55, 2))
                    part = whole[max(0, y0) : max(0, y1), max(0, x0) : max(0, x1)]
                    if part.size:
                        np.testing.assert_array_equal(frame.rebuild(smooth, box=(x0, y0, x1, y1)), part)
                    else:
                        with self.assertRaisesRegex(ValueError, "over a picture of 61x47"):
                            frame.rebuild(smooth, box=(x0, y0, x1, y1))

    def test_rebuilding_puts_the_finest_of_overlapping_tokens_on_top(self) -> None:
        # Beyond the left and the upper edge, of unlike steps, the finest first, in the middle and last; one lies outside.
        places = [(1, 1, 1, 1), (-3, -2, 2, 3), (3, 0, 1, 2), (-8, 0, 4, 4), (2, 2, 1, 1)]
        extent = (8, 6)
        for order in itertools.permutations(range(len(places))):
            with self.subTest(order=order):
                ring = FakeRing(extent=extent, capacity=8)
                tokens = np.concatenate([placed(*places[index], extent) for index in order])
                texels = np.array(order).reshape(-1, 1, 1, 1) * 10 + np.arange(1, 5).reshape(1, 1, 2, 2)
                ring.publish(tokens, np.broadcast_to(texels, (len(places), 3, 2, 2)))
                expected = np.zeros((6, 8), int)
                # The coarsest first; of equally coarse tokens the later one is on top.
                for index in sorted(order, key=lambda index: -places[index][2] * places[index][3]):
                    x, y, sx, sy = places[index]
                    for row, column in itertools.product(range(6), range(8)):
                        u, v = (column - x) // sx, (row - y) // sy
                        if 0 <= u < 2 and 0 <= v < 2:
                            expected[row, column] = index * 10 + 1 + 2 * v + u
                np.testing.assert_array_equal(ring.read().rebuild(smooth=False)[:, :, 1], expected)

    def test_rebuilding_fills_the_pixels_whose_centres_lie_in_a_texel(self) -> None:
        # 7 pixels over 2 texels; the right one has pixels from 3.5 on, and that is the centre of pixel 3.
        ring = FakeRing(extent=(7, 5))
        ring.publish(sized(0, 0, 7, 5, 2, (7, 5)), np.arange(12).reshape(1, 3, 2, 2))
        red = [[0, 0, 0, 1, 1, 1, 1]] * 2 + [[2, 2, 2, 3, 3, 3, 3]] * 3
        self.assertEqual(ring.read().rebuild(smooth=False)[:, :, 0].tolist(), red)

    def test_the_smaller_token_is_on_top_whatever_its_step(self) -> None:
        # Both have steps of 1 and more, rounded down.
        ring = FakeRing(extent=(4, 4))
        ring.publish(
            np.concatenate([sized(0, 0, 2, 2, 2, (4, 4)), sized(0, 0, 3, 2, 2, (4, 4))]),
            np.array([[1], [2]]).repeat(12, 1),
        )
        self.assertEqual(ring.read().rebuild(smooth=False)[0, :, 0].tolist(), [1, 1, 2, 0])

    def test_smooth_pictures_of_real_steps_are_interpolated_between_cells(self) -> None:
        extent, side = (61, 47), 8
        places = [(0, 0, 33, 33), (33, 0, 33, 33), (0, 33, 33, 33), (33, 33, 33, 33), (-5, 3, 27, 19), (20, 10, 8, 13)]
        tokens = np.concatenate([sized(*place, side, extent) for place in places])
        rgb = np.random.default_rng(5).integers(0, 256, (len(places), side, side, 3), dtype=np.uint8)
        blocks, smooth = (draw(tokens, rgb, extent).astype(float) for draw in (picture.replicated, picture.smoothed))
        for y, x in np.ndindex(*blocks.shape[:2]):
            over = [
                index for index, (left, top, width, height) in enumerate(places)
                if left <= x < left + width and top <= y < top + height
            ]  # fmt: skip
            index = min(reversed(over), key=lambda index: places[index][2] * places[index][3])
            expected = interpolated(tokens[index], places[index], rgb[index], blocks, (x, y)).clip(0, 255)
            np.testing.assert_allclose(smooth[y, x], expected, rtol=0, atol=0.52)

    def test_the_tokens_of_a_uniform_layout_are_a_grid(self) -> None:
        ring = FakeRing(grid_columns=3, grid_rows=2)
        pixels = np.arange(6 * 12).reshape(6, 3, 2, 2)
        ring.publish(token_records(6), pixels)
        frame = ring.read()
        self.assertEqual(frame.grid().shape, (2, 3, 3, 2, 2))
        np.testing.assert_array_equal(frame.grid()[1, 2], pixels[5])
        self.assertTrue(np.shares_memory(frame.grid(), frame.pixels))
        borrowed = ring.reader().borrow_newest()
        assert borrowed is not None
        self.assertTrue(np.shares_memory(borrowed.grid(), borrowed.pixels))
        ring.publish(token_records(5))
        with self.assertRaisesRegex(foveate.FoveateError, "5 tokens, which do not form a grid of 3 x 2"):
            ring.read().grid()

    def test_the_tokens_of_other_layouts_are_no_grid(self) -> None:
        ring = FakeRing()
        ring.publish()
        with self.assertRaisesRegex(
            foveate.FoveateError, "front/policy do not form a grid, .* 'foveal': .* layout = \"uniform\""
        ):
            ring.read().grid()

    def test_a_tensor_has_the_texels_of_the_frame(self) -> None:
        torch = torch_or_skip()
        values = np.arange(96, dtype=np.uint8).reshape(8, 3, 2, 2)
        names = {"u8": torch.uint8, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
        for dtype, expected in names.items():
            with self.subTest(dtype=dtype):
                ring = FakeRing(dtype=dtype)
                ring.publish(token_records(8), normalised(values, ring))
                for frame in (ring.read(), ring.reader().borrow_newest()):
                    tensor = frame.torch()
                    self.assertEqual((tensor.dtype, tuple(tensor.shape)), (expected, (8, 3, 2, 2)))
                    mean, std = frame.info.mean[0], frame.info.std[0]
                    close = (tensor[:, 0].double() * std + mean) * 255
                    self.assertLess((close - torch.from_numpy(values[:, 0]).double()).abs().max(), 0.5)
                    self.assertTrue((frame.torch(indices=[5, 1]) == tensor[[5, 1]]).all())

    def test_a_padded_frame_is_a_tensor_of_the_views_dtype_and_a_mask(self) -> None:
        torch_or_skip()
        for dtype in ("u8", "f16", "bf16", "f32"):
            with self.subTest(dtype=dtype):
                ring = FakeRing(dtype=dtype)
                ring.publish(token_records(3), normalised(np.arange(36, dtype=np.uint8).reshape(3, 3, 2, 2), ring))
                frame = ring.read()
                padded = frame.padded()
                pixels, mask = padded.torch()
                self.assertEqual((pixels.dtype, tuple(pixels.shape)), (frame.torch().dtype, (8, 3, 2, 2)))
                self.assertTrue((pixels[mask] == frame.torch()).all())
                self.assertEqual((mask.sum(), pixels[~mask].abs().sum()), (3, 0))
                self.assertEqual(pixels.data_ptr(), padded.pixels.ctypes.data)

    def test_a_tensor_of_a_copy_shares_its_memory(self) -> None:
        torch_or_skip()
        ring = FakeRing()
        ring.publish()
        frame = ring.read()
        frame.torch()[0] = 77
        self.assertEqual(set(frame.pixels.flat), {77})

    def test_a_copy_can_be_sent_to_another_process(self) -> None:
        ring = FakeRing(dtype="f16")
        ring.publish(token_records(3))
        frame = ring.read()
        sent = pickle.loads(pickle.dumps(frame))
        self.assertEqual((sent.frame_seq, sent.fixation, sent.info), (frame.frame_seq, frame.fixation, frame.info))
        np.testing.assert_array_equal(sent.pixels, frame.pixels)
        np.testing.assert_array_equal(sent.tokens, frame.tokens)

    def test_reading_leaks_nothing(self) -> None:
        ring = FakeRing()
        reader = ring.reader()
        before = descriptors(), mappings()
        for _ in range(100):
            ring.publish()
            reader.read_newest()
        self.assertEqual((descriptors(), mappings()), before)


def placed(x: int, y: int, sx: int, sy: int, extent: tuple[int, int]) -> Any:
    """The record of a token of 2 x 2 texels."""
    real = []
    box = []
    for origin, step, length in ((x, sx, extent[0]), (y, sy, extent[1])):
        texels = [texel for texel in range(2) if 0 < origin + (texel + 1) * step and origin + texel * step < length]
        real.append((min(texels, default=0), len(texels)))
        start, end = max(0, origin), min(length, origin + 2 * step)
        box.append((start, max(start, end)))
    (first_column, columns), (first_row, rows) = real
    (x0, x1), (y0, y1) = box
    return token_records(
        1, x=x, y=y, sx=sx, sy=sy, first_column=first_column, columns=columns, first_row=first_row, rows=rows,
        box=(x0, y0, x1, y1),
    )  # fmt: skip


def sized(x: int, y: int, width: int, height: int, side: int, extent: tuple[int, int]) -> Any:
    """The record of a token of ``side`` texels a side over ``width`` x ``height`` pixels."""
    fields: dict[str, Any] = dict(x=x, y=y, size=side)
    fields["sx"], fields["extra_width"] = divmod(width, side)
    fields["sy"], fields["extra_height"] = divmod(height, side)
    for name, origin, size, length in (("column", x, width, extent[0]), ("row", y, height, extent[1])):
        real = [
            texel
            for texel in range(side)
            if 0 < side * origin + (texel + 1) * size and side * origin + texel * size < side * length
        ]
        fields[f"first_{name}"], fields[f"{name}s"] = real[0], len(real)
    box = max(x, 0), max(y, 0), min(x + width, extent[0]), min(y + height, extent[1])
    return token_records(1, box=box, **fields)


def interpolated(token: Any, place: tuple[int, int, int, int], texels: Any, blocks: Any, pixel: tuple[int, int]) -> Any:
    """By the definition, in real numbers."""
    side = len(texels)
    (left, top), steps = place[:2], [size / side for size in place[2:]]
    u, v = ((at + 0.5 - origin) / step - 0.5 for at, origin, step in zip(pixel, (left, top), steps, strict=True))
    total = np.zeros(3)
    for row, column in itertools.product(range(-3, side + 3), repeat=2):
        weight = catmull_rom(u - column) * catmull_rom(v - row)
        if weight != 0:
            total += weight * cell(token, place, texels, blocks, row, column)
    return total


def cell(token: Any, place: tuple[int, int, int, int], texels: Any, blocks: Any, row: int, column: int) -> Any:
    """A texel, or the mean of the blocks under a cell beyond them, rounded half up."""
    first_column, columns, first_row, rows = (int(token[name]) for name in ("first_column", "columns", "first_row", "rows"))
    is_real = 0 <= column - first_column < columns and 0 <= row - first_row < rows
    if is_real:
        return texels[row, column].astype(float)
    (left, top), (step_x, step_y) = place[:2], (size / len(texels) for size in place[2:])
    shares = []
    for start, step, length in (
        (top + row * step_y, step_y, blocks.shape[0]),
        (left + column * step_x, step_x, blocks.shape[1]),
    ):
        pixels = np.arange(np.floor(start), np.ceil(start + step))
        share = np.minimum(pixels + 1, start + step) - np.maximum(pixels, start)
        shares.append((pixels.clip(0, length - 1).astype(int), share))
    (lines, down), (places, across) = shares
    mean = np.einsum("y,yxc,x->c", down, blocks[np.ix_(lines, places)], across) / (step_x * step_y)
    return np.floor(mean + 0.5 + 1e-9)


def catmull_rom(distance: float) -> float:
    """The cubic convolution kernel with a = -1/2."""
    d = abs(distance)
    if d < 1:
        return 1.5 * d**3 - 2.5 * d**2 + 1
    return -0.5 * d**3 + 2.5 * d**2 - 4 * d + 2 if d < 2 else 0.0


def normalised(values: np.ndarray, ring: FakeRing) -> np.ndarray:
    """8-bit values [N, 3, P, P] as the daemon writes them."""
    if ring.dtype == np.uint8:
        return values
    mean, std = (ring.header[field].reshape(3, 1, 1) for field in ("mean", "std"))
    numbers = ((values / 255 - mean) / std).astype(np.float32)
    if ring.dtype == np.uint16:
        # Round to even to the upper half of a float32.
        bits = numbers.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return numbers.astype(ring.dtype)


if __name__ == "__main__":
    unittest.main()
