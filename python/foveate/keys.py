"""Keyword arguments as types, for type checkers: keys of an opened view, which ``configs/default.toml`` describes, and
options of the calls that steer a view, which :meth:`foveate.View.look_at` describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .frame import Frame


class Normalisation(TypedDict):
    """Normalises R, G and B: (value / 255 - mean) / std."""

    mean: Sequence[float]
    std: Sequence[float]


_Normalisation = Literal["none", "unit", "imagenet", "clip", "siglip"] | Normalisation
_Channels = Sequence[str] | Literal["all"]


_FoveaPolicy = Literal["auto", "fixed", "feedback", "saliency", "relevance"]


class GazeKeys(TypedDict, total=False):
    """Where a view looks: the keys of ``[stream.view.gaze]`` that a client may give."""

    policy: _FoveaPolicy | Sequence[_FoveaPolicy]
    x: float
    y: float
    weights: Mapping[str, float]
    passes: int
    saccade_hz: float
    dwell_min_ms: int
    hysteresis: float
    centre_prior: float
    relevance_gain: float
    compensation: bool
    pursuit: bool
    pursuit_speed_max: float
    silence_ms: int
    lease_ms: int


class ViewKeys(TypedDict, total=False):
    """What is sampled of a stream: the keys of a ``[[stream.view]]`` but those that name files of the daemon's."""

    name: str
    layout: Literal["adaptive", "inset", "foveal", "uniform", "windows", "rings", "directional"]
    memory: Literal["none", "canvas"]
    budget: int
    patch: int
    dtype: Literal["u8", "f16", "bf16", "f32"]
    normalisation: _Normalisation
    outside: Literal["edge", "mean"]
    rounding: Literal["half-up", "floor"]
    e0: float
    foveae: int
    coarsest: int
    preset: Literal["stt172", "giava20"]
    strides: Sequence[int]
    grids: Sequence[int]
    share: float
    blocks: int
    min_step: float
    aspect: float
    slots: int
    max_fps: float
    publish: Literal["always", "when-read"]
    channels: _Channels
    depth: Literal["none", "tokens", "texels"]
    boxes: bool
    gaze: GazeKeys


class EgoOptions(TypedDict, total=False):
    """The camera's motion since a frame, and how the daemon answers."""

    strict: bool
    homography: ArrayLike | None
    rotation: ArrayLike | None
    wait: bool


class FrameOptions(EgoOptions, total=False):
    """The frame that a message refers to, and the camera's motion since."""

    frame: Frame | int | None


class LookOptions(FrameOptions, total=False):
    """Options of a look."""

    share: float | None
    normalised: bool
    for_ms: int | None
