#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests tcmalloc timeline and diff on a process of doctor_situations.c."""

import json
import os
import pathlib
import signal
import subprocess
import xml.etree.ElementTree

import harness
from harness import OTHER_MALLOC, TIMEOUT_S, Process, Skipped, clean_environment, new_folder, run_test, wait_until

GROWTH = 1 << 20


class Test(harness.Test):

    def start(self, situation, preload=True):
        return Process(self.library if preload else "linked", self.program, situation)

    def wait_for_growth(self, pid, in_use):
        """Waits until the process has GROWTH bytes more in use."""
        wait_until(lambda: self.json("stats", pid)["in_use_bytes"] >= in_use + GROWTH, "the process grows")


def test_json(test):
    with test.start("leak") as process, new_folder() as folder:
        output, plot = folder / "out.jsonl", folder / "plot.svg"
        for _ in range(2):
            run = test.ask("timeline", process.pid, "--every", "50ms", "--count", 10, "-o", output, "--svg", plot)
            test.expect_equal((run.stdout, run.stderr), ("", ""), "timeline")
            test.wait_for_growth(process.pid, json.loads(output.read_text().splitlines()[-1])["in_use_bytes"])
        lines = [json.loads(line) for line in output.read_text().splitlines()]
        test.expect_equal([line["pid"] for line in lines], [process.pid] * 20, "the second run appends")
        times = [line["time"] for line in lines]
        # If a reading is late, the next one follows at once, maybe in the same millisecond.
        test.expect_equal(times, sorted(times), "times")
        test.expect(lines[-1]["in_use_bytes"] > lines[0]["in_use_bytes"], "it grows")
        for line in lines:
            test.check_sums(line, least=0)
        root = xml.etree.ElementTree.parse(plot).getroot()
        drawn = root.findall("{http://www.w3.org/2000/svg}polyline")
        test.expect_equal([len(line.get("points").split()) for line in drawn], [10, 10, 10], "points of the plot")
        test.expect_equal(sorted(path.name for path in folder.iterdir()), ["out.jsonl", "plot.svg"], "files")
        run = test.ask("timeline", process.pid, "--count", 1, "--svg", "/no/such/folder/plot.svg", status=1)
        test.expect("cannot write /no/such/folder/plot.svg" in run.stderr, run.stderr)


def families_of(test, parser, text):
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    in_use = families["tcmalloc_in_use_bytes"]
    test.expect(in_use.type == "gauge" and in_use.samples[0].value > 64 << 20, f"{in_use}")
    test.expect_equal(families["tcmalloc_growths"].type, "counter", "counters")
    test.expect(len(families) > 40, f"{len(families)} families")
    return families


def prometheus_parsers():
    try:
        from prometheus_client import parser
        from prometheus_client.openmetrics import parser as openmetrics_parser
    except ImportError as error:
        raise Skipped("there is no python3-prometheus-client") from error
    return openmetrics_parser, parser


def test_metrics(test):
    """Prometheus' own parsers read what timeline prints."""
    openmetrics, prometheus = prometheus_parsers()
    with test.start("held") as process, new_folder() as folder:
        families = families_of(test, openmetrics, test.ask("timeline", process.pid, "--count", 1, "--openmetrics").stdout)
        in_use = families["tcmalloc_in_use_bytes"]
        test.expect_equal((in_use.unit, in_use.samples[0].labels), ("bytes", {"pid": str(process.pid), "name": "process_doctor"}), "labels")
        for option, parser in (("--openmetrics", openmetrics), ("--prometheus", prometheus)):
            test.ask("timeline", process.pid, "--count", 3, "--every", "10ms", option, "-o", folder / "node.prom")
            text = (folder / "node.prom").read_text()
            families = families_of(test, parser, text)
        for other in ("--json", "--prometheus"):
            run = test.ask("timeline", process.pid, "--openmetrics", other, status=1)
            test.expect("excludes" in run.stderr, run.stderr)
        # node_exporter refuses a file with times or with types of OpenMetrics.
        samples = [line for line in text.splitlines() if not line.startswith("#")]
        test.expect_equal(len(samples), len(families), "samples")
        test.expect(all(len(line.split("} ")[1].split()) == 1 for line in samples), "a sample has a time")


def test_ends(test):
    def timeline(process, every):
        return subprocess.Popen([test.command, "timeline", str(process.pid), "--every", every], env=clean_environment(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    with test.start("held") as process, timeline(process, "20ms") as command:
        first = command.stdout.readline()
        test.expect_equal(json.loads(first)["pid"], process.pid, "the first line")
        process.process.kill()
        process.process.wait()
        _, messages = command.communicate(timeout=TIMEOUT_S)
        test.expect(command.returncode == 0 and "has ended after" in messages, messages)
        test.fails("timeline", process.pid, words=f"there is no process {process.pid}")
    with test.start("held") as process, timeline(process, "1h") as command:
        command.stdout.readline()
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=TIMEOUT_S)
        test.expect_equal(command.returncode, 0, "exit status after Ctrl-C")
    with test.start("held") as process, subprocess.Popen([test.command, "doctor", str(process.pid), "--for", "6s"], text=True,
                                                         env=clean_environment(), stderr=subprocess.PIPE) as command:
        folder = f"/proc/{command.pid}/"
        wait_until(lambda: "/mem\n" in subprocess.run(["ls", "-l", folder + "fd"], capture_output=True, text=True).stdout, "it reads")
        test.expect_equal(pathlib.Path(folder + "oom_score_adj").read_text(), "1000\n", "the kernel kills the command first")
        process.process.kill()
        test.expect_equal(command.communicate(timeout=TIMEOUT_S)[1], f"tcmalloc: process {process.pid} (process_doctor) ended meanwhile\n",
                          "the process ends while it is read")
    run = test.ask("run", "--quiet", "--library", test.library, "cat", "/proc/self/oom_score_adj")
    test.expect_equal(run.stdout, pathlib.Path("/proc/self/oom_score_adj").read_text(), "a program of run does not inherit that")
    with test.start("program_memory", preload=False) as process:
        run = test.ask("timeline", process.pid, "--count", 1, status=OTHER_MALLOC)
        test.expect("glibc's malloc" in run.stderr, run.stderr)
        test.expect(json.loads(run.stdout)["process_resident_bytes"] > 64 << 20, run.stdout)


def test_diff(test):
    with test.start("leak") as process, new_folder() as folder:
        files = [folder / "a.json", folder / "b.json"]
        for command in ("stats", "objects", "doctor"):
            files[0].write_text(test.ask(command, process.pid, "--json").stdout)
            test.wait_for_growth(process.pid, test.json("stats", process.pid)["in_use_bytes"])
            files[1].write_text(test.ask(command, process.pid, "--json").stdout)
            text = test.ask("diff", *files).stdout
            test.expect(" more: " in text.splitlines()[0], text)
            grown = [change["change"] for change in test.json("diff", *files)["bytes"]]
            test.expect(grown == sorted(grown, reverse=True) and grown[0] > 0, f"{command}: {grown}")
            if command == "stats":
                test.expect("objects of 1024 bytes, in use" in text, text)
            unchanged = test.ask("diff", files[0], files[0]).stdout
            test.expect("No bytes changed" in unchanged, unchanged)
        files[0].write_text("main;f 10\n")
        files[1].write_text("main;f 10\nmain;g 4096\n")
        test.expect("+4.0 KiB" in test.ask("diff", *files).stdout, "folded stacks")
        files[0].write_text("no report\n")
        test.fails("diff", *files, words="write it with --json")
        test.fails("diff", files[1], "/no/such/file", words="cannot read /no/such/file: No such file")
        os.mkfifo(folder / "pipe")
        test.fails("diff", files[1], folder / "pipe", words="is not a regular file")


if __name__ == "__main__":
    run_test(globals(), Test)
