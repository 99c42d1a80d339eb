#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Where the tcmalloc command cannot be built, or is not wanted, the libraries are, and CMake says why.

  command_left_out_test.py SOURCE WORK C_COMPILER CXX_COMPILER

Nothing is compiled: the test looks at the targets of the configured builds.
"""

import pathlib
import shutil
import subprocess
import sys

SAID = "The tcmalloc command is left out"
OPTIONS = ["-DTCMALLOC_TESTS=OFF", "-DTCMALLOC_BENCH=OFF"]
SUBFOLDER = """cmake_minimum_required(VERSION 3.23)
project(outer LANGUAGES C CXX)
set(TCMALLOC_TESTS OFF)
set(TCMALLOC_BENCH OFF)
add_subdirectory({source} tcmalloc)
"""


def main():
    source, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    shutil.rmtree(work, ignore_errors=True)
    outer = work / "outer"
    outer.mkdir(parents=True)
    (outer / "CMakeLists.txt").write_text(SUBFOLDER.format(source=source))
    failed = 0
    for name, folder, options, reason in (("missing", source, [*OPTIONS, "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON"], "fmt"),
                                          ("off", source, [*OPTIONS, "-DTCMALLOC_COMMAND=OFF"], None),
                                          ("in_another_project", outer, [], None)):
        build = work / name
        run = subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", build, f"-DCMAKE_C_COMPILER={sys.argv[3]}",
                              f"-DCMAKE_CXX_COMPILER={sys.argv[4]}", *options], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False)
        output = " ".join(run.stdout.split())
        targets = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], stdout=subprocess.PIPE, text=True,
                                 check=False).stdout
        if run.returncode or "libtcmalloc.so.4:" not in targets or "\ntcmalloc_command:" in targets \
                or (SAID in output) != (reason is not None) or reason and reason not in output.split(SAID)[-1]:
            failed += 1
            print(f"FAILED: {name}: {output}")
    print(f"{failed} failures")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
