"""Learns scorers of relevance from recorded channels and boxes: ``python -m foveate.learn``; ``docs/guide/learning.md``."""

from __future__ import annotations
