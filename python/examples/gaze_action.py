"""An agent that steers a view by bounded actions, as reinforcement learning has them, and sees the samples of a retina.

    python python/examples/gaze_action.py front/retina --radius 120

The view has the layout "samples"; its gaze is an action of two numbers from -1 to 1, and its state two numbers, in radii of
the field from the middle of the picture. This agent moves towards what is bright. Needs a running daemon. Prints a line a
second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import foveate


class GazeAction:
    """Moves the gaze of a view by steps of at most ``speed`` radii of the field, within the picture.

    :ivar state: [2] float64: where the view looks, right and down from the middle of the picture, in radii of the field.
    """

    def __init__(self, view: Any, radius: float, speed: float = 0.25) -> None:
        """:param radius: of the field, in pixels."""
        self._view, self._radius, self._speed = view, radius, speed
        width, height = view.read().info.extent
        self._middle = np.array([width, height]) / 2
        self._most = self._middle / radius
        self.state = np.zeros(2)

    def step(self, action: Sequence[float] | NDArray[np.float64]) -> Any:
        """Moves by ``action``, two numbers clipped to -1 to 1, and returns the first frame that was sampled there."""
        moved = self.state + self._speed * np.clip(np.asarray(action, np.float64), -1, 1)
        self.state = np.clip(moved, -self._most, self._most)
        x, y = self._middle + self.state * self._radius
        self._view.look(float(x), float(y), wait=True)
        return self._view.read()


def towards_light(frame: Any) -> NDArray[np.float64]:
    """The action of the agent: the direction of the light that it sees, all of a step from a radius of 32 pixels on."""
    tokens, light = frame.tokens, frame.pixels.reshape(len(frame), -1).mean(axis=1).astype(np.float64)
    light = light - light.min()
    if light.sum() == 0:
        return np.zeros(2)
    centres = np.stack([tokens["x"] + tokens["sx"] / 2, tokens["y"] + tokens["sy"] / 2], axis=1)
    offset = (light[:, None] * (centres - (frame.fixation.x, frame.fixation.y))).sum(axis=0) / light.sum()
    return offset / 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("view", help='a view of the daemon with layout = "samples", such as front/retina')
    parser.add_argument("--radius", type=float, required=True, help="radius of its field in pixels")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long")
    parser.add_argument("--socket", help="the daemon's socket")
    given = parser.parse_args()

    with foveate.open(given.view, given.socket) as view:
        gaze = GazeAction(view, given.radius)
        frame = gaze.step((0, 0))
        started = told = time.monotonic()
        steps = 0
        while time.monotonic() - started < given.seconds:
            frame = gaze.step(towards_light(frame))
            steps += 1
            if 1 <= time.monotonic() - told:
                at, brightest = frame.fixation, frame.pixels.max()
                x, y = gaze.state
                print(
                    f"{steps} steps, gaze at ({x:+.2f}, {y:+.2f}) radii, pixel ({at.x:.0f}, {at.y:.0f}), "
                    f"{len(frame)} samples, the brightest {brightest:.2f}",
                    flush=True,
                )
                steps, told = 0, time.monotonic()


if __name__ == "__main__":
    main()
