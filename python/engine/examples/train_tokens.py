"""Trains a small classifier on foveated tokens: which of eight pictures a crop is from.

    python python/engine/examples/train_tokens.py

The pictures are those that scikit-image brings along. Crops to learn from and crops to test with come from different
halves of each picture, mirrored, brighter or darker, and looked at in different places. It prints the share of crops
that chance gets right, and the share of the held-out ones that the classifier does. With one thread the same numbers
come out each time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import skimage.color
import skimage.data
import torch
from numpy.typing import NDArray

from foveate_engine.torch import sample

#: Pictures that need no download; each is a class.
PICTURES = ("astronaut", "brick", "camera", "coffee", "coins", "grass", "gravel", "text")
#: Side of a crop in pixels, and how many of each picture there are to learn from and to test with.
SIDE, LEARNED, HELD_OUT = 120, 60, 20
#: Tokens of a crop, P, and numbers for each token.
LAYOUT: dict[str, Any] = {"budget": 24, "patch": 8}
WIDTH = 48
EPOCHS, BATCH, RATE = 40, 60, 2e-3


class Classifier(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Tokens to scores of the classes: a layer for each token, the mean of all, and a layer on top."""

    def __init__(self, patch: int, classes: int) -> None:
        super().__init__()
        # Beside its texels, a token is where it lies and how large it is.
        self.embed = torch.nn.Linear(3 * patch * patch + 4, WIDTH)
        self.mix = torch.nn.Linear(WIDTH, WIDTH)
        self.score = torch.nn.Linear(WIDTH, classes)

    def forward(self, images: torch.Tensor, fixations: torch.Tensor) -> torch.Tensor:
        """Scores [B, classes] of images [B, 3, H, W] in 0 to 1, looked at in [B, 2]."""
        pixels, tokens, mask = sample(images, fixations, **LAYOUT)
        places = np.stack([tokens[key].astype(np.float32) for key in ("x", "y", "sx", "sy")], -1) / images.shape[-1]
        features = torch.cat([pixels.flatten(2) * 2 - 1, torch.from_numpy(places)], -1)
        hidden = torch.relu(self.mix(torch.relu(self.embed(features)))) * mask[:, :, None]
        scores: torch.Tensor = self.score(hidden.sum(1) / mask.sum(1, keepdim=True))
        return scores


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    learned, held_out = crops(random, LEARNED, is_left=True), crops(random, HELD_OUT, is_left=False)
    model = Classifier(LAYOUT["patch"], len(PICTURES))
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    images, fixations, labels = learned
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(labels)).split(BATCH):
            loss = torch.nn.functional.cross_entropy(model(images[batch], fixations[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    images, fixations, labels = held_out
    with torch.no_grad():
        accuracy = float((model(images, fixations).argmax(1) == labels).float().mean())
    print(f"chance {1 / len(PICTURES):.3f}")
    print(f"held-out accuracy {accuracy:.3f}")


def crops(random: np.random.Generator, count: int, is_left: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Crops of the left or the right half of each picture: images [S, 3, side, side] in 0 to 1, fixations [S, 2] and
    labels [S]."""
    images: list[NDArray[np.float32]] = []
    for name in PICTURES:
        picture = getattr(skimage.data, name)()
        rgb = (skimage.color.gray2rgb(picture) if picture.ndim == 2 else picture).astype(np.float32) / 255
        middle = rgb.shape[1] // 2
        half = rgb[:, :middle] if is_left else rgb[:, middle:]
        for _ in range(count):
            top, left = (int(random.integers(0, length - SIDE + 1)) for length in half.shape[:2])
            crop = half[top : top + SIDE, left : left + SIDE]
            crop = crop[:, ::-1] if random.random() < 0.5 else crop
            images.append(np.clip(crop * random.uniform(0.8, 1.2), 0, 1))
    fixations = random.uniform(0.25 * SIDE, 0.75 * SIDE, (len(images), 2))
    labels = np.repeat(np.arange(len(PICTURES)), count)
    return (
        torch.from_numpy(np.stack(images).transpose(0, 3, 1, 2).copy()),
        torch.from_numpy(fixations),
        torch.from_numpy(labels),
    )


if __name__ == "__main__":
    main()
