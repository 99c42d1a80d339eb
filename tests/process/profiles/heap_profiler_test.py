#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The heap profiler as programs and the environment use it: files, their names, and exact figures.

usage: heap_profiler_test.py WHAT HEAP_PROFILER LIBRARY MINIMAL_LIBRARY
"""

import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile

MIB = 1 << 20
OURS = re.compile(r"HEAP_?PROFILE|HEAP_CHECK|TCMALLOC_|PMI|SLURM|OMPI")
HEADER = re.compile(r"heap profile: +(\d+): +(\d+) \[ *(\d+): +(\d+)\] @ heapprofile")
ENTRY = re.compile(r" *(\d+): +(\d+) \[ *(\d+): +(\d+)\] @((?: 0x[0-9a-f]+)*)")


class Run:

    def __init__(self, stdout, stderr, pid):
        self.stdout, self.stderr, self.pid = stdout, stderr, pid
        self.small = int(re.search(r"SiteSmall at (0x[0-9a-f]+)", stdout)[1], 16)

    @property
    def children(self):
        return [int(pid) for pid in re.findall(r"^child (\d+)$", self.stdout, re.MULTILINE)]


def limit_files(file_bytes):
    if file_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


class Test:

    def __init__(self, program, library, minimal, folder):
        self.program, self.library, self.minimal = program, library, minimal
        self.folder = pathlib.Path(folder)
        self.prefix = str(self.folder / "p")
        self.count = 0
        self.failed = 0
        self.functions = {}  # name: (address in the file, bytes)
        nm = subprocess.run(["nm", "-S", program], check=True, text=True, stdout=subprocess.PIPE)
        for line in nm.stdout.split("\n"):
            if match := re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) [tT] (Site\w+|Outer\w+)", line):
                self.functions[match[3]] = (int(match[1], 16), int(match[2], 16))

    def expect_equal(self, value, expected, what):
        self.count += 1
        if value != expected:
            self.failed += 1
            print(f"FAILED: {what}: {value!r}, not {expected!r}")

    def expect(self, condition, what):
        self.expect_equal(bool(condition), True, what)

    def run(self, what, variables=None, library=None, program=None, stderr=None, profile=True, file_bytes=None):
        """Runs the program; with HEAPPROFILE unless `profile` is false. stderr: a pattern, or several, of
        lines that are written once each. file_bytes: no file can become longer, as on a full disk."""
        environment = {name: value for name, value in os.environ.items() if not OURS.match(name)}
        environment.update(LD_PRELOAD=library or self.library,
                           LIBRARY_UNDER_TEST=library or self.library)
        if profile:
            environment["HEAPPROFILE"] = self.prefix
        environment.update({name: str(value) for name, value in (variables or {}).items()})
        with subprocess.Popen([program or self.program, what, self.prefix], env=environment,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              cwd=self.folder, preexec_fn=lambda: limit_files(file_bytes)) as process:
            out, err = process.communicate(timeout=150)
        self.expect_equal(process.returncode, 0, f"{what}: exit code ({err})")
        lines = [line for line in err.split("\n") if line]
        patterns = [stderr] if isinstance(stderr, str) else stderr or []
        for line in lines:
            if not any(re.fullmatch(pattern, line) for pattern in patterns):
                self.expect(re.fullmatch(r"tcmalloc: heap profile \S+\.\d{4,}\.heap "
                                         r"\(.*, \d+ MB currently in use\)", line), f"stderr: {line!r}")
        for pattern in patterns:
            self.expect_equal(sum(bool(re.fullmatch(pattern, line)) for line in lines), 1,
                              f"lines like {pattern!r} in {err!r}")
        return Run(out, err, process.pid)

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
            self.expect(entry[0] <= entry[2] and entry[1] <= entry[3] and entry[2] > 0,
                        f"{name}: {line!r}")
            # Return addresses, which may lie after a function's last instruction.
            names = [function for frame in match[5].split()
                     for function, (start, size) in self.functions.items()
                     if base + start < int(frame, 16) <= base + start + size]
            frames = match[5].split()
            self.expect(len(frames) >= 1, f"{name}: no frames")
            innermost = next((function for function, (start, size) in self.functions.items()
                              if base + start < int(frames[0], 16) <= base + start + size), None)
            key = tuple(names) if innermost else ()
            old = figures.setdefault(key, [0] * 4)
            figures[key] = [a + b for a, b in zip(old, entry)]
        self.expect_equal(total, sums, f"{name}: totals")
        return figures

    def expect_site(self, figures, sites, expected, what):
        self.expect_equal(figures.get(sites, [0] * 4), expected, f"{what}: {'/'.join(sites)}")


# --- figures -------------------------------------------------------------------------------------

def check_sites(test):
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


def check_stop(test):
    run = test.run("stop", profile=False)
    test.expect_equal(test.files(), ["p.0001.heap", "p.0002.heap"], "files")
    test.expect_site(test.profile(run, "p.0001.heap"), ("SiteSmall",), [10, 240, 10, 240], "first")
    second = [5, 120, 7, 168]
    test.expect_site(test.profile(run, "p.0002.heap"), ("SiteSmall",), second, "second")
    text = run.stdout[run.stdout.index("heap profile:"):]
    test.expect_site(test.parse(run, text, "text"), ("SiteSmall",), second, "text")


def check_changes(test):
    run = test.run("changes", {"HEAP_PROFILE_ALLOCATION_INTERVAL": 0}, profile=False)
    test.expect_equal(test.files(), ["p.0001.heap"], "files")
    figures = test.profile(run, "p.0001.heap")
    test.expect_site(figures, ("SiteSmall",), [3, 72, 3, 72], "changes")


def check_fork(test):
    run = test.run("fork")
    child = f"p_{run.children[0]}"
    test.expect_equal(test.files(), ["p.0001.heap", "p.0002.heap", f"{child}.0001.heap",
                                     f"{child}.0002.heap"], "files")
    for name, live, allocated in [("p.0001.heap", 10, 10), (f"{child}.0001.heap", 12, 15),
                                  (f"{child}.0002.heap", 13, 16), ("p.0002.heap", 14, 14)]:
        test.expect_site(test.profile(run, name), ("SiteSmall",),
                         [live, 24 * live, allocated, 24 * allocated], name)


def check_fork_busy(test):
    run = test.run("fork_busy", {"HEAP_PROFILE_ALLOCATION_INTERVAL": 0})
    test.expect_equal(len(run.children), 50, "children that write a profile")
    for child in run.children:
        figures = test.profile(run, f"p_{child}.0001.heap")
        test.expect_site(figures, ("SiteSmall",), [1, 24, 101, 24 * 101], f"child {child}")
        # The profile has what each other thread had at that moment.
        for sites, size in ((("SiteNew",), 40), (("SiteLarge",), 300000)):
            live, live_bytes, *_ = figures.get(sites, [0, 0])
            test.expect(live <= 3 and live_bytes == size * live, f"{sites}: {live}: {live_bytes}")


# --- variables -----------------------------------------------------------------------------------

def numbered(count):
    return [f"p.{number:04d}.heap" for number in range(1, count + 1)]


def check_intervals(test, what, variables, figure, expected, words=""):
    """The profiler writes one profile for every ten objects of a MiB, and one at exit. Scripts look for the words."""
    none = {f"HEAP_PROFILE_{name}_INTERVAL": "0" for name in ("ALLOCATION", "DEALLOCATION",
                                                             "INUSE", "TIME")}
    run = test.run(what, {**none, **variables})
    test.expect(f"{words}, " in run.stderr, f"no {words!r} in {run.stderr}")
    test.expect_equal(test.files(), numbered(len(expected)), "files")
    for name, count in zip(numbered(len(expected)), expected):
        figures = test.profile(run, name).get(("SiteMiB",), [0] * 4)
        value = figures[2] - figures[0] if figure == "freed" else figures[0 if figure == "live"
                                                                          else 2]
        test.expect_equal(value, count, f"{name}: {figure} objects")


def check_allocation(test):
    check_intervals(test, "freed", {"HEAP_PROFILE_ALLOCATION_INTERVAL": 10 * MIB}, "allocated",
                    [*range(10, 101, 10), 100], "(10 MB allocated cumulatively")
    test.clear()
    check_intervals(test, "freed", {}, "allocated", [100])
    test.clear()
    check_intervals(test, "freed", {"HEAP_PROFILE_ALLOCATION_INTERVAL": -1}, "allocated", [100])


def check_time(test):
    run = test.run("time", {"HEAP_PROFILE_TIME_INTERVAL": 1})
    test.expect_equal(test.files(), numbered(3), "files")


def check_signal(test):
    number = int(signal.SIGUSR2)
    run = test.run("signal", {"HEAPPROFILESIGNAL": number})
    test.expect_equal(test.files(), numbered(2), "files")
    test.expect(".0001.heap (signal, " in run.stderr, "the reason")
    for bad in (int(signal.SIGKILL), 64 - 32):
        test.run("nothing", {"HEAPPROFILESIGNAL": bad},
                 stderr=r"tcmalloc: HEAPPROFILESIGNAL is ignored: .*")


def check_cleanup(test):
    for cleanup, left in (("1", ["p.0004.heap"]), ("0", numbered(4)[1:])):
        for name in numbered(4):
            (test.folder / name).write_text("old")
        # Numbers end where one is missing.
        (test.folder / "p.0003.heap").unlink()
        test.run("nothing", {"HEAP_PROFILE_CLEANUP": cleanup})
        expected = sorted({"p.0001.heap", *left} - {"p.0003.heap"})
        test.expect_equal(test.files(), expected, f"files with cleanup {cleanup}")
        test.expect((test.folder / "p.0001.heap").read_text() != "old", "the new file")
        test.clear()


def check_off(test):
    for variables in ({}, {"HEAPPROFILE": ""}, {"HEAP_PROFILE_TIME_INTERVAL": "1"},
                      {"HEAPPROFILESIGNAL": int(signal.SIGUSR2)}):
        run = test.run("running", variables, profile=False)
        test.expect("running 0\n" in run.stdout, "not running")
        test.expect_equal(run.stderr, "", "stderr")
    test.expect("running 1\n" in test.run("running").stdout, "running")
    test.clear()
    # The minimal library has no profiler, and says so once if variables request something.
    def ignored(names, be):
        return (f"tcmalloc: {names} {be[0]} ignored: this is libtcmalloc_minimal; preload or link "
                f"libtcmalloc, which uses {be[1]}\\n")

    for variables, profile, stderr in (
            ({}, True, ignored("HEAPPROFILE", ("is", "it"))),
            ({}, False, ""),
            ({"HEAPPROFILE": "", "HEAPCHECK": "", "TCMALLOC_SAMPLE_PARAMETER": "0", "PPROF_PATH": "/x",
              "SLURM_JOB_ID": "1", "TCMALLOC_RELEASE_RATE": "2"}, False, ""),
            ({"HEAPCHECK": "strict", "TCMALLOC_PRESSURE": "auto", "TCMALLOC_SAMPLE_PARAMETER": "1024"},
             False, ignored("HEAPCHECK, TCMALLOC_PRESSURE, TCMALLOC_SAMPLE_PARAMETER", ("are", "them"))),
            ({"TCMALLOC_STACKTRACE_METHOD": "fp"}, False,
             ignored("TCMALLOC_STACKTRACE_METHOD", ("is", "it")))):
        run = test.run("nothing", variables, library=test.minimal, profile=profile,
                       stderr=".*" if stderr else None)
        test.expect_equal(run.stderr, stderr.replace("\\n", "\n"), f"stderr with {variables}")
    test.expect_equal(test.files(), [], "files")


def check_failures(test):
    missing = test.folder / "missing" / "p"
    test.run("sites", {"HEAPPROFILE": missing, "HEAP_PROFILE_INUSE_INTERVAL": 0,
                       "HEAP_PROFILE_ALLOCATION_INTERVAL": 0},
             stderr=r"tcmalloc: HEAPPROFILE: cannot create .*/missing/p\.0001\.heap: No such file or directory")
    test.run("nothing", {"HEAPPROFILE": 300 * "x"},
             stderr=r"tcmalloc: HEAPPROFILE=x+ is ignored: .*")
    test.run("nothing", {"HEAP_PROFILE_INUSE_INTERVAL": "100XB"},
             stderr=r"tcmalloc: HEAP_PROFILE_INUSE_INTERVAL=100XB is ignored: .*")
    test.run("nothing", {"HEAPPROFILE": test.folder / "full"}, file_bytes=100,
             stderr=r"tcmalloc: cannot write heap profile .*/full\.0001\.heap: File too large")


def check_planted(test):
    """Names of files are predictable. What another user may have put there is not written through."""
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


CHECKS = {name[len("check_"):]: function for name, function in list(globals().items())
          if name.startswith("check_") and name != "check_intervals"}


def main():
    what, program, library, minimal = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        test = Test(program, library, minimal, folder)
        CHECKS[what](test)
    print(f"{test.count} checks, {test.failed} failed")
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
