"""Records what the real libraries compute of small inputs, in ``data/models.npz``; ``test_models.py`` compares with it.

    ~/.cache/foveate/models/bin/python python/tests/record_models.py
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import timm
import torch
import transformers
from models_support import CLIP, SIGLIP, scene
from timm.layers import resample_abs_pos_embed
from transformers import vision_utils
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

FILE = Path(__file__).parent / "data" / "models.npz"


def rows(patch: int, statistics: dict[str, tuple[float, float, float]]) -> dict[str, np.ndarray]:
    """Some columns of the rows of a picture of 2 x 3 merged tokens."""
    processor = Qwen2VLImageProcessor(
        patch_size=patch, image_mean=statistics["mean"], image_std=statistics["std"], do_resize=False
    )
    output = processor(images=[scene(6 * patch, 4 * patch)], return_tensors="np", input_data_format="channels_last")
    columns = np.random.default_rng(0).choice(output["pixel_values"].shape[1], 80, replace=False)
    return {
        f"rows_{patch}": output["pixel_values"][:, columns],
        f"columns_{patch}": columns,
        f"grid_{patch}": output["image_grid_thw"],
    }


def places() -> dict[str, np.ndarray]:
    grid = torch.tensor([[1, 20, 28]])
    order, edges = vision_utils.get_vision_window_index(grid, spatial_merge_size=2, window_size=112, patch_size=14)
    indices, weights = vision_utils.get_vision_interpolation_indices_and_weights(
        grid, 48, mode="bilinear", align_corners=True, spatial_merge_size=2
    )
    return {
        "window_index": order.numpy(),
        "cu_window_seqlens": edges.numpy(),
        "interp_indices": indices.numpy(),
        "interp_weights": weights.numpy(),
        "position_ids": vision_utils.get_vision_position_ids(grid, 2).numpy(),
    }


def mrope() -> dict[str, np.ndarray]:
    """A prompt of 3 words, 2 x 3 image tokens, 2 words, 4 x 2 image tokens, 1 word."""
    kinds = torch.tensor([[0] * 3 + [1] * 6 + [0] * 2 + [1] * 8 + [0]])
    model = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)))
    model.get_vision_position_ids = lambda *args, **keys: Qwen3VLModel.get_vision_position_ids(model, *args, **keys)
    grid = torch.tensor([[1, 4, 6], [1, 8, 4]])
    ids, delta = Qwen3VLModel.get_rope_index(model, torch.zeros_like(kinds), kinds, grid)
    return {"mrope_kinds": kinds.numpy(), "mrope_ids": ids.numpy(), "mrope_delta": delta.numpy()}


def tables() -> dict[str, np.ndarray]:
    """A table of positions, on a finer grid and on a coarser one."""
    table = np.random.default_rng(0).normal(size=(1, 20, 2)).astype(np.float32)
    larger, smaller = (
        resample_abs_pos_embed(torch.from_numpy(table), size, (4, 5), num_prefix_tokens=0).numpy()
        for size in ((7, 9), (3, 2))
    )
    return {"table": table, "table_7x9": larger, "table_3x2": smaller}


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    recorded = {**rows(14, CLIP), **rows(16, SIGLIP), **places(), **mrope(), **tables()}
    versions = f"transformers {transformers.__version__}, timm {timm.__version__}, torch {torch.__version__}"
    np.savez_compressed(FILE, versions=np.array(versions), **recorded)
    print(versions, FILE.stat().st_size, "bytes")
