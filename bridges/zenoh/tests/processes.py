"""What the tests of the bridge share: the bridge, routers, and networks of their own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python" / "tests"))

import support
import zenoh

BRIDGE = Path(os.environ.get("FOVEATE_BRIDGES", ROOT / "bridges" / "target" / "debug")) / "foveate-zenoh"


class Process:
    """A program that has said that it is ready, killed at the end."""

    def __init__(self, command: list[str], ready: str, namespace: str | None = None) -> None:
        inside = [] if namespace is None else ["ip", "netns", "exec", namespace]
        self._process = subprocess.Popen([*inside, *command], stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        lines = []
        for line in self._process.stderr:
            lines.append(line)
            if ready in line:
                break
        else:
            raise AssertionError(f"{command[0]} ended: {''.join(lines)}")
        # Somebody must read what it says from now on, or it blocks.
        self._reader = threading.Thread(target=self._read_on)
        self._reader.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        """Ends it, and returns its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(how)
        code = self._process.wait(support.HANG)
        self._reader.join(support.HANG)
        return code

    def _read_on(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with stderr:
            for line in stderr:
                if os.environ.get("FOVEATE_SHOW_BRIDGE"):
                    sys.stderr.write(line)


def bridge(socket: str, views: list[str], *options: str, host: str = "robot", namespace: str | None = None) -> Process:
    """The bridge of the daemon at ``socket``."""
    command = [str(BRIDGE), *views, "--socket", socket, "--host", host, *options]
    return Process(command, "publishing as", namespace)


def router(
    listen: list[str],
    connect: list[str] | None = None,
    config: dict[str, Any] | None = None,
    namespace: str | None = None,
) -> Process:
    """A router in a process of its own."""
    command = [sys.executable, __file__, json.dumps(router_config(listen, connect or [], config or {}))]
    return Process(command, "routing", namespace)


def router_config(listen: list[str], connect: list[str], more: dict[str, Any]) -> dict[str, Any]:
    return {
        "mode": "router",
        "listen": {"endpoints": listen},
        "connect": {"endpoints": connect, "timeout_ms": -1, "exit_on_failure": False},
        "scouting": {"multicast": {"enabled": False}},
        **more,
    }


def free_endpoint(protocol: str = "tcp") -> str:
    """An address on this machine that nobody listens on."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"{protocol}/127.0.0.1:{probe.getsockname()[1]}"


def session(endpoint: str, **more: Any) -> Any:
    """A client of the router or the bridge at ``endpoint``, which need not be there yet."""
    config = zenoh.Config()
    for key, value in {
        "mode": "client",
        "scouting/multicast/enabled": False,
        "connect/endpoints": [endpoint],
        "connect/timeout_ms": 30000,
        **more,
    }.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


@contextlib.contextmanager
def two_networks() -> Iterator[tuple[str, str]]:
    """Two network namespaces, at 10.77.0.1 and 10.77.0.2, joined by one link. Needs root."""
    one, other = (f"foveate-{os.getpid()}-{name}" for name in "ab")
    try:
        for name in (one, other):
            ip("netns", "add", name)
        ip("link", "add", "fv-a", "netns", one, "type", "veth", "peer", "name", "fv-b", "netns", other)
        for name, link, address in ((one, "fv-a", "10.77.0.1/24"), (other, "fv-b", "10.77.0.2/24")):
            ip("-n", name, "address", "add", address, "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield one, other
    finally:
        for name in (one, other):
            subprocess.run(["ip", "netns", "delete", name], check=False)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


if __name__ == "__main__":
    zenoh.init_log_from_env_or("error")
    with zenoh.open(zenoh.Config.from_json5(sys.argv[1])):
        print("routing", file=sys.stderr, flush=True)
        signal.pause()
