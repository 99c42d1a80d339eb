#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the example of docs/statistics.md builds and runs, and that the page explains everything that is written.

usage: statistics_document_test.py names|example PROGRAM LIBRARY DOCUMENT INCLUDE_FOLDER

PROGRAM is the program of statistics.c. Every member of the JSON, every metric and label of the OpenMetrics text must stand in
the document between backticks.
"""
import json
import pathlib
import re
import subprocess

import process_test


def json_names(value):
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from json_names(member)
    elif isinstance(value, list):
        for member in value:
            yield from json_names(member)


def metric_names(text):
    """The names of samples with labels. The names of samples without labels are in the JSON."""
    for line in text.splitlines():
        found = re.match(r"(\w+)\{(.*)\} ", line)
        if found:
            yield found[1]
            yield from re.findall(r'(\w+)="', found[2])


class Test(process_test.Test):

    def __init__(self, folder, program, library, document, include):
        super().__init__(folder, program, library)
        self.document, self.include = pathlib.Path(document).read_text(), include


def test_names(test):
    explained = set(re.findall(r"`([^`\n]+)`", test.document))
    names = set(json_names(json.loads(test.run("json").stdout)))
    metrics = set(metric_names(test.run("openmetrics").stdout))
    test.expect(len(names) > 40 and len(metrics) > 5, f"found {len(names)} names, {len(metrics)} metrics")
    test.expect_equal((names | metrics) - explained, set(), "names that are not explained")


def test_example(test):
    program = re.search(r"^```c\n(.*?)^```$", test.document, re.MULTILINE | re.DOTALL)[1]
    commands = re.search(r"^```sh\n(.*?)^```$", test.document, re.MULTILINE | re.DOTALL)[1]
    lines = commands.splitlines()
    test.expect(lines[0].startswith("L=/path/to/"), f"the folder of the libraries: {lines[0]}")
    lines[0] = f"L={pathlib.Path(test.library).parent}"
    script = "\n".join(lines).replace("-I include", f"-I {test.include}")
    (test.folder / "example.c").write_text(program)
    run = subprocess.run(["bash", "-euc", script], cwd=test.folder, env=process_test.environment(), check=False,
                         timeout=100, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print(run.stdout, run.stderr, sep="\n")
    test.expect(run.returncode == 0, f"exit status {run.returncode}")
    test.expect("Bytes in use by application" in run.stdout, "the text")
    test.expect("Bytes in use by application" in run.stderr, "the text of MALLOCSTATS")
    found = [line for line in run.stdout.splitlines() if line.startswith("{")]
    test.expect(len(found) == 1 and "in_use_bytes" in json.loads(found[0]), "the JSON")


if __name__ == "__main__":
    process_test.main(globals(), Test)
