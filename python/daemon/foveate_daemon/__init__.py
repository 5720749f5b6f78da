"""Starts ``foveated`` and ``foveate``, which this package brings as programs, and says what to install if GStreamer is missing."""

import ctypes
import os
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

# By the name of their command, the packages of GStreamer 1.20 or later: what the programs need to start, and what cameras and clips
# need.
_PACKAGES = {
    "apt-get": (
        "apt-get install gstreamer1.0-plugins-base",
        "gstreamer1.0-plugins-good gstreamer1.0-plugins-bad gstreamer1.0-libav",
    ),
    "dnf": ("dnf install gstreamer1-plugins-base", "gstreamer1-plugins-good gstreamer1-plugins-bad-free gstreamer1-plugin-libav"),
    "pacman": ("pacman -S gst-plugins-base", "gst-plugins-good gst-plugins-bad gst-libav"),
    "zypper": ("zypper install gstreamer-plugins-base", "gstreamer-plugins-good gstreamer-plugins-bad gstreamer-plugins-libav"),
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
        sys.exit(f"{name}: cannot load {', '.join(missing)}: GStreamer 1.20 or later is needed, of the system's packages{_remedy()}")
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
        if any(Path(folder, command).exists() for folder in ("/usr/bin", "/bin")):
            return f"; as root:\n  {needed}    # for cameras and clips also: {more}"
    return ", with its base plugins"
