"""A view reads what its daemon publishes, says where to look, and learns of every end."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import pickle
import pydoc
import select
import socket
import struct
import threading
import time
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
from support import (
    HANG,
    PACKAGE_ROOT,
    FakeDaemon,
    FakeRing,
    descriptors,
    foveate,
    mappings,
    token_records,
    torch_or_skip,
    within,
)

VIEW = "front/policy"


class WithDaemon(unittest.TestCase):
    def setUp(self) -> None:
        self.ring = FakeRing()
        self.daemon = FakeDaemon({VIEW: self.ring})
        self.addCleanup(self.daemon.__exit__)

    def open(self, **arguments: Any) -> foveate.View:
        view = foveate.open(VIEW, self.daemon.path, **arguments)
        self.addCleanup(view.close)
        return view

    def started(self, **arguments: Any) -> foveate.View:
        """A view that has its segment already."""
        view = self.open(**arguments)
        for _ in within():
            try:
                view.read(timeout=0)
            except foveate.TimedOut:
                if view.info is not None:
                    return view
                view.subscription.wait(None)
        raise AssertionError

    def later(self, act: Any) -> None:
        """Does something in another thread, most likely while this one waits."""
        thread = threading.Timer(0.05, act)
        thread.start()
        self.addCleanup(thread.join)


class EventsAreTold(WithDaemon):
    SCENE = {"kind": "appeared", "phase": "once", "frame": 9, "since_frame": 4, "value": 0.5, "box": [1, 2, 3, 4]}

    def tell(self, **changed: object) -> None:
        scene = {**self.SCENE, **changed}
        message = {"event": "scene", "view": VIEW, "scene": scene, "capture_ns": 5, "capture_unix_ns": 6, "lost": 7}
        self.daemon.tell(VIEW, json.dumps(message).encode())

    def test_they_are_asked_for_and_taken_once(self) -> None:
        view = self.started(events=True)
        asked, _ = next(request for request in self.daemon.requests if request[0]["op"] == "subscribe")
        self.assertTrue(asked["events"])
        self.tell()
        self.tell(kind="covered", phase="began", box=None)
        self.daemon.publish(VIEW)
        view.read(HANG)
        first, second = view.take_events()
        self.assertEqual(first, foveate.Event("appeared", "once", 9, 4, 0.5, (1.0, 2.0, 3.0, 4.0), 5, 6, 7))
        self.assertEqual((second.kind, second.phase, second.box), ("covered", "began", None))
        self.assertEqual(view.take_events(), [])

    def test_who_does_not_ask_asks_for_none(self) -> None:
        self.started()
        asked, _ = next(request for request in self.daemon.requests if request[0]["op"] == "subscribe")
        self.assertNotIn("events", asked)


class ViewReads(WithDaemon):
    def test_pickling_a_view_says_what_to_do(self) -> None:
        some = foveate.open_many([VIEW], self.daemon.path)
        self.addCleanup(some.close)
        for thing in (self.open(), some):
            with self.assertRaisesRegex(TypeError, type(thing).__name__ + " .*cannot be pickled: open .* in each process"):
                pickle.dumps(thing)

    def test_a_time_out_that_is_no_number_is_refused(self) -> None:
        nan = float("nan")
        view = self.open()
        for call in (lambda: view.read(nan), lambda: view.look(1, 2, timeout=nan), lambda: self.open(timeout=nan)):
            with self.assertRaisesRegex(ValueError, "invalid timeout: NaN"):
                call()

    def test_times_before_now_are_refused(self) -> None:
        view = self.open()
        for call in (lambda: view.read(-1), lambda: view.look(1, 2, timeout=-1), lambda: self.open(timeout=-1)):
            with self.assertRaisesRegex(ValueError, "invalid timeout: -1 .expected seconds, at least 0"):
                call()
        for max_age in (-1, float("nan")):
            with self.assertRaisesRegex(ValueError, "invalid `max_age`"):
                view.read(max_age=max_age)
        for for_ms in (-1, 1 << 32):
            with self.assertRaisesRegex(ValueError, f"invalid `for_ms`: {for_ms}"):
                view.look(1, 2, for_ms=for_ms)

    def test_the_newest_frame_comes_first_and_once(self) -> None:
        self.ring.publish()
        self.ring.publish()
        view = self.open()
        self.assertEqual(view.read(HANG).frame_seq, 2)
        with self.assertRaises(foveate.TimedOut):
            view.read(timeout=0)

    def test_a_frame_ends_the_wait(self) -> None:
        view = self.open()
        self.later(lambda: self.daemon.publish(VIEW))
        self.assertEqual(view.read(HANG).frame_seq, 1)

    def test_every_frame_comes_in_order_where_that_is_asked(self) -> None:
        view = self.started()
        for _ in range(3):
            self.daemon.publish(VIEW)
        self.assertEqual([view.read(HANG, newest=False).frame_seq for _ in range(3)], [1, 2, 3])

    def test_a_notice_that_was_left_out_does_not_hide_a_frame(self) -> None:
        view = self.open()
        self.later(self.ring.publish)
        # Without a limit, as the limit would end the wait, too.
        self.assertEqual(view.read(timeout=None).frame_seq, 1)

    def test_old_frames_are_passed_over_and_the_error_says_how_old_one_may_be(self) -> None:
        view = self.started()
        old = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - 10**10
        self.daemon.publish(VIEW, capture_ns=old)
        with self.assertRaisesRegex(foveate.TimedOut, "at most 5 s old"):
            view.read(timeout=0, max_age=5)
        self.daemon.publish(VIEW)
        self.daemon.publish(VIEW, capture_ns=old)
        self.daemon.publish(VIEW)
        frames = [view.read(HANG, newest=False, max_age=5) for _ in range(2)]
        self.assertEqual([(frame.frame_seq, frame.missed) for frame in frames], [(2, 1), (4, 1)])
        self.daemon.publish(VIEW, capture_ns=old)
        with self.assertRaises(foveate.TimedOut):
            with view.borrow(timeout=0, max_age=5):
                self.fail("an old frame was lent")

    def test_a_frame_is_found_by_its_capture_time(self) -> None:
        view = self.open()
        self.later(lambda: [self.daemon.publish(VIEW, capture_ns=ns) for ns in (100, 200, 300)])
        for _ in within():
            if view.read(HANG, at=300).capture_ns == 300:
                break
        self.assertEqual(view.read(at=190).capture_ns, 200)
        self.assertEqual(view.read(at=190).capture_ns, 200)
        with self.assertRaises(ValueError):
            view.read(at=190, max_age=1)

    def test_the_error_of_a_wait_names_the_view_and_its_state(self) -> None:
        self.daemon.rings["front/late"] = None
        with foveate.open("front/late", self.daemon.path) as view:
            with self.assertRaisesRegex(foveate.TimedOut, "front/late.*starting.*not delivered"):
                view.read(timeout=0)
            self.assertIsInstance(view.info, type(None))
        view = self.started()
        with self.assertRaisesRegex(TimeoutError, "within 0 s.*live"):
            view.read(timeout=0)
        self.ring.set_state(2, "no frame for 3 s")
        with self.assertRaisesRegex(foveate.TimedOut, "stalled, no frame for 3 s"):
            view.read(timeout=0)

    def test_a_view_that_starts_later_is_read_once_it_does(self) -> None:
        self.daemon.rings["front/late"] = None
        with foveate.open("front/late", self.daemon.path) as view:
            ring = FakeRing(view="late")
            ring.publish()
            self.later(lambda: self.daemon.move("front/late", ring))
            self.assertEqual(view.read(HANG).view, "front/late")

    def test_the_descriptor_is_readable_when_there_is_a_frame_and_not_after_it_was_read(self) -> None:
        view = self.open()
        view.subscription.wait(None)
        with self.assertRaises(foveate.TimedOut):
            view.read(timeout=0)
        self.assertEqual(select.select([view], [], [], 0)[0], [])
        self.daemon.publish(VIEW)
        self.assertEqual(select.select([view], [], [], HANG)[0], [view])
        view.read(timeout=0)
        self.assertEqual(select.select([view], [], [], 0)[0], [])

    def test_iteration_gives_frames_until_the_stream_ends(self) -> None:
        view = self.open()
        self.daemon.publish(VIEW)
        seen = []
        for frame in view:
            seen.append(frame.frame_seq)
            if frame.frame_seq == 3:
                self.daemon.end(VIEW, "end of file")
            else:
                self.daemon.publish(VIEW)
        self.assertEqual(seen, [1, 2, 3])
        self.assertEqual(view.state, ("ended", "end of file"))


class ViewLends(WithDaemon):
    def test_a_frame_that_stays_is_lent_and_taken_back(self) -> None:
        self.ring.publish()
        with self.open().borrow(HANG) as frame:
            self.assertEqual(set(frame.pixels.flat), {1})
            self.assertFalse(frame.pixels.flags.writeable)
        self.assertFalse(frame.still_valid)
        with self.assertRaisesRegex(foveate.FoveateError, "read"):
            frame.pixels

    def test_a_frame_that_was_replaced_is_reported_at_the_end(self) -> None:
        self.ring.publish()
        with self.assertRaises(foveate.Lapped) as caught:
            with self.open().borrow(HANG):
                for _ in range(self.ring.slot_count):
                    self.ring.publish()
        self.assertEqual(caught.exception.ring_sequence, 1)

    def test_an_error_over_torn_texels_is_reported_as_lapped(self) -> None:
        self.ring.publish()
        with self.assertRaises(foveate.Lapped) as caught:
            with self.open().borrow(HANG):
                self.ring.begin(1)
                raise ZeroDivisionError
        self.assertIsInstance(caught.exception.__context__, ZeroDivisionError)

    def test_other_errors_pass(self) -> None:
        self.ring.publish()
        with self.assertRaises(ZeroDivisionError):
            with self.open().borrow(HANG):
                raise ZeroDivisionError
        self.ring.publish()
        with self.assertRaises(KeyboardInterrupt):
            with self.open().borrow(HANG):
                self.ring.begin(2)
                raise KeyboardInterrupt

    def test_a_view_that_is_closed_meanwhile_hurts_nobody(self) -> None:
        self.ring.publish()
        view = self.open()
        with view.borrow(HANG) as frame:
            view.close()
            self.assertEqual(set(frame.pixels.flat), {1})


class ViewEnds(WithDaemon):
    def test_the_frames_that_are_left_come_before_the_end_and_its_reason(self) -> None:
        view = self.started()
        self.daemon.publish(VIEW)
        self.daemon.publish(VIEW)
        self.daemon.end(VIEW, "end of file")
        self.daemon.stop()
        self.assertEqual([view.read(HANG, newest=False).frame_seq for _ in range(2)], [1, 2])
        for _ in range(2):
            with self.assertRaisesRegex(foveate.Ended, "end of file") as caught:
                view.read(HANG)
            self.assertEqual((caught.exception.reason, caught.exception.hung_up), ("end of file", False))

    def test_a_hang_up_ends_the_wait(self) -> None:
        view = self.open()
        self.later(self.daemon.stop)
        with self.assertRaises(foveate.Ended) as caught:
            view.read(timeout=None)
        self.assertTrue(caught.exception.hung_up)
        with self.assertRaises(foveate.Ended):
            next(iter(view))
        with self.assertRaises(foveate.Ended):
            view.fileno()

    def test_a_daemon_that_closes_with_a_request_unread_has_hung_up(self) -> None:
        path = self.daemon.path + ".rude"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(path)
            listener.listen()

            def drop() -> None:
                connection, _ = listener.accept()
                select.select([connection], [], [], HANG)
                connection.close()

            thread = threading.Thread(target=drop)
            thread.start()
            with self.assertRaises(foveate.Ended) as caught:
                foveate.open(VIEW, path)
            thread.join(HANG)
        self.assertTrue(caught.exception.hung_up)

    def test_what_was_captured_before_the_end_is_still_found_and_nothing_after_it(self) -> None:
        view = self.open()
        self.daemon.publish(VIEW, capture_ns=100)
        self.daemon.end(VIEW, "end of file")
        self.assertEqual(view.read(HANG, at=90).capture_ns, 100)
        with self.assertRaises(foveate.Ended):
            view.read(HANG, at=110)

    def test_a_new_segment_is_followed_after_the_frames_of_the_old(self) -> None:
        view = self.started()
        self.daemon.publish(VIEW)
        wider = FakeRing(extent=(128, 96))
        wider.publish()
        self.daemon.move(VIEW, wider)
        self.daemon.publish(VIEW)
        frames = [view.read(HANG, newest=False) for _ in range(3)]
        self.assertEqual([frame.info.extent for frame in frames], [(64, 48), (128, 96), (128, 96)])
        self.assertEqual([frame.frame_seq for frame in frames], [1, 1, 2])
        self.assertNotEqual(frames[0].epoch, frames[1].epoch)
        self.assertEqual(view.info.extent, (128, 96))

    def test_a_search_by_capture_time_looks_into_the_newest_segment(self) -> None:
        view = self.open()
        self.daemon.publish(VIEW, capture_ns=100)
        newer = FakeRing()
        newer.publish(capture_ns=900)
        self.daemon.move(VIEW, newer)
        for _ in within():
            if view.read(HANG, at=100).capture_ns == 900:
                break

    def test_a_segment_after_the_end_goes_on(self) -> None:
        view = self.open()
        self.daemon.end(VIEW, "the camera was unplugged")
        with self.assertRaises(foveate.Ended):
            view.read(HANG)
        newer = FakeRing()
        newer.publish()
        self.daemon.move(VIEW, newer)
        view.subscription.wait(None)
        self.assertEqual(view.read(HANG).frame_seq, 1)
        with self.assertRaises(foveate.TimedOut):
            view.read(timeout=0)


class ViewReconnects(WithDaemon):
    def test_a_view_goes_on_when_the_daemon_is_back(self) -> None:
        view = self.open(reconnect=True)
        self.daemon.publish(VIEW)
        self.daemon.stop()
        self.assertEqual(view.read(HANG).frame_seq, 1)
        with self.assertRaisesRegex(foveate.TimedOut, "the daemon is gone"):
            view.read(timeout=0)
        self.daemon.rings[VIEW] = FakeRing()
        self.daemon.rings[VIEW].publish(frame_seq=70)
        self.later(self.daemon.start)
        self.assertEqual(view.read(HANG).frame_seq, 70)
        self.assertGreaterEqual(view.fileno(), 0)

    def test_a_daemon_that_has_only_hung_up_is_followed_on_in_the_same_ring(self) -> None:
        view = self.open(reconnect=True)
        self.daemon.publish(VIEW)
        self.daemon.publish(VIEW)
        before = view.read(HANG).frame_seq
        self.daemon.stop()
        with self.assertRaises(foveate.TimedOut):
            view.read(timeout=0)
        self.daemon.start()
        self.daemon.publish(VIEW)
        # The segment is there before the frame is read.
        for _ in within():
            view.subscription._take_news()
            if view.subscription._next_ring is not None:
                break
        frames = [view.read(HANG, newest=False)]
        with self.assertRaises(foveate.TimedOut):
            view.read(timeout=0.5)
        self.daemon.publish(VIEW)
        frames.append(view.read(HANG, newest=False))
        read = [(frame.frame_seq, frame.missed) for frame in frames]
        self.assertEqual(read, [(before + 1, 0), (before + 2, 0)])

    def test_a_loop_that_never_waits_reconnects_too(self) -> None:
        view = self.open(reconnect=True)
        self.daemon.stop()
        self.daemon.rings[VIEW] = FakeRing()
        self.daemon.rings[VIEW].publish(frame_seq=70)
        self.daemon.start()
        for _ in within():
            try:
                if view.read(timeout=0).frame_seq == 70:
                    break
            except foveate.TimedOut:
                pass

    def test_a_daemon_that_stops_is_waited_for_and_a_file_that_ends_is_not(self) -> None:
        view = self.open(reconnect=True)
        self.daemon.end(VIEW, "daemon_stopped")
        with self.assertRaises(foveate.TimedOut):
            view.read(timeout=0)
        newer = FakeRing()
        newer.publish(frame_seq=70)
        self.daemon.rings[VIEW] = newer
        self.assertEqual(view.read(HANG).frame_seq, 70)
        self.daemon.end(VIEW, "end of file")
        with self.assertRaises(foveate.Ended):
            view.read(HANG)
        self.daemon.stop()
        self.daemon.start()
        for _ in range(3):
            with self.assertRaisesRegex(foveate.Ended, "end of file"):
                view.read(timeout=0)
        self.assertEqual(select.select([view], [], [], 0.2)[0], [], "there is nothing to look for")

    def test_a_view_of_ones_own_is_made_anew(self) -> None:
        self.daemon.answers["open_view"] = lambda request: {"ok": True, "view": VIEW}
        with foveate.open_view("front", self.daemon.path, reconnect=True, budget=64) as view:
            self.daemon.stop()
            self.daemon.rings[VIEW] = FakeRing()
            self.daemon.rings[VIEW].publish(frame_seq=70)
            self.daemon.start()
            self.assertEqual(view.read(HANG).frame_seq, 70)
            view.look(1, 2)
        made = [request for request, _ in self.daemon.requests if request["op"] == "open_view"]
        self.assertEqual(made, [{"op": "open_view", "stream": "front", "view": {"budget": 64}}] * 2)

    def test_a_daemon_that_is_about_to_stop_is_asked_again(self) -> None:
        view = self.open(reconnect=True)
        self.daemon.stop()
        refusals = [{"ok": False, "reason": reason, "error": ""} for reason in ("ended", "not-started", "too-many-clients")]
        self.daemon.answers["subscribe"] = lambda request: refusals.pop() if refusals else {"ok": True}
        self.daemon.rings[VIEW] = FakeRing()
        self.daemon.rings[VIEW].publish(frame_seq=70)
        self.daemon.start()
        self.assertEqual(view.read(HANG).frame_seq, 70)
        self.assertEqual(refusals, [])

    def test_no_read_outlives_its_timeout_while_the_socket_listens_and_nobody_accepts(self) -> None:
        view = self.open(reconnect=True)
        self.daemon.publish(VIEW)
        view.read(HANG)
        with deaf(self.daemon) as listener:
            started = time.monotonic()
            for timeout in (0, 0, 0.01, 0.1, 0.1):
                with self.assertRaisesRegex(foveate.TimedOut, "the daemon is gone"):
                    view.read(timeout)
            with self.assertRaisesRegex(foveate.TimedOut, "the daemon is gone"):
                with view.borrow(timeout=0):
                    self.fail("lent by nobody")
            self.assertLess(time.monotonic() - started, 2)
            self.assertEqual(view.state[0], "ended")
            self.assertEqual(callers(listener), 1, "it stays in the queue instead of filling it")
        self.daemon.rings[VIEW] = FakeRing()
        self.daemon.rings[VIEW].publish(frame_seq=70)
        self.daemon.start()
        self.assertEqual(view.read(HANG).frame_seq, 70)

    def test_a_daemon_that_accepts_late_answers_who_waited(self) -> None:
        view = self.open(reconnect=True)
        with deaf(self.daemon) as listener:
            with self.assertRaises(foveate.TimedOut):
                view.read(timeout=0.1)
            self.daemon.rings[VIEW] = FakeRing()
            self.daemon.rings[VIEW].publish(frame_seq=70)
            self.daemon.adopt(listener)
            self.assertEqual(view.read(HANG).frame_seq, 70)
            self.assertEqual(sum(request["op"] == "subscribe" for request, _ in self.daemon.requests), 2)
            self.daemon.stop()

    def test_a_daemon_that_is_back_and_has_no_frame_yet_is_starting(self) -> None:
        view = self.started(reconnect=True)
        self.daemon.stop()
        self.daemon.rings[VIEW] = None
        self.daemon.start()
        for _ in within():
            with self.assertRaises(foveate.TimedOut):
                view.read(timeout=0.01)
            if view.state[0] == "starting":
                break
        self.assertIn("not delivered a frame", view.state[1])

    def test_an_event_loop_goes_on_with_the_same_descriptor(self) -> None:
        for own in (False, True):
            self.daemon.answers["open_view"] = lambda request: {"ok": True, "view": VIEW}
            view = foveate.open_view("front", self.daemon.path, reconnect=True) if own else self.open(reconnect=True)
            loop, descriptor, seen = select.epoll(), view.fileno(), []
            loop.register(descriptor, select.EPOLLIN)
            for life in range(3):
                self.daemon.rings[VIEW] = FakeRing()
                self.daemon.rings[VIEW].publish(frame_seq=70 + life)
                if life:
                    self.daemon.stop()
                    # Attempts to reconnect fail, also against a socket that does not answer.
                    read_when_ready(loop, view, turns=3)
                    with deaf(self.daemon):
                        read_when_ready(loop, view)
                    self.daemon.start()
                else:
                    self.daemon.move(VIEW, self.daemon.rings[VIEW])
                for _ in within():
                    seen += read_when_ready(loop, view)
                    if 70 + life in seen:
                        break
                self.assertEqual(view.fileno(), descriptor)
            self.assertEqual(loop.poll(0), [], "nothing is left to do")
            loop.close()
            view.close()

    def test_a_daemon_that_was_not_there_at_the_opening_is_found_by_reads(self) -> None:
        self.daemon.answers["open_view"] = lambda request: {"ok": True, "view": VIEW}
        self.ring.publish(frame_seq=70)
        for attempt in (
            lambda: self.open(reconnect=True, timeout=0),
            lambda: foveate.open_view("front", self.daemon.path, reconnect=True, timeout=0.01),
        ):
            self.daemon.stop()
            with attempt() as view:
                with self.assertRaisesRegex(foveate.TimedOut, "starting, no daemon listens"):
                    view.read(timeout=0)
                self.assertEqual(view.state[0], "starting")
                self.daemon.start()
                self.assertEqual(view.read(HANG).frame_seq, 70)
                self.assertEqual(view.name, VIEW)

    def test_a_daemon_that_comes_during_the_opening_ends_its_wait(self) -> None:
        self.daemon.stop()
        self.later(self.daemon.start)
        self.ring.publish()
        with self.open(reconnect=True, timeout=HANG) as view:
            self.assertEqual(view.state[0], "starting")
            self.assertEqual(view.read(HANG).frame_seq, 1)

    def test_a_daemon_that_does_not_answer_an_opening_is_not_waited_for(self) -> None:
        started = time.monotonic()
        with deaf(self.daemon):
            for attempt in (
                lambda: self.open(timeout=0.01),
                lambda: foveate.open_view("front", self.daemon.path, timeout=0.01),
                lambda: foveate.open_many([VIEW], self.daemon.path, timeout=0.01),
                lambda: foveate.list_views(self.daemon.path, timeout=0.01),
            ):
                with self.assertRaisesRegex(foveate.TimedOut, "did not answer within 0.0"):
                    attempt()
        self.assertLess(time.monotonic() - started, 2)
        self.daemon.start()

    def test_what_no_daemon_mends_is_told_by_the_opening(self) -> None:
        with self.assertRaises(foveate.Refused):
            foveate.open("front/none", self.daemon.path, reconnect=True)

    def test_a_view_that_the_new_daemon_does_not_have_is_refused(self) -> None:
        view = self.open(reconnect=True)
        self.daemon.stop()
        self.daemon.rings.clear()
        self.daemon.start()
        with self.assertRaises(foveate.Refused) as caught:
            view.read(HANG)
        self.assertEqual(caught.exception.reason, "unknown-view")


class ViewSteers(WithDaemon):
    def asked(self) -> tuple[dict[str, Any], bytes]:
        return self.daemon.requests[-1]

    def test_a_point_is_sent_as_it_is_said(self) -> None:
        view = self.open()
        self.assertEqual(view.look(320, 240.5), foveate.Looking(1.5, 2.5, None, ((1.5, 2.5),)))
        self.assertEqual(self.asked()[0], {"op": "look", "view": VIEW, "points": [[320.0, 240.5]]})
        view.look(0.5, np.float32(0.25), normalised=True, for_ms=500, frame=7, wait=True)
        expected = {"normalised": True, "for_ms": 500, "frame": 7, "wait": True, "points": [[0.5, 0.25]]}
        self.assertEqual(self.asked()[0], {"op": "look", "view": VIEW, **expected})

    def test_a_box_is_sent_instead_of_a_point(self) -> None:
        view = self.open()
        view.look(box=(1, 2, np.float32(30), 40.5), share=0.5, frame=7)
        expected = {"box": [1.0, 2.0, 30.0, 40.5], "share": 0.5, "frame": 7}
        self.assertEqual(self.asked()[0], {"op": "look", "view": VIEW, **expected})
        view.look_at([(1, 2)], share=1)
        self.assertEqual(self.asked()[0], {"op": "look", "view": VIEW, "points": [[1.0, 2.0]], "share": 1.0})
        calls: list[Callable[[], Any]] = [
            lambda: view.look(),
            lambda: view.look(1),
            lambda: view.look(1, 2, box=(1, 2, 3, 4)),
            lambda: view.look(box=(1, 2, 3)),
            lambda: view.look(box=(3, 2, 3, 4)),
            lambda: view.look(box=(1, 2, float("inf"), 4)),
            lambda: view.look(box=(0, 0, 2, 1), normalised=True),
            lambda: view.look(1, 2, share=0),
        ]
        asked = len(self.daemon.requests)
        for call in calls:
            self.assertRaises(ValueError, call)
        self.assertEqual(len(self.daemon.requests), asked)

    def test_the_fixation_that_was_waited_for_arrives(self) -> None:
        fixation = {"id": 4, "x": 1.0, "y": 2.0, "since_frame": 9, "reason": "look", "weight": 0.5, "news": 1}
        self.daemon.answers["look"] = lambda request: {"ok": True, "points": [[1.0, 2.0]], "fixations": [fixation]}
        looking = self.open().look(1, 2, wait=True)
        self.assertEqual(looking.fixation, foveate.Fixation(1.0, 2.0, 4, 9, "look", 0.5))

    def test_several_points_are_sent_and_answered_with_all_of_them(self) -> None:
        fixations = [
            {"id": 4, "x": 1.0, "y": 2.0, "since_frame": 9, "reason": "look", "weight": 1.0},
            {"id": 5, "x": 3.0, "y": 4.0, "since_frame": 9, "reason": "look", "weight": 1.0},
        ]
        answer = {"points": [[1.0, 2.0], [3.0, 4.0]], "fixations": fixations}
        self.daemon.answers["look"] = lambda request: {"ok": True, **answer}
        view = self.open()
        looking = view.look_at([(1, 2), np.array([3, 4])], wait=True)
        expected = {"points": [[1.0, 2.0], [3.0, 4.0]], "wait": True}
        self.assertEqual(self.asked()[0], {"op": "look", "view": VIEW, **expected})
        self.assertEqual(looking.points, ((1.0, 2.0), (3.0, 4.0)))
        self.assertEqual([fixation.id for fixation in looking.fixations], [4, 5])
        for points in ([], [(1, 2)] * 9):
            with self.assertRaisesRegex(ValueError, f"invalid `points`: {len(points)} points"):
                view.look_at(points)

    def test_maps_of_the_wires_formats_are_sent_as_they_are_and_others_as_float32(self) -> None:
        view = self.open()
        plain = np.arange(6).reshape(2, 3)
        for dtype, name, form in [
            ("<f4", "f32", "<6f"),
            (">f4", "f32", "<6f"),
            ("<f2", "f16", "<6e"),
            ("u1", "u8", "<6B"),
            ("f8", "f32", "<6f"),
            ("i8", "f32", "<6f"),
            ("?", "f32", "<6f"),
        ]:
            with self.subTest(dtype=dtype):
                weights = plain.astype(dtype)
                view.attend(weights, box=(0, -420, 1920, 1500))
                request, payload = self.asked()
                self.assertEqual((request["dtype"], request["shape"]), (name, [2, 3]))
                self.assertEqual(request["box"], [0, -420, 1920, 1500])
                self.assertEqual(payload, struct.pack(form, *weights.flat))
        view.attend(plain.T)
        self.assertEqual(self.asked()[1], struct.pack("<6f", *plain.T.flat))
        with self.assertRaisesRegex(ValueError, "2 axes"):
            view.attend(plain.flat)

    def test_channels_are_named_and_weighed(self) -> None:
        self.ring.publish(token_records(3), frame_seq=812)
        view = self.open()
        for ttl, ttl_ms in ((1.0, 1000), (0.25, 250), (60, 60000)):
            view.inject("depth", np.arange(-3, 3, dtype="<f4").reshape(2, 3), ttl=ttl)
            request, payload = self.asked()
            self.assertEqual(
                request,
                {"op": "inject", "view": VIEW, "name": "depth", "shape": [2, 3], "dtype": "f32", "ttl_ms": ttl_ms},
            )
            self.assertEqual(payload, struct.pack("<6f", *range(-3, 3)))
        view.inject("a-1", np.ones((1, 1), np.uint8), view.read(HANG), (0, -8, 64, 56))
        request, payload = self.asked()
        self.assertEqual((request["frame"], request["box"], payload), (812, [0, -8, 64, 56], b"\1"))
        with self.assertRaisesRegex(ValueError, "2 axes"):
            view.inject("depth", [1.0])
        with self.assertRaisesRegex(ValueError, "invalid `ttl`: 0 s"):
            view.inject("depth", np.ones((1, 1)), ttl=0)

        view.weigh(depth=1, edges=np.float32(0.25))
        self.assertEqual(self.asked()[0], {"op": "weigh", "view": VIEW, "weights": {"depth": 1.0, "edges": 0.25}})
        view.weigh({"a-1": 2, "depth": 1, "timeout": 3}, depth=0)
        self.assertEqual(self.asked()[0]["weights"], {"a-1": 2.0, "depth": 0.0, "timeout": 3.0})
        with self.assertRaisesRegex(ValueError, "invalid weight of depth: nan"):
            view.weigh(depth=float("nan"))

    def test_scores_name_the_frame_that_they_are_of(self) -> None:
        self.ring.publish(token_records(3), frame_seq=812)
        view = self.open()
        frame = view.read(HANG)
        view.attend_tokens(frame, [0.5, 1, 2])
        request, payload = self.asked()
        self.assertEqual(request, {"op": "attend_tokens", "view": VIEW, "frame": 812, "dtype": "f32"})
        self.assertEqual(payload, struct.pack("<3f", 0.5, 1, 2))
        view.attend_tokens(5, np.ones(3, np.float16), wait=True)
        self.assertEqual((self.asked()[0]["frame"], self.asked()[0]["wait"]), (5, True))

    def test_late_feedback_is_refused_only_if_asked(self) -> None:
        view = self.open()
        calls: list[Callable[..., Any]] = [
            lambda **more: view.look(1, 2, frame=5, **more),
            lambda **more: view.look_at([(1, 2), (3, 4)], frame=5, **more),
            lambda **more: view.attend(np.ones((1, 1)), frame=5, **more),
            lambda **more: view.attend_tokens(5, [1.0], **more),
            lambda **more: view.inject("depth", np.ones((1, 1)), 5, **more),
        ]
        for call in calls:
            call()
            self.assertNotIn("strict", self.asked()[0])
            call(strict=True)
            self.assertIs(self.asked()[0]["strict"], True)
        answer = {"view": VIEW, "points": [[1, 2]], "taken_for": 812}
        self.assertEqual(foveate.control.looking(answer).taken_for, 812)
        self.assertIsNone(view.look(1, 2).taken_for)
        self.assertIsNone(view.inject("depth", np.ones((1, 1))))
        self.daemon.answers["inject"] = lambda request: {"ok": True, "view": VIEW, "taken_for": 812}
        self.assertEqual(view.inject("depth", np.ones((1, 1)), 5), 812)

    def test_tensors_are_sent_too(self) -> None:
        torch = torch_or_skip()
        view = self.open()
        weights = torch.arange(6.0).reshape(2, 3).requires_grad_()
        for tensor, name, form in [
            (weights, "f32", "<6f"),
            (weights.half(), "f16", "<6e"),
            (weights.bfloat16(), "f32", "<6f"),
        ]:
            view.attend(tensor)
            self.assertEqual(self.asked()[0]["dtype"], name)
            self.assertEqual(self.asked()[1], struct.pack(form, *range(6)))

    def test_a_refusal_says_why_and_who(self) -> None:
        refusal = {"ok": False, "reason": "held", "error": "process 7 steers it", "holder": "process 7"}
        self.daemon.answers["look"] = lambda request: refusal
        with self.assertRaisesRegex(foveate.Refused, "held.*process 7 steers it") as caught:
            self.open().look(1, 2)
        self.assertEqual((caught.exception.reason, caught.exception.holder), ("held", "process 7"))

    def test_a_map_with_too_long_a_side_is_refused_for_that_whatever_its_bytes(self) -> None:
        view = self.open()
        for shape in ((200, 200), (150, 150), (1, 129), (0, 4)):
            with self.assertRaisesRegex(foveate.Refused, f"{shape[0]} rows and {shape[1]} columns.*1 to 128") as caught:
                view.attend(np.ones(shape))
            self.assertEqual(caught.exception.reason, "map-too-large")
        self.assertEqual(view.attend(np.ones((128, 128))).x, 1.5)

    def test_scores_that_fit_no_message_are_refused_here(self) -> None:
        with self.assertRaises(foveate.Refused) as caught:
            self.open().attend_tokens(1, np.ones(40000))
        self.assertEqual(caught.exception.reason, "too-large")

    def test_points_and_ego_motion_are_finite(self) -> None:
        view = self.open()
        for x, y in ((float("nan"), 1), (1, float("inf"))):
            with self.assertRaisesRegex(ValueError, "invalid x or y: .*expected finite numbers"):
                view.look(x, y)
        for name, numbers in (("homography", np.full(9, np.nan)), ("rotation", [0, 0, 1])):
            with self.assertRaisesRegex(ValueError, f"invalid `{name}`: "):
                view.look(1, 2, frame=1, **{name: numbers})
        self.assertEqual(self.daemon.requests[-1][0]["op"], "subscribe")

    def test_shares_of_the_sides_are_0_to_1(self) -> None:
        view = self.open()
        for x, y in ((5, 0.3), (0.5, -0.1), (float("nan"), 0)):
            with self.assertRaisesRegex(ValueError, "shares of the sides, 0 to 1"):
                view.look(x, y, normalised=True)
        self.assertEqual(self.daemon.requests[-1][0]["op"], "subscribe")
        view.look(1, 0, normalised=True)

    def test_a_daemon_that_stands_still_is_waited_for_as_long_as_is_said(self) -> None:
        view = self.open()
        for op in ("look", "attend", "attend_tokens", "inject", "weigh", "release"):
            self.daemon.answers[op] = lambda request: None
        started = time.monotonic()
        for steer in (
            lambda timeout: view.look(1, 2, timeout=timeout),
            lambda timeout: view.attend(np.ones((2, 2)), timeout=timeout),
            lambda timeout: view.attend_tokens(1, [1.0], timeout=timeout),
            lambda timeout: view.inject("depth", np.ones((2, 2)), timeout=timeout),
            lambda timeout: view.weigh(depth=1, timeout=timeout),
            lambda timeout: view.release(timeout=timeout),
        ):
            for timeout in (0, 0.01):
                with self.assertRaisesRegex(foveate.TimedOut, f"did not answer within {timeout:g} s"):
                    steer(timeout)
        self.assertLess(time.monotonic() - started, 2)

    def test_a_thread_waits_for_its_turn_to_steer_no_longer_than_it_says(self) -> None:
        self.daemon.answers["look"] = lambda request: None
        view = self.open()
        first = threading.Thread(target=lambda: self.assertRaises(foveate.Ended, view.look, 1, 2, timeout=None))
        first.start()
        for _ in within():
            if self.daemon.requests[-1][0]["op"] == "look":
                break
        started = time.monotonic()
        with self.assertRaises(foveate.TimedOut):
            view.look(3, 4, timeout=0.01)
        self.assertLess(time.monotonic() - started, 2)
        self.daemon.stop()
        first.join(HANG)

    def test_an_answer_that_comes_late_is_not_taken_for_another(self) -> None:
        self.daemon.answers["look"] = lambda request: None
        view = self.open()
        with self.assertRaises(foveate.TimedOut):
            view.look(1, 2, timeout=0.05)
        self.daemon.answers.clear()
        view.release()
        self.assertEqual(self.asked()[0], {"op": "release", "view": VIEW})

    def test_a_steerer_that_was_dropped_comes_back(self) -> None:
        view = self.open()
        view.release()
        self.daemon.stop()
        self.daemon.start()
        self.assertEqual(view.look(1, 2).x, 1.5)
        self.daemon.stop()
        with self.assertRaises((foveate.NoDaemon, foveate.Ended)):
            view.look(1, 2)

    def test_many_threads_steer_at_once_and_each_gets_its_answer(self) -> None:
        self.daemon.answers["look"] = lambda request: {"ok": True, "points": request["points"]}
        view, wrong = self.open(), []

        def steer(number: int) -> None:
            for turn in range(50):
                if view.look(number, turn)[:2] != (number, turn):
                    wrong.append((number, turn))

        threads = [threading.Thread(target=steer, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG)
        self.assertEqual(wrong, [])

    def test_a_view_of_ones_own_has_the_keys_that_were_asked_for(self) -> None:
        self.daemon.rings["front/open-1"] = self.ring
        self.daemon.answers["open_view"] = lambda request: {"ok": True, "view": "front/open-1"}
        with foveate.open_view("front", self.daemon.path, budget=64, gaze={"policy": "feedback"}) as view:
            self.assertEqual(view.name, "front/open-1")
            view.look(1, 2)
            self.assertEqual(self.asked()[0]["view"], "front/open-1")
        asked = [request for request, _ in self.daemon.requests][0]
        self.assertEqual(asked["view"], {"budget": 64, "gaze": {"policy": "feedback"}})


class NothingIsLeftBehind(WithDaemon):
    def test_a_view_that_was_closed_leaves_nothing_open(self) -> None:
        self.ring.publish()
        before = open_now()
        for _ in range(3):
            with self.open(reconnect=True) as view:
                view.read(HANG)
                view.look(1, 2)
                view.close()
        self.assert_back_to(before)

    def test_rings_are_unmapped_at_once_whoever_still_knows_them(self) -> None:
        before = mappings()
        view = self.started()
        first = view.subscription.ring
        newer = FakeRing()
        newer.publish()
        self.daemon.move(VIEW, newer)
        view.read(HANG)
        self.assertEqual(mappings(), before + 1)
        second = view.subscription.ring
        self.assertIsNot(first, second)
        view.close()
        self.assertEqual(mappings(), before)

    def test_a_view_that_cannot_be_opened_leaves_nothing_open(self) -> None:
        before = open_now()
        self.daemon.answers["open_view"] = lambda request: {"ok": True, "view": "front/none"}
        # What an error refers to, tracebacks included, must hold nothing.
        errors = []
        for attempt in (
            lambda: foveate.open("front/none", self.daemon.path),
            lambda: foveate.open_view("front", self.daemon.path),
            lambda: foveate.open(VIEW, "/nonexistent/foveate.sock"),
            lambda: foveate.open(VIEW, "/" + 200 * "x"),
        ):
            try:
                attempt()
            except foveate.FoveateError as error:
                errors.append(error)
        kinds = [foveate.Refused, foveate.Refused, foveate.NoDaemon, foveate.FoveateError]
        self.assertEqual([type(error) for error in errors], kinds)
        self.assertIn("socket=", str(errors[2]))
        self.assert_back_to(before)

    def test_a_broken_segment_leaves_nothing_open(self) -> None:
        before = open_now()
        self.ring.header["abi_major"] = 3
        with foveate.open(VIEW, self.daemon.path) as view:
            with self.assertRaisesRegex(foveate.BrokenSegment, "follows ABI 3"):
                view.read(HANG)
        self.assert_back_to(before)

    def test_new_segments_and_reconnections_leave_nothing_open(self) -> None:
        rings = [FakeRing() for _ in range(4)]
        before = open_now()
        with foveate.open(VIEW, self.daemon.path, reconnect=True) as view:
            for ring in rings:
                self.daemon.move(VIEW, ring)
                self.daemon.publish(VIEW)
                for _ in within():
                    if view.read(HANG).epoch == int(ring.header["epoch"]):
                        break
                self.daemon.stop()
                self.daemon.start()
        self.daemon.stop()
        self.daemon.start()
        self.assert_back_to(before)

    def test_a_closed_view_says_so(self) -> None:
        view = self.open()
        view.close()
        view.close()
        for use in (view.read, view.fileno, lambda: view.look(1, 2), lambda: next(iter(view))):
            with self.assertRaisesRegex(foveate.FoveateError, "closed"):
                use()

    def test_a_fork_does_not_read_what_its_parent_opened(self) -> None:
        view = self.open()
        child = os.fork()
        if child == 0:
            try:
                view.read(timeout=0)
            except foveate.TimedOut:
                os._exit(2)
            except foveate.FoveateError as error:
                os._exit(0 if "another process" in str(error) else 3)
            os._exit(4)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def assert_back_to(self, before: Any) -> None:
        # The daemon's side is closed by its own threads, a moment later.
        for _ in within():
            gc.collect()
            if not open_now() - before:
                return


@contextlib.contextmanager
def deaf(daemon: FakeDaemon) -> Iterator[socket.socket]:
    """A daemon that was killed and whose socket systemd keeps: it listens, and nobody accepts."""
    daemon.stop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(daemon.path)
        listener.listen(8)
        yield listener
        if os.path.exists(daemon.path):
            os.unlink(daemon.path)


def callers(listener: socket.socket) -> int:
    """How many have connected and were not accepted, who are hung up on."""
    listener.setblocking(False)
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def read_when_ready(loop: select.epoll, view: foveate.View, turns: int = 1) -> list[int]:
    """What an event loop reads that calls ``view.read(timeout=0)`` when its descriptor is readable."""
    seen = []
    for _ in range(turns):
        assert loop.poll(HANG), "the descriptor is never readable again"
        with contextlib.suppress(foveate.TimedOut):
            while True:
                seen.append(view.read(timeout=0, newest=False).frame_seq)
    return seen


def open_now() -> Counter[str]:
    """What is open, but for the numbers that descriptors and sockets have."""
    opened = Counter(entry.split("[")[0].split(" ", 1)[1] for entry in descriptors())
    opened["mapping"] = mappings()
    return opened


class DaemonIsAsked(WithDaemon):
    def test_the_views_of_a_daemon_are_listed_page_by_page(self) -> None:
        def listed(name: str) -> dict[str, Any]:
            return dict(name=name, layout="foveal", budget=64, patch_side=16, dtype="bf16", policy="feedback", news=1)

        def page(request: dict[str, Any]) -> dict[str, Any]:
            views = [listed("front/wide")] if "after" in request else [listed("front/fovea"), listed(VIEW)]
            stream = dict(name="front", state="stalled", reason="no frame for 3 s", views=views)
            return {"ok": True, "streams": [stream], "next": None if "after" in request else VIEW}

        self.daemon.answers["list"] = page
        views = foveate.list_views(self.daemon.path)
        self.assertEqual([view.name for view in views], ["front/fovea", VIEW, "front/wide"])
        expected = ("stalled", "no frame for 3 s", "foveal", 64, 16, "bf16", "feedback")
        self.assertEqual(views[1][1:], expected)
        self.assertEqual(self.daemon.requests[-1][0], {"op": "list", "after": VIEW})
        self.daemon.answers["list"] = lambda request: {"ok": True, "streams": [{}]}
        with self.assertRaisesRegex(foveate.FoveateError, "different versions"):
            foveate.list_views(self.daemon.path)
        self.daemon.stop()
        with self.assertRaises(foveate.NoDaemon):
            foveate.list_views(self.daemon.path)

    def test_help_tells_what_each_field_of_a_frame_is(self) -> None:
        shown = pydoc.plain(pydoc.render_doc(foveate.Frame))
        fields = [field.name for field in dataclasses.fields(foveate.Frame) if not field.name.startswith("_")]
        self.assertEqual([name for name in fields if f":ivar {name}: " not in shown], [])
        self.assertRegex(shown, ":ivar capture_ns: .*CLOCK_MONOTONIC in ns")

    def test_the_version_is_that_of_the_package(self) -> None:
        self.assertIn(f'\nversion = "{foveate.__version__}"\n', (PACKAGE_ROOT / "pyproject.toml").read_text())


NAMED = {"FOVEATE_SOCKET": "/a.sock", "RUNTIME_DIRECTORY": "/b:/c", "XDG_RUNTIME_DIR": "/d"}
PLACES = ["/a.sock", "/b/foveate.sock", "/d/foveate/foveate.sock", "/run/foveate/foveate.sock"]


class SocketIsFound(unittest.TestCase):
    def test_where_there_is_none_the_first_place_that_is_set_counts(self) -> None:
        with mock.patch.dict(os.environ, NAMED), mock.patch("os.path.exists", return_value=False):
            self.assertEqual(foveate.socket_path("/explicit"), "/explicit")
            for place, name in zip(PLACES, [*NAMED, None], strict=True):
                self.assertEqual(foveate.socket_path(), place)
                if name:
                    # Empty counts as unset.
                    os.environ[name] = ""

    def test_a_relative_runtime_directory_is_ignored(self) -> None:
        with mock.patch.dict(os.environ, {"FOVEATE_SOCKET": "", "RUNTIME_DIRECTORY": "", "XDG_RUNTIME_DIR": "d"}):
            self.assertEqual(foveate.socket_path(), PLACES[3])

    def test_the_first_place_that_has_one_counts(self) -> None:
        for there in (PLACES[3:], PLACES[2:], PLACES[1:], PLACES[1::2]):
            with mock.patch.dict(os.environ, NAMED), mock.patch("os.path.exists", there.__contains__):
                self.assertEqual(foveate.socket_path(), PLACES[0], "one that is named is not looked for")
                del os.environ["FOVEATE_SOCKET"]
                self.assertEqual(foveate.socket_path(), there[0])


if __name__ == "__main__":
    unittest.main()
