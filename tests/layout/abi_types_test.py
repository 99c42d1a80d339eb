#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares functions and types of the shared libraries with those of the release: packaging/libtcmalloc.abi, by abidiff.

  abi_types_test.py LIBRARY_FOLDER             compares, and fails on any difference
  abi_types_test.py --refresh LIBRARY_FOLDER   writes libtcmalloc.abi anew if the difference is additions only
  abi_types_test.py --refresh --break LIBRARY_FOLDER   the same for any difference: needs a new major version

abi_test.py compares names; this one also detects a changed parameter, result, member, order of virtual functions or
value of an enumeration. Only types of the headers in include/ count: others are private. One file serves all four
libraries: the minimal ones lack the functions of abi_test.FULL. Needs abidw and abidiff (Debian's
abigail-tools) and the debug information of the libraries.
"""

import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import abi_test

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "include"
STORED = HERE.parents[1] / "packaging" / "libtcmalloc.abi"
LIBRARIES = ("tcmalloc", "tcmalloc_minimal", "tcmalloc_debug", "tcmalloc_minimal_debug")
SKIPPED = 77
ERROR, USAGE, CHANGE, INCOMPATIBLE = 1, 2, 4, 8  # bits of abidiff's exit status
LINES_SHOWN = 60


def dump(library, file):
    """Writes the exported functions and variables of a library with their types."""
    subprocess.run(["abidw", "--no-show-locs", "--no-corpus-path", "--no-comp-dir-path", "--no-parameter-names",
                    "--exported-interfaces-only", "--drop-private-types", "--headers-dir", HEADERS,
                    "--out-file", file, library], check=True)


def difference(stored, found, *options):
    """abidiff's exit status and report for two files that dump() wrote."""
    run = subprocess.run(["abidiff", "--no-show-locs", "--ignore-soname", *options, stored, found],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return run.returncode, run.stdout


def only_in_full(file):
    """Writes the suppressions that leave out what the minimal libraries do not have."""
    names = [re.escape(name) for name in abi_test.exported_names(True) - abi_test.exported_names(False)]
    file.write_text("".join(f"[suppress_{kind}]\n  drop = yes\n  symbol_name_regexp = ^({'|'.join(names)})$\n"
                            for kind in ("function", "variable")))
    return ["--suppressions", file]


def refresh(library, may_break, scratch):
    found = scratch / "found.abi"
    dump(library, found)
    status, report = difference(STORED, found) if STORED.exists() else (CHANGE, "")
    # A changed type need not have the bit of incompatibility: the counts of the report decide.
    counts = re.findall(r"summary: (\d+) Removed, (\d+) Changed", report)
    breaks = status & (ERROR | USAGE | INCOMPATIBLE) or any(count != "0" for pair in counts for count in pair)
    if breaks and not may_break:
        sys.exit(f"{report}\nThis is no addition: programs that were linked with the release would break. Undo it, or, for a "
                 "new major version, add --break.")
    shutil.copy(found, STORED)
    print(f"wrote {STORED}")


def check(folder, scratch):
    failed = 0
    suppressions = only_in_full(scratch / "suppressions")
    for name in LIBRARIES:
        library = folder / f"lib{name}.so.4"
        found = scratch / f"{name}.abi"
        dump(library, found)
        status, report = difference(STORED, found, *(suppressions if "minimal" in name else ()))
        print(f"{library.name}: status {status} of abidiff")
        if status:
            failed += 1
            print("\n".join(report.splitlines()[:LINES_SHOWN]))
    if failed:
        print("A function or a type is not the release's. If it is an addition, write it down:\n"
              f"  tests/layout/abi_types_test.py --refresh {folder}\n"
              "Anything else needs a new major version (RELEASING.md).")
    return failed


def main():
    arguments = sys.argv[1:]
    for tool in ("abidw", "abidiff"):
        if not shutil.which(tool):
            print(f"SKIP: {tool} is not installed (Debian's abigail-tools)")
            sys.exit(SKIPPED)
    if platform.machine() != "x86_64":
        print(f"SKIP: {STORED.name} is that of x86_64")
        sys.exit(SKIPPED)
    folder = pathlib.Path(arguments[-1])
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        if "--refresh" in arguments:
            refresh(folder / "libtcmalloc.so.4", "--break" in arguments, scratch)
        elif check(folder, scratch):
            sys.exit(1)


if __name__ == "__main__":
    main()
