"""The retinas of FOVI (Blauch, Alvarez and Konkle, ICML 2026) as tables of the layout ``samples``.

    python -m foveate.models.fovi retina.npy --a 2.78 --size 1080
    python -m foveate.models.fovi retina.npy --model fovi-dinov3-splus_a-2.78_res-64_in1k --size 1080

FOVI's models take a cloud of samples around a fixation, in an order of their own. With the table a view publishes them in
that order, from the camera: :func:`samples` of a frame is what ``retinal_transform`` of the model gives. Needs the package
``fovi``, which needs PyTorch; :func:`samples` needs NumPy alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FoveateError
from .common import Unsuitable, library

if TYPE_CHECKING:
    from ..frame import TokenFrame

#: What errors call it.
_NAME = "foveate.models.fovi"
#: Largest step of a token, most rows of a table, and the resolution of a retina that surely has no more.
_STEP_MAX, _ROWS_MAX, _RESOLUTION_MAX = 2048, 5000, 70
#: A row whose place is in no picture, wherever the view looks.
_BESIDE = (32768, 32768, 1)


def retina(a: float, resolution: int = 64, fov: float = 16.0, pooled: bool = False) -> Any:
    """An isotropic retina of FOVI, a ``RetinalTransform`` on the CPU.

    :param a: degrees at which magnification has halved: 2.78 and 60.94 of the published models with DINOv3.
    :param resolution: it has at most so many samples squared.
    :param fov: diameter of the field, in degrees.
    :param pooled: whether a sample is the mean of photoreceptors around it; else it is the nearest pixel.
    :raises MissingLibrary: if ``fovi`` cannot be imported.
    :raises Unsuitable: if a number is not one that a retina may have.
    """
    for key, value in (("a", a), ("fov", fov)):
        if not 0 < value < np.inf:
            raise Unsuitable(_NAME, key, value, "give a positive number of degrees")
    if not 2 <= resolution <= _RESOLUTION_MAX:
        raise Unsuitable(_NAME, "resolution", resolution, f"give a whole number from 2 to {_RESOLUTION_MAX}")
    module = library("fovi.sensing.retina", "fovi", _NAME)
    sampler = "pooling" if pooled else "grid_nn"
    return module.RetinalTransform(resolution, fov=fov, cmf_a=a, style="isotropic", sampler=sampler, device="cpu")


def load(name: str) -> Any:
    """A published model on the CPU, in evaluation mode. ``fovi`` takes its weights from the folder of that name, or
    downloads them to ``~/.cache/fovi``.

    :raises MissingLibrary: if ``fovi`` or what its models need cannot be imported.
    """
    return library("fovi.models", "'fovi[models]'", _NAME).get_model_from_base_fn(name, device="cpu").eval()


def table(retina: Any, size: float) -> NDArray[np.float64]:
    """The table of a retina, for ``table`` of a view.

    :param retina: a ``RetinalTransform``: of :func:`retina`, or ``retinal_transform`` of a model. A sampler of nearest
        pixels gives steps of 1, one that pools the distance between neighbouring samples, rounded.
    :param size: diameter of the field in pixels of the camera: the shorter side shows a model what it was trained on.
    :returns: [N, 3]: x and y from the fixation, and step, in pixels, in the order of the model's samples. Those that the
        retina masks, which are 0 for the model, lie beside every picture: with ``outside = "mean"`` they are 0 in the
        view, too.
    :raises Unsuitable: if the retina interpolates, is not planar, or has too many samples; or if ``size`` is not positive.
    """
    sampler = retina.sampler
    pooled = hasattr(sampler, "pooler")
    if not pooled and sampler.mode != "nearest":
        remedy = "take one with the sampler grid_nn, pooling or gaussian_pooling"
        raise Unsuitable(_NAME, "sampler", f"grid_{sampler.mode}", remedy)
    if retina.field_geometry == "spherical":
        raise Unsuitable(_NAME, "field_geometry", retina.field_geometry, "take a planar retina")
    if _ROWS_MAX < len(sampler.coords):
        raise Unsuitable(_NAME, "samples", len(sampler.coords), f"take a retina of at most {_ROWS_MAX}")
    if not 0 < size < np.inf:
        raise Unsuitable(_NAME, "size", size, "give a positive number of pixels, such as 1080")
    # Right and up, in halves of the field.
    places = sampler.coords.cartesian.numpy().astype(np.float64) * (size / 2)
    rows = np.stack([places[:, 0], -places[:, 1], np.ones(len(places))], axis=1)
    if pooled:
        radii = sampler.coords.polar[:, 0].numpy().astype(np.float64) * (size / 2)
        rows[:, 2] = _spacing(radii).round().clip(1, _STEP_MAX)
    rows[~sampler.coords.valid_mask.numpy()] = _BESIDE
    return rows


def _spacing(radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance between rings at each sample, as ``fovi`` spaces those of a ring: the mean of both sides."""
    rings, ring = np.unique(radii, return_inverse=True)
    return np.gradient(rings)[ring]


def samples(frame: TokenFrame) -> NDArray[np.float32]:
    """The samples of a frame as a model takes them: [1, 1, 3, N], one picture and one fixation.

    ``model(torch.from_numpy(samples(frame)), setting="supervised", fixated_inputs=True)`` runs it.

    :raises Unsuitable: if the view has another layout than ``samples``, or tokens of more than one texel.
    """
    info = frame.info
    if info.layout != "samples":
        remedy = "take a view with layout = \"samples\" and the table of the model's retina"
        raise Unsuitable(_NAME, "layout", info.layout, remedy)
    if info.patch != 1:
        raise Unsuitable(_NAME, "patch", info.patch, "take a view with patch = 1")
    return np.ascontiguousarray(frame.pixels.reshape(1, 1, -1, 3).swapaxes(2, 3), dtype=np.float32)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 2 if the table cannot be written."""
    parser = argparse.ArgumentParser(
        prog="python -m foveate.models.fovi",
        description='Writes the retina of a model of FOVI as a table of the layout "samples".',
    )
    say = parser.add_argument
    say("out", type=Path, metavar="FILE", help="the table, an .npy file")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--a", type=float, help="of an isotropic retina: 2.78 or 60.94 of the published models")
    source.add_argument("--model", metavar="NAME", help="a model with weights, whose own retina is taken")
    say("--size", type=float, required=True, metavar="PIXELS", help="diameter of the field: the camera's shorter side")
    say("--resolution", type=int, default=64, help="with --a: at most so many samples squared (default: %(default)s)")
    say("--fov", type=float, default=16.0, metavar="DEGREES", help="with --a: diameter of the field (default: %(default)s)")
    say("--pooled", action="store_true", help="with --a: means of areas instead of nearest pixels")
    given = parser.parse_args(arguments)
    try:
        if given.model is not None:
            taken = load(given.model).retinal_transform
        else:
            taken = retina(given.a, given.resolution, given.fov, given.pooled)
        rows = table(taken, given.size)
        with given.out.open("wb") as file:
            np.save(file, rows)
    except (FoveateError, OSError) as error:
        print(f"{_NAME}: {error}", file=sys.stderr)
        return 2
    steps = f"{rows[:, 2].min():.0f} to {rows[:, 2].max():.0f}"
    print(f'{given.out}: {len(rows)} samples, steps of {steps} pixels; layout = "samples", table = "{given.out}"')
    return 0


if __name__ == "__main__":
    sys.exit(main())
