"""What cannot be learned from, and why."""

from __future__ import annotations

from ..errors import FoveateError


class Unlearnable(FoveateError, ValueError):
    """Boxes, a recording or an argument that nothing can be learned from."""
