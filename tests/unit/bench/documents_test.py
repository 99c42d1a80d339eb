# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the documents say what the benchmark data says, and how they are made from it.

usage: documents_test.py PROJECT_FOLDER
"""
import json
import os
import pathlib
import sys
import tempfile
import unittest

PROJECT = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, os.path.join(PROJECT, "bench"))
from runner import cli, documents, plots, summary  # noqa: E402
from made_runs import hand_made, record  # noqa: E402


class Project(unittest.TestCase):
    def test_the_documents_are_what_the_data_makes_of_them(self):
        differing = [str(path.relative_to(PROJECT)) for path in documents.differing(PROJECT)]
        self.assertEqual(differing, [], "'scripts/bench.py --documents' makes them again")

    def test_pictures_are_of_the_newest_run(self):
        folder = PROJECT / documents.RESULTS
        newest = documents.newest_run(PROJECT).name
        drawn = {file for _, file in plots.drawn_from(folder, newest)}
        self.assertEqual({path.name for path in folder.glob("*.svg")}, drawn)


class Made(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.results = self.root / documents.RESULTS
        self.results.mkdir(parents=True)
        (self.root / "docs").mkdir()
        self.run_path = self.results / "run.json"
        self.write_run(self.run_path, ours=2)
        self.readme = self.root / "README.md"
        self.readme.write_text("Before.\n<!-- made by 'scripts/bench.py --documents': in-short -->\n"
                               "<!-- end of what is made -->\nAfter.\n")

    @staticmethod
    def write_run(path, ours):
        records = [record("a", name, number, value) for number in range(3)
                   for name, value in (("ours", ours), ("glibc", 4), ("fast", 1))]
        data = hand_made(records)
        path.write_text(cli.as_json({**data, "summary": summary.summarize(data)}))
        return data

    def test_a_summary_is_read_as_it_was_written(self):
        data = self.write_run(self.run_path, ours=2)
        self.assertEqual(summary.stored(json.loads(self.run_path.read_text())),
                         summary.summarize(data))

    def test_parts_are_made_and_nothing_else_is_touched(self):
        self.assertEqual(len(documents.differing(self.root)), 2)
        self.assertEqual(len(documents.write(self.root)), 2)
        self.assertEqual(documents.differing(self.root), [])
        text = self.readme.read_text()
        self.assertTrue(text.startswith("Before.\n") and text.endswith("\nAfter.\n"))
        self.assertIn(" | glibc 1 |", text)
        self.assertIn("| 1 benchmark programs | 0.50 / 1.00 |", text)
        self.assertIn("| a | 2.00 s |", (self.results / "README.md").read_text())

    def test_a_changed_figure_is_found(self):
        documents.write(self.root)
        self.readme.write_text(self.readme.read_text().replace("0.50 / ", "0.45 / "))
        self.assertEqual(documents.differing(self.root), [self.readme])
        page = self.results / "README.md"
        page.write_text(page.read_text() + "Our own words.\n")
        self.assertEqual(documents.differing(self.root), [page, self.readme])
        # A run with other data than the documents were made from is found, too.
        documents.write(self.root)
        self.write_run(self.run_path, ours=3)
        self.assertEqual(documents.differing(self.root), [page, self.readme])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
