"""What vLLM takes as embeddings of pictures, for Qwen2.5-VL and Qwen3-VL, with names by which it caches them.

The engine needs ``enable_mm_embeds=True``, the server ``--enable-mm-embeds``. vLLM places the tokens by
``image_grid_thw``, so this is for :class:`.qwen.Rows`. For pictures, see ``Crop.parts(uuid=True)``.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

from .common import library
from .qwen import Rows, check_has_grid, embeddings, split, tensors

if TYPE_CHECKING:
    from torch import Tensor


def multi_modal(rows: Rows, output: Any) -> dict[str, Any]:
    """For the engine: ``llm.generate({"prompt": ..., **multi_modal(rows, output)})``.

    :param output: of the tower: ``visual(rows, grid_thw)``.
    :raises Unsuitable: for tokens without a grid, or of another count than the rows have.
    """
    check_has_grid("models.vllm", rows)
    split(output, rows)
    image = {"image_embeds": embeddings(output), "image_grid_thw": tensors(rows)["image_grid_thw"]}
    return {"multi_modal_data": {"image": image}, "multi_modal_uuids": {"image": list(rows.ids)}}


def parts(rows: Rows, output: Any) -> list[dict[str, Any]]:
    """For the server: a content part of a chat message for each picture.

    :param output: of the tower: ``visual(rows, grid_thw)``.
    :raises Unsuitable: as :func:`multi_modal`.
    """
    check_has_grid("models.vllm", rows)
    grids = tensors(rows)["image_grid_thw"]
    return [
        {
            "type": "image_embeds",
            "image_embeds": {"image_embeds": _encoded(picture), "image_grid_thw": _encoded(grid)},
            "uuid": uuid,
        }
        for picture, grid, uuid in zip(split(output, rows), grids, rows.ids, strict=True)
    ]


def cached_part(uuid: str, kind: str = "image_embeds") -> dict[str, Any]:
    """A content part without the content, which the server still has in its cache: it refuses the request otherwise.

    :param uuid: of :attr:`.qwen.Rows.ids` or :attr:`.crops.Crop.id`.
    :param kind: ``"image_embeds"``, or ``"image_url"`` for a crop.
    """
    return {"type": kind, kind: None, "uuid": uuid}


def _encoded(tensor: Tensor) -> str:
    """As vLLM's ``tensor2base64`` does."""
    file = io.BytesIO()
    # A clone, because a part of a tensor is saved with all of it.
    library("torch", "torch", "models.vllm").save(tensor.detach().cpu().clone(), file)
    return base64.b64encode(file.getvalue()).decode("ascii")
