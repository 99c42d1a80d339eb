#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every system call that the library can make is on docs/system-calls.md, and may be refused.

usage: system_calls_test.py WHAT ...

  list PAGE ROOT SYMBOLS     the calls in the sources, and those of the C library's functions that
      the library may call (undefined_symbols.txt), are on the page, and no others
  refused PAGE PROGRAM LIBRARY STATIC REFUSE  PROGRAM (surroundings.c) after its start, and STATIC
      from its start (by REFUSE), work where one of them is refused, or say what does not
"""

import concurrent.futures
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import process_test
from process_test import SKIPPED

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import source  # noqa: E402

# The program ends with this status if the C library, not the allocator, cannot do without the call.
NOT_OURS = 3
TIMEOUT_S = 60

# The functions of the C library that the library may call and that make system calls.
CALLS_OF = {
    "mmap": "mmap", "munmap": "munmap", "mremap": "mremap", "madvise": "madvise",
    "mincore": "mincore", "sbrk": "brk", "fstat": "fstat newfstatat", "fstatfs": "fstatfs",
    "unlink": "unlink", "getpid": "getpid", "getrlimit": "prlimit64",
    "clock_gettime": "clock_gettime", "sched_getcpu": "getcpu", "nanosleep": "nanosleep",
    "pthread_create": "clone clone3 rseq set_robust_list mprotect mmap munmap madvise",
    "pthread_sigmask": "rt_sigprocmask", "sigaction": "rt_sigaction", "rename": "rename",
    "getppid": "getppid", "mprotect": "mprotect", "clone": "clone", "prctl": "prctl",
}
# Functions that make no system call, or whose calls the program asked for: to end it, to throw, to write its file.
WITHOUT_CALLS = re.compile(
    r"syscall|getauxval|_*environ|abort|exit|atexit|fwrite|dladdr|dlopen|dlsym|mem\w+|str\w+|bcmp"
    r"|pthread_(self|key_\w+|setspecific|attr_\w+|join|setcancelstate|setname_np|atfork)"
    r"|sig(fill|del)set|_.*")

# Other names of system calls that the page lists.
OTHER_NAMES = {"mmap2": "mmap", "clock_gettime64": "clock_gettime", "_llseek": "lseek",
               "clock_nanosleep_time64": "nanosleep", "futex_time64": "futex",
               "fstat64": "fstat", "fstatat64": "newfstatat", "fstatfs64": "fstatfs",
               "fcntl64": "fcntl", "geteuid32": "geteuid", "clock_nanosleep": "nanosleep", "renameat2": "rename",
               "renameat": "rename", "unlinkat": "unlink",
               "timerfd_settime64": "timerfd_settime", "timerfd_gettime64": "timerfd_gettime"}
# The calls of the page that a sandbox of this test cannot refuse: the program itself ends by one.
NEVER_REFUSED = {"exit_group"}


def documented(page):
    """The calls in the first columns of the page's tables."""
    calls = set()
    for line in pathlib.Path(page).read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            calls.update(re.findall(r"`(\w+)`", line.split("|")[1]))
    return calls


def fail(problems):
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


def list_test(page, root, symbols):
    calls = documented(page)
    problems = []
    needed = {}
    for path in source.library_files(pathlib.Path(root)):
        for name in re.findall(r"\bSYS_(\w+)", path.read_text(encoding="utf-8")):
            needed[OTHER_NAMES.get(name, name)] = path
    lists = re.findall(r"^(?:strong|weak)[a-z ]*: (.*)", pathlib.Path(symbols).read_text(encoding="utf-8"), re.MULTILINE)
    for name in " ".join(lists).split():
        if name in CALLS_OF:
            for call in CALLS_OF[name].split():
                needed.setdefault(call, name)
        elif not WITHOUT_CALLS.fullmatch(name):
            problems.append(f"which system calls {name} makes is not listed in this test: CALLS_OF")
    problems += [f"{page} does not have {call}, of {place}" for call, place in needed.items() if call not in calls]
    problems += [f"{page} has {call}, which the library does not make" for call in sorted(calls - needed.keys())]
    return fail(problems)


def settings_of(folder):
    """Name -> settings that cause other calls."""
    return {
        "plain": {},
        "reports": {"TCMALLOC_PROFILE": f"{folder}/profile.pb,every=1s,signal=USR1,at=exit",
                    "MALLOCSTATS": "1", "TCMALLOC_REPORT_AT_TERM": "1",
                    "TCMALLOC_STATS_EVERY": f"1s,{folder}/stats.json",
                    "TCMALLOC_SAMPLE_PARAMETER": "200000", "TCMALLOC_GUARDED_SAMPLE": "2",
                    "TCMALLOC_GUARDED_REPORT": "1"},
        "pressure": {"TCMALLOC_PRESSURE": "auto", "TCMALLOC_SOFT_LIMIT": "50%"},
        "memfs": {"TCMALLOC_MEMFS_MALLOC_PATH": f"{folder}/memory",
                  "TCMALLOC_DEVMEM_DEVICE": f"{folder}/device", "TCMALLOC_DEVMEM_START": "1M"},
        "sbrk": {"TCMALLOC_SKIP_MMAP": "1"},
        "leaks": {"HEAPCHECK": "normal"},
    }


def environment_of(folder, library, settings):
    return process_test.environment(LIBRARY_UNDER_TEST=library, PROFILE_TO=f"{folder}/step.pb", HEAP_PROFILE_TO=f"{folder}/step",
                                    HEAP_CHECK_DUMP_DIRECTORY=folder, **settings)


def problem_of(call, answer, result):
    """Returns what is wrong with the end of a run in which the call was refused, or None."""
    if result is None:
        return "it did not end"
    if result.returncode in (0, NOT_OURS):
        return None
    text = result.stdout + result.stderr
    # The C library ends the process itself, or a program in whose threads it blocks SIGSYS.
    if result.returncode == -signal.SIGABRT and re.search("futex facility|rseq registration", text):
        return None
    if (result.returncode == -signal.SIGSYS and answer == "trap"
            and call in ("clone3", "rseq", "madvise", "mprotect", "rt_sigprocmask", "set_robust_list")):
        return None
    # The output is a report of leaks, or says that no check was made.
    if result.returncode == 1 and "Exiting with error code" in text:
        return None
    if call == "write" and result.returncode == 1 and not text:
        return None
    return f"status {result.returncode}"


# Calls that every program makes, and that the settings do not make more often.
OFTEN = set("""brk clock_gettime clone getcpu madvise membarrier mincore mmap mremap munmap rseq
    nanosleep set_robust_list write""".split())

# Failures that must be reported: a part of the steps' and the library's lines for the calls without which a feature
# does not work.
SAID = {
    ("plain", "openat"): r"leaks: refused|cannot (write|open)",
    ("plain", "getdents64"): "leaks: refused",
    ("plain", "epoll_create1"): "pressure: refused: (Operation not permitted|Function not implemented)",
    ("plain", "timerfd_create"): "pressure: refused: (Operation not permitted|Function not implemented)",
    ("plain", "epoll_ctl"): "pressure: refused: (Operation not permitted|Function not implemented)",
    ("pressure", "epoll_create1"): "tcmalloc: TCMALLOC_PRESSURE: cannot wait for events",
    ("leaks", "openat"): "not checked: the process cannot read",
    ("leaks", "clone3"): "Exiting with error code",
    ("memfs", "openat"): "TCMALLOC_MEMFS_MALLOC_PATH: cannot open",
}


def early_of(call):
    # Takes one of two variants for each call, so that both are tested without twice the time.
    return len(call) % 2 == 0


def refused_test(page, program, library, static, refuse):
    calls = sorted(documented(page) - NEVER_REFUSED)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        settings = settings_of(folder)
        # In a sandbox from the start, no handler of the program can answer.
        runs = [("plain", call, answer, early) for call in calls
                for answer, early in (("EPERM", True), ("EPERM", False), ("ENOSYS", early_of(call)),
                                      ("trap", False))]
        runs += [(name, call, "EPERM", True) for call in calls if call not in OFTEN
                 for name in ("reports", "pressure", "memfs", "leaks")]

        def one(run):
            name, call, answer, early = run
            environment = environment_of(folder, library, settings[name])
            rules = f"{call}={answer}"
            if early:
                command = [refuse, rules, static]
            else:
                command = [program]
                environment.update(REFUSE_LATER=rules, LD_PRELOAD=library)
            try:
                return run, subprocess.run(
                    command, env=environment, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False,
                    errors="replace")
            except subprocess.TimeoutExpired:
                return run, None

        problems = []
        with concurrent.futures.ThreadPoolExecutor(2) as executor:
            for run, result in executor.map(one, runs):
                name, call, answer, early = run
                what = f"{name}: {call}={answer} {'before' if early else 'after'} the start"
                if result is not None and result.returncode == SKIPPED:
                    print(result.stdout + result.stderr)
                    return SKIPPED
                problem = problem_of(call, answer, result)
                said = SAID.get((name, call))
                if problem is None and said is not None and result.returncode != NOT_OURS:
                    if answer != "trap" and not re.search(said, result.stdout + result.stderr):
                        problem = f"nothing says {said}"
                if problem is not None:
                    text = "" if result is None else result.stdout + result.stderr[-1500:]
                    problems.append(f"{what}: {problem}\n{text}")
        print(f"{len(runs)} runs, {len(problems)} of them wrong")
        return fail(problems)


if __name__ == "__main__":
    tests = {"list": list_test, "refused": refused_test}
    sys.exit(tests[sys.argv[1]](*sys.argv[2:]))
