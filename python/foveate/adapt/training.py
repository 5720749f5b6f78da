"""Trains the student: tokens of unlike size, beside the same model's features of all patches."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models import vit
from ..models.common import library
from . import model as models
from . import pictures
from .errors import Unadaptable
from .pictures import Looks, Picture

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from ..frame import TokenFrame

#: What is measured of held-out pictures, as cosines with the features of all patches: of each patch with the token over it,
#: the same less the mean of the picture, and of the class token.
MEASURES = ("tokens", "less the mean", "class")
#: Share of the steps in which the rate rises.
_WARM_UP = 0.05
#: Weights of the losses of the mean offset and of the class token.
_OFFSET, _CLASS = 0.25, 0.25
#: Norm that gradients are cut to.
_CLIP = 1.0


class Settings(NamedTuple):
    """How to train. What is not here does not change what comes out."""

    rank: int
    has_sizes: bool
    has_norms: bool
    steps: int
    batch: int
    rate: float
    side: int
    area_bias: float
    precision: str
    seed: int


class Trainer:
    """A run, which can be ended after any step and continued.

    :ivar step: Steps so far.
    :ivar history: What was measured, a dict for each time.
    """

    def __init__(
        self,
        model: Module,
        settings: Settings,
        looks: Looks,
        sets: tuple[Sequence[Picture], Sequence[Picture], Sequence[Picture]],
        device: str,
        teacher_cache: Path | None,
    ) -> None:
        """:param sets: pictures to learn from, to validate with, and held-out ones of another source."""
        torch = library("torch", "torch", "foveate.adapt")
        engine = library("foveate_engine", "./python/engine of Foveate's checkout", "foveate.adapt")
        self._torch, self._engine = torch, engine.Engine("cpu", threads=1)
        self._settings, self._looks, self._device = settings, looks, device
        self._learned, self._validated, self._held_out = sets
        torch.manual_seed(settings.seed)
        self._base = models.digest(model)
        self._teacher = _Teacher(self, copy.deepcopy(model).to(device), teacher_cache)
        self.model = model.to(device)
        self.parameters = models.prepare(self.model, settings.rank, settings.has_sizes, settings.has_norms)
        if not self.parameters:
            raise Unadaptable("nothing would learn: give --rank above 0, --norms, or leave out --no-sizes")
        self.model.to(device)
        weights = [value for name, value in self.parameters.items() if value.ndim > 1]
        others = [value for name, value in self.parameters.items() if value.ndim <= 1]
        groups = [{"params": weights, "weight_decay": 1e-2}, {"params": others, "weight_decay": 0.0}]
        self._optimizer = torch.optim.AdamW([group for group in groups if group["params"]], settings.rate)
        self._scaler = torch.amp.GradScaler(device, enabled=settings.precision == "f16")
        self.step = 0
        self.history: list[dict[str, Any]] = []

    @property
    def identity(self) -> str:
        """Of everything that a run depends on: one can only be continued with the same."""
        things = [self._base, self._settings, self._looks]
        things += [[str(picture.path) for picture in each] for each in (self._learned, self._validated, self._held_out)]
        return hashlib.sha256(repr(things).encode()).hexdigest()[:16]

    def run(self, until: int) -> float:
        """Trains up to a step; returns the mean loss."""
        losses = []
        while self.step < until:
            losses.append(self._one())
        return float(np.mean(losses)) if losses else math.nan

    def _one(self) -> float:
        settings = self._settings
        for group in self._optimizer.param_groups:
            group["lr"] = settings.rate * rate_at(self.step, settings.steps)
        chance = np.random.default_rng([settings.seed, 2, self.step])
        drawn = self._looks.draw(chance)
        frames, targets = [], []
        for number in range(settings.batch):
            picture = self._picture(self.step * settings.batch + number)
            frames.append(self._looks.tokens(self._engine, picture, drawn, chance))
            targets.append(self._teacher.features(picture))
        with self._mixed():
            outputs = features(self.model, frames, settings.area_bias)
        loss = self._torch.stack([
            loss_of(frame, output.float(), target) for frame, output, target in zip(frames, outputs, targets, strict=True)
        ]).mean()
        self._optimizer.zero_grad()
        self._scaler.scale(loss).backward()
        self._scaler.unscale_(self._optimizer)
        self._torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), _CLIP)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self.step += 1
        return float(loss.detach())

    def _picture(self, index: int) -> NDArray[np.uint8]:
        """The picture with this number: each occurs once before any does again."""
        turn, place = divmod(index, len(self._learned))
        order = np.random.default_rng([self._settings.seed, 3, turn]).permutation(len(self._learned))
        return self.read(self._learned[order[place]])

    def read(self, picture: Picture) -> NDArray[np.uint8]:
        """A picture as it is learned from."""
        found = pictures.read(picture.path, self._settings.side)
        if found is None:
            raise Unadaptable(f"{picture.path} cannot be read any more: put it back, or give another --out")
        return found

    def _mixed(self) -> Any:
        dtype = {"f16": self._torch.float16, "bf16": self._torch.bfloat16}.get(self._settings.precision)
        return self._torch.autocast(self._device.partition(":")[0], dtype, enabled=dtype is not None)

    def measure(self, loss: float | None) -> dict[str, Any]:
        """Measures the model on validation and held-out pictures; adds it to the history.

        :param loss: mean of the steps since the last time.
        """
        found: dict[str, Any] = {"step": self.step, "loss": loss}
        for name, chosen in (("validation", self._validated), ("held_out", self._held_out)):
            if chosen:
                found[name] = self._agreement(chosen)
        self.history.append(found)
        return found

    def _agreement(self, chosen: Sequence[Picture]) -> dict[str, float]:
        """The means of :data:`MEASURES` by name: each picture is looked at once in each layout, always in one place."""
        budget = round(math.sqrt(self._looks.budgets[0] * self._looks.budgets[1]))
        found = []
        for number, picture in enumerate(chosen):
            texels = self.read(picture)
            target = self._teacher.features(texels)
            for layout in self._looks.layouts:
                chance = np.random.default_rng([4, number])
                frame = self._looks.tokens(self._engine, texels, {"layout": layout, "budget": budget}, chance)
                with self._torch.no_grad(), self._mixed():
                    output = features(self.model, [frame], self._settings.area_bias)[0]
                found.append(agreement(frame, output.float(), target))
        return {name: float(value) for name, value in zip(MEASURES, np.mean(found, axis=0), strict=False)}

    def state(self) -> dict[str, Any]:
        """What :meth:`resume` takes."""
        return {
            "identity": self.identity,
            "step": self.step,
            "history": self.history,
            "parameters": {name: value.detach().cpu() for name, value in self.parameters.items()},
            "optimizer": self._optimizer.state_dict(),
            "scaler": self._scaler.state_dict(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Goes on where a run was ended.

        :raises Unadaptable: if it had other settings or pictures.
        """
        if state["identity"] != self.identity:
            raise Unadaptable("--out holds a run with other settings, weights or pictures: give the same, or another --out")
        with self._torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(state["parameters"][name])
        self._optimizer.load_state_dict(state["optimizer"])
        self._scaler.load_state_dict(state["scaler"])
        self.step, self.history = state["step"], state["history"]


class _Teacher:
    """The model before it learned, on all patches."""

    def __init__(self, trainer: Trainer, model: Module, cache: Path | None) -> None:
        self._trainer, self._model, self._cache = trainer, model, cache
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)

    def features(self, picture: NDArray[np.uint8]) -> tuple[Tensor | None, Tensor]:
        """Class token [D] (None without one) and patches [rows * columns, D], float32."""
        trainer = self._trainer
        torch = trainer._torch
        path = None
        if self._cache is not None:
            about = f"{trainer._base} {trainer._settings.precision} {picture.shape}".encode()
            path = self._cache / f"{hashlib.sha256(about + picture.tobytes()).hexdigest()[:32]}.npy"
            if path.exists():
                return self._divided(torch.from_numpy(np.load(path)).float().to(trainer._device))
        frame = pictures.every_patch(trainer._engine, picture, trainer._looks.patch)
        with torch.no_grad(), trainer._mixed():
            output = vit.features(self._model, frame)[0].float()
        if path is not None:
            # As it is read again, so that a run that goes on is the same as one that was not interrupted.
            output = output.half().float()
            part = path.with_suffix(".part.npy")
            np.save(part, output.half().cpu().numpy())
            part.replace(path)
        return self._divided(output)

    def _divided(self, output: Tensor) -> tuple[Tensor | None, Tensor]:
        count = self._trainer.model.num_prefix_tokens
        has_class = self._trainer.model.cls_token is not None
        return (output[0] if has_class else None), output[count:]


def features(model: Module, frames: Sequence[TokenFrame], area_bias: float) -> list[Tensor]:
    """What :func:`.vit.features` gives for each frame, [prefix + N, D], in one pass."""
    torch = library("torch", "torch", "foveate.adapt")
    prefix = vit.prefix(model)
    rows = [torch.cat([prefix, vit.embedded(model, frame)]) for frame in frames]
    longest = max(map(len, rows))
    x = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    bias = np.full((len(frames), longest), -np.inf, np.float32)
    for index, frame in enumerate(frames):
        bias[index, : len(prefix)] = 0
        bias[index, len(prefix) : len(rows[index])] = area_bias * vit.log_area(frame) if area_bias else 0
    mask = torch.from_numpy(bias).to(x)[:, None, None].expand(-1, 1, longest, -1)
    for block in model.blocks:
        x = block(x, attn_mask=mask)
    x = model.norm(x)
    return [x[index, : len(row)] for index, row in enumerate(rows)]


def loss_of(frame: TokenFrame, output: Tensor, target: tuple[Tensor | None, Tensor]) -> Tensor:
    """How far features of tokens are from those of all patches.

    One less the cosine of each patch with the token over it, as the mean over patches and as the mean over tokens, so that
    neither large tokens nor small ones are all that counts; how far the mean is off; and the class token.
    """
    torch = library("torch", "torch", "foveate.adapt")
    class_target, patches = target
    tokens, owner, count = _under(frame, output)
    unit = torch.nn.functional.normalize
    aims = torch.zeros_like(tokens).index_add(0, owner, unit(patches, dim=1))
    agree = (unit(tokens, dim=1) * aims).sum(1)
    loss = 1 - (agree.sum() / len(owner) + (agree / count.clamp(min=1))[0 < count].mean()) / 2
    mean = patches.mean(0)
    off = (tokens[owner].mean(0) - mean).square().sum() / (patches - mean).square().sum(1).mean()
    loss = loss + _OFFSET * off
    if class_target is not None:
        loss = loss + _CLASS * (1 - torch.cosine_similarity(output[0], class_target, dim=0))
    return loss


def agreement(frame: TokenFrame, output: Tensor, target: tuple[Tensor | None, Tensor]) -> list[float]:
    """:data:`MEASURES` of a frame; without a class token the last one is missing."""
    torch = library("torch", "torch", "foveate.adapt")
    class_target, patches = target
    tokens, owner, _ = _under(frame, output)
    over = tokens[owner]
    cosine = torch.cosine_similarity
    values = [
        cosine(over, patches, dim=1).mean(),
        cosine(over - over.mean(0), patches - patches.mean(0), dim=1).mean(),
    ]
    if class_target is not None:
        values.append(cosine(output[0], class_target, dim=0))
    return [float(value) for value in values]


def rate_at(step: int, steps: int) -> float:
    """Share of the rate: a short rise, then half a cosine down to 0."""
    rise = max(1, round(_WARM_UP * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def _under(frame: TokenFrame, output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features of tokens, [N, D]; the token over each patch, [rows * columns]; and over how many each one is."""
    torch = library("torch", "torch", "foveate.adapt")
    tokens = output[len(output) - len(frame.tokens) :]
    owner = torch.from_numpy(vit.owners(frame).ravel()).to(tokens.device)
    if (owner < 0).any():
        raise Unadaptable("a layout leaves parts of the picture out: give others with --layouts")
    return tokens, owner, torch.bincount(owner, minlength=len(tokens)).to(tokens.dtype)


def interval(steps: int, wanted: int) -> Callable[[int], int]:
    """From a step to the next one at which the run is measured and saved."""
    every = wanted or max(1, math.ceil(steps / 20))
    return lambda step: min(steps, (step // every + 1) * every)
