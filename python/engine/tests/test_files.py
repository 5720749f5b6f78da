"""Folders and clips: a result for each file, and the frames as the tool and the daemon make them."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import numpy as np
from engine_support import (
    SOFTWARE,
    clip_or_skip,
    foveate_engine,
    gst_or_skip,
    picture,
    refused,
    run,
    tool_or_skip,
    vulkan_or_skip,
)
from PIL import Image

from foveate_engine import EngineError


class Folders(unittest.TestCase):
    def setUp(self) -> None:
        self.engine = foveate_engine.Engine("cpu")
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)

    def save(self, name: str, seed: int, *shape: int, **keywords: object) -> None:
        Image.fromarray(picture(seed, *shape)).save(self.folder / name, **keywords)

    def test_pictures_of_any_size_come_in_order_and_exact(self) -> None:
        sizes = [(40, 50, 3), (64, 32, 3), (33, 77), (40, 50, 4)]
        for index in range(70):
            self.save(f"p{index}.png", index, *sizes[index % 4])
        seen = list(self.engine.folder(self.folder, (0.25, 0.5), budget=20, patch=8))
        self.assertEqual([Path(tokens.source or "").name for tokens in seen], [f"p{index}.png" for index in range(70)])
        for tokens in seen:
            rgb = np.asarray(Image.open(tokens.source or "").convert("RGBA")).astype(int)
            rgb = ((rgb[:, :, :3] * rgb[:, :, 3:] + 127) // 255).astype(np.uint8)
            np.testing.assert_array_equal(foveate_engine.decode(tokens.source or ""), rgb)
            height, width = rgb.shape[:2]
            alone = self.engine.pyramid(rgb).sample((width / 4, height / 2), budget=20, patch=8)
            self.assertEqual(tokens.pixels.tobytes(), alone.pixels.tobytes(), tokens.source)
            self.assertEqual(tokens.fixations, alone.fixations)

    def test_levels_of_sixteen_bits_are_scaled_to_the_range_that_is_told(self) -> None:
        levels = np.arange(3000, 3401, dtype=np.uint16)[None].repeat(16, axis=0)
        Image.fromarray(levels).save(self.folder / "thermal.png")
        for given, told in [("auto", (3000, 3400)), ((3100, 3300), (3100, 3300)), (None, None)]:
            warned = contextlib.nullcontext() if told else self.assertWarnsRegex(UserWarning, "401 levels .* become 2")
            with warned:
                (tokens,) = self.engine.folder(self.folder, gray_range=given)
                decoded = foveate_engine.decode(self.folder / "thermal.png", gray_range=told)
            low, high = told or (0, 65535)
            scaled = np.clip((levels[0].astype(float) - low) / (high - low), 0, 1) * 255
            self.assertLessEqual(np.abs(decoded[0, :, 0] - scaled).max(), 0.5, given)
            self.assertEqual(tokens.gray_range, told or (0, 65535))

    def test_every_kind_of_file_is_read(self) -> None:
        for ending in ("bmp", "gif", "pgm", "ppm", "tiff", "webp", "JPG"):
            keywords = {"lossless": True} if ending == "webp" else {}
            self.save(f"p.{ending}", 1, *((20, 30) if ending in ("pgm", "gif") else (20, 30, 3)), **keywords)
        seen = {Path(tokens.source or "").suffix: tokens for tokens in self.engine.folder(self.folder)}
        self.assertEqual(len(seen), 7)
        exact = self.engine.pyramid(picture(1, 20, 30, 3)).sample().pixels.tobytes()
        for ending in (".bmp", ".ppm", ".tiff", ".webp"):
            self.assertEqual(seen[ending].pixels.tobytes(), exact, ending)

    def test_exif_turns_a_picture(self) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6
        self.save("turned.png", 2, 20, 30, 3, exif=exif)
        np.testing.assert_array_equal(
            foveate_engine.decode(self.folder / "turned.png"), np.rot90(picture(2, 20, 30, 3), -1)
        )

    def test_files_that_cannot_be_read_are_listed_or_refused(self) -> None:
        self.save("a.png", 1, 20, 30, 3)
        self.save("c.png", 2, 20, 30, 3)
        (self.folder / "b.png").write_bytes(b"no picture")
        (self.folder / "d.jpg").write_bytes((self.folder / "a.png").read_bytes()[:200])
        folder = self.engine.folder(self.folder)
        self.assertEqual(len(list(folder)), 2)
        self.assertEqual([Path(path).name for path, _ in folder.skipped], ["b.png", "d.jpg"])
        self.assertTrue(all("cannot be decoded" in reason for _, reason in folder.skipped), folder.skipped)
        folder = self.engine.folder(self.folder, unreadable="refuse")
        next(folder)
        with refused(self, EngineError, "b.png", "cannot be decoded", "skip"):
            next(folder)
        gone = self.engine.folder([self.folder / "gone.png", self.folder / "a.png"])
        self.assertEqual(len(list(gone)), 1)
        self.assertIn("cannot be read", gone.skipped[0][1])

    def test_folders_in_folders_and_hidden_files(self) -> None:
        (self.folder / "sub").mkdir()
        for name in ("10.png", "9.png", ".hidden.png", "sub/1.png"):
            self.save(name, 1, 8, 9, 3)
        (self.folder / "notes.txt").write_text("no picture")
        names = lambda deep: [  # noqa: E731
            str(Path(tokens.source or "").relative_to(self.folder)) for tokens in self.engine.folder(self.folder, deep=deep)
        ]
        self.assertEqual((names(False), names(True)), (["9.png", "10.png"], ["9.png", "10.png", "sub/1.png"]))

    def decoders(self) -> list[str]:
        """Names of the threads that decode."""
        names = []
        for task in Path("/proc/self/task").iterdir():
            # It may end meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                names.append((task / "comm").read_text())
        return [name for name in names if name.startswith("decode-")]

    def test_leaving_early_ends_the_threads(self) -> None:
        for index in range(200):
            self.save(f"p{index}.png", 1, 100, 100, 3)
        folder = self.engine.folder(self.folder)
        next(folder)
        self.assertTrue(self.decoders())
        folder.close()
        for _ in range(200):
            if not self.decoders():
                break
            threading.Event().wait(0.05)
        self.assertFalse(self.decoders())
        with refused(self, EngineError, "folder is closed"):
            list(folder)

    def test_a_device_that_is_lost_is_left_for_the_cpu(self) -> None:
        """In a process whose device is lost after a few submissions: the same tokens, and said so."""
        vulkan_or_skip()
        for index in range(100):
            self.save(f"p{index}.png", index, 40 + index % 3, 50, 3)
        expected = [tokens.pixels.tobytes() for tokens in self.engine.folder(self.folder)]
        done = run(
            f"""
import foveate_engine, hashlib
def digest(all):
    return hashlib.sha256(b"".join(tokens.pixels.tobytes() for tokens in all)).hexdigest()
engine = foveate_engine.Engine("auto", device={SOFTWARE!r})
folder = engine.folder({str(self.folder)!r})
print(folder.backend, digest(folder), folder.backend, folder.reason.startswith({SOFTWARE!r}) and "lost" in folder.reason)
images = [foveate_engine.decode({str(self.folder)!r} + f"/p{{index}}.png") for index in range(0, 99, 3)]
is_lost = lambda: engine.reason.startswith({SOFTWARE!r}) and "lost" in engine.reason
print(engine.backend, digest(engine.batch(images)), engine.backend, is_lost())
""",
            FOVEATE_INJECT_DEVICE_LOSS="3",
        )
        digest = lambda all: hashlib.sha256(b"".join(all)).hexdigest()  # noqa: E731
        lines = [f"vulkan {digest(all)} cpu True" for all in (expected, expected[:99:3])]
        self.assertEqual(done.stdout.splitlines(), lines, done.stderr)

    def test_what_is_no_folder_is_refused(self) -> None:
        with refused(self, FileNotFoundError, "nowhere"):
            self.engine.folder(self.folder / "nowhere")
        with refused(self, ValueError, str(self.folder), "no pictures"):
            self.engine.folder(self.folder)
        self.save("a.png", 1, 20, 30, 3)
        with refused(self, ValueError, "unreadable='ignore'", "skip"):
            self.engine.folder(self.folder, unreadable="ignore")
        with refused(self, ValueError, "place=(2, 0)"):
            self.engine.folder(self.folder, (2, 0))
        with refused(self, EngineError, "the picture cannot be decoded"):
            foveate_engine.decode(b"no picture")


class Clips(unittest.TestCase):
    def setUp(self) -> None:
        gst_or_skip()
        self.engine = foveate_engine.Engine("cpu")

    def test_frames_are_those_of_the_tool(self) -> None:
        """The same bytes as ``foveate extract``, whose arrays hold what the rings hold."""
        clip, tool = clip_or_skip("vtest.avi"), tool_or_skip()
        with tempfile.TemporaryDirectory() as place:
            config = Path(place) / "c.toml"
            view = "[[stream]]\nname = 'a'\nsource = 'test'\n[[stream.view]]\nname = 'm'\nlayout = 'foveal'\nbudget = 64\n"
            for gaze in ({"policy": "saliency"}, {"policy": "fixed", "x": 0.25, "y": 0.75}):
                keys = "".join(f"{key} = {value!r}\n" for key, value in gaze.items())
                config.write_text(f"{view}[stream.view.gaze]\n{keys}")
                arguments = [tool, "extract", clip, "--out", place, "--force", "--config", config, "--frames", "20"]
                subprocess.run([str(each) for each in arguments], check=True, capture_output=True, timeout=120)
                names = ("pixels", "tokens", "frames")
                pixels, records, frames = (np.load(Path(place) / "m" / f"{name}.npy") for name in names)
                seen = list(self.engine.video(clip, gaze=gaze, frames=20, budget=64))
                self.assertEqual(len(seen), 20)
                for row, tokens in enumerate(seen):
                    count = int(frames["token_count"][row])
                    self.assertEqual(tokens.pixels.tobytes(), pixels[row, :count].tobytes())
                    self.assertEqual(tokens.tokens.tobytes(), records[row, :count].tobytes())
                    self.assertEqual(tokens.frame_seq, frames["frame_seq"][row])
                    self.assertEqual(tokens.seconds, frames["pts_ns"][row] / 1e9)
                    fixation = frames["fixations"][row, 0]
                    self.assertEqual(tokens.fixations[0], (fixation["x"], fixation["y"]))

    def test_a_pyramid_of_decoded_frames_gives_the_same(self) -> None:
        """One definition of change and tokens, whether frames come through GStreamer or as arrays."""
        with tempfile.TemporaryDirectory() as place:
            raw = Path(place) / "raw"
            source = "videotestsrc pattern=ball num-buffers=12 ! video/x-raw,format=NV12,width=320,height=240"
            branches = f"tee name=t ! queue ! filesink location={raw} t. ! queue ! appsink name=frames"
            played = list(self.engine.video(pipeline=f"{source} ! {branches}", budget=50))
            frames = np.fromfile(raw, np.uint8).reshape(-1, 360, 320)
        self.assertEqual((len(played), len(frames)), (12, 12))
        pyramid = None
        for frame, tokens in zip(frames, played, strict=True):
            if pyramid is None:
                pyramid, changed = self.engine.pyramid(frame, "NV12"), np.ones(1)
            else:
                changed = pyramid.update(frame)
            sampled = pyramid.sample(budget=50)
            self.assertEqual(sampled.pixels.tobytes(), tokens.pixels.tobytes())
            np.testing.assert_array_equal(sampled.tokens, tokens.tokens)
            self.assertEqual(changed.mean(), tokens.changed)

    def test_a_device_that_is_lost_is_left_for_the_cpu(self) -> None:
        vulkan_or_skip()
        code = f"""
import foveate_engine, hashlib
engine = foveate_engine.Engine("auto", device={SOFTWARE!r})
video = engine.video(pipeline="videotestsrc pattern=ball num-buffers=12 ! video/x-raw,width=320,height=240 ! \
appsink name=frames")
began = video.backend
texels = b"".join(tokens.pixels.tobytes() for tokens in video)
print(hashlib.sha256(texels).hexdigest(), began, video.backend, "lost" in video.reason)
"""
        kept, lost = (run(code, FOVEATE_INJECT_DEVICE_LOSS=count).stdout.split() for count in ("1000", "12"))
        self.assertEqual((kept[1:], lost[1:]), (["vulkan", "vulkan", "False"], ["vulkan", "cpu", "True"]))
        self.assertEqual(kept[0], lost[0])

    def test_a_part_of_a_clip(self) -> None:
        clip = clip_or_skip("vtest.avi")
        with self.engine.video(clip, start=1.0, budget=20) as video:
            self.assertGreater(video.duration or 0, 10)
            seconds = [tokens.seconds for tokens in itertools.islice(video, 3)]
        self.assertEqual(seconds, sorted(seconds, key=lambda at: at or 0))
        self.assertGreaterEqual(seconds[0] or 0, 1.0)

    def test_what_cannot_be_played_is_refused(self) -> None:
        with refused(self, EngineError, "nowhere.mp4"):
            self.engine.video("/nowhere.mp4")
        with refused(self, EngineError, "nonsense"):
            list(self.engine.video(pipeline="nonsense ! appsink name=frames"))
        for keywords, parts in (
            ({}, ("source", "pipeline")),
            ({"source": "a", "frames": 0}, ("frames=0",)),
            ({"source": "a", "start": -1.0}, ("start=-1",)),
            ({"source": "a", "gaze": {"policy": "wander"}}, ("policy", "wander")),
        ):
            with self.subTest(parts=parts), refused(self, ValueError, *parts):
                self.engine.video(**keywords)  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
