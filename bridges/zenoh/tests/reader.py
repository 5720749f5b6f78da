"""Reads a view of another machine, and says what it read: reader.py VIEW ENDPOINT COUNT"""

from __future__ import annotations

import hashlib
import json
import sys

import processes  # noqa: F401 (finds the package)
from processes import session

import foveate
from foveate import remote


def digest(frame: foveate.Frame) -> str:
    """Of all bytes of a frame."""
    planes = b"".join(items.tobytes() for items in frame.planes.values())
    return hashlib.sha256(frame.tokens.tobytes() + planes).hexdigest()


def main() -> None:
    view, endpoint, count = sys.argv[1:]
    # The tests' machines are one: without this all would go through its memory, and nothing over their link.
    with (
        session(endpoint, **{"transport/shared_memory/enabled": False}) as opened,
        remote.open("robot", view, opened) as far,
    ):
        for _ in range(int(count)):
            frame = far.read(60)
            line = {"frame_seq": frame.frame_seq, "bytes": digest(frame), "status": far.status, "lost": far.lost}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
