"""Text read on sheets of photographs of signs that nobody points at."""

from __future__ import annotations

from functools import cache
from typing import Any

import cv2
import numpy as np
from common import made_scene, sign_photograph
from models import read_lines, share_read
from product import compared, seen

#: Sheets of six photographs of signs each, anywhere and of any size.
CHOSEN_ON, MEASURED_ON = (1, 2, 3), (4, 5, 6)
#: Ten frames a second.
AT = {"1 frame": 0, "1 s": 9, "4 s": 39}


@cache
def sheet(number: int) -> Any:
    """A sheet of signs, 1920x1080."""
    random = np.random.default_rng(number)
    noise = random.integers(-6, 7, (135, 240, 1)).repeat(8, 0).repeat(8, 1)
    picture = np.clip(np.array((70, 75, 80)) + noise, 0, 255).astype(np.uint8)
    for cell, sign_number in enumerate(random.permutation(6)):
        sign = sign_photograph(sign_number + 1)
        scale = min(640 / sign.shape[1], 540 / sign.shape[0]) * random.uniform(0.55, 0.95)
        width, height = round(sign.shape[1] * scale), round(sign.shape[0] * scale)
        x = cell % 3 * 640 + random.integers(0, 640 - width + 1)
        y = cell // 3 * 540 + random.integers(0, 540 - height + 1)
        picture[y : y + height, x : x + width] = cv2.resize(sign, (width, height), interpolation=cv2.INTER_AREA)
    return picture


def over_time(number: int) -> dict[str, dict[str, float]]:
    """The share of a sheet that is read, over time."""
    name = f"sheet {number}"
    source = made_scene(name, lambda: [sheet(number)] * 40, (1920, 1080))
    lines = read_lines(name, source.picture(0), 2)
    shown = seen(source, list(AT.values()), is_still=True)

    def share(picture: Any) -> float:
        return share_read(lines, lambda _: picture)

    return {
        f"`{name}`, {when}": {way: share(pictures[index]) for way, pictures in shown.items()}
        for index, when in enumerate(AT)
    }


def main() -> None:
    for numbers in (MEASURED_ON, CHOSEN_ON):
        measures = {label: values for number in numbers for label, values in over_time(number).items()}
        print(compared("273 tokens, characters read", measures), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
