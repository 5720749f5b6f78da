"""Frames of a daemon arrive on another machine, byte for byte, and losses and restarts on the way are reported."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from typing import Any

import numpy as np
from processes import BRIDGE, bridge, free_endpoint, ip, router, session, two_networks
from support import HANG, FakeDaemon, FakeRing, RealDaemon, token_records, within

import foveate
from foveate import remote

CLIPS = Path(os.environ.get("FOVEATE_CLIPS", Path.home() / ".cache" / "foveate"))

STREET = f"""
[[stream]]
name = "street"
source = "{CLIPS}/vtest.avi"
loop = true
[stream.change]
threshold = "auto"

[[stream.view]]
name = "model"
[stream.view.gaze]
policy = "saliency"

[[stream.view]]
name = "still"
dtype = "u8"
normalisation = "none"
[stream.view.gaze]
policy = "feedback"

[[stream.view]]
name = "map"
layout = "uniform"
budget = 48
dtype = "bf16"
"""


def content(frame: foveate.Frame) -> dict[str, Any]:
    """All that a frame says, but for what was read before it."""
    fields = {name: value for name, value in vars(frame).items() if name not in ("missed", "_planes", "_is_held")}
    fields["motion"] = None if frame.motion is None else frame.motion.tolist()
    planes = {name: hashed(items) for name, items in frame.planes.items()}
    return {**fields, "info": frame.info.epoch, "tokens": hashed(frame.tokens), "planes": planes}


def hashed(items: Any) -> str:
    """Of all bytes: a difference of 400 kB says no more."""
    return hashlib.sha256(items.tobytes()).hexdigest()


class Collector:
    """Reads on another thread, and keeps what it read by ``frame_seq``."""

    def __init__(self, view: Any, **how: Any) -> None:
        self._view, self._how = view, how
        self.frames: dict[int, foveate.Frame] = {}
        self._error: Exception | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises what a read raised."""
        if self._error is not None:
            raise self._error

    def finish(self) -> dict[int, foveate.Frame]:
        self._is_over = True
        self._thread.join(HANG)
        self.check()
        return self.frames

    def _run(self) -> None:
        while not self._is_over:
            try:
                frame = self._view.read(timeout=0.2, **self._how)
            except (foveate.TimedOut, foveate.Ended):
                continue
            except Exception as error:
                self._error = error
                return
            self.frames[frame.frame_seq] = frame


class RealFootage(unittest.TestCase):
    """A street with people, three views of it, on one machine."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = cls.enterClassContext(RealDaemon(STREET))
        cls.endpoint = free_endpoint()
        views = ["street/model", "street/still", "street/map"]
        cls.enterClassContext(bridge(cls.daemon.path, views, "--listen", cls.endpoint))
        cls.session = cls.enterClassContext(session(cls.endpoint))

    def open(self, view: str, **how: Any) -> remote.RemoteView:
        return self.enterContext(remote.open("robot", view, self.session, **how))

    def test_every_byte_arrives(self) -> None:
        for name in ("street/model", "street/still", "street/map"):
            with self.subTest(name):
                far = self.open(name)
                near = self.enterContext(foveate.open(name, self.daemon.path))
                collectors = Collector(far), Collector(near, newest=False)
                for _ in within():
                    both = collectors[0].frames.keys() & set(collectors[1].frames)
                    if 25 <= len(both):
                        break
                    collectors[0].check()
                    far._news.acquire()
                    far._news.wait(0.1)
                    far._news.release()
                ours, theirs = (collector.finish() for collector in collectors)
                for number in ours.keys() & theirs.keys():
                    self.assertEqual(content(ours[number]), content(theirs[number]), f"frame {number}")
                self.assertEqual(ours[max(ours)].info, theirs[max(theirs)].info)

    def test_what_stayed_as_it_was_is_not_sent_again(self) -> None:
        far = self.open("street/still")
        first = far.read(HANG)
        for _ in within():
            frame = far.read(HANG)
            status = far.status
            if first.frame_seq + 15 < frame.frame_seq and 10 < status.get("messages", 0) - status.get("whole", 0):
                break
        self.assertLess(status["texels"], status["tokens"])
        whole = frame.pixels.nbytes * status["messages"]
        self.assertLess(status["bytes"], whole)

    def test_local_readers_share_memory(self) -> None:
        shared = threading.Event()

        def take(sample: Any) -> None:
            if sample.payload.as_shm() is not None:
                shared.set()

        subscriber = self.session.declare_subscriber("foveate/robot/street/model", take)
        self.addCleanup(subscriber.undeclare)
        self.assertTrue(shared.wait(HANG), "no frame came through shared memory")

    def test_feedback_is_checked_by_the_daemon_and_answered(self) -> None:
        far = self.open("street/still", client="one")
        looking = far.look(200, 150, wait=True)
        self.assertEqual((looking.fixation.x, looking.fixation.y, looking.fixation.reason), (200, 150, "look"))
        for _ in within():
            frame = far.read(HANG)
            if frame.fixation.reason == "look":
                break
        self.assertEqual((frame.fixation.x, frame.fixation.y), (200, 150))

        with self.assertRaises(foveate.Refused) as held:
            self.open("street/still", client="other").look(10, 10)
        self.assertEqual(held.exception.reason, "held")
        with self.assertRaisesRegex(foveate.Unavailable, "unknown-frame"):
            far.look(200, 150, frame=1 << 40)
        frame = far.read(HANG)
        scores = np.arange(len(frame), dtype=np.float16)
        looking = far.attend_tokens(frame, scores, wait=True)
        self.assertIsNotNone(looking.fixation)
        far.release()
        self.open("street/still", client="other").release()

    def test_what_remote_clients_may_not_ask_for_is_refused(self) -> None:
        key = "foveate/robot/street/still/feedback"
        for request in (
            b'{"op":"open_view","stream":"street"}',
            b'{"op":"subscribe"}',
            b'{"op":"look","view":"street/model","points":[[1,1]]}',
            b'{"op":"look"',
            b"[]",
            b"",
        ):
            with self.subTest(request):
                [reply] = self.session.get(key, payload=request)
                answer = json.loads(reply.ok.payload.to_bytes())
                self.assertEqual((answer["ok"], answer["reason"]), (False, "bad-request"))
        [reply] = self.session.get(key, payload=b'{"op":"look","points":[[1,1]]}\n' + bytes(1 << 17))
        self.assertEqual(json.loads(reply.ok.payload.to_bytes())["reason"], "too-large")

    def test_a_message_that_is_lost_is_noticed_and_made_up_for(self) -> None:
        far = self.open("street/still")
        far.read(HANG)
        take, lost = far._take, [0]

        def take_some(payload: Any) -> None:
            head = payload.to_bytes()[:8]
            if head[4] & 1 == 0 and lost[0] < 5 and far.status.get("messages", 0) % 3 == 0:
                lost[0] += 1
                return
            take(payload)

        far._take = take_some  # type: ignore[method-assign]
        before = far.asked
        near = Collector(self.enterContext(foveate.open("street/still", self.daemon.path)), newest=False)
        frames: dict[int, foveate.Frame] = {}
        for _ in within():
            frame = far.read(HANG)
            frames[frame.frame_seq] = frame
            if lost[0] == 5 and far.lost and before < far.asked and 30 < len(frames):
                break
        theirs = near.finish()
        self.assertGreater(len(frames.keys() & theirs.keys()), 10)
        for number in frames.keys() & theirs.keys():
            self.assertEqual(content(frames[number]), content(theirs[number]), f"frame {number}")

    def test_views_that_are_alive_are_listed(self) -> None:
        self.open("street/model").read(HANG)
        listed = remote.list_views(self.session)
        self.assertIn(remote.RemoteName("robot", "street/model"), listed)
        self.assertNotIn(remote.RemoteName("robot", "street/other"), listed)


class Endings(unittest.TestCase):
    """A daemon that does what the test says."""

    def setUp(self) -> None:
        self.ring = FakeRing()
        self.daemon = self.enterContext(FakeDaemon({"front/policy": self.ring}))
        self.endpoint = free_endpoint()
        self.bridge = self.enterContext(bridge(self.daemon.path, ["front/policy"], "--listen", self.endpoint))
        self.session = self.enterContext(session(self.endpoint))
        self.far = self.enterContext(remote.open("robot", "front/policy", self.session))
        # Whoever subscribes late gets a frame that was published before.
        self.daemon.publish("front/policy", token_records(3))
        self.assertEqual(len(self.far.read(HANG)), 3)

    def test_whoever_comes_late_gets_the_newest_frame_at_once(self) -> None:
        late = self.enterContext(remote.open("robot", "front/policy", self.session))
        self.assertEqual(late.read(HANG).ring_sequence, 1)

    def test_another_segment_is_followed(self) -> None:
        self.daemon.move("front/policy", FakeRing(patch=4, capacity=5))
        self.daemon.publish("front/policy", token_records(2, size=4))
        for _ in within():
            frame = self.far.read(HANG)
            if frame.info.patch == 4:
                break
        self.assertEqual((frame.ring_sequence, frame.pixels.shape), (1, (2, 3, 4, 4)))

    def test_an_end_and_its_reason_arrive(self) -> None:
        self.ring.set_state(3, "the film is over")
        self.daemon.end("front/policy", "the film is over")
        with self.assertRaises(foveate.Ended) as ended:
            for _ in within():
                self.far.read(HANG)
        self.assertEqual(ended.exception.reason, "the film is over")
        for _ in within():
            if not self.far.is_alive:
                break

    def test_a_daemon_that_comes_back_is_followed(self) -> None:
        self.daemon.stop()
        for _ in within():
            if self.far.state[0] == "lost" and not self.far.is_alive:
                break
        self.daemon.rings["front/policy"] = FakeRing()
        self.daemon.start()
        self.daemon.publish("front/policy", token_records(4))
        for _ in within():
            if len(self.far.read(HANG)) == 4:
                break

    def test_a_bridge_that_is_killed_is_no_longer_alive(self) -> None:
        for _ in within():
            if self.far.is_alive:
                break
        self.bridge.kill()
        for _ in within():
            if not self.far.is_alive:
                break
        with self.assertRaises(foveate.TimedOut) as timed_out:
            self.far.read(0.1)
        self.assertIn("is not to be reached", str(timed_out.exception))

    def test_a_router_that_comes_later_is_met(self) -> None:
        endpoint = free_endpoint()
        self.enterContext(bridge(self.daemon.path, ["front/policy"], "--connect", endpoint, host="early"))
        self.enterContext(router([endpoint]))
        far = self.enterContext(remote.open("early", "front/policy", connect=[endpoint]))
        for _ in within():
            self.daemon.publish("front/policy", token_records(5))
            try:
                if len(far.read(0.2)) == 5:
                    break
            except foveate.TimedOut:
                pass

    def test_a_signal_ends_it_well(self) -> None:
        self.assertEqual(self.bridge.kill(signal.SIGTERM), 0)

    def test_two_clients_steer_over_connections_of_their_own(self) -> None:
        self.daemon.answers["look"] = lambda request: {"ok": True, "points": request["points"]}
        one = self.enterContext(remote.open("robot", "front/policy", self.session, client="one"))
        other = self.enterContext(remote.open("robot", "front/policy", self.session, client="other"))
        before = len(self.daemon._connections)
        self.assertEqual(one.look(3, 4)[:2], (3, 4))
        self.assertEqual(one.look(5, 4)[:2], (5, 4))
        self.assertEqual(other.look(6, 4)[:2], (6, 4))
        self.assertEqual(len(self.daemon._connections) - before, 2)


#: Machines have no memory in common.
APART = {"transport": {"shared_memory": {"enabled": False}}}


class Networks(unittest.TestCase):
    """Two machines, as the kernel has them, each with a router, and one link."""

    def setUp(self) -> None:
        if os.geteuid() != 0:
            raise AssertionError("network namespaces need root")
        self.daemon = self.enterContext(RealDaemon(STREET))
        self.here, self.there = self.enterContext(two_networks())

    def reader(self, view: str, endpoint: str, count: int) -> subprocess.Popen[str]:
        """Reads in the other network, and says what it read: a line of JSON for each frame."""
        command = ["ip", "netns", "exec", self.there, sys.executable, str(Path(__file__).parent / "reader.py")]
        process = subprocess.Popen([*command, view, endpoint, str(count)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_lost_link_between_two_routers_is_survived(self) -> None:
        listen = ["tcp/127.0.0.1:7447", "tcp/10.77.0.1:7447"]
        self.enterContext(router(listen, [], APART, namespace=self.here))
        self.enterContext(router(listen[:1], listen[1:], APART, namespace=self.there))
        connect = ["--connect", "tcp/127.0.0.1:7447"]
        self.enterContext(bridge(self.daemon.path, ["street/still"], *connect, namespace=self.here))
        near = Collector(self.enterContext(foveate.open("street/still", self.daemon.path)), newest=False)
        reader = self.reader("street/still", "tcp/127.0.0.1:7447", 40)
        lines = [json.loads(reader.stdout.readline()) for _ in range(20)]

        ip("-n", self.here, "link", "set", "fv-a", "down")
        down_at = max(near.frames)
        for _ in within():
            if down_at + 30 < max(near.frames):
                break
        ip("-n", self.here, "link", "set", "fv-a", "up")
        lines += [json.loads(line) for line in reader.stdout]
        self.assertEqual(reader.wait(HANG), 0)
        self.assertEqual(len(lines), 40)
        self.assertLess(down_at + 20, lines[-1]["frame_seq"])
        theirs = near.finish()
        compared = 0
        for line in lines:
            if line["frame_seq"] in theirs:
                frame = theirs[line["frame_seq"]]
                self.assertEqual(line["bytes"], digest(frame))
                compared += 1
        self.assertGreater(compared, 30)

    def test_a_slow_link_costs_frames_and_the_daemon_notices_nothing(self) -> None:
        # A whole frame of this view takes more than a second over it.
        limit = ["tc", "qdisc", "add", "dev", "fv-a", "root", "tbf", "rate", "3mbit", "burst", "8kb", "latency", "50ms"]
        subprocess.run(["ip", "netns", "exec", self.here, *limit], check=True)
        listen = ["--listen", "tcp/10.77.0.1:7447", "--whole-every", "1"]
        self.enterContext(bridge(self.daemon.path, ["street/model"], *listen, namespace=self.here))
        near = Collector(self.enterContext(foveate.open("street/model", self.daemon.path)), newest=False)
        reader = self.reader("street/model", "tcp/10.77.0.1:7447", 5)
        lines = [json.loads(line) for line in reader.stdout]
        self.assertEqual(reader.wait(HANG), 0)
        status = lines[-1]["status"]
        self.assertLess(0, status["skipped"], status)
        theirs = near.finish()
        for line in lines:
            self.assertEqual(line["bytes"], digest(theirs[line["frame_seq"]]))
        # No frame of the stream was dropped meanwhile.
        numbers = sorted(theirs)
        self.assertEqual(numbers, list(range(numbers[0], numbers[-1] + 1)))


def digest(frame: foveate.Frame) -> str:
    from reader import digest

    return digest(frame)


class Usage(unittest.TestCase):
    def test_nobody_is_met_without_being_asked_for(self) -> None:
        outcome = subprocess.run([str(BRIDGE), "front/policy"], capture_output=True, text=True, timeout=HANG)
        self.assertEqual(outcome.returncode, 2)
        self.assertIn("--connect", outcome.stderr)

    def test_a_wrong_configuration_is_named(self) -> None:
        for options, code in (
            (["--zenoh-config", "/nowhere.json5"], 78),
            (["--listen", "carrier-pigeon/127.0.0.1:1"], 69),
            (["--listen", "tcp/127.0.0.1:0", "--host", "a/b"], 2),
        ):
            with self.subTest(options):
                command = [str(BRIDGE), "front/policy", *options]
                outcome = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
                self.assertEqual(outcome.returncode, code, outcome.stderr)


if __name__ == "__main__":
    unittest.main()
