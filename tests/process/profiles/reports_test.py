#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the reports that a process writes because its environment requests them: profiles to files, statistics.

usage: reports_test.py WHAT REPORTS LIBRARY MINIMAL_LIBRARY

Each process waits without allocating while the test looks at it, so that only the library's own thread can write.
"""

import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

import process_test

MIB = 1 << 20
HEADER = re.compile(r"heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heap_v2/(\d+)\n")
# Each object of a MiB is sampled: the chance that one is not is e to the power of -64.
PERIOD = 16384
# This is longer than any step takes on a machine under load.
PATIENCE_S = 60


class Process:

    def __init__(self, test, words, variables, library=None, limit=None):
        self.test = test
        self.process = subprocess.Popen(
            [test.program, *words], env=process_test.environment(library or test.library, **variables),
            text=True, cwd=test.folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=1,
            preexec_fn=limit)
        self.pid = self.process.pid

    def see(self, word):
        """Reads the next line of stdout, which must begin with this."""
        line = self.process.stdout.readline().rstrip("\n")
        if not line.startswith(word):
            self.process.kill()
            sys.exit(f"{word} expected, found {line!r}")
        return line

    def go_on(self):
        self.process.stdin.write("x")
        self.process.stdin.flush()

    def end(self, status=0):
        """Lets the process continue; returns its stderr."""
        try:
            out, err = self.process.communicate(input="x" * 9, timeout=PATIENCE_S)
        except BrokenPipeError:
            out, err = self.process.communicate(timeout=PATIENCE_S)
        self.test.expect_equal(self.process.returncode, status, f"exit status ({out} {err})")
        return err

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))


class Test(process_test.Test):

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.minimal = self.others[0]
        self.base = str(self.folder / "p")

    def start(self, *words, library=None, limit=None, **variables):
        return Process(self, words, variables, library, limit)

    def profiled(self, options, *words, **variables):
        return self.start(*words, TCMALLOC_PROFILE=self.base + options,
                          TCMALLOC_SAMPLE_PARAMETER=str(PERIOD), **variables)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def wait_for(self, found, what):
        """Waits until found() returns something, and returns that."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if result := found():
                return result
            time.sleep(0.01)
        self.expect(False, f"{what} in {PATIENCE_S} s; there is {self.files()}")
        sys.exit(1)

    def objects(self, name, period=PERIOD):
        """Objects of a MiB in the profile; None unless the profile is complete."""
        try:
            text = (self.folder / name).read_text()
        except FileNotFoundError:
            return None
        if "\nMAPPED_LIBRARIES:\n" not in text or not text.endswith("\n"):
            return None
        self.expect(f" {self.program}\n" in text, f"{name}: the program's mappings")
        match = HEADER.match(text)
        self.expect(match, f"{name} begins with {text[:80]!r}")
        self.expect_equal(int(match[5]), period, f"{name}: sampling interval")
        found = 0
        for entry in re.finditer(r"^(\d+): (\d+) \[\1: \2\] @ 0x", text, re.MULTILINE):
            if int(entry[2]) == int(entry[1]) * MIB:
                found += int(entry[1])
        return found


# --- profiles ------------------------------------------------------------------------------------


def test_exit(test):
    run = test.profiled("", "hold:20", "keep:12", "wait")
    run.see("hold:20"), run.see("keep:12")
    # A file is written only at the end, so there is no thread.
    test.expect_equal((run.threads(), test.files(), run.end()), (1, [], ""), "threads, files, stderr")
    test.expect_equal(test.objects(f"p.{run.pid}.0001.heap"), 12, "objects")


def test_main_ends(test):
    """/proc/self says nothing any more when the main thread has ended."""
    run = test.profiled("", "thread", "hold:20", "wait", MALLOCSTATS="1")
    run.see("hold:20")
    status = pathlib.Path(f"/proc/{run.pid}/status")
    test.wait_for(lambda: "State:\tZ" in status.read_text(), "the end of the main thread")
    err = run.end()
    test.expect_equal(test.objects(f"p.{run.pid}.0001.heap"), 20, "objects")
    test.expect(re.search(rf"Process {run.pid}, {test.program}, .*\nResident memory [1-9]", err), err)


def test_signal(test):
    run = test.profiled(",signal=USR1", "hold:10", "wait", "hold:30", "wait")
    names = [f"p.{run.pid}.{number:04}.heap" for number in (1, 2)]
    for name, objects in zip(names, (10, 30)):
        run.see(f"hold:{objects}")
        os.kill(run.pid, signal.SIGUSR1)
        test.expect_equal(test.wait_for(lambda: test.objects(name), name), objects, "objects")
        run.go_on()
        run.see("wait")
    err = run.end()
    test.expect_equal(test.files(), names, "files: none at exit")
    test.expect(re.fullmatch("".join(rf"tcmalloc: TCMALLOC_PROFILE: wrote {test.folder}/{name} "
                                     r"\(about \d+\.\d MiB requested\)\n" for name in names), err), err)


def test_peak(test):
    run = test.profiled(",peak", "hold:40", "keep:5", "wait", "hold:80", "keep:5", "wait", "hold:82", "keep:0")
    run.see("hold:40"), run.see("keep:5")
    name = f"p.{run.pid}.peak.heap"
    # The file is always a complete profile.
    path = test.folder / name
    see = lambda: test.objects(name) if path.exists() else 0
    test.expect_equal(test.wait_for(see, name), 40, "objects at the first peak")
    run.go_on()
    test.wait_for(lambda: see() == 80, "the second peak")
    # Two more objects are less than a tenth of the peak, so this peak is written at the end.
    test.expect_equal(run.end(), "", "stderr")
    test.expect_equal(test.files(), [name], "files")
    test.expect_equal(test.objects(name), 82, "objects at the last peak")


def test_fork(test):
    run = test.profiled(",signal=USR1,every=300ms,at=exit", "hold:10", "fork", "wait", "keep:2")
    run.see("hold:10")
    child = int(run.see("child").split()[1])
    # The child does not allocate; its parent waits for it.
    for pid in run.pid, child:
        name = f"p.{pid}.0001.heap"
        test.expect_equal(test.wait_for(lambda: test.objects(name), name), 10, "objects")
    os.kill(child, signal.SIGUSR1)
    # Once the child has exited, its helper thread answers no signal.
    line = run.process.stderr.readline()
    test.expect(re.match(rf"tcmalloc: TCMALLOC_PROFILE: wrote {test.base}\.{child}\.\d+\.heap ",
                         line), f"the child says what it wrote: {line}")
    test.expect_equal(run.end(), "", "rest of stderr")
    last = {pid: [name for name in test.files() if name.startswith(f"p.{pid}.")][-1] for pid in (run.pid, child)}
    test.expect_equal([test.objects(last[run.pid]), test.objects(last[child])], [10, 2], "objects at exit")


def test_terminate(test):
    """signal=TERM writes a file, and the process still ends by the signal."""
    for words in (("hold:10", "wait"), ("hold:10", "pause")):
        run = test.profiled(",signal=TERM,at=exit", *words)
        run.see("hold:10")
        if words[1] == "pause":
            # main returns when the signal interrupts it, but the signal still ends the process.
            run.see("pauses")
        os.kill(run.pid, signal.SIGTERM)
        run.process.wait(PATIENCE_S)
        run.end(-signal.SIGTERM)
        names = [name for name in test.files() if str(run.pid) in name]
        test.expect_equal(names, [f"p.{run.pid}.0001.heap"], "files")
        test.expect_equal(test.objects(names[0]), 10, "objects")


def test_mistakes(test):
    """Each mistake prints one line, and the whole setting is off."""
    missing = str(test.folder / "missing" / "p")
    for value, expected in (
            (f"{test.base},signl=USR1", 'syntax error at "signl=USR1", expected PATH[,at=exit]'
             "[,signal=NAME][,every=TIME][,peak]; no profiles are written"),
            (missing, ".peak.heap.new: No such file or directory; no profiles are written")):
        run = test.start("hold:1", "wait", TCMALLOC_PROFILE=value)
        run.see("hold:1")
        test.expect_equal(run.threads(), 1, f"{value}: threads")
        err = run.end()
        test.expect(err.startswith("tcmalloc: TCMALLOC_PROFILE: ") and expected in err and
                    err.count("\n") == 1, f"{value}: {err!r}")
    test.expect_equal(test.files(), [], "files")
    # If the disk is full, the partly written file is removed.
    run = test.profiled("", "hold:1",
                        limit=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                                       resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))))
    err = run.end()
    test.expect_equal(err, f"tcmalloc: TCMALLOC_PROFILE: cannot write {test.base}.{run.pid}.0001.heap: "
                      "File too large\n", "stderr")
    test.expect_equal(test.files(), [], "files")
    # A signal that is ignored is not taken.
    run = test.profiled(",signal=HUP", "wait", limit=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    err = run.end()
    test.expect("the process already handles or ignores the signal; no profiles" in err, err)


# --- reports on SIGTERM --------------------------------------------------------------------------


def test_at_term(test):
    """The reports of the exit are written on SIGTERM, and the signal ends the process."""
    run = test.profiled("", "hold:10", "leak", "wait", TCMALLOC_REPORT_AT_TERM="1",
                        MALLOCSTATS="1", HEAPCHECK="normal",
                        HEAP_CHECK_DUMP_DIRECTORY=str(test.folder))
    run.see("hold:10"), run.see("leak")
    os.kill(run.pid, signal.SIGTERM)
    run.process.wait(PATIENCE_S)
    err = run.end(-signal.SIGTERM)
    test.expect_equal(err.count("Bytes in use by application"), 1, "statistics")
    test.expect(f"Process {run.pid}, {test.program}, " in err, "the banner")
    # The stack may still have some of the last pointers.
    leak = re.search(r"(\d+) bytes in (\d+) objects", err)
    test.expect(leak and 7 <= int(leak[2]) <= 10 and int(leak[1]) == int(leak[2]) * 100000, f"the leak: {err}")
    test.expect_equal(test.objects(f"p.{run.pid}.0001.heap"), 10, "objects in the profile")


def test_at_term_off(test):
    """There is no handler and no thread unless requested, and none if the signal is ignored."""
    run = test.start("hold:1", "wait", library=test.minimal, MALLOCSTATS="1")
    run.see("hold:1")
    test.expect_equal(run.threads(), 1, "threads")
    os.kill(run.pid, signal.SIGTERM)
    run.process.wait(PATIENCE_S)
    test.expect_equal(run.end(-signal.SIGTERM), "", "stderr")
    run = test.start("hold:1", "wait", library=test.minimal, TCMALLOC_REPORT_AT_TERM="1",
                     limit=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    run.see("hold:1")
    os.kill(run.pid, signal.SIGTERM)
    test.expect_equal(run.end(), "tcmalloc: TCMALLOC_REPORT_AT_TERM: the process already handles or "
                      "ignores SIGTERM; no reports are written on it\n", "stderr")


# --- statistics ----------------------------------------------------------------------------------


def read_series(text):
    return [json.loads(line) for line in text.splitlines()]


def test_series(test):
    file = test.folder / "stats.jsonl"
    for library in test.library, test.minimal:
        run = test.start("hold:20", "fork", "keep:5", "wait", library=library, TCMALLOC_STATS_EVERY=f"50ms,{file}")
        run.see("hold:20")
        child = int(run.see("child").split()[1])
        run.see("fork"), run.see("keep:5")

        def both():
            series = read_series(file.read_text()) if file.exists() else []
            of = {pid: [line for line in series if line["pid"] == pid] for pid in (run.pid, child)}
            return of if all(len(lines) > 3 for lines in of.values()) else None
        of = test.wait_for(both, "lines of both")
        test.expect_equal(run.end(), "", "stderr")
        for pid, objects in ((run.pid, 20), (child, 5)):
            last = of[pid][-1]
            test.expect_equal(last["large_in_use_bytes"] // MIB, objects, "objects")
            test.expect_equal(os.path.realpath(last["library"]), os.path.realpath(library), "library")
            test.expect_equal(last["settings"], f"TCMALLOC_STATS_EVERY=50ms,{file}", "settings")
            test.expect(last["process_resident_bytes"] > last["process_anonymous_bytes"] > 0, "memory")
            times = [line["time"] for line in of[pid]]
            test.expect_equal(times, sorted(times), "times")
        file.unlink()
    # The file may be moved away, as by a program that rotates logs.
    run = test.start("wait", TCMALLOC_STATS_EVERY=f"20ms,{file}")
    test.wait_for(lambda: file.exists() and file.read_text(), "lines")
    file.rename(test.folder / "old")
    test.wait_for(lambda: file.exists() and file.read_text(), "lines in a new file")
    run.end()


if __name__ == "__main__":
    process_test.main(globals(), Test)
