"""Features of an adapted model and of the one that it was made from, beside a run of the latter on all patches.

    python scripts/value/adapted.py ADAPTED CHECKPOINT

For the environment in which python -m foveate.adapt runs. Photographs of OpenCV's examples 700 pixels wide, and frames of
two of its clips: none of them may have been learned from.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from common import CACHE, Table, clip_frames, photograph

import foveate.adapt
import foveate_engine
from foveate.adapt import model as models
from foveate.adapt import pictures, training
from foveate.models import vit

PHOTOGRAPHS = ("aero1.jpg", "building.jpg", "home.jpg", "stuff.jpg", "leuvenA.jpg")
CLIPS = {"vtest.avi": (60, 400, 700), "box.mp4": (0, 200, 400)}
LAYOUTS, BUDGET, WIDTH = ("foveal", "adaptive"), 273, 700


def scenes() -> dict[str, list[Any]]:
    """Pictures by what they show."""
    found = {"photographs": []}
    for name in PHOTOGRAPHS:
        picture = photograph(name)
        scale = min(1, WIDTH / picture.shape[1])
        found["photographs"].append(cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))
    for name, numbers in CLIPS.items():
        frames = clip_frames(CACHE.parent / name)
        found[f"`{name}`"] = [frames[number] for number in numbers]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adapted", type=Path)
    parser.add_argument("checkpoint", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    engine = foveate_engine.Engine("cpu", threads=1)
    name = json.loads((given.adapted / models.ABOUT).read_text())["model"]
    base, (adapted, bias) = models.base(name, given.checkpoint), foveate.adapt.load(given.adapted)
    patch = base.patch_embed.patch_size[0]
    ways = [f"{measure}: {way}" for measure in training.MEASURES for way in ("before", "after")]
    table = Table(["a fixation at random", *ways])
    with torch.no_grad():
        for scene, shown in scenes().items():
            targets = [vit.features(base, pictures.every_patch(engine, picture, patch))[0] for picture in shown]
            for layout in LAYOUTS:
                rows = []
                for number, (picture, target) in enumerate(zip(shown, targets, strict=True)):
                    looks = pictures.Looks(LAYOUTS, (BUDGET, BUDGET), patch)
                    chance = np.random.default_rng(number)
                    frame = looks.tokens(engine, picture, {"layout": layout, "budget": BUDGET}, chance)
                    outputs = [training.features(model, [frame], bias)[0] for model in (base, adapted)]
                    rows.append([training.agreement(frame, output, (target[0], target[1:])) for output in outputs])
                before, after = np.mean(rows, axis=0)
                values = [f"{value:.3f}" for pair in zip(before, after, strict=True) for value in pair]
                table.row(f"{scene}, `{layout}`", values)
    print(table)


if __name__ == "__main__":
    main()
