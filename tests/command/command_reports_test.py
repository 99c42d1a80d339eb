#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tcmalloc timeline and diff on a process whose heap grows.

  command_reports_test.py WHAT COMMAND PROGRAM LIBRARY

PROGRAM is doctor_situations.c.

  json         lines of JSON at intervals, into a file, and the plot
  openmetrics  Prometheus' own parser reads what timeline prints
  prometheus   like openmetrics for the text format, in which node_exporter reads files
  ends         the process ends meanwhile, or never ran; Ctrl-C; another malloc
  diff         what grew between two reports comes first
"""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import command_test
from command_test import OTHER_MALLOC, TIMEOUT_S, clean_environment

EXCLUDES = 108  # of the parser
GROWTH = 1 << 20


class Test(command_test.Test):

    def start(self, situation, preload=True):
        variables = {"LD_PRELOAD": self.library} if preload else {}
        process = subprocess.Popen([self.program, situation], env=clean_environment(**variables), text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout.readline() == "ready\n"
        return process

    def wait_for_growth(self, pid, in_use):
        """Waits until the process has GROWTH bytes more in use."""
        end = time.monotonic() + TIMEOUT_S
        while self.json("stats", pid)["in_use_bytes"] < in_use + GROWTH:
            assert time.monotonic() < end, "the process does not grow"
            time.sleep(0.01)


def end(process):
    process.kill()
    process.communicate()


def json_lines(test):
    process = test.start("leak")
    with tempfile.TemporaryDirectory() as folder:
        output, plot = pathlib.Path(folder, "out.jsonl"), pathlib.Path(folder, "plot.svg")
        for _ in range(2):
            run = test.ask("timeline", process.pid, "--every", "50ms", "--count", 10, "-o", output, "--svg", plot)
            test.expect(run.stdout == "" and run.stderr == "", run.stdout + run.stderr)
            test.wait_for_growth(process.pid, json.loads(output.read_text().splitlines()[-1])["in_use_bytes"])
        lines = [json.loads(line) for line in output.read_text().splitlines()]
        test.expect(len(lines) == 20, f"{len(lines)} lines: the second run appends")
        times = [line["time"] for line in lines]
        # A reading that is late has the next one follow at once, maybe in the same millisecond.
        test.expect(times == sorted(times), f"times {times}")
        test.expect(all(line["pid"] == process.pid for line in lines), "process")
        test.expect(lines[-1]["in_use_bytes"] > lines[0]["in_use_bytes"], "it grows")
        parts = ("in_use_bytes", "page_heap_free_bytes", "central_cache_free_bytes", "thread_cache_free_bytes",
                 "metadata_bytes")
        test.expect(all(sum(line[part] for part in parts) == line["actual_bytes"] for line in lines), "sums")
        root = xml.etree.ElementTree.parse(plot).getroot()
        drawn = root.findall("{http://www.w3.org/2000/svg}polyline")
        test.expect([len(line.get("points").split()) for line in drawn] == [10, 10, 10], "points of the plot")
        test.expect(sorted(path.name for path in pathlib.Path(folder).iterdir()) == ["out.jsonl", "plot.svg"],
                    "no other files")
        run = test.ask("timeline", process.pid, "--count", 1, "--svg", "/no/such/folder/plot.svg", status=1)
        test.expect("cannot write /no/such/folder/plot.svg" in run.stderr, run.stderr)
    end(process)


def openmetrics(test):
    try:
        from prometheus_client.openmetrics import parser
    except ImportError:
        print("SKIP: there is no python3-prometheus-client")
        return 77
    process = test.start("held")
    text = test.ask("timeline", process.pid, "--count", 1, "--openmetrics").stdout
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    in_use = families["tcmalloc_in_use_bytes"]
    test.expect(in_use.type == "gauge" and in_use.unit == "bytes", f"{in_use}")
    test.expect(in_use.samples[0].value > 64 << 20, f"{in_use.samples}")
    test.expect(in_use.samples[0].labels == {"pid": str(process.pid), "name": "process_doctor"}, f"{in_use.samples}")
    test.expect(families["tcmalloc_growths"].type == "counter", "counters")
    test.expect(len(families) > 40, f"{len(families)} families")
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "node.prom")
        test.ask("timeline", process.pid, "--count", 3, "--every", "10ms", "--openmetrics", "-o", output)
        list(parser.text_string_to_metric_families(output.read_text()))
    for other in ("--json", "--prometheus"):
        run = test.ask("timeline", process.pid, "--openmetrics", other, status=EXCLUDES)
        test.expect("excludes" in run.stderr, run.stderr)
    end(process)
    return 0


def prometheus(test):
    try:
        from prometheus_client import parser
    except ImportError:
        print("SKIP: there is no python3-prometheus-client")
        return 77
    process = test.start("held")
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "server.prom")
        test.ask("timeline", process.pid, "--count", 3, "--every", "10ms", "--prometheus", "-o", output)
        text = output.read_text()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    in_use = families["tcmalloc_in_use_bytes"]
    test.expect(in_use.type == "gauge" and in_use.samples[0].value > 64 << 20, f"{in_use}")
    test.expect(families["tcmalloc_growths"].type == "counter", "counters")
    # node_exporter refuses a file with times or with types of OpenMetrics.
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    test.expect(len(samples) == len(families) > 40, f"{len(samples)} samples, {len(families)} families")
    test.expect(all(len(line.split("} ")[1].split()) == 1 for line in samples), "a sample has a time")
    end(process)
    return 0


def ends(test):
    process = test.start("held")
    arguments = [test.command, "timeline", str(process.pid), "--every", "20ms"]
    with subprocess.Popen(arguments, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as timeline:
        first = timeline.stdout.readline()
        test.expect(json.loads(first)["pid"] == process.pid, first)
        end(process)
        _, messages = timeline.communicate(timeout=TIMEOUT_S)
        test.expect(timeline.returncode == 0 and "has ended after" in messages, messages)
    run = test.ask("timeline", process.pid, status=1)
    test.expect(f"there is no process {process.pid}" in run.stderr, run.stderr)
    process = test.start("held")
    arguments = [test.command, "timeline", str(process.pid), "--every", "1h"]
    with subprocess.Popen(arguments, env=clean_environment(), stdout=subprocess.PIPE, text=True) as timeline:
        timeline.stdout.readline()
        timeline.send_signal(signal.SIGINT)
        timeline.communicate(timeout=TIMEOUT_S)
        test.expect(timeline.returncode == 0, f"exit status {timeline.returncode} after Ctrl-C")
    end(process)
    process = test.start("program_memory", preload=False)
    run = test.ask("timeline", process.pid, "--count", 1, status=OTHER_MALLOC)
    test.expect("glibc's malloc" in run.stderr, run.stderr)
    test.expect(json.loads(run.stdout)["process_resident_bytes"] > 64 << 20, run.stdout)
    end(process)


def diff(test):
    process = test.start("leak")
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, name) for name in ("a.json", "b.json")]
        for command in ("stats", "objects", "doctor"):
            files[0].write_text(test.ask(command, process.pid, "--json").stdout)
            test.wait_for_growth(process.pid, test.json("stats", process.pid)["in_use_bytes"])
            files[1].write_text(test.ask(command, process.pid, "--json").stdout)
            text = test.ask("diff", *files).stdout
            test.expect(" more: " in text.splitlines()[0], text)
            changes = json.loads(test.ask("diff", *files, "--json").stdout)
            grown = [change["change"] for change in changes["bytes"]]
            test.expect(grown == sorted(grown, reverse=True) and grown[0] > 0, f"{command}: {grown}")
            if command == "stats":
                test.expect("objects of 1024 bytes, in use" in text, text)
            unchanged = test.ask("diff", files[0], files[0]).stdout
            test.expect("No bytes changed" in unchanged, unchanged)
        files[0].write_text("main;f 10\n")
        files[1].write_text("main;f 10\nmain;g 4096\n")
        test.expect("+4.0 KiB" in test.ask("diff", *files).stdout, "folded stacks")
        files[0].write_text("no report\n")
        run = test.ask("diff", *files, status=1)
        test.expect("write it with --json" in run.stderr and run.stderr.count("\n") == 1, run.stderr)
        run = test.ask("diff", files[1], "/no/such/file", status=1)
        test.expect("cannot read /no/such/file: No such file" in run.stderr, run.stderr)
    end(process)


if __name__ == "__main__":
    sys.exit(command_test.run_one(Test, {"json": json_lines, "openmetrics": openmetrics, "prometheus": prometheus,
                                          "ends": ends, "diff": diff}))
