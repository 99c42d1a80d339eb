#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds what 'make bench' measures and starts the benchmark runner.

    scripts/bench.py --quick       a first idea in under five minutes
    scripts/bench.py --help        all options

Two options of its own, for a machine with no more than a compiler, cmake and Python:

    --no-setup   install and fetch nothing; build without ninja and GoogleTest, in build/bare
    --no-build   build nothing: take the programs that --bin names, or those in build/release
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGETS = ("tcmalloc_minimal", "bench_micro", "bench_memory", "bench_launch", "bench_programs")


def build(is_bare):
    """Returns the folder, or None when the build failed."""
    if is_bare:
        # The preset wants ninja, the tests GoogleTest. Its own folder, for the same reason.
        folder = ROOT / "build" / "bare"
        configure = ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                     "-DTCMALLOC_TESTS=OFF", "--log-level=WARNING"]
    else:
        folder = ROOT / "build" / "release"
        configure = ["cmake", "--preset", "release", "--log-level=WARNING"]
    jobs = str(len(os.sched_getaffinity(0)))
    for command in (configure, ["cmake", "--build", folder, "-j", jobs, "--target", *TARGETS]):
        result = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE)
        if result.returncode != 0:
            print(result.stdout, file=sys.stderr)
            return None
    return folder


def main():
    own = [word for word in sys.argv[1:] if word in ("--no-setup", "--no-build")]
    arguments = [word for word in sys.argv[1:] if word not in own]
    if "--no-setup" in own:
        arguments.insert(0, "--no-peer-builds")
    measures = not any(word.startswith(("--help", "-h", "--report")) for word in arguments)
    if measures:
        if "--no-setup" not in own and subprocess.run([ROOT / "scripts" / "setup.sh",
                                                       "bench"]).returncode != 0:
            return 2
        if "--no-build" not in own:
            folder = build(is_bare="--no-setup" in own)
            if folder is None:
                print("bench: the build failed", file=sys.stderr)
                return 2
            arguments = ["--bin", str(folder / "bin"), *arguments]
    sys.path.insert(0, str(ROOT / "bench"))
    from runner import cli
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
