#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tcmalloc leaks on processes and core files.

  leaks_command_test.py WHAT COMMAND PROGRAM LIBRARY

  same      finds the objects that leaks.cc leaks, as leaks_test.py expects of the library's checker
  dead      as same, with a leaked object to which only the stack of an ended thread points
  forked    as same, with --snapshot; leaks_fork_test.py tests what the process notices of it
  recorded  as same, while the library records allocations (HEAPCHECK): without samples, and a Disabler counts
  guarded   as same, with every object in pages of its own
  memfs     as same, with the heap in a file of shared memory
  running   as same, with --no-stop: the answer is probable
  kernel    as same, on a core file of the kernel
  missing   core files of gdb, whole and without the program's memory: never "no leaks"
  snapshot  as same, on a snapshot with all memory
  denied    without the rights of a debugger: an error, never "no leaks"
  busy      eight threads allocate and free: no object is reported in CHECKS checks
  many      as busy, 200 times
  busy_forked  as busy, with --snapshot

LIBRARY may be "linked": then the program has the allocator in itself.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cores
from command_test import SKIPPED, Target, Test, clean_environment
from core_test import gcore
from cores import crash

CHECKS = 25
MANY_CHECKS = 200
LEAKS = 4
INCOMPLETE = 5
# The ways of leaks.cc whose objects are leaked before the end of main, by rules without records. Objects that it
# allocates while the checker is disabled count as leaked: only records show that they are not.
LOST = ("Lose", "Far", "Early", "HoldToldDisabled")
LOST_WITH_RECORDS = ("Lose", "Far", "Early")


class Skipped(Exception):
    pass


def find_functions(sites):
    """{function of leaks.cc: (bytes, objects)}"""
    found = {}
    for site in sites:
        names = [frame["function"] for frame in site["frames"]]
        name = next((name for name in names if re.match(r"(Lose|Hold|Early|Late|Far)[A-Z]", name)), str(names[:3]))
        size, objects = found.get(name, (0, 0))
        found[name] = (size + site["bytes"], objects + site["objects"])
    return found


class Leaking:
    """Runs leaks.cc until the end of the block."""

    def __init__(self, test, *arguments, folder=None, user=None, **variables):
        environment = clean_environment(TCMALLOC_SAMPLE_PARAMETER="1")
        if test.library != "linked":
            environment["LD_PRELOAD"] = test.library
        environment.update(variables)
        self.process = subprocess.Popen([test.program, "0", "wait", *arguments], env=environment, text=True, cwd=folder, user=user,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid
        self.told = {}
        for line in self.process.stdout:
            if line == "ready\n":
                break
            name, size, objects = line.split()
            self.told[name] = (int(size), int(objects))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


def has_names(test):
    """Whether the program has names of functions."""
    return "stripped" not in pathlib.Path(test.program).name


def compare(test, report, told, lost=LOST, sized=True):
    """sized: the requested sizes are known, by samples or records."""
    if "no_pie" in pathlib.Path(test.program).name:
        lost = (*lost, "HoldTold")  # it finds no functions of a preloaded library that it was not linked to
    wanted = {name: figures for name, figures in told.items() if name.startswith(lost)}
    test.expect(len(wanted) > 5, f"the program says {told}")
    objects = sum(figures[1] for figures in wanted.values())
    if not (sized and has_names(test)):
        found = {name: figures[1] for name, figures in find_functions(report["sites"]).items()}
        # In a linked program this is as below.
        early = wanted["EarlyLost"][1] if test.library == "linked" else 0
        test.expect(objects - early <= report["objects"] <= objects, f"{report['objects']} objects, not {objects}: {found}")
        return
    found = find_functions(report["sites"])
    if test.library == "linked":
        # A constructor of the program may run before the library's constructor, which starts sampling.
        unnamed = [site for site in report["sites"] if not site["frames"]]
        test.expect(sum(site["objects"] for site in unnamed) <= wanted.pop("EarlyLost")[1], f"{unnamed}")
        found = find_functions([site for site in report["sites"] if site["frames"]])
        found.pop("EarlyLost", None)
    for name in sorted({*wanted, *found}):
        test.expect(found.get(name) == wanted.get(name), f"{name}: {found.get(name)}, not {wanted.get(name)}")


def expect_complete(test, report):
    test.expect(report["complete"] and not report["incomplete"], f"{report['incomplete']}")


def forked(test):
    same(test, "--snapshot")


def same(test, *options):
    minimal = "minimal" in pathlib.Path(test.library).name
    with Leaking(test) as program:
        report = json.loads(test.ask("leaks", program.pid, *options, "--json", "--objects", status=LEAKS).stdout)
        # The minimal library has no samples, and no functions by which a program informs the checker.
        compare(test, report, program.told, lost=(*LOST, "HoldTold") if minimal else LOST, sized=not minimal)
        expect_complete(test, report)
        listed = [address for site in report["sites"] for address in site["addresses"]]
        test.expect(len(listed) == len(set(listed)) == report["objects"], "the list of objects")
        text = test.ask("leaks", program.pid, *options, status=LEAKS).stdout
        test.expect("has leaked" in text and "was stopped for" in text, text)
        far = json.loads(test.ask("leaks", program.pid, *options, "--json", "--max-pointer-offset", 1 << 20,
                                  status=LEAKS).stdout)
        test.expect(far["objects"] == report["objects"] - 1, "a pointer far into an object counts on request")
        if minimal or not has_names(test):
            return
        cycle = next(site for site in report["sites"] if find_functions([site]).get("LoseCycle"))
        test.expect(cycle["direct_objects"] <= 1, f"of a cycle, one object is leaked directly: {cycle}")
        test.expect("LoseList" in text and "FarPointer" not in find_functions(far["sites"]), text)


def dead(test):
    with Leaking(test, "dead") as program:
        test.expect("LoseOnDeadStack" in program.told, f"the program says {program.told}")
        report = json.loads(test.ask("leaks", program.pid, "--json", status=LEAKS).stdout)
        compare(test, report, program.told)
        expect_complete(test, report)


def recorded(test):
    with tempfile.TemporaryDirectory() as folder:
        with Leaking(test, TCMALLOC_SAMPLE_PARAMETER="0", HEAPCHECK="normal",
                     HEAP_CHECK_DUMP_DIRECTORY=folder) as program:
            report = json.loads(test.ask("leaks", program.pid, "--json", status=LEAKS).stdout)
            # EarlyLost may be older than the records.
            sites = [site for site in report["sites"] if site["frames"]]
            told = {name: figures for name, figures in program.told.items() if not name.startswith("Early")}
            others = {name for name in find_functions(sites) if name not in told}
            test.expect(others <= {"EarlyLost"}, f"{others}")
            report["sites"] = [site for site in sites if "EarlyLost" not in find_functions([site])]
            compare(test, report, told, LOST_WITH_RECORDS)
            expect_complete(test, report)


def guarded(test):
    with Leaking(test, TCMALLOC_GUARDED_SAMPLE="1") as program:
        report = json.loads(test.ask("leaks", program.pid, "--json", status=LEAKS).stdout)
        compare(test, report, program.told)
        expect_complete(test, report)
        stats = test.json("stats", program.pid)
        test.expect(stats["guarded_bytes"] > 0, "some objects are guarded")


def memfs(test):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        with Leaking(test, TCMALLOC_MEMFS_MALLOC_PATH=f"{folder}/heap") as program:
            maps = pathlib.Path(f"/proc/{program.pid}/maps").read_text()
            test.expect(folder in maps, f"the heap is in a file:\n{maps}")
            report = json.loads(test.ask("leaks", program.pid, "--json", status=LEAKS).stdout)
            compare(test, report, program.told)
            expect_complete(test, report)


def running(test):
    with Leaking(test) as program:
        report = json.loads(test.ask("leaks", program.pid, "--no-stop", "--json", status=INCOMPLETE).stdout)
        test.expect(report["probable"] and not report["complete"], f"{report['incomplete']}")
        found = find_functions(report["sites"])
        for name in ("LoseList", "LoseLarge", "LoseVector"):
            test.expect(found.get(name) == program.told[name], f"{name}: {found.get(name)}")


def busy(test, checks=CHECKS, options=()):
    with Target(test) as target:
        target.tell("busy 8")
        for i in range(checks):
            report = json.loads(test.ask("leaks", target.pid, *options, "--json").stdout or "{}")
            test.expect(report.get("objects") == 0, f"check {i}: {str(report)[:2000]}")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def busy_forked(test):
    busy(test, options=("--snapshot",))


def many(test):
    busy(test, MANY_CHECKS)


def kernel(test):
    """A core file of the kernel by its default filter."""
    if cores.why_none() is not None:
        raise Skipped(cores.why_none())
    with tempfile.TemporaryDirectory() as folder, Leaking(test, folder=folder) as program:
        core = crash(program, pathlib.Path(folder))
        report = json.loads(test.ask("leaks", core, "--json", status=LEAKS).stdout)
        compare(test, report, program.told)
        expect_complete(test, report)


def missing(test):
    if shutil.which("gcore") is None:
        raise Skipped("gcore is not installed")
    with tempfile.TemporaryDirectory() as folder, Leaking(test) as program:
        whole = gcore(program, pathlib.Path(folder))
        report = json.loads(test.ask("leaks", whole, "--json", status=LEAKS).stdout)
        compare(test, report, program.told)
        expect_complete(test, report)
        contents = whole.read_bytes()
        cut = pathlib.Path(folder) / "cut"
        for percent in (10, 40, 70, 90, 99):
            cut.write_bytes(contents[:len(contents) * percent // 100])
            run = test.ask("leaks", cut, status=None)
            test.expect(run.returncode in (1, INCOMPLETE), f"{percent} %: exit status {run.returncode}")
            test.expect("incomplete" in run.stdout + run.stderr and "no leaks" not in run.stdout,
                        f"{percent} %: {run.stdout[-500:]}{run.stderr}")


def snapshot(test):
    with tempfile.TemporaryDirectory() as folder, Leaking(test) as program:
        file = pathlib.Path(folder) / "snapshot"
        test.ask("snapshot", program.pid, file)
        run = test.ask("leaks", file, status=1)
        test.expect("incomplete: " in run.stderr and "--contents" in run.stderr and not run.stdout, run.stderr)
        test.ask("snapshot", program.pid, file, "--contents")
        report = json.loads(test.ask("leaks", file, "--json", status=LEAKS).stdout)
        compare(test, report, program.told)
        expect_complete(test, report)
        contents = file.read_bytes()
        for percent in (50, 90):
            file.write_bytes(contents[:len(contents) * percent // 100])
            run = test.ask("leaks", file, status=None)
            test.expect(run.returncode in (1, INCOMPLETE) and "no leaks" not in run.stdout, f"{percent} %: {run.stdout}")
        test.ask("snapshot", program.pid, file, "--contents", "--no-stop")
        report = json.loads(test.ask("leaks", file, "--json", status=INCOMPLETE).stdout)
        test.expect("registers" in str(report["incomplete"]), f"{report['incomplete']}")


def denied(test):
    if os.geteuid() != 0:
        raise Skipped("only root can run the command as another user")
    with Leaking(test) as program:
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            command = shutil.copy(test.command, folder)
            for options in ((), ("--no-stop",)):
                run = test.ask("leaks", program.pid, *options, status=1, user="nobody", command=command)
                test.expect("user" in run.stderr and not run.stdout, run.stderr + run.stdout)
        tracer = subprocess.Popen(["strace", "-f", "-o", os.devnull, "-p", str(program.pid)], stderr=subprocess.PIPE,
                                  text=True) if shutil.which("strace") else None
        if tracer is not None:
            while "attached" not in tracer.stderr.readline():
                pass
            run = test.ask("leaks", program.pid, status=1)
            test.expect("is traced by" in run.stderr and not run.stdout, run.stdout + run.stderr)
            tracer.terminate()
            tracer.wait()


def main():
    what, command, program, library = sys.argv[1:]
    test = Test(command, program, library)
    if test.command is None:
        print("SKIP: no build has the command")
        return SKIPPED
    try:
        {"same": same, "dead": dead, "recorded": recorded, "guarded": guarded, "memfs": memfs, "running": running, "busy": busy,
         "forked": forked, "busy_forked": busy_forked,
         "many": many, "kernel": kernel, "missing": missing, "snapshot": snapshot, "denied": denied}[what](test)
    except Skipped as reason:
        print(f"SKIP: {reason}")
        return SKIPPED
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
