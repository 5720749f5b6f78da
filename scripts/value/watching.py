"""What python/examples/video_vlm.py computes and looks at in three frames of a fixed camera: docs/images/video-vlm.png."""

from __future__ import annotations

import sys
from typing import Any

import torch
from common import ROOT, font_file
from daemon import Daemon
from PIL import Image, ImageDraw, ImageFont
from product import TOOL, configuration
from video import long_camera

sys.path.append(str(ROOT / "python" / "examples"))
import video_vlm  # noqa: E402

#: Frames that are drawn, side by side, and the height of the lines under them.
DRAWN, LINES = (8, 16, 24), 34
#: Width of a drawn frame.
WIDTH = 400
COMPUTED, LOOKS = (255, 140, 0), (0, 220, 255)


def drawn(frame: Any, computed: Any, looking: Any, text: str) -> Image.Image:
    """A frame as the model gets it: what it computed is outlined, and a cross is where the view looks next."""
    picture = Image.fromarray(frame.rebuild())
    scale = WIDTH / picture.width
    picture = picture.resize((WIDTH, round(picture.height * scale)), Image.Resampling.LANCZOS)
    sheet = Image.new("RGB", (WIDTH, picture.height + LINES), "white")
    sheet.paste(picture, (0, 0))
    pen = ImageDraw.Draw(sheet)
    for box in frame.tokens["box"][computed].tolist():
        x0, y0, x1, y1 = (side * scale for side in box)
        pen.rectangle((x0, y0, x1 - 1, y1 - 1), outline=COMPUTED)
    x, y = looking.x * scale, looking.y * scale
    for ends in ((x - 12, y, x + 12, y), (x, y - 12, x, y + 12)):
        pen.line(ends, LOOKS, 3)
    font = ImageFont.truetype(font_file("DejaVuSansMono"), 11)
    pen.multiline_text((4, picture.height + 3), text, "black", font)
    return sheet


def main() -> None:
    torch.set_num_threads(1)
    watcher = video_vlm.Watcher(None, "What is here?")
    computed: list[Any] = []
    run = watcher.encoder._run

    def noted(frame: Any, indices: Any, *more: Any) -> None:
        computed.append(indices)
        run(frame, indices, *more)

    watcher.encoder._run = noted
    panels = []
    keys = {"patch": 32, "budget": 273, "dtype": "f16", "normalisation": "siglip"}
    with Daemon(TOOL.parent, configuration(long_camera().live_pipeline(), {"view": keys})) as daemon, torch.no_grad():
        with daemon.open("scene/view") as view:
            for number in range(max(DRAWN) + 1):
                frame = view.read(timeout=60)
                computed.clear()
                _, scores = watcher.watch(frame)
                looking = view.attend_tokens(frame, scores)
                if number in DRAWN:
                    last = watcher.encoder.last
                    lines = f"{last.computed} of {last.tokens} tokens computed\nlooks at ({looking.x:.0f}, {looking.y:.0f})"
                    panels.append(drawn(frame, computed[-1] if computed else [], looking, lines))
    sheet = Image.new("RGB", ((WIDTH + 6) * len(panels) - 6, panels[0].height), "white")
    for number, panel in enumerate(panels):
        sheet.paste(panel, (number * (WIDTH + 6), 0))
    sheet.quantize(96).save(ROOT / "docs" / "images" / "video-vlm.png", optimize=True)


if __name__ == "__main__":
    main()
