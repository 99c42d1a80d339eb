#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Links SOURCE with a static library in every way that a user may, and runs the programs.

Usage: static_link_test.py STATIC_LIBRARY SOURCE WORK_DIRECTORY C_COMPILER CXX_COMPILER [OPTION...]
The options are for both compilers.
"""

import os
import subprocess
import sys


def main():
    library, source, directory, c_compiler, cxx_compiler = sys.argv[1:6]
    options = sys.argv[6:]
    os.makedirs(directory, exist_ok=True)
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    ways = {
        "C": [c_compiler, "-std=gnu11", source],
        "C++": [cxx_compiler, "-std=gnu++20", "-x", "c++", source, "-x", "none"],
        "C, all static": [c_compiler, "-std=gnu11", "-static", source],
        "C++, all static": [cxx_compiler, "-std=gnu++20", "-static", "-x", "c++", source, "-x",
                            "none"],
    }
    failures = []
    for name, command in ways.items():
        program = os.path.join(directory, name.replace("+", "p").replace(", ", "_").replace(" ", "_"))
        # The library alone, without a list of what it needs beside libc.
        command = [*command, *options, "-O1", "-fno-builtin", "-DLINKED_STATICALLY", "-o", program, library, "-pthread"]
        built = subprocess.run(command, capture_output=True, text=True, env=environment)
        if built.returncode != 0:
            failures.append(name)
            print(f"{name}: does not link:\n{' '.join(command)}\n{built.stderr}")
            continue
        done = subprocess.run([program], capture_output=True, text=True, timeout=60,
                              env=environment)
        good = done.returncode == 0 and done.stdout in ("", "static use ok\n") and not done.stderr
        print(f"{name}: {'ok' if good else 'FAILED'}")
        if not good:
            failures.append(name)
            print(f"status {done.returncode}\n{done.stdout}{done.stderr}")
            continue
        if name == "C":
            libraries = subprocess.run(["ldd", program], capture_output=True, text=True,
                                       check=True, env=environment).stdout
            for unwanted in ("libstdc++", "libc++", "libgcc_s", "libtcmalloc"):
                if unwanted in libraries:
                    failures.append(name)
                    print(f"a C program needs {unwanted}:\n{libraries}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
