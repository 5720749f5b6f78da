"""Frames of several views come together when they were captured together, or the late view is named."""

from __future__ import annotations

import random
import threading
import unittest

from support import HANG, FakeDaemon, FakeRing, descriptors, foveate, within

MS = 10**6


class ViewsMatch(unittest.TestCase):
    def setUp(self) -> None:
        names = ["left/policy", "right/policy", "rear/policy"]
        self.daemon = FakeDaemon({name: FakeRing(stream=name.split("/")[0], slot_count=8) for name in names})
        self.addCleanup(self.daemon.__exit__)

    def open(self, count: int = 2) -> foveate.Views:
        views = foveate.open_many(list(self.daemon.rings)[:count], self.daemon.path)
        self.addCleanup(views.close)
        for view in views:
            # Each has its segment.
            for _ in within():
                if view.subscription.poll_newest(lambda ring: True):
                    break
                view.subscription.wait(None)
        return views

    def capture(self, view: str, *milliseconds: float) -> None:
        for ms in milliseconds:
            self.daemon.publish(f"{view}/policy", capture_ns=int(ms * MS))

    def captures(self, frames: foveate.FrameSet) -> list[float]:
        return [frame.capture_ns / MS for frame in frames]

    def test_the_newest_set_within_the_slop_is_read(self) -> None:
        views = self.open()
        self.capture("left", 100, 133, 166)
        self.capture("right", 110, 143)
        matched = views.read(slop_ms=20, timeout=HANG)
        self.assertEqual(self.captures(matched), [133, 143])
        self.assertEqual(matched.spread_ns, 10 * MS)
        self.assertEqual([matched[0].view, matched["right/policy"].view], ["left/policy", "right/policy"])

    def test_no_frame_is_given_twice(self) -> None:
        views = self.open()
        self.capture("left", 100, 133)
        self.capture("right", 110)
        self.assertEqual(self.captures(views.read(timeout=HANG)), [100, 110])
        self.capture("left", 139)
        with self.assertRaises(foveate.TimedOut):
            views.read(timeout=0)
        self.capture("right", 143)
        self.assertEqual(self.captures(views.read(timeout=HANG)), [139, 143])

    def test_the_view_that_is_late_is_named(self) -> None:
        views = self.open(3)
        self.capture("left", 100, 133)
        self.capture("right", 40)
        with self.assertRaises(foveate.TimedOut) as caught:
            views.read(timeout=0)
        self.assertEqual(caught.exception.late, ("right/policy", "rear/policy"))
        self.assertRegex(str(caught.exception), "right/policy is 93.0 ms behind, rear/policy has no frame")

    def test_where_a_new_frame_is_all_that_lacks_nobody_is_late(self) -> None:
        views = self.open()
        self.capture("left", 100)
        self.capture("right", 110)
        views.read(slop_ms=50, timeout=HANG)
        self.capture("left", 133)
        with self.assertRaisesRegex(foveate.TimedOut, "none is late") as caught:
            views.read(slop_ms=50, timeout=0)
        self.assertEqual(caught.exception.late, ())

    def test_a_frame_that_comes_ends_the_wait(self) -> None:
        views = self.open()
        self.capture("left", 100)
        thread = threading.Timer(0.05, self.capture, ("right", 100))
        thread.start()
        self.addCleanup(thread.join)
        self.assertEqual(views.read(timeout=None).spread_ns, 0)

    def test_a_set_is_within_the_slop_and_as_new_as_can_be_whatever_comes(self) -> None:
        from foveate.many import _Candidate, _newest_within

        chance = random.Random(1)
        for _ in range(300):
            lists = [sorted(chance.sample(range(100), chance.randrange(1, 6))) for _ in range(chance.randrange(1, 4))]
            slop = chance.randrange(30)
            chosen = _newest_within(slop, [[_Candidate(ns, 0, 0) for ns in items] for items in lists])
            sets = all_sets(lists, slop)
            if not sets:
                self.assertEqual(chosen, [])
                continue
            times = [item.capture_ns for item in chosen]
            self.assertIn(times, sets)
            self.assertEqual(max(times), max(map(max, sets)))
            self.assertEqual(min(times), max(min(times) for times in sets if max(times) == max(map(max, sets))))

    def test_the_end_of_one_view_ends_the_set(self) -> None:
        views = self.open()
        self.capture("left", 100)
        self.capture("right", 100)
        self.daemon.end("right/policy", "end of file")
        self.assertEqual(self.captures(views.read(timeout=HANG)), [100, 100])
        with self.assertRaises(foveate.Ended) as caught:
            views.read(timeout=HANG)
        self.assertEqual(caught.exception.view, "right/policy")

    def test_a_new_segment_is_followed(self) -> None:
        views = self.open()
        self.capture("left", 100)
        self.capture("right", 100)
        views.read(timeout=HANG)
        self.daemon.move("right/policy", FakeRing(stream="right"))
        self.capture("left", 200)
        self.capture("right", 201)
        self.assertEqual(self.captures(views.read(timeout=HANG)), [200, 201])

    def test_views_that_reconnect_match_again(self) -> None:
        views = foveate.open_many(["left/policy", "right/policy"], self.daemon.path, reconnect=True)
        self.addCleanup(views.close)
        self.daemon.stop()
        for name in ("left", "right"):
            self.daemon.rings[f"{name}/policy"] = FakeRing(stream=name)
            self.capture(name, 500)
        self.daemon.start()
        self.assertEqual(self.captures(views.read(timeout=HANG)), [500, 500])

    def test_each_view_steers_for_itself(self) -> None:
        views = self.open()
        views["right/policy"].look(1, 2)
        self.assertEqual(self.daemon.requests[-1][0]["view"], "right/policy")
        self.assertEqual([view.name for view in views], ["left/policy", "right/policy"])
        with self.assertRaises(KeyError):
            views["front/policy"]

    def test_a_view_that_cannot_be_opened_leaves_nothing_open(self) -> None:
        before = len(descriptors())
        with self.assertRaises(foveate.Refused):
            foveate.open_many(["left/policy", "none/policy"], self.daemon.path)
        for _ in within():
            if len(descriptors()) == before:
                break
        for wrong in ([], ["left/policy", "left/policy"]):
            with self.assertRaises(ValueError):
                foveate.open_many(wrong, self.daemon.path)


def all_sets(lists: list[list[int]], slop: int) -> list[list[int]]:
    """Every choice of one from each list within ``slop``, by trying them all."""
    sets: list[list[int]] = [[]]
    for items in lists:
        sets = [[*chosen, item] for chosen in sets for item in items]
    return [chosen for chosen in sets if max(chosen) - min(chosen) <= slop]


if __name__ == "__main__":
    unittest.main()
