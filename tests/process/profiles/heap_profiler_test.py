#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the heap profiler as programs and the environment use it: files, their names, and exact figures.

usage: heap_profiler_test.py WHAT HEAP_PROFILER LIBRARY MINIMAL_LIBRARY
"""

import os
import re
import resource
import signal
import subprocess

import process_test

MIB = 1 << 20
HEADER = re.compile(r"heap profile: +(\d+): +(\d+) \[ *(\d+): +(\d+)\] @ heapprofile")
ENTRY = re.compile(r" *(\d+): +(\d+) \[ *(\d+): +(\d+)\] @((?: 0x[0-9a-f]+)*)")


class Run:

    def __init__(self, stdout, stderr):
        self.stdout, self.stderr = stdout, stderr
        self.small = int(re.search(r"SiteSmall at (0x[0-9a-f]+)", stdout)[1], 16)


def limit_files(file_bytes):
    if file_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


class Test(process_test.Test):

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.minimal = self.others[0]
        self.prefix = str(self.folder / "p")
        self.functions = {}  # name: (address in the file, bytes)
        nm = subprocess.run(["nm", "-S", self.program], check=True, text=True, stdout=subprocess.PIPE)
        for line in nm.stdout.split("\n"):
            if match := re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) [tT] (Site\w+|Outer\w+)", line):
                self.functions[match[3]] = (int(match[1], 16), int(match[2], 16))

    def run(self, what, variables=None, library=None, stderr=None, profile=True, file_bytes=None):
        """Runs the program; with HEAPPROFILE unless `profile` is false. stderr: a pattern of a line that is
        written once. file_bytes: no file can become longer, as on a full disk."""
        variables = {**({"HEAPPROFILE": self.prefix} if profile else {}), **(variables or {})}
        done = super().run(what, self.prefix, library=library, prepare=lambda: limit_files(file_bytes), **variables)
        self.expect_equal(done.returncode, 0, f"{what}: exit code ({done.stderr})")
        others = [line for line in done.stderr.splitlines()
                  if not re.fullmatch(r"tcmalloc: heap profile \S+\.\d{4,}\.heap \(.*, \d+ MB currently in use\)", line)]
        self.expect(len(others) == 1 and re.fullmatch(stderr, others[0]) if stderr else not others, f"stderr: {others}")
        return Run(done.stdout, done.stderr)

    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def clear(self):
        for path in self.folder.iterdir():
            path.unlink()

    def profile(self, run, name):
        """Figures by function, innermost first: {("SiteSmall", "OuterOne"): [n, bytes, n, bytes]}"""
        return self.parse(run, (self.folder / name).read_text(), name)

    def parse(self, run, text, name):
        head, _, maps = text.partition("\nMAPPED_LIBRARIES:\n")
        self.expect(re.search(r"^[0-9a-f]+-[0-9a-f]+ r-xp .*/" + os.path.basename(self.program),
                              maps, re.MULTILINE), f"{name}: mapped libraries")
        header, *lines = head.rstrip("\n").split("\n")
        match = HEADER.fullmatch(header)
        self.expect(match, f"{name}: {header!r}")
        total = [int(figure) for figure in match.groups()] if match else None
        base = run.small - self.functions["SiteSmall"][0]
        figures = {}
        sums = [0] * 4
        for line in lines:
            match = ENTRY.fullmatch(line)
            self.expect(match, f"{name}: {line!r}")
            if not match:
                continue
            entry = [int(figure) for figure in match.groups()[:4]]
            sums = [a + b for a, b in zip(sums, entry)]
            self.expect(entry[0] <= entry[2] and entry[1] <= entry[3] and entry[2] > 0, f"{name}: {line!r}")
            # Return addresses, which may lie after a function's last instruction.
            names = [next((function for function, (start, size) in self.functions.items()
                           if base + start < int(frame, 16) <= base + start + size), None)
                     for frame in match[5].split()]
            self.expect(names, f"{name}: no frames")
            key = tuple(filter(None, names)) if names[0] else ()
            old = figures.setdefault(key, [0] * 4)
            figures[key] = [a + b for a, b in zip(old, entry)]
        self.expect_equal(total, sums, f"{name}: totals")
        return figures

    def expect_site(self, figures, sites, expected, what):
        self.expect_equal(figures.get(sites, [0] * 4), expected, f"{what}: {'/'.join(sites)}")


# --- figures -------------------------------------------------------------------------------------

def test_sites(test):
    run = test.run("sites")
    test.expect_equal(test.files(), ["p.0001.heap"], "files")
    figures = test.profile(run, "p.0001.heap")
    threads = 8
    for sites, live, allocated, size in [
            (("SiteSmall",), 300 * threads, 3000 * threads, 24),
            (("SiteLarge",), 3 * threads, 10 * threads, 300000),
            (("SiteCalloc",), 0, 500 * threads, 300),
            # The last object of each slot is in use.
            (("SiteNew",), threads, 2000 * threads, 40),
            (("SiteSmall", "OuterOne"), 1, 4, 24),
            (("SiteSmall", "OuterTwo"), 5, 5, 24)]:
        test.expect_site(figures, sites, [live, live * size, allocated, allocated * size], "sites")
    test.expect_site(figures, ("SiteRealloc",),
                     [threads, threads * 400000, 400 * threads,
                      100 * threads * (1000 + 1001 + 3000 + 400000)], "sites")


def test_stop(test):
    run = test.run("stop", profile=False)
    test.expect_equal(test.files(), ["p.0001.heap", "p.0002.heap"], "files")
    test.expect_site(test.profile(run, "p.0001.heap"), ("SiteSmall",), [10, 240, 10, 240], "first")
    second = [5, 120, 7, 168]
    test.expect_site(test.profile(run, "p.0002.heap"), ("SiteSmall",), second, "second")
    text = run.stdout[run.stdout.index("heap profile:"):]
    test.expect_site(test.parse(run, text, "text"), ("SiteSmall",), second, "text")


def test_changes(test):
    run = test.run("changes", {"HEAP_PROFILE_ALLOCATION_INTERVAL": 0}, profile=False)
    test.expect_equal(test.files(), ["p.0001.heap"], "files")
    figures = test.profile(run, "p.0001.heap")
    test.expect_site(figures, ("SiteSmall",), [3, 72, 3, 72], "changes")


def test_fork_busy(test):
    run = test.run("fork_busy", {"HEAP_PROFILE_ALLOCATION_INTERVAL": 0})
    children = re.findall(r"^child (\d+)$", run.stdout, re.MULTILINE)
    test.expect_equal(len(children), 50, "children that write a profile")
    for child in children:
        figures = test.profile(run, f"p_{child}.0001.heap")
        test.expect_site(figures, ("SiteSmall",), [1, 24, 101, 24 * 101], f"child {child}")
        # The profile has the objects that each other thread held at that moment.
        for sites, size in ((("SiteNew",), 40), (("SiteLarge",), 300000)):
            live, live_bytes, *_ = figures.get(sites, [0, 0])
            test.expect(live <= 3 and live_bytes == size * live, f"{sites}: {live}: {live_bytes}")


# --- variables -----------------------------------------------------------------------------------

def numbered(count):
    return [f"p.{number:04d}.heap" for number in range(1, count + 1)]


def test_allocation(test):
    """A profile for every ten objects of a MiB, and one at exit. Scripts look for the words."""
    for interval, expected, words in ((10 * MIB, [*range(10, 101, 10), 100], "(10 MB allocated cumulatively"),
                                      (0, [100], ""), (-1, [100], "")):
        run = test.run("freed", {"HEAP_PROFILE_INUSE_INTERVAL": 0, "HEAP_PROFILE_ALLOCATION_INTERVAL": interval})
        test.expect(f"{words}, " in run.stderr, f"no {words!r} in {run.stderr}")
        test.expect_equal(test.files(), numbered(len(expected)), "files")
        for name, count in zip(numbered(len(expected)), expected):
            figures = test.profile(run, name).get(("SiteMiB",), [0] * 4)
            test.expect_equal(figures[2], count, f"{name}: allocated objects")
        test.clear()


def test_signal(test):
    number = int(signal.SIGUSR2)
    run = test.run("signal", {"HEAPPROFILESIGNAL": number})
    test.expect_equal(test.files(), numbered(2), "files")
    test.expect(".0001.heap (signal, " in run.stderr, "the reason")
    for bad in (int(signal.SIGKILL), 64 - 32):
        test.run("nothing", {"HEAPPROFILESIGNAL": bad}, stderr=r"tcmalloc: HEAPPROFILESIGNAL is ignored: .*")


def test_cleanup(test):
    for cleanup, left in (("1", ["p.0004.heap"]), ("0", numbered(4)[1:])):
        for name in numbered(4):
            (test.folder / name).write_text("old")
        # The library counts the files up to the first number that is missing.
        (test.folder / "p.0003.heap").unlink()
        test.run("nothing", {"HEAP_PROFILE_CLEANUP": cleanup})
        expected = sorted({"p.0001.heap", *left} - {"p.0003.heap"})
        test.expect_equal(test.files(), expected, f"files with cleanup {cleanup}")
        test.expect((test.folder / "p.0001.heap").read_text() != "old", "the new file")
        test.clear()


def test_off(test):
    for variables in ({}, {"HEAPPROFILE": ""}, {"HEAP_PROFILE_TIME_INTERVAL": "1"},
                      {"HEAPPROFILESIGNAL": int(signal.SIGUSR2)}):
        run = test.run("running", variables, profile=False)
        test.expect("running 0\n" in run.stdout, "not running")
        test.expect_equal(run.stderr, "", "stderr")
    test.expect("running 1\n" in test.run("running").stdout, "running")
    test.clear()
    # The minimal library has no profiler, and says so once if variables request something.
    for variables, says in (
            ({"HEAPPROFILE": "", "HEAPCHECK": "", "TCMALLOC_SAMPLE_PARAMETER": "0", "PPROF_PATH": "/x",
              "SLURM_JOB_ID": "1", "TCMALLOC_RELEASE_RATE": "2"}, ""),
            ({"HEAPCHECK": "strict", "TCMALLOC_PRESSURE": "auto", "TCMALLOC_SAMPLE_PARAMETER": "1024"},
             "tcmalloc: HEAPCHECK, TCMALLOC_PRESSURE, TCMALLOC_SAMPLE_PARAMETER are ignored: this is libtcmalloc_minimal; "
             "preload or link libtcmalloc, which uses them\n")):
        run = test.run("nothing", variables, library=test.minimal, profile=False, stderr=".*" if says else None)
        test.expect_equal(run.stderr, says, f"stderr with {variables}")
    test.expect_equal(test.files(), [], "files")


def test_failures(test):
    missing = test.folder / "missing" / "p"
    # The library does not try to write a file for each period, which would fail each time.
    test.run("sites", {"HEAPPROFILE": missing, "HEAP_PROFILE_ALLOCATION_INTERVAL": 1},
             stderr=r"tcmalloc: HEAPPROFILE: cannot create .*/missing/p\.0001\.heap: No such file or directory")
    test.run("nothing", {"HEAPPROFILE": 300 * "x"}, stderr=r"tcmalloc: HEAPPROFILE=x+ is ignored: .*")
    test.run("nothing", {"HEAP_PROFILE_INUSE_INTERVAL": "100XB"},
             stderr=r"tcmalloc: HEAP_PROFILE_INUSE_INTERVAL=100XB is ignored: .*")
    test.run("nothing", {"HEAPPROFILE": test.folder / "full"}, file_bytes=100,
             stderr=r"tcmalloc: cannot write heap profile .*/full\.0001\.heap: File too large")


def test_planted(test):
    """Names of files are predictable. The library does not write through a file that another user may have put there."""
    precious = test.folder / "precious"
    precious.write_text("precious")
    for cleanup in (1, 0):
        os.symlink("precious", test.folder / "p.0001.heap")
        os.link(precious, test.folder / "p.0002.heap")
        # This name cannot be removed, as another user's name in /tmp: the next number is used.
        (test.folder / "p.0003.heap").mkdir()
        run = test.run("freed", {"HEAP_PROFILE_ALLOCATION_INTERVAL": "10M", "HEAP_PROFILE_CLEANUP": cleanup,
                                      "HEAP_PROFILE_INUSE_INTERVAL": 0})
        test.expect_equal(precious.read_text(), "precious", "the file to which the links led")
        test.expect((test.folder / "p.0003.heap").is_dir(), "the directory")
        test.expect("p.0004.heap" in test.files(), f"files {test.files()}")
        for name in ("p.0001.heap", "p.0002.heap", "p.0004.heap"):
            path = test.folder / name
            test.expect(path.is_file() and not path.is_symlink() and path.stat().st_nlink == 1, f"{name}: {path.stat()}")
            test.profile(run, name)
        (test.folder / "p.0003.heap").rmdir()
        for name in test.files():
            if name != "precious":
                (test.folder / name).unlink()


if __name__ == "__main__":
    process_test.main(globals(), Test)
