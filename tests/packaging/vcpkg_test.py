#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds the port of packaging/vcpkg in the sources, for static and for dynamic libraries, and clients with what it installs.

Usage: vcpkg_test.py SOURCE_FOLDER WORK_FOLDER C_COMPILER CXX_COMPILER

With vcpkg in $VCPKG_ROOT, vcpkg builds it, offline: it needs the ports vcpkg-cmake and vcpkg-cmake-config, and CMake, Ninja and
pkg-config of the system. Else vcpkg_functions.cmake takes the place of vcpkg.
"""

import json
import os
import pathlib
import shutil
import sys

from clients import HERE, LIBRARIES, Clients, environment
from steps import project_version

TRIPLETS = {"static": "x64-linux", "dynamic": "x64-linux-dynamic"}
# These options compile in a third of the time, without optimisation, since the test is about the port.
QUICK = ["-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0", "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -g0"]


def by_vcpkg(test, root, port, work, kind):
    """Returns (folder of the installed files, options of CMake)."""
    own = environment(VCPKG_ROOT=str(root), VCPKG_DISABLE_METRICS="1", VCPKG_FORCE_SYSTEM_BINARIES="1",
                      VCPKG_DEFAULT_BINARY_CACHE=str(work / "cache"), VCPKG_DOWNLOADS=str(work / "downloads"))
    (work / "cache").mkdir(parents=True)
    (work / "downloads").mkdir()
    said = test.command([root / "vcpkg", "install", "tcmalloc", f"--triplet={TRIPLETS[kind]}", f"--host-triplet={TRIPLETS[kind]}",
                         f"--overlay-ports={port.parent}", f"--x-install-root={work}/installed", f"--x-buildtrees-root={work}/trees",
                         f"--x-packages-root={work}/packages", "--binarysource=clear"], env=own)
    if said is None:
        return None, []
    print(said[-1500:], flush=True)
    # vcpkg checks what a port installs.
    test.expect("warning:" not in said, "vcpkg complains of the port")
    test.expect((port / "usage").read_text().strip() in said, "vcpkg does not print the usage")
    return work / "installed" / TRIPLETS[kind], [f"-DCMAKE_TOOLCHAIN_FILE={root}/scripts/buildsystems/vcpkg.cmake",
                                                 f"-DVCPKG_INSTALLED_DIR={work}/installed", "-DVCPKG_MANIFEST_MODE=OFF",
                                                 f"-DVCPKG_TARGET_TRIPLET={TRIPLETS[kind]}"]


def by_functions(test, port, work, kind):
    done = test.command(["cmake", f"-DPORT_DIR={port}", f"-DWORK={work}", f"-DVCPKG_LIBRARY_LINKAGE={kind}",
                         f"-DMORE_OPTIONS={';'.join(QUICK)}", "-P", HERE / "vcpkg_functions.cmake"], env=environment())
    return (work / "installed" if done is not None else None), []


def check_files(test, installed, port, kind):
    names = {str(path.relative_to(installed)) for path in installed.rglob("*") if not path.is_dir()}
    libraries = {name for name in names if name.startswith("lib/") and "/" not in name[4:]}
    endings = (".a",) if kind == "static" else (".a", ".so", ".so.4")
    test.expect(libraries == {f"lib/lib{library}{ending}" for library in LIBRARIES for ending in endings},
                f"{kind}: lib has {sorted(libraries)}")
    for name in ("include/tcmalloc/tcmalloc.h", "include/gperftools/tcmalloc.h", "include/google/tcmalloc.h",
                 "lib/pkgconfig/libtcmalloc.pc", "share/tcmalloc/copyright", "share/tcmalloc/tcmallocConfig.cmake"):
        test.expect(name in names, f"{kind}: {name} is not installed")
    test.expect(not any(name.startswith(("debug/", "bin/", "lib/cmake")) for name in names), f"{kind}: {sorted(names)}")
    test.expect((installed / "share/tcmalloc/usage").read_text() == (port / "usage").read_text(), f"{kind}: the usage")


def main():
    source, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    compilers = sys.argv[3:5]
    shutil.rmtree(work, ignore_errors=True)
    test = Clients(work, *compilers)
    port = source / "packaging/vcpkg/tcmalloc"
    test.expect(json.loads((port / "vcpkg.json").read_text())["version"] == project_version(source), "vcpkg.json has another version")
    root = os.environ.get("VCPKG_ROOT")
    print("built by", f"vcpkg in {root}" if root else "vcpkg_functions.cmake", flush=True)
    for kind in TRIPLETS:
        folder = work / kind
        installed, options = by_vcpkg(test, pathlib.Path(root), port, folder, kind) if root else \
            by_functions(test, port, folder, kind)
        if not installed:
            continue
        check_files(test, installed, port, kind)
        targets = [f"{library}_static" for library in LIBRARIES] + (list(LIBRARIES) if kind == "dynamic" else [])
        # vcpkg's toolchain file finds the package by itself.
        test.build_with_cmake(f"{kind}/clients", folder / "none" if root else installed, installed / "lib", *compilers, targets,
                              *options)
    print(f"{test.built} programs")
    test.expect(test.built == 3 * len(LIBRARIES) * 3, "programs are missing")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
