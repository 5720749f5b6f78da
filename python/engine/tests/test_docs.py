"""Every example of the engine's guides and of the package's own page runs as it stands."""

from __future__ import annotations

import re
import unittest

from engine_support import REPOSITORY, ROOT, foveate_engine

GUIDES = REPOSITORY / "docs" / "guide"
PAGES = [GUIDES / "engine.md", ROOT / "README.md"]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Documentation(unittest.TestCase):
    def test_every_example_runs(self) -> None:
        for page in PAGES:
            examples = EXAMPLE.findall(page.read_text())
            self.assertGreater(len(examples), 0, page)
            for code in examples:
                with self.subTest(page=page.name, code=code):
                    exec(compile(code, str(page), "exec"), {})

    def test_every_public_name_is_documented(self) -> None:
        for name in foveate_engine.__all__:
            thing = getattr(foveate_engine, name)
            self.assertTrue(thing.__doc__ or name in ("TOKEN", "FEATURES"), name)


if __name__ == "__main__":
    unittest.main()
