"""What SGLang's engine takes as ``image_data`` instead of pictures, for Qwen2.5-VL and Qwen3-VL.

Both forms go with ``input_ids`` in which the image token is repeated for each token of the pictures, as the processor of
Hugging Face writes them. SGLang places the tokens by ``image_grid_thw``, so both are for :class:`.qwen.Rows`.
"""

from __future__ import annotations

from typing import Any

from .qwen import Rows, check_has_grid, embeddings, split, tensors


def processor_output(rows: Rows) -> dict[str, Any]:
    """Rows in place of what the image processor gives: ``engine.generate(input_ids=..., image_data=[...])``.

    :raises Unsuitable: for tokens without a grid.
    """
    check_has_grid("models.sglang", rows)
    return {"format": "processor_output", **tensors(rows)}


def precomputed_embedding(rows: Rows, output: Any) -> dict[str, Any]:
    """What the vision tower gave for these rows, so that the server need not run it.

    :param output: of the tower: ``visual(rows, grid_thw)``.
    :raises Unsuitable: for tokens without a grid, or of another count than the rows have.
    """
    check_has_grid("models.sglang", rows)
    split(output, rows)
    grid = tensors(rows)["image_grid_thw"]
    return {"format": "precomputed_embedding", "feature": embeddings(output), "image_grid_thw": grid}
