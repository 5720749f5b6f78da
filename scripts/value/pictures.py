"""The same frames under each way to see: docs/images/value-*.png."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from common import ROOT, font_file
from people import people_scene
from PIL import Image, ImageDraw, ImageFont
from product import seen
from small_print import MEASURED_ON, drawn_sheet, sheet_scene

#: Height of a title, and width of the gap between panels.
TITLE, GAP = 22, 6
NAMES = {
    "full": "the full picture",
    "shrunk": "shrunk to 273 patches",
    "before": "273 tokens, the default before",
    "default": "273 tokens, default settings",
    "before, kept": "the default before, the finest so far",
    "canvas": "a canvas",
}


def page(name: str, panels: dict[str, Any], columns: int, scale: int) -> None:
    """Draws pictures of one size beside each other, as docs/images/value-NAME.png."""
    font = ImageFont.truetype(font_file("DejaVuSans"), 14)
    height, width = (scale * side for side in next(iter(panels.values())).shape[:2])
    rows = -(-len(panels) // columns)
    sheet = Image.new("RGB", (columns * (width + GAP) - GAP, rows * (height + TITLE)), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (title, picture) in enumerate(panels.items()):
        x, y = number % columns * (width + GAP), number // columns * (height + TITLE)
        draw.text((x + 2, y + 3), title, "black", font)
        panel = Image.fromarray(np.ascontiguousarray(picture)).resize((width, height), Image.Resampling.NEAREST)
        sheet.paste(panel, (x, y + TITLE))
    sheet.quantize(224).save(ROOT / "docs" / "images" / f"value-{name}.png", optimize=True)


def cut(shown: dict[str, list[Any]], number: int, ways: Sequence[str], box: tuple[int, int, int, int]) -> dict[str, Any]:
    """A part of what each of `ways` shows, by title."""
    x0, y0, x1, y1 = box
    return {NAMES[way]: shown[way][number][y0:y1, x0:x1] for way in ways if way in shown}


def main() -> None:
    source = people_scene("apart")
    at = source.measured[:1]
    page("people", cut(seen(source, at), 0, ("full", "shrunk", "before", "default"), (0, 60, 480, 400)), 2, 1)
    name = next(iter(MEASURED_ON))
    x0, y0 = (max(0, int(side) - 16) for side in drawn_sheet(name)[1][0][:2])
    shown = seen(sheet_scene(name), [0, 9], is_still=True)
    box = (x0, y0, x0 + 480, y0 + 85)
    panels = cut(shown, 0, ("shrunk", "before", "default"), box)
    after = cut(shown, 1, ("before, kept", "canvas"), box)
    panels |= {f"{title}, after ten frames": picture for title, picture in after.items()}
    page("sheet", panels, 1, 2)


if __name__ == "__main__":
    main()
