#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds what 'make bench' measures and starts the benchmark runner.

    scripts/bench.py --quick       a first idea in under five minutes
    scripts/bench.py --help        all options

Two options of its own, for a machine with no more than a compiler, cmake and Python:

    --no-setup   install nothing: leave the package manager alone
    --no-build   take build/release as it is
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ("tcmalloc_minimal", "bench_micro", "bench_memory", "bench_launch", "bench_programs")


def build():
    """Returns whether it worked."""
    folder = ROOT / "build" / "release"
    # As the preset, which wants ninja; here any generator will do.
    configure = ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                 "-DTCMALLOC_TESTS=OFF", "--log-level=WARNING"]
    if (folder / "CMakeCache.txt").is_file():
        configure = ["cmake", folder, "--log-level=WARNING"]
    return (subprocess.run(configure, stdout=subprocess.DEVNULL).returncode == 0
            and subprocess.run(["cmake", "--build", folder, "--parallel", "--target", *TARGETS],
                               stdout=subprocess.DEVNULL).returncode == 0)


def main():
    own = ("--no-setup", "--no-build")
    arguments = [word for word in sys.argv[1:] if word not in own]
    asks_only = {"--help", "-h", "--report"} & set(arguments)
    if "--no-setup" not in sys.argv and not asks_only:
        if subprocess.run([ROOT / "scripts" / "setup.sh", "bench"]).returncode != 0:
            return 2
    if "--no-build" not in sys.argv and not asks_only and not build():
        print("bench: the build failed", file=sys.stderr)
        return 2
    sys.path.insert(0, str(ROOT / "bench"))
    from runner import cli
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
