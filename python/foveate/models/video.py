"""Runs a vision transformer on the frames of a view, and computes only the tokens that changed.

    encoder = VideoEncoder(model)
    with foveate.open_view("front", patch=14) as view:
        for frame in view:
            output = encoder.encode(frame)              # as vit.features(model, frame) gives

Each block keeps the keys and values of every token. The tokens of a frame that changed go through the model, and attend to
all of them; the others keep what they were when they were computed, which is an approximation, because they would see the
new ones. A full run makes everything exact again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import qwen2_5_vl, qwen3_vl, vit
from .common import Unsuitable, library
from .incremental import EncodedFrame, Incremental, Indices, part
from .qwen import Qwen, table_taps, windows_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch import device as Device
    from torch.nn import Module

    from ..frame import TokenFrame

__all__ = ["EncodedFrame", "TowerOutput", "VideoEncoder"]

_NAME = "models.video"


class TowerOutput(NamedTuple):
    """What a vision tower of Qwen gives, by the names that transformers uses.

    :ivar pooler_output: [N, width of the language model].
    :ivar deepstack_features: of Qwen3-VL a list of the same shape.
    """

    pooler_output: Tensor
    deepstack_features: list[Tensor]


class VideoEncoder(Incremental):
    """A vision transformer that keeps what it computed of tokens that did not change.

    A token is kept if the frame before had one at the same place and with the same ``changed_frame``, so with the same
    bytes; or if its texels differ by at most ``tolerance`` from those that it was computed from. Nothing is computed if all
    are kept. For one thread at a time, and without gradients. Memory: 2 x depth x width numbers for each token of a frame.
    """

    def __init__(
        self,
        model: Module,
        *,
        tolerance: float = 4.0,
        full_every: int = 64,
        full_after: float = 3.0,
        full_share: float = 0.7,
        budget: int = 1024,
        area_bias: float = 0.0,
    ) -> None:
        """
        :param model: a ``timm.models.vision_transformer.VisionTransformer``, or the vision tower (``model.model.visual``) of
            transformers' Qwen2.5-VL, Qwen3-VL or Qwen3.5, in evaluation mode.
        :param tolerance: root mean square of the difference, in levels of 8 bits, up to which changed texels are taken for
            noise; 0 keeps only tokens whose bytes are the same.
        :param full_every: a frame is computed in full if this many before it were not; 0: never for this reason. A full run
            whose result would be the same is left out.
        :param full_after: a frame is computed in full if since the last full run as many tokens were computed as this many
            frames have: so many others have not seen. A tenth of it suffices in a frame that needs no token computed, so
            that a picture that rests, such as a canvas that is complete, soon becomes exact.
        :param full_share: a frame is computed in full if a greater share of its tokens must be computed anyway; 1: never for
            this reason.
        :param budget: most tokens made of a :class:`foveate.Canvas`.
        :param area_bias: as in :func:`.vit.features`.
        :raises Unsuitable: if the model is of another kind, or a parameter is out of its range.
        :raises MissingLibrary: if a library is missing, or too old.
        """
        super().__init__(_NAME, tolerance, full_every, full_after, full_share, budget)
        self._torch = library("torch", "torch", _NAME)
        self._tower = tower_of(model, area_bias)
        self._has_prefix = 0 < self._tower.prefix

    def reset(self) -> None:
        super().reset()
        self._cache: _Cache | None = None

    reset.__doc__ = Incremental.reset.__doc__

    def _running(self) -> AbstractContextManager[object]:
        context: AbstractContextManager[object] = self._torch.no_grad()
        return context

    def _check(self, frame: TokenFrame) -> None:
        self._tower.check(frame)

    def _allocate(self, capacity: int) -> None:
        self._cache = _Cache(self._torch, self._tower, capacity)

    def _move(self, sources: list[int], targets: list[int]) -> None:
        assert self._cache is not None
        self._cache.move(sources, targets)

    def _run(self, frame: TokenFrame, indices: Indices, slots: Indices, every: Indices) -> None:
        assert self._cache is not None
        run = _Run(self._tower, self._cache, frame, indices, slots, every)
        for index, block in enumerate(self._tower.blocks):
            run.block(index, block)
        run.finish()

    def _result(self, order: Indices) -> Any:
        assert self._cache is not None
        return self._tower.result(self._cache, self._torch.from_numpy(order).to(self._cache.device))


class _Cache:
    """What is kept of each token, by its slot; of rows of keys and values by the slot times the tower's ``parts``.

    :ivar pairs: keys and values, [blocks, 2, rows, heads, width of a head]; the prefix comes first.
    :ivar outputs: what the tower gives, [capacity, ...] each, and of the prefix.
    """

    def __init__(self, torch: ModuleType, tower: Tower, capacity: int) -> None:
        self._torch, self._capacity = torch, capacity
        weight = tower.weight
        self.device, self.parts, self.prefix = weight.device, tower.parts, tower.prefix
        rows = self.prefix + capacity * self.parts
        self.pairs = weight.new_zeros((len(tower.blocks), 2, rows, tower.heads, tower.head_width))
        self.outputs: dict[str, Tensor] = {}

    def rows(self, slots: ArrayLike) -> Tensor:
        """The rows of keys and values of slots, a tensor."""
        numbers: Tensor = self._torch.as_tensor(slots, device=self.device)
        parts = self._torch.arange(self.parts, device=self.device)
        return (self.prefix + numbers[:, None] * self.parts + parts).flatten()

    def move(self, sources: list[int], targets: list[int]) -> None:
        """Moves tokens to other slots."""
        self.pairs[:, :, self.rows(targets)] = self.pairs[:, :, self.rows(sources)]
        for output in self.outputs.values():
            output[targets] = output[sources]

    def put(self, name: str, slots: Indices, values: Tensor) -> None:
        """Keeps a part of the output of tokens, [M, ...]."""
        if name not in self.outputs:
            self.outputs[name] = values.new_zeros((self._capacity, *values.shape[1:]))
        self.outputs[name][self._torch.as_tensor(slots, device=self.device)] = values


def through(
    tower: Tower, block: Module, x: Tensor, places: Any, attend: Callable[[Tensor, Tensor, Tensor, float], Tensor]
) -> Tensor:
    """What a block of a tower makes of rows, [M, width].

    :param attend: what queries, [M, heads, width of a head], find, given also keys, values and the scale.
    """
    given = block.norm1(x)
    query, key, value = tower.projected(block.attn, given, places)
    found = attend(query, key, value, tower.scale(block.attn))
    x = x + tower.first_scale(block)(tower.joined(block.attn, found.flatten(1), given))
    return x + tower.second_scale(block)(block.mlp(block.norm2(x)))


class _Run:
    """A pass of some tokens of a frame through the tower."""

    def __init__(
        self,
        tower: Tower,
        cache: _Cache,
        frame: TokenFrame,
        indices: Indices,
        slots: Indices,
        every: Indices,
    ) -> None:
        """:param indices: the tokens, and ``slots`` theirs. :param every: the slots of all tokens."""
        torch = library("torch", "torch", _NAME)
        self._torch, self._tower, self._cache, self._slots = torch, tower, cache, slots
        self._count = cache.prefix + len(every) * cache.parts
        self._places: Any
        self._x, self._places = tower.rows(part(frame, indices))
        self._rows = torch.cat([torch.arange(cache.prefix, device=cache.device), cache.rows(slots)])
        bias = tower.bias(frame)
        self._mask = None
        if bias is not None:
            ordered = np.zeros(self._count, np.float32)
            ordered[cache.prefix + every] = bias
            mask = torch.from_numpy(ordered).to(self._x.device, self._x.dtype)
            self._mask = mask[None, None, None].expand(1, 1, len(self._x), self._count)
        self._windows = tower.windows(frame, every, indices, cache)

    def block(self, index: int, block: Module) -> None:
        """Runs a block."""
        pairs = self._cache.pairs[index]

        def attend(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
            pairs[0].index_copy_(0, self._rows, key)
            pairs[1].index_copy_(0, self._rows, value)
            if self._windows is not None and self._tower.is_windowed(index):
                return self._windows.attend(query, pairs, scale)
            keys, values = (pairs[kind, : self._count].transpose(0, 1)[None] for kind in (0, 1))
            return self._torch.nn.functional.scaled_dot_product_attention(
                query.transpose(0, 1)[None], keys, values, attn_mask=self._mask, scale=scale
            )[0].transpose(0, 1)

        self._x = through(self._tower, block, self._x, self._places, attend)
        self._tower.after(index, self._x, self._slots, self._cache)

    def finish(self) -> None:
        """Keeps the output."""
        self._tower.finish(self._x, self._slots, self._cache)


class _Windows:
    """Attention within windows, of the queries of some tokens."""

    def __init__(self, torch: ModuleType, windows: list[Tensor], queries: list[Indices], device: Device) -> None:
        """:param windows: the rows of keys of each window. :param queries: the rows of ``query`` that are in it."""
        self._torch = torch

        def padded(rows: Sequence[Tensor | Indices]) -> tuple[Tensor, Tensor]:
            """[windows, longest], and which are real."""
            longest = max(map(len, rows))
            table = torch.zeros((len(rows), longest), dtype=torch.int64)
            real = torch.zeros((len(rows), longest), dtype=torch.bool)
            for window, found in enumerate(rows):
                table[window, : len(found)], real[window, : len(found)] = torch.as_tensor(found), True
            return table.to(device), real.to(device)

        self._keys, real = padded(windows)
        self._mask = real[:, None, None]
        self._queries, self._real = padded(queries)

    def attend(self, query: Tensor, pairs: Tensor, scale: float) -> Tensor:
        """[rows, heads, width of a head]"""
        keys, values = (pairs[kind][self._keys].transpose(1, 2) for kind in (0, 1))
        found = self._torch.nn.functional.scaled_dot_product_attention(
            query[self._queries].transpose(1, 2), keys, values, attn_mask=self._mask, scale=scale
        ).transpose(1, 2)
        output = self._torch.empty_like(query)
        output[self._queries[self._real]] = found[self._real]
        return output


class _Vit:
    """A timm VisionTransformer."""

    parts = 1

    def __init__(self, model: Module, area_bias: float) -> None:
        vit.check_model(model, area_bias)
        module = library("timm.models.vision_transformer", "timm", _NAME)
        attention = library("timm.layers.attention", "timm>=1.0.20", _NAME).Attention
        for block in model.blocks:
            if type(block) is not module.Block or type(block.attn) is not attention:
                kinds = f"{type(block).__name__} with {type(block.attn).__name__}"
                raise Unsuitable(_NAME, "model", kinds, "give a timm model whose blocks are `Block` with `Attention`")
        self.model, self._bias = model, np.float32(area_bias)
        self.blocks, self.weight, self.prefix = model.blocks, model.patch_embed.proj.weight, model.num_prefix_tokens
        self.heads, self.head_width = model.blocks[0].attn.num_heads, model.blocks[0].attn.head_dim

    def check(self, frame: TokenFrame) -> None:
        vit.check_frame(self.model, frame)

    def rows(self, frame: TokenFrame) -> tuple[Tensor, None]:
        torch = library("torch", "torch", _NAME)
        prefix = vit.prefix(self.model)
        return (torch.cat([prefix, vit.embedded(self.model, frame)]) if len(frame.tokens) else prefix), None

    def bias(self, frame: TokenFrame) -> NDArray[np.float32] | None:
        return self._bias * vit.log_area(frame) if self._bias else None

    def is_windowed(self, index: int) -> bool:
        return False

    def windows(self, frame: TokenFrame, every: Indices, indices: Indices, cache: _Cache) -> None:
        return None

    def projected(self, attention: Module, x: Tensor, places: None) -> tuple[Tensor, Tensor, Tensor]:
        qkv = attention.qkv(x).view(x.shape[0], 3, self.heads, self.head_width)
        query, key, value = qkv.unbind(1)
        return attention.q_norm(query), attention.k_norm(key), value

    def scale(self, attention: Module) -> float:
        return float(attention.scale)

    def joined(self, attention: Module, found: Tensor, given: Tensor) -> Tensor:
        found = attention.norm(found)
        if getattr(attention, "gate", None) is not None:
            found = found * attention.gate(given).sigmoid()
        return attention.proj(found)

    def first_scale(self, block: Module) -> Callable[[Tensor], Tensor]:
        return block.ls1

    def second_scale(self, block: Module) -> Callable[[Tensor], Tensor]:
        return block.ls2

    def after(self, index: int, x: Tensor, slots: Tensor, cache: _Cache) -> None:
        pass

    def finish(self, x: Tensor, slots: Tensor, cache: _Cache) -> None:
        features = self.model.norm(x)
        self._before = features[: self.prefix]
        cache.put("features", slots, features[self.prefix :])

    def result(self, cache: _Cache, order: Tensor) -> Tensor:
        torch = library("torch", "torch", _NAME)
        return torch.cat([self._before, cache.outputs["features"][order]])[None]


class _QwenTower:
    """A vision tower of transformers."""

    parts, prefix = 4, 0

    def __init__(self, visual: Module, family: Qwen) -> None:
        family.check_tower(visual)
        self._visual, self._family = visual, family
        self.blocks, self.weight = visual.blocks, next(visual.parameters())
        attention = visual.blocks[0].attn
        self.heads, self.head_width = attention.num_heads, attention.head_dim
        self._module = library(type(visual).__module__, "transformers", _NAME)

    def check(self, frame: TokenFrame) -> None:
        self._family.check_frame(frame)

    def rows(self, frame: TokenFrame) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        torch, visual = library("torch", "torch", _NAME), self._visual
        image = self._family.tokens(frame)
        device = self.weight.device
        x = visual.patch_embed(torch.from_numpy(image.pixel_values).to(device))
        if hasattr(visual, "num_grid_per_side"):
            indices, weights = (torch.from_numpy(taps).to(device) for taps in table_taps(image, visual.num_grid_per_side))
            x = x + (visual.pos_embed(indices) * weights[:, :, None]).sum(1).to(x.dtype)
        return x, visual.rotary_pos_emb(x, torch.from_numpy(image.positions).to(device))

    def bias(self, frame: TokenFrame) -> None:
        return None

    def is_windowed(self, index: int) -> bool:
        return index not in self._visual.fullatt_block_indexes

    def windows(self, frame: TokenFrame, every: Indices, indices: Indices, cache: _Cache) -> _Windows | None:
        visual = self._visual
        if not hasattr(visual, "window_size"):
            return None
        torch = library("torch", "torch", _NAME)
        side = visual.window_size // visual.spatial_merge_size // visual.patch_size
        position = np.full(len(every), -1)
        position[indices] = np.arange(len(indices))
        part = np.arange(self.parts)
        keys, queries = [], []
        for tokens in windows_of(frame, side):
            asked = position[tokens]
            asked = asked[0 <= asked]
            if len(asked):
                keys.append(cache.rows(every[tokens]).cpu())
                queries.append((asked[:, None] * self.parts + part).ravel())
        return _Windows(torch, keys, queries, cache.device)

    def projected(self, attention: Module, x: Tensor, places: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = attention.qkv(x).view(len(x), 3, self.heads, self.head_width).unbind(1)
        query, key = self._module.apply_rotary_pos_emb_vision(query, key, *places)
        return query, key, value

    def scale(self, attention: Module) -> float:
        return float(attention.scaling)

    def joined(self, attention: Module, found: Tensor, given: Tensor) -> Tensor:
        return attention.proj(found)

    def first_scale(self, block: Module) -> Callable[[Tensor], Tensor]:
        return _same

    second_scale = first_scale

    def after(self, index: int, x: Tensor, slots: Tensor, cache: _Cache) -> None:
        chosen = list(getattr(self._visual, "deepstack_visual_indexes", ()))
        if index in chosen:
            cache.put(f"deepstack {chosen.index(index)}", slots, self._visual.deepstack_merger_list[chosen.index(index)](x))

    def finish(self, x: Tensor, slots: Tensor, cache: _Cache) -> None:
        cache.put("pooled", slots, self._visual.merger(x))

    def result(self, cache: _Cache, order: Tensor) -> TowerOutput:
        count = len(cache.outputs) - 1
        return TowerOutput(
            cache.outputs["pooled"][order], [cache.outputs[f"deepstack {index}"][order] for index in range(count)]
        )


def _same(x: Tensor) -> Tensor:
    return x


#: What runs a model.
Tower = _Vit | _QwenTower


def tower_of(model: Module, area_bias: float) -> Tower:
    """What runs the model.

    :raises Unsuitable: if it is of another kind, or in training mode.
    """
    if getattr(model, "training", False):
        raise Unsuitable(_NAME, "model.training", True, "call model.eval()")
    sizes = (getattr(model, "patch_size", None), getattr(model, "spatial_merge_size", None))
    for family in (qwen2_5_vl.MODEL, qwen3_vl.MODEL):
        if sizes == (family.patch, 2):
            if area_bias:
                raise Unsuitable(_NAME, "area_bias", area_bias, "leave it out: a vision tower of Qwen has none")
            return _QwenTower(model, family)
    return _Vit(model, area_bias)
