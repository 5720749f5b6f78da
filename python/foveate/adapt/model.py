"""The model that learns: a timm ViT with low-rank updates of its linear layers (LoRA) and an embedding of token sizes."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..models import vit
from ..models.common import library
from .errors import Unadaptable

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

_NAME = "foveate.adapt"
#: Entries of the embedding of sizes: tokens of 2, 4, ... 64 cells a side.
SIZES = 6
#: Linear layers of a block that learn.
LAYERS = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
#: Files of an adapted model.
WEIGHTS, ABOUT = "model.safetensors", "adapt.json"


class Adapted(NamedTuple):
    """An adapted model.

    :ivar model: of timm, in evaluation mode; :mod:`foveate.models.vit` adds its embedding of sizes.
    :ivar area_bias: what it was adapted with.
    """

    model: Module
    area_bias: float


def load(folder: str | os.PathLike[str]) -> Adapted:
    """A model that ``python -m foveate.adapt`` wrote.

    :raises Unadaptable: if the folder has none.
    :raises MissingLibrary: if torch, timm or safetensors is missing.
    """
    place = Path(folder)
    try:
        about = json.loads((place / ABOUT).read_text(encoding="utf-8"))
        if not isinstance(about, dict):
            raise ValueError(f"{ABOUT} has a {type(about).__name__}")
        name, area_bias = str(about["model"]), float(about["area_bias"])
        state = read_state(place / WEIGHTS)
    except (OSError, ValueError, LookupError) as error:
        raise Unadaptable(
            f"{place} has no adapted model ({error!r}): give an --out of python -m foveate.adapt: {WEIGHTS} and {ABOUT}"
        ) from error
    model = library("timm", "timm", _NAME).create_model(name, pretrained=False)
    if "size_embed" in state:
        _add_sizes(model, len(state["size_embed"]))
    _fill(model, state, place / WEIGHTS)
    return Adapted(model.eval(), area_bias)


def base(name: str, checkpoint: Path | None) -> Module:
    """The model to begin with, in evaluation mode.

    :param checkpoint: weights, a safetensors file or what ``torch.save`` wrote of a state; None are timm's own.
    """
    timm = library("timm", "timm", _NAME)
    try:
        model = timm.create_model(name, pretrained=checkpoint is None)
    except (OSError, RuntimeError, ValueError) as error:
        raise Unadaptable(f"--model {name} cannot be made ({error}): name one of timm, offline with --checkpoint") from error
    if checkpoint is not None:
        try:
            _fill(model, read_state(checkpoint), checkpoint)
        except OSError as error:
            raise Unadaptable(f"--checkpoint {checkpoint} cannot be read: {error}") from error
    vit.check_model(model, 1.0)
    return model.eval()


def digest(model: Module) -> str:
    """Identifies a model's weights."""
    found = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(np.ascontiguousarray(value.detach().cpu().float().numpy()).tobytes())
    return found.hexdigest()[:16]


def prepare(model: Module, rank: int, has_sizes: bool, has_norms: bool) -> dict[str, Tensor]:
    """Makes a model learn: returns the parameters that do, by name; all others are frozen.

    :param rank: of the updates; 0: no linear layer learns.
    :param has_sizes: whether there is an embedding of sizes. :param has_norms: whether LayerNorms learn.
    """
    torch = library("torch", "torch", _NAME)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    learned: dict[str, Tensor] = {}
    if has_sizes:
        _add_sizes(model, SIZES)
        learned["size_embed"] = model.size_embed
    if has_norms:
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.LayerNorm):
                learned.update({f"{name}.{key}": parameter for key, parameter in module.named_parameters()})
    if rank:
        for name, layer in _layers(model):
            update = _low_rank(torch, layer, rank)
            model.set_submodule(name, update)
            learned[f"{name}.down"], learned[f"{name}.up"] = update.down, update.up
    for parameter in learned.values():
        parameter.requires_grad_(True)
    return learned


def merged(model: Module) -> dict[str, Any]:
    """The state of a model that learned, with updates added to the weights: a state of timm, and ``size_embed``."""
    state = {}
    for name, value in model.state_dict().items():
        if not name.endswith((".down", ".up")):
            state[name.replace(".linear.", ".")] = value.detach().clone()
    for name, layer in _layers(model):
        if hasattr(layer, "up"):
            state[f"{name}.weight"] += (layer.up @ layer.down).detach()
    return state


def write(state: dict[str, Any], path: Path) -> None:
    """Writes weights; the file appears whole or not at all."""
    part = path.with_suffix(".part")
    library("safetensors.torch", "safetensors", _NAME).save_file(
        {name: value.contiguous() for name, value in state.items()}, part
    )
    part.replace(path)


def _low_rank(torch: Any, linear: Module, rank: int) -> Module:
    class LowRank(torch.nn.Module):  # type: ignore[misc]
        """A linear layer with a low-rank update, which is zero at first."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = linear
            like = linear.weight
            self.down = torch.nn.Parameter(like.new_empty(rank, linear.in_features).normal_(std=linear.in_features**-0.5))
            self.up = torch.nn.Parameter(like.new_zeros(linear.out_features, rank))

        def forward(self, x: Tensor) -> Tensor:
            functional = torch.nn.functional
            return self.linear(x) + functional.linear(functional.linear(x, self.down), self.up)

    return LowRank()


def _layers(model: Module) -> list[tuple[str, Module]]:
    return [
        (f"blocks.{index}.{name}", block.get_submodule(name)) for index, block in enumerate(model.blocks) for name in LAYERS
    ]


def _add_sizes(model: Module, count: int) -> None:
    torch = library("torch", "torch", _NAME)
    weight = model.patch_embed.proj.weight
    model.size_embed = torch.nn.Parameter(weight.new_zeros(count, model.embed_dim))


def read_state(path: Path) -> dict[str, Any]:
    """What a file of safetensors or of ``torch.save`` holds.

    :raises OSError: if there is no such file.
    :raises Unadaptable: if it is damaged.
    """
    if path.suffix == ".safetensors":
        read = library("safetensors.torch", "safetensors", _NAME).load_file
    else:
        read = partial(library("torch", "torch", _NAME).load, map_location="cpu", weights_only=True)
    try:
        state = read(path)
    except OSError:
        raise
    except Exception as error:
        # Both libraries have errors of their own, without a common class, for a file that is none of theirs.
        raise Unadaptable(f"{path} cannot be read: {error}") from error
    if not isinstance(state, dict):
        raise Unadaptable(f"{path} has a {type(state).__name__}: expected a state, as torch.save writes it")
    return state


def _fill(model: Module, state: dict[str, Any], path: Path) -> None:
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise Unadaptable(f"{path} has other weights than the model: {str(error).splitlines()[1].strip()}") from error
