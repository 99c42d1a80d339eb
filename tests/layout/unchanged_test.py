#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests which changes make scripts/unchanged.py run a test again."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import unchanged  # noqa: E402


class Fingerprints(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.build = self.root / "build" / "check"
        for name in ("src/a.cc", "docs/settings.md", "tests/process/b_test.py", "build/check/bin/unit_test",
                     "build/check/bin/process_b", "build/check/bin/helper", "build/check/lib/libtcmalloc.so.4",
                     "build/check/lib/libtcmalloc.a", "build/check/lib/plugin.so"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(name)
        self.tests = [
            {"name": "unit", "command": [f"{self.build}/bin/unit_test", "--filter=A"],
             "properties": [{"name": "LABELS", "value": ["unit"]}]},
            {"name": "process", "command": [f"{self.build}/bin/process_b"],
             "properties": [{"name": "LABELS", "value": ["process"]},
                            {"name": "ENVIRONMENT", "value": [f"LD_PRELOAD={self.build}/lib/libtcmalloc.so.4"]}]},
        ]

    def changed(self, change):
        """The tests whose fingerprint a change changes."""
        before = unchanged.fingerprints(self.root, self.build, self.tests)
        change()
        after = unchanged.fingerprints(self.root, self.build, self.tests)
        return [name for name in before if before[name] != after[name]]

    def written(self, file):
        return self.changed(lambda: (self.root / file).write_text("other"))

    def test_nothing(self):
        self.assertEqual(self.changed(lambda: None), [])

    def test_what_is_compiled_counts_by_what_comes_of_it(self):
        self.assertEqual(self.written("src/a.cc"), [])
        self.assertEqual(self.written("build/check/lib/libtcmalloc.a"), [])

    def test_programs_of_their_own(self):
        self.assertEqual(self.written("build/check/bin/unit_test"), ["unit"])
        self.assertEqual(self.written("build/check/bin/process_b"), ["process"])

    def test_the_library(self):
        self.assertEqual(self.written("build/check/lib/libtcmalloc.so.4"), ["process"])

    def test_what_no_test_names(self):
        for file in ("docs/settings.md", "tests/process/b_test.py", "build/check/bin/helper", "build/check/lib/plugin.so"):
            with self.subTest(file=file):
                self.assertEqual(self.written(file), ["unit", "process"])

    def test_commands(self):
        self.assertEqual(self.changed(lambda: self.tests[0]["command"].append("-v")), ["unit"])
        self.assertEqual(self.changed(lambda: self.tests[1]["properties"][1]["value"].append("A=1")), ["process"])

    def test_what_passed_is_remembered(self):
        self.assertEqual(unchanged.load(self.build), {})
        unchanged.store(self.build, {"unit": "1"})
        self.assertEqual(unchanged.load(self.build), {"unit": "1"})
        (self.build / unchanged.FILE_NAME).write_text("{")
        self.assertEqual(unchanged.load(self.build), {})


if __name__ == "__main__":
    unittest.main()
