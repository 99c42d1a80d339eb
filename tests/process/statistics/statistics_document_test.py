#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the example of docs/statistics.md builds and runs, and that the page explains
everything that is written.

usage: statistics_document_test.py DOCUMENT INCLUDE_FOLDER PROGRAM LIBRARY

Every member of the JSON, every metric and label of the OpenMetrics text must stand in the document between backticks.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

failed = 0


def expect(condition, message):
    global failed
    if not condition:
        failed += 1
        print(f"FAILED: {message}")


def output(program, library, argument):
    environment = {**os.environ, "LD_PRELOAD": library, "LIBRARY_UNDER_TEST": library}
    return subprocess.run([program, argument], env=environment, check=True, timeout=100, stdout=subprocess.PIPE,
                          text=True).stdout


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


def check_names(document, program, library):
    explained = set(re.findall(r"`([^`\n]+)`", document))
    names = set(json_names(json.loads(output(program, library, "json"))))
    metrics = set(metric_names(output(program, library, "openmetrics")))
    expect(len(names) > 40 and len(metrics) > 5, f"found {len(names)} names, {len(metrics)} metrics")
    for name in sorted((names | metrics) - explained):
        expect(False, f"not explained: {name}")


def check_example(document, include, library):
    program = re.search(r"^```c\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)[1]
    commands = re.search(r"^```sh\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)[1]
    lines = commands.splitlines()
    expect(lines[0].startswith("L=/path/to/"), f"the folder of the libraries: {lines[0]}")
    lines[0] = f"L={pathlib.Path(library).parent}"
    script = "\n".join(lines).replace("-I include", f"-I {include}")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "example.c").write_text(program)
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        run = subprocess.run(["bash", "-euc", script], cwd=folder, env=environment, check=False,
                             timeout=100, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print(run.stdout, run.stderr, sep="\n")
    expect(run.returncode == 0, f"exit status {run.returncode}")
    expect("Bytes in use by application" in run.stdout, "the text")
    expect("Bytes in use by application" in run.stderr, "the text of MALLOCSTATS")
    found = [line for line in run.stdout.splitlines() if line.startswith("{")]
    expect(len(found) == 1 and "in_use_bytes" in json.loads(found[0]), "the JSON")


def main():
    document, include, program, library = sys.argv[1:]
    text = pathlib.Path(document).read_text()
    check_names(text, program, library)
    check_example(text, include, library)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
