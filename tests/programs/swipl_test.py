# SPDX-License-Identifier: BSD-3-Clause
"""SWI-Prolog, which is linked with gperftools' libtcmalloc_minimal.so.4 and asks it for figures:
its own tests, on ours through LD_LIBRARY_PATH. A library with another name, like a debug library, gets that name in a folder of
its own."""

import pathlib
import re
import shutil
import sys
import tempfile

import harness

LINKED_NAME = "libtcmalloc_minimal.so.4"

TESTS = pathlib.Path("/usr/lib/swi-prolog/test")

# These tests require that a collection leaves no table, which gc_tables/1 does not promise: sometimes
# tables are left, with gperftools as well as with this library. The similar abol_test3b allows that.
NOT_REPEATABLE = ("abol_test3", "abol_test3a")
TABLE_TESTS = "Tests/xsb/table_tests/xsb_test_tables.pl"


def properties(side):
    """{name: value} of the library's properties that SWI-Prolog knows."""
    goal = "forall((malloc_property(P), P =.. [N, V]), (write(N = V), nl))"
    text = side.run(["swipl", "-q", "-g", goal, "-t", "halt"]).stdout.decode()
    return {name: int(value) for name, value in re.findall(r"^(\S+)=(\d+)$", text, re.MULTILINE)}


def leave_out(file, names):
    """Removes tests from a copy of SWI-Prolog's list of tests of tables."""
    text = file.read_text()
    for name in names:
        text, found = re.subn(rf"^table_test\({name}\)\..*\n", "", text, flags=re.MULTILINE)
        if found != 1:
            raise harness.Failure(f"{file} has no test {name}")
    file.write_text(text)


def workload(side):
    shutil.copytree(TESTS, side.directory / "test")
    leave_out(side.directory / "test" / TABLE_TESTS, NOT_REPEATABLE)

    def suite(*options):
        done = side.run(["swipl", "-q", "test.pl", "--no-packages", *options], cwd=side.directory / "test", timeout=500)
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        if "All tests passed" not in text:
            raise harness.Failure(f"swipl test.pl {options}:\n{text[-3000:]}")
        return "passed"

    figures = properties(side)
    if not figures["generic.heap_size"] >= figures["generic.current_allocated_bytes"] > 1 << 20:
        raise harness.Failure(f"figures that cannot be: {figures}")
    outputs = {"properties": " ".join(sorted(figures)), "version": side.run(["swipl", "--version"]).stdout}
    if not side.is_reference:
        suite("--no-subdirs")
        suite("--no-core")
    return outputs


def main():
    at = sys.argv.index("--library") + 1
    library = pathlib.Path(sys.argv[at]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        if library.name != LINKED_NAME:
            link = pathlib.Path(folder) / LINKED_NAME
            link.symlink_to(library)
            sys.argv[at] = str(link)
        harness.main(workload, programs=["swipl", str(TESTS / "test.pl")], min_heap_mib=20, min_processes=2, linked="libswipl.so")


if __name__ == "__main__":
    main()
