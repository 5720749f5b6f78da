"""Prints the table of ``docs/guide/fleet.md``: what views of a street cost a second over Zenoh, whole and with what stayed
left out.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from processes import bridge, free_endpoint, session
from support import RealDaemon

from foveate import remote

CLIPS = Path(os.environ.get("FOVEATE_CLIPS", Path.home() / ".cache" / "foveate"))
#: Two rounds of the clip begin at different frames; over 30 s that does not matter.
SECONDS = 30.0
VIEWS = {
    "foveal, 273 tokens, f16, saliency": 'layout = "foveal"\ngaze.policy = "saliency"',
    "foveal, 273 tokens, f16, fixed": 'layout = "foveal"\ngaze.policy = "fixed"',
    "foveal, 273 tokens, u8, fixed": 'layout = "foveal"\ndtype = "u8"\nnormalisation = "none"\ngaze.policy = "fixed"',
    "uniform, 48 tokens, u8": 'layout = "uniform"\nbudget = 48\ndtype = "u8"\nnormalisation = "none"',
}
STREET = f'source = "{CLIPS}/vtest.avi"\nloop = true'
BALL = (
    'pipeline = "videotestsrc is-live=true pattern=ball ! video/x-raw,format=NV12,width=768,height=576,framerate=10/1 '
    '! appsink name=frames"'
)
#: Their sources and thresholds.
STREAMS = {"exact": (STREET, "0"), "auto": (STREET, '"auto"'), "ball": (BALL, "0")}
TITLES = {"exact": "street, 0", "auto": "street, auto", "ball": "a ball on black, 0"}


def configuration() -> str:
    lines = []
    for stream, (source, threshold) in STREAMS.items():
        lines.append(f'[[stream]]\nname = "{stream}"\n{source}')
        lines.append(f"[stream.change]\nthreshold = {threshold}")
        for number, keys in enumerate(VIEWS.values()):
            lines.append(f'[[stream.view]]\nname = "v{number}"\n{keys}')
    return "\n".join(lines)


def main() -> None:
    names = [f"{stream}/v{number}" for stream in STREAMS for number in range(len(VIEWS))]
    hosts = {"whole": ["--whole-every", "1"], "changes": []}
    with RealDaemon(configuration()) as daemon:
        counts: dict[tuple[str, str], tuple[float, float]] = {}
        for host, options in hosts.items():
            endpoint = free_endpoint()
            with bridge(daemon.path, names, "--listen", endpoint, *options, host=host), session(endpoint) as opened:
                views = {name: remote.open(host, name, opened) for name in names}
                for view in views.values():
                    view.read(60)
                time.sleep(2)
                before = {name: view.status for name, view in views.items()}
                started = time.monotonic()
                time.sleep(SECONDS)
                after = {name: view.status for name, view in views.items()}
                elapsed = time.monotonic() - started
                for name, view in views.items():
                    rate = (after[name]["bytes"] - before[name]["bytes"]) / elapsed
                    frames = (after[name]["messages"] - before[name]["messages"]) / elapsed
                    counts[host, name] = rate, frames
                    view.close()
    print("| View | Picture, threshold | Frames a second | Whole, kB/s | With what stayed left out, kB/s | |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for number, title in enumerate(VIEWS):
        for stream, picture in TITLES.items():
            whole, frames = counts["whole", f"{stream}/v{number}"]
            changes, _ = counts["changes", f"{stream}/v{number}"]
            share = f"{100 * changes / whole:.0f} %"
            print(f"| {title} | {picture} | {frames:.1f} | {whole / 1000:.0f} | {changes / 1000:.0f} | {share} |")


if __name__ == "__main__":
    main()
