"""The configurations in ``configs/zenoh`` let robots publish, desks read and steer, and guests only read."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import zenoh
from processes import ROOT, Process, bridge, free_endpoint, session
from support import HANG, FakeDaemon, FakeRing, within

import foveate
from foveate import remote


def certificates(folder: Path, names: list[str]) -> None:
    """An authority, and a certificate of each name, for 127.0.0.1."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "rsa:2048", "-nodes"]
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    (folder / "extensions").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    for name in names:
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        sign = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "extensions"]
        openssl("x509", "-req", "-in", f"{name}.csr", *sign, "-out", f"{name}.pem")


def shipped(name: str, folder: Path, endpoint: str) -> str:
    """A shipped configuration, with its certificates in ``folder``."""
    text = (ROOT / "configs" / "zenoh" / f"{name}.json5").read_text()
    text = text.replace("tls/127.0.0.1:7447", endpoint)
    return re.sub(r'"([\w-]+\.(?:pem|key))"', lambda match: f'"{folder / match[1]}"', text)


class Access(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        certificates(self.folder, ["router", "robot-7", "desk", "guest"])
        self.endpoint = free_endpoint("tls")
        program = str(Path(__file__).parent / "processes.py")
        config = shipped("router", self.folder, self.endpoint)
        self.enterContext(Process([sys.executable, program, config], "routing"))
        self.daemon = self.enterContext(FakeDaemon({"front/policy": FakeRing()}))
        self.daemon.answers["look"] = lambda request: {"ok": True, "points": request["points"]}

    def session(self, name: str) -> Any:
        tls = {
            "transport/link/tls/enable_mtls": True,
            "transport/link/tls/root_ca_certificate": str(self.folder / "ca.pem"),
            "transport/link/tls/connect_certificate": str(self.folder / f"{name}.pem"),
            "transport/link/tls/connect_private_key": str(self.folder / f"{name}.key"),
        }
        return self.enterContext(session(self.endpoint, **tls))

    def robot(self, host: str) -> None:
        config = self.folder / "bridge.json5"
        config.write_text(shipped("bridge", self.folder, self.endpoint))
        self.enterContext(bridge(self.daemon.path, ["front/policy"], "--zenoh-config", str(config), host=host))

    def test_desks_read_and_steer_and_guests_only_read(self) -> None:
        self.robot("robot-7")
        desk, guest = self.session("desk"), self.session("guest")
        for who in (desk, guest):
            view = self.enterContext(remote.open("robot-7", "front/policy", who))
            for _ in within():
                self.daemon.publish("front/policy")
                try:
                    view.read(0.2)
                    break
                except foveate.TimedOut:
                    pass
            self.assertEqual(remote.list_views(who), [remote.RemoteName("robot-7", "front/policy")])
            if who is desk:
                self.assertEqual(view.look(3, 4)[:2], (3, 4))
            else:
                with self.assertRaises(foveate.TimedOut):
                    view.look(5, 6)
        self.assertEqual([request["points"][0][0] for request, _ in self.daemon.requests if request["op"] == "look"], [3])

    def test_nobody_publishes_in_the_name_of_a_robot(self) -> None:
        self.robot("robot-7")
        desk, guest = self.session("desk"), self.session("guest")
        view = self.enterContext(remote.open("robot-7", "front/policy", desk))
        for _ in within():
            guest.put("foveate/robot-7/front/policy", b"FVZ1 of somebody else, which would be an error")
            self.daemon.publish("front/policy")
            try:
                view.read(0.2)
                break
            except foveate.TimedOut:
                pass
        for _ in range(5):
            guest.put("foveate/robot-7/front/policy", b"FVZ1 of somebody else, which would be an error")
            self.daemon.publish("front/policy")
            view.read(HANG)

    def test_whoever_has_no_certificate_gets_no_connection(self) -> None:
        with self.assertRaises(zenoh.ZError):
            session(
                self.endpoint,
                **{"transport/link/tls/root_ca_certificate": str(self.folder / "ca.pem"), "connect/timeout_ms": 3000},
            )


if __name__ == "__main__":
    unittest.main()
