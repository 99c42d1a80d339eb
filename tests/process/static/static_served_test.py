#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks which allocator serves programs that are linked with an archive, in every way of linking.

Usage: static_served_test.py STATIC_LIBRARY SOURCE_FOLDER WORK_FOLDER C_COMPILER CXX_COMPILER [OPTION...]

The programs are those of static_served.c, and static_use.c, which checks that the allocator works.

In each program the C library's names must be the allocator's functions, by their addresses, and what
the library's constructors start must work: statistics, and in the full library the heap profiler and
the leak checker. The minimal one must say that it has no leak checker.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

# Names that must be one function. The test checks only names that the program has, but it must have these.
SAME = (("malloc", "tc_malloc"), ("free", "tc_free"), ("calloc", "tc_calloc"),
        ("realloc", "tc_realloc"), ("posix_memalign", "tc_posix_memalign"),
        ("aligned_alloc", "tc_aligned_alloc"), ("malloc_usable_size", "tc_malloc_size"),
        ("_ZdlPv", "tc_delete"))
NEW = ("_Znwm", "_Znwj")  # one name for a size_t of 64 bits, and one for 32 bits
STATUS_OF_LEAKS = 1
IGNORED = ("tcmalloc: HEAPCHECK is ignored: this is libtcmalloc_minimal; preload or link libtcmalloc, "
           "which uses it\n")


def plain_environment(**more):
    unwanted = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LIBRARY_PATH", "HEAPCHECK", "HEAPPROFILE", "MALLOCSTATS")
    return {**{name: value for name, value in os.environ.items() if name not in unwanted}, **more}


def addresses(program):
    run = subprocess.run(["nm", program], check=True, stdout=subprocess.PIPE, text=True)
    found = {}
    for line in run.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] in "TWVi":
            found[words[2].split("@")[0]] = words[0]
    return found


class Test:

    def __init__(self, library, sources, work, c_compiler, cxx_compiler, *options):
        self.library = pathlib.Path(library).resolve()
        self.work = pathlib.Path(work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.has_tools = not self.library.stem.endswith("_minimal")
        after = ["-O1", "-fno-builtin", *options]
        in_c = [c_compiler, "-std=gnu11", *after]
        in_cxx = [cxx_compiler, "-std=gnu++20", *after]
        source, all_of_it = pathlib.Path(sources, "static_served.c"), pathlib.Path(sources, "static_use.c")
        self.programs = {
            "all": [*in_c, "-DLINKED_STATICALLY", "-pthread", all_of_it],
            "all in C++": [*in_cxx, "-DLINKED_STATICALLY", "-pthread", "-x", "c++", all_of_it, "-x", "none"],
            "malloc": [*in_c, "-DUSE_MALLOC", source],
            "malloc in C++": [*in_cxx, "-DUSE_MALLOC", "-x", "c++", source, "-x", "none"],
            "new": [*in_cxx, "-DUSE_NEW", "-include", "new", "-x", "c++", source, "-x", "none"],
            "own new": [*in_cxx, "-DUSE_NEW", "-DREPLACE_NEW", "-x", "c++", source, "-x", "none"],
            "nothing": [*in_c, "-DUSE_NOTHING", source],
        }
        self.linked = self.failures = 0

    def fail(self, text):
        self.failures += 1
        print(f"FAILED: {text}", flush=True)

    def check_names(self, name, program, replaced):
        found = addresses(program)
        pairs = list(SAME) + [(new, "tc_new") for new in NEW if new in found]
        if len(pairs) == len(SAME):
            self.fail(f"{name}: there is no operator new")
        for theirs, ours in pairs:
            if replaced and theirs.startswith("_Z"):
                continue
            if theirs not in found or found[theirs] != found.get(ours):
                self.fail(f"{name}: {theirs} is {found.get(theirs, 'not in the program')}, "
                          f"{ours} {found.get(ours, 'not in the program')}")

    def check_needs(self, name, program, command):
        """A C program needs neither the C++ library nor the compiler's unwinder. ldd fails for static programs."""
        needed = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=False).stdout
        unwanted = "libtcmalloc" if "c++" in command else r"libtcmalloc|libstdc\+\+|libc\+\+|libgcc_s"
        if re.search(unwanted, needed):
            self.fail(f"{name} needs\n{needed}")

    def run(self, name, program, arguments, status, wanted, **more):
        run = subprocess.run([program, *arguments], env=plain_environment(**more), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        if (run.returncode, run.stdout) != (status, "ran\n") or \
                (wanted not in run.stderr if wanted else run.stderr):
            self.fail(f"{name}, {more}: status {run.returncode} instead of {status}, \"{wanted}\" not "
                      f"said, or more: {run.stdout}{run.stderr}")

    def check(self, way, use, link):
        name = f"{use}, {way}"
        program = self.work / name.replace("+", "p").replace(", ", "_").replace(" ", "_")
        command = [str(part) for part in (*self.programs[use], "-o", program, *link)]
        built = subprocess.run(command, env=plain_environment(), text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        if built.returncode != 0:
            self.fail(f"{name}: does not link: {' '.join(command)}\n{built.stdout}")
            return
        self.linked += 1
        self.check_names(name, program, use == "own new")
        self.check_needs(name, program, command)
        self.run(name, program, [], 0, "Bytes in use by application", MALLOCSTATS="1")
        if use.startswith("all"):
            return
        if self.has_tools:
            self.run(name, program, ["leak"], STATUS_OF_LEAKS, "Leak check _main_ detected leaks",
                     HEAPCHECK="normal", HEAP_CHECK_DUMP_DIRECTORY=str(self.work))
            self.run(name, program, [], 0, "heap profile", HEAPPROFILE=f"{program}.profile")
        else:
            self.run(name, program, ["leak"], 0, IGNORED, HEAPCHECK="normal")


def main():
    test = Test(*sys.argv[1:])
    folder = test.library.parent
    short = test.library.stem.removeprefix("lib")
    ways = {
        "path": [test.library],
        "Bstatic": [f"-L{folder}", "-Wl,-Bstatic", f"-l{short}", "-Wl,-Bdynamic"],
        "gc": ["-Wl,--gc-sections", test.library],
        "all static": ["-static", test.library],
    }
    for_all = {
        "undefined": ["-Wl,--undefined=malloc", test.library],
        "whole": ["-Wl,--whole-archive", test.library, "-Wl,--no-whole-archive"],
        "all static, undefined": ["-static", "-Wl,--undefined=malloc", test.library],
    }
    for use in test.programs:
        # The linker takes from an archive only what is referred to, and here nothing is.
        for way, link in {**({} if use == "nothing" else ways), **for_all}.items():
            test.check(way, use, link)
    print(f"{test.linked} programs, {test.failures} failures")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
