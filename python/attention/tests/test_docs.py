"""Every example of the guide and of the package's own page runs as it stands."""

from __future__ import annotations

import contextlib
import io
import re
import unittest

from attention_support import REPOSITORY, ROOT

import foveate_attention

PAGES = [REPOSITORY / "docs" / "guide" / "attention.md", ROOT / "README.md"]
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


class Documentation(unittest.TestCase):
    def test_every_example_prints_what_the_page_says(self) -> None:
        for page in PAGES:
            examples = EXAMPLE.findall(page.read_text())
            self.assertGreater(len(examples), 0, page)
            for code, expected in examples:
                with self.subTest(page=page.name, code=code):
                    printed = io.StringIO()
                    with contextlib.redirect_stdout(printed):
                        exec(compile(code, str(page), "exec"), {})
                    self.assertEqual(printed.getvalue(), expected)

    def test_every_public_name_is_documented(self) -> None:
        for name in foveate_attention.__all__:
            self.assertTrue(getattr(foveate_attention, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
