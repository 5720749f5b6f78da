"""Adapts a vision transformer to tokens of unlike size, without labels: ``python -m foveate.adapt``.

    model, area_bias = foveate.adapt.load("adapted")
    output = vit.features(model, frame, area_bias)

``docs/guide/models.md`` is the guide.
"""

from __future__ import annotations

from .errors import Unadaptable
from .model import Adapted, load

__all__ = ["Adapted", "Unadaptable", "load"]
