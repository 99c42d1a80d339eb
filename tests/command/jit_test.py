#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Names of functions that a process compiled at run time, from /tmp/perf-PID.map.

  jit_test.py WHAT COMMAND PROGRAM LIBRARY

  names      profile in each format, objects, leaks
  top        the live view, also of code that is compiled meanwhile
  snapshot   a snapshot has the names after the process and its map are gone
  namespace  the map of a process with another number and another /tmp
  distrust   maps of other users and of earlier processes
  java       a program of the JVM
  node       a program of Node.js

PROGRAM is that of jit_code.c.
"""

import contextlib
import gzip
import os
import pathlib
import shutil
import subprocess
import tempfile

from harness import (AT_REST, LEAKS, Process, Test, children_of, namespace, needs, needs_root, new_folder, run_test,
                     wait_until_asleep)
from top_test import Terminal

HOLD, LEAK = "Shop.hold(int)", "Shop.leak ?[1m?"
SAMPLED = {**AT_REST, "TCMALLOC_SAMPLE_PARAMETER": "65536"}

JAVA = """
import java.util.ArrayList;
import java.util.zip.Deflater;

class Orders {
  static ArrayList<Deflater> kept = new ArrayList<>();
  static void place(int level) {
    Deflater deflater = new Deflater(level);
    deflater.setInput(new byte[100]);
    deflater.finish();
    deflater.deflate(new byte[200]);
    if (kept.size() < 200) kept.add(deflater); else deflater.end();
  }
  public static void main(String[] arguments) throws Exception {
    for (int i = 0; i < 30000; i++) place(1 + i % 9);
    kept.clear();
    for (int i = 0; i < 200; i++) place(1 + i % 9);
    System.out.println("ready");
    System.in.read();
  }
}
"""
NODE = """
const kept = [];
function placeOrder(i) {
  kept[i % 200] = Buffer.alloc(100000, i);
}
for (let i = 0; i < 200000; i++) placeOrder(i);
console.log('ready');
process.stdin.read();
setTimeout(() => {}, 1e6);
"""


@contextlib.contextmanager
def started(test, *prefix, **options):
    """The program and its map, which is removed at the end."""
    with Process(test.library, *prefix, test.program, **{**SAMPLED, **options}) as process:
        wait_until_asleep(process.pid)
        path = pathlib.Path(f"/tmp/perf-{process.pid}.map")
        try:
            yield process, path
        finally:
            path.unlink(missing_ok=True)


def functions(report):
    return {frame["function"] for site in report["call_sites"] for frame in site["frames"]}


def expect_names(test, report, what):
    found = functions(report)
    test.expect({HOLD, LEAK, "main"} <= found and "Replaced" not in found, f"{what}: {sorted(found)}")
    test.expect_equal(report.get("problems", []), [], what)


def test_names(test):
    with started(test) as (process, _), new_folder() as folder:
        expect_names(test, test.json("profile", process.pid), "profile --json")
        test.ask("profile", process.pid, "-o", folder / "profile.pb.gz")
        names = gzip.decompress((folder / "profile.pb.gz").read_bytes())
        test.expect(HOLD.encode() in names and LEAK.encode() in names, "pprof")
        folded = test.ask("profile", process.pid, "--format", "folded").stdout
        test.expect(f"main;{HOLD} " in folded, folded)
        for arguments in (("profile", process.pid), ("objects", process.pid, "--by", "site")):
            text = test.ask(*arguments).stdout
            test.expect(HOLD in text and "Replaced" not in text, f"{arguments}: {text}")
        test.expect(LEAK in test.ask("leaks", process.pid, status=LEAKS).stdout, "leaks")


def test_top(test):
    needs("tmux")
    with started(test) as (process, path), Terminal(test.command, "top", process.pid, "--every", "300ms") as terminal:
        terminal.wait_for(r"\[threads\]")
        terminal.keys("Tab", "Tab")
        terminal.wait_for(r"Shop\.hold")
        with path.open("a") as file:
            file.writelines(f"{line.split()[0]} 40 Shop.newer\n" for line in path.read_text(errors="replace").splitlines())
        terminal.wait_for(r"Shop\.newer", absent=r"Shop\.hold")


def test_snapshot(test):
    with new_folder() as folder:
        with started(test) as (process, path):
            test.ask("snapshot", process.pid, folder / "snapshot")
        test.expect(not path.exists(), "the map is gone")
        expect_names(test, test.json("profile", folder / "snapshot"), "snapshot")


def test_namespace(test):
    prefix = namespace("--pid", "--mount")
    # The files may lie below /tmp, which the namespace hides.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        program = shutil.copy(test.program, folder)
        library = shutil.copy(test.library, folder)
        with Process(library, *prefix, "sh", "-c", f"mount -t tmpfs none /tmp && exec {program}", **SAMPLED) as process:
            inner, = children_of(process.pid)
            test.expect(not pathlib.Path(f"/tmp/perf-{inner}.map").exists(), "the map has a name here")
            expect_names(test, test.json("profile", inner), "namespaces")


def test_distrust(test):
    with started(test) as (process, path):

        def expect_problem(words):
            run = test.ask("profile", process.pid)
            test.expect(run.stderr.startswith(f"tcmalloc: names are missing: {path}: {words}") and HOLD not in run.stdout,
                        f"not {words!r}: {run.stderr}{run.stdout}")

        os.utime(path, (1000, 1000))
        expect_problem("was written before the process started")
        path.touch()
        expect_names(test, test.json("profile", process.pid), "it is new")
        text = path.read_text(errors="surrogateescape")
        path.unlink()
        path.mkdir()
        expect_problem("is not a regular file")
        path.rmdir()
        # A link that leads into another folder is as the file.
        with new_folder() as folder:
            (folder / "map").write_text(text, errors="surrogateescape")
            path.symlink_to(folder / "map")
            expect_names(test, test.json("profile", process.pid), "a link")
            path.unlink()
        test.expect_equal(test.ask("profile", process.pid).stderr, "", "without a map")
        needs_root()
        path.write_text(text, errors="surrogateescape")
        os.chown(path, 65534, 65534)
        expect_problem("belongs to user 65534")


def test_java(test):
    for program in ("java", "javac", "jcmd"):
        needs(program)
    with new_folder() as folder:
        (folder / "Orders.java").write_text(JAVA)
        subprocess.run(["javac", "-d", folder, folder / "Orders.java"], check=True)
        with Process(test.library, "java", "-XX:+PreserveFramePointer", "-Xmx64m", "-cp", str(folder), "Orders", **SAMPLED) as process:
            path = pathlib.Path(f"/tmp/perf-{process.pid}.map")
            try:
                subprocess.run(["jcmd", str(process.pid), "Compiler.perfmap"], check=True, stdout=subprocess.PIPE)
                found = functions(test.json("profile", process.pid))
            finally:
                path.unlink(missing_ok=True)
        test.expect(any("java.util.zip.Deflater" in name for name in found), str(sorted(found)))


def test_node(test):
    needs("node")
    with new_folder() as folder:
        (folder / "orders.js").write_text(NODE)
        with Process(test.library, "node", "--perf-basic-prof", "--interpreted-frames-native-stack", str(folder / "orders.js"),
                     **SAMPLED) as process:
            path = pathlib.Path(f"/tmp/perf-{process.pid}.map")
            try:
                found = functions(test.json("profile", process.pid))
            finally:
                path.unlink(missing_ok=True)
        test.expect(any("orders.js" in name for name in found), str(sorted(found)))


if __name__ == "__main__":
    run_test(globals())
