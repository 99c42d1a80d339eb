#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the names of functions that a process compiled at run time, from /tmp/perf-PID.map.

PROGRAM is the program of jit_code.c.
"""

import contextlib
import gzip
import pathlib
import shutil
import tempfile

from harness import AT_REST, LEAKS, Process, children_of, namespace, needs, new_folder, run_test, wait_until_asleep

HOLD, LEAK = "Shop.hold(int)", "Shop.leak ?[1m?"
SAMPLED = {**AT_REST, "TCMALLOC_SAMPLE_PARAMETER": "65536"}

NODE = """
const kept = [];
function placeOrder(i) {
  kept[i % 200] = Buffer.alloc(100000, i);
}
for (let i = 0; i < 20000; i++) placeOrder(i);
console.log('ready');
process.stdin.read();
setTimeout(() => {}, 1e6);
"""


@contextlib.contextmanager
def started(test, *prefix, program=None, **options):
    """The program and its map, which is removed at the end."""
    with Process(test.library, *prefix, program or test.program, **SAMPLED, **options) as process:
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


def test_node(test):
    needs("node")
    with new_folder() as folder:
        (folder / "orders.js").write_text(NODE)
        with started(test, "node", "--perf-basic-prof", "--interpreted-frames-native-stack", program="orders.js",
                     folder=folder) as (process, _):
            found = functions(test.json("profile", process.pid))
        test.expect(any("orders.js" in name for name in found), str(sorted(found)))


if __name__ == "__main__":
    run_test(globals())
