"""Tables as docs/value.md has them."""

from __future__ import annotations

from typing import Any, Sequence


class Table:
    """Rows of Markdown; numbers with two digits after the point."""

    def __init__(self, head: Sequence[str]) -> None:
        self.rows = [head, ["---", *("---:" for _ in head[1:])]]

    def row(self, name: str, values: Sequence[Any]) -> None:
        """Adds a row, and prints it to follow the run."""
        cells = [value if isinstance(value, str) else f"{value:.2f}" for value in values]
        self.rows.append([name, *cells])

    def __str__(self) -> str:
        return "\n".join("| " + " | ".join(row) + " |" for row in self.rows)
