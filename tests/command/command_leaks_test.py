#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tcmalloc leaks on processes and core files: finds what leaks.cc leaks, as leaks_test.py expects of the library's checker."""

import pathlib
import re
import subprocess
import sys

from cores import crash
from harness import INCOMPLETE, LEAKS, Process, Target, Tracer, clean_environment, namespace, needs, new_folder, run_test

CHECKS, MANY_CHECKS = 25, 200
# The functions of leaks.cc whose objects are leaked before the end of main, by the rules that need no records. Objects
# that it allocates while the checker is disabled count as leaked: only records show that they are not.
LOST = ("Lose", "Far", "Early", "HoldToldDisabled")
LOST_WITH_RECORDS = ("Lose", "Far", "Early")


def find_functions(sites):
    """{function of leaks.cc: (bytes, objects)}"""
    found = {}
    for site in sites:
        names = [frame["function"] for frame in site["frames"]]
        name = next((name for name in names if re.match(r"(Lose|Hold|Early|Late|Far)[A-Z]", name)), str(names[:3]))
        size, objects = found.get(name, (0, 0))
        found[name] = (size + site["bytes"], objects + site["objects"])
    return found


class Leaking(Process):
    """Runs leaks.cc until the end of the block. `told` is what the program printed about its own
    leaks: {function: (bytes, objects)}."""

    def __init__(self, test, *arguments, **options):
        super().__init__(test.library, test.program, "0", "wait", *arguments, **{"TCMALLOC_SAMPLE_PARAMETER": "1", **options})
        self.told = {name: (int(size), int(objects)) for name, size, objects in self.said}


def has_names(test):
    """Whether the program has names of functions."""
    return "stripped" not in pathlib.Path(test.program).name


def compare(test, report, told, lost=LOST, sized=True):
    """sized: the requested sizes are known, by samples or records."""
    if "no_pie" in pathlib.Path(test.program).name:
        lost = (*lost, "HoldTold")  # it finds no functions of a preloaded library that it was not linked to
    wanted = {name: figures for name, figures in told.items() if name.startswith(lost)}
    test.expect(len(wanted) > 5, f"the program says {told}")
    test.expect(report["complete"] and not report["incomplete"], f"{report['incomplete']}")
    linked = test.library == "linked"
    # A constructor of a linked program may run before the library's constructor, which starts sampling.
    early = wanted["EarlyLost"][1] if linked else 0
    if not (sized and has_names(test)):
        objects = sum(figures[1] for figures in wanted.values())
        test.expect(objects - early <= report["objects"] <= objects,
                    f"{report['objects']} objects, not {objects}: {find_functions(report['sites'])}")
        return
    sites = report["sites"]
    if linked:
        test.expect(sum(site["objects"] for site in sites if not site["frames"]) <= early, f"{sites}")
        sites = [site for site in sites if site["frames"]]
    found = find_functions(sites)
    for figures in (wanted, found) if linked else ():
        figures.pop("EarlyLost", None)
    test.expect_equal(found, wanted, "leaked")


def leaks(test, target, *options, status=LEAKS):
    return test.json("leaks", target, *options, status=status)


def test_same(test, *options):
    minimal = "minimal" in pathlib.Path(test.library).name
    # A stray word may point into a large leaked object (test_offset of leaks_test.py).
    with Leaking(test, LEAKS_LARGE_BYTES="5000") as program:
        report = leaks(test, program.pid, *options, "--objects")
        # The minimal library has no samples, and no functions by which a program informs the checker.
        compare(test, report, program.told, lost=(*LOST, "HoldTold") if minimal else LOST, sized=not minimal)
        listed = [address for site in report["sites"] for address in site["addresses"]]
        test.expect(len(listed) == len(set(listed)) == report["objects"], "the list of objects")
        text = test.ask("leaks", program.pid, *options, status=LEAKS).stdout
        test.expect(re.search(r"^A number that looks like a pointer can hide a leaked object: .*% of those of 1024 bytes", text, re.M), text)
        # Without samples there are no call sites.
        test.expect((" groups\n" in text, "TCMALLOC_SAMPLE_PARAMETER=" in text) == (minimal, minimal), text)
        test.expect("has leaked" in text and "was stopped for" in text, text)
        far = leaks(test, program.pid, *options, "--max-pointer-offset", 1 << 20)
        test.expect_equal(far["objects"], report["objects"] - 1, "a pointer far into an object counts on request")
        test.expect_equal((report["reached_far_objects"], far["reached_far_objects"]), (1, 0), "the report says how many such pointers hold")
        test.expect(re.search(r"^Of these, \d+ bytes in 1 object are reachable by pointers beyond byte 1024 of", text, re.M), text)
        test.expect_equal(leaks(test, program.pid, *options, "--max-pointer-offset=-1")["objects"], far["objects"], "-1: anywhere")
        if not minimal and has_names(test):
            cycle = next(site for site in report["sites"] if find_functions([site]).get("LoseCycle"))
            test.expect(cycle["direct_objects"] <= 1, f"of a cycle, one object is leaked directly: {cycle}")
            test.expect("LoseList" in text and "FarPointer" not in find_functions(far["sites"]), text)


def test_forked(test):
    test_same(test, "--snapshot")


def test_dead(test):
    with Leaking(test, "dead") as program:
        test.expect("LoseOnDeadStack" in program.told, f"the program says {program.told}")
        compare(test, leaks(test, program.pid), program.told)


def test_recorded(test):
    with new_folder() as folder, Leaking(test, TCMALLOC_SAMPLE_PARAMETER="0", HEAPCHECK="normal",
                                         HEAP_CHECK_DUMP_DIRECTORY=str(folder)) as program:
        report = leaks(test, program.pid)
        # EarlyLost may be older than the records, and then has no site.
        report["sites"] = [site for site in report["sites"] if site["frames"] and "EarlyLost" not in find_functions([site])]
        program.told.pop("EarlyLost")
        compare(test, report, program.told, LOST_WITH_RECORDS)


def test_memfs(test):
    with new_folder(dir="/dev/shm") as folder, Leaking(test, TCMALLOC_MEMFS_MALLOC_PATH=f"{folder}/heap") as program:
        test.expect(str(folder) in pathlib.Path(f"/proc/{program.pid}/maps").read_text(), "the heap is in a file")
        compare(test, leaks(test, program.pid), program.told)


def test_running(test):
    with Leaking(test) as program:
        report = leaks(test, program.pid, "--no-stop", status=INCOMPLETE)
        test.expect(report["probable"] and not report["complete"], f"{report['incomplete']}")
        found = find_functions(report["sites"])
        for name in ("LoseList", "LoseLarge", "LoseVector"):
            test.expect_equal(found.get(name), program.told[name], name)


def test_busy(test, *options, checks=CHECKS):
    with Target(test) as target:
        target.tell("busy 8")
        for i in range(checks):
            report = leaks(test, target.pid, *options, status=0)
            test.expect(report.get("objects") == 0, f"check {i}: {str(report)[:2000]}")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def test_room(test):
    with new_folder() as folder, Target(test) as target:
        text = test.ask("leaks", target.pid).stdout
        test.expect("no leaks found" in text and f"'tcmalloc doctor --for 10s {target.pid}'" in text, text)
        namespace("--mount")
        (folder / "meminfo").write_text("MemAvailable: 1024 kB\n")
        for options in (("leaks",), ("leaks", "--no-stop"), ("leaks", "--snapshot"), ("inspect", "0x1000", "--referrers"),
                        ("snapshot", folder / "snapshot", "--contents")):
            test.fails("--mount", "sh", "-c", f'mount --bind {folder}/meminfo /proc/meminfo && exec {test.command} "$@"', "sh",
                       options[0], target.pid, *options[1:], command="unshare", words="the machine has 1.0 MiB available")


def test_busy_forked(test):
    test_busy(test, "--snapshot")


def test_busy_long(test):
    test_busy(test, checks=MANY_CHECKS)


def test_kernel(test):
    with new_folder() as folder, Leaking(test, folder=folder) as program:
        compare(test, leaks(test, crash(program, folder)), program.told)


def test_snapshot(test):
    with new_folder() as folder, Leaking(test) as program:
        file = folder / "snapshot"
        test.ask("snapshot", program.pid, file)
        test.fails("leaks", file, words=("incomplete: ", "--contents"))
        test.ask("snapshot", program.pid, file, "--contents")
        compare(test, leaks(test, file), program.told)
        test.ask("snapshot", program.pid, file, "--contents", "--no-stop")
        report = leaks(test, file, status=INCOMPLETE)
        test.expect("registers" in str(report["incomplete"]), f"{report['incomplete']}")


def test_huge(test):
    """A mapping of 2 TiB, on a kernel that cannot scan for pages."""
    needs("cc")
    code = "import mmap; m = mmap.mmap(-1, 2 << 40, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000); print('ready', flush=True); input()"
    with new_folder() as folder, Process(test.library, sys.executable, "-c", code) as process:
        subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-", "-o", folder / "old.so"], check=True, text=True,
                       input="#include <errno.h>\nint ioctl(int f, unsigned long r, ...) { errno = ENOTTY; return -1; }\n")
        old = clean_environment(LD_PRELOAD=str(folder / "old.so"))
        report = test.json("leaks", process.pid, status=INCOMPLETE, environment=old)
        test.expect(report["probable"] and report["unread_bytes"] == 2 << 40 and "were not searched" in str(report["incomplete"]),
                    f"{report['incomplete']}")
        test.fails("snapshot", process.pid, folder / "snapshot", "--contents", environment=old, words="Linux 6.7")


def test_denied(test):
    with Leaking(test) as program:
        with Tracer(program.pid):
            test.fails("leaks", program.pid, words="is traced by")
        for options in ((), ("--no-stop",)):
            test.fails_as_nobody("leaks", program.pid, *options, words="user")


if __name__ == "__main__":
    run_test(globals())
