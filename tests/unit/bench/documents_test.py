# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the documents say what the benchmark data says.

usage: documents_test.py PROJECT_FOLDER
"""
import os
import pathlib
import sys
import unittest

PROJECT = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, os.path.join(PROJECT, "bench"))
from runner import documents, plots  # noqa: E402


class Project(unittest.TestCase):
    def test_the_documents_are_what_the_data_makes_of_them(self):
        differing = [str(path.relative_to(PROJECT)) for path in documents.differing(PROJECT)]
        self.assertEqual(differing, [], "'scripts/bench.py --documents' makes them again")

    def test_pictures_are_of_the_newest_run(self):
        folder = PROJECT / documents.RESULTS
        newest = documents.newest_run(PROJECT).name
        drawn = {file for _, file in plots.drawn_from(folder, newest)}
        self.assertEqual({path.name for path in folder.glob("*.svg")}, drawn)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
