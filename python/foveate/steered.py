"""What steers a view, wherever it is: each call is a message, and waits for the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import feedback
from .canvas import Canvas
from .control import ANSWER_TIMEOUT_S, Looking, injected, looking
from .frame import Frame

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

    from .keys import EgoOptions, FrameOptions, LookOptions

#: How long a canvas waits for the answer to a refresh, in seconds: frames pass meanwhile.
_REFRESH_TIMEOUT_S = 0.25


class Steered:
    """The calls that steer a view; subclasses send the message to the daemon."""

    def _ask(self, message: feedback.Feedback, timeout: float | None) -> dict[str, Any]:
        """Sends a message, and returns the answer."""
        raise NotImplementedError

    def look(
        self,
        x: float | None = None,
        y: float | None = None,
        *,
        box: Sequence[float] | None = None,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **options: Unpack[LookOptions],
    ) -> Looking:
        """Makes the view look at a point or at a box, from the very next frame on. The other parameters, and the errors, are
        those of :meth:`look_at`, which this is with one point.

        :param x: pixels right of the source's left edge; with ``normalised`` a share of its width, 0 to 1.
        :param y: pixels below the source's top edge; with ``normalised`` a share of its height.
        :param box: instead of a point, (x0, y0, x1, y1) in the same units: sharp all over it, as far as the budget goes. A
            ``homography`` or a ``rotation`` moves it as its middle.
        :raises Refused: also if the box is not over the image (``bad-box``).
        """
        return looking(self._ask(feedback.look(x, y, box, **options), timeout))

    def look_at(
        self,
        points: Sequence[Sequence[float]],
        *,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **options: Unpack[LookOptions],
    ) -> Looking:
        """Makes the view look at several points at a time and at nothing else, from the very next frame on.

        :param points: x and y of each, 1 to 8 and at most as many as the view has foveae: pixels right of the source's
            left edge and below its top edge; with ``normalised`` shares of its width and height, 0 to 1.
        :param share: the share of the budget that is spent on them, above 0 to 1, with the layout ``inset``; None leaves it
            to the layout.
        :param for_ms: how long, in ms of the stream's time; None until the next message.
        :param frame: the frame that the points refer to, or its ``frame_seq``; None for the newest. One of the last ten
            seconds, and of the last 64 frames in any case; an older one counts as the newest, and the answer says so
            (:attr:`Looking.taken_for`).
        :param strict: whether an older frame is refused instead (``frame-too-old``).
        :param homography: how the camera moved since ``frame``, as odometry has it, instead of the motion that the
            daemon measured: a [3, 3] matrix, or its 9 numbers row by row, that takes (x, y, 1) in source pixels of that
            frame to source pixels of now, times any factor. Points that are not in the picture any more are left out.
        :param rotation: the same as a quaternion x, y, z, w of length 1 that takes a direction in the camera's optical
            frame of then (x right, y down, z forward) to the same direction in that of now: ``rotation`` of ``tf2``'s
            transform from the optical frame at that time to the one now. Not with ``homography``.
        :param wait: whether to wait for a frame with the decision, a second at most: then the answer has the fixations.
        :param timeout: how long to wait for the answer, in seconds; None waits for as long as it takes.
        :raises TimedOut: if the daemon does not answer in time; it may still obey.
        :raises Refused: if another client steers the view (``held``), if it has fewer foveae (``wrong-count``), if no
            point is left (``out-of-picture``), if the stream has no calibrated camera for a rotation (``no-camera``), or
            for another reason.
        :raises Unavailable: with ``reconnect``, while the daemon is away, starts or stops, and if it does not know the
            frame: read on, and steer again.
        :raises Ended: without ``reconnect``, if the daemon is gone or stops.
        """
        return looking(self._ask(feedback.look_at(points, **options), timeout))

    def attend(
        self,
        weights: ArrayLike,
        *,
        box: Sequence[float] | None = None,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **options: Unpack[FrameOptions],
    ) -> Looking:
        """Makes the view look at the peak of an attention map, from the next decision on.

        :param weights: [rows, columns], each 1 to 128, of an array or a tensor; not negative, of any scale. float32,
            float16 and uint8 are sent unchanged, others as float32.
        :param box: the area of the map, (x0, y0, x1, y1) in source pixels, beyond the image if the model's input was
            letterboxed; None for the image.
        :param frame: the frame that it was computed on, or its ``frame_seq``, as :meth:`look_at`; None for the newest.
        :param strict: as :meth:`look_at`.
        :param homography: as :meth:`look_at`; the map moves by it.
        :param rotation: as :meth:`look_at`.
        :param wait: whether to wait for the decision: then the answer has the fixation.
        :param timeout: as :meth:`look`.
        :raises TimedOut: as :meth:`look`.
        :raises Refused: as :meth:`look`; also ``policy``, if the view's policy is not ``"auto"`` or ``"feedback"``.
        :raises Unavailable: as :meth:`look_at`, as is :class:`Ended`.
        """
        return looking(self._ask(feedback.attend(weights, box, **options), timeout))

    def attend_tokens(
        self,
        frame: Frame | int,
        scores: ArrayLike,
        *,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **options: Unpack[EgoOptions],
    ) -> Looking:
        """Makes the view look at the tokens of a frame with the highest score, from the next decision on.

        :param frame: the frame whose tokens were scored, or its ``frame_seq``, as :meth:`look_at`. One whose tokens the
            daemon does not know any more is refused (``frame-too-old``).
        :param scores: one for each token, in the order of the frame, [N] or more: the rest is padding.
        :param strict: as :meth:`look_at`.
        :param homography: as :meth:`attend`.
        :param rotation: as :meth:`look_at`.
        :param wait: as :meth:`attend`.
        :param timeout: as :meth:`look`.
        :raises TimedOut: as :meth:`look`.
        :raises Refused: as :meth:`attend`.
        :raises Unavailable: as :meth:`look_at`, as is :class:`Ended`.
        """
        return looking(self._ask(feedback.attend_tokens(frame, scores, **options), timeout))

    def inject(
        self,
        name: str,
        values: ArrayLike,
        frame: Frame | int | None = None,
        box: Sequence[float] | None = None,
        ttl: float = 1.0,
        *,
        strict: bool = False,
        timeout: float | None = ANSWER_TIMEOUT_S,
    ) -> int | None:
        """Gives the view a map by name, as one of the channels that its score is made of. Whoever steers the view, any
        client may: the name is this view's until the map's time is over, or :meth:`close`.

        :param name: 1 to 31 of a-z, 0-9, ``_`` and ``-``, and not the name of a channel that is computed.
        :param values: [rows, columns], each 1 to 128, of an array or a tensor; may be negative. Sent as those of
            :meth:`attend` are.
        :param frame: the frame that the map was made from, or its ``frame_seq``, as :meth:`look_at`; None for the newest.
        :param box: as :meth:`attend`.
        :param ttl: for how long after that frame the map is kept, in seconds of the stream's time, at most 60.
        :param strict: as :meth:`look_at`.
        :param timeout: as :meth:`look`.
        :return: the newest frame, if the map counts for that because ``frame`` is too old; else None.
        :raises TimedOut: as :meth:`look`.
        :raises Refused: ``held``, if another client has the name; ``policy``, if the view's policy is not
            ``"auto"`` or ``"relevance"``; ``too-many-channels``, if this user has its share of the 32; or for another
            reason.
        :raises Unavailable: as :meth:`look_at`, as is :class:`Ended`.
        """
        return injected(self._ask(feedback.inject(name, values, frame, box, ttl, strict), timeout))

    def weigh(
        self,
        weights: Mapping[str, float] | None = None,
        /,
        *,
        timeout: float | None = ANSWER_TIMEOUT_S,
        **named: float,
    ) -> None:
        """Sets what channels add to the score of the view, by name, until :meth:`release`:
        ``view.weigh(depth=1.0, edges=0.2)``.

        :param weights: the same for channels whose names are not identifiers: octaves of relevance for each unit of a
            channel, at most 64 from 0; 0 takes a weight back. A channel need not be there yet.
        :param timeout: as :meth:`look`.
        :raises TimedOut: as :meth:`look`.
        :raises Refused: as :meth:`look`; also ``policy``, if the view's policy is not ``"auto"`` or
            ``"relevance"``.
        :raises Unavailable: as :meth:`look_at`, as is :class:`Ended`.
        """
        self._ask(feedback.weigh({**(weights or {}), **named}), timeout)

    def release(self, *, timeout: float | None = ANSWER_TIMEOUT_S) -> None:
        """Returns the view to its policy, with the weights of its configuration, so that other clients may steer it.

        :param timeout: as :meth:`look`.
        :raises TimedOut: as :meth:`look`.
        :raises Refused: if the daemon refuses.
        :raises Unavailable: as :meth:`look_at`, as is :class:`Ended`.
        """
        self._ask(feedback.RELEASE, timeout)

    def refresh(self, *, timeout: float | None = ANSWER_TIMEOUT_S) -> None:
        """Has a view with ``memory = "canvas"`` forget what it takes for delivered, and deliver it again, because a
        :class:`foveate.Canvas` joined late or missed frames. It does so at most once a second. :meth:`foveate.View.canvas`
        calls this.

        :param timeout: as :meth:`look`.
        :raises TimedOut: as :meth:`look`.
        :raises Refused: if the view remembers nothing (``policy``), or the daemon refuses for another reason.
        :raises Unavailable: as :meth:`look_at`, as is :class:`Ended`.
        """
        self._ask(feedback.REFRESH, timeout)

    def canvas(self) -> Canvas:
        """A canvas for the frames of this view, which asks for a :meth:`refresh` when it joins late or misses frames.

        ``canvas.update(view.read(newest=False))`` draws the next frame; of a view on another machine ``view.read()`` has
        it. The view must have ``layout = "adaptive"`` and ``memory = "canvas"``.
        """
        return Canvas(lambda: self.refresh(timeout=_REFRESH_TIMEOUT_S))
