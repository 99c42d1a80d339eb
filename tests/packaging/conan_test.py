#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes Conan packages with the recipe, and builds clients with them.

Usage: conan_test.py SOURCE_FOLDER WORK_FOLDER C_COMPILER CXX_COMPILER

Conan comes from PyPI into a virtual environment of the test's own, and is used without a server of
packages. The libraries are compiled without optimisation, since the test is about the recipe.
"""

import pathlib
import shutil
import subprocess
import sys

from clients import HERE, LIBRARIES, Clients, environment
from steps import project_version

REQUIREMENTS = HERE / "conan_requirements.txt"


def install_conan(folder):
    """Returns the program; ends the test if it cannot be installed."""
    done = folder / "requirements"
    if not done.exists() or done.read_text() != REQUIREMENTS.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        for command in ([sys.executable, "-m", "venv", folder],
                        [folder / "bin/pip", "install", "--quiet", "-r", REQUIREMENTS]):
            run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if run.returncode != 0:
                print(run.stdout)
                print("SKIP: conan cannot be installed with pip:", (run.stdout.strip() or "no output").splitlines()[-1])
                sys.exit(77)
        done.write_text(REQUIREMENTS.read_text())
    return folder / "bin/conan"


def main():
    source, work = map(pathlib.Path, sys.argv[1:3])
    compilers = sys.argv[3:5]
    work.mkdir(parents=True, exist_ok=True)
    conan = install_conan(work / "environment")
    home = work / "home"
    shutil.rmtree(home, ignore_errors=True)
    for kind in ("shared", "static"):
        shutil.rmtree(work / kind, ignore_errors=True)
    own = environment(CONAN_HOME=str(home), CC=compilers[0], CXX=compilers[1])
    # CMake would add the flags in these variables to those of the packages.
    for name in ("CFLAGS", "CXXFLAGS", "LDFLAGS"):
        own.pop(name, None)

    test = Clients(work, *compilers)
    test.command([conan, "profile", "detect"], env=own)
    test.command([conan, "remote", "disable", "*"], env=own)
    for kind in ("shared", "static"):
        shared = kind == "shared"
        options = ["--no-remote", "-o", f"tcmalloc/*:shared={shared}",
                   "-c", 'tools.build:cxxflags=["-O0", "-g0"]',
                   # This compiles in a third of the time.
                   "-c", 'tools.cmake.cmaketoolchain:extra_variables={"CMAKE_UNITY_BUILD": "ON", '
                         '"CMAKE_UNITY_BUILD_BATCH_SIZE": "0"}']
        output = test.command([conan, "create", source, *options], env=own)
        if output is None:
            continue
        package = pathlib.Path(output.strip().splitlines()[-1].removeprefix("Package folder "))
        found = {path.name for path in (package / "lib").iterdir()}
        wanted = {f"lib{library}{ending}" for library in LIBRARIES
                  for ending in ((".so", ".so.4") if shared else (".a",))}
        test.expect(found == wanted, f"{kind}: the package's lib has {sorted(found)}")
        generated = work / kind / "conan"
        if test.command([conan, "install", f"--requires=tcmalloc/{project_version(source)}", *options, "-g",
                         "CMakeDeps", "-g", "CMakeToolchain", "-of", generated], env=own) is None:
            continue
        test.build_with_cmake(f"{kind}/build", generated, package / "lib" if shared else None,
                              *compilers, LIBRARIES,
                              f"-DCMAKE_TOOLCHAIN_FILE={generated}/conan_toolchain.cmake",
                              "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--as-needed")
    print(f"{test.built} programs")
    test.expect(test.built == 2 * len(LIBRARIES) * 3, "programs are missing")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
