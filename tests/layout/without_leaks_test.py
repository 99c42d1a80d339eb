#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the folder of the leak checker may be deleted with its tests: nothing else needs it.

  without_leaks_test.py ROOT

In a copy of the tree without the leak checker, folders include only folders below them, each included file exists,
CMake configures the build, and the libraries that the checker uses compile.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDERS = ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "CHANGELOG.md",
           "conanfile.py", "bench", "cli", "docs", "include", "packaging", "scripts", "src", "instruments", "formats", "tests")
# Libraries that the leak checker uses: they must not need the leak checker in turn.
TARGETS = ("tcmalloc_profiles_full", "tcmalloc_process", "tcmalloc_process_full")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "tree"
        copy.mkdir()
        for name in FOLDERS:
            if (root / name).is_dir():
                shutil.copytree(root / name, copy / name)
            else:
                shutil.copy(root / name, copy / name)
        for name in ("instruments/leaks", "tests/unit/instruments/leaks"):
            if (copy / name).is_dir():
                shutil.rmtree(copy / name)
        layering = root / "tests" / "layout" / "layering_test.py"
        subprocess.run([sys.executable, layering, copy], check=True)
        build = pathlib.Path(folder) / "build"
        subprocess.run(["cmake", "-S", copy, "-B", build, "-G", "Ninja", "--log-level=WARNING",
                        "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_UNITY_BUILD=ON",
                        "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0", "-DTCMALLOC_BENCH=OFF"], check=True)
        subprocess.run(["cmake", "--build", build, "-j2", "--target", *TARGETS], check=True, stdout=subprocess.DEVNULL)
        names = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], check=True,
                               text=True, stdout=subprocess.PIPE).stdout
        if re.search(r"instruments/leaks/|tcmalloc_leaks", names, re.MULTILINE):
            print("the build without the checker has targets of it")
            return 1
    print("without instruments/leaks the order of folders holds and CMake configures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
