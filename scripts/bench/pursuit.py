"""Measures how near the gaze stays to what a consumer attends to four times a second, on any clip.

What there is to attend to is found without the gaze: corners that OpenCV tracks in full resolution (pyramidal Lucas-Kanade,
there and back within a pixel) through at least a second without a cut, and that move by 32 pixels or more. Each has three
views: with neither `compensation` nor `pursuit`, with the former, and with both. Frames are sent one by one, so the result
is the same in every run. Shows the share of frames, from the second map on, in which the fixation is within 32, 24 and 16
pixels.
"""

import os
import tempfile
from itertools import pairwise

import cv2
import numpy as np
from daemon import Daemon
from measuring import FoveateError

SETTINGS = {
    "neither": "compensation = false, pursuit = false",
    "compensation": "compensation = true, pursuit = false",
    "compensation and pursuit": "compensation = true, pursuit = true",
}
# Tracks at a time: each has three of the views that a stream may have.
TRACKS_AT_ONCE = 5
MAPS_HZ = 4
SECONDS_MIN = 1.0
PATH_MIN = 32.0
RADII = (32, 24, 16)
# Mean difference of grey levels from which on a frame begins another shot.
CUT = 30.0


def read(path):
    """The frames of a clip in BGR, and how many there are a second."""
    clip = cv2.VideoCapture(str(path))
    frames = []
    while True:
        is_there, frame = clip.read()
        if not is_there:
            return frames, clip.get(cv2.CAP_PROP_FPS)
        frames.append(frame)


def step(before, after, points):
    """Where points went, and which of them are known."""
    there, found, _ = cv2.calcOpticalFlowPyrLK(before, after, points, None, winSize=(21, 21), maxLevel=3)
    back, again, _ = cv2.calcOpticalFlowPyrLK(after, before, there, None, winSize=(21, 21), maxLevel=3)
    error = np.abs(back - points).max(axis=(1, 2))
    return there, (found[:, 0] == 1) & (again[:, 0] == 1) & (error < 1)


def tracks_of(frames, fps):
    """Tracks as (first frame, places), one from each half second and each part of the picture at most."""
    grey = [cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY) for frame in frames]
    cuts = [0.0, *(float(cv2.absdiff(a, b).mean()) for a, b in pairwise(grey))]
    height, width = grey[0].shape
    tracks = []
    for first in range(0, len(grey), max(1, round(fps / 2))):
        points = cv2.goodFeaturesToTrack(grey[first], 40, 0.02, 60)
        if points is None:
            continue
        paths, alive = [[point[0]] for point in points], np.ones(len(points), bool)
        for index in range(first + 1, len(grey)):
            if CUT < cuts[index] or not alive.any():
                break
            points, known = step(grey[index - 1], grey[index], points)
            inside = (points[:, 0] > 0).all(axis=1) & (points[:, 0] < (width, height)).all(axis=1)
            alive &= known & inside
            for path, point, goes_on in zip(paths, points, alive, strict=True):
                if goes_on:
                    path.append(point[0])
        for path in map(np.array, paths):
            reach = np.ptp(path, axis=0).max()
            if SECONDS_MIN * fps <= len(path) and PATH_MIN <= reach:
                tracks.append((first, path))
    # The longest first; others that run along with one of them say the same.
    tracks.sort(key=lambda track: -len(track[1]))
    chosen = []
    for first, path in tracks:
        if not any(is_same((first, path), other) for other in chosen):
            chosen.append((first, path))
    return chosen


def is_same(one, other):
    """Whether two tracks are within a fovea of each other at some time."""
    begin, end = max(one[0], other[0]), min(one[0] + len(one[1]), other[0] + len(other[1]))
    places = [path[begin - first : end - first] for first, path in (one, other)]
    return begin < end and np.hypot(*(places[0] - places[1]).T).min() < 64


def bump(place, width, height):
    """A map with a peak at a place."""
    columns = 64
    rows = max(1, round(columns * height / width))
    x = (np.arange(columns) + 0.5) * width / columns - place[0]
    y = (np.arange(rows) + 0.5) * height / rows - place[1]
    return np.exp(-0.5 * ((x[None] / 24) ** 2 + (y[:, None] / 24) ** 2)).astype(np.float32)


def play(programs, frames, fps, tracks):
    """Distances of the fixation in each setting."""
    height, width = frames[0].shape[:2]
    with tempfile.TemporaryDirectory() as folder:
        fifo = os.path.join(folder, "frames")
        os.mkfifo(fifo)
        views = "".join(
            f"[[stream.view]]\nname = 'v{index}-{number}'\nlayout = 'foveal'\nslots = 16\n"
            f"gaze = {{ policy = 'feedback', {keys} }}\n"
            for index in range(len(tracks))
            for number, keys in enumerate(SETTINGS.values())
        )
        stream = (
            f"[[stream]]\nname = 'clip'\nbackend = 'cpu'\npace = 'every-frame'\npipeline = 'filesrc location={fifo} "
            f"blocksize={4 * width * height} ! rawvideoparse format=bgrx width={width} height={height} "
            f"framerate={round(1000 * fps)}/1000 ! appsink name=frames'\n{views}"
        )
        # Opened for reading, too, so that this does not wait for a daemon that has ended.
        with open(os.open(fifo, os.O_RDWR), "wb", buffering=0) as feed, Daemon(programs, stream) as daemon:
            return follow(daemon, feed, frames, fps, tracks)


def follow(daemon, feed, frames, fps, tracks):
    height, width = frames[0].shape[:2]
    views = [[daemon.open(f"clip/v{index}-{number}") for number in range(len(SETTINGS))] for index in range(len(tracks))]
    distances = [[] for _ in SETTINGS]
    every = max(1, round(fps / MAPS_HZ))
    for number, picture in enumerate(frames, 1):
        feed.write(cv2.cvtColor(picture, cv2.COLOR_BGR2BGRA).tobytes())
        for (first, places), own in zip(tracks, views, strict=True):
            at = number - 1 - first
            shown = [view.read(timeout=10) for view in own]
            assert all(frame.frame_seq == number for frame in shown), "a frame is missing"
            if not 0 <= at < len(places):
                continue
            for frame, found in zip(shown, distances, strict=True):
                if every < at:
                    fixation = frame.fixations[0]
                    found.append(np.hypot(fixation.x - places[at][0], fixation.y - places[at][1]))
            if at % every == 0:
                for view in own:
                    view.attend(bump(places[at], width, height), frame=number)
    for own in views:
        for view in own:
            view.close()
    return distances


def run(arguments):
    frames, fps = read(arguments.clip)
    if not frames or fps <= 0:
        raise FoveateError(f"cannot read {arguments.clip} (expected a clip that OpenCV decodes)")
    tracks = tracks_of(frames, fps)
    if not tracks:
        raise FoveateError(f"nothing in {arguments.clip} moves through {SECONDS_MIN:g} s without a cut")
    total = [[] for _ in SETTINGS]
    for begin in range(0, len(tracks), TRACKS_AT_ONCE):
        found = play(arguments.programs, frames, fps, tracks[begin : begin + TRACKS_AT_ONCE])
        for all_of_them, some in zip(total, found, strict=True):
            all_of_them += some
    lines = [f"{len(tracks)} tracks, {len(total[0])} frames, {fps:.3g} a second"]
    for setting, distances in zip(SETTINGS, total, strict=True):
        shares = ", ".join(f"{100 * np.mean(np.array(distances) < radius):.1f} % within {radius}" for radius in RADII)
        lines.append(f"{setting}: {shares} pixels, {np.mean(distances):.1f} on average")
    yield "pursuit", "\n".join(lines)
