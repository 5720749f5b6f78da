"""Starts the programs of this package, ``foveated`` and ``foveate``, or says what to install if GStreamer is missing."""

import ctypes
import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

# What the programs are linked with, besides the C library: `scripts/lib/wheel.py` compares.
LIBRARIES = (
    "libglib-2.0.so.0",
    "libgobject-2.0.so.0",
    "libgio-2.0.so.0",
    "libgstreamer-1.0.so.0",
    "libgstbase-1.0.so.0",
    "libgstapp-1.0.so.0",
    "libgstvideo-1.0.so.0",
)

# The packages of GStreamer for each package manager: what the programs need to start, and what cameras and clips need.
_PACKAGES = {
    "apt-get install": (
        "gstreamer1.0-plugins-base",
        "gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-libav",
    ),
    "dnf install": (
        "gstreamer1-plugins-base",
        "gstreamer1-plugins-good gstreamer1-plugins-bad-free gstreamer1-plugin-libav",
    ),
    "pacman -S": ("gst-plugins-base", "gst-plugins-good gst-plugins-bad gst-libav"),
    "zypper install": (
        "gstreamer-plugins-base",
        "gstreamer-plugins-good gstreamer-plugins-bad gstreamer-plugins-libav",
    ),
}


def foveated() -> NoReturn:
    """Becomes the daemon."""
    _become("foveated")


def foveate() -> NoReturn:
    """Becomes the tool."""
    _become("foveate")


def _become(name: str) -> NoReturn:
    program = Path(__file__).with_name("bin") / name
    missing = [library for library in LIBRARIES if not _can_load(library)]
    if missing:
        sys.exit(f"{name}: cannot load {', '.join(missing)} (expected GStreamer 1.20 or later of the system); {_remedy()}")
    try:
        os.execv(program, [str(program), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: cannot start {program}: {error.strerror}; install foveate-daemon again")


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _remedy() -> str:
    for command, (needed, more) in _PACKAGES.items():
        if shutil.which(command.split()[0]):
            return f"as root:\n  {command} {needed}    # for cameras and clips also {more}"
    return "install it with its base plugins"
