#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs into a prefix, moves it elsewhere, and builds clients with what is there.

Usage: install_test.py BUILD_FOLDER WORK_FOLDER C_COMPILER CXX_COMPILER [LIBRARY]
With a LIBRARY, clients are built for this one only, each in one way.
"""

import pathlib
import shutil
import subprocess
import sys

from clients import HERE, LIBRARIES, Clients

# The files below the prefix, besides the headers of HEADER_FOLDERS.
INSTALLED = {
    "lib/cmake/tcmalloc/tcmallocConfig.cmake",
    "lib/cmake/tcmalloc/tcmallocConfigVersion.cmake",
    "lib/cmake/tcmalloc/tcmallocTargets.cmake",
    "lib/cmake/tcmalloc/tcmallocTargets-release.cmake",
    *(f"lib/{name}" for library in LIBRARIES
      for name in (f"lib{library}.a", f"lib{library}.so", f"lib{library}.so.4",
                   f"pkgconfig/lib{library}.pc")),
}
HEADER_FOLDERS = ("include/tcmalloc", "include/gperftools", "include/google")
COMMAND = "tcmalloc"


def check_files(test, build, prefix, cxx_compiler):
    source = HERE.parent.parent
    command = set()
    if (build / "bin" / COMMAND).exists():
        # The command's man pages and completions are installed, too.
        command = {f"bin/{COMMAND}"} | {str(path.relative_to(build)) for path in (build / "share").rglob("*")
                                        if not path.is_dir()}
        test.expect("share/man/man1/tcmalloc-stats.1" in command, "there are no man pages")
    wanted = INSTALLED | command | {str(path.relative_to(source))
                          for folder in HEADER_FOLDERS for path in (source / folder).glob("*.h")}
    found = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}
    for name in sorted(wanted - found):
        test.expect(False, f"{name} is not installed")
    for name in sorted(found - wanted):
        test.expect(False, f"{name} is installed")
    for path in sorted(prefix.rglob("*")):
        if path.suffix in (".pc", ".cmake"):
            test.expect(str(prefix) not in path.read_text(), f"{path} names the prefix")
    for library in LIBRARIES:
        link = prefix / f"lib/lib{library}.so"
        test.expect(link.is_symlink() and str(link.readlink()) == f"lib{library}.so.4",
                    f"{link} is to be a link to lib{library}.so.4")
        dynamic = subprocess.run(["readelf", "-d", link], check=True, text=True, stdout=subprocess.PIPE).stdout
        test.expect(f"Library soname: [lib{library}.so.4]" in dynamic, f"{link}: soname")
        test.expect("RPATH" not in dynamic and "RUNPATH" not in dynamic, f"{link}: a run path")
    if command:
        test.command([prefix / "bin" / COMMAND, "run", "--quiet", "true"])
    headers = sorted((prefix / "include").rglob("*.h"))
    for header in headers:  # each compiles alone
        name = header.relative_to(prefix / "include")
        test.command([cxx_compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-I",
                      prefix / "include", "-include", name, "-x", "c++", "/dev/null"])


def main():
    build, work = map(pathlib.Path, sys.argv[1:3])
    compilers = sys.argv[3:5]
    shutil.rmtree(work, ignore_errors=True)
    test = Clients(work, *compilers)

    first = work / "first"
    test.command(["cmake", "--install", build, "--prefix", first])
    if test.failures:
        sys.exit(1)
    prefix = first.rename(work / "moved")
    folder = prefix / "lib"
    check_files(test, build, prefix, compilers[1])

    if sys.argv[5:]:
        library = sys.argv[5]
        test.build("plain", library, [f"-I{prefix}/include", f"-L{folder}", f"-l{library}"], folder, ("c", "cc"))
        test.build("pkg_config_static", library, ["-static", *(test.pkg_config(folder, library, "--static") or [])], None, ("c",))
        test.build_with_cmake("find_package", prefix, folder, *compilers, [library])
        test.expect(test.built == 2 + 1 + 3, f"{test.built} programs")
        sys.exit(1 if test.failures else 0)
    for library in LIBRARIES:
        shared = test.pkg_config(folder, library) or []
        static = test.pkg_config(folder, library, "--static") or []
        # Some linkers are configured to drop libraries whose functions the program does not call.
        test.build("pkg_config", library, ["-Wl,--as-needed", *shared], folder, test.compilers)
        test.build("pkg_config_static", library, ["-static", *static], None, test.compilers)
    shared, static = LIBRARIES, [f"{library}_static" for library in LIBRARIES]
    test.build_with_cmake("find_package", prefix, folder, *compilers, [*shared, *static],
                          "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed")
    print(f"{test.built} programs, {test.failures} failures")
    # For each library three clients, by pkg-config and by CMake, shared and static.
    test.expect(test.built == len(LIBRARIES) * 3 * 4, "programs are missing")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
