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
from runner import cli, documents, pauses, plots, process, reasons, summary  # noqa: E402
from made_runs import hand_made, record  # noqa: E402

PAUSES = """
| command | threads | heap, GiB | copied, MiB | median, ms | 99 %, ms | most, ms | no rest |
|---|---|---|---|---|---|---|---|
| `objects` | 1 | 1 | 7.8 | 0.91 | 1.55 | 2.07 | 0 |
| `objects` | 64 | 1 | 8.2 | 1.41 | 2.65 | 3.31 | 1 |

| heap, GiB | objects, bytes | copied, MiB | tcmalloc leaks: pause, ms | whole search, ms | own checker: pause, ms |
|---|---|---|---|---|---|
| 1 | 64 | 1032 | 171 | 2117 | 459 |

| heap, GiB | objects, bytes | tcmalloc leaks: pause, ms | --snapshot: pause, ms | own checker: pause, ms |
|---|---|---|---|---|
| 1 | 64 | 158 | 5 | 765 |
"""


class Project(unittest.TestCase):
    def test_the_documents_are_what_the_data_makes_of_them(self):
        differing = [str(path.relative_to(PROJECT)) for path in documents.differing(PROJECT)]
        self.assertEqual(differing, [], "'scripts/bench.py --documents' makes them again")

    def test_the_readme_shows_the_means(self):
        marked = [match["what"] for match in documents.MARKED.finditer(
            (PROJECT / "README.md").read_text())]
        self.assertEqual(marked, ["reasons", "means"])

    def test_every_mark_is_whole(self):
        for path in documents.marked_documents(PROJECT):
            text = path.read_text()
            self.assertEqual(text.count("<!-- made by 'scripts/bench.py"),
                             len(documents.MARKED.findall(text)), path)

    def test_the_reading_is_short(self):
        lines = (PROJECT / documents.RESULTS / documents.READING).read_text().splitlines()
        self.assertLessEqual(len(lines), documents.MOST_READING_LINES)

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
        self.readme.write_text("Before.\n\n" + self.marks("means") + "\n\nAfter.\n")

    @staticmethod
    def marks(what):
        return (f"<!-- made by 'scripts/bench.py --documents': {what} -->\n"
                "<!-- end of what is made -->")

    @staticmethod
    def write_run(path, ours, rows=("a",)):
        records = [record(row, name, number, value) for row in rows for number in range(3)
                   for name, value in (("ours", ours), ("glibc", 4), ("fast", 1))]
        data = hand_made(records, rows)
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
        self.assertIn("| C library (glibc 1) | 0.50 [0.50, 0.50] | 1.00 [1.00, 1.00] |", text)
        self.assertIn("faster in 0 rows, level in 0 and slower in 1", " ".join(text.split()))
        self.assertIn("`a` (2.00)", text)
        self.assertIn("[Details](bench/results/README.md)", text)
        self.assertIn("| a | 2.00 s |", (self.results / "README.md").read_text())

    def test_a_changed_figure_is_found(self):
        documents.write(self.root)
        self.readme.write_text(self.readme.read_text().replace("0.50 [", "0.45 ["))
        self.assertEqual(documents.differing(self.root), [self.readme])
        page = self.results / "README.md"
        page.write_text(page.read_text() + "Our own words.\n")
        self.assertEqual(documents.differing(self.root), [page, self.readme])
        # A run with other data than the documents were made from is found, too.
        documents.write(self.root)
        self.write_run(self.run_path, ours=3)
        self.assertEqual(documents.differing(self.root), [page, self.readme])

    def test_a_part_may_name_another_run(self):
        (self.results / "history").mkdir()
        other = f"{documents.RESULTS}/history/old.json"
        self.write_run(self.root / other, ours=8)
        document = self.root / "docs" / "page.md"
        document.write_text(self.marks(f"means {other}"))
        documents.write(self.root)
        self.assertIn("2.00 [2.00, 2.00]", document.read_text())
        self.assertIn("[Details](../bench/results/history/README.md)", document.read_text())
        document.write_text(self.marks("means bench/results/history/none.json"))
        with self.assertRaisesRegex(process.BenchError, "none.json: .*No such file"):
            documents.write(self.root)

    def test_reasons_have_figures_of_three_files(self):
        measured, returned = self.root / pauses.FILE, self.root / reasons.RETURNED
        measured.write_text(PAUSES)
        returned.write_text("### 1. One thread\n\n8 seconds later: 6 MiB\n### 2. Several threads\n\nin use: 103 MiB\n"
                            "freed: 103 MiB\n8 seconds later: 2 MiB\n")
        document = self.root / "docs" / "page.md"
        document.write_text(self.marks("reasons"))
        documents.write(self.root)
        text = document.read_text()
        self.assertIn("It takes 2.00 of the time of fast 1, the fastest of the others: a mean over 1 benchmarks.", text)
        self.assertIn("Of 103 MiB that a program has freed, 2 MiB are resident 8 seconds later ([how](system-memory.md))", text)
        self.assertIn("1.41 ms ([measured](../bench/results/inspection-pauses.txt))", text)
        self.assertIn("171 ms", text)
        measured.write_text(PAUSES.replace("| 64 | 1 |", "| 32 | 1 |"))
        with self.assertRaisesRegex(process.BenchError, "inspection-pauses.txt has no row for .*'threads': '64'"):
            documents.write(self.root)

    def test_tables_of_pauses(self):
        measured, document = self.root / pauses.FILE, self.root / "docs" / "page.md"
        measured.write_text(PAUSES)
        document.write_text("\n".join(map(self.marks, ("pauses-in-words", "snapshot-pauses", "leak-pauses"))))
        documents.write(self.root)
        text = document.read_text()
        self.assertIn("`objects` stops a process for 1.41 ms, `leaks` for 171 ms.", text)
        self.assertIn("| heap, GiB | pause of `leaks`, ms | pause of `leaks --snapshot`, ms |\n|---|---|---|\n| 1 | 158 | 5 |\n<", text)
        self.assertIn("|---|---|---|---|---|\n| 1 | 1032 | 171 | 2117 | 459 |\n<", text)
        self.assertEqual(documents.differing(self.root), [])
        measured.write_text(PAUSES.replace("171", "172"))
        self.assertEqual(documents.differing(self.root), [document])
        measured.write_text("No table.\n")
        with self.assertRaisesRegex(process.BenchError, "inspection-pauses.txt has no table with the column"):
            documents.write(self.root)

    def test_the_index_that_is_rebuilt(self):
        records = [record("index-build", "ours", 0, 1.25, peak=2048),
                   record("index-build", "glibc", 0, 4, peak=4096)]
        for made in records:
            made["metrics"].append({"name": "live_kib", "value": 1024, "unit": "KiB",
                                    "better": "lower"})
        data = hand_made(records, ("index-build",))
        text = documents.index_build_part(data, self.run_path, self.root / "docs")
        self.assertEqual(text.splitlines(), [
            "| 1 MiB live | peak resident, MiB | peak / live |", "|---|---|---|",
            "| this library, without | 2 | 1.25 |", "| C library (glibc 1) | 4 | 4.00 |"])
        with self.assertRaisesRegex(process.BenchError, "has no row index-build"):
            documents.index_build_part(hand_made([]), self.run_path, self.root)

    def test_points_of_curves(self):
        row = "large-held/2/16384"
        data = hand_made([record(row, name, number, value) for number in range(3)
                          for name, value in (("ours", 2), ("glibc", 4), ("fast", 1))],
                         (row,), group="large-objects")
        data["summary"] = json.loads(cli.as_json({"summary": summary.summarize(data)}))["summary"]
        text = documents.PARTS["large-objects"](data, self.run_path, self.root / "docs")
        self.assertIn("above it at 1.", text)
        self.assertIn("| large-held | 16 KiB | 2 | fast | 2.00 [2.00, 2.00] | above | CPU time", text)
        self.assertNotIn("![", text)
        (self.results / "large-objects.svg").touch()
        text = documents.PARTS["large-objects"](data, self.run_path, self.root / "docs")
        self.assertIn("(../bench/results/large-objects.svg)", text)
        with self.assertRaisesRegex(process.BenchError, "no rows of the group over-threads"):
            documents.PARTS["over-threads"](data, self.run_path, self.root / "docs")

    def test_an_unknown_part_is_an_error(self):
        self.readme.write_text(self.marks("nothing"))
        with self.assertRaisesRegex(process.BenchError, "no part nothing, only means, "):
            documents.write(self.root)

    def test_earlier_runs_are_moved_away(self):
        newer = self.results / "newer.json"
        self.write_run(newer, ours=1)
        with self.assertRaisesRegex(process.BenchError, "found 2: move the older ones"):
            documents.write(self.root)
        documents.retire(self.results, newer)
        self.assertEqual(documents.newest_run(self.root), newer)
        self.assertTrue((self.results / "history" / "run.json").is_file())

    def test_pictures_of_other_runs_are_not_shown(self):
        for file, run in (("micro.svg", "run.json"), ("apps.svg", "older.json")):
            (self.results / file).write_text(f"<svg>{plots.source_mark(run)}</svg>")
        self.assertEqual([file for _, file in plots.drawn_from(self.results, "run.json")],
                         ["micro.svg"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
