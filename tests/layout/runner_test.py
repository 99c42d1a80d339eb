#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Adds tests that fail in all ways to a folder, runs them as scripts/test.py does, and checks which
of them count as failed and which only as flaky."""

import contextlib
import datetime
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import flaky  # noqa: E402
import test as runner  # noqa: E402

# Fails in the first run, and passes in all others.
ONCE = "test -e {file} || {{ touch {file}; echo {text}; exit 1; }}"


class Planted(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        runner.FAILURES = self.folder / "failures"

    def run_planted(self, **commands):
        """Runs shell commands as tests. Returns the tally."""
        lines = [f'add_test({name} bash -c "{command}")\nset_tests_properties({name} PROPERTIES TIMEOUT 2)\n'
                 for name, command in commands.items()]
        (self.folder / "CTestTestfile.cmake").write_text("".join(lines))
        tally = runner.Tally()
        with contextlib.redirect_stdout(io.StringIO()):
            runner.run_tests("planted", self.folder, dict(enumerate(commands, 1)), 1, tally)
        return tally

    def once(self, text):
        return ONCE.format(file=self.folder / "seen", text=text)

    def test_never_forgiven(self):
        for command, reason in (
                ("echo 2 is not 3; exit 1", "again in run 2"),
                ("kill -SEGV $$", "death by a signal"),
                (self.once("the program ended with status -11"), "death by a signal"),
                ("sleep 100", "a timeout"),
                (self.once("==1==ERROR: AddressSanitizer: heap-use-after-free"), "a sanitizer's report"),
                (self.once("WARNING: ThreadSanitizer: data race"), "a sanitizer's report"),
                (self.once("tcmalloc: span.h:3: check failed: pages == 1"), "aborts"),
                (self.once("a.c:3: process 1: memcmp\\(object, object + 1, size - 1\\) == 0 does not hold"), "wrong contents")):
            with self.subTest(command):
                (self.folder / "seen").unlink(missing_ok=True)
                tally = self.run_planted(passes="true", fails=command)
                self.assertEqual((tally.passed, tally.flaky, len(tally.failures)), (1, [], 1))
                self.assertIn(reason, tally.failures[0])

    def test_flaky(self):
        tally = self.run_planted(sometimes=self.once("the clock was late"), passes="true")
        self.assertEqual((tally.passed, tally.failures), (1, []))
        self.assertEqual(tally.flaky, ["planted: sometimes: 1 of 6"])
        self.assertEqual(sorted(file.name for file in (runner.FAILURES / "planted").iterdir()),
                         [f"sometimes.{number}.txt" for number in range(1, 7)])

    def test_many_failures_do_not_run_again(self):
        tally = self.run_planted(a="exit 1", b="exit 1", c=self.once("the clock was late"))
        self.assertEqual(len(tally.failures), 3)


class KnownFlakyTests(unittest.TestCase):

    def errors(self, line):
        return flaky.list_errors(f"# name | ...\n{line}\n", datetime.date(2026, 3, 10))

    def test_list(self):
        self.assertEqual(self.errors("a.b | 2026-03-01 | 1 of 100 | the clock | 2026-03-12"), [])
        for line in ("a.b | 2026-03-01 | 1 of 100 | the clock | 2026-03-09",  # expired
                     "a.b | 2026-03-01 | 1 of 100 | the clock | 2026-03-20",  # too long
                     "a.b | yesterday | 1 of 100 | the clock | 2026-03-12", "a.b"):
            self.assertEqual(len(self.errors(line)), 1, line)


if __name__ == "__main__":
    unittest.main()
