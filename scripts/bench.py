#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds the programs that 'make bench' measures, and starts the benchmark runner.

    scripts/bench.py --quick       a first impression in less than five minutes
    scripts/bench.py --help        all options

Two options of this script, for a machine that has only a compiler, cmake and Python:

    --no-setup   install and fetch nothing; build without ninja and GoogleTest, in build/bare
    --no-build   build nothing: use the programs in the folder that --bin names, or in build/release
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from runner import build, cli, process  # noqa: E402

# With these options the runner measures nothing.
READING_ONLY = ("--help", "-h", "--report", "--documents")


def main():
    own = [word for word in sys.argv[1:] if word in ("--no-setup", "--no-build")]
    arguments = [word for word in sys.argv[1:] if word not in own]
    if "--no-setup" in own:
        arguments.insert(0, "--no-peer-builds")
    if not any(word.startswith(READING_ONLY) for word in arguments):
        if "--no-setup" not in own and subprocess.run([ROOT / "scripts" / "setup.sh",
                                                       "bench"]).returncode != 0:
            return 2
        if "--no-build" not in own:
            target, _ = build.LIBRARIES["minimal"]
            try:
                folder = build.working_tree((target, *build.PROGRAMS),
                                            is_bare="--no-setup" in own)
            except process.BenchError as error:
                print(f"bench: {error}", file=sys.stderr)
                return 2
            arguments = ["--bin", str(folder / "bin"), *arguments]
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
