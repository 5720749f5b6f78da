"""A view for tasks reads, steers and ends as one for threads does, and keeps neither the loop nor a thread busy."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import os
import re
import socket
import tempfile
import threading
import typing
import unittest
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
from support import HANG, FakeDaemon, FakeRing, RealDaemon, descriptors, foveate, programs, token_records, within

import foveate.aio
from foveate.keys import GazeKeys, ViewKeys
from foveate.subscription import Subscription

VIEW = "front/policy"


class InLoop(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        # Do not log slow callbacks on a busy machine.
        asyncio.get_running_loop().slow_callback_duration = HANG


class WithDaemon(InLoop):
    def setUp(self) -> None:
        self.ring = FakeRing(slot_count=8)
        self.daemon = FakeDaemon({VIEW: self.ring})
        self.addCleanup(self.daemon.__exit__)

    def opening(self, **arguments: Any) -> foveate.aio.ViewOpening:
        return foveate.aio.open(VIEW, self.daemon.path, **arguments)

    async def open(self, **arguments: Any) -> foveate.aio.View:
        """A view that has its segment already."""
        view = await self.opening(**arguments)
        self.addCleanup(view.close)
        while view.info is None:
            with contextlib.suppress(foveate.TimedOut):
                await view.read(timeout=0.01)
        return view

    async def asleep(self, task: asyncio.Task[Any]) -> None:
        """Waits until ``task`` waits for its view."""
        for _ in range(10):
            await asyncio.sleep(0)
        self.assertFalse(task.done())


def contents(frame: foveate.Frame) -> dict[str, Any]:
    """All that a frame says, but for when it was asked."""
    plain = {field.name: getattr(frame, field.name) for field in dataclasses.fields(frame)}
    del plain["_planes"], plain["_is_held"], plain["info"]
    plain["motion"] = None if frame.motion is None else frame.motion.tolist()
    arrays = {"tokens": frame.tokens, **frame.planes}
    return {**plain, **{name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}}


async def outcome(result: Any) -> tuple[type, str]:
    """The error of a call, or of what it returned to be awaited."""
    try:
        result = result()
        if isinstance(result, Awaitable):
            result = await result
    except Exception as error:
        return type(error), str(error)
    raise AssertionError(f"there is no error, but {result}")


class ViewReads(WithDaemon):
    async def test_frames_are_those_that_a_thread_reads(self) -> None:
        view = await self.open()
        with foveate.open(VIEW, self.daemon.path) as plain:
            for _ in within():
                if plain.subscription.poll_newest(lambda ring: True):
                    break
                plain.subscription.wait(None)
            chance = np.random.default_rng(1)
            for newest in (True, False):
                for _ in range(3):
                    count = int(chance.integers(1, 8))
                    pixels = chance.integers(0, 256, (count, 3, 2, 2), np.uint8)
                    self.daemon.publish(VIEW, token_records(count), pixels, pts_ns=7, flags=1)
                for _ in range(1 if newest else 3):
                    frame = await view.read(HANG, newest)
                    self.assertEqual(contents(frame), contents(plain.read(HANG, newest)))
            self.assertEqual(frame.frame_seq, 6)
            at = frame.capture_ns - 1
            self.assertEqual(contents(await view.read(HANG, at=at)), contents(plain.read(HANG, at=at)))

    async def test_a_frame_ends_the_wait(self) -> None:
        view = await self.open()
        read = asyncio.create_task(view.read(timeout=None))
        await self.asleep(read)
        self.daemon.publish(VIEW)
        self.assertEqual((await read).frame_seq, 1)

    async def test_a_notice_that_was_left_out_does_not_hide_a_frame(self) -> None:
        view = await self.open()
        read = asyncio.create_task(view.read(timeout=None))
        await self.asleep(read)
        self.ring.publish()
        self.assertEqual((await asyncio.wait_for(read, HANG)).frame_seq, 1)

    async def test_iteration_gives_frames_until_the_stream_ends(self) -> None:
        view = await self.open()
        self.daemon.publish(VIEW)
        seen = []
        async for frame in view:
            seen.append(frame.frame_seq)
            if frame.frame_seq == 3:
                self.daemon.end(VIEW, "end of file")
            else:
                self.daemon.publish(VIEW)
        self.assertEqual((seen, view.state), ([1, 2, 3], ("ended", "end of file")))

    async def test_each_frame_goes_to_one_of_the_tasks_that_wait(self) -> None:
        view = await self.open()
        tasks = [asyncio.create_task(view.read(timeout=None)) for _ in range(3)]
        for task in tasks:
            await self.asleep(task)
        for _ in range(3):
            self.daemon.publish(VIEW)
            done, pending = await asyncio.wait([task for task in tasks if not task.done()], return_when="FIRST_COMPLETED")
            self.assertEqual(len(done), 1)
        self.assertEqual(sorted(task.result().frame_seq for task in tasks), [1, 2, 3])

    async def test_a_reader_that_always_finds_a_frame_leaves_the_loop_to_others(self) -> None:
        self.ring.publish()
        view = await self.open()
        turns = 0

        async def read_on() -> None:
            nonlocal turns
            while turns < 200:
                await view.read(at=0)
                turns += 1

        reader = asyncio.create_task(read_on())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.assertLess(turns, 100)
        await reader

    async def test_nothing_is_looked_for_again_and_again(self) -> None:
        view = await self.open(reconnect=True)
        for prepare in (lambda: None, self.daemon.stop):
            prepare()
            polls = mock.Mock(side_effect=Subscription.poll, autospec=True)
            with mock.patch.object(Subscription, "poll", lambda *arguments, polls=polls: polls(*arguments)):
                with self.assertRaises(foveate.TimedOut):
                    await view.read(timeout=0.5)
            # 0.1 s apart, and a few for what happens; fewer where the machine is busy.
            self.assertLess(polls.call_count, 30)

    async def test_the_loop_watches_a_view_only_while_a_task_waits_for_it(self) -> None:
        view, loop = await self.open(), asyncio.get_running_loop()
        descriptor = view.subscription.fileno()
        assert descriptor is not None
        for end in (lambda: self.daemon.publish(VIEW), lambda: read.cancel()):
            read = asyncio.create_task(view.read(timeout=None))
            await self.asleep(read)
            end()
            await asyncio.wait([read])
            self.assertFalse(loop.remove_reader(descriptor))
        with self.assertRaises(foveate.TimedOut):
            await view.read(timeout=0.01)
        self.assertFalse(loop.remove_reader(descriptor))

    async def test_a_frame_is_lent_and_taken_back(self) -> None:
        view = await self.open()
        self.daemon.publish(VIEW)
        async with view.borrow(HANG) as frame:
            self.assertEqual(set(frame.pixels.flat), {1})
            self.assertFalse(frame.pixels.flags.writeable)
        self.assertFalse(frame.still_valid)
        self.daemon.publish(VIEW)
        with self.assertRaises(foveate.Lapped):
            async with view.borrow(HANG):
                for _ in range(self.ring.slot_count):
                    self.ring.publish()
                    await asyncio.sleep(0)
        with self.assertRaises(asyncio.CancelledError):
            async with view.borrow(HANG) as frame:
                self.ring.begin(frame.ring_sequence)
                raise asyncio.CancelledError
        self.assertFalse(frame.still_valid)


class ViewIsCancelled(WithDaemon):
    async def test_a_read_that_is_cancelled_has_taken_no_frame(self) -> None:
        view = await self.open()
        # From before the loop has heard of the frame until after it was read.
        for turns in range(8):
            read = asyncio.create_task(view.read(timeout=None, newest=False))
            await self.asleep(read)
            self.daemon.publish(VIEW)
            for _ in range(turns):
                await asyncio.sleep(0)
            read.cancel()
            await asyncio.wait([read])
            frame = await view.read(timeout=0, newest=False) if read.cancelled() else read.result()
            self.assertEqual((frame.frame_seq, frame.missed), (turns + 1, 0))

    async def test_a_read_that_is_cancelled_leaves_the_others_waiting(self) -> None:
        view = await self.open()
        reads = [asyncio.create_task(view.read(timeout=None)) for _ in range(2)]
        for read in reads:
            await self.asleep(read)
        reads[0].cancel()
        await self.asleep(reads[1])
        descriptor = view.subscription.fileno()
        assert descriptor is not None
        # The second read still watches the descriptor, and looks for frames at an interval without it.
        self.assertTrue(asyncio.get_running_loop().remove_reader(descriptor))
        self.daemon.publish(VIEW)
        self.assertEqual((await reads[1]).frame_seq, 1)
        self.assertTrue(reads[0].cancelled())

    async def test_iteration_that_is_cancelled_goes_on(self) -> None:
        view = await self.open()
        frames = view.__aiter__()
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(frames.__anext__(), 0.05)
        self.daemon.publish(VIEW)
        self.assertEqual((await frames.__anext__()).frame_seq, 1)

    async def test_the_answer_to_a_request_that_was_cancelled_is_not_taken_for_another(self) -> None:
        may_answer = threading.Event()

        def answer(request: dict[str, Any]) -> dict[str, Any]:
            if request["points"][0][0] < 2:
                may_answer.wait(HANG)
            if request["points"][0][0] == 1:
                return {"ok": False, "reason": "held", "error": "by another", "holder": "another"}
            return {"ok": True, "points": request["points"]}

        self.daemon.answers["look"] = answer
        view = await self.open()
        for x in (0, 1):
            look = asyncio.create_task(view.look(x, 5))
            await self.asleep(look)
            look.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await look
        waits_for_its_turn = [asyncio.create_task(view.look(x, 6)) for x in (2, 3, 4)]
        for task in waits_for_its_turn:
            await self.asleep(task)
        waits_for_its_turn[1].cancel()
        may_answer.set()
        self.assertEqual((await waits_for_its_turn[0])[:2], (2, 6))
        self.assertEqual((await waits_for_its_turn[2])[:2], (4, 6))
        self.assertEqual((await view.look(7, 8))[:2], (7, 8))
        # The view has steered over one connection all the time, since a client that hangs up loses the lease.
        self.assertEqual(len(self.daemon._connections), 2)

    async def test_an_opening_that_is_cancelled_leaves_nothing_open(self) -> None:
        before = descriptors()
        with deaf() as path:
            for opening in (foveate.aio.open(VIEW, path), foveate.aio.open_many([VIEW], path)):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(opening.__aenter__(), 0.05)
        # Threads of an earlier test may end meanwhile, and close what was theirs.
        self.assertEqual(descriptors() - before, set())


class ViewSteers(WithDaemon):
    async def test_messages_and_answers_are_those_of_a_thread(self) -> None:
        view = await self.open()
        fixation = dict(x=1, y=2, id=3, since_frame=4, reason="look", weight=0.5)
        both = dict(ok=True, x=1.5, y=2.5, points=[[1, 2], [3, 4]], fixation=fixation, fixations=[fixation])
        self.daemon.answers.update(look=lambda request: both, attend=lambda request: both)
        map_ = np.arange(6, dtype=np.float16).reshape(2, 3)
        calls: list[Callable[[Any], Any]] = [
            lambda view: view.look(1, 2, for_ms=5, frame=7, wait=True),
            lambda view: view.look(box=(0.1, 0.2, 0.3, 0.4), share=0.5, normalised=True),
            lambda view: view.look_at([(0.1, 0.2), (0.3, 0.4)], normalised=True, wait=True),
            lambda view: view.attend(map_, box=(0, 1, 2, 3), frame=7, wait=True),
            lambda view: view.attend_tokens(7, [1, 2, 3], wait=True),
            lambda view: view.inject("depth", map_, 7, (0, 1, 2, 3), 0.5),
            lambda view: view.weigh({"a-1": 2}, depth=1),
            lambda view: view.release(),
        ]
        with foveate.open(VIEW, self.daemon.path) as plain:
            for call in calls:
                expected = call(plain), self.daemon.requests[-1]
                self.assertEqual((await call(view), self.daemon.requests[-1]), expected)

    async def test_tasks_steer_at_once_and_each_gets_its_answer(self) -> None:
        self.daemon.answers["look"] = lambda request: {"ok": True, "points": request["points"]}
        view = await self.open()

        async def steer(number: int) -> list[Any]:
            return [(await view.look(number, turn))[:2] for turn in range(50)]

        answers = await asyncio.gather(*map(steer, range(4)))
        self.assertEqual(answers, [[(number, turn) for turn in range(50)] for number in range(4)])

    async def test_frames_come_while_an_answer_does_not(self) -> None:
        self.daemon.answers["look"] = lambda request: None
        view = await self.open()
        look = asyncio.create_task(view.look(1, 2, timeout=None))
        await self.asleep(look)
        self.daemon.publish(VIEW)
        self.assertEqual((await view.read(HANG)).frame_seq, 1)
        self.assertFalse(look.done())
        view.close()
        with self.assertRaisesRegex(foveate.FoveateError, "was closed"):
            await look

    async def test_an_answer_that_comes_too_late_is_an_error_and_not_taken_for_another(self) -> None:
        self.daemon.answers["look"] = lambda request: None
        view = await self.open()
        for timeout in (0, 0.05):
            with self.assertRaisesRegex(foveate.TimedOut, f"did not answer within {timeout:g} s"):
                await view.look(1, 2, timeout=timeout)
        first = asyncio.create_task(view.look(1, 2, timeout=0.2))
        await self.asleep(first)
        with self.assertRaises(foveate.TimedOut):
            await view.look(3, 4, timeout=0.01)
        self.assertFalse(first.done())
        with self.assertRaises(foveate.TimedOut):
            await first
        self.daemon.answers.clear()
        await view.release()
        self.assertEqual(self.daemon.requests[-1][0], {"op": "release", "view": VIEW})

    async def test_a_steerer_that_was_dropped_comes_back(self) -> None:
        view = await self.open()
        await view.release()
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual((await view.look(1, 2)).x, 1.5)

    async def test_a_request_that_finds_the_socket_full_waits_for_room(self) -> None:
        view = await self.open()
        await view.release()
        connection = view._steering._connection
        assert connection is not None
        sends = [BlockingIOError, BlockingIOError, None]

        def send(*arguments: Any) -> Any:
            error = sends.pop(0)
            if error:
                raise error
            return socket.socket.send(connection._socket.wrapped, *arguments)  # type: ignore[attr-defined]

        plain = connection._socket
        connection._socket = mock.Mock(wraps=plain, wrapped=plain, send=send)
        self.assertEqual((await view.look(1, 2)).x, 1.5)
        self.assertEqual(sends, [])

    async def test_errors_are_those_of_a_thread(self) -> None:
        refusal = {"ok": False, "reason": "held", "error": "process 7 steers it", "holder": "process 7"}
        self.daemon.answers["look"] = lambda request: refusal
        view = await self.open()
        with foveate.open(VIEW, self.daemon.path) as plain:
            for _ in within():
                if plain.subscription.poll_newest(lambda ring: True):
                    break
                plain.subscription.wait(None)
            calls: list[Callable[[Any], Any]] = [
                lambda view: view.read(timeout=0),
                lambda view: view.read(timeout=0.01, max_age=5),
                lambda view: view.read(at=1, max_age=5),
                lambda view: view.look(1, 2),
                lambda view: view.look(5, 0, normalised=True),
                lambda view: view.look_at([]),
                lambda view: view.attend(np.ones((200, 200))),
                lambda view: view.attend_tokens(1, np.ones(40000)),
                lambda view: view.weigh(depth=float("nan")),
                lambda view: view.inject("depth", np.ones((1, 1)), ttl=0),
            ]
            for call in calls:
                with self.subTest(call=call.__code__.co_names):
                    self.assertEqual(await outcome(lambda: call(view)), await outcome(lambda: call(plain)))
            with self.assertRaises(foveate.Refused) as caught:
                await view.look(1, 2)
            self.assertEqual((caught.exception.reason, caught.exception.holder), ("held", "process 7"))


class ViewEnds(WithDaemon):
    async def test_whoever_waits_for_a_view_that_is_closed_is_told(self) -> None:
        view = await self.open()
        self.daemon.answers["look"] = lambda request: None
        descriptor = view.subscription.fileno()
        assert descriptor is not None
        looks = [view.look(x, 2, timeout=None) for x in (1, 3)]
        waiting = [asyncio.create_task(wait) for wait in (view.read(timeout=None), view.__anext__(), *looks)]
        for task in waiting:
            await self.asleep(task)
        view.close()
        view.close()
        self.assertFalse(asyncio.get_running_loop().remove_reader(descriptor))
        for task in waiting:
            with self.assertRaisesRegex(foveate.FoveateError, f"{VIEW} was closed: open it again"):
                await asyncio.wait_for(task, HANG)
        for use in (view.read, view.release, view.__anext__, view.borrow().__aenter__):
            with self.assertRaisesRegex(foveate.FoveateError, "was closed"):
                await use()
        self.assertEqual(repr(view), f"<foveate.aio.View {VIEW} (closed)>")

    async def test_a_hang_up_ends_the_wait_and_iteration(self) -> None:
        view = await self.open()
        read = asyncio.create_task(view.read(timeout=None))
        await self.asleep(read)
        self.daemon.stop()
        for wait in (read, view.__anext__(), view.look(1, 2)):
            with self.assertRaises((foveate.Ended, foveate.NoDaemon)) as caught:
                await wait
        self.assertIsInstance(caught.exception, foveate.NoDaemon)
        with self.assertRaises(foveate.Ended) as ended:
            await view.read()
        self.assertTrue(ended.exception.hung_up)

    async def test_a_view_goes_on_when_the_daemon_is_back(self) -> None:
        async with self.opening(reconnect=True) as view:
            self.daemon.publish(VIEW)
            self.assertEqual((await view.read(HANG)).frame_seq, 1)
            read = asyncio.create_task(view.read(timeout=None))
            await self.asleep(read)
            self.daemon.stop()
            with self.assertRaisesRegex(foveate.TimedOut, "the daemon is gone"):
                await view.read(timeout=0.05)
            self.daemon.rings[VIEW] = FakeRing()
            self.daemon.rings[VIEW].publish(frame_seq=70)
            self.daemon.start()
            self.assertEqual((await read).frame_seq, 70)
            self.assertEqual((await view.look(1, 2)).x, 1.5)

    async def test_a_daemon_that_comes_later_is_waited_for(self) -> None:
        self.daemon.stop()
        async with self.opening(reconnect=True, timeout=0.05) as view:
            self.assertEqual(view.state[0], "starting")
            read = asyncio.create_task(view.read(timeout=None))
            await self.asleep(read)
            self.daemon.start()
            self.ring.publish(frame_seq=70)
            self.assertEqual((await read).frame_seq, 70)

    async def test_a_view_of_ones_own_is_made_anew(self) -> None:
        self.daemon.answers["open_view"] = lambda request: {"ok": True, "view": VIEW}
        async with foveate.aio.open_view("front", self.daemon.path, reconnect=True, budget=64) as view:
            self.daemon.stop()
            self.daemon.rings[VIEW] = FakeRing()
            self.daemon.rings[VIEW].publish(frame_seq=70)
            self.daemon.start()
            self.assertEqual((await view.read(HANG)).frame_seq, 70)
            await view.look(1, 2)
        made = [request for request, _ in self.daemon.requests if request["op"] == "open_view"]
        self.assertEqual(made, [{"op": "open_view", "stream": "front", "view": {"budget": 64}}] * 2)

    async def test_a_view_that_cannot_be_opened_says_why_and_leaves_nothing_open(self) -> None:
        before = len(descriptors())
        for name, path in (("front/none", self.daemon.path), (VIEW, "/nonexistent/foveate.sock"), (VIEW, "/" + 200 * "x")):
            with self.subTest(name=name, path=path):
                expected = await outcome(lambda: foveate.open(name, path))
                self.assertEqual(await outcome(lambda: foveate.aio.open(name, path)), expected)
                self.assertEqual(await outcome(lambda: foveate.aio.open_many([name], path)), expected)
        with deaf() as path:
            expected = await outcome(lambda: foveate.open(VIEW, path, timeout=0.05))
            self.assertEqual(await outcome(lambda: foveate.aio.open(VIEW, path, timeout=0.05)), expected)
            self.assertEqual(await outcome(lambda: foveate.aio.list_views(path, timeout=0.05)), expected)
        await self.back_to(before)

    async def test_iteration_of_an_opening_closes_its_view_at_the_end_and_when_it_is_left(self) -> None:
        before = len(descriptors())
        self.ring.publish()
        seen = []
        async for frame in self.opening():
            seen.append(frame.frame_seq)
            self.daemon.end(VIEW, "end of file")
        self.assertEqual(seen, [1])
        await self.back_to(before)
        async for _ in self.opening():
            break
        await self.back_to(before)
        with self.assertRaises(foveate.Ended):
            async for _ in self.opening():
                self.daemon.stop()

    async def test_views_that_were_closed_leave_nothing_open(self) -> None:
        before = len(descriptors())
        self.ring.publish()
        for _ in range(3):
            async with self.opening(reconnect=True) as view:
                await view.read(HANG)
                await view.look(1, 2)
        await self.back_to(before)

    async def back_to(self, before: int) -> None:
        # The daemon's side is closed by its own threads, a moment later.
        for _ in within():
            gc.collect()
            await asyncio.sleep(0)
            if len(descriptors()) <= before:
                return


class ViewsMatch(InLoop):
    def setUp(self) -> None:
        rings = {f"{name}/policy": FakeRing(stream=name, slot_count=8) for name in ("left", "right")}
        self.daemon = FakeDaemon(rings)
        self.addCleanup(self.daemon.__exit__)

    async def test_sets_are_those_that_a_thread_reads(self) -> None:
        names = list(self.daemon.rings)
        async with foveate.aio.open_many(names, self.daemon.path) as views:
            read = asyncio.create_task(views.read(timeout=None))
            for ns in (100, 200):
                for name in names:
                    self.daemon.publish(name, capture_ns=ns)
            matched = await read
            self.assertEqual([frame.capture_ns for frame in matched], [200, 200])
            with foveate.open_many(names, self.daemon.path) as plain:
                self.assertEqual(list(map(contents, matched)), list(map(contents, plain.read(timeout=HANG))))
            self.daemon.publish(names[0], capture_ns=10**9)
            with self.assertRaisesRegex(foveate.TimedOut, "right/policy is 1000.0 ms behind") as caught:
                await views.read(timeout=0.05)
            self.assertEqual(caught.exception.late, ("right/policy",))
            await views["right/policy"].look(1, 2)
            self.assertEqual(self.daemon.requests[-1][0]["view"], "right/policy")
            read = asyncio.create_task(views.read(timeout=None))
            await asyncio.sleep(0.01)
            views.close()
            with self.assertRaisesRegex(foveate.FoveateError, "was closed"):
                await read
        with self.assertRaises(ValueError):
            foveate.aio.open_many([], self.daemon.path)


LIVE = """
[[stream]]
name = "front"
pipeline = "videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=640,height=360,framerate=30/1 ! \
appsink name=frames"
backend = "cpu"
[[stream.view]]
name = "policy"
slots = 64
gaze = { policy = "feedback", lease_ms = 60000 }
[[stream.view]]
name = "bytes"
dtype = "u8"
slots = 64
gaze = { policy = "fixed" }
"""


class DaemonIsRead(InLoop):
    daemon: RealDaemon

    @classmethod
    def setUpClass(cls) -> None:
        programs()
        cls.daemon = RealDaemon(LIVE)
        with foveate.open("front/policy", cls.daemon.path) as view:
            # Before the first frame, views are neither opened nor steered.
            view.read(HANG)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.daemon.__exit__()

    async def test_two_views_in_one_loop_get_their_frames_without_a_thread(self) -> None:
        threads = len(os.listdir("/proc/self/task")), threading.active_count()
        seen: dict[str, list[foveate.Frame]] = {"front/policy": [], "front/bytes": []}
        counts = []

        async def follow(name: str) -> None:
            async for frame in foveate.aio.open(name, self.daemon.path):
                seen[name].append(frame)
                counts.append((len(os.listdir("/proc/self/task")), threading.active_count()))
                if len(seen[name]) == 10:
                    return

        await asyncio.wait_for(asyncio.gather(*map(follow, seen)), HANG)
        self.assertEqual(set(counts), {threads})
        for name, frames in seen.items():
            self.assertEqual({frame.view for frame in frames}, {name})
            seqs = [frame.frame_seq for frame in frames]
            self.assertEqual(seqs, sorted(set(seqs)))
            gaps = [after - before - 1 for before, after in pairwise(seqs)]
            # What the stream dropped was never in the ring.
            self.assertTrue(all(frame.missed <= gap for frame, gap in zip(frames[1:], gaps, strict=True)))

    async def test_frames_are_those_that_a_thread_reads(self) -> None:
        async with foveate.aio.open("front/bytes", self.daemon.path) as view:
            with foveate.open("front/bytes", self.daemon.path) as plain:
                for _ in range(5):
                    frame = await view.read(HANG)
                    other = plain.read(at=frame.capture_ns)
                    self.assertEqual(contents(frame) | {"missed": 0}, contents(other))

    async def test_a_look_is_obeyed_and_another_client_is_refused_as_a_thread_is(self) -> None:
        async with foveate.aio.open("front/policy", self.daemon.path) as view:
            looking = await view.look(100, 200.5, wait=True)
            self.assertEqual((looking.fixation.x, looking.fixation.y, looking.fixation.reason), (100, 200.5, "look"))
            async with foveate.aio.open("front/policy", self.daemon.path) as other:
                with foveate.open("front/policy", self.daemon.path) as plain:
                    calls: list[Callable[[Any], Any]] = [
                        lambda view: view.look(20, 20),
                        lambda view: view.attend(-np.ones((2, 2))),
                        lambda view: view.attend(np.ones((2, 2)), frame=1 << 40),
                        lambda view: view.inject("depth", np.ones((2, 2))),
                    ]
                    for call in calls:
                        found = await outcome(lambda: call(other))
                        self.assertEqual(found, await outcome(lambda: call(plain)))
                        self.assertEqual(found[0], foveate.Refused)
                await view.release()
                await other.look(20, 20)
        for name in ("front/none", "none/policy"):
            expected = await outcome(lambda: foveate.open(name, self.daemon.path))
            self.assertEqual(await outcome(lambda: foveate.aio.open(name, self.daemon.path)), expected)

    async def test_a_request_that_is_cancelled_leaves_the_lease(self) -> None:
        async with foveate.aio.open("front/policy", self.daemon.path) as view:
            look = asyncio.create_task(view.look(10, 10, wait=True))
            for _ in range(5):
                await asyncio.sleep(0)
            look.cancel()
            await asyncio.wait([look])
            self.assertEqual((await view.look(30, 40)).x, 30)
            with foveate.open("front/policy", self.daemon.path) as other:
                with self.assertRaises(foveate.Refused):
                    other.look(20, 20)

    async def test_a_view_of_ones_own_is_opened_and_listed(self) -> None:
        async with foveate.aio.open_view("front", self.daemon.path, name="mine", budget=64, dtype="bf16") as view:
            self.assertEqual(view.name, "front/mine")
            self.assertLessEqual(len(await view.read(HANG)), 64)
            listed = await foveate.aio.list_views(self.daemon.path)
            self.assertEqual(listed, foveate.list_views(self.daemon.path))
            self.assertIn("front/mine", [view.name for view in listed])

    async def test_the_keys_of_a_view_that_are_typed_are_those_that_the_daemon_takes(self) -> None:
        layouts = typing.get_args(typing.get_type_hints(ViewKeys)["layout"])
        policy, _ = typing.get_args(typing.get_type_hints(GazeKeys)["policy"])
        policies = typing.get_args(policy)
        view_keys = await self.known_keys([{"layout": layout, "none": 0} for layout in layouts])
        gaze_keys = await self.known_keys([{"gaze": {"policy": policy, "none": 0}} for policy in policies])
        self.assertEqual(view_keys, set(ViewKeys.__annotations__))
        # Files are the daemon's own.
        self.assertEqual(gaze_keys - {"scorer", "log"}, set(GazeKeys.__annotations__))

    async def known_keys(self, wrong: list[dict[str, Any]]) -> set[str]:
        known = set()
        for keys in wrong:
            with self.assertRaises(foveate.Refused) as caught:
                await foveate.aio.open_view("front", self.daemon.path, **keys)
            listed = re.search("expected one of (.*)", str(caught.exception))
            assert listed is not None, str(caught.exception)
            known.update(re.findall("`([^`]+)`", listed[1]))
        return known


class DaemonGoesAway(InLoop):
    async def test_a_daemon_that_is_killed_hangs_up_and_comes_back(self) -> None:
        programs()
        with RealDaemon(LIVE) as daemon:
            async with foveate.aio.open("front/policy", daemon.path) as mortal:
                async with foveate.aio.open("front/policy", daemon.path, reconnect=True) as patient:
                    epochs = {(await patient.read(HANG)).epoch, (await mortal.read(HANG)).epoch}

                    async def follow() -> None:
                        async for frame in patient:
                            epochs.add(frame.epoch)
                            if len(epochs) == 2:
                                return

                    follower = asyncio.create_task(follow())
                    end = asyncio.create_task(outlive(mortal))
                    daemon.kill()
                    self.assertTrue((await asyncio.wait_for(end, HANG)).hung_up)
                    daemon.start()
                    await asyncio.wait_for(follower, HANG)
                    self.assertEqual((await patient.look(1, 2)).x, 1)


async def outlive(view: foveate.aio.View) -> foveate.Ended:
    """How ``view`` ends."""
    try:
        while True:
            await view.read(timeout=None)
    except foveate.Ended as ended:
        return ended


@contextlib.contextmanager
def deaf() -> Any:
    """The socket of a daemon that accepts nobody."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        path = os.path.join(folder, "foveate.sock")
        listener.bind(path)
        listener.listen(8)
        yield path


if __name__ == "__main__":
    unittest.main()
