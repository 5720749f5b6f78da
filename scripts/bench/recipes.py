"""Library recipes for the same result: OpenCV with NumPy, and PyTorch.

Each recipe takes a frame of 4:2:0 samples to normalised half-precision patches, the same patches that Foveate's token
plan has. A library that is not installed has no recipes here.
"""

import json
import os

import numpy as np
from measuring import FoveateError, output

try:
    import cv2
except ImportError:
    cv2 = None
try:
    import torch
    from torch.nn import functional
except ImportError:
    torch = None

THREADS = 2
LEVELS = 5  # above the frame itself
# Mean difference from Foveate's tokens that rounding explains.
DIFFERENCE_MAX = 0.02


def recipes(plan, frames):
    """(name, kind, function of a frame) for all recipes that can run here."""
    found = []
    if cv2:
        cv2.setNumThreads(THREADS)
        opencv = OpenCv(plan)
        found += [
            ("OpenCV pyramid", "full", opencv.pyramid),
            ("OpenCV + NumPy", "full", opencv.tokens),
            ("OpenCV + NumPy", "incremental", unless_equal(opencv.equal, opencv.tokens, frames[-1])),
        ]
    if torch:
        torch.set_num_threads(THREADS)
        on_torch = Torch(plan)
        name = f"PyTorch ({on_torch.device})"
        found += [
            (name, "full", on_torch.tokens),
            (name, "incremental", unless_equal(on_torch.equal, on_torch.tokens, frames[-1])),
        ]
    return found


def dumped(program, folder, *arguments):
    """Foveate's plan and frames, one array each, which `foveate bench` leaves in a folder with its tokens."""
    output(program, "bench", *arguments, "--dump", folder)
    with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
        plan = json.load(file)
    if plan["format"] not in ("NV12", "I420") or plan["width"] % 2 or plan["height"] % 2:
        raise FoveateError("the recipes take 4:2:0 of even sizes")
    if max(levels_of(plan)) > LEVELS:
        raise FoveateError("the plan has more levels than the recipes")
    samples = np.fromfile(os.path.join(folder, f"frames.{plan['format'].lower()}"), dtype=np.uint8)
    shape = plan["frame_count"], plan["height"] * 3 // 2, plan["width"]
    return plan, [np.copy(frame) for frame in samples.reshape(shape)]


def check(plan, folder, name, found):
    """Fails unless a recipe's tokens of the frame `tokens_of_frame`, level by level, equal Foveate's, except for
    rounding.
    """
    side = plan["patch_side"]
    expected = np.fromfile(os.path.join(folder, "tokens-0.bin"), dtype=np.float16).reshape(-1, 3, side, side)
    order = np.argsort(levels_of(plan), kind="stable")
    difference = float(np.abs(np.asarray(found, dtype=np.float32) - expected[order].astype(np.float32)).mean())
    if not difference <= DIFFERENCE_MAX:
        raise FoveateError(f"{name}: other tokens than Foveate's ({difference:.3f} off)")


def versions():
    """Name and version of each library."""
    libraries = {"OpenCV": cv2, "NumPy": np, "PyTorch": torch}
    return {name: library.__version__ for name, library in libraries.items() if library}


def unless_equal(equal, function, first):
    """The recipe that keeps its result while the frame equals the one before it."""
    state = {"frame": first, "result": function(first)}

    def step(frame):
        if not equal(frame, state["frame"]):
            state["result"] = function(frame)
        state["frame"] = frame
        return state["result"]

    return step


def levels_of(plan):
    """The pyramid level of each token; each token of the layouts foveal and uniform is a patch of a level."""
    return [step.bit_length() - 1 for _, _, step, _ in plan["views"][0]]


def patch_indices(plan, level):
    """Flat indices of the pixels of each patch of a level; [patches, side, side]."""
    width, height = plan["levels"][level]
    side = np.arange(plan["patch_side"])
    tokens = zip(levels_of(plan), plan["views"][0], strict=True)
    places = np.array([(x >> at, y >> at) for at, (x, y, _, _) in tokens if at == level], dtype=np.int64).reshape(-1, 2)
    # Patches may extend beyond the right and the lower edge, and repeat the edge pixels there.
    columns = np.minimum(places[:, 0, None] + side, width - 1)
    rows = np.minimum(places[:, 1, None] + side, height - 1)
    return rows[:, :, None] * width + columns[:, None, :]


def scale_and_shift(plan):
    """Scale and offset that normalise 0..=255, for R, G and B."""
    mean, std = (np.array(plan[name], dtype=np.float32)[:, None, None] for name in ("mean", "std"))
    return 1 / (255 * std), -mean / std


class OpenCv:
    """cvtColor, resize with INTER_AREA, and a gather by NumPy."""

    def __init__(self, plan):
        self.code = {"NV12": cv2.COLOR_YUV2RGB_NV12, "I420": cv2.COLOR_YUV2RGB_I420}[plan["format"]]
        self.sizes = [tuple(size) for size in plan["levels"][: LEVELS + 1]]
        self.indices = [patch_indices(plan, level) for level in range(LEVELS + 1)]
        self.scale, self.shift = scale_and_shift(plan)

    @staticmethod
    def equal(one, other):
        return np.array_equal(one, other)

    def pyramid(self, frame):
        levels = [cv2.cvtColor(frame, self.code)]
        for size in self.sizes[1:]:
            levels.append(cv2.resize(levels[-1], size, interpolation=cv2.INTER_AREA))
        return levels

    def tokens(self, frame):
        levels = self.pyramid(frame)
        picked = [level.reshape(-1, 3)[index] for level, index in zip(levels, self.indices, strict=True)]
        patches = np.concatenate(picked).transpose(0, 3, 1, 2)
        return (patches * self.scale + self.shift).astype(np.float16)


class Torch:
    """Everything in tensors: conversion, avg_pool2d, a gather; on a GPU with the upload and the way back."""

    def __init__(self, plan):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.is_nv12 = plan["format"] == "NV12"
        self.width, self.height = plan["levels"][0]
        indices = [patch_indices(plan, level) for level in range(LEVELS + 1)]
        self.indices = [torch.from_numpy(index).to(self.device) for index in indices]
        self.scale, self.shift = (torch.from_numpy(factor).to(self.device) for factor in scale_and_shift(plan))
        # BT.601, limited range, as cvtColor has it; rows are R, G, B, columns Y, Cb, Cr.
        self.matrix = torch.tensor(
            [[1.164384, 0, 1.596027], [1.164384, -0.391762, -0.812968], [1.164384, 2.017232, 0]], device=self.device
        )
        self.offset = torch.tensor([16.0, 128.0, 128.0], device=self.device)[:, None]

    @staticmethod
    def equal(one, other):
        return torch.equal(torch.from_numpy(one), torch.from_numpy(other))

    def rgb(self, frames):
        """The pictures of samples [N, rows, width]: [N, 3, height, width] from 0 to 255."""
        samples = torch.from_numpy(frames).to(self.device)
        luma, chroma = samples[:, None, : self.height].float(), samples[:, self.height :]
        half = (self.height // 2, self.width // 2)
        chroma = chroma.reshape(-1, *half, 2).permute(0, 3, 1, 2) if self.is_nv12 else chroma.reshape(-1, 2, *half)
        chroma = functional.interpolate(chroma.float(), scale_factor=2, mode="nearest")
        ycbcr = torch.cat([luma, chroma], dim=1).flatten(2)
        return (self.matrix @ (ycbcr - self.offset)).clamp_(0, 255).view(-1, 3, self.height, self.width)

    def patches(self, level, number):
        """The patches of a level [N, 3, height, width]: [N, patches, 3, side, side]."""
        return level.flatten(2)[:, :, self.indices[number]].transpose(1, 2)

    @torch.no_grad() if torch else (lambda function: function)
    def batch(self, frames):
        """The tokens of frames [N, rows, width]."""
        level = self.rgb(frames)
        picked = []
        for number in range(LEVELS + 1):
            picked.append(self.patches(level, number))
            if number < LEVELS:
                level = functional.avg_pool2d(level, 2, ceil_mode=True, count_include_pad=False)
        # On a GPU the copy back waits for everything before it.
        return (torch.cat(picked, dim=1) * self.scale + self.shift).half().cpu()

    def tokens(self, frame):
        return self.batch(frame[None])[0]
