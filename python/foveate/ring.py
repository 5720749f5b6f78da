"""Reads one segment's ring: copies frames out or borrows them in place, and checks afterwards whether the writer
replaced them meanwhile.

Detecting a torn frame depends on the order of loads. On x86-64 the processor does not reorder loads, and no compiler
optimises across the calls of an interpreter, so nothing is needed. Elsewhere :func:`_fence` puts a barrier between the
lock and the copy.
"""

from __future__ import annotations

import platform
import struct
import threading
from collections import namedtuple
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import abi, codes
from .errors import BrokenSegment, Lapped
from .frame import Bounds, Fixation, Frame, Texels
from .segment import Segment, SegmentInfo, unpadded

#: Failed copies in a row after which a read gives up: a working reader loses one in a thousand.
_TRIES_MAX = 64


def _offset_of(struct: np.dtype[Any], field: str) -> int:
    """Offset of ``field`` in ``struct``, in bytes."""
    assert struct.fields is not None
    return int(struct.fields[field][1])


_LIVE_WORD = abi.LIVE_OFFSET // 8
_NEWEST_WORD = _LIVE_WORD + _offset_of(abi.LIVE_BLOCK, "newest") // 8
_STATE_SEQUENCE_HALF_WORD = (abi.LIVE_OFFSET + _offset_of(abi.LIVE_BLOCK, "state_sequence")) // 4
_STATES_OFFSET = abi.LIVE_OFFSET + _offset_of(abi.LIVE_BLOCK, "states")

#: The header of a slot, unpacked at once: a structured array takes several times as long for one record.
_HEAD_FIELDS = [name for name in abi.SLOT_HEADER.names or () if name != "reserved"]
_SlotHead = namedtuple("_SlotHead", _HEAD_FIELDS)  # type: ignore[misc]


#: Fields that a frame has as the header has them.
_COPIED = [
    name
    for name in _HEAD_FIELDS
    if name in Frame.__dataclass_fields__
    and name not in ("pts_ns", "capture_clock", "capture_error_ns", "fixations", "depth_capture_ns", "motion")
]


def _form(dtype: np.dtype[np.void], fields: Iterable[str]) -> struct.Struct:
    """``fields`` of a structured type; those that are structs themselves come as bytes."""
    sizes = [dtype[name].char if dtype[name].char != "V" else f"{dtype[name].itemsize}s" for name in fields]
    return struct.Struct("<" + "".join(sizes).replace("L", "Q"))


_HEAD = _form(abi.SLOT_HEADER, _HEAD_FIELDS)
_FIXATION = _form(abi.FIXATION_BLOCK, abi.FIXATION_BLOCK.names or ())


def _no_fence() -> None:
    """x86-64 loads in program order."""


def _lock_fence() -> None:
    """Keeps the loads before it before those after it.

    Python has no fence, but a lock that is released and then taken again is one for loads. CPython's locks are released and
    taken by a read-modify-write: a semaphore's of the C library, or a compare-and-swap of its own. On Armv8 the first is a
    store-release (``CASL`` or ``STLXR``) and the second a load-acquire (``CASA`` or ``LDAXR``), and of these the
    architecture's "barrier-ordered-before" orders three pairs: any load with a store-release after it, that with a
    load-acquire after it, and that with any load after it. The second pair is what one operation alone lacks: loads may sink
    below an acquisition, and rise above a release. It does not hold for ``LDAPR``, to which compilers turn no
    read-modify-write. RISC-V has the same three by rules 5 to 7 of its preserved program order or by fences, POWER by
    ``lwsync``. The kernel orders everything where the thread moves to another processor.
    """
    lock = threading.Lock()
    lock.acquire()
    lock.release()
    lock.acquire()


_fence = _no_fence if platform.machine() in ("x86_64", "AMD64", "i386", "i686") else _lock_fence


class Ring:
    """The frames of one segment, and which of them were read.

    It sees the frame that was the newest when it was opened, and all later ones. For one thread at a time.
    """

    def __init__(self, segment: Segment) -> None:
        self.info = segment.info
        self._segment = segment
        self._place = segment.placement
        #: Ring sequence of the last frame that was read or skipped.
        self._last = max(0, self.newest() - 1)
        #: Ring sequence up to which frames were read, or counted as missed.
        self._counted = self._last

    def follow(self, before: Ring) -> None:
        """Marks every frame of the segment as unread, after a view moved to it. If it is the segment of ``before``,
        because the daemon had only dropped the connection, nothing is read twice."""
        is_same = self.info.epoch == before.info.epoch
        self._last, self._counted = (before._last, before._counted) if is_same else (0, 0)

    def pass_over(self, frame: Frame) -> None:
        """Counts a frame that was just read, but not returned, as missed."""
        self._counted = frame.ring_sequence - frame.missed - 1

    def close(self) -> None:
        """Unmaps the segment."""
        self._segment.close()

    def newest(self) -> int:
        """Ring sequence of the newest frame; 0 before the first."""
        newest: int = self._segment.words.item(_NEWEST_WORD)
        # SYNC(published): pairs with the store in `Live::publish`.
        _fence()
        return newest

    def state(self) -> tuple[str, str]:
        """The state of the view, ``"live"``, ``"stalled"`` or ``"ended"``, and the reason."""
        sequence = self._state_sequence()
        for _ in range(_TRIES_MAX):
            # SYNC(state-filled): pairs with the last store in `Live::change_state`.
            _fence()
            offset = _STATES_OFFSET + sequence % 2 * abi.STATE_BLOCK.itemsize
            block = np.frombuffer(self._segment.load(offset, abi.STATE_BLOCK.itemsize), abi.STATE_BLOCK)[0]
            # SYNC(state-torn): pairs with the fence in `Live::change_state`.
            _fence()
            before, sequence = sequence, self._state_sequence()
            if before == sequence:
                break
        else:
            return "ended", "the state changes faster than it can be read"
        code = int(block["code"])
        if code not in codes.STATES:
            return "ended", f"the segment has the unknown state {code}: install a newer foveate package"
        return codes.STATES[code], unpadded(block["reason"]).decode("utf-8", "replace")

    def read_newest(self) -> Frame | None:
        """A copy of the newest frame, unless it was read before. Older ones are skipped."""
        sequence = self._last
        for _ in range(_TRIES_MAX):
            sequence = self.newest()
            if sequence <= self._last:
                return None
            frame = self.copy(sequence)
            if frame is not None:
                return self._took(frame)
        raise Lapped(sequence)

    def read_next(self) -> Frame | None:
        """A copy of the oldest frame that was not read before and is still in the ring."""
        sequence = self._last + 1
        for _ in range(_TRIES_MAX):
            newest = self.newest()
            if newest <= self._last:
                return None
            sequence = min(max(sequence, newest - self._place.slot_count + 1), newest)
            frame = self.copy(sequence)
            if frame is not None:
                return self._took(frame)
            # The writer is replacing this one; `newest` may not show it yet.
            sequence += 1
        raise Lapped(sequence)

    def read_nearest(self, capture_ns: int) -> Frame | None:
        """A copy of the frame that was captured nearest to ``capture_ns``, read before or not."""
        for _ in range(_TRIES_MAX):
            captures = self.captures()
            if not captures:
                return None
            _, sequence = min(captures, key=lambda capture: abs(capture[0] - capture_ns))
            frame = self.copy(sequence)
            if frame is not None:
                return frame
        raise Lapped(sequence)

    def borrow_newest(self) -> Frame | None:
        """The newest frame, unless it was read before, with its planes in place and everything else copied."""
        sequence = self._last
        for _ in range(_TRIES_MAX):
            sequence = self.newest()
            if sequence <= self._last:
                return None
            frame = self._in_place(sequence)
            if frame is not None:
                self.lend(frame)
                return self._took(frame)
        raise Lapped(sequence)

    def captures(self) -> list[tuple[int, int]]:
        """Capture times of the frames in the ring, and their ring sequences, oldest first."""
        newest = self.newest()
        oldest = max(1, newest - self._place.slot_count + 1)
        heads = [self._head(sequence) for sequence in range(oldest, newest + 1)]
        return [(head.capture_ns, head.ring_sequence) for head in heads if head is not None]

    def newest_capture_ns(self) -> int | None:
        """Capture time of the newest frame; None before the first."""
        captures = self.captures()
        return captures[-1][0] if captures else None

    def copy(self, sequence: int) -> Frame | None:
        """A copy of frame ``sequence``, or None if the writer replaced it meanwhile."""
        frame = self._in_place(sequence)
        if frame is None:
            return None
        frame._own_planes()
        return frame if self.holds(sequence) else None

    def holds(self, sequence: int) -> bool:
        """Whether everything loaded so far belongs to frame ``sequence``."""
        # SYNC(torn): pairs with the fence in `Lock::write`.
        _fence()
        return self._lock(sequence) == 2 * sequence

    def lend(self, frame: Frame) -> None:
        """Lets a borrowed frame check whether it is whole, even after the ring was closed."""
        sequence = frame.ring_sequence
        words, lock = self._segment.words, self._slot(sequence) // 8

        def is_held() -> bool:
            # SYNC(torn): as in `holds`.
            _fence()
            return bool(words.item(lock) == 2 * sequence)

        frame._lend(is_held)

    def _in_place(self, sequence: int) -> Frame | None:
        head = self._head(sequence)
        if head is None:
            return None
        tokens = np.empty(head.token_count, abi.TOKEN)
        tokens.view("<u8")[:] = self._words(sequence, self._place.records_offset, tokens.nbytes)
        planes = self._planes(sequence, head.token_count)
        return frame_of(self.info, head, tokens, planes) if self.holds(sequence) else None

    def _head(self, sequence: int) -> Any:
        """The header of frame ``sequence``, or None if its slot holds another."""
        if self._lock(sequence) != 2 * sequence:
            return None
        # SYNC(filled): pairs with the last store in `Lock::write`.
        _fence()
        head: Any = _SlotHead._make(self._segment.unpacked(_HEAD, self._slot(sequence)))
        if not self.holds(sequence):
            return None
        if head.ring_sequence != sequence:
            raise BrokenSegment(
                f"invalid segment: ring_sequence is {head.ring_sequence} in the slot of {sequence}"
            )
        if self._place.capacity < head.token_count:
            raise BrokenSegment(f"invalid segment: token_count is {head.token_count}")
        return head

    def _slot(self, sequence: int) -> int:
        return abi.HEADER_BYTES + sequence % self._place.slot_count * self._place.slot_stride

    def _lock(self, sequence: int) -> int:
        lock: int = self._segment.words.item(self._slot(sequence) // 8)
        return lock

    def _words(self, sequence: int, offset: int, size: int) -> NDArray[np.uint64]:
        start = (self._slot(sequence) + offset) // 8
        return self._segment.words[start : start + -(-size // 8)]

    def _planes(self, sequence: int, token_count: int) -> dict[str, Texels]:
        slot, words = self._slot(sequence), self._segment.words
        return {
            plane.name: np.ndarray(
                (token_count if plane.count is None else plane.count, *plane.shape),
                plane.dtype,
                words,
                slot + plane.offset,
                plane.strides,
            )
            for plane in self._place.planes
        }

    def _state_sequence(self) -> int:
        sequence: int = self._segment.half_words.item(_STATE_SEQUENCE_HALF_WORD)
        return sequence

    def _took(self, frame: Frame) -> Frame:
        frame.missed = frame.ring_sequence - self._counted - 1
        self._last = self._counted = frame.ring_sequence
        return frame


def head_of(slot: bytes) -> Any:
    """The header of a slot, by the names of its fields."""
    return _SlotHead._make(_HEAD.unpack_from(slot))


def frame_of(info: SegmentInfo, head: Any, tokens: NDArray[np.void], planes: dict[str, Texels]) -> Frame:
    """The frame of a slot with this header."""
    return Frame(
        info=info,
        pts_ns=head.pts_ns if head.flags & abi.FLAG_PTS else None,
        capture_clock=codes.CAPTURE_CLOCKS.get(head.capture_clock, "unknown"),
        capture_error_ns=head.capture_error_ns or None,
        fixations=_fixations(head),
        bounds=Bounds(sample=head.sample_bound, rgb=head.rgb_bound),
        depth_capture_ns=head.depth_capture_ns or None,
        motion=np.frombuffer(head.motion, "<f4").reshape(2, 3) if head.motion_frame else None,
        tokens=tokens,
        _planes=planes,
        **{name: getattr(head, name) for name in _COPIED},
    )


def _fixations(head: Any) -> tuple[Fixation, ...]:
    """The fixations of a frame; a count out of bounds is clamped."""
    count = min(max(head.fixation_count, 1), abi.FOVEAE_MAX)
    return tuple(
        Fixation(x, y, number, since_frame, codes.FIXATION_REASONS.get(reason, "policy"), weight)
        for number, x, y, since_frame, weight, reason in _FIXATION.iter_unpack(head.fixations[: count * _FIXATION.size])
    )
