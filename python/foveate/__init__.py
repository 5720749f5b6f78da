"""Reads the foveated tokens that ``foveated`` publishes in shared memory, and steers the gaze.

    import foveate

    with foveate.open("front/robot") as view:
        for frame in view:
            print(frame.frame_seq, frame.pixels.shape, frame.steps.max(), frame.age_ns)
            view.look(320, 240)

:mod:`foveate.aio` has the same for asyncio. ``docs/guide/python.md`` is the guide, ``docs/reference/abi.md`` and
``docs/reference/control.md`` specify the memory and the messages.
"""

from .abi import TOKEN
from .cache import TokenCache
from .camera import Camera
from .canvas import Canvas, CanvasUpdate
from .control import ListedView, Looking, list_views, socket_path
from .errors import BrokenSegment, Ended, FoveateError, Lapped, NoDaemon, Refused, TimedOut, Unavailable
from .events import Event
from .frame import Bounds, Fixation, Frame, Padded
from .many import FrameSet, Views, open_many
from .segment import Color, PlaneInfo, SegmentInfo
from .view import View, open, open_view

#: The version of this package.
__version__ = "0.1.0"

__all__ = [
    "TOKEN",
    "Bounds",
    "BrokenSegment",
    "Camera",
    "Canvas",
    "CanvasUpdate",
    "Color",
    "Ended",
    "Event",
    "Fixation",
    "FoveateError",
    "Frame",
    "FrameSet",
    "Lapped",
    "ListedView",
    "Looking",
    "NoDaemon",
    "Padded",
    "PlaneInfo",
    "Refused",
    "SegmentInfo",
    "TimedOut",
    "TokenCache",
    "Unavailable",
    "View",
    "Views",
    "__version__",
    "list_views",
    "open",
    "open_many",
    "open_view",
    "socket_path",
]
