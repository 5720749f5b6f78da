"""Learns scorers of relevance from recorded channels and boxes: ``python -m foveate.learn``; ``docs/learning.md``."""

from __future__ import annotations
