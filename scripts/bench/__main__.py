"""Installs what is missing, builds Foveate, measures it, and prints Markdown. With --yes it installs without asking."""

import argparse
import importlib
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foveate"
CLIP = CACHE / "vtest.avi"
IMAGES = ROOT / "docs" / "images"
BENCHMARKS = ROOT / "docs" / "data" / "benchmarks.txt"
PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release"


def matching(pattern, expected):
    """The type of an option whose text matches a pattern."""

    def checked(text):
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"{text!r} (expected {expected})")
        return text

    return checked


def existing(text):
    """The type of an option that names a file."""
    if not os.access(text, os.R_OK) or os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text!r}: no such file, or not readable")
    return os.path.abspath(text)


def whole(text):
    """The type of a whole number from 1."""
    return int(matching("[1-9][0-9]{0,9}", "a whole number from 1")(text))


def parser():
    """The command line."""
    whole_line = argparse.ArgumentParser(prog="scripts/bench.sh", description=__doc__)
    measurements = whole_line.add_subparsers(dest="name", required=True, metavar="NAME")

    def measurement(name, text):
        own = measurements.add_parser(name, help=text, description=text)
        own.add_argument(
            "--programs", metavar="DIR", type=Path, default=PROGRAMS, help="folder of foveated and foveate; without it they are built"
        )
        return own

    def refreshes(own, path):
        text = f"put the tables into {path.relative_to(ROOT)} as well"
        own.add_argument("--refresh-docs", action="store_const", const=path, help=text)

    own = measurement("attention", "hierarchical attention beside torch's full attention: error and time; ten minutes, 5 GB in ~/.cache")
    own.add_argument("--quick", action="store_true", help="two sizes and fewer rounds, two minutes")
    refreshes(own, ROOT / "docs" / "data" / "attention.txt")
    own.set_defaults(pictures=CACHE / "attention" / "pictures", picture=IMAGES / "attention.svg")

    own = measurement("feedback", "frames and time from a message to a running daemon to the tokens that follow it")
    own.add_argument("--socket", required=True, help="the daemon's socket")
    own.add_argument("--view", required=True, metavar="STREAM/VIEW", help="a view whose policy is feedback")
    own.add_argument("--seconds", type=float, default=30.0, help="how long (30)")
    own.add_argument("--hz", type=float, default=2.0, help="messages a second (2)")

    own = measurement("ipc", "time of a frame to a reader in another process, in turns with iceoryx2; three minutes")
    own.add_argument("--quick", action="store_true", help="fewer rounds, half a minute")
    own.set_defaults(peer=PROGRAMS.parent / "iceoryx2" / "release" / "foveate-bench-iceoryx2")
    refreshes(own, BENCHMARKS)

    own = measurement("layouts", "draws the layouts side by side")
    own.add_argument("--clip", type=existing, default=CLIP, help="where the picture is from (vtest.avi)")
    own.add_argument("--out", type=Path, default=IMAGES / "layouts.png", help="the drawing (docs/images/layouts.png)")

    own = measurement("load", "cameras that two processors carry, and where the time of a frame goes; three quarters of an hour")
    own.add_argument("--clip", type=existing, default=CACHE / "box.mp4", help="what the cameras see (box.mp4)")
    own.add_argument("--stages", action="store_true", help="only where the time of a frame goes, three minutes")
    own.add_argument("--quick", action="store_true", help="shorter runs, ten minutes")
    refreshes(own, BENCHMARKS)

    own = measurement("peers", "OpenCV and PyTorch on the same frames, in turns; a quarter of an hour")
    own.add_argument("--quick", action="store_true", help="fewer sizes and rounds, five minutes")
    own.add_argument("--clip", type=existing, action="append", default=[], help="another clip to measure on; may be repeated")
    own.add_argument("--device", help="part of the name of the Vulkan device; a GPU if there is one, otherwise llvmpipe")
    own.set_defaults(clips=[CLIP, CACHE / "box.mp4"])
    output = own.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the figures of every round as JSON instead")
    refreshes(output, BENCHMARKS)

    own = measurement("pursuit", "how near the gaze stays to what a consumer attends to four times a second")
    own.add_argument("--clip", type=existing, default=CLIP, help="what there is to attend to (vtest.avi)")

    own = measurement("scaling", "draws the time of a frame over its size, changes, tokens and views; a quarter of a minute")
    own.add_argument("--quick", action="store_true", help="fewer points and frames")
    own.add_argument("--backend", choices=("cpu", "vulkan"), default="cpu", help="what is measured (cpu)")
    own.add_argument("--device", help="part of the name of the Vulkan device")
    own.add_argument("--out", metavar="DIR", type=Path, default=IMAGES, help="where scaling.json and scaling.png go (docs/images)")

    own = measurement("soak", "lost sources, killed readers and reloads, at random; exit code 1 if something does not come back")
    own.add_argument("--minutes", type=whole, required=True, help="how long; it takes two minutes more")
    own.add_argument("--seed", type=int, help="what happens, to do the same again; by default one is made and printed")
    picture = matching(r".*\.(png|svg)", "a name that ends in .png or .svg")
    own.add_argument("--plot", metavar="FILE", type=picture, help="draws what was seen")
    return whole_line


def main():
    """Runs a measurement; after --check it only reads the command line."""
    words = sys.argv[1:]
    is_checked = words[:1] == ["--check"]
    arguments = parser().parse_args(words[is_checked:])
    if is_checked:
        return
    # Only here, because a bare machine lacks what measurements need.
    measuring = importlib.import_module("measuring")
    arguments.foveate = arguments.programs / "foveate"
    try:
        # Tables with the names that they have in documents.
        for name, text in importlib.import_module(arguments.name).run(arguments):
            print(text, end="\n\n", flush=True)
            if getattr(arguments, "refresh_docs", None):
                measuring.write_fragment(arguments.refresh_docs, name, text)
    except measuring.FoveateError as error:
        sys.exit(f"scripts/bench.sh {arguments.name}: {error}")


if __name__ == "__main__":
    main()
