"""The package against the real daemon: FOVEATE_BIN names the folder of `foveated`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from support import HANG, RealDaemon, abi, foveate, programs, within

LIVE = """
[[stream]]
name = "front"
pipeline = "videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=640,height=360,framerate=30/1 ! \
appsink name=frames"
backend = "cpu"
[[stream.view]]
name = "policy"
slots = 64
[stream.view.gaze]
policy = "feedback"
lease_ms = 60000
[[stream.view]]
name = "channels"
gaze = { policy = "relevance" }
[[stream.view]]
name = "bytes"
dtype = "u8"
slots = 64
gaze = { policy = "fixed" }
[[stream.view]]
name = "halves"
dtype = "f16"
slots = 64
gaze = { policy = "fixed" }
[[stream.view]]
name = "brain"
dtype = "bf16"
slots = 64
gaze = { policy = "fixed" }
[[stream.view]]
name = "floats"
dtype = "f32"
slots = 64
gaze = { policy = "fixed" }

[[stream]]
name = "rear"
source = "test"
backend = "cpu"
[[stream.view]]
name = "small"
patch = 14
budget = 50
layout = "uniform"
"""

#: A stream that ends, beside one that keeps the daemon alive.
ENDING = (
    LIVE
    + """
[[stream]]
name = "short"
restart = false
pipeline = "videotestsrc is-live=true num-buffers=60 ! video/x-raw,format=GRAY8,width=64,height=48,framerate=30/1 ! \
appsink name=frames"
backend = "cpu"
[[stream.view]]
name = "main"
slots = 64
"""
)


#: A still picture with detail everywhere.
STILL = """
[[stream]]
name = "front"
pipeline = "videotestsrc is-live=true pattern=zone-plate kx2=25 ky2=25 ! \
video/x-raw,format=NV12,width=320,height=180,framerate=30/1 ! appsink name=frames"
backend = "cpu"
[[stream.view]]
name = "robot"
"""


class CanvasesAreDrawn(unittest.TestCase):
    def test_a_reader_that_joins_late_gets_what_the_others_have(self) -> None:
        keys: Any = {"layout": "adaptive", "memory": "canvas", "budget": 60, "slots": 64, "dtype": "u8"}
        with RealDaemon(STILL) as daemon:
            with foveate.open("front/robot", daemon.path) as view:
                view.read(HANG)
            with foveate.open_view("front", daemon.path, **keys) as view:
                first = view.canvas()
                for _ in range(40):
                    first.update(view.read(HANG, newest=False))
                with foveate.open(view.name, daemon.path) as same:
                    late = same.canvas()
                    late.update(same.read(HANG, newest=False))
                    self.assertTrue((first.steps < late.steps).any(), "it has not seen all")
                    for _ in within():
                        first.update(view.read(HANG, newest=False))
                        late.update(same.read(HANG, newest=False))
                        if not late.wants_refresh and (late.steps <= first.steps).all():
                            break
            np.testing.assert_array_equal(late.pixels, first.pixels)
            np.testing.assert_array_equal(late.frames, first.frames)


class DaemonIsRead(unittest.TestCase):
    daemon: RealDaemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = RealDaemon(LIVE)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.daemon.__exit__()

    def open(self, view: str = "front/policy", **arguments: Any) -> foveate.View:
        opened = foveate.open(view, self.daemon.path, **arguments)
        self.addCleanup(opened.close)
        return opened

    def test_a_frame_is_what_the_configuration_says(self) -> None:
        frame = self.open("rear/small").read(HANG)
        self.assertEqual(
            (frame.info.stream, frame.info.view, frame.layout, frame.info.patch), ("rear", "small", "uniform", 14)
        )
        self.assertEqual((frame.pixels.shape[1:], frame.pixels.dtype), ((3, 14, 14), np.float16))
        self.assertLessEqual(len(frame), 50)
        self.assertLessEqual(frame.capture_ns, frame.publish_ns)
        self.assertLess(frame.age_ns, HANG * 1e9)

    def test_tokens_cover_the_picture_once(self) -> None:
        frame = self.open().read(HANG)
        width, height = frame.info.extent
        covered = np.zeros((height, width), int)
        for x0, y0, x1, y1 in frame.tokens["box"].tolist():
            covered[y0:y1, x0:x1] += 1
        self.assertTrue((covered == 1).all())

    def test_all_number_formats_describe_the_same_picture(self) -> None:
        names = [f"front/{name}" for name in ("bytes", "halves", "brain", "floats")]
        with foveate.open_many(names, self.daemon.path) as views:
            frames = views.read(slop_ms=0, timeout=HANG)
        pictures = [frame.rebuild() for frame in frames]
        self.assertEqual(len({frame.frame_seq for frame in frames}), 1)
        self.assertGreater(len(np.unique(pictures[0])), 1)
        for picture in pictures[1:]:
            np.testing.assert_array_equal(picture, pictures[0])

    def test_a_borrowed_frame_is_the_one_that_is_copied(self) -> None:
        view = self.open("front/bytes")
        for _ in within():
            try:
                with view.borrow(HANG) as frame:
                    tokens, pixels = frame.tokens, frame.pixels.copy()
            except foveate.Lapped:
                continue
            break
        other = self.open("front/bytes").read(HANG, at=frame.capture_ns)
        if other.frame_seq == frame.frame_seq:
            np.testing.assert_array_equal(other.pixels, pixels)
            np.testing.assert_array_equal(other.tokens, tokens)

    def test_equal_addresses_have_equal_bytes(self) -> None:
        view, cache = self.open(), foveate.TokenCache(4096)
        for turn in range(40):
            if turn % 8 == 0:
                view.look(80 * (turn // 8), 60)
            frame = view.read(HANG)
            kept = cache.embed(frame, lambda new, frame=frame: frame.pixels[new])
            self.assertEqual(kept.tobytes(), frame.pixels.tobytes())
        self.assertGreater(cache.hits, cache.misses)
        view.release()

    def test_a_look_is_obeyed_by_the_next_frame(self) -> None:
        view = self.open()
        # The ring keeps what comes from here on.
        view.read(HANG)
        looking = view.look(100, 200.5, wait=True)
        self.assertEqual((looking.fixation.x, looking.fixation.y, looking.fixation.reason), (100, 200.5, "look"))
        for _ in within():
            frame = view.read(HANG, newest=False)
            if frame.fixation.id == looking.fixation.id:
                break
        self.assertEqual((frame.fixation, frame.frame_seq), (looking.fixation, looking.fixation.since_frame))
        self.assertGreater(frame.asked_ns, 0)
        view.look(0.25, 0.5, normalised=True, frame=frame, for_ms=100)
        boxed = view.look(box=(100, 40, 140, 60), share=0.5, wait=True)
        self.assertEqual((boxed.fixation.x, boxed.fixation.y, boxed.fixation.reason), (120, 50, "look"))
        view.release()

    def test_attention_leads_the_eye_to_its_peak(self) -> None:
        view = self.open()
        for dtype in (np.uint8, np.float16, np.float32, np.float64):
            weights = np.zeros((9, 16), dtype)
            weights[2, 12] = 1
            looking = view.attend(weights, frame=view.read(HANG))
            self.assertEqual((looking.x, looking.y), (12.5 * 40, 2.5 * 40))
        boxed = view.attend(np.ones((1, 1), np.uint8), box=(100, 100, 120, 140))
        self.assertEqual((boxed.x, boxed.y), (110, 120))
        view.release()

    def test_places_move_as_the_camera_did(self) -> None:
        view = self.open()
        frame, shift = view.read(HANG), np.array([[1, 0, -80], [0, 1, 20], [0, 0, 1]])
        for homography in (shift, shift.ravel().tolist()):
            looking = view.look(100, 200, frame=frame, homography=homography)
            self.assertEqual((looking.x, looking.y), (20, 220))
        weights = np.zeros((9, 16))
        weights[2, 12] = 1
        looking = view.attend(weights, frame=frame, homography=2.0 * shift)
        self.assertLess(abs(looking.x - (12.5 * 40 - 80)) + abs(looking.y - (2.5 * 40 + 20)), 40)
        for reason, ask in [
            ("out-of-picture", lambda: view.look(10, 10, frame=frame, homography=shift)),
            ("no-camera", lambda: view.look(10, 10, frame=frame, rotation=[0, 0, 0, 1])),
            ("bad-request", lambda: view.look(10, 10, frame=frame, homography=np.ones((3, 3)))),
        ]:
            with self.subTest(reason=reason), self.assertRaises(foveate.Refused) as caught:
                ask()
            self.assertEqual(caught.exception.reason, reason)
        for wrong in [
            {"homography": shift},
            {"frame": frame, "homography": shift, "rotation": [0, 0, 0, 1]},
            {"frame": frame, "homography": shift[:2]},
            {"frame": frame, "rotation": [0, 0, 0, np.nan]},
        ]:
            with self.subTest(wrong=wrong), self.assertRaises(ValueError):
                view.attend(weights, **wrong)
        view.release()

    def test_scores_of_tokens_lead_the_eye_to_the_token(self) -> None:
        view = self.open()
        frame = view.read(HANG)
        target = int(np.argmax(frame.tokens["box"][:, 2]))
        # What lies behind the last token is padding.
        scores = np.zeros(frame.info.capacity, np.float32)
        scores[target] = 1
        looking = view.attend_tokens(frame, scores)
        x0, y0, x1, y1 = frame.tokens["box"][target].tolist()
        self.assertTrue(x0 <= looking.x <= x1 and y0 <= looking.y <= y1)
        view.release()

    def test_one_client_steers_at_a_time_and_others_learn_who(self) -> None:
        first, second = self.open(), self.open()
        first.look(10, 10)
        with self.assertRaises(foveate.Refused) as caught:
            second.look(20, 20)
        self.assertEqual(caught.exception.reason, "held")
        self.assertIn("process", caught.exception.holder or "")
        first.release()
        second.look(20, 20)
        second.release()

    def test_clients_share_out_the_channels_of_a_view(self) -> None:
        first, second = self.open("front/channels"), self.open("front/channels")
        depth = -np.arange(6, dtype=np.float16).reshape(2, 3)
        first.inject("depth", depth, first.read(HANG), ttl=60)
        second.inject("flow", depth, box=(0, 0, 64, 64))
        with self.assertRaises(foveate.Refused) as caught:
            second.inject("depth", depth)
        self.assertEqual(caught.exception.reason, "held")
        self.assertIn("process", caught.exception.holder or "")
        first.weigh(depth=1.0, edges=-0.25)
        with self.assertRaises(foveate.Refused) as caught:
            second.weigh(flow=1.0)
        self.assertEqual(caught.exception.reason, "held")
        first.release()
        first.close()
        for _ in within():
            try:
                second.inject("depth", depth)
            except foveate.Refused:
                continue
            break

    def test_refusals_have_their_reasons(self) -> None:
        view = self.open()
        for reason, ask in [
            ("negative", lambda: view.attend(-np.ones((2, 2)))),
            ("not-finite", lambda: view.attend(np.full((2, 2), np.nan))),
            ("wrong-count", lambda: view.attend_tokens(view.read(HANG), [1.0])),
            ("unknown-frame", lambda: view.attend(np.ones((2, 2)), frame=1 << 40)),
            ("policy", lambda: self.open("front/bytes").attend(np.ones((2, 2)))),
            ("policy", lambda: view.inject("depth", np.ones((2, 2)))),
            ("bad-request", lambda: self.open("front/channels").inject("edges", np.ones((2, 2)))),
            ("bad-request", lambda: self.open("front/channels").weigh()),
            ("unknown-view", lambda: self.open("front/none")),
            ("unknown-stream", lambda: foveate.open_view("none", self.daemon.path)),
            ("bad-request", lambda: foveate.open_view("front", self.daemon.path, color="red")),
        ]:
            with self.subTest(reason=reason), self.assertRaises(foveate.Refused) as caught:
                ask()
            self.assertEqual(caught.exception.reason, reason)
        view.release()

    def test_a_view_of_ones_own_lives_until_it_is_closed(self) -> None:
        with foveate.open_view("front", self.daemon.path, name="mine", budget=64, dtype="bf16") as view:
            self.assertEqual(view.name, "front/mine")
            frame = view.read(HANG)
            self.assertLessEqual(len(frame), 64)
            self.assertEqual(view.look(5, 6).x, 5)
        for _ in within():
            try:
                self.open("front/mine").close()
            except foveate.Refused as refused:
                self.assertEqual(refused.reason, "unknown-view")
                break

    def test_views_of_two_streams_match(self) -> None:
        with foveate.open_many(["front/policy", "rear/small"], self.daemon.path) as views:
            frames = [views.read(slop_ms=40, timeout=HANG) for _ in range(5)]
        for matched in frames:
            self.assertLessEqual(matched.spread_ns, 40_000_000)
        seqs = [matched["rear/small"].frame_seq for matched in frames]
        self.assertEqual(sorted(set(seqs)), seqs)

    def test_the_dump_names_every_field(self) -> None:
        command = [
            sys.executable,
            str(Path(__file__).parent / "dump.py"),
            "front/bytes",
            "3",
            "--socket",
            self.daemon.path,
        ]
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG).stdout.splitlines()
        frames = [json.loads(line) for line in lines]
        self.assertEqual(len(frames), 3)
        first = frames[0]["ring_sequence"]
        self.assertEqual([frame["ring_sequence"] for frame in frames], [first, first + 1, first + 2])
        self.assertLessEqual(set(abi.SLOT_HEADER.names), set(frames[0]))


class DaemonGoesAway(unittest.TestCase):
    def test_a_daemon_that_is_killed_hangs_up_and_comes_back(self) -> None:
        with RealDaemon(LIVE) as daemon:
            mortal = foveate.open("front/policy", daemon.path)
            patient = foveate.open("front/policy", daemon.path, reconnect=True)
            epochs = {patient.read(HANG).epoch, mortal.read(HANG).epoch}
            daemon.kill()
            with self.assertRaises(foveate.Ended) as caught:
                while True:
                    mortal.read(timeout=None)
            self.assertTrue(caught.exception.hung_up)
            daemon.start()
            for _ in within():
                epochs.add(patient.read(HANG).epoch)
                if len(epochs) == 2:
                    break
            self.assertEqual(patient.look(1, 2).x, 1)
            mortal.close()
            patient.close()

    def test_a_daemon_that_is_stopped_says_so_and_comes_back(self) -> None:
        with RealDaemon(LIVE) as daemon:
            mortal = foveate.open("front/policy", daemon.path)
            patient = foveate.open("front/policy", daemon.path, reconnect=True)
            epochs = {patient.read(HANG).epoch, mortal.read(HANG).epoch}
            daemon.kill(signal.SIGTERM)
            with self.assertRaisesRegex(foveate.Ended, "the daemon stopped"):
                while True:
                    mortal.read(timeout=None)
            daemon.start()
            for _ in within():
                epochs.add(patient.read(HANG).epoch)
                if len(epochs) == 2:
                    break
            mortal.close()
            patient.close()

    def test_a_stream_that_ends_says_why_after_its_last_frame(self) -> None:
        with RealDaemon(ENDING) as daemon, foveate.open("short/main", daemon.path) as view:
            frames = []
            with self.assertRaises(foveate.Ended) as caught:
                while True:
                    frames.append(view.read(HANG, newest=False).ring_sequence)
            self.assertFalse(caught.exception.hung_up)
            self.assertIn("the live source ended", caught.exception.reason)
            # The camera may have dropped some; of what was published, none is missing.
            self.assertEqual(frames, list(range(frames[0], frames[-1] + 1)))
            self.assertEqual(view.state, ("ended", caught.exception.reason))


def setUpModule() -> None:
    programs()


if __name__ == "__main__":
    unittest.main()
