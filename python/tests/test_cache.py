"""The embeddings of a cache are those that the model would compute without it, whatever frames come."""

from __future__ import annotations

import random
import unittest
from typing import Any

import numpy as np
from support import FakeRing, foveate, token_records, torch_or_skip


def embedded(frame: foveate.Frame, indices: Any = slice(None)) -> Any:
    """A model: what it says of a token depends on its bytes alone."""
    pixels = frame.pixels[indices].reshape(-1, 12).astype(np.float32)
    return np.stack([pixels.sum(axis=1), pixels @ np.arange(12, dtype=np.float32)], axis=1)


class World:
    """A scene whose content changes, and an eye that jumps between places of it."""

    def __init__(self, seed: int, count: int = 8) -> None:
        self.chance = random.Random(seed)
        self.count = count
        self.ring = FakeRing(capacity=count, extent=(4096, 64))
        self.content = {place: (1, self.chance.randrange(256)) for place in range(6 * count)}
        self.frame_seq = 1

    def look(self, first: int, change: int = 0) -> foveate.Frame:
        """The tokens from place ``first`` on, after ``change`` places got new content."""
        self.frame_seq += 1
        for place in self.chance.sample(sorted(self.content), change):
            self.content[place] = (self.frame_seq, self.chance.randrange(256))
        places = [(first + index) % len(self.content) for index in range(self.count)]
        tokens = token_records(self.count, x=np.array(places) * 2, changed_frame=[self.content[p][0] for p in places])
        pixels = np.array([self.content[p][1] for p in places], np.uint8).reshape(-1, 1, 1, 1)
        self.ring.publish(tokens, np.broadcast_to(pixels, (self.count, 3, 2, 2)), frame_seq=self.frame_seq)
        return self.ring.read()


class CacheIsExact(unittest.TestCase):
    def test_embeddings_equal_those_computed_anew_after_any_history(self) -> None:
        for seed in range(20):
            world, chance = World(seed), random.Random(seed)
            cache = foveate.TokenCache(chance.choice((8, 13, 100)))
            for _ in range(60):
                frame = world.look(chance.randrange(40), chance.randrange(5))
                result = cache.embed(frame, lambda new, frame=frame: embedded(frame, new))
                np.testing.assert_array_equal(result, embedded(frame))
                self.assertLessEqual(len(cache), cache.capacity)

    def test_only_what_changed_or_is_new_is_computed(self) -> None:
        world, cache = World(1), foveate.TokenCache(100)
        frame = world.look(0)
        cache.embed(frame, lambda new: embedded(frame, new))
        frame = world.look(2)
        self.assertEqual(cache.missing(frame).tolist(), [6, 7])
        world.content[5] = (world.frame_seq + 1, 9)
        frame = world.look(0)
        self.assertEqual(cache.missing(frame).tolist(), [5])

    def test_places_of_past_fixations_are_still_known(self) -> None:
        world, cache = World(1), foveate.TokenCache(24)
        for first in (0, 20):
            frame = world.look(first)
            cache.embed(frame, lambda new: embedded(frame, new))
        frame = world.look(0)
        cache.embed(frame, self.fail)
        self.assertEqual((cache.hits, cache.misses), (8, 16))

    def test_the_place_that_was_used_least_lately_makes_room(self) -> None:
        world, cache = World(1), foveate.TokenCache(16)
        for first in (0, 8, 0, 16):
            frame = world.look(first)
            cache.embed(frame, lambda new: embedded(frame, new))
        self.assertEqual(len(cache.missing(world.look(0))), 0)
        self.assertEqual(len(cache.missing(world.look(8))), 8)

    def test_other_segments_and_views_share_nothing(self) -> None:
        cache = foveate.TokenCache(100)
        for number, ring in enumerate((FakeRing(epoch=1), FakeRing(epoch=2), FakeRing(epoch=2, view="other"))):
            ring.publish(token_records(2))
            frame = ring.read()
            self.assertEqual(len(cache.missing(frame)), 2)
            cache.store(frame, [0, 1], np.full((2, 3), number))
            np.testing.assert_array_equal(cache.gather(frame), np.full((2, 3), number))

    def test_tokens_of_unlike_steps_or_origins_share_nothing(self) -> None:
        ring, cache = FakeRing(), foveate.TokenCache(100)
        tokens = token_records(
            7, x=[-4, 4, -4, -4, -4, -4, -4], y=[0, 0, 0, 0, -4, 0, 0], sx=[2, 2, 4, 2, 2, 2, 2], sy=[2, 2, 2, 4, 2, 2, 2],
            extra_width=[0, 0, 0, 0, 0, 1, 0], extra_height=[0, 0, 0, 0, 0, 0, 1],
        )  # fmt: skip
        ring.publish(tokens)
        frame = ring.read()
        embeddings = np.arange(7)
        cache.store(frame, embeddings, embeddings)
        np.testing.assert_array_equal(cache.gather(frame), embeddings)
        ring.publish(tokens[::-1])
        np.testing.assert_array_equal(cache.gather(ring.read()), embeddings[::-1])

    def test_what_comes_out_is_a_copy(self) -> None:
        world, cache = World(1), foveate.TokenCache(100)
        frame = world.look(0)
        first = cache.embed(frame, lambda new: embedded(frame, new))
        first[:] = -1
        np.testing.assert_array_equal(cache.gather(frame), embedded(frame))

    def test_a_cleared_cache_knows_nothing(self) -> None:
        world, cache = World(1), foveate.TokenCache(100)
        frame = world.look(0)
        cache.embed(frame, lambda new: embedded(frame, new))
        cache.clear()
        self.assertEqual((len(cache), len(cache.missing(frame))), (0, 8))

    def test_an_empty_frame_has_no_embeddings(self) -> None:
        ring, cache = FakeRing(), foveate.TokenCache(8)
        ring.publish()
        full = ring.read()
        cache.embed(full, lambda new: np.ones((1, 3)))
        ring.publish(token_records(0))
        self.assertEqual(cache.embed(ring.read(), self.fail).shape, (0, 3))


class CacheRefusesWhatCannotBe(unittest.TestCase):
    def setUp(self) -> None:
        self.frame = World(1).look(0)

    def test_a_frame_larger_than_the_cache(self) -> None:
        with self.assertRaisesRegex(ValueError, "cache too small: 7 tokens \\(expected at least 8"):
            foveate.TokenCache(7).missing(self.frame)
        with self.assertRaises(ValueError):
            foveate.TokenCache(0)

    def test_embeddings_of_another_kind(self) -> None:
        cache = foveate.TokenCache(8)
        cache.store(self.frame, [0], np.ones((1, 3), np.float32))
        for other in (np.ones((1, 4), np.float32), np.ones((1, 3))):
            with self.assertRaisesRegex(ValueError, "one cache per model"):
                cache.store(self.frame, [1], other)
        with self.assertRaisesRegex(ValueError, "2 embeddings .expected 1"):
            cache.store(self.frame, [1], np.ones((2, 3), np.float32))

    def test_tokens_that_were_not_embedded(self) -> None:
        cache = foveate.TokenCache(8)
        with self.assertRaisesRegex(KeyError, "token 0"):
            cache.gather(self.frame)
        cache.store(self.frame, [0, 1, 3], np.ones((3, 2)))
        with self.assertRaisesRegex(KeyError, "token 2"):
            cache.gather(self.frame)


class CacheKeepsTensors(unittest.TestCase):
    def test_tensors_go_in_and_come_out(self) -> None:
        torch = torch_or_skip()
        world, cache = World(3), foveate.TokenCache(20)
        weights = torch.ones(12, requires_grad=True)
        for step in range(30):
            frame = world.look(step * 3, 4)
            result = cache.embed(frame, lambda new: frame.torch(indices=new).flatten(1).float() * weights)
            self.assertFalse(result.requires_grad)
            self.assertTrue((result == frame.torch().flatten(1).float()).all())
        self.assertGreater(cache.hits, 0)


if __name__ == "__main__":
    unittest.main()
