"""What the tests share: a ring that they write themselves, a daemon that says what they want, and the real programs."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import mmap
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PACKAGE_ROOT))

import foveate
from foveate import abi, codes
from foveate.ring import Ring
from foveate.segment import opened

#: Far above what anything takes, in seconds: a test that waits this long has failed.
HANG = 60.0

SEALS = fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | 0x10
_DTYPE_CODES = {name: code for code, name in codes.DTYPE_NAMES.items()}


class FakeRing:
    """A segment that the test writes, with the writer's half of the protocol."""

    def __init__(
        self,
        stream: str = "front",
        view: str = "policy",
        capacity: int = 8,
        patch: int = 2,
        dtype: str = "u8",
        slot_count: int = 4,
        epoch: int | None = None,
        extent: tuple[int, int] = (64, 48),
        **header: Any,
    ) -> None:
        self.capacity, self.patch = capacity, patch
        self.dtype = codes.DTYPES[_DTYPE_CODES[dtype]]
        self.token_bytes = 3 * patch * patch * self.dtype.itemsize
        self.records_offset = abi.SLOT_HEADER.itemsize
        self.pixels_offset = _rounded(self.records_offset + capacity * abi.TOKEN.itemsize, 64)
        self.slot_count = slot_count
        self.relevance_offset = _rounded(self.pixels_offset + capacity * self.token_bytes, 64)
        self.stride = _rounded(self.relevance_offset + capacity * 4, 4096)
        self.size = abi.HEADER_BYTES + slot_count * self.stride
        self.newest = 0

        self.file = os.memfd_create("foveate-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.posix_fallocate(self.file, 0, self.size)
        self.memory = mmap.mmap(self.file, self.size)
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, SEALS | fcntl.F_SEAL_SEAL)
        self.bytes = np.frombuffer(self.memory, "u1")
        self.words = self.bytes.view("<u8")

        self.header = self.struct(abi.SEGMENT_HEADER, 0)
        for field, value in self._header(stream, view, dtype, epoch, extent).items():
            self.header[field] = value
        for field, value in header.items():
            self.header[field] = value
        for plane, fields in zip(self.header["planes"], (self._pixels(dtype), self._relevance()), strict=False):
            for field, value in fields.items():
                plane[field] = value
        self.live = self.struct(abi.LIVE_BLOCK, abi.LIVE_OFFSET)
        self.live["states"][0]["code"] = 1

    def _header(self, stream: str, view: str, dtype: str, epoch: int | None, extent: tuple[int, int]) -> dict[str, Any]:
        return dict(
            magic=abi.MAGIC,
            abi_major=abi.ABI_MAJOR,
            abi_minor=abi.ABI_MINOR,
            total_bytes=self.size,
            header_bytes=abi.HEADER_BYTES,
            slot_count=self.slot_count,
            slot_stride=self.stride,
            slot_header_bytes=abi.SLOT_HEADER.itemsize,
            record_bytes=abi.TOKEN.itemsize,
            records_offset=self.records_offset,
            token_capacity=self.capacity,
            patch_side=self.patch,
            plane_count=2,
            epoch=random.getrandbits(64) if epoch is None else epoch,
            source_width=extent[0],
            source_height=extent[1],
            backend_kind=1,
            fovea_capacity=abi.FOVEAE_MAX,
            mean=(0.0, 0.0, 0.0) if dtype == "u8" else (0.485, 0.456, 0.406),
            std=(1 / 255,) * 3 if dtype == "u8" else (0.229, 0.224, 0.225),
            pixel_format=b"NV12",
            stream_name=stream.encode(),
            view_name=view.encode(),
            layout_name=b"foveal",
            backend_device=b"a test",
        )

    def _pixels(self, dtype: str) -> dict[str, Any]:
        return dict(
            name=b"pixels",
            order=b"NCHW",
            dtype=_DTYPE_CODES[dtype],
            ndim=4,
            shape=(self.capacity, 3, self.patch, self.patch),
            offset=self.pixels_offset,
            token_stride=self.token_bytes,
            bytes=self.capacity * self.token_bytes,
        )

    def _relevance(self) -> dict[str, Any]:
        return dict(
            name=b"relevance",
            order=b"N",
            dtype=_DTYPE_CODES["f32"],
            ndim=1,
            shape=(self.capacity, 0, 0, 0),
            offset=self.relevance_offset,
            token_stride=4,
            bytes=self.capacity * 4,
        )

    def struct(self, dtype: np.dtype[Any], offset: int) -> Any:
        """A struct in the segment, to be written."""
        return np.frombuffer(self.memory, dtype, 1, offset)[0:1].reshape(())

    def slot(self, sequence: int) -> int:
        return abi.HEADER_BYTES + sequence % self.slot_count * self.stride

    def slot_header(self, sequence: int) -> Any:
        return self.struct(abi.SLOT_HEADER, self.slot(sequence))

    def lock(self, sequence: int, value: int) -> None:
        self.words[self.slot(sequence) // 8] = value

    def publish(
        self,
        tokens: Any = None,
        pixels: Any = None,
        relevance: Any = None,
        fixations: Any = ((1, 0, 0, 1, 1, 0),),
        **head: Any,
    ) -> int:
        """Publishes a frame, by default one token whose texels all are its ring sequence."""
        sequence = self.newest + 1
        tokens = token_records(1) if tokens is None else tokens
        shape = (len(tokens), 3, self.patch, self.patch)
        pixels = np.full(shape, sequence % 256, self.dtype) if pixels is None else pixels
        self.begin(sequence)
        slot = self.slot_header(sequence)
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        defaults = dict(
            ring_sequence=sequence,
            frame_seq=sequence,
            capture_ns=now,
            capture_unix_ns=time.time_ns(),
            arrival_ns=now,
            publish_ns=now,
            token_count=len(tokens),
            fixation_count=len(fixations),
        )
        slot["fixations"][: len(fixations)] = np.array(list(fixations), abi.FIXATION_BLOCK)
        for field, value in {**defaults, **head}.items():
            slot[field] = value
        self._store(self.slot(sequence) + self.records_offset, np.ascontiguousarray(tokens))
        self._store(self.slot(sequence) + self.pixels_offset, np.ascontiguousarray(pixels, self.dtype))
        relevance = np.ascontiguousarray(tokens["relevance"] if relevance is None else relevance, "<f4")
        self._store(self.slot(sequence) + self.relevance_offset, relevance)
        self.finish(sequence)
        return sequence

    def begin(self, sequence: int) -> None:
        """Locks the slot of frame ``sequence``, as a writer does before it fills it."""
        self.lock(sequence, 2 * sequence - 1)
        slot = self.slot(sequence)
        self.bytes[slot + 8 : slot + abi.SLOT_HEADER.itemsize] = 0

    def finish(self, sequence: int) -> None:
        """Unlocks the slot, and says that the frame is the newest."""
        self.lock(sequence, 2 * sequence)
        self.newest = sequence
        self.live["newest"] = sequence

    def set_state(self, code: int, reason: str) -> None:
        sequence = int(self.live["state_sequence"]) + 1
        state = self.live["states"][sequence % 2 : sequence % 2 + 1]
        state["code"], state["reason"] = code, reason.encode()
        self.live["state_sequence"] = sequence

    def descriptor(self) -> int:
        """A new descriptor for reading, as a daemon hands out."""
        return os.open(f"/proc/self/fd/{self.file}", os.O_RDONLY | os.O_CLOEXEC)

    def reader(self) -> Ring:
        return Ring(opened(self.descriptor()))

    def read(self) -> foveate.Frame:
        """The newest frame, as a reader of its own gets it."""
        frame = self.reader().read_newest()
        assert frame is not None
        return frame

    def _store(self, offset: int, source: Any) -> None:
        raw = source.reshape(-1).view("u1")
        self.bytes[offset : offset + len(raw)] = raw

    def __del__(self) -> None:
        os.close(self.file)


def _rounded(size: int, step: int) -> int:
    return -(-size // step) * step


def token_records(count: int, **fields: Any) -> Any:
    """Records of ``count`` tokens of single pixels side by side; ``fields`` replace what they say."""
    tokens = np.zeros(count, abi.TOKEN)
    side = fields.get("size", 2)
    tokens["x"] = np.arange(count) * side
    tokens["size"] = tokens["columns"] = tokens["rows"] = side
    tokens["changed_frame"] = tokens["relevance"] = tokens["sx"] = tokens["sy"] = 1
    for field, value in fields.items():
        tokens[field] = value
    if "box" not in fields:
        for axis, (place, step, first, count_of) in enumerate(
            [("x", "sx", "first_column", "columns"), ("y", "sy", "first_row", "rows")]
        ):
            start = tokens[place] + tokens[first] * tokens[step].astype(np.int64)
            tokens["box"][:, axis] = start
            tokens["box"][:, axis + 2] = start + tokens[count_of] * tokens[step].astype(np.int64)
    return tokens


def sealed_copy(content: bytes, seals: int = SEALS, size: int | None = None) -> int:
    """A descriptor of shared memory with this content, ``size`` bytes long, of which only the content is reserved."""
    file = os.memfd_create("foveate-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(file, content)
    if size is not None:
        os.ftruncate(file, size)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
    return file


class FakeDaemon:
    """A daemon that answers in a thread of its own, and otherwise does what the test says."""

    def __init__(self, rings: dict[str, FakeRing] | None = None) -> None:
        #: The rings of its views. A view with None has not started.
        self.rings: dict[str, FakeRing | None] = dict(rings or {})
        #: Each request that came: the JSON object and the raw bytes.
        self.requests: list[tuple[dict[str, Any], bytes]] = []
        #: What it answers to an operation, in place of the usual.
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {}
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "foveate.sock")
        self._lock = threading.Lock()
        self._subscribers: dict[socket.socket, str] = {}
        self._connections: list[socket.socket] = []
        self.start()

    def __enter__(self) -> FakeDaemon:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self.folder.cleanup()

    def start(self) -> None:
        """Listens."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(self.path)
        listener.listen()
        self.adopt(listener)

    def adopt(self, listener: socket.socket) -> None:
        """Accepts from ``listener``, as a daemon does that gets it from systemd."""
        self._listener = listener
        self._acceptor = threading.Thread(target=self._accept, args=(self._listener,))
        self._acceptor.start()

    def stop(self) -> None:
        """Hangs up on everybody, as a daemon does that is killed."""
        if not os.path.exists(self.path):
            return
        os.unlink(self.path)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    # The client may have hung up first.
                    connection.shutdown(socket.SHUT_RDWR)
            self._connections.clear()
            self._subscribers.clear()

    def publish(self, view: str, *arguments: Any, **head: Any) -> int:
        """Publishes a frame in the ring of ``view`` and sends notices."""
        ring = self.rings[view]
        assert ring is not None
        sequence = ring.publish(*arguments, **head)
        self.tell(view, sequence.to_bytes(8, "little") + bytes(8))
        return sequence

    def move(self, view: str, ring: FakeRing) -> None:
        """Lets ``view`` go on in another segment."""
        self.rings[view] = ring
        with self._lock:
            for connection, name in self._subscribers.items():
                if name == view:
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        self._send_segment(connection, view)

    def end(self, view: str, reason: str) -> None:
        self.tell(view, json.dumps({"event": "ended", "view": view, "reason": reason}).encode())

    def tell(self, view: str, datagram: bytes) -> None:
        with self._lock:
            for connection, name in self._subscribers.items():
                if name == view:
                    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                        connection.send(datagram)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answers one client until it or the daemon hangs up."""
        try:
            while datagram := connection.recv(1 << 18):
                head, _, payload = datagram.partition(b"\n")
                with self._lock:
                    self._answer(connection, json.loads(head), payload)
        except (BrokenPipeError, ConnectionResetError):
            # The client did not wait for its answer.
            pass
        with self._lock:
            self._subscribers.pop(connection, None)
            if connection in self._connections:
                self._connections.remove(connection)
            connection.close()

    def _answer(self, connection: socket.socket, request: dict[str, Any], payload: bytes) -> None:
        self.requests.append((request, payload))
        op = request["op"]
        answer: dict[str, Any] | None = {"ok": True, "view": request.get("view"), "points": [[1.5, 2.5]]}
        if op == "subscribe" and request["view"] not in self.rings:
            answer = {"ok": False, "reason": "unknown-view", "error": "there is no such view"}
        if op in self.answers:
            answer = self.answers[op](request)
        if answer is None:
            return
        connection.send(json.dumps(answer).encode())
        if op == "subscribe" and answer["ok"]:
            self._subscribers[connection] = request["view"]
            if self.rings.get(request["view"]) is not None:
                self._send_segment(connection, request["view"])

    def _send_segment(self, connection: socket.socket, view: str) -> None:
        ring = self.rings[view]
        assert ring is not None
        event = {"event": "segment", "view": view, "epoch": f"{int(ring.header['epoch']):016x}"}
        descriptor = ring.descriptor()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
        try:
            connection.sendmsg([json.dumps(event).encode()], rights)
        finally:
            os.close(descriptor)


def descriptors() -> set[str]:
    """What this process has open, by number and kind."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except FileNotFoundError:
            pass  # The descriptor that listed the others.
    return found


def mappings() -> int:
    """Mappings of segments that the tests made, for reading."""
    return sum("foveate-test" in line and " r--s " in line for line in Path("/proc/self/maps").read_text().splitlines())


def torch_or_skip():  # type: ignore[no-untyped-def]
    try:
        import torch
    except ImportError:
        if os.environ.get("FOVEATE_REQUIRE_TORCH") == "1":
            raise
        raise unittest.SkipTest("PyTorch is not installed") from None
    return torch


def programs() -> Path:
    """The folder of `foveated` and `foveate`, or a skip of the test that asks."""
    folder = os.environ.get("FOVEATE_BIN")
    if folder and (Path(folder) / "foveated").exists():
        return Path(folder)
    if folder or os.environ.get("FOVEATE_REQUIRE_BIN") == "1":
        raise AssertionError(f"no foveated in {folder!r}: FOVEATE_BIN must name the folder of foveated and foveate")
    print("SKIPPED: FOVEATE_BIN does not name the folder of foveated and foveate", file=sys.stderr)
    raise unittest.SkipTest("FOVEATE_BIN is not set")


class RealDaemon:
    """`foveated` with a configuration, its text or a file, and a folder of its own, killed at the end."""

    def __init__(self, configuration: str | Path) -> None:
        self._program = programs() / "foveated"
        self.folder = Path(tempfile.mkdtemp())
        self.path = str(self.folder / "foveate.sock")
        if isinstance(configuration, Path):
            self._configuration = configuration
        else:
            self._configuration = self.folder / "foveate.toml"
            self._configuration.write_text(configuration)
        self.start()

    def __enter__(self) -> RealDaemon:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def start(self) -> None:
        """Starts it, and returns when it serves its socket."""
        command = [str(self._program), "--socket", self.path, "--config", str(self._configuration)]
        environment = {name: value for name, value in os.environ.items() if name not in ("RUST_LOG", "FOVEATE_SOCKET")}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if " serving " in line:
                break
        else:
            raise AssertionError(f"foveated ended: {''.join(lines)}")
        # Somebody must read what it says from now on, or it blocks.
        self._reader = threading.Thread(target=self._read_on, args=(self.process.stderr,))
        self._reader.start()

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait(HANG)
        self._reader.join(HANG)

    def _read_on(self, stderr: Any) -> None:
        with stderr:
            for _ in stderr:
                pass


def within(seconds: float = HANG) -> Iterator[None]:
    """Turns of a loop that must come to an end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
    raise AssertionError(f"nothing came of it within {seconds:g} s")
