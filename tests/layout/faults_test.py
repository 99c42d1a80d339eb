#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the parts of scripts/faults.py that touch neither files nor processes: reading patches, putting them into
texts, choosing tests, and the table."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import faults  # noqa: E402

HEAD = "Two is taken for three [unit entry]\n"
DIFF = """--- a/src/base/two.h
+++ b/src/base/two.h
@@ -10,3 +10,3 @@
 int one = 1;
-int two = 2;
+int two = 3;
 int three = 3;
"""
SOURCE = "// Numbers.\nint one = 1;\nint two = 2;\nint three = 3;\n"


class Patches(unittest.TestCase):

    def applied(self, diff, source=SOURCE):
        return faults.applied(faults.parse_patch(HEAD + diff, "two").hunks, {"src/base/two.h": source}.get)

    def test_head(self):
        fault = faults.parse_patch(HEAD + "only: Two|^entry\\.\npresets: asan tsan\n" + DIFF, "two")
        self.assertEqual(fault.breaks, "Two is taken for three")
        self.assertEqual(fault.kinds, ("unit", "entry"))
        self.assertEqual(fault.only, "Two|^entry\\.")
        self.assertEqual(fault.presets, ("asan", "tsan"))

    def test_bad_heads(self):
        for head in ("", "No kinds\n", "Unknown kind [units]\n", HEAD + "only: (\n", HEAD + "presets: fuzz\n",
                     HEAD + "maybe: yes\n", HEAD + "only: \n",
                     "Not in this preset [bench]\npresets: tsan\n"):
            with self.subTest(head=head), self.assertRaises(faults.BadPatch):
                faults.parse_patch(head + DIFF, "two")

    def test_applies(self):
        self.assertEqual(self.applied(DIFF), {"src/base/two.h": SOURCE.replace("two = 2", "two = 3")})

    def test_line_numbers_do_not_matter(self):
        source = "// Another line.\n" * 50 + SOURCE
        self.assertEqual(self.applied(DIFF, source), {"src/base/two.h": source.replace("two = 2", "two = 3")})

    def test_several_hunks(self):
        diff = DIFF + "@@ -1,1 +1,2 @@\n-// Numbers.\n+// Few numbers.\n+// Very few.\n"
        self.assertEqual(self.applied(diff),
                         {"src/base/two.h": "// Few numbers.\n// Very few.\nint one = 1;\nint two = 3;\nint three = 3;\n"})

    def test_does_not_apply(self):
        for source in (SOURCE.replace("two = 2", "two = 4"), SOURCE * 2, SOURCE.replace("int one", " int one"), "", None):
            with self.subTest(source=source), self.assertRaises(faults.BadPatch):
                self.applied(DIFF, source)

    def test_bad_diffs(self):
        for diff in ("", DIFF.replace("b/src/base", "b/tests/base"), DIFF.replace("-int two = 2;\n", "int two = 2;\n"),
                     DIFF.replace("= 3;\n int", "= 2;\n int"), DIFF.partition("@@")[0]):
            with self.subTest(diff=diff), self.assertRaises(faults.BadPatch):
                faults.parse_patch(HEAD + diff, "two")


class Choice(unittest.TestCase):

    def test_plan(self):
        steps = faults.plan(faults.Fault("two", "", ("unit", "model"), presets=("tsan",)))
        self.assertEqual(steps, [("check", "check", ["unit"]), ("test", "tsan", ["unit", "model"])])
        steps = faults.plan(faults.Fault("two", "", ("unit",)))
        self.assertEqual(steps[0], ("check", "check", ["unit"]))
        # make test leaves units of check to asan.
        self.assertNotIn(("test", "check", ["unit"]), steps)
        self.assertIn(("test", "asan", ["unit"]), steps)
        steps = faults.plan(faults.Fault("two", "", ("process",)))
        self.assertEqual(steps[:2], [("check", "check", ["process"]), ("test", "check", ["process"])])
        everything = faults.plan(faults.Fault("two", "", ("unit",), presets=("tsan",)), True)
        self.assertIn(("test", "release", faults.tiers.kinds_of("release", "test")), everything)

    def test_selected(self):
        tests = {"unit.Two.A": ["unit"], "unit.Two.B": ["unit", "slow"], "unit.Three.A": ["unit"], "entry.Two": ["entry"],
                 faults.NOT_A_WITNESS: ["layout"]}
        self.assertEqual(faults.selected(tests, ["unit"], "Two", lambda _, labels: "slow" not in labels), ["unit.Two.A"])
        self.assertEqual(faults.selected(tests, ["unit", "entry"], "Two", []), ["unit.Two.A", "unit.Two.B", "entry.Two"])
        self.assertEqual(faults.selected(tests, ["layout"], "", []), [])


class Report(unittest.TestCase):

    def test_table(self):
        self.assertEqual(faults.table([("fault", "test"), ("a", "b c"), ("longer name", "")]),
                         ["fault        test", "-----------  ----", "a            b c", "longer name"])

    def test_summary(self):
        self.assertEqual(faults.summary(["check", "test", None, "check"]),
                         "4 faults: 2 seen by make check, 1 seen by make test, 1 by nothing")


if __name__ == "__main__":
    unittest.main()
