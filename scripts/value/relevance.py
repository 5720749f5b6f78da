"""Signs: the text of whole sheets, read over four seconds of saliency gaze; and which signs it looks at first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import (
    PANS,
    ROOT,
    SHEET_PANS,
    SHEETS,
    Extracted,
    Table,
    extract,
    pan_corner,
    pan_picture,
    pan_size,
    raster,
    read_lines,
    scene,
    seen_over_time,
    share_read,
)

#: Ways to look around; the raster scan has 16 fixations, a default number of decisions in four seconds.
VIEWS: dict[str, dict[str, Any]] = {
    "saliency": {"layout": "foveal", "gaze": {"policy": "saliency"}},
    "relevance": {"layout": "foveal", "gaze": {"policy": "relevance"}},
    "default settings": {},
    "relevance, and the layout `relevance`": {"layout": "relevance", "gaze": {"policy": "relevance"}},
}
#: So many frames are two seconds; a fixation so many pixels beside a sign is on it.
SOON, MARGIN = 20, 8


def signs(name: str) -> tuple[Any, tuple[int, int]]:
    """Boxes of the signs that a camera pans over, lines of text that are less than a line apart joined; and width and height."""
    picture = pan_picture(name)
    boxes = [list(box) for box, _ in read_lines(" ".join(name.split()[1:3]), picture, 2)]

    def are_near(a: list[float], b: list[float]) -> bool:
        gap = min(a[3] - a[1], b[3] - b[1])
        return all(a[axis] - gap < b[axis + 2] and b[axis] - gap < a[axis + 2] for axis in (0, 1))

    index = 0
    while index < len(boxes):
        near = next((other for other in boxes[index + 1 :] if are_near(boxes[index], other)), None)
        if near is None:
            index += 1
            continue
        boxes.remove(near)
        joined = [*map(min, boxes[index][:2], near[:2]), *map(max, boxes[index][2:], near[2:])]
        boxes[index], index = joined, 0
    return boxes, (picture.shape[1], picture.shape[0])


def looked_at(name: str, view: Extracted) -> tuple[int, int]:
    """Of the signs that are in sight for two seconds and do not begin at the centre: how many are fixated in that time. In sight is one whose middle is."""
    (boxes, size), (width, height) = signs(name), pan_size(name)
    seen = count = 0
    for box in boxes:
        shifts = [np.array(pan_corner(name, index, size) * 2) for index in range(SOON)]
        places = [np.array(box) - shift for shift in shifts]
        middles = [(place[:2] + place[2:]) / 2 for place in places]
        is_in_sight = all((middle > 0).all() and (middle < (width, height)).all() for middle in middles)
        x0, y0, x1, y1 = places[0]
        if not is_in_sight or (x0 < width / 2 < x1 and y0 < height / 2 < y1):
            continue
        count += 1
        for place, row in zip(places, view.frames):
            points = row["fixations"][: row["fixation_count"]]
            x0, y0, x1, y1 = place + (-MARGIN, -MARGIN, MARGIN, MARGIN)
            if any(x0 <= point["x"] < x1 and y0 <= point["y"] < y1 for point in points):
                seen += 1
                break
    return seen, count


def looks() -> Table:
    """Which signs are looked at while the camera pans."""
    views: dict[str, dict[str, Any]] = {
        name: {"layout": "foveal", "gaze": {"policy": name}} for name in ("saliency", "relevance")
    }
    views["text"] = {
        "layout": "foveal",
        "gaze": {"policy": "relevance", "scorer": str(ROOT / "configs" / "scorers" / "text.safetensors")},
    }
    table = Table(["signs fixated within two seconds, camera panning", "over one photograph", "", "over a sheet of six", ""])
    for view, label in zip(views, ("saliency", "relevance", 'relevance, `scorer = "text.safetensors"`')):
        cells: list[Any] = []
        for pans in (PANS, SHEET_PANS):
            counts = [looked_at(name, Extracted(extract(scene(name), views)[view])) for name in pans]
            seen, count = map(sum, zip(*counts))
            cells += [f"{seen} of {count}", seen / count]
        table.row(label, cells)
    return table


#: What docs/images/relevance.png shows, of this frame of `camera`.
SHOWN, SHOWN_FRAME = ("entropy", "strokes", "intensity", "change", "unseen", "relevance"), 60


def draw(path: Path) -> None:
    """How relevance comes about: a picture, some of its channels, the score, and the tokens that follow from it."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    source = scene("camera")
    view = {"layout": "relevance", "channels": list(SHOWN), "gaze": {"policy": "relevance"}}
    folder = extract(source, {"channels": view})["channels"]
    extracted, channels = Extracted(folder), np.load(folder / "channels.npy", mmap_mode="r")
    # The score of a decision is the channel `relevance` of the next.
    next_decision = np.flatnonzero(extracted.frames["channels_frame"] > extracted.frames["channels_frame"][SHOWN_FRAME])[0]
    figure = Figure(figsize=(9.6, 4.0), layout="constrained")
    cells = figure.subplots(2, 4).flat
    (width, height), picture = source.size, source.picture(SHOWN_FRAME)
    next(cells).imshow(picture)
    for number, name in enumerate(SHOWN):
        is_score = name == "relevance"
        values = channels[next_decision if is_score else SHOWN_FRAME, number].astype(np.float32)
        axes = next(cells)
        axes.imshow(values, cmap="hot", vmin=-1 if is_score else 0, vmax=1, extent=(0, values.shape[1] * 32, values.shape[0] * 32, 0))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_title("score" if is_score else name, fontsize=9)
    axes = next(cells)
    axes.imshow(picture)
    for record in extracted.frame(next_decision)[0]:
        x, y = int(record["x0"]), int(record["y0"])
        box = Rectangle((x, y), int(record["x1"]) - x, int(record["y1"]) - y, fill=False, linewidth=0.4, color="white")
        axes.add_patch(box)
    for axes, title in ((figure.axes[0], "picture"), (figure.axes[-1], "tokens")):
        axes.set_title(title, fontsize=9)
    for axes in figure.axes:
        axes.set_axis_off()
    figure.savefig(path, dpi=125, metadata={"Software": None})


def sheet(name: str) -> dict[str, float]:
    """The share of a sheet that is read after four seconds."""
    source = scene(name)
    lines = read_lines(name, source.picture(0), 2)
    views = {**VIEWS, "a raster scan, 16 fixations": raster(source, 6, 3)}
    seen = seen_over_time(source, views, [len(source.frames) - 1])
    return {label: share_read(lines, lambda _, shown=pictures[-1]: shown) for label, pictures in seen.items()}


def main() -> None:
    draw(ROOT / "docs" / "images" / "relevance.png")
    print(looks(), end="\n\n")
    print(Table(["text read over four seconds, 273 tokens", *SHEETS]).columns([sheet(name) for name in SHEETS]))


if __name__ == "__main__":
    main()
