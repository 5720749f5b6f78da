"""Pictures that are damaged, huge, transparent, or in another mode than their shape suggests."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from engine_support import foveate_engine, gst_or_skip, picture, refused, run, tool_or_skip
from PIL import Image

from foveate_engine import EngineError, decode

HEIGHT, WIDTH = 120, 200


def smooth(mode: str = "RGB") -> Image.Image:
    """A picture whose JPEG has bits in all of its blocks."""
    noise = Image.fromarray(picture(1, 15, 25, 3)).resize((WIDTH, HEIGHT), Image.BICUBIC)
    return noise.convert(mode)


def encoded(kind: str = "JPEG", mode: str = "RGB", **keywords: Any) -> bytes:
    target = io.BytesIO()
    smooth(mode).save(target, kind, **keywords)
    return target.getvalue()


#: JPEGs of every kind that Pillow writes.
JPEGS = {
    "baseline": encoded(quality=90),
    "4:4:4": encoded(quality=95, subsampling=0),
    "4:2:2": encoded(quality=80, subsampling=1),
    "optimized": encoded(quality=70, optimize=True),
    "progressive": encoded(quality=90, progressive=True),
    "gray": encoded(mode="L"),
    "gray progressive": encoded(mode="L", progressive=True),
    "CMYK": encoded(mode="CMYK"),
}


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)

    def save(self, name: str, content: bytes) -> Path:
        (self.folder / name).write_bytes(content)
        return self.folder / name


class DamagedJpegs(InAFolder):
    def test_whole_jpegs_are_decoded(self) -> None:
        for kind, content in JPEGS.items():
            for rest in (b"", b"\0" * 100, b"\xff" * 7, content, b"ftyp a video that a phone appends"):
                with self.subTest(kind=kind, rest=rest[:4]):
                    found = decode(content + rest)
                    expected = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
                    # Decoders round differently, and Pillow converts CMYK in another way.
                    self.assertLess(np.abs(found.astype(int) - expected).mean(), 40 if kind == "CMYK" else 2)

    def test_cut_jpegs_are_refused(self) -> None:
        for kind, content in JPEGS.items():
            for share in (0.25, 0.5, 0.9, 0.999):
                with self.subTest(kind=kind, share=share), refused(self, EngineError, "cut off", "copy the file again"):
                    decode(content[: int(len(content) * share)])

    def test_a_thumbnail_does_not_end_a_jpeg(self) -> None:
        """Its end marker is not that of the picture."""
        thumbnail = encoded(quality=10)
        exif = b"\xff\xe1" + (len(thumbnail) + 8).to_bytes(2, "big") + b"Exif\0\0" + thumbnail
        whole = JPEGS["baseline"][:2] + exif + JPEGS["baseline"][2:]
        self.assertEqual(decode(whole).shape, (HEIGHT, WIDTH, 3))
        with refused(self, EngineError, "cut off"):
            decode(whole[:-100])

    def test_jpegs_that_were_not_written_to_their_end_are_refused(self) -> None:
        """The rest is zeros, as after a crash, or the next picture."""
        for kind, content in JPEGS.items():
            half = content[: len(content) // 2]
            for rest in (b"\0" * (len(content) - len(half)), content):
                with self.subTest(kind=kind, rest=rest[:2]), self.assertRaises(EngineError):
                    decode(half + rest)

    def test_each_way_in_refuses_a_cut_jpeg(self) -> None:
        whole, cut = JPEGS["baseline"], JPEGS["baseline"][:-20]
        paths = [self.save(name, content) for name, content in (("a.jpg", whole), ("b.jpg", cut), ("c.jpg", whole))]
        folder = foveate_engine.Engine("cpu").folder(self.folder)
        self.assertEqual(len(list(folder)), 2)
        self.assertEqual([Path(path).name for path, _ in folder.skipped], ["b.jpg"])
        self.assertIn("cut off", folder.skipped[0][1])
        with refused(self, EngineError, "b.jpg", "cut off"):
            decode(paths[1])

    def test_the_tool_refuses_a_cut_jpeg(self) -> None:
        gst_or_skip()
        tool = str(tool_or_skip())
        (self.folder / "in").mkdir()
        for name, content in (("a.jpg", JPEGS["baseline"]), ("b.jpg", JPEGS["baseline"][:-20])):
            (self.folder / "in" / name).write_bytes(content)
        for arguments in (["--sequence"], ["--unreadable", "refuse"]):
            with self.subTest(arguments=arguments):
                out = str(self.folder / arguments[0])
                done = subprocess.run(
                    [tool, "extract", str(self.folder / "in"), "--out", out, *arguments],
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
                self.assertNotEqual(done.returncode, 0)
                for part in ("b.jpg", "cut off", "copy the file again"):
                    self.assertIn(part, done.stderr)

    def test_other_formats_are_refused_when_cut(self) -> None:
        for kind in ("PNG", "WEBP", "TIFF", "BMP", "GIF", "PPM"):
            content = encoded(kind)
            for share in (0.25, 0.5, 0.9):
                with self.subTest(kind=kind, share=share), self.assertRaises(EngineError):
                    decode(content[: int(len(content) * share)])


class LargePictures(InAFolder):
    def sparse(self, name: str, width: int, height: int) -> Path:
        """A picture of black pixels that takes no space on the disk."""
        path = self.save(name, b"P6 %d %d 255\n" % (width, height))
        os.truncate(path, path.stat().st_size + 3 * width * height)
        return path

    def test_too_many_pixels_are_refused_before_decoding(self) -> None:
        path = self.sparse("a.ppm", 16_000, 8_001)
        with refused(self, EngineError, "a.ppm", "16000x8001", "128000000", "max_pixels"):
            decode(path)
        bilevel = io.BytesIO()
        Image.new("1", (16_384, 16_384)).save(bilevel, "PNG")
        with refused(self, EngineError, "16384x16384", "max_pixels"):
            decode(bilevel.getvalue())
        self.assertEqual(decode(self.sparse("b.ppm", 90, 100), max_pixels=9000).shape, (100, 90, 3))
        for given in (self.folder / "b.ppm", (self.folder / "b.ppm").read_bytes(), JPEGS["baseline"]):
            with refused(self, EngineError, "at most 8999"):
                decode(given, max_pixels=8999)

    def test_a_limit_is_of_pixels_and_not_of_bytes(self) -> None:
        tiny = io.BytesIO()
        Image.fromarray(picture(1, 8, 8, 3)).save(tiny, "PNG")
        content = tiny.getvalue() + b"what a program appends" * 1000
        self.assertEqual(decode(self.save("tiny.png", content), max_pixels=64).shape, (8, 8, 3))

    def test_a_folder_has_a_limit_of_its_own(self) -> None:
        self.sparse("a.ppm", 100, 100)
        self.sparse("b.ppm", 101, 100)
        folder = foveate_engine.Engine("cpu").folder(self.folder, max_pixels=10_000)
        self.assertEqual(len(list(folder)), 1)
        self.assertIn("101x100", folder.skipped[0][1])

    def test_pictures_ahead_are_bounded_by_bytes(self) -> None:
        """Forty pictures of 24 megapixels are 2.9 GB."""
        for index in range(40):
            self.sparse(f"p{index}.ppm", 6000, 4000)
        code = f"""
import foveate_engine, resource
with foveate_engine.Engine("cpu").folder({str(self.folder)!r}, budget=8, patch=8) as folder:
    print(sum(1 for _ in folder), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
        done = run(code)
        count, mebibytes = map(int, done.stdout.split())
        self.assertEqual(count, 40, done.stderr)
        self.assertLess(mebibytes, 1400)

    def test_what_is_no_regular_file_is_never_opened(self) -> None:
        """A FIFO would be waited for without end, and a device has none."""
        os.mkfifo(self.folder / "a.png")
        (self.folder / "b.png").symlink_to("/dev/zero")
        self.save("c.png", encoded("PNG"))
        folder = foveate_engine.Engine("cpu").folder(self.folder)
        self.assertEqual([Path(tokens.source or "").name for tokens in folder], ["c.png"])
        self.assertEqual([Path(path).name for path, _ in folder.skipped], ["a.png", "b.png"])
        for _, reason in folder.skipped:
            self.assertIn("not a regular file", reason)
        with refused(self, EngineError, "a.png", "not a regular file"):
            decode(self.folder / "a.png")

    def test_names_that_are_not_utf8_are_read(self) -> None:
        (self.folder / os.fsdecode(b"\xff.png")).write_bytes(encoded("PNG"))
        self.save("a\nb\\.png", encoded("PNG"))
        self.assertEqual(len(list(foveate_engine.Engine("cpu").folder(self.folder))), 2)

    def test_ctrl_c_ends_the_wait_for_a_picture(self) -> None:
        for index in range(40):
            self.sparse(f"p{index:02}.ppm", 11_000, 11_000)
        # A shell that runs the tests in the background has SIGINT ignored.
        code = f"""
import signal
import foveate_engine
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = foveate_engine.Engine("cpu").folder({str(self.folder)!r}, budget=8, patch=8)
next(folder)
print("begun", flush=True)
for _ in folder: pass
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            self.assertEqual(process.stdout.readline(), "begun\n")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=120)
        self.assertIn("KeyboardInterrupt", errors)


class Transparency(InAFolder):
    def setUp(self) -> None:
        super().setUp()
        self.engine = foveate_engine.Engine("cpu")
        self.rgba = picture(5, 40, 64, 4)
        self.rgba[:20, :, 3] = np.array([0, 255])[np.arange(64) % 2]
        alpha = self.rgba[:, :, 3:].astype(int)
        self.on = {
            background: (self.rgba[:, :, :3] * alpha + np.array(background) * (255 - alpha) + 127) // 255
            for background in ((0, 0, 0), (255, 128, 3))
        }
        Image.fromarray(self.rgba).save(self.folder / "a.png")

    def test_files_are_composited_on_the_background(self) -> None:
        path = self.folder / "a.png"
        for background, expected in self.on.items():
            np.testing.assert_array_equal(decode(path, background=background), expected)
            np.testing.assert_array_equal(decode(path.read_bytes(), background=background), expected)
            pixels = self.engine.pyramid(expected.astype(np.uint8)).sample(dtype="u8").pixels
            (tokens,) = self.engine.folder(self.folder, background=background, dtype="u8")
            np.testing.assert_array_equal(tokens.pixels, pixels)
        np.testing.assert_array_equal(decode(path), self.on[0, 0, 0])

    def test_arrays_are_composited_on_the_background(self) -> None:
        for background, expected in self.on.items():
            for format, given in (("RGBA", self.rgba), ("BGRA", self.rgba[:, :, [2, 1, 0, 3]])):
                with self.subTest(background=background, format=format):
                    before = given.copy()
                    pyramid = self.engine.pyramid(given, format, background=background)
                    np.testing.assert_array_equal(pyramid.level(0), expected)
                    self.assertFalse(pyramid.update(given).any())
                    np.testing.assert_array_equal(given, before)
                    tokens = self.engine.batch([given], format=format, background=background, dtype="u8")[0]
                    np.testing.assert_array_equal(tokens.pixels, pyramid.sample(dtype="u8").pixels)
        np.testing.assert_array_equal(self.engine.pyramid(self.rgba, "RGBx").level(0), self.rgba[:, :, :3])

    def test_clips_and_sequences_are_composited_too(self) -> None:
        gst_or_skip()
        raw = self.save("raw", self.rgba.tobytes())
        parse = f"filesrc location={raw} ! rawvideoparse format=rgba width=64 height=40"
        for background, expected in self.on.items():
            whole = self.engine.pyramid(expected.astype(np.uint8)).sample(dtype="u8").pixels
            for pipeline in (
                f"{parse} ! appsink name=frames",
                f"{parse} ! videoconvert ! video/x-raw,format=BGRA ! appsink name=frames",
                # Not readable as it is: converted with its alpha.
                f"{parse} ! videoconvert ! video/x-raw,format=ARGB ! appsink name=frames",
            ):
                with self.subTest(background=background, pipeline=pipeline):
                    (tokens,) = self.engine.video(pipeline=pipeline, background=background, dtype="u8")
                    np.testing.assert_array_equal(tokens.pixels, whole)
            for source in (self.folder, self.folder / "a.png"):
                (tokens,) = self.engine.video(source, background=background, dtype="u8")
                np.testing.assert_array_equal(tokens.pixels, whole)

    def test_what_is_no_colour_is_refused(self) -> None:
        for background in ((0, 0), (0, 0, 256), "black", (0.5, 0, 0)):
            with refused(self, ValueError, "background", "0 to 255"):
                decode(b"", background=background)  # type: ignore[arg-type]
        with refused(self, ValueError, "max_pixels=0"):
            decode(b"", max_pixels=0)


class Modes(unittest.TestCase):
    """What says what its samples mean is taken at its word."""

    def setUp(self) -> None:
        self.engine = foveate_engine.Engine("cpu")

    def level(self, image: Any, format: str | None = None) -> Any:
        return self.engine.pyramid(image, format).level(0)

    def test_modes_of_pillow_are_converted(self) -> None:
        rgb = smooth()
        for mode in ("1", "L", "P", "RGB", "RGBX", "CMYK", "YCbCr", "HSV"):
            with self.subTest(mode=mode):
                image = rgb.convert(mode)
                np.testing.assert_array_equal(self.level(image), np.asarray(image.convert("RGB")))

    def test_transparent_modes_of_pillow_are_composited(self) -> None:
        rgba = Image.fromarray(picture(3, 20, 30, 4))
        palette = Image.new("P", (30, 20), 1)
        palette.putpalette([9, 9, 9, 200, 100, 50])
        palette.info["transparency"] = 1
        self.assertFalse(self.level(palette).any())
        for mode in ("RGBA", "LA", "RGBa", "La", "PA"):
            with self.subTest(mode=mode):
                image = rgba.convert("LA").convert(mode) if mode in ("La", "PA") else rgba.convert(mode)
                opaque = image.convert("LA").convert("RGBA") if mode == "La" else image.convert("RGBA")
                samples = np.asarray(opaque).astype(int)
                expected = (samples[:, :, :3] * samples[:, :, 3:] + 127) // 255
                np.testing.assert_array_equal(self.level(image), expected)

    def test_modes_that_pillow_cannot_convert_are_refused(self) -> None:
        with refused(self, TypeError, "'LAB'", "ImageCms"):
            self.level(Image.new("LAB", (8, 8)))
        for mode in ("I;16", "I", "F"):
            with refused(self, TypeError, repr(mode), "scale", "convert"):
                self.level(Image.new(mode, (8, 8)))

    def test_a_format_that_contradicts_a_mode_is_refused(self) -> None:
        with refused(self, ValueError, "'BGR'", "'RGB'"):
            self.level(smooth(), "BGR")
        self.assertEqual(self.engine.pyramid(smooth(), "RGB").format, "RGB")

    def test_interpretations_of_libvips_are_heeded(self) -> None:
        class Vips:
            def __init__(self, interpretation: str) -> None:
                self.interpretation = interpretation

            def __array__(self, *_: Any, **__: Any) -> Any:
                return picture(1, 8, 8, 3)

        np.testing.assert_array_equal(self.level(Vips("srgb")), picture(1, 8, 8, 3))
        for interpretation in ("hsv", "cmyk", "lab", "labq"):
            with refused(self, TypeError, repr(interpretation), "colourspace('srgb')"):
                self.level(Vips(interpretation))

    def test_screenshots_are_blue_first(self) -> None:
        class ScreenShot:
            samples = picture(1, 8, 8, 4)
            bgra = samples.tobytes()
            __array_interface__ = samples.__array_interface__

        np.testing.assert_array_equal(self.level(ScreenShot()), ScreenShot.samples[:, :, 2::-1])

    def test_masked_samples_are_refused(self) -> None:
        masked = np.ma.masked_less(picture(1, 8, 8, 3), 100)
        with refused(self, TypeError, "masked", "filled(0)"):
            self.level(masked)
        np.testing.assert_array_equal(self.level(masked.filled(0)), masked.filled(0))


class Memory(unittest.TestCase):
    def test_an_array_may_be_resized_during_a_call(self) -> None:
        """NumPy lets any thread do that while the global lock is free, and frees the old memory."""
        done = run(
            """
import threading, time, numpy as np, foveate_engine
engine = foveate_engine.Engine("cpu", threads=1)
stopped = threading.Event()
shape = (1080, 1920, 3)
image = np.zeros(shape, np.uint8)

def resize():
    while not stopped.is_set():
        for size in (shape, (1, 1, 1)):
            image.resize(size, refcheck=False)
            time.sleep(0.002)

thread = threading.Thread(target=resize)
thread.start()
for _ in range(60):
    try:
        engine.pyramid(image, "RGB").close()
        engine.batch([image])
    except ValueError:
        pass  # It was small.
stopped.set()
thread.join()
print("alive")
"""
        )
        self.assertEqual(done.stdout, "alive\n", (done.returncode, done.stderr))

    def test_a_picture_is_its_own_copy(self) -> None:
        image = picture(1, 60, 80, 3)
        for given in (image, image[3:40, 5:70], image[::2], image.transpose(1, 0, 2)):
            ((flat, stride),) = foveate_engine.arrays.picture(given).planes
            self.assertFalse(np.shares_memory(flat, image))
            np.testing.assert_array_equal(flat.reshape(given.shape), given)
            self.assertEqual(stride, given.shape[1] * 3)


if __name__ == "__main__":
    unittest.main()
