"""Puts the row of a device into the table of GPUs of docs/reports/benchmarks.md: row.py RESULTS FILE, with the results.json of run.sh."""

from __future__ import annotations

import json
import os
import statistics
import sys
from typing import Any

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))

import measuring  # noqa: E402: the path comes first

HEAD = [
    "| device | date, driver, processor | tests passed | 1080p, 10 % changed: CPU | GPU | its passes | link, GB/s | upload of 4K, GB/s "
    "| pictures/s in batches of 32, 1024x1024: CPU | GPU | GPU quicker from |",
    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
]
LABEL, UPLOAD, BATCH = "1920x1080, 0.1 changed", "3840x2160, 1 changed", "batch of 32, 1024x1024"


def reports(results: dict[str, Any], label: str, backend: str) -> list[dict[str, Any]]:
    """The rounds of a measurement."""
    found = (line["report"] for line in results["bench"] if line["label"] == label)
    return [report for report in found if report["backend"] == backend]


def median_us(results: dict[str, Any], label: str, backend: str, stage: str) -> str:
    times = [report["stages"][stage]["p50_us"] for report in reports(results, label, backend)]
    return f"{statistics.median(times):.0f} us" if times else "-"


def upload_rate(results: dict[str, Any]) -> str:
    """Where everything changes."""
    rates = [
        report["bytes"]["uploaded_mean"] / report["stages"]["upload"]["p50_us"] / 1e3
        for report in reports(results, UPLOAD, "vulkan")
        if report["stages"]["upload"]["p50_us"] > 0
    ]
    return f"{statistics.median(rates):.1f}" if rates else "-"


def pictures(results: dict[str, Any], backend: str) -> str:
    rates = [report["pictures_per_second"] for report in reports(results, BATCH, backend)]
    return f"{statistics.median(rates):.0f}" if rates else "-"


def crossover(results: dict[str, Any]) -> str:
    texts = [
        f"{one['size']}: {'never' if one['gpu_is_quicker_from'] is None else format(one['gpu_is_quicker_from'], '.0%')}"
        for one in results["crossover"]
    ]
    return ", ".join(texts) or "-"


def tests(results: dict[str, Any]) -> str:
    """How many passed, and why not all."""
    programs = results["tests"]
    passed, count = (sum(program[key] for program in programs) for key in ("passed", "count"))
    failed = sum(len(program["failed"]) for program in programs)
    is_cut = any(program["exit"] in (124, 137) for program in programs)
    return f"{passed} of {count}" + (f", {failed} failed" if failed else "") + (", cut short" if is_cut else "")


def row(results: dict[str, Any]) -> str:
    facts, link = results["facts"], results["facts"]["link"]
    software = " (software)" if facts["is_software"] else ""
    cells = [
        f"{link['device']}{software}",
        f"{facts['date']}, {link['driver']}, {facts['processor']}",
        tests(results),
        median_us(results, LABEL, "cpu", "total"),
        median_us(results, LABEL, "vulkan", "total"),
        median_us(results, LABEL, "vulkan", "gpu"),
        f"{link['to_device_gb_s']:.1f}",
        upload_rate(results),
        pictures(results, "cpu"),
        pictures(results, "vulkan"),
        crossover(results),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Replaces the row of this device, or adds it."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path, document = sys.argv[1:]
    try:
        with open(path, encoding="utf-8") as file:
            new = row(json.load(file))
        with open(document, encoding="utf-8") as file:
            text = file.read().partition("<!-- gpu begins -->")[2].partition("<!-- gpu ends -->")[0]
        device = new.split(" | ")[0]
        kept = [line for line in text.strip().splitlines()[len(HEAD) :] if line.split(" | ")[0] != device]
        measuring.write_fragment(document, "gpu", "\n".join([*HEAD, *sorted([*kept, new])]))
    except (KeyError, ValueError) as error:
        sys.exit(f"row.py: {path} is not the results.json of run.sh: {error!r}")
    except measuring.FoveateError as error:
        sys.exit(f"row.py: {error}")
    print(new)


if __name__ == "__main__":
    main()
