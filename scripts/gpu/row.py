"""Puts the row of a device into the table of GPUs of docs/reports/benchmarks.md: row.py RESULTS FILE, with the results.json
of run.sh.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "bench"))

import measuring  # noqa: E402 (the path comes first)

HEAD = [
    "| device | date, driver, processor | tests passed | 1080p, 10 % changed: CPU | GPU | its passes | link, GB/s | "
    "upload of 4K, GB/s | pictures/s in batches of 32, 1024x1024: CPU | GPU | GPU quicker from |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
]
LABEL, UPLOAD, BATCH = "1920x1080, 0.1 changed", "3840x2160, 1 changed", "batch of 32, 1024x1024"


class Results:
    """The results.json of run.sh."""

    def __init__(self, text: str) -> None:
        self.found = json.loads(text)

    def median(self, label: str, backend: str, figure: Any, digits: int = 0) -> str:
        """The median of a figure over the rounds of a measurement; `-` without any."""
        reports = [line["report"] for line in self.found["bench"] if line["label"] == label]
        figures = [figure(report) for report in reports if report["backend"] == backend]
        return f"{statistics.median(figures):.{digits}f}" if figures else "-"

    def time(self, backend: str, stage: str) -> str:
        """The time of a stage at 1080p."""
        return f"{self.median(LABEL, backend, lambda report: report['stages'][stage]['p50_us'])} us"

    def crossover(self) -> str:
        """From which share of changed tiles on the GPU is quicker, by size."""
        texts = []
        for one in self.found["crossover"]:
            share = one["gpu_is_quicker_from"]
            texts.append(f"{one['size']}: {'never' if share is None else format(share, '.0%')}")
        return ", ".join(texts) or "-"

    def tests(self) -> str:
        """How many passed, and why not all."""
        programs = self.found["tests"]
        passed, count = (sum(program[key] for program in programs) for key in ("passed", "count"))
        failed = sum(len(program["failed"]) for program in programs)
        is_cut = any(program["exit"] in (124, 137) for program in programs)
        return f"{passed} of {count}" + (f", {failed} failed" if failed else "") + (", cut short" if is_cut else "")

    def row(self) -> str:
        """The device's row."""
        facts, link = self.found["facts"], self.found["facts"]["link"]
        cells = [
            link["device"] + (" (software)" if facts["is_software"] else ""),
            f"{facts['date']}, {link['driver']}, {facts['processor']}",
            self.tests(),
            self.time("cpu", "total"),
            self.time("vulkan", "total"),
            self.time("vulkan", "gpu"),
            f"{link['to_device_gb_s']:.1f}",
            # Where everything changes; a time of 0 is one that the clock does not resolve.
            self.median(
                UPLOAD,
                "vulkan",
                lambda r: r["bytes"]["uploaded_mean"] / max(r["stages"]["upload"]["p50_us"], 1e-3) / 1e3,
                1,
            ),
            self.median(BATCH, "cpu", lambda report: report["pictures_per_second"]),
            self.median(BATCH, "vulkan", lambda report: report["pictures_per_second"]),
            self.crossover(),
        ]
        return f"| {' | '.join(cells)} |"


def main() -> None:
    """Replaces the row of this device, or adds it."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    results, document = map(Path, sys.argv[1:])
    try:
        new = Results(results.read_text()).row()
        table = document.read_text().partition("<!-- gpu begins -->")[2].partition("<!-- gpu ends -->")[0]
        device = new.split(" | ")[0]
        kept = [line for line in table.strip().splitlines()[len(HEAD) :] if line.split(" | ")[0] != device]
        measuring.write_fragment(document, "gpu", "\n".join([*HEAD, *sorted([*kept, new])]))
    except (KeyError, ValueError) as error:
        sys.exit(f"row.py: {results} is not the results.json of run.sh: {error!r}")
    except measuring.FoveateError as error:
        sys.exit(f"row.py: {error}")
    print(new)


if __name__ == "__main__":
    main()
