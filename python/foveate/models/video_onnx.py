"""Runs a vision transformer on video in ONNX Runtime, and computes only the tokens that changed: without PyTorch.

    video_onnx.export(model, "step.onnx")               # once, with PyTorch and timm

    encoder = video_onnx.VideoEncoder("step.onnx")      # anywhere, with ONNX Runtime
    output = encoder.encode(frame)                      # an array, [1, prefix + N, D]

The file holds one step: some tokens go through all blocks, and attend to keys and values of all tokens. Which tokens are
computed is decided as in :class:`.video.VideoEncoder`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import vit
from .common import Unsuitable, check_patch, check_tokens, library, normalised
from .incremental import Incremental, Indices, part

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from ..frame import TokenFrame

_NAME = "models.video_onnx"
#: Under this name the file says what :class:`VideoEncoder` must know.
_KEY = "foveate"
#: Changes when the inputs or outputs of a step do.
_VERSION = 1


def export(model: Module, path: str | PathLike[str]) -> None:
    """Writes the step of a model as an ONNX file.

    :param model: as for :class:`.video.VideoEncoder`, of timm, in float32 and on the CPU.
    :raises Unsuitable: if the model is of another kind.
    :raises MissingLibrary: if torch, timm, onnx or onnxscript is missing.
    """
    from . import video

    torch = library("torch", "torch", _NAME)
    library("onnxscript", "onnx onnxscript", _NAME)
    vit.check_model(model, 0.0)
    tower = video.tower_of(model, 0.0)
    if tower.weight.dtype != torch.float32 or tower.weight.device.type != "cpu":
        raise Unsuitable(_NAME, "model", f"{tower.weight.dtype} on {tower.weight.device}", "call model.float().cpu()")
    grid, sizes = vit.table_sizes(model)
    mean, std = vit.normalisation(model)
    patch, prefix, count, fresh = model.patch_embed.patch_size[0], tower.prefix, 11, 5
    shape = (len(tower.blocks), 2, tower.heads, tower.head_width)
    example = (
        torch.zeros(fresh, 3, patch, patch),
        torch.zeros(fresh, grid[0] * grid[1] + sizes),
        torch.zeros(count, *shape),
        torch.arange(prefix + fresh),
        torch.zeros(count),
    )
    dimension = torch.export.Dim.DYNAMIC
    program = torch.onnx.export(
        _step(torch, tower, video.through).eval(),
        example,
        input_names=["texels", "places", "kept", "rows", "bias"],
        output_names=["features", "pairs"],
        dynamic_shapes=tuple({0: dimension} for _ in example),
        dynamo=True,
        verbose=False,
    )
    about = {
        "version": _VERSION, "patch": patch, "grid": list(grid), "sizes": sizes, "prefix": prefix, "mean": list(mean),
        "std": list(std), "pairs": list(shape), "width": int(model.embed_dim),
    }
    program.model.metadata_props[_KEY] = json.dumps(about)
    program.save(fspath(path))


def _step(torch: Any, tower: Any, through: Callable[..., Tensor]) -> Module:
    """A module that computes some tokens: their features and their keys and values, given those of all."""

    class Step(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = tower.model

        def forward(self, texels: Tensor, places: Tensor, kept: Tensor, rows: Any, bias: Any) -> Any:
            x = torch.cat([vit.prefix(self.model), vit.placed(self.model, texels, places)])
            pairs = []
            for index, block in enumerate(self.model.blocks):

                def attend(query: Tensor, key: Tensor, value: Tensor, scale: float, index: int = index) -> Tensor:
                    pairs.append(torch.stack([key, value], 1))
                    keys, values = (
                        kept[:, index, kind].index_copy(0, rows, fresh).transpose(0, 1)
                        for kind, fresh in enumerate((key, value))
                    )
                    logits = (query * scale).transpose(0, 1) @ keys.transpose(1, 2) + bias
                    return (logits.softmax(-1) @ values).transpose(0, 1)

                x = through(tower, block, x, None, attend)
            return self.model.norm(x), torch.stack(pairs, 1)

    return Step()


class VideoEncoder(Incremental):
    """A vision transformer that keeps what it computed of tokens that did not change, in ONNX Runtime.

    As :class:`.video.VideoEncoder`, with the same decisions.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        tolerance: float = 4.0,
        full_every: int = 64,
        full_after: float = 3.0,
        full_share: float = 0.7,
        budget: int = 1024,
        area_bias: float = 0.0,
        threads: int = 0,
        providers: Sequence[str] = ("CPUExecutionProvider",),
    ) -> None:
        """
        :param path: a file that :func:`export` wrote.
        :param threads: of ONNX Runtime; 0: one for each core.
        :param providers: of ONNX Runtime, as ``"CUDAExecutionProvider"``. Keys and values stay in the CPU's memory.

        The others are as for :class:`.video.VideoEncoder`.

        :raises Unsuitable: if the file is another one, or a parameter is out of its range.
        :raises MissingLibrary: if onnxruntime is missing.
        """
        super().__init__(_NAME, tolerance, full_every, full_after, full_share, budget)
        if not 0 <= area_bias <= 1:
            raise Unsuitable(_NAME, "area_bias", area_bias, "give a number from 0 to 1")
        onnxruntime = library("onnxruntime", "onnxruntime", _NAME)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(fspath(path), options, providers=list(providers))
        except Exception as error:
            # Its errors have no class of their own.
            raise Unsuitable(_NAME, "path", fspath(path), f"give a file that video_onnx.export wrote ({error})") from error
        about = json.loads(self._session.get_modelmeta().custom_metadata_map.get(_KEY, "{}"))
        if about.get("version") != _VERSION:
            raise Unsuitable(_NAME, "path", fspath(path), "give a file that video_onnx.export of this version wrote")
        self._about, self._bias = about, np.float32(area_bias)
        self._prefix = int(about["prefix"])
        self._has_prefix = 0 < self._prefix

    def _check(self, frame: TokenFrame) -> None:
        check_tokens(frame, _NAME)
        check_patch(frame, _NAME, self._about["patch"])

    def _allocate(self, capacity: int) -> None:
        rows = self._prefix + capacity
        self._pairs = np.zeros((rows, *self._about["pairs"]), np.float32)
        self._features = np.zeros((rows, self._about["width"]), np.float32)

    def _move(self, sources: list[int], targets: list[int]) -> None:
        for kept in (self._pairs[self._prefix :], self._features[self._prefix :]):
            kept[targets] = kept[sources]

    def _run(self, frame: TokenFrame, indices: Indices, slots: Indices, every: Indices) -> None:
        about, chosen = self._about, part(frame, indices)
        rows = np.concatenate([np.arange(self._prefix), self._prefix + slots])
        bias = np.zeros(self._prefix + len(every), np.float32)
        if self._bias:
            bias[self._prefix + every] = self._bias * vit.log_area(frame)
        mean, std = about["mean"], about["std"]
        texels = normalised(chosen, _NAME, mean, std, f"{{ mean = {mean}, std = {std} }}")
        given = {
            "texels": texels,
            "places": vit.place_weights(chosen, tuple(about["grid"]), about["sizes"]),
            "kept": self._pairs[: len(bias)],
            "rows": rows,
            "bias": bias,
        }
        features, pairs = self._session.run(["features", "pairs"], given)
        self._features[rows], self._pairs[rows] = features, pairs

    def _result(self, order: Indices) -> NDArray[np.float32]:
        rows = np.concatenate([np.arange(self._prefix), self._prefix + order])
        return self._features[rows][None]
