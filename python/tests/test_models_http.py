"""Crops reach a server with the OpenAI chat schema as the pixels that they are, and its answers come back to the source."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
from models_support import CLIP, ChatServer, foveal, frame, inset, scene, smooth, uniform, windows

from foveate import Canvas
from foveate.models import Unsuitable
from foveate.models.crops import canvas_crops, crops


class CropsOverHttp(unittest.TestCase):
    def setUp(self) -> None:
        self.server = ChatServer()
        self.addCleanup(self.server.close)

    def sent(self, frame: Any, **keys: Any) -> Any:
        found = crops(frame, **keys)
        return found, self.server.ask([part for crop in found for part in crop.parts()])

    def test_png_arrives_exactly_and_points_come_back_to_the_source(self) -> None:
        picture = scene(880, 700) // 2
        picture[328:336, 440:448] = 255
        found, answer = self.sent(windows(picture, 224, 3, 400, 300), encoding="png")
        for crop, arrived, point in zip(found, self.server.pictures, answer, strict=True):
            np.testing.assert_array_equal(arrived, crop.pixels)
            x, y = crop.place.source_from_image(point)
            self.assertTrue(440 <= x < 448 and 328 <= y < 336)
        # The finest is the picture itself, and the last one all of it, without what lies beyond.
        x0, y0, x1, y1 = found[0].place.box
        np.testing.assert_array_equal(self.server.pictures[0], picture[y0:y1, x0:x1])
        self.assertEqual(found[2].place, (0, 0, 4, 4, 220, 175))
        self.assertEqual(self.server.pictures[2].shape, (175, 220, 3))

    def test_jpeg_arrives_nearly(self) -> None:
        found, _ = self.sent(windows(smooth(1000, 700), 448, 2, 400, 300))
        for crop, arrived in zip(found, self.server.pictures, strict=True):
            self.assertEqual(arrived.shape, crop.pixels.shape)
            self.assertLess(np.abs(arrived.astype(int) - crop.pixels).max(), 8)

    def test_jpeg_keeps_the_edges_of_colours(self) -> None:
        stripes = np.zeros((224, 224, 3), np.uint8)
        stripes[:, ::2, 0] = stripes[:, 1::2, 2] = 255
        found, _ = self.sent(uniform(stripes, 28))
        self.assertLess(np.abs(self.server.pictures[0].astype(int) - found[0].pixels).mean(), 20)

    def test_what_lies_beyond_the_picture_is_cut_off_on_every_side(self) -> None:
        picture = scene(300, 200)
        view = frame(picture, [(-20, -10, 448, 448, 0), (-7, -7, 224, 224, 1)], 224, "windows")
        coarse, fine = crops(view, "png")
        self.assertEqual(coarse.place, (0, 0, 2, 2, 150, 100))
        self.assertEqual(fine.place, (0, 0, 1, 1, 217, 200))
        np.testing.assert_array_equal(fine.pixels, picture[:, :217])

    def test_a_uniform_view_is_one_picture(self) -> None:
        picture = scene(300, 200)
        for dtype, keys in (("u8", {}), ("f16", CLIP), ("bf16", CLIP), ("f32", CLIP)):
            self.server.pictures.clear()
            found, _ = self.sent(uniform(picture, 16, dtype=dtype, **keys), encoding="png")
            (arrived,) = self.server.pictures
            # Half a step of 8 bits, as much as bfloat16 keeps of 255.
            error = np.abs(arrived.astype(int) - picture).max()
            self.assertLessEqual(error, 1 if dtype == "bf16" else 0)
            self.assertEqual(
                found[0].sentence, "The picture shows all of the camera's 300 x 200 pixels, at full resolution."
            )

    def test_an_inset_is_its_base_and_its_blocks(self) -> None:
        picture = scene(300, 210)
        picture[64:80, 96:112] = 255
        found, answer = self.sent(inset(picture, 16, 21, [(90, 60, 16, 3, 2)]), encoding="png")
        self.assertEqual(
            self.server.texts,
            [
                "Picture 1 of 2 shows all of the camera's 300 x 210 pixels, at 1/1.31 of the resolution.",
                "Picture 2 of 2 shows columns 90 to 138 and rows 60 to 92 of the camera's 300 x 210 pixels, at full "
                "resolution.",
            ],
        )
        # The last texel of the base hangs over.
        self.assertEqual(self.server.pictures[0].shape, (160, 229, 3))
        np.testing.assert_array_equal(self.server.pictures[1], picture[60:92, 90:138])
        for crop, point in zip(found, answer, strict=True):
            x, y = crop.place.source_from_image(point)
            self.assertTrue(96 <= x < 112 and 64 <= y < 80)
        moved = crops(inset(picture, 16, 21, [(91, 60, 16, 3, 2)]), encoding="png")
        self.assertEqual([one.id == other.id for one, other in zip(found, moved, strict=True)], [False, False])

    def test_sentences_say_where_each_lies(self) -> None:
        self.sent(windows(scene(880, 700), 224, 3, 400, 300))
        self.assertEqual(
            self.server.texts,
            [
                "Picture 1 of 3 shows columns 288 to 512 and rows 188 to 412 of the camera's 880 x 700 pixels, at full "
                "resolution.",
                "Picture 2 of 3 shows columns 176 to 624 and rows 76 to 524 of the camera's 880 x 700 pixels, at 1/2 of "
                "the resolution.",
                "Picture 3 of 3 shows all of the camera's 880 x 700 pixels, at 1/4 of the resolution.",
            ],
        )


class CropsOfCanvases(unittest.TestCase):
    def canvas(self) -> tuple[Canvas, Any]:
        """Of a picture of 64x64 pixels: full resolution at the left, half of it at the right."""
        picture = scene(64, 64)
        picture[:, 32:] = picture[:, 32:].reshape(32, 2, 16, 2, 3)[:, :1, :, :1].repeat(2, 1).repeat(2, 3).reshape(64, 32, 3)
        tokens = [(x, y, 16, 16, 0) for x in (0, 16) for y in (0, 16, 32, 48)] + [(32, y, 32, 32, 1) for y in (0, 32)]
        shown = frame(picture, tokens, 16, "adaptive")
        shown.tiles = np.ones((2, 2), np.uint64)
        shown.ring_sequence = shown.frame_seq = 1
        shown.epoch = shown.info.epoch
        canvas = Canvas()
        canvas.update(shown)
        return canvas, picture

    def test_a_box_has_the_finest_step_there(self) -> None:
        canvas, picture = self.canvas()
        left, right, both = canvas_crops(canvas, [(3.5, 0, 20, 16), (41, 10, 64, 20), (0, 0, 99, 64)], "png")
        self.assertEqual(left.place, (3, 0, 1, 1, 17, 16))
        np.testing.assert_array_equal(left.pixels, picture[:16, 3:20])
        self.assertEqual(right.place, (40, 10, 2, 2, 12, 5))
        self.assertLess(np.abs(right.pixels[:, 1:].astype(int) - picture[10:20:2, 42:64:2]).mean(), 40)
        self.assertEqual(both.place, (0, 0, 1, 1, 64, 64))
        ends = [crop.sentence.rsplit(", ", 1)[1] for crop in (left, right, both)]
        self.assertEqual(ends, ["at full resolution.", "at 1/2 of the resolution.", "at up to full resolution."])
        self.assertEqual(canvas_crops(canvas, encoding="png")[0].id, canvas_crops(canvas, [(0, 0, 64, 64)], "png")[0].id)
        self.assertEqual(len({crop.id for crop in (left, right, both)}), 3)

    def test_what_is_not_there_is_refused(self) -> None:
        canvas, _ = self.canvas()
        for box in ((64, 0, 70, 9), (9, 9, 9, 10), (0, 0, float("nan"), 9), (1, 2, 3)):
            with self.assertRaises(Unsuitable) as caught:
                canvas_crops(canvas, [box])
            self.assertEqual(caught.exception.key, "box")
        with self.assertRaises(Unsuitable):
            canvas_crops(Canvas())


class CropsOfViews(unittest.TestCase):
    def test_have_one_id_for_each_content_and_encoding(self) -> None:
        picture = scene(500, 400)
        first = crops(windows(picture, 224, 2, 200, 200))
        self.assertEqual([crop.id for crop in first], [crop.id for crop in crops(windows(picture, 224, 2, 200, 200))])
        others = [*first, *crops(windows(picture, 224, 2, 200, 200, changed_frame=8))]
        others += [*crops(windows(picture, 224, 2, 200, 200), "png"), *crops(windows(picture, 224, 2, 200, 200), quality=50)]
        self.assertEqual(len({crop.id for crop in others}), 8)
        self.assertNotIn("uuid", first[0].parts()[1])
        self.assertEqual(first[0].parts(uuid=True)[1]["uuid"], first[0].id)

    def test_what_cannot_be_is_refused(self) -> None:
        view = windows(scene(500, 400), 224, 1, 200, 200)
        for key, value, give in (
            ("layout", "foveal", lambda: crops(foveal(scene(64, 64), 16, 9, 9))),
            ("encoding", "webp", lambda: crops(view, "webp")),
            ("quality", 100, lambda: crops(view, quality=100)),
        ):
            with self.assertRaises(Unsuitable) as caught:
                give()
            self.assertEqual((caught.exception.key, caught.exception.value), (key, value))


if __name__ == "__main__":
    unittest.main()
