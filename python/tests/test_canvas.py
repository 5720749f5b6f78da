"""A canvas holds at each place the finest texels since the place last changed."""

from __future__ import annotations

import dataclasses
import functools
import random
import unittest
from typing import Any, NamedTuple

import numpy as np
from support import FakeRing, abi, foveate

from foveate.canvas import Canvas

TILE = 32


class Square(NamedTuple):
    """A token: step of its texels, and place in the grid of squares of that step."""

    step: int
    column: int
    row: int


class Film:
    """Random pictures of which random tiles change, and frames of them."""

    def __init__(self, extent: tuple[int, int], patch: int, seed: int, frame_seq: int = 0) -> None:
        self.random = random.Random(seed)
        self.extent, self.patch = extent, patch
        self.ring = FakeRing(capacity=2000, patch=patch, extent=extent, view="canvas")
        width, height = extent
        self.picture = np.zeros((height, width, 3), np.uint8)
        self.changed = np.zeros((-(-height // TILE), -(-width // TILE)), np.uint64)
        self.frame_seq = frame_seq
        self._means: dict[Any, Any] = {}
        self.change(range(self.changed.size))

    def change(self, tiles: Any) -> None:
        """The next picture."""
        self.frame_seq += 1
        for tile in tiles:
            row, column = divmod(tile, self.changed.shape[1])
            part = self.picture[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
            part[:] = np.frombuffer(self.random.randbytes(part.size), np.uint8).reshape(part.shape)
            self.changed[row, column] = self.frame_seq

    def squares(self, base: int) -> list[Square]:
        """A random quadtree."""
        side = self.patch * base
        left = [
            Square(base, column, row)
            for row in range(-(-self.extent[1] // side))
            for column in range(-(-self.extent[0] // side))
        ]
        squares = []
        while left:
            step, column, row = left.pop()
            if step == 1 or self.random.random() < 0.5:
                squares.append(Square(step, column, row))
                continue
            for child in (Square(step // 2, 2 * column + x, 2 * row + y) for x in (0, 1) for y in (0, 1)):
                side = self.patch * child.step
                if child.column * side < self.extent[0] and child.row * side < self.extent[1]:
                    left.append(child)
        return squares

    def mean(self, x: int, y: int, step: int) -> Any:
        """The texel whose left upper corner is there; 7 outside."""
        key = (self.frame_seq, x, y, step)
        if key not in self._means:
            self._means = self._means if next(iter(self._means), key)[0] == self.frame_seq else {}
            self._means[key] = self._mean(x, y, step)
        return self._means[key]

    def _mean(self, x: int, y: int, step: int) -> Any:
        pixels = self.picture[y : y + step, x : x + step].reshape(-1, 3).astype(int)
        return (2 * pixels.sum(0) + len(pixels)) // (2 * len(pixels)) if len(pixels) else [7, 7, 7]

    def newest(self, x: int, y: int, side: int) -> int:
        """The newest change of a tile under a square."""
        return int(self.changed[y // TILE : -(-(y + side) // TILE), x // TILE : -(-(x + side) // TILE)].max())

    def frame(self, squares: list[Square]) -> foveate.Frame:
        """The frame that shows the picture by these tokens."""
        patch = self.patch
        tokens = np.zeros(len(squares), abi.TOKEN)
        pixels = np.zeros((len(squares), 3, patch, patch), np.uint8)
        for token, texels, (step, column, row) in zip(tokens, pixels, squares, strict=True):
            x, y = column * patch * step, row * patch * step
            token["x"], token["y"], token["sx"], token["sy"], token["size"] = x, y, step, step, patch
            token["changed_frame"] = self.newest(x, y, patch * step)
            for v in range(patch):
                for u in range(patch):
                    texels[:, v, u] = self.mean(x + u * step, y + v * step, step)
        self.ring.publish(tokens, pixels, tokens["sx"].astype(float), frame_seq=self.frame_seq)
        frame = self.ring.read()
        tiles = self.changed.copy().view(np.uint8).reshape(*self.changed.shape, 8)
        return dataclasses.replace(frame, _planes={**frame.planes, "tiles": tiles})


class Naive:
    """The definition, pixel by pixel."""

    def __init__(self, film: Film) -> None:
        self.film = film
        width, height = film.extent
        #: Step of the texel that each pixel was drawn from, and the frame that drew it.
        self.steps = np.zeros((height, width), int)
        self.drawn = np.zeros((height, width), int)
        self.frames = np.zeros((height, width), np.uint64)
        self.pixels = np.zeros((height, width, 3), np.uint8)

    def update(self, squares: list[Square]) -> None:
        film = self.film
        newest = functools.lru_cache(None)(film.newest)
        for square in squares:
            step, side = square.step, film.patch * square.step
            for y in range(square.row * side, min((square.row + 1) * side, film.extent[1])):
                for x in range(square.column * side, min((square.column + 1) * side, film.extent[0])):
                    had = int(self.steps[y, x])
                    is_gone = not had or self.drawn[y, x] < newest(x // had * had, y // had * had, had)
                    if is_gone or step <= had:
                        self.steps[y, x], self.drawn[y, x] = step, film.frame_seq
                        self.pixels[y, x] = film.mean(x // step * step, y // step * step, step)
                        self.frames[y, x] = newest(x // step * step, y // step * step, step)


def spread(places: Any, side: int, extent: tuple[int, int]) -> Any:
    """An array of places as one of pixels."""
    return places.repeat(side, 0).repeat(side, 1)[: extent[1], : extent[0]]


class CanvasTests(unittest.TestCase):
    def assert_equals(self, canvas: Canvas, naive: Naive, extent: tuple[int, int]) -> None:
        np.testing.assert_array_equal(canvas.pixels, naive.pixels)
        np.testing.assert_array_equal(spread(canvas.steps, canvas.side, extent), naive.steps)
        np.testing.assert_array_equal(spread(canvas.frames, canvas.side, extent), naive.frames)

    def test_a_canvas_follows_its_definition_whatever_it_misses(self) -> None:
        # Places of 8, 2, 4 and 32 pixels, and texels of several tiles.
        for extent, patch, base, side in [
            ((75, 53), 8, 4, 8),
            ((70, 45), 14, 2, 2),
            ((50, 70), 12, 8, 4),
            ((100, 70), 64, 2, 32),
            ((150, 90), 8, 128, 8),
        ]:
            film = Film(extent, patch, seed=patch)
            canvas, naive = Canvas(), Naive(film)
            missed = 0
            for number in range(7):
                squares = film.squares(base)
                frame = film.frame(squares)
                if number == 0 or film.random.random() < 0.8:
                    pixels, steps = canvas.pixels.copy(), canvas.steps.copy()
                    update = canvas.update(frame)
                    naive.update(squares)
                    self.assert_equals(canvas, naive, extent)
                    self.assertEqual((canvas.side, canvas.frame_seq), (side, film.frame_seq))
                    self.assertEqual(update.is_new, number == 0)
                    self.assertEqual(canvas.wants_refresh, missed > 0)
                    if number:
                        still = spread(~update.places, side, extent)
                        np.testing.assert_array_equal(canvas.pixels[still], pixels[still])
                        np.testing.assert_array_equal(canvas.steps[~update.places], steps[~update.places])
                else:
                    missed += 1
                film.change([tile for tile in range(film.changed.size) if film.random.random() < 0.2])

    def test_what_masks_cover_is_gone_with_the_first_frame(self) -> None:
        film = Film((96, 64), 8, seed=1)
        canvas = Canvas()
        canvas.update(film.frame([Square(1, column, row) for row in range(8) for column in range(12)]))
        film.change([])
        film.picture[32:, 64:] = 0
        film.changed[1, 2] = film.frame_seq
        coarse = [Square(4, column, row) for row in range(2) for column in range(3)]
        update = canvas.update(film.frame(coarse))
        self.assertTrue((canvas.pixels[32:, 64:] == 0).all())
        self.assertEqual(set(canvas.steps[4:, 8:].flat), {4})
        self.assertEqual(set(canvas.steps[:4].flat), {1})
        self.assertEqual(np.argwhere(update.places).min(0).tolist(), [4, 8])

    def test_a_frame_without_news_draws_nothing(self) -> None:
        film = Film((75, 53), 8, seed=2)
        canvas, squares = Canvas(), film.squares(4)
        self.assertTrue(canvas.update(film.frame(squares)).places.all())
        film.change([])
        self.assertFalse(canvas.update(film.frame(squares)).places.any())

    def test_a_token_that_had_kept_its_texels_is_drawn_again_once_it_has_new_ones(self) -> None:
        film = Film((32, 32), 8, seed=9)
        canvas, squares = Canvas(), [Square(2, column, row) for row in range(2) for column in range(2)]
        first = film.frame(squares)
        canvas.update(first)
        film.change([0])
        # Within the threshold: the tile changes, the token does not.
        frame = film.frame(squares)
        frame.tokens["changed_frame"] = 1
        kept = dataclasses.replace(frame, _planes={**frame.planes, "pixels": first.pixels})
        canvas.update(kept)
        film.change([])
        newest, fresh = film.frame(squares), Canvas()
        update = canvas.update(newest)
        fresh.update(newest)
        np.testing.assert_array_equal(canvas.pixels, fresh.pixels)
        self.assertTrue(update.places.all())

    def test_a_smooth_picture_of_one_frame_is_that_of_the_frame(self) -> None:
        film = Film((203, 149), 16, 5)
        frame = film.frame(film.squares(8))
        for axis, step, count, length in (("x", "sx", "columns", 203), ("y", "sy", "rows", 149)):
            frame.tokens[count] = np.minimum(16, -(-(length - frame.tokens[axis]) // frame.tokens[step].astype(int)))
        canvas = Canvas()
        canvas.update(frame)
        # A frame rounds the means of cells over other tokens.
        difference = np.abs(canvas.picture(smooth=True).astype(int) - frame.rebuild())
        self.assertLessEqual(difference.max(), 2)
        self.assertGreater(np.abs(canvas.picture().astype(int) - frame.rebuild()).max(), 2)

    def test_a_place_without_a_token_is_blank_once_it_changes(self) -> None:
        film = Film((64, 64), 8, seed=3)
        canvas = Canvas()
        canvas.update(film.frame([Square(4, column, row) for row in range(2) for column in range(2)]))
        film.change([0])
        update = canvas.update(film.frame([Square(4, 1, 1)]))
        self.assertTrue((canvas.pixels[:32, :32] == 0).all() and (canvas.steps[:4, :4] == 0).all())
        self.assertTrue(canvas.pixels[:32, 32:].any())
        self.assertEqual(int(update.places.sum()), 16)
        self.assertTrue((canvas.picture()[:32, :32] == 0).all())

    def test_another_segment_begins_anew(self) -> None:
        film, other = Film((75, 53), 8, seed=4), Film((40, 96), 16, seed=5, frame_seq=40)
        canvas = Canvas()
        for number in range(2):
            canvas.update(film.frame(film.squares(4)))
            film.change([number])
        squares = other.squares(2)
        self.assertTrue(canvas.update(other.frame(squares)).is_new)
        naive = Naive(other)
        naive.update(squares)
        self.assert_equals(canvas, naive, other.extent)
        self.assertFalse(canvas.wants_refresh)

    def test_who_joins_late_asks_for_a_refresh_until_it_is_granted(self) -> None:
        film = Film((40, 24), 8, seed=6)
        film.frame(film.squares(2))
        asked = []

        def refresh() -> None:
            asked.append(film.frame_seq)
            if len(asked) == 1:
                raise foveate.Refused("busy", "try again later")

        canvas = Canvas(refresh)
        film.change([])
        canvas.update(film.frame(film.squares(2)))
        self.assertTrue(canvas.wants_refresh)
        canvas._retry_at = 0
        film.change([])
        canvas.update(film.frame(film.squares(2)))
        self.assertEqual((canvas.wants_refresh, asked), (False, [2, 3]))

    def test_frames_that_do_not_fit_are_refused(self) -> None:
        film = Film((40, 24), 8, seed=7)
        frame = film.frame(film.squares(2))
        canvas = Canvas()
        with self.assertRaisesRegex(foveate.FoveateError, "no frame yet"):
            canvas.picture()
        canvas.update(frame)
        with self.assertRaisesRegex(ValueError, "frame 1 of the segment after frame 1"):
            canvas.update(frame)
        with self.assertRaisesRegex(foveate.FoveateError, "'tiles'.* `memory = \"canvas\"`"):
            canvas.update(film.ring.read())

    def test_a_picture_has_bytes_whatever_the_dtype(self) -> None:
        film = Film((40, 24), 8, seed=8)
        frame = film.frame(film.squares(1))
        canvas = Canvas()
        canvas.update(frame)
        np.testing.assert_array_equal(canvas.picture(), film.picture)
        info = dataclasses.replace(frame.info, dtype="f32", mean=(0.5,) * 3, std=(0.25,) * 3)
        normalised = ((frame.pixels / 255 - 0.5) / 0.25).astype(np.float32)
        canvas = Canvas()
        canvas.update(dataclasses.replace(frame, info=info, _planes={**frame.planes, "pixels": normalised}))
        self.assertEqual(canvas.pixels.dtype, np.float32)
        np.testing.assert_array_equal(canvas.picture(), film.picture)


if __name__ == "__main__":
    unittest.main()
