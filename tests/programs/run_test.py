# SPDX-License-Identifier: BSD-3-Clause
"""Tests the parts of 'make run', without its build: redis-servers under load, a command, and a
command that cannot be served.

  run_test.py SOURCE_FOLDER BUILD_FOLDER
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77


def run(source, build, command, *options):
    own = os.environ | {"RUN_BUILD": str(build), "RUN_COMMAND": command, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, source / "scripts/run.py", "--rounds", "1", *options], env=own, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)


def main():
    source, build = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
    missing = [name for name in ("redis-server", "redis-benchmark") if shutil.which(name) is None]
    if missing:
        print(f"SKIP: not installed: {', '.join(missing)}")
        return SKIPPED
    complaints = []

    def expect(what, printed, *patterns):
        print(printed)
        complaints.extend(f"{what}: no line {pattern}" for pattern in patterns if not re.search(pattern, printed, re.MULTILINE))

    done = run(source, build, "", "--requests", "5000")
    expect("redis", done.stdout, r"served by TCMalloc: libtcmalloc\.so\.4$", r"^requests per second +[\d,]+ +[\d,]+ +\d",
           r"^peak memory, MiB +\d[\d.]* +\d[\d.]* +\d", r"^memory, .* +\d[\d.]* +\d[\d.]* +\d",
           r"^Process \d+, redis-server: .* resident")
    lines = done.stdout.splitlines()
    if done.returncode or not 10 < len(lines) <= 24:  # lines of a terminal
        complaints.append(f"redis: status {done.returncode}, {len(lines)} lines")
    page = build.parent / "run/redis.html"
    if "createStringObject" not in page.read_text():
        complaints.append(f"{page} does not name the function of redis that allocates the values")

    done = run(source, build, "perl -e 'my @a = map { \"$_\" } 1 .. 100000;'")
    expect("perl", done.stdout, r"^Served by the library: .*\bperl\b", r"^peak memory, MiB ")
    done = run(source, build, "LD_PRELOAD= perl -e 1; true")
    expect("not served", done.stdout, r"^make run: The library served the shell alone")
    if done.returncode != 1:
        complaints.append(f"not served: status {done.returncode}")
    print("\n".join(complaints) or "ok")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
