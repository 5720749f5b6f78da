"""What can go wrong."""

from __future__ import annotations

from ..errors import FoveateError


class Unadaptable(FoveateError, ValueError):
    """Nothing can be learned from what was given, or a folder holds something else."""
