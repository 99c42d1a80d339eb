# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests of packages, which end at the first failure: conditions, commands, and reasons to skip a test."""

import re
import shutil
import subprocess
import sys

SKIPPED = 77


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(SKIPPED)


def need(*programs, path=None):
    """Skips the test unless each of the programs is in `path`, or in PATH."""
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    if missing:
        skip(f"not installed: {', '.join(missing)}")


def expect(condition, message):
    if not condition:
        sys.exit(f"FAILED: {message}")


def run(*command, status=0, **options):
    """Runs a program and returns its output on both streams."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          **{"timeout": 580, "check": False, **options})
    expect(done.returncode == status, f"{' '.join(map(str, command))[:200]}: status {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def project_version(source):
    return re.search(r"project\(tcmalloc VERSION ([\d.]+)", (source / "CMakeLists.txt").read_text())[1]
