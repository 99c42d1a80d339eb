# SPDX-License-Identifier: BSD-3-Clause
"""Tests the program tests: with a flawed library preloaded they have to fail, and to say why.

Without --all it tries the flaws that one quick program shows; with it, a flaw for each program.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
CRASH = (
    r"(killed by SIG|exit status \d|differ|not finished|stopped|answered|closed|failed"
    r"|Error|expected)"
)

# (program test, its arguments, flaw, pattern of its output). With the flaw `absent` the library has no
# malloc.
QUICK = [
    ("perl_test.py", [], "none", r"^PASS$"),
    ("perl_test.py", [], "absent", r"malloc was served by \['libc\.so\.6'\]"),
    ("perl_test.py", [], "quiet", r"the largest heap that .* reports has 0 bytes"),
    ("perl_test.py", [], "text", r"outputs differ from those on the C library's malloc"),
    ("perl_test.py", [], "realloc", CRASH),
    ("perl_test.py", [], "overlap", CRASH),
    ("perl_test.py", [], "child", CRASH),
    ("node_test.py", [], "thread", CRASH),
]
ALL = QUICK + [
    ("memcached_test.py", [], "none", r"^PASS$"),
    ("memcached_test.py", [], "quiet", r"the largest heap that .* reports has 0 bytes"),
    ("memcached_test.py", [], "calloc", CRASH),
    ("redis_test.py", [], "none", r"^PASS$"),
    ("redis_test.py", [], "absent", r"malloc was served by \['libjemalloc\.so\.2'\]"),
    ("redis_test.py", [], "text", CRASH),
    ("redis_test.py", [], "realloc", CRASH),
    ("redis_test.py", [], "overlap", CRASH),
    ("redis_test.py", [], "child", CRASH),
    ("nginx_test.py", [], "none", r"^PASS$"),
    ("nginx_test.py", [], "child", CRASH),
    ("node_test.py", [], "overlap", CRASH),
    ("sqlite_test.py", [], "text", CRASH),
    ("sqlite_test.py", [], "realloc", CRASH),
    ("sqlite_test.py", [], "overlap", CRASH),
    ("git_test.py", [], "text", CRASH),
    ("git_test.py", [], "realloc", CRASH),
    ("git_test.py", [], "overlap", CRASH),
    ("git_test.py", [], "calloc", CRASH),
    ("compiler_test.py", ["g++"], "text", CRASH),
    ("compiler_test.py", ["g++"], "calloc", CRASH),
    ("compiler_test.py", ["g++"], "realloc", CRASH),
    ("compiler_test.py", ["clang++-19"], "overlap", CRASH),
    ("java_test.py", [], "overlap", CRASH),
    ("java_test.py", [], "thread", CRASH),
    ("python_test.py", [], "text", CRASH),
    ("python_test.py", [], "realloc", CRASH),
    ("python_test.py", [], "child", CRASH),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flawed", required=True, help="the library with a flaw to choose")
    parser.add_argument("--without", required=True, help="the library without malloc")
    parser.add_argument("--all", action="store_true", help="a flaw for each program; minutes")
    parser.add_argument("--only", default="", help="only the program tests whose name begins so")
    options = parser.parse_args()

    wrong = 0
    for test, arguments, flaw, pattern in ALL if options.all else QUICK:
        if not test.startswith(options.only):
            continue
        library = options.without if flaw == "absent" else options.flawed
        done = subprocess.run(
            [sys.executable, TESTS / test, *arguments, "--library", library],
            env={**os.environ, "TCMALLOC_TEST_FLAW": flaw},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode == 77:
            print(done.stdout, end="")
            sys.exit(77)
        expected_status = 0 if flaw == "none" else 1
        caught = (
            done.returncode == expected_status
            and re.search(pattern, done.stdout, re.MULTILINE)
            and (flaw == "none" or "\nFAIL: " in done.stdout)
            and "with C library" not in done.stdout
        )
        print(
            f"{test} {' '.join(arguments)} flaw {flaw}: {'as expected' if caught else 'WRONG'}",
            flush=True,
        )
        verdict = (
            done.stdout[done.stdout.find("FAIL: ") :] if "FAIL: " in done.stdout else done.stdout
        )
        print("  " + "\n  ".join(verdict.splitlines()[: 6 if caught else 60]), flush=True)
        wrong += not caught
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
