"""What ``foveate record --mcap`` writes is what the ring held, byte by byte, as PyPI's ``mcap`` reads it."""

from __future__ import annotations

import io
import signal
import subprocess
import unittest
from pathlib import Path
from typing import Any

from models_support import module_or_skip
from support import HANG, RealDaemon, foveate, programs

LIVE = """
[[stream]]
name = "front"
pipeline = "videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=320,height=240,framerate=30/1 ! \
appsink name=frames"
backend = "cpu"
[[stream.view]]
name = "model"
slots = 64
[stream.view.gaze]
policy = "saliency"
"""

#: Frames that are read beside the recorder; it starts a little later than they do, and ends a little earlier.
FRAMES = 90


class RecordingHoldsTheRing(unittest.TestCase):
    published: dict[int, tuple[bytes, list[bytes]]]
    file: bytes

    @classmethod
    def setUpClass(cls) -> None:
        for name in ("mcap", "mcap_protobuf"):
            module_or_skip(name)
        with RealDaemon(LIVE) as daemon:
            path = daemon.folder / "run.mcap"
            recorder = start_recorder(daemon, path)
            cls.published = {}
            with foveate.open("front/model", daemon.path) as view:
                while len(cls.published) < FRAMES:
                    frame = view.read(HANG, newest=False)
                    planes = [plane.tobytes() for plane in frame.planes.values()]
                    cls.published[frame.frame_seq] = (frame.tokens.tobytes(), planes)
            recorder.send_signal(signal.SIGINT)
            if recorder.wait(HANG) != 0:
                raise AssertionError(f"the recorder exited with {recorder.returncode}")
            cls.file = path.read_bytes()

    def test_every_frame_is_the_rings_byte_by_byte(self) -> None:
        compared = 0
        for frame in decoded(self.file, "/front/model/tokens"):
            frame_seq = int.from_bytes(frame.header[16:24], "little")
            self.assertEqual(len(frame.header), 512)
            if frame_seq in self.published:
                records, planes = self.published[frame_seq]
                self.assertEqual(bytes(frame.records), records, frame_seq)
                self.assertEqual([bytes(plane) for plane in frame.planes], planes, frame_seq)
                compared += 1
        self.assertGreater(compared, FRAMES // 3)

    def test_it_says_itself_what_its_messages_are(self) -> None:
        segments = list(decoded(self.file, "/front/model/segment"))
        self.assertEqual(len(segments), 1)
        self.assertEqual(bytes(segments[0].header[:8]), b"FOVEATE\0")
        self.assertEqual(segments[0].epoch, int.from_bytes(segments[0].header[64:72], "little"))
        for image in decoded(self.file, "/front/model/image"):
            self.assertEqual((image.format, bytes(image.data[:2])), ("jpeg", b"\xff\xd8"))
        self.assertGreater(len(list(decoded(self.file, "/front/model/annotations"))), 1)
        kinds = [event.kind for event in decoded(self.file, "/front/model/status")]
        self.assertEqual((kinds[0], kinds[-1]), ("live", "stopped"))

    def test_a_file_that_was_cut_is_read_up_to_its_last_whole_chunk(self) -> None:
        reader = module_or_skip("mcap.reader")
        exceptions = module_or_skip("mcap.exceptions")
        whole = len(list(decoded(self.file, "/front/model/tokens")))
        cut = reader.NonSeekingReader(io.BytesIO(self.file[: len(self.file) // 2]))
        count = 0
        with self.assertRaises(exceptions.McapError):
            for _ in cut.iter_messages(topics=["/front/model/tokens"], log_time_order=False):
                count += 1
        self.assertTrue(0 < count < whole, (count, whole))


def start_recorder(daemon: RealDaemon, path: Path) -> subprocess.Popen[bytes]:
    program = str(programs() / "foveate")
    arguments = ["--socket", daemon.path, "record", "front/model", "--mcap", str(path)]
    return subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)


def decoded(file: bytes, topic: str) -> Any:
    """The messages of a topic, found by the index."""
    reader = module_or_skip("mcap.reader")
    decoder = module_or_skip("mcap_protobuf.decoder")
    opened = reader.make_reader(io.BytesIO(file), decoder_factories=[decoder.DecoderFactory()])
    return (message for _, _, _, message in opened.iter_decoded_messages(topics=[topic]))


if __name__ == "__main__":
    unittest.main()
