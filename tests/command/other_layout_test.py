#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tcmalloc command reads a library whose structures are laid out in another way.

  other_layout_test.py SOURCE BUILD COMPILER COMMAND PROGRAM

Builds the library in BUILD from copies of headers in which adjacent members are swapped, checks that the field tables of
the two layouts differ, and runs command_test.py on it.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Header below src/ -> pairs of adjacent declarations.
SWAPPED = {
    "base/intrusive.h": [("T* next = nullptr;", "T* prev = nullptr;")],
    "central/shard.h": [("OwnedCounter free_objects;", "OwnedCounter num_spans;")],
    "page_heap/span.h": [("PageId first_page;", "Length num_pages;"),
                         ("uint32_t num_objects = 0;", "uint32_t free_count = 0;")],
    "thread_cache/bin_table.h": [("OwnedCounter claimed_bytes_;", "OwnedCounter array_bytes_;")],
}


def write_headers(source, folder):
    """Writes the reordered headers into `folder`."""
    for name, pairs in SWAPPED.items():
        text = (source / "src" / name).read_text()
        for first, second in pairs:
            if text.count(f"  {first}\n  {second}\n") != 1:
                sys.exit(f"FAILED: src/{name} does not declare '{first}' right before '{second}'")
            text = text.replace(f"  {first}\n  {second}\n", f"  {second}\n  {first}\n")
        header = folder / name
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(text)


def table_of(library):
    """The lines of the field table."""
    text = re.search(rb"=page_shift \d+\n(?:[ =\w][^\0]*?\n)+", library.read_bytes())
    return text[0].decode().splitlines()


def main():
    source, build, compiler, command, program = sys.argv[1:]
    # The compiler looks for quoted headers here before it looks in src/.
    headers = pathlib.Path(build) / "headers"
    write_headers(pathlib.Path(source), headers)
    subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "--log-level=WARNING",
                    "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
                    "-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0",
                    f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_CXX_FLAGS=-iquote {headers}",
                    "-DTCMALLOC_TESTS=OFF", "-DTCMALLOC_BENCH=OFF", "-DTCMALLOC_COMMAND=OFF"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", build, "-j2", "--target", "tcmalloc"], check=True, stdout=subprocess.DEVNULL)
    library = pathlib.Path(build) / "lib" / "libtcmalloc.so.4"
    usual = pathlib.Path(command).parent.parent / "lib" / "libtcmalloc.so.4"
    other, wanted = table_of(library), table_of(usual)
    moved = [line for line in other if line not in wanted]
    print(f"{len(moved)} of {len(other)} lines of the field table differ")
    if len(other) != len(wanted) or not moved:
        print("FAILED: the layout is the usual one, or has other members")
        return 1
    failed = 0
    for what in ("rest", "objects", "profile", "inspect"):
        run = subprocess.run([sys.executable, HERE / "command_test.py", what, command, program, library], check=False)
        failed += run.returncode != 0
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
