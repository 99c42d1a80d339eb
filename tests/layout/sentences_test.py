# SPDX-License-Identifier: BSD-3-Clause
"""Checks that scripts/draw_sentences.py finds each sentence once, where it is, and that a seed always draws the same.

usage: sentences_test.py
"""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

PROJECT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(PROJECT / "scripts"))
import draw_sentences  # noqa: E402

CODE = """// SPDX-License-Identifier: BSD-3-Clause
// The first sentence of a file. A second sentence begins on this line
// and ends on the next.
int x;  // counts what a caller asked for
const char* kUrl = "// no comment at all here";
"""
PAGE = """# A heading of four words

A sentence with `code in it` and more, e.g. This is still it.
It continues
over lines.

    indented code is no sentence

```sh
code in a fence is no sentence
```

* an item of a list

| short | a cell with some words |
|---|---|
"""
SCRIPT = '''#!/usr/bin/env python3
"""What the whole script does."""
text = """This is not a docstring."""
# A comment on two
# lines of a script.
'''


class Sentences(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in (("src/a.cc", CODE), ("docs/page.md", PAGE), ("scripts/s.py", SCRIPT), ("bench/results/r.md", PAGE)):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        files = sorted(path for path in self.root.rglob("*") if path.is_file())
        for patch in (mock.patch.object(draw_sentences, "ROOT", self.root),
                      mock.patch.object(draw_sentences.source, "tree_files", lambda root: files)):
            patch.start()
            self.addCleanup(patch.stop)

    def test_finds_each_once(self):
        self.assertEqual(draw_sentences.sentences([]), [
            ("docs/page.md", 1, "A heading of four words", ""),
            ("docs/page.md", 3, "A sentence with `code in it` and more, e.g. This is still it.", ""),
            ("docs/page.md", 4, "It continues over lines.", ""),
            ("docs/page.md", 13, "an item of a list", ""),
            ("docs/page.md", 15, "a cell with some words", ""),
            ("scripts/s.py", 2, "What the whole script does.", ""),
            ("scripts/s.py", 4, "A comment on two lines of a script.", ""),
            ("src/a.cc", 2, "The first sentence of a file.", "int x;"),
            ("src/a.cc", 2, "A second sentence begins on this line and ends on the next.", "int x;"),
            ("src/a.cc", 4, "counts what a caller asked for", "int x;"),
        ])

    def test_only_some_places(self):
        self.assertEqual({name for name, *_ in draw_sentences.sentences(["src/", "scripts/s.py"])}, {"src/a.cc", "scripts/s.py"})

    def draw(self, *arguments):
        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["draw_sentences.py", *arguments]), contextlib.redirect_stdout(said):
            draw_sentences.main()
        return said.getvalue()

    def test_a_seed_draws_the_same(self):
        first = self.draw("--seed", "3", "--count", "4")
        self.assertTrue(first.startswith("seed 3: 4 of 10 sentences\n1. "), first)
        self.assertEqual(first, self.draw("--seed", "3", "--count", "4"))
        self.assertNotEqual(first, self.draw("--seed", "4", "--count", "4").replace("seed 4", "seed 3"))

    def test_draws_all_if_there_are_no_more(self):
        said = self.draw("--seed", "1", "--count", "200")
        self.assertTrue(said.startswith("seed 1: 10 of 10 sentences\n"), said)
        self.assertEqual(said.count("docs/page.md:"), 5)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
