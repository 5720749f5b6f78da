"""What happens in the picture of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    """Something that happened in the picture. ``docs/guide/events.md`` says when each kind is reported.

    :ivar kind: ``"cut"``, ``"camera-moved"``, ``"covered"``, ``"over-exposed"``, ``"frozen"``, ``"flicker"``,
        ``"appeared"`` or ``"reached"``; later versions may have more.
    :ivar phase: ``"once"``, or ``"began"`` and later ``"ended"`` for what lasts.
    :ivar frame: ``frame_seq`` of the frame at which the event is reported.
    :ivar since_frame: ``frame_seq`` of the frame from which on it holds; of an end, the frame with which it began.
    :ivar value: How strong it is.
    :ivar box: Its place, (x0, y0, x1, y1) in source pixels; None for the whole picture.
    :ivar capture_ns: Capture time of the frame at which the event is reported: CLOCK_MONOTONIC in ns.
    :ivar capture_unix_ns: The same time: CLOCK_REALTIME in ns since 1970.
    :ivar lost: Events that were lost before it, because too many came at once.
    """

    kind: str
    phase: str
    frame: int
    since_frame: int
    value: float
    box: tuple[float, float, float, float] | None
    capture_ns: int
    capture_unix_ns: int
    lost: int


def event_of(message: Mapping[str, Any]) -> Event:
    """The event of a message ``scene``."""
    scene = message["scene"]
    box = scene.get("box")
    return Event(
        kind=str(scene["kind"]),
        phase=str(scene["phase"]),
        frame=int(scene["frame"]),
        since_frame=int(scene["since_frame"]),
        value=float(scene["value"]),
        box=None if box is None else (float(box[0]), float(box[1]), float(box[2]), float(box[3])),
        capture_ns=int(message["capture_ns"]),
        capture_unix_ns=int(message["capture_unix_ns"]),
        lost=int(message["lost"]),
    )
