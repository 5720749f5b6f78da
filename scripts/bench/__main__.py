"""Installs what is missing, builds Foveate, measures it, and prints Markdown. With --yes it installs without asking."""

import argparse
import importlib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foveate"
PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release"


def parser():
    """The command line."""
    whole = argparse.ArgumentParser(prog="scripts/bench.sh", description=__doc__)
    measurements = whole.add_subparsers(dest="name", required=True, metavar="NAME")

    def measurement(name, text, quick=None, is_in_docs=False):
        own = measurements.add_parser(name, help=text, description=text)
        own.add_argument(
            "--programs",
            metavar="DIR",
            type=Path,
            default=PROGRAMS,
            help="folder of foveated and foveate; without it they are built",
        )
        if quick:
            own.add_argument("--quick", action="store_true", help=quick)
        if is_in_docs:
            own.add_argument(
                "--refresh-docs", action="store_true", help="put the tables into docs/data/benchmarks.txt as well"
            )
        own.set_defaults(cache=CACHE)
        return own

    measurement("depth", "draws the depth of tokens and of texels, docs/images/depth.png")

    own = measurement("feedback", "frames and time from a message to a running daemon to the tokens that follow it")
    own.add_argument("--socket", required=True, help="the daemon's socket")
    own.add_argument("--view", required=True, metavar="STREAM/VIEW", help="a view whose policy is feedback")
    own.add_argument("--seconds", type=float, default=30.0, help="how long (30)")
    own.add_argument("--hz", type=float, default=2.0, help="messages a second (2)")

    ipc = "time of a frame to a reader in another process, in turns with iceoryx2; three minutes"
    own = measurement("ipc", ipc, "fewer rounds, half a minute", is_in_docs=True)
    own.set_defaults(peer=PROGRAMS.parent / "iceoryx2" / "release" / "foveate-bench-iceoryx2")

    isolation = "what a process for each source costs, in turns with none; fifteen minutes"
    measurement("isolation", isolation, "one short round, two minutes")

    measurement("layouts", "draws the layouts side by side, docs/images/layouts.png")

    load = "cameras that two processors carry, and where the time of a frame goes; three quarters of an hour"
    own = measurement("load", load, "shorter runs, ten minutes", is_in_docs=True)
    own.add_argument("--stages", action="store_true", help="only where the time of a frame goes, three minutes")

    peers = "OpenCV and PyTorch on the same frames, in turns; a quarter of an hour"
    measurement("peers", peers, "fewer sizes and rounds, five minutes", is_in_docs=True)

    own = measurement("pursuit", "how near the gaze stays to what a consumer attends to four times a second")
    own.add_argument("--clip", type=Path, default=CACHE / "vtest.avi", help="what there is to attend to (vtest.avi)")

    measurement("relevance", "draws how relevance comes about, docs/images/relevance.png")

    scaling = (
        "draws the time of a frame over its size, changes, tokens and views, docs/images/scaling.png; a quarter of a "
        "minute"
    )
    measurement("scaling", scaling, "fewer points and frames")

    own = measurement(
        "soak", "lost sources, killed readers and reloads, at random; exit code 1 if something does not come back"
    )
    own.add_argument("--minutes", type=int, required=True, help="how long; it takes two minutes more")
    own.add_argument("--seed", type=int, help="what happens, to do the same again; by default one is made and printed")
    return whole


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
            if getattr(arguments, "refresh_docs", False):
                measuring.write_fragment(ROOT / "docs" / "data" / "benchmarks.txt", name, text)
    except measuring.FoveateError as error:
        sys.exit(f"scripts/bench.sh {arguments.name}: {error}")


if __name__ == "__main__":
    main()
