"""Takes a picture of the live page as soon as it shows frames: python3 screenshot.py BROWSER ADDRESS FILE

BROWSER is a Chromium, which takes commands from a pipe (--remote-debugging-pipe).
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TIMEOUT_S = 60
# A pane counts the frames that it has drawn.
HAS_FRAMES = "[...document.querySelectorAll('[data-painted]')].some((pane) => 3 <= Number(pane.dataset.painted))"


class Browser:
    """A browser without a window. Messages are JSON, and end with a zero byte."""

    def __init__(self, program: str, folder: str) -> None:
        (read_commands, commands), (answers, write_answers) = os.pipe(), os.pipe()
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={folder}"]
        # The browser reads from descriptor 3 and writes to 4.
        shell = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", program, *options, "--window-size=1280,900"],
            pass_fds=(read_commands, write_answers),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._commands = os.fdopen(commands, "wb", buffering=0)
        self._answers = os.fdopen(answers, "rb")
        self._count = 0

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        self._count += 1
        command = {"id": self._count, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        self._commands.write(json.dumps(command).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._count:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])

    def _message(self) -> bytes:
        message = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            if not byte:
                sys.exit("the browser has ended")
            message += byte
        return bytes(message)

    def end(self) -> None:
        self._process.terminate()
        self._process.wait()


def main(program: str, address: str, file: str) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            target = browser.call("Target.createTarget", url=address)["targetId"]
            session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            deadline = time.monotonic() + TIMEOUT_S
            while not browser.call("Runtime.evaluate", session, expression=HAS_FRAMES)["result"].get("value"):
                if deadline < time.monotonic():
                    sys.exit(f"{address} shows no frames within {TIMEOUT_S} s")
                time.sleep(0.05)
            picture = browser.call("Page.captureScreenshot", session)["data"]
            Path(file).write_bytes(base64.b64decode(picture))
        finally:
            browser.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
