#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the rows of docs/compatibility.md: sandboxes, old kernels, limits, and other surroundings of a process.

usage: surroundings_test.py WHAT PROGRAM LIBRARY STATIC REFUSE SETTINGS_MD

PROGRAM is surroundings.c, to be run with LIBRARY preloaded; STATIC is the same, linked statically;
REFUSE is refuse.c; SETTINGS_MD is docs/settings.md. WHAT is the name of a function below, without its `test_`.
"""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess

import process_test
from process_test import Skipped

# The answers of sandboxes for the calls of docs/system-calls.md and of the C library.
DOCKER = "clone3=ENOSYS named=allow *=EPERM"
# Docker's profile before Linux 4.8, when a filter could be bypassed by ptrace, and before rseq and
# membarrier were added to its list.
OLD_DOCKER = "clone3=EPERM ptrace=EPERM process_vm_readv=EPERM membarrier=EPERM statx=EPERM " \
    "named=allow *=EPERM"
SYSTEMD = "mincore={0} ptrace={0} named=allow *={0}"
# The policy of renderer processes. It is installed after the start, and a handler of SIGSYS ends the
# process for calls that are answered by `kill` here.
CHROME = """openat=EPERM open=EPERM unlink=EPERM unlinkat=EPERM readlink=EPERM readlinkat=EPERM
    faccessat=EPERM access=EPERM rename=EPERM renameat2=EPERM newfstatat=EPERM fstatfs=EPERM
    execve=EPERM statx=ENOSYS getdents64=EPERM fallocate=EPERM clone3=ENOSYS socket=EPERM
    connect=EPERM seccomp=EPERM set_robust_list=EPERM
    madvise@2:0=allow madvise@2:1=allow madvise@2:4=allow madvise@2:8=allow madvise@2:9=allow
    madvise=EPERM membarrier=kill ptrace=kill process_vm_readv=kill prctl=kill timerfd_create=kill
    named=allow *=kill""".replace("\n", " ")

# Calls, advice and flags that came after Linux 3.10.
LINUX_3_10 = """renameat2=ENOSYS seccomp=ENOSYS getrandom=ENOSYS membarrier=ENOSYS statx=ENOSYS
    rseq=ENOSYS clone3=ENOSYS prctl@0:42=EINVAL mremap@3:5=EINVAL mremap@3:4=EINVAL
    """ + " ".join(f"madvise@2:{advice}=EINVAL" for advice in (8, *range(18, 26)))
LINUX_3_10 = LINUX_3_10.replace("\n", " ")
# In Linux 4.4 membarrier had one command, which takes milliseconds.
LINUX_4_4 = "membarrier=EINVAL rseq=ENOSYS clone3=ENOSYS statx=ENOSYS " + " ".join(
    f"madvise@2:{advice}=EINVAL" for advice in range(18, 26))

STEPS = ["allocate", "threads", "fork", "release", "statistics", "foreign", "profile",
         "heap-profile", "leaks", "pressure", "large-report"]


class Surroundings(process_test.Test):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.static, self.refuse, self.page = self.others

    def run(self, name, command, steps=(), said=(), status=0, prepare=None, **settings):
        """Runs the command; each of `steps` must be done, and each of `said` must be printed."""
        environment = process_test.environment(
            LIBRARY_UNDER_TEST=self.library, PROFILE_TO=f"{self.folder}/step.pb", HEAP_PROFILE_TO=f"{self.folder}/step",
            HEAP_CHECK_DUMP_DIRECTORY=self.folder, **settings)
        try:
            result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    errors="replace", timeout=100, check=False, preexec_fn=prepare)
        except subprocess.TimeoutExpired:
            self.expect(False, f"{name}: it did not end")
            return ""
        text = result.stdout + result.stderr
        if result.returncode == process_test.SKIPPED:
            raise Skipped(text)
        wrong = [f"not done: {step}" for step in steps if f"\n{step}: done\n" not in f"\n{text}"]
        wrong += [f"not said: {line}" for line in said if not re.search(line, text)]
        if result.returncode != status:
            wrong.append(f"status {result.returncode}, not {status}")
        lines = [line for line in text.splitlines() if not line.startswith(("MALLOC", "----"))]
        print(f"{name}: {'; '.join(lines)}"[:1500])
        self.expect(not wrong, f"{name}: {wrong}")
        return text

    def run_preloaded(self, name, arguments=(), **options):
        return self.run(name, [self.program, *arguments], LD_PRELOAD=self.library, **options)

    def run_from_start(self, name, rules, arguments=(), **options):
        """Runs the program in a sandbox from its start."""
        return self.run(name, [self.refuse, rules, self.program, *arguments], PRELOAD=self.library, **options)

    def run_static_from_start(self, name, rules, arguments=(), **options):
        return self.run(name, [self.refuse, rules, self.static, *arguments], **options)

    def run_later(self, name, rules, arguments=(), **options):
        """Runs the program, which sets up the sandbox after its first allocations."""
        return self.run_preloaded(name, arguments, REFUSE_LATER=rules, **options)


def without(*steps):
    return [step for step in STEPS if step not in steps]


# Each function below is a test.

def test_sandbox(s):
    """A sandbox that ends the process for calls that the page of settings does not list."""
    section = pathlib.Path(s.page).read_text().split("## System calls after start", 1)[1].split("\n## ", 1)[0]
    table = section.split("\n\n|", 1)[1].split("\n\n", 1)[0]
    calls = {call for row in table.split("\n")[2:] for call in re.findall(r"`(\w+)`", row.split("|")[1])}
    if not {"membarrier", "mmap"} <= calls or "openat" in calls:
        s.expect(False, f"the page's list is {calls}")
    own = {"write", "exit_group"}
    # The C library's calls to start and end a thread, and to fork.
    thread = set("""futex mprotect mmap munmap madvise clone clone3 exit rseq rt_sigaction set_robust_list rt_sigprocmask
        gettid wait4""".split())
    alone = ["allocate", "release"]
    new = ["allocate", "threads", "fork", "release"]
    for steps, settings, allowed in (
            (alone, {}, calls - {"membarrier"}), (new, {}, calls | thread),
            (new, {"TCMALLOC_MEMBARRIER": "0"}, calls - {"membarrier"} | thread),
            (new, {"TCMALLOC_SKIP_MMAP": "1"}, calls | thread),
            # The thread may still be starting when the filter is installed.
            (alone, {"TCMALLOC_BACKGROUND": "1"}, calls - {"membarrier"} | {"rseq", "set_robust_list"})):
        rules = " ".join(f"{call}=allow" for call in sorted(allowed | own))
        s.run_later(f"sandbox, {settings}", f"{rules} *=kill", steps, steps=steps, **settings)


def test_docker(s):
    for name, how in (("preloaded", s.run_from_start), ("static", s.run_static_from_start), ("later", s.run_later)):
        how(f"docker, {name}", DOCKER, steps=STEPS)
        how(f"old docker, {name}", OLD_DOCKER + (" rseq=allow" if name == "later" else ""),
            arguments=without("threads", "fork", "pressure"),
            steps=without("threads", "fork", "pressure", "leaks"), said=["leaks: "])
    s.run_from_start("old docker, program", OLD_DOCKER, arguments=["leaks"], status=1,
                     said=["Leak check _main_ detected leaks", "Exiting with error code"],
                     HEAPCHECK="normal")


def test_systemd(s):
    refused = ["leaks: refused: outcome 2: (Operation not permitted|Function not implemented)"]
    for answer in ("kill", "EPERM"):
        rules = SYSTEMD.format(answer)
        for name, how in (("preloaded", s.run_from_start), ("static", s.run_static_from_start)):
            how(f"systemd, {answer}, {name}", rules, steps=without("leaks"))
        s.run_from_start(f"systemd, {answer}, threads", rules, steps=without("leaks"), said=refused,
                         TCMALLOC_BACKGROUND="1")
        s.run_from_start(f"systemd, {answer}, leak check", rules, arguments=["leaks"], status=1,
                         said=["other threads could not be stopped",
                               "Leak check _main_ detected leaks", "Exiting with error code"],
                         HEAPCHECK="normal", TCMALLOC_BACKGROUND="1")
    s.run_later("systemd, EPERM, later", SYSTEMD.format("EPERM"), steps=without("leaks"))


def test_chrome(s):
    steps = ["allocate", "threads", "release", "statistics", "foreign", "large-report"]
    s.run_later("chrome", CHROME, steps, steps=steps, TCMALLOC_MEMBARRIER="0")
    s.run_later("chrome, samples", CHROME.replace("process_vm_readv=kill", ""), ["profile"],
                said=["profile: "], TCMALLOC_MEMBARRIER="0")
    # A sandbox that ends the process for membarrier ends it where the page says so.
    s.run_later("chrome, membarrier", CHROME, ["threads"], status=-signal.SIGSYS)


def test_kernels(s):
    for name, rules in (("3.10", LINUX_3_10), ("4.4", LINUX_4_4)):
        s.run_from_start(f"Linux {name}", rules, steps=STEPS)
        s.run_static_from_start(f"Linux {name}, static", rules, steps=STEPS)
        s.run_from_start(f"Linux {name}, reports", rules, steps=STEPS, MALLOCSTATS="1",
                         TCMALLOC_SAMPLE_PARAMETER="200000", TCMALLOC_GUARDED_SAMPLE="2",
                         TCMALLOC_PROFILE=f"{s.folder}/{name}.pb,at=exit")
    s.run_from_start("no getcpu, clock", "getcpu=ENOSYS", steps=STEPS, GLIBC_TUNABLES="glibc.pthread.rseq=0")


def test_no_proc(s):
    """A root folder with the program alone: no /proc, /sys, /dev and /tmp."""
    if shutil.which("unshare") is None:
        raise Skipped("there is no unshare")
    root = f"{s.folder}/root"
    os.mkdir(root)
    shutil.copy(s.static, f"{root}/program")
    command = ["unshare", "-r", f"--root={root}", "/program"]
    if subprocess.run([*command, "allocate"], stdout=subprocess.DEVNULL, check=False,
                      stderr=subprocess.PIPE, text=True).stderr.startswith("unshare:"):
        raise Skipped("unshare may not change the root folder")
    steps = without("leaks", "heap-profile", "profile")
    s.run("no /proc", [*command, *steps, "leaks"], steps=steps,
          said=["leaks: refused: outcome 3: No such file or directory"], MALLOCSTATS="1",
          TCMALLOC_SOFT_LIMIT="50%")
    s.run("no /proc, profiles", [*command, "profile", "heap-profile"],
          said=["cannot create[^\n]*: No such file or directory"])
    s.run("no /proc, leak check", [*command, "leaks"], status=1, HEAPCHECK="normal",
          said=["not checked: the process cannot read its own threads or mappings"])


def test_mappings(s):
    """vm.max_map_count is used up."""
    s.run_preloaded("no mappings left", ["crowded"], steps=["crowded"])
    s.run_preloaded("no mappings left, background thread", ["crowded"], steps=["crowded"], TCMALLOC_BACKGROUND="1")


def limit_of(kind, limit):
    return lambda: resource.setrlimit(kind, (limit, limit))


def test_limits(s):
    stack = resource.RLIMIT_STACK
    # All mappings are placed in another order, bottom up.
    s.run_preloaded("unlimited stack", steps=STEPS, prepare=limit_of(stack, resource.RLIM_INFINITY))
    s.run_preloaded("small stack", steps=STEPS, prepare=limit_of(stack, 256 << 10))
    files = resource.RLIMIT_NOFILE
    s.run_preloaded("no files left", without("leaks", "profile", "heap-profile", "pressure"),
                    steps=without("leaks", "profile", "heap-profile", "pressure"),
                    prepare=lambda: resource.setrlimit(files, (4, 4)))
    s.run_preloaded("no core, no locked memory", steps=STEPS, prepare=limit_of(resource.RLIMIT_MEMLOCK, 0))


def test_valgrind(s):
    if shutil.which("valgrind") is None:
        raise Skipped("there is no valgrind")
    steps = ["allocate", "threads", "fork", "release"]
    # The library itself runs; with the option, memcheck replaces the library's functions by its own.
    text = s.run("valgrind", ["valgrind", "-q", "--tool=none", s.program, *steps], steps=steps, LD_PRELOAD=s.library)
    s.expect(not re.search("^--", text, re.M), "valgrind does not know a system call")
    s.run("memcheck, by name", ["valgrind", "-q", "--soname-synonyms=somalloc=*tcmalloc*",
                                "--error-exitcode=9", s.program, "fork", "release"],
          steps=["fork", "release"], LD_PRELOAD=s.library)


if __name__ == "__main__":
    process_test.main(globals(), Surroundings, "/dev/shm")
