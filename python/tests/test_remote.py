"""Messages of ``foveate-zenoh`` rebuild the frames of the ring, and one that is lost is noticed. Needs no Zenoh."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
import unittest
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from support import FakeRing, token_records
from test_canvas import Film

import foveate
from foveate import abi, picture
from foveate.remote import Decoder, RemoteView

#: The greatest number of a message.
GREATEST = 2**64 - 1


class Sender:
    """Makes messages as ``bridges/zenoh/src/message.rs`` says, in the plainest way, of what a ring holds."""

    def __init__(self, ring: FakeRing, run: int = 7) -> None:
        self.ring, self.run, self.sequence = ring, run, 0
        self.before: tuple[np.ndarray, np.ndarray, bytes] | None = None

    def message(self, whole: bool = False) -> bytes:
        """Of the newest frame."""
        ring, slot = self.ring, self.ring.slot(self.ring.newest)
        head = bytes(ring.bytes[slot : slot + abi.SLOT_HEADER.itemsize])
        count = int(ring.slot_header(ring.newest)["token_count"])

        def part(offset: int, size: int) -> np.ndarray:
            return ring.bytes[slot + offset : slot + offset + size].copy()

        records = part(ring.records_offset, count * abi.TOKEN.itemsize).view(abi.TOKEN)
        texels = part(ring.pixels_offset, count * ring.token_bytes).reshape(count, ring.token_bytes)
        relevance = part(ring.relevance_offset, count * 4).tobytes()
        before, self.before = self.before, (records, texels, relevance)
        self.sequence += 1
        if whole or before is None:
            description = bytearray(ring.bytes[: abi.HEADER_BYTES].tobytes())
            description[abi.LIVE_OFFSET : abi.LIVE_OFFSET + abi.LIVE_BLOCK.itemsize] = bytes(abi.LIVE_BLOCK.itemsize)
            body = bytes(description) + head + records.tobytes() + texels.tobytes() + relevance
            return self._head(1, 0, (count, count, count, 3)) + body
        origins, new_records, new_texels = [], b"", b""
        for record, items in zip(records, texels, strict=True):
            place = [record[name] for name in picture.PLACE]
            at = [[held[name] for name in picture.PLACE] for held in before[0]]
            index = at.index(place) if place in at else None
            is_same = index is not None and before[0][index]["changed_frame"] == record["changed_frame"]
            origin = index if is_same else 0x7FFFFFFF
            if not is_same:
                new_texels += items.tobytes()
            if not is_same or before[0][index].tobytes() != record.tobytes():
                origin |= 0x80000000
                new_records += record.tobytes()
            origins.append(origin)
        planes, plane = (1, b"") if relevance == before[2] else (3, relevance)
        counts = (count, len(new_records) // abi.TOKEN.itemsize, len(new_texels) // ring.token_bytes, planes)
        body = head + struct.pack(f"<{count}I", *origins) + new_records + new_texels + plane
        return self._head(0, self.sequence - 1, counts) + body

    def _head(self, flags: int, base: int, counts: tuple[int, ...]) -> bytes:
        epoch = int(self.ring.header["epoch"])
        return struct.pack("<4sIQQQQIIII8x", b"FVZ1", flags, self.run, self.sequence, base, epoch, *counts)


def publish(ring: FakeRing, chance: random.Random) -> None:
    """A frame, some of whose tokens were in the one before, elsewhere in it."""
    number = ring.newest + 1
    places = chance.sample(range(12), chance.randint(0, ring.capacity))
    changed = [number - chance.choice((0, number % (place + 2))) for place in places]
    tokens = token_records(len(places), x=[2 * place for place in places], changed_frame=changed)
    if chance.random() < 0.3:
        tokens["relevance"] = chance.random()
    values = [[place, frame % 256] * 6 for place, frame in zip(places, changed, strict=True)]
    pixels = np.array(values, "u1").reshape(-1, 3, 2, 2)
    ring.publish(tokens, pixels, fixations=((number, 1.5, 2.5, 1, 1, 0),))


class Messages(unittest.TestCase):
    def assert_same(self, frame: foveate.Frame | None, other: foveate.Frame) -> None:
        assert frame is not None
        self.assertEqual(frame.info, other.info)
        self.assertEqual(frame.tokens.tobytes(), other.tokens.tobytes())
        self.assertEqual(frame.planes.keys(), other.planes.keys())
        for name, items in other.planes.items():
            self.assertEqual((frame.plane(name).shape, frame.plane(name).dtype), (items.shape, items.dtype))
            self.assertEqual(frame.plane(name).tobytes(), items.tobytes(), name)
        for name in ("ring_sequence", "frame_seq", "pts_ns", "capture_unix_ns", "publish_ns", "fixations", "bounds"):
            self.assertEqual(getattr(frame, name), getattr(other, name), name)

    def test_every_message_rebuilds_the_frame_of_the_ring(self) -> None:
        chance = random.Random(1)
        ring = FakeRing()
        sender, decoder = Sender(ring), Decoder()
        for _ in range(80):
            publish(ring, chance)
            self.assertTrue(decoder.take(sender.message(whole=chance.random() < 0.1)))
            self.assert_same(decoder.newest(), ring.read())
        self.assertEqual(decoder.lost, 0)

    def test_a_frame_stays_as_it_was_when_others_come(self) -> None:
        chance = random.Random(2)
        ring = FakeRing()
        sender, decoder = Sender(ring), Decoder()
        publish(ring, chance)
        decoder.take(sender.message())
        frame, expected = decoder.newest(), ring.read()
        assert frame is not None
        for _ in range(5):
            publish(ring, chance)
            decoder.take(sender.message())
        self.assert_same(frame, expected)
        frame.pixels[:] = 0
        self.assert_same(decoder.newest(), ring.read())

    def test_a_lost_message_is_noticed_and_a_whole_one_makes_up_for_it(self) -> None:
        chance = random.Random(3)
        ring = FakeRing(capacity=8)
        sender, decoder = Sender(ring), Decoder()
        publish(ring, chance)
        decoder.take(sender.message())
        for late in range(4):
            publish(ring, chance)
            sender.message()
            # What comes while a whole frame is on its way counts afterwards.
            publish(ring, chance)
            self.assertFalse(decoder.take(sender.message()))
            whole = Sender(ring)
            whole.sequence = sender.sequence - 1
            answer = whole.message()
            for _ in range(late):
                publish(ring, chance)
                self.assertFalse(decoder.take(sender.message()))
            self.assertTrue(decoder.take(answer))
            self.assert_same(decoder.newest(), ring.read())
            self.assertEqual(decoder.lost, late + 1)

    def test_messages_of_an_earlier_time_change_nothing(self) -> None:
        chance = random.Random(4)
        ring = FakeRing()
        sender, decoder = Sender(ring), Decoder()
        old = []
        for _ in range(4):
            publish(ring, chance)
            old.append(sender.message(whole=True))
        decoder.take(old[-1])
        for message in old[:-1]:
            self.assertTrue(decoder.take(message))
        self.assert_same(decoder.newest(), ring.read())

    def test_a_bridge_that_starts_again_and_another_segment_are_followed(self) -> None:
        chance = random.Random(5)
        decoder = Decoder()
        for run in (1, 2, 3):
            ring = FakeRing(capacity=3 + run)
            sender = Sender(ring, run)
            for _ in range(run):
                publish(ring, chance)
                self.assertTrue(decoder.take(sender.message()))
                self.assert_same(decoder.newest(), ring.read())
        self.assertEqual(decoder.lost, 0)

    def test_no_broken_message_does_more_than_raise(self) -> None:
        for seed in range(12):
            chance = random.Random(seed)
            ring = FakeRing()
            sender = Sender(ring)
            publish(ring, chance)
            whole = sender.message()
            publish(ring, chance)
            difference = sender.message()
            for _ in range(100):
                self.break_in_some_way(whole, None, len(whole), chance)
                self.break_in_some_way(difference, whole, len(difference), chance)
                # Where the head, the slot and the origins are, more can go wrong than among texels.
                self.break_in_some_way(difference, whole, 64, chance)
                origins = struct.pack("<4B", chance.choice((0, 1, 9, 200)), 0, 0, chance.choice((0, 0x80)))
                at = 64 + 512 + 4 * chance.randrange(8)
                self.break_in_some_way(difference[:at] + origins + difference[at + 4 :], whole, 0, chance)

    def break_in_some_way(self, good: bytes, before: bytes | None, end: int, chance: random.Random) -> None:
        """Cuts a message, or changes bytes before ``end``."""
        decoder = Decoder()
        if before is not None:
            decoder.take(before)
        bad = bytearray(good)
        if chance.random() < 0.3:
            del bad[chance.randrange(len(bad)) :]
        for _ in range(chance.randint(0, 3) if end else 0):
            at = chance.randrange(end)
            if at < len(bad):
                bad[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        try:
            if decoder.take(bytes(bad)):
                decoder.newest()
        except (foveate.BrokenSegment, ValueError):
            pass

    def renumbered(self, message: bytes, run: int, sequence: int, base: int = 0) -> bytes:
        return message[:8] + struct.pack("<QQQ", run, sequence, base) + message[32:]

    def test_impossible_numbers_do_not_silence_the_reader(self) -> None:
        for run, number in ((GREATEST, GREATEST), (7, GREATEST), (7, 1 << 40), (8, 1)):
            chance = random.Random(6)
            ring = FakeRing()
            sender, decoder = Sender(ring), Decoder()
            publish(ring, chance)
            decoder.take(sender.message())
            decoder.take(self.renumbered(sender.message(whole=True), run, number))
            publish(ring, chance)
            self.assertFalse(decoder.take(sender.message()), "a whole frame is needed")
            self.assertTrue(decoder.take(sender.message(whole=True)))
            self.assert_same(decoder.newest(), ring.read())
            publish(ring, chance)
            self.assertTrue(decoder.take(sender.message()))
            self.assert_same(decoder.newest(), ring.read())
            self.assertLess(decoder.lost, 1 << 41)

    def test_differences_from_impossible_bases_are_forgotten(self) -> None:
        chance = random.Random(7)
        ring = FakeRing()
        sender, decoder = Sender(ring), Decoder()
        publish(ring, chance)
        whole = sender.message()
        decoder.take(whole)
        publish(ring, chance)
        difference = sender.message()
        for run in (7, GREATEST):
            for number in range(100):
                wrong = self.renumbered(difference, run, GREATEST - number, GREATEST - number - 1)
                self.assertFalse(decoder.take(wrong))
            self.assertTrue(decoder.take(sender.message(whole=True)), "nothing waits any longer")
            publish(ring, chance)
            self.assertTrue(decoder.take(sender.message()))
            self.assert_same(decoder.newest(), ring.read())

    def test_messages_that_wait_are_bounded_in_bytes(self) -> None:
        ring = FakeRing()
        ring.publish()
        decoder = Decoder(max_frame_bytes=64 << 10)
        decoder.take(Sender(ring).message())
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for number in range(40):
            message = struct.pack("<4sIQQQQIIII8x", b"FVZ1", 0, 7, number + 9, number + 8, 0, 0, 0, 0, 1)
            self.assertFalse(decoder.take(message + bytes(30 << 10)))
        self.assertLess(tracemalloc.get_traced_memory()[0], 150 << 10)
        with self.assertRaisesRegex(foveate.BrokenSegment, "max_frame_bytes"):
            decoder.take(message + bytes(64 << 10))

    def assert_refused(self, message: bytes, what: str, decoder: Decoder) -> None:
        with self.assertRaisesRegex(foveate.BrokenSegment, what):
            decoder.take(message)

    def test_a_description_may_not_announce_more_than_the_limit(self) -> None:
        ring = FakeRing(source_width=16384, source_height=16384)
        ring.publish()
        message = Sender(ring).message()
        self.assert_refused(message, "the picture of .* has 805306368 bytes .*expected at most 268435456", Decoder())
        self.assertTrue(Decoder(max_frame_bytes=1 << 30).take(message))
        ring = FakeRing(capacity=1000)
        ring.publish()
        message = Sender(ring).message()
        self.assert_refused(message, "the frame of .* has 72000 bytes", Decoder(max_frame_bytes=70_000))

    def test_records_beyond_their_limits_are_refused(self) -> None:
        chance = random.Random(8)
        for field, value in (
            ("sx", 0), ("sx", 2049), ("sy", 65535), ("size", 3), ("columns", 3), ("first_row", 65535), ("fovea", 1),
            ("extra_width", 2), ("extra_height", 255), ("box", (0, 0, 65, 1)), ("box", (0, 2, 1, 1)),
        ):  # fmt: skip
            for is_whole in (True, False):
                ring = FakeRing()
                sender, decoder = Sender(ring), Decoder()
                ring.publish(token_records(3))
                decoder.take(sender.message())
                bad = token_records(3)
                bad[field][1] = value
                ring.publish(bad)
                self.assert_refused(sender.message(is_whole), "of token 1 is .*expected", decoder)
                publish(ring, chance)
                self.assertTrue(decoder.take(sender.message(whole=True)))
                self.assert_same(decoder.newest(), ring.read())

    def test_another_version_is_named(self) -> None:
        with self.assertRaisesRegex(foveate.BrokenSegment, "install the foveate package"):
            Decoder().take(b"FVZ2" + bytes(100))


class Rebuilding(unittest.TestCase):
    def test_memory_is_bounded_by_the_picture(self) -> None:
        """Of the largest tokens that there are, whatever they would cover beyond the picture."""
        tokens = token_records(1, size=16, sx=2048, sy=2048, x=-70, columns=16, rows=16, box=(0, 0, 200, 100))
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        drawn = picture.smoothed(tokens, np.full((1, 16, 16, 3), 200, np.uint8), (200, 100))
        self.assertTrue((drawn == 200).all())
        self.assertLess(tracemalloc.get_traced_memory()[1], 128 << 20)

    def test_records_beyond_their_limits_are_left_out(self) -> None:
        # The last is wider than a token of a real step may be.
        tokens = token_records(6, sx=[1, 0, 2049, 1, 1, 2048], size=[2, 2, 2, 3, 2, 2], extra_width=[0, 0, 0, 0, 2, 1])
        drawn = picture.replicated(tokens, np.full((6, 2, 2, 3), 9, np.uint8), (64, 64))
        self.assertEqual(int((drawn != 0).sum()), 2 * 2 * 3)


class FakeSession:
    """Of Zenoh, as far as a view needs it: it keeps the callbacks, and answers queries with `answer`."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[[Any], None]] = {}
        self.answer = b"{}"
        #: Payloads of the queries that were answered.
        self.asked: list[Any] = []

    def zid(self) -> str:
        return "1"

    def declare_subscriber(self, key: str, callback: Callable[[Any], None], **options: Any) -> Any:
        self.callbacks.setdefault(key, callback)
        return SimpleNamespace(undeclare=lambda: None)

    def liveliness(self) -> FakeSession:
        return self

    def get(self, key: str, *callbacks: Any, **options: Any) -> list[Any]:
        if not callbacks:
            self.asked.append(options.get("payload"))
        return [] if callbacks else [SimpleNamespace(ok=SimpleNamespace(payload=payload(self.answer)))]


def payload(content: bytes) -> Any:
    return SimpleNamespace(to_bytes=lambda: content)


class Views(unittest.TestCase):
    def setUp(self) -> None:
        self.session = FakeSession()
        self.view = RemoteView("host", "camera/main", self.session, False, None)
        self.addCleanup(self.view.close)

    def put(self, content: bytes, key: str = "foveate/host/camera/main") -> None:
        self.session.callbacks[key](SimpleNamespace(payload=payload(content)))

    def test_a_broken_message_is_an_error_once(self) -> None:
        ring = FakeRing()
        ring.publish()
        self.put(b"FVZ1")
        with self.assertRaises(foveate.BrokenSegment):
            self.view.read(timeout=0)
        self.put(Sender(ring).message())
        self.assertEqual(self.view.read(timeout=0).ring_sequence, 1)

    def test_a_canvas_asks_for_what_a_lost_message_had(self) -> None:
        film, canvas = Film((64, 48), 16, seed=1), self.view.canvas()
        self.session.answer = b'{"ok": true}'
        frames = [film.frame(film.squares(2)) for _ in range(4)]
        for number, asked in ((0, 0), (1, 0), (3, 1)):
            canvas.update(frames[number])
            self.assertEqual(len(self.session.asked), asked)
            self.assertFalse(canvas.wants_refresh)
        self.assertIn(b"refresh", self.session.asked[0])

    def test_a_status_that_is_none_is_ignored(self) -> None:
        key = "foveate/host/camera/main/status"
        self.put(json.dumps({"state": "live"}).encode(), key)
        for wrong in (b"[" * 100_000, b"[1]", b"\xff", b'{"state": "' + b"x" * 100_000 + b'"}'):
            self.put(wrong, key)
            self.assertEqual(self.view.state[0], "live")

    def test_an_answer_that_is_none_is_an_error_of_this_package(self) -> None:
        for wrong in (b"", b"[" * 100_000, b"3", b"{"):
            self.session.answer = wrong
            with self.assertRaises(foveate.BrokenSegment):
                self.view.look(1, 2)


if __name__ == "__main__":
    unittest.main()
