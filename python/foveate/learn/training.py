"""Trains a scorer with PyTorch: which share of each cell lies in boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.common import library
from .errors import Unlearnable
from .scorer import Scorer

#: Channels that are not learned from unless they are named: they depend on where the recording looked...
OF_THE_GAZE = ("relevance", "eccentricity", "attention", "unseen")
#: ... or on where in the picture a cell is, which holds for one camera.
OF_THE_PLACE = ("y", "x", "cluster")
#: Channels that are negated in a mirrored picture.
_MIRRORED = ("orientation_sin", "motion_x", "normal_x")

#: A channel varies by at least so much, in its units.
STD_LEAST = 1e-3
#: Most frames that are learned from; of more, so many at equal distances.
FRAMES_MAX = 2000
#: Frames of a step, and the rate of the first.
BATCH, RATE = 16, 1e-2
#: Share of channels that a step leaves out, so that no single one is relied on.
DROPPED = 0.1
#: How far from 0 and 1 the aims are: a cell is never wholly sure. So empty cells have similar scores.
UNSURE = 0.05
#: No score is farther above the mean; if one were, all scores of the frame are scaled down by one factor.
OCTAVES_MAX = 4.0
#: Octaves above the mean cell from which a cell counts as covered: those of 0.8 of the greatest weight that a layout
#: takes, which is relevance to the power of 0.5 (`relevance_gain`).
COVERED_OCTAVES = OCTAVES_MAX + 2 * math.log2(0.8)
#: Logits of an octave above that.
SHARPNESS = 3.0


class Settings(NamedTuple):
    """How to train."""

    hidden: int = 8
    kernel: int = 3
    epochs: int = 30
    seed: int = 0


def chosen(names: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    """The channels to learn from.

    :param names: the recorded ones.
    :param wanted: the names of some, or None for all that neither depend on the gaze nor on the place.
    :raises Unlearnable: if one is not recorded, or is named twice.
    """
    if wanted is None:
        return [name for name in names if name not in OF_THE_GAZE + OF_THE_PLACE]
    for index, name in enumerate(wanted):
        if name not in names:
            raise Unlearnable(f"the channel {name!r} is not recorded: there are {', '.join(names)}")
        if name in wanted[:index]:
            raise Unlearnable(f"the channel {name!r} is named twice")
    return list(wanted)


def varying(names: Sequence[str], channels: NDArray[np.float32], must_all: bool) -> list[str]:
    """Those that differ between cells or frames, since of others nothing can be learned.

    :param channels: [S, C, rows, columns].
    :param must_all: that one does not is an error.
    :raises Unlearnable: if so, or if none does.
    """
    least, most = channels.min((0, 2, 3)), channels.max((0, 2, 3))
    still = [name for name, low, high in zip(names, least, most, strict=True) if high - low < STD_LEAST]
    if still and (must_all or len(still) == len(names)):
        raise Unlearnable(
            f"the same in all cells of all frames to learn from: {', '.join(still)}: "
            "leave them out of --channels, or record a clip in which they vary"
        )
    return [name for name in names if name not in still]


def train(
    names: Sequence[str], channels: NDArray[np.float32], shares: NDArray[np.float32], settings: Settings
) -> Scorer:
    """Weights that tell covered cells from others; the same for the same arguments on the same machine.

    The loss is the binary cross entropy of the shares, plus 1 - the overlap of probabilities with shares. Each frame is
    shown as it is and mirrored. Features are kept within 0 and 1, so that no cell stands out so far that all others
    are scaled down for it. At first the score is a logit, which is scaled so that the one from which on cells are best
    taken for covered lies `COVERED_OCTAVES` above that of the mean cell; then it is what a view makes of it, relative to
    the mean and bounded, and a cell counts as covered from there on.

    :param channels: [S, C, rows, columns].
    :param shares: [S, rows, columns], the part of each cell that lies in boxes, 0 to 1.
    """
    torch = library("torch", "torch", "learning a scorer")
    torch.manual_seed(settings.seed)
    torch.use_deterministic_algorithms(True)
    # Sums of several threads are rounded by how many there are.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _trained(torch, names, channels, shares, settings)
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)


def _trained(torch: Any, names: Sequence[str], channels: Any, shares: Any, settings: Settings) -> Scorer:
    mean = channels.mean((0, 2, 3), dtype=np.float64).astype(np.float32)
    std = np.maximum(channels.std((0, 2, 3), dtype=np.float64), STD_LEAST).astype(np.float32)
    inputs = torch.from_numpy((channels - mean[:, None, None]) / std[:, None, None])
    targets = torch.from_numpy(shares)
    mirrored = torch.flip(inputs, (3,))
    for name in set(names) & {*_MIRRORED, "x"}:
        index, middle = names.index(name), 1.0 if name == "x" else 0.0
        # (value - mean) / std of middle - value.
        offset = float((middle - 2 * mean[index]) / std[index])
        mirrored[:, index] = offset - mirrored[:, index]
    inputs, targets = torch.cat([inputs, mirrored]), torch.cat([targets, torch.flip(targets, (2,))])
    convolution, pairs = torch.nn.Conv2d, settings.hidden // 2
    layers = [convolution(len(names), pairs or 1, settings.kernel, padding="same")]
    if pairs:
        layers.append(convolution(pairs, 1, 1))
        with torch.no_grad():
            # Where features are not cut off, they can be learned.
            layers[0].bias += 0.5

    def model(channels: Any) -> Any:
        """[S, rows, columns] of [S, C, rows, columns]."""
        features = layers[0](channels)
        return (layers[1](features.clamp(0, 1)) if pairs else features)[:, 0]

    weights = [weight for layer in layers for weight in layer.parameters()]
    _descend(torch, model, weights, inputs, targets, settings.epochs, RATE, lambda scores: scores, UNSURE)
    with torch.no_grad():
        logits = torch.cat([model(part) for part in inputs[: len(channels)].split(64)]).numpy()
        scale = COVERED_OCTAVES / max(1.0, _threshold(logits, shares) - float(logits.mean(dtype=np.float64)))
        layers[-1].weight *= scale
        layers[-1].bias *= scale

    def bounded(scores: Any) -> Any:
        """Logits of the scores as a view bounds them."""
        above = scores - scores.mean((1, 2), keepdim=True)
        greatest = above.amax((1, 2), keepdim=True).clamp(min=OCTAVES_MAX)
        return SHARPNESS * (above * OCTAVES_MAX / greatest - COVERED_OCTAVES)

    epochs = math.ceil(settings.epochs / 3)
    _descend(torch, model, weights, inputs, targets, epochs, RATE / 3, bounded, UNSURE / 2)
    tensors = {"mean": mean, "std": std}
    kernels = [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in layers]
    if pairs:
        # Clamping to 0 and 1: the part above 0, less the part above 1.
        (weight, bias), (last, offset) = kernels
        first = np.concatenate([weight, weight]), np.concatenate([bias, bias - 1])
        kernels = [first, (np.concatenate([last, -last], axis=1), offset)]
    for number, (weight, bias) in enumerate(kernels, 1):
        tensors[f"conv{number}.weight"], tensors[f"conv{number}.bias"] = weight, bias
    return Scorer(tuple(names), tensors)


def _descend(
    torch: Any,
    model: Callable[[Any], Any],
    parameters: list[Any],
    inputs: Any,
    targets: Any,
    epochs: int,
    rate: float,
    logits_of: Callable[[Any], Any],
    unsure: float,
) -> None:
    steps = epochs * math.ceil(len(inputs) / BATCH)
    optimizer = torch.optim.AdamW(parameters, rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    # Covered cells are few; the square root of how few keeps them from being drowned, and others from being forgotten.
    weight = float((targets.numel() / targets.sum()) ** 0.5)
    dropped = torch.nn.Dropout2d(DROPPED)
    for _ in range(epochs):
        for batch in torch.randperm(len(inputs)).split(BATCH):
            shares = targets[batch]
            logits = logits_of(model(dropped(inputs[batch])))
            weights, aims = 1 + (weight - 1) * shares, unsure + (1 - 2 * unsure) * shares
            entropy = torch.nn.functional.binary_cross_entropy_with_logits(logits, aims, weights)
            both = (torch.sigmoid(logits) * shares).sum()
            either = (torch.sigmoid(logits) + shares).sum() - both
            optimizer.zero_grad()
            (entropy + 1 - both / either.clamp(min=1e-6)).backward()
            optimizer.step()
            schedule.step()


def _threshold(logits: NDArray[np.float32], shares: NDArray[np.float32]) -> float:
    """The logit from which on cells together overlap the boxes best."""
    order = np.argsort(-logits, axis=None, kind="stable")
    both = np.cumsum(shares.flat[order], dtype=np.float64)
    overlaps = both / (shares.sum(dtype=np.float64) + np.arange(1, len(order) + 1) - both)
    return float(logits.flat[order[int(overlaps.argmax())]])
