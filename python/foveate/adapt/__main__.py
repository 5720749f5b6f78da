"""``python -m foveate.adapt``: a ViT for tokens of unlike size, from pictures without labels (docs/guide/models.md)."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import FoveateError
from ..models import video_onnx
from ..models.common import library
from . import model as models
from . import pictures, report, training
from .errors import Unadaptable

_LAYOUTS = ("foveal", "adaptive", "inset", "uniform")
#: Most pictures to validate with; of more, so many at equal distances.
_VALIDATED_MAX = 64
#: Most tokens of a view.
_PATCHES_MAX = 5000
_STATE, _CURVE, _CARD, _STEP = "state.pt", "curve.svg", "README.md", "step.onnx"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 2 if nothing can be learned from what was given."""
    given = _parser().parse_args(arguments)
    try:
        _adapt(given)
    except FoveateError as error:
        print(f"foveate.adapt: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m foveate.adapt",
        description="Adapts a ViT of timm to tokens of unlike size: it learns to give what it gives on all patches.",
    )
    say = parser.add_argument
    say("--model", required=True, metavar="NAME", help="of timm, such as vit_small_patch14_dinov2")
    say("--checkpoint", type=Path, metavar="FILE", help="its weights (default: what timm downloads)")
    say("--pictures", type=Path, required=True, metavar="DIR", help="to learn from, a tenth of them to validate with")
    say("--held-out", type=Path, metavar="DIR", help="pictures of another source, which are only measured")
    say("--clips", action="store_true", help="pictures of one folder are frames of one clip, and stay in one set")
    say("--out", type=Path, required=True, metavar="DIR", help="the adapted model; a run that ended there goes on")
    say("--steps", type=_whole(1, 10**8), default=4000, help="(default: %(default)s)")
    say("--batch", type=_whole(1, 4096), default=8, help="pictures of a step (default: %(default)s)")
    say("--rate", type=_number(0, 1e-2), default=1e-4, help="the highest; above 1e-4 it did harm (default: %(default)s)")
    say("--rank", type=_whole(0, 1024), default=16, help="of the updates of linear layers (default: %(default)s)")
    say("--norms", action="store_true", help="LayerNorms learn, too")
    say("--no-sizes", action="store_true", help="no embedding of token sizes")
    say("--side", type=_whole(64, 4096), default=448, help="longer side of the pictures, in pixels (default: %(default)s)")
    say("--budgets", type=_range, default=(64, 192), metavar="LEAST:MOST", help="tokens (default: 64:192)")
    say("--layouts", type=_layouts, default=("foveal", "adaptive", "inset"), metavar="NAME,...",
        help=f"some of {', '.join(_LAYOUTS)} (default: foveal,adaptive,inset)")
    say("--area-bias", type=_number(0, 1), default=0.5, help="as for vit.features (default: %(default)s)")
    say("--precision", choices=("f32", "bf16", "f16"), default="f32", help="of products (default: %(default)s)")
    say("--device", default="cpu", help="of PyTorch, such as cuda (default: %(default)s)")
    say("--seed", type=_whole(0, 2**31), default=0, help="another gives other weights (default: %(default)s)")
    say("--measure-every", type=_whole(0, 10**8), default=0, metavar="STEPS", help="measure and save (default: 20 times)")
    say("--teacher-cache", type=Path, metavar="DIR", help="keep features of all patches; 0.6 MB for a picture of 448 pixels")
    say("--onnx", action="store_true", help=f"write {_STEP} for foveate.models.video_onnx")
    return parser


def _whole(least: int, most: int) -> Any:
    def number(text: str) -> int:
        if not (re.fullmatch(r"\d+", text) and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {least} to {most}")
        return int(text)

    return number


def _number(least: float, most: float) -> Any:
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a number from {least} to {most}")
        return value

    return number


def _range(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if match is None or not 16 <= int(match[1]) <= int(match[2]) <= 5000:
        raise argparse.ArgumentTypeError(f"{text!r}: expected the fewest and the most tokens, 16 to 5000, such as 64:192")
    return int(match[1]), int(match[2])


def _layouts(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(","))
    for name in found:
        if name not in _LAYOUTS:
            raise argparse.ArgumentTypeError(f"{name!r}: expected names of {', '.join(_LAYOUTS)}")
    return found


def _adapt(given: argparse.Namespace) -> None:
    library("torch", "torch", "foveate.adapt")
    if given.onnx:
        library("onnxscript", "onnx onnxscript", "--onnx")
    settings = training.Settings(
        given.rank, not given.no_sizes, given.norms, given.steps, given.batch, given.rate, given.side, given.area_bias,
        given.precision, given.seed,
    )
    model = models.base(given.model, given.checkpoint)
    looks = pictures.Looks(given.layouts, given.budgets, model.patch_embed.patch_size[0])
    longest = looks.patch * math.isqrt(_PATCHES_MAX)
    if longest < given.side:
        raise Unadaptable(f"--side {given.side} gives more than {_PATCHES_MAX} patches of {looks.patch}: at most {longest}")
    sets = _sets(given)
    about = {
        "model": given.model, "base": models.digest(model), **settings._asdict(), "layouts": list(looks.layouts),
        "budgets": list(looks.budgets), "pictures": len(sets[0]), "validated": len(sets[1]), "held_out": len(sets[2]),
    }
    trainer = training.Trainer(model, settings, looks, sets, given.device, given.teacher_cache)
    given.out.mkdir(parents=True, exist_ok=True)
    state = given.out / _STATE
    if state.exists():
        trainer.resume(models.read_state(state))
        _say(f"going on at step {trainer.step}")
    else:
        _say(report.line(trainer.measure(None), given.steps))
    _train(given, trainer, about, state)
    print(report.table(trainer.history))
    if given.onnx:
        video_onnx.export(models.load(given.out).model, given.out / _STEP)
        _say(f"wrote {given.out / _STEP}")


def _sets(given: argparse.Namespace) -> tuple[list[Any], list[Any], list[Any]]:
    """Pictures to learn from, to validate with, and held out."""
    found = pictures.listed(given.pictures, given.clips)
    held_out = [] if given.held_out is None else pictures.listed(given.held_out, has_clips=False)
    kept = pictures.unlike(found, held_out)
    if not kept:
        raise Unadaptable(f"all pictures of {given.pictures} are like some of {given.held_out}: hold out another source")
    learned, validated = pictures.split(kept, 0.1, given.seed)
    every = -(-len(validated) // _VALIDATED_MAX)
    validated = validated[::every]
    _say(
        f"learning from {len(learned)} pictures, validating with {len(validated)}, {len(held_out)} held out"
        + (f"; {len(found) - len(kept)} left out that are like held-out ones" if len(kept) < len(found) else "")
    )
    return learned, validated, held_out


def _train(given: argparse.Namespace, trainer: training.Trainer, about: dict[str, Any], state: Path) -> None:
    following = training.interval(given.steps, given.measure_every)
    torch = library("torch", "torch", "foveate.adapt")
    first, started = trainer.step, time.monotonic()
    while trainer.step < given.steps:
        loss = trainer.run(following(trainer.step))
        found = trainer.measure(loss)
        left = (given.steps - trainer.step) * (time.monotonic() - started) / (trainer.step - first)
        _say(report.line(found, given.steps) + f"; {left / 60:.0f} min left")
        part = state.with_suffix(".part")
        torch.save(trainer.state(), part)
        part.replace(state)
        _written(given.out, trainer, about)
    if first == given.steps:
        _written(given.out, trainer, about)


def _written(out: Path, trainer: training.Trainer, about: dict[str, Any]) -> None:
    models.write({name: value.cpu() for name, value in models.merged(trainer.model).items()}, out / models.WEIGHTS)
    text = json.dumps({**about, "step": trainer.step, "history": trainer.history}, indent=2)
    (out / models.ABOUT).write_text(text + "\n", encoding="utf-8")
    report.plot(trainer.history, out / _CURVE)
    (out / _CARD).write_text(report.card({**about, "step": trainer.step}, trainer.history), encoding="utf-8")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
