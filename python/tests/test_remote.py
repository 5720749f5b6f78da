"""Messages of ``foveate-zenoh`` rebuild the frames of the ring, and one that is lost is noticed. Needs no Zenoh."""

from __future__ import annotations

import random
import struct
import unittest

import numpy as np
from support import FakeRing, token_records

import foveate
from foveate import abi
from foveate.remote import Decoder


class Sender:
    """Makes messages as ``docs/fleet.md`` says, in the plainest way, of what a ring holds."""

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
        for record, items in zip(records, texels):
            place = [record[name] for name in ("x", "y", "sx", "sy")]
            at = [[held[name] for name in ("x", "y", "sx", "sy")] for held in before[0]]
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
    pixels = np.array([[place, frame % 256] * 6 for place, frame in zip(places, changed)], "u1").reshape(-1, 3, 2, 2)
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

    def test_another_version_is_named(self) -> None:
        with self.assertRaisesRegex(foveate.BrokenSegment, "install the foveate package"):
            Decoder().take(b"FVZ2" + bytes(100))


if __name__ == "__main__":
    unittest.main()
