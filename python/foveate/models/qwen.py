"""What Qwen2.5-VL and Qwen3-VL take; :mod:`.qwen2_5_vl` and :mod:`.qwen3_vl` are the two sets of numbers.

The vision towers cut a picture into patches, and merge 2 x 2 of them into one token of the language model. There are two
ways to them:

- :meth:`Qwen.rows`: pictures, from a ``uniform``, an ``inset`` or a ``windows`` view: what Hugging Face's image processor
  makes of the same pixels.
- :meth:`Qwen.tokens`: tokens of unlike size, from any layout with P = 28 or 32: a token is 2 x 2 patches, so it becomes
  one token of the language model. Their places are given explicitly, to the tower and to the language model.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..frame import sizes_of
from .common import (
    Cells,
    MissingLibrary,
    Place,
    Unsuitable,
    cells,
    check_patch,
    check_tokens,
    content_id,
    grids,
    library,
    normalised,
    pictures,
    positions,
    sources,
)

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from ..frame import TokenFrame

#: Patches a side that are merged into one token of the language model.
_MERGE = 2
#: Frames that a patch spans; a picture is repeated.
_FRAMES = 2


@dataclass(frozen=True, eq=False)
class Rows:
    """Pictures as the image processor gives them.

    :ivar pixel_values: [patches, 3 * 2 * p * p] float32: the patches of each picture in merge order (2 x 2 after 2 x 2),
        each as channel, frame, row, column.
    :ivar image_grid_thw: [pictures, 3] int64: frames (1), rows and columns of patches.
    :ivar places: where each picture lies in the source.
    :ivar ids: for each picture a name of its content, for the cache of a server.
    """

    pixel_values: NDArray[np.float32]
    image_grid_thw: NDArray[np.int64]
    places: tuple[Place, ...]
    ids: tuple[str, ...]

    @property
    def token_counts(self) -> tuple[int, ...]:
        """For each picture how often the prompt repeats the image token."""
        return tuple((self.image_grid_thw.prod(axis=1) // _MERGE**2).tolist())


@dataclass(frozen=True, eq=False)
class Tokens:
    """N tokens of unlike size, with explicit places.

    :ivar pixel_values: [4 N, 3 * 2 * p * p] float32, as in :class:`Rows`.
    :ivar image_grid_thw: [1, 3] int64: (1, 2, 2 N), which says how many patches there are, not where.
    :ivar positions: [4 N, 2] float32: row and column of each patch's centre, in patches of the source at full
        resolution (of a ``uniform`` view, at its own); fractions for larger tokens.
    :ivar grid: the rows and columns that ``positions`` refer to.
    :ivar mrope: [3, N] int64: time (0), row and column of each token for M-RoPE, which knows whole numbers: those of the
        cell at its centre, so tokens that do not overlap have different ones.
    :ivar mrope_side: what the counter of positions advances by after these tokens.
    :ivar scales: [N, 5] int64: width and height in source pixels; column and row among the tokens of this size, which
        begin at the source's corner or, in a block, at the block's; and ``group`` of the record.
    :ivar id: a name of the content, for a cache.
    """

    pixel_values: NDArray[np.float32]
    image_grid_thw: NDArray[np.int64]
    positions: NDArray[np.float32]
    grid: Cells
    mrope: NDArray[np.int64]
    mrope_side: int
    scales: NDArray[np.int64]
    id: str

    @property
    def token_counts(self) -> tuple[int]:
        """How often the prompt repeats the image token: N."""
        return (self.mrope.shape[1],)


@dataclass(frozen=True)
class Qwen:
    """A family of models with the same image processor.

    :ivar name: of the module, for errors.
    :ivar patch: side of a patch in texels.
    :ivar mean: subtracted from R, G, B of 0 to 1.
    :ivar std: what they are divided by then.
    :ivar normalisation: the view's ``normalisation`` with these values.
    """

    name: str
    patch: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    normalisation: str

    @property
    def side(self) -> int:
        """Side of a token of the language model in texels: the P of :meth:`tokens`."""
        return self.patch * _MERGE

    def rows(self, frame: TokenFrame) -> Rows:
        """The picture of a ``uniform`` view, base and blocks of an ``inset`` view, or the windows of a ``windows`` view.

        :raises Unsuitable: if the view has another layout or normalisation, or a picture's sides are not multiples of
            28 (Qwen3-VL: 32).
        """
        where = [grid.place for grid in grids(frame, self.name)]
        texels = normalised(frame, self.name, self.mean, self.std, self.normalisation)
        for place in where:
            if place.width % self.side or place.height % self.side:
                raise Unsuitable(
                    self.name,
                    "patch",
                    frame.info.patch,
                    f"the picture has {place.width} x {place.height} texels, and its sides must be multiples of "
                    f"{self.side}: open the view with patch = {self.side}, or a multiple of it",
                )
        rows = [self._rows(picture) for picture in pictures(frame, texels, self.name)]
        sides = [(1, place.height // self.patch, place.width // self.patch) for place in where]
        return Rows(
            pixel_values=rows[0] if len(rows) == 1 else np.concatenate(rows),
            image_grid_thw=np.array(sides, np.int64),
            places=tuple(where),
            ids=tuple(content_id(frame, indices, self.name) for indices in sources(frame, self.name)),
        )

    def tokens(self, frame: TokenFrame) -> Tokens:
        """The tokens of any view with P = 28 (Qwen3-VL: 32).

        :raises Unsuitable: if the view has another P or normalisation, or the frame has no tokens.
        """
        self.check_frame(frame)
        texels = normalised(frame, self.name, self.mean, self.std, self.normalisation)
        count = len(frame.tokens)
        merged = cells(frame)
        whole = np.floor(positions(frame)).astype(np.int64)
        return Tokens(
            # Side by side they are a picture whose merge order is theirs.
            pixel_values=self._rows(texels.transpose(1, 2, 0, 3).reshape(3, self.side, count * self.side)),
            image_grid_thw=np.array([(1, _MERGE, _MERGE * count)], np.int64),
            positions=positions(frame, _MERGE).astype(np.float32),
            grid=cells(frame, _MERGE),
            mrope=np.stack([np.zeros(count, np.int64), whole[:, 0], whole[:, 1]]),
            mrope_side=max(merged.rows, merged.columns),
            scales=_scales(frame),
            id=content_id(frame, what=self.name),
        )

    def check_frame(self, frame: TokenFrame) -> None:
        """Checks that a frame has tokens of the family's side.

        :raises Unsuitable: if not.
        """
        check_tokens(frame, self.name)
        check_patch(frame, self.name, self.side)

    def tower_arguments(self, visual: Module, *images: Tokens) -> dict[str, Any]:
        """What transformers' own vision tower takes for tokens of unlike size: ``visual(**tower_arguments(visual, image))``.

        Their places are given in place of what it would compute from a grid.

        :param visual: the tower: ``model.model.visual``.
        :param images: one or more; attention stays inside each.
        :returns: tensors on the tower's device.
        :raises MissingLibrary: if this tower does not take places; transformers 5.23 is tested.
        :raises Unsuitable: if the tower is not of this family, or there are no images.
        """
        torch = library("torch", "torch", self.name)
        self.check_tower(visual)
        if not images:
            raise Unsuitable(self.name, "images", (), "give at least one")
        found: dict[str, Sequence[NDArray[Any]]] = {
            "hidden_states": [image.pixel_values for image in images],
            "grid_thw": [image.image_grid_thw for image in images],
            "position_ids": [image.positions for image in images],
        }
        if hasattr(visual, "window_size"):
            side = visual.window_size // visual.spatial_merge_size // visual.patch_size
            found["window_index"], found["cu_window_seqlens"] = _all_windows(images, side)
        if hasattr(visual, "num_grid_per_side"):
            taps = [table_taps(image, visual.num_grid_per_side) for image in images]
            found["interp_indices"], found["interp_weights"] = (list(arrays) for arrays in zip(*taps, strict=True))
        device = next(visual.parameters()).device
        return {name: torch.from_numpy(np.concatenate(arrays)).to(device) for name, arrays in found.items()}

    def tower(self, visual: Module, *images: Tokens) -> Any:
        """Runs transformers' own vision tower on tokens of unlike size.

        :param visual: as :meth:`tower_arguments`, as ``images``.
        :returns: its output: ``pooler_output`` is [N, width of the language model], the tokens of all images; of Qwen3-VL
            ``deepstack_features`` is a list of the same shape.
        :raises MissingLibrary: as :meth:`tower_arguments`, as is :class:`Unsuitable`.
        """
        return visual(**self.tower_arguments(visual, *images))

    def model_arguments(
        self, model: Module, input_ids: Tensor, *images: Rows | Tokens, output: Any = None
    ) -> dict[str, Any]:
        """Everything that a whole model of transformers takes for a prompt with images: ``model(**...)`` and
        ``model.generate(**...)``.

        For :class:`Rows` these are the keys and values that the model's own processor gives. For :class:`Tokens` the places
        are given explicitly, and the vision tower runs here unless its output is given.

        :param model: a ``Qwen2_5_VLForConditionalGeneration`` or ``Qwen3VLForConditionalGeneration``.
        :param input_ids: the prompt, [1, length], in which ``model.config.image_token_id`` is repeated ``token_counts``
            times for each image.
        :param images: the images in the order of the prompt: of :meth:`rows`, which may have several pictures each, or all
            of
            :meth:`tokens`.
        :param output: what the tower gave for the tokens of all images, such as :meth:`.VideoEncoder.encode` does.
        :returns: tensors on the device of ``input_ids``.
        :raises MissingLibrary: as :meth:`tower_arguments`.
        :raises Unsuitable: if the prompt has other numbers of image tokens, or there are images of both kinds; and as
            :meth:`tower_arguments`.
        """
        if input_ids.shape[0] != 1:
            raise Unsuitable(self.name, "input_ids", tuple(input_ids.shape), "give one prompt at a time, [1, length]")
        pictures = [image for image in images if isinstance(image, Rows)]
        if not pictures:
            tokens = [image for image in images if isinstance(image, Tokens)]
            return self._arguments_of_tokens(model, input_ids, tokens, output)
        if len(pictures) < len(images):
            raise Unsuitable(self.name, "images", "rows and tokens", "give one kind for all images of a prompt")
        if output is not None:
            raise Unsuitable(self.name, "output", type(output).__name__, "leave it out: rows go through the model")
        return self._arguments_of_rows(model, input_ids, pictures)

    def _arguments_of_rows(self, model: Module, input_ids: Tensor, images: Sequence[Rows]) -> dict[str, Any]:
        torch = library("torch", "torch", self.name)
        is_image = input_ids == model.config.image_token_id
        _image_runs(is_image.cpu().numpy(), [count for image in images for count in image.token_counts], self.name)
        device = input_ids.device
        arguments = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
        # Older versions find images by their tokens, and refuse the argument.
        if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
            arguments["mm_token_type_ids"] = is_image.to(input_ids.dtype)
        for name in ("pixel_values", "image_grid_thw"):
            arguments[name] = torch.cat([torch.from_numpy(getattr(image, name)) for image in images]).to(device)
        return arguments

    def _arguments_of_tokens(
        self, model: Module, input_ids: Tensor, images: Sequence[Tokens], output: Any
    ) -> dict[str, Any]:
        torch = library("torch", "torch", self.name)
        ids, _ = mrope_ids((input_ids == model.config.image_token_id).cpu().numpy(), *images)
        found = self.tower(model.model.visual, *images) if output is None else output
        counts = [image.mrope.shape[1] for image in images]
        if len(found.pooler_output) != sum(counts):
            raise Unsuitable(self.name, "output", tuple(found.pooler_output.shape), f"the images have {counts} tokens")
        # As the model's own `get_image_features` gives it.
        features = SimpleNamespace(pooler_output=found.pooler_output.split(counts))
        if getattr(found, "deepstack_features", None):
            features.deepstack_features = [feature.split(counts) for feature in found.deepstack_features]
        return {
            "input_ids": input_ids,
            "position_ids": torch.from_numpy(ids)[:, None].to(input_ids.device),
            "mm_encoder_outputs": {"image": features},
        }

    def _rows(self, picture: NDArray[np.float32]) -> NDArray[np.float32]:
        """[3, height, width] -> [patches in merge order, 3 * 2 * p * p]."""
        _, height, width = picture.shape
        side = self.patch
        blocks = picture.reshape(3, height // self.side, _MERGE, side, width // self.side, _MERGE, side)
        blocks = blocks.transpose(1, 4, 2, 5, 0, 3, 6)[:, :, :, :, :, None]
        frames = np.broadcast_to(blocks, (*blocks.shape[:5], _FRAMES, side, side))
        return frames.reshape(-1, 3 * _FRAMES * side * side)

    def check_tower(self, visual: Module) -> None:
        """Checks that ``visual`` belongs to this family, and that its code asks for places before it computes them:
        another version would ignore them silently."""
        found = (getattr(visual, "patch_size", None), getattr(visual, "spatial_merge_size", None))
        if found != (self.patch, _MERGE):
            raise Unsuitable(
                self.name,
                "visual",
                type(visual).__name__,
                f"its patch and merge sizes are {found}, not {(self.patch, _MERGE)}: give the `model.model.visual` of "
                "such a model",
            )
        asks = {"get_vision_position_ids"}
        asks |= {"get_vision_window_index"} if hasattr(visual, "window_size") else set()
        asks |= {"get_vision_interpolation_indices_and_weights"} if hasattr(visual, "num_grid_per_side") else set()
        homes = [vars(sys.modules[kind.__module__]) for kind in type(visual).__mro__]
        if not any(asks <= home.keys() for home in homes):
            raise MissingLibrary(
                f"{self.name} cannot give places to {type(visual).__name__}: its code does not use "
                f"{', '.join(sorted(asks))}: pip install 'transformers>=5.23'"
            )


def windows(tokens: Tokens, side: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The groups of tokens that attend to each other in Qwen2.5-VL's layers of window attention.

    A window holds ``side`` x ``side`` tokens of one size, as in the pictures that the model was trained on: at full
    resolution these are its own windows, and a large token's neighbours are large ones.

    :returns: the order of the tokens, [N], and where each window begins in it, and the end, in patches.
    """
    order, starts = _grouped(tokens.scales, side)
    return order, (starts * _MERGE**2).astype(np.int32)


def windows_of(frame: TokenFrame, side: int) -> list[NDArray[np.int64]]:
    """The tokens of each of :func:`windows` of a frame."""
    order, starts = _grouped(_scales(frame), side)
    return np.split(order, starts[1:-1])


def _grouped(scales: NDArray[np.int64], side: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order of tokens, and where each window begins in it, and the end."""
    width, height, column, row, group = scales.T
    # The last key is the first to sort by; equal ones stay in their order.
    keys = np.stack([column // side, row // side, group, width, height])
    order = np.lexsort(keys)
    is_new = (np.diff(keys[:, order], axis=1) != 0).any(axis=0)
    return order.astype(np.int64), np.flatnonzero(np.concatenate([[True], is_new, [True]]))


def _scales(frame: TokenFrame) -> NDArray[np.int64]:
    """:attr:`Tokens.scales`."""
    tokens = frame.tokens
    places = np.stack([tokens["x"], tokens["y"]], axis=1).astype(np.int64)
    sizes, groups = sizes_of(tokens, frame.info.patch).astype(np.int64), tokens["group"].astype(np.int64)
    if frame.info.layout == "inset":
        for group in np.unique(groups[0 < groups]):
            places[groups == group] -= places[groups == group].min(axis=0)
    return np.concatenate([sizes, places // sizes, groups[:, None]], axis=1)


def _all_windows(images: Sequence[Tokens], side: int) -> tuple[list[NDArray[np.int64]], list[NDArray[np.int32]]]:
    """:func:`windows` of several images, one after the other."""
    orders, edges = [], [np.zeros(1, np.int32)]
    done = 0
    for image in images:
        order, own_edges = windows(image, side)
        orders.append(order + done)
        edges.append(own_edges[1:] + np.int32(done * _MERGE**2))
        done += len(order)
    return orders, edges


def table_taps(tokens: Tokens, side: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Where Qwen3-VL's table of ``side`` x ``side`` learned positions is read for each patch: bilinearly, its corners on
    the centres of the corner patches.

    :returns: the entries, [4 N, 4], and their weights.
    """
    # In float32, as the model computes it.
    spans = np.maximum(np.array([tokens.grid.rows, tokens.grid.columns]) - 1, 1).astype(np.float32)
    place = tokens.positions * np.float32(side - 1) / spans
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, side - 1)
    rest = place - low.astype(np.float32)
    taps, weights = np.stack([low, high], axis=-1), np.stack([1 - rest, rest], axis=-1)
    indices = taps[:, 0, :, None] * side + taps[:, 1, None, :]
    products = weights[:, 0, :, None] * weights[:, 1, None, :]
    return indices.reshape(-1, 4), products.reshape(-1, 4)


def mrope_ids(is_image: ArrayLike, *images: Tokens) -> tuple[NDArray[np.int64], int]:
    """The M-RoPE positions of a prompt, for ``position_ids`` of the language model.

    :param is_image: [length]: which tokens of the prompt stand for images, as ``input_ids == image_token_id``.
    :param images: the tokens of each image, in the order of the prompt; text lies between two images.
    :returns: [3, length] int64: time, row and column; and the delta of later positions, for ``rope_deltas``.
    :raises Unsuitable: if the prompt has other numbers of image tokens.
    """
    mask = np.asarray(is_image, bool).reshape(-1)
    runs = _image_runs(mask, [image.mrope.shape[1] for image in images], "mrope_ids")
    ids = np.empty((3, len(mask)), np.int64)
    done = position = 0
    for (first, end), image in zip(runs.tolist(), images, strict=True):
        ids[:, done:first] = np.arange(position, position + first - done)
        position += first - done
        ids[:, first:end] = position + image.mrope
        position += image.mrope_side
        done = end
    ids[:, done:] = np.arange(position, position + len(mask) - done)
    return ids, (int(ids.max()) + 1 - len(mask) if len(mask) else 0)


def _image_runs(is_image: ArrayLike, expected: Sequence[int], user: str) -> NDArray[np.int64]:
    """Where the image tokens of each image begin and end in a prompt, [images, 2].

    :raises Unsuitable: if there are other numbers of them than ``expected``.
    """
    mask = np.asarray(is_image, bool).reshape(-1)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    runs = edges.reshape(-1, 2)
    found = (runs[:, 1] - runs[:, 0]).tolist()
    if found != list(expected):
        raise Unsuitable(
            user, "is_image", found, f"the images have {list(expected)} tokens: repeat the image token as often"
        )
    return runs


def embeddings(output: Any) -> Tensor:
    """What a tower gave, in one tensor, as servers take it: of Qwen3-VL the features of its inner layers follow along
    the last axis.

    :param output: of :meth:`Qwen.tower`, or of the tower itself.
    """
    features = getattr(output, "deepstack_features", None)
    if not features:
        return output.pooler_output
    torch = library("torch", "torch", "models.qwen.embeddings")
    return torch.cat([output.pooler_output, *features], dim=-1)


def split(output: Any, rows: Rows) -> Sequence[Tensor]:
    """:func:`embeddings` for each picture.

    :raises Unsuitable: if there are not as many as the pictures have.
    """
    found = embeddings(output)
    counts = list(rows.token_counts)
    if len(found) != sum(counts):
        raise Unsuitable("models.qwen", "output", tuple(found.shape), f"the pictures have {counts} tokens")
    return found.split(counts)


def check_has_grid(user: str, rows: object) -> None:
    """Checks that a server can place these tokens, which it does by their grid.

    :raises Unsuitable: for :class:`Tokens`.
    """
    if not isinstance(rows, Rows):
        raise Unsuitable(
            user,
            "rows",
            type(rows).__name__,
            'the server places tokens by a grid: give rows() of a view with layout = "uniform", "inset" or '
            '"windows"; tokens of '
            "unlike size run in transformers",
        )


def tensors(rows: Rows) -> Mapping[str, Tensor]:
    """``pixel_values`` and ``image_grid_thw`` as tensors that share the arrays' memory: what a vision tower takes, and a
    server. A whole model needs more: :meth:`Qwen.model_arguments`."""
    torch = library("torch", "torch", "models.qwen.tensors")
    return {name: torch.from_numpy(getattr(rows, name)) for name in ("pixel_values", "image_grid_thw")}
