"""Plain vision transformers of timm with a table of positions (ViT, DeiT, DINOv2, CLIP, SigLIP): tokens of unlike size.

    output = vit.features(model, frame)                     # [1, prefix + N, D], as model.forward_features gives
    logits = model.forward_head(output)
    dense = vit.paint(frame, output[0, model.num_prefix_tokens :])

Each token goes through the model's own kernel, and gets the mean of the model's table of positions over the token's area.
At full resolution that is the model's own forward pass. Tokens of a larger step are something that it was not trained on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..frame import sizes_of
from .common import MissingLibrary, Unsuitable, cells, check_patch, check_tokens, library, normalised, spans

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from ..frame import TokenFrame

_NAME = "models.vit"
#: Parameter of the cubic kernel: what PyTorch takes with ``antialias=True``, as timm does.
_CUBIC = -0.5


def features(model: Module, frame: TokenFrame, area_bias: float = 0.0) -> Tensor:
    """The model's features of a frame's tokens, as ``model.eval().forward_features`` computes them of a picture.

    :param model: a ``timm.models.vision_transformer.VisionTransformer``.
    :param frame: any layout, with the model's P and normalisation (or dtype u8).
    :param area_bias: how far a token counts in attention by the area that it stands for: what :func:`log_area` is multiplied
        by, 0 to 1. Models are trained without it; 0.5 agrees best with all patches (docs/reports/models.md).
    :returns: a tensor, [1, prefix + N, D]; the class token and registers are first.
    :raises Unsuitable: if the model has no table of positions, or the frame has another P or
        normalisation, or no tokens.
    :raises MissingLibrary: if torch or timm is not installed.
    """
    torch = library("torch", "torch", _NAME)
    check_model(model, area_bias)
    check_frame(model, frame)
    x = torch.cat([prefix(model), embedded(model, frame)])[None]
    arguments: dict[str, Tensor] = {}
    if area_bias:
        areas = np.float32(area_bias) * log_area(frame)
        bias = np.concatenate([np.zeros(model.num_prefix_tokens, np.float32), areas])
        mask = torch.from_numpy(bias).to(x.device, x.dtype)
        arguments["attn_mask"] = mask[None, None, None].expand(1, 1, len(bias), len(bias))
    for block in model.blocks:
        x = block(x, **arguments)
    return model.norm(x)


def embedded(model: Module, frame: TokenFrame) -> Tensor:
    """What the first block gets of a frame's tokens, [N, D]: patch embeddings with their positions."""
    torch = library("torch", "torch", _NAME)
    mean, std = normalisation(model)
    texels = normalised(frame, _NAME, mean, std, f"{{ mean = {list(mean)}, std = {list(std)} }}")
    weight = model.patch_embed.proj.weight

    def tensor(array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(weight.device, weight.dtype)

    return placed(model, tensor(texels), tensor(place_weights(frame, *table_sizes(model))))


def placed(model: Module, texels: Tensor, places: Tensor) -> Tensor:
    """Patch embeddings with their positions, [N, D].

    :param texels: normalised, [N, 3, P, P]. :param places: :func:`place_weights`.
    """
    torch = library("torch", "torch", _NAME)
    own = 0 if model.no_embed_class else model.num_prefix_tokens
    table = model.pos_embed[0, own:]
    if hasattr(model, "size_embed"):
        table = torch.cat([table, model.size_embed])
    x = model.patch_embed.norm(model.patch_embed.proj(texels).flatten(1))
    return model.norm_pre(model.pos_drop(x + places @ table))


def table_sizes(model: Module) -> tuple[tuple[int, int], int]:
    """Rows and columns of a model's table of positions, and entries of its table of sizes, ``size_embed``, which
    :mod:`foveate.adapt` adds."""
    return tuple(model.patch_embed.grid_size), len(getattr(model, "size_embed", ()))


def prefix(model: Module) -> Tensor:
    """What the first block gets before the tokens, [prefix, D]: the class token and registers."""
    torch = library("torch", "torch", _NAME)
    found = [token[0] for token in (model.cls_token, model.reg_token) if token is not None]
    x = torch.cat(found) if found else model.pos_embed.new_zeros((0, model.embed_dim))
    if not model.no_embed_class:
        x = x + model.pos_embed[0, : model.num_prefix_tokens]
    return model.norm_pre(model.pos_drop(x))


def position_weights(frame: TokenFrame, grid: tuple[int, int]) -> NDArray[np.float32]:
    """How much of each entry of a table of positions belongs to each token, [N, rows * columns].

    Cubic interpolation at the centres of the cells under a token, and the mean of these; the table spans the cells of the
    source. For each cell it is what ``timm.layers.resample_abs_pos_embed`` computes for the whole grid of cells.

    :param grid: rows and columns of the table.
    """
    whole, (rows, columns) = cells(frame), spans(frame)
    down = _mean_cubic(rows[:, 0], whole.rows, grid[0])
    across = _mean_cubic(columns[:, 0], whole.columns, grid[1])
    return (down[:, :, None] * across[:, None, :]).reshape(len(down), -1).astype(np.float32)


def place_weights(frame: TokenFrame, grid: tuple[int, int], sizes: int) -> NDArray[np.float32]:
    """How much of each entry of the tables of positions and of sizes belongs to each token, [N, rows * columns + sizes].

    Entry k of the table of sizes is for tokens whose side is 2 ** (k + 1) cells; others are interpolated by the logarithm of
    the side, and a token of one cell gets none.
    """
    positions = position_weights(frame, grid)
    if not sizes:
        return positions
    rows, columns = (along[:, 0, 1] - along[:, 0, 0] for along in spans(frame))
    octaves = np.log2(np.maximum(rows * columns, 1)) / 2
    shares = np.maximum(1 - np.abs(np.minimum(octaves, sizes)[:, None] - np.arange(1, sizes + 1)), 0)
    return np.concatenate([positions, shares.astype(np.float32)], axis=1)


def log_area(frame: TokenFrame) -> NDArray[np.float32]:
    """The logarithm of each token's area, in cells of the finest grid, [N]: minus infinity without a real pixel.

    Added to a token's logit, it makes a token of area n count n times: proportional attention of "Token Merging: Your
    ViT But Faster" (Bolya et al., ICLR 2023).
    """
    grid = cells(frame)
    box = frame.tokens["box"].astype(np.float64)
    area = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1]) / (grid.width * grid.height)
    with np.errstate(divide="ignore"):
        return np.log(area).astype(np.float32)


def owners(frame: TokenFrame) -> NDArray[np.int64]:
    """The token at the centre of each cell of the finest grid, the finest one where several are, [rows, columns]; -1 where
    none is."""
    grid, tokens = cells(frame), frame.tokens
    found = np.full((grid.rows, grid.columns), -1, np.int64)
    sizes = sizes_of(tokens, frame.info.patch)

    def range_of(origin: str, size: NDArray[np.int32], width: float) -> NDArray[np.int64]:
        """The first cell whose centre lies in a token, and the first one after, [N, 2]."""
        start = tokens[origin].astype(np.float64)
        edges = np.stack([start, start + size], axis=1)
        return np.maximum(np.ceil(edges / width - 0.5), 0).astype(np.int64)

    down, across = range_of("y", sizes[:, 1], grid.height), range_of("x", sizes[:, 0], grid.width)
    areas = sizes.astype(np.int64).prod(axis=1)
    for index in np.argsort(-areas, kind="stable").tolist():
        found[slice(*down[index].tolist()), slice(*across[index].tolist())] = index
    return found


def paint(frame: TokenFrame, values: Tensor | NDArray[Any]) -> Tensor | NDArray[Any]:
    """What a model says of each token, painted where the tokens lie: a dense map for heads that need one.

    :param values: [N, ...] of an array or a tensor of floats, without the prefix.
    :returns: [rows, columns, ...] of cells of the finest grid; NaN where no token lies.
    :raises Unsuitable: if there are not as many values as tokens.
    """
    if len(values) != len(frame.tokens):
        raise Unsuitable(
            _NAME, "values", tuple(values.shape), f"the frame has {len(frame.tokens)} tokens; leave the prefix tokens out"
        )
    index = owners(frame)
    if not hasattr(values, "new_zeros"):
        painted = np.asarray(values)[index]
        painted[index < 0] = np.nan
        return painted
    torch = library("torch", "torch", _NAME)
    device_index = torch.from_numpy(index).to(values.device)
    painted = values[device_index]
    painted[device_index < 0] = float("nan")
    return painted


def check_frame(model: Module, frame: TokenFrame) -> None:
    """Checks that a frame has tokens of the model's side.

    :raises Unsuitable: if not.
    """
    check_tokens(frame, _NAME)
    check_patch(frame, _NAME, model.patch_embed.patch_size[0])


def check_model(model: Module, area_bias: float) -> None:
    """Checks that :func:`features` can run a model.

    :raises Unsuitable: if not.
    :raises MissingLibrary: if timm is missing, or too old for ``area_bias``.
    """
    module = library("timm.models.vision_transformer", "timm", _NAME)
    fits = isinstance(model, module.VisionTransformer) and isinstance(model.patch_embed, module.PatchEmbed)
    if not fits or model.pos_embed is None:
        raise Unsuitable(
            _NAME,
            "model",
            type(model).__name__,
            "give a timm VisionTransformer with patches for tokens and a learned table of positions",
        )
    rows, columns = model.patch_embed.patch_size
    if rows != columns:
        raise Unsuitable(_NAME, "model.patch_embed.patch_size", (rows, columns), "tokens are square")
    if not 0 <= area_bias <= 1:
        raise Unsuitable(_NAME, "area_bias", area_bias, "give a number from 0 to 1")
    block = model.blocks[0]
    if area_bias and "attn_mask" not in block.forward.__code__.co_varnames:
        raise MissingLibrary(f"{_NAME} needs blocks that take `attn_mask` for area_bias: pip install 'timm>=1.0.31'")


def normalisation(model: Module) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """What the model's weights were trained with."""
    config = getattr(model, "pretrained_cfg", None) or {}
    found = config if isinstance(config, dict) else vars(config)
    mean, std = found.get("mean"), found.get("std")
    if mean is None or std is None:
        raise Unsuitable(
            _NAME, "model.pretrained_cfg", config, 'say how it was trained: model.pretrained_cfg = {"mean": ..., "std": ...}'
        )
    return tuple(mean), tuple(std)


def _mean_cubic(spans: NDArray[np.float64], count: int, side: int) -> NDArray[np.float64]:
    """The mean of :func:`_cubic` over the cells of spans, [N, side]."""
    first, length = spans[:, 0], spans[:, 1] - spans[:, 0]
    parts = np.maximum(np.rint(length), 1).astype(np.int64)
    weights = np.zeros((len(spans), side))
    for number in np.unique(parts).tolist():
        chosen = np.flatnonzero(parts == number)
        step = length[chosen] / number
        for part in range(number):
            weights[chosen] += _cubic(first[chosen] + (part + 0.5) * step - 0.5, count, side) / number
    return weights


def _cubic(place: NDArray[np.float64], count: int, side: int) -> NDArray[np.float64]:
    """Weights of ``side`` entries at places of ``count`` cells that span the same length, [N, side]. Where the table is
    the finer of the two, the kernel is as much wider, against aliasing."""
    scale = side / count
    centre = (place[:, None] + 0.5) * scale - 0.5
    distance = np.abs(np.arange(side) - centre) / max(1.0, scale)
    a = _CUBIC
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    return weights / weights.sum(axis=1, keepdims=True)
