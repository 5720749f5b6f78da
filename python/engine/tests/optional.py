"""Packages that not every machine has: their tests are skipped, or fail where the environment says that the package must be there."""

from __future__ import annotations

import importlib
import os
import sys
import unittest
from typing import Any


def package(name: str, requirement: str) -> Any:
    """A package, for tests that need it; to be called in ``setUpModule``.

    :param name: what is imported.
    :param requirement: environment variable that is ``"1"`` where the tests must run.
    :raises unittest.SkipTest: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get(requirement) == "1":
            raise
        print(f"SKIPPED: {name} is not installed", file=sys.stderr)
        raise unittest.SkipTest(f"{name} is not installed") from None


def long() -> bool:
    """Whether tests may take minutes."""
    return os.environ.get("FOVEATE_LONG") == "1"
