"""One client of the soak test: reads a view, steers it, or opens one, until its time is over or it is killed.

Run by soak.py: soak_client.py SOCKET VIEW WAY SECONDS SEED. Ends with 0 where all went as it may go, however
that was: a view may end, a client may be refused. Everything else is a traceback and exit code 1.
"""

import random
import select
import sys
import time

import numpy as np

import foveate

#: How long it waits for a frame at a time, in seconds.
PATIENCE_S = 0.5


class Client:
    """A view, and the numbers of the frames that were read: within one epoch they grow."""

    def __init__(self, view, chance):
        self.view, self.chance = view, chance
        self._epoch, self._newest = None, -1

    def see(self, frame):
        """Checks one frame against those before."""
        if frame.epoch != self._epoch:
            self._epoch, self._newest = frame.epoch, -1
        assert self._newest < frame.frame_seq, f"frame {frame.frame_seq} came after frame {self._newest}"
        assert 0 < len(frame) <= frame.info.capacity, f"{len(frame)} tokens in room for {frame.info.capacity}"
        self._newest = frame.frame_seq

    def newest(self):
        """Copies the newest frames, and skips others."""
        self.see(self.view.read(timeout=PATIENCE_S))
        time.sleep(0.05)

    def all(self):
        """Copies every frame that is still in the ring."""
        self.see(self.view.read(timeout=PATIENCE_S, newest=False))

    def borrow(self):
        """Borrows frames, now and then for so long that the writer overwrites them."""
        try:
            with self.view.borrow(timeout=PATIENCE_S) as frame:
                self.see(frame)
                frame.pixels.max()
                time.sleep(self.chance.choice([0, 0, 0, 0.5]))
        except foveate.Lapped:
            pass

    def poll(self):
        """Waits for the descriptor to become readable, as an event loop does."""
        if select.select([self.view], [], [], PATIENCE_S)[0]:
            self.see(self.view.read(timeout=0))

    def steer(self):
        """Sends every kind of feedback, sometimes invalid."""
        view, random = self.view, self.chance.random
        frame = view.read(timeout=PATIENCE_S)
        self.see(frame)
        weights = np.array([[random() for _ in range(8)] for _ in range(6)], dtype=np.float32)
        self.chance.choice(
            [
                lambda: view.look(random(), random(), normalised=True, for_ms=300),
                lambda: view.look(random(), random(), normalised=True, wait=True),
                lambda: view.attend(weights, frame=frame),
                lambda: view.attend_tokens(frame, np.array([random() for _ in range(len(frame))])),
                view.release,
                lambda: view.look(-1e9, 0),
                lambda: view.look(1, 1, frame=10**12),
                lambda: view.attend(np.zeros((4, 4))),
                lambda: view.attend(weights, box=(5, 5, 5, 5)),
                lambda: view.attend_tokens(frame, [1.0]),
            ]
        )()
        time.sleep(self.chance.uniform(0.0, 0.1))

    #: Steers a view that lives as long as this client.
    own = steer

    def still(self):
        """Reads nothing, and lets its socket fill up."""
        time.sleep(0.2)


def opened(socket, address, way, chance):
    """The view."""
    if way == "own":
        keys = {"budget": chance.choice([32, 128, 273]), "dtype": chance.choice(["u8", "f16", "bf16", "f32"])}
        return foveate.open_view(address.split("/")[0], socket, gaze={"policy": "feedback"}, **keys)
    return foveate.open(address, socket, reconnect=chance.random() < 0.5)


def main():
    """Repeats one activity."""
    socket, address, way, seconds, seed = sys.argv[1:]
    chance, end = random.Random(int(seed)), time.monotonic() + float(seconds)
    try:
        with opened(socket, address, way, chance) as view:
            client = Client(view, chance)
            while time.monotonic() < end:
                try:
                    getattr(client, way)()
                except (foveate.TimedOut, foveate.Refused, foveate.Unavailable):
                    # A refusal comes at once, and so would the next.
                    time.sleep(0.05)
    except (foveate.Ended, foveate.Refused, foveate.TimedOut, foveate.Unavailable):
        # The stream was taken away, or is not there just now.
        pass


if __name__ == "__main__":
    main()
