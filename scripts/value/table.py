"""Tables as docs/reports/value.md has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Table:
    """Rows of Markdown; numbers with two digits after the point."""

    def __init__(self, head: Sequence[str]) -> None:
        self.rows = [head, ["---", *("---:" for _ in head[1:])]]

    def row(self, name: str, values: Sequence[Any]) -> None:
        """Adds a row."""
        cells = [value if isinstance(value, str) else f"{value:.2f}" for value in values]
        self.rows.append([name, *cells])

    def plot(self, path: Path, label: str) -> None:
        """Draws the rows against the numbers of the head."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        places = [float(number) for number in self.rows[0][1:]]
        for name, *values in self.rows[2:]:
            axes.plot(places, [float(value) for value in values], marker="o", label=name)
        axes.set(
            xscale="log", xticks=places, xticklabels=self.rows[0][1:], xlabel="tokens", ylabel=label, ylim=(0, 1.02)
        )
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="lower right")
        figure.savefig(path, metadata={"Date": None})

    def __str__(self) -> str:
        return "\n".join("| " + " | ".join(row) + " |" for row in self.rows)
