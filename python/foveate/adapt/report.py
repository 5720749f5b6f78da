"""Tables, plots and model cards of runs."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .training import MEASURES

_COLORS = ("#1f6fb4", "#d9662b", "#3a9a54")
_SETS = {"validation": "validation", "held_out": "held out"}


def table(history: Sequence[dict[str, Any]]) -> str:
    """The first and the last measurement, as Markdown."""
    lines = ["| cosine with all patches | before | after |", "| --- | ---: | ---: |"]
    first, last = history[0], history[-1]
    for name, title in _SETS.items():
        for measure in MEASURES:
            if measure in last.get(name, {}):
                lines.append(f"| {title}: {measure} | {first[name][measure]:.3f} | {last[name][measure]:.3f} |")
    return "\n".join(lines)


def line(found: dict[str, Any], steps: int) -> str:
    """A measurement in a line."""
    parts = [f"step {found['step']} of {steps}"]
    if found["loss"] is not None:
        parts.append(f"loss {found['loss']:.4f}")
    for name, title in _SETS.items():
        if name in found:
            parts.append(", ".join(f"{measure} {value:.3f}" for measure, value in found[name].items()) + f" ({title})")
    return "; ".join(parts)


def plot(history: Sequence[dict[str, Any]], path: Path) -> None:
    """Draws cosines against steps, as an SVG: solid lines for validation, dashed ones for held-out pictures."""
    width, height, left, top = 640, 320, 50, 20
    across, down = width - left - 150, height - top - 40
    most = max(1, history[-1]["step"])
    values = [value for found in history for name in _SETS for value in found.get(name, {}).values()]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    high = max(high, low + 0.01)
    parts = []
    for tick in range(5):
        value = low + (high - low) * tick / 4
        y = top + down * (1 - tick / 4)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + across}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.2f}</text>')
    for name, dash in (("validation", ""), ("held_out", ' stroke-dasharray="5 3"')):
        for measure, color in zip(MEASURES, _COLORS, strict=True):
            points = [
                (left + across * found["step"] / most, top + down * (1 - (found[name][measure] - low) / (high - low)))
                for found in history if measure in found.get(name, {})
            ]
            if points:
                where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                parts.append(f'<polyline points="{where}" fill="none" stroke="{color}" stroke-width="2"{dash}/>')
                (x, y), label = points[-1], html.escape(f"{_SETS[name]}: {measure}")
                parts.append(f'<text x="{x + 6:.1f}" y="{y + 4:.1f}" fill="{color}">{label}</text>')
    parts.append(f'<text x="{left + across / 2}" y="{height - 8}" text-anchor="middle">steps, up to {most}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">'
    paper = f'<rect width="{width}" height="{height}" fill="white"/>'
    path.write_text(f"{head}{paper}{''.join(parts)}</svg>\n", encoding="utf-8")


def card(about: dict[str, Any], history: Sequence[dict[str, Any]]) -> str:
    """A model card, as Markdown."""
    rows = "\n".join(f"| {key} | {value} |" for key, value in about.items() if key != "history")
    return f"""# {about["model"]} for tokens of unlike size

Adapted by `python -m foveate.adapt`: without labels, the model on tokens of unlike size learned to give what it gave on all
patches. Load it with `foveate.adapt.load`, and run it with `foveate.models.vit.features(model, frame, area_bias)`.

{table(history)}

*Validation* pictures are from the folder that was learned from, *held-out* ones from another; similar pictures, and
frames of one clip, are in one set. *Less the mean*: less the mean feature of the picture.

![Cosines against steps](curve.svg)

| Setting | |
| --- | --- |
{rows}

Its features of all patches differ from those of the model that it was made from. Licence and limits of that model apply.
"""
