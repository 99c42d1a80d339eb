#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""'tcmalloc types' on types.cc, whose types and counts are known.

  types_test.py WHAT COMMAND PROGRAM LIBRARY

  live      the running process, as JSON and as text
  sampled   objects without a type by call site
  files     a core of gcore and a snapshot with contents give the same; a snapshot without contents is "incomplete"

LIBRARY may be "linked": then the program has the allocator in itself.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

from command_test import SKIPPED, Test, clean_environment, run_one

EXPECTED = {("zoo::Bird", 0): 1000, ("zoo::Duck", 0): 300, ("zoo::Hybrid", 0): 200, ("zoo::Cage<int>", 0): 70,
            ("(anonymous namespace)::Hidden", 0): 50}
ARRAYS = ("zoo::Animal", 20)
PLAIN = 500


class Program:

    def __init__(self, test, **variables):
        library = {} if test.library == "linked" else {"LD_PRELOAD": test.library}
        self.process = subprocess.Popen([test.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**clean_environment(), **library, **variables})
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


def check(test, process, what):
    found = test.json("types", process, "--top", 1000)
    counts = {(row["type"], row["offset"]): row["objects"] for row in found["types"]}
    no_symbols = "stripped" in test.program or "static_pie" in test.program
    if found["incomplete"] and no_symbols:  # the names, or the vtables, are in the program's file
        wanted = sorted([*EXPECTED.values(), ARRAYS[1]])
        known = sorted(row["objects"] for row in found["types"] if "class with the vtable" in row["type"])
        test.expect(known in (wanted, []) and what != "live", f"{what}: {known}, not {wanted}")
        test.expect("lacks the memory at" in found["incomplete"][0], f"{found['incomplete']}")
        return found
    for key, wanted in EXPECTED.items():
        test.expect(counts.get(key) == wanted, f"{what}: {counts.get(key)} objects of {key}, not {wanted}: {counts}")
    inside = sum(n for (name, offset), n in counts.items() if name == ARRAYS[0] and offset > 0)
    test.expect(inside == ARRAYS[1] and (ARRAYS[0], 0) not in counts, f"{what}: arrays: {counts}")
    plain = sum(row["objects"] for row in found["no_type_known"] if row["name"] in ("208 bytes", "200 bytes", "224 bytes"))
    test.expect(PLAIN <= plain <= PLAIN + 50, f"{what}: {plain} objects of 200 bytes")
    rows = [*found["types"], *found["no_type_known"]]
    test.expect(sum(row["objects"] for row in rows) + sum(site["objects"] for site in found["call_sites"]) ==
                found["objects"], f"{what}: the parts are not the sum")
    test.expect(found["objects"] == test.json("objects", process)["objects"], f"{what}: not all objects")
    return found


def live_test(test):
    with Program(test, TCMALLOC_SAMPLE_PARAMETER="0") as program:
        check(test, program.pid, "live")
        text = test.ask("types", program.pid).stdout
        test.expect("1000 objects  zoo::Bird\n" in text and "20 objects  contains at offset " in text, text)
        test.expect("No type known, by size:" in text and "The process was" in text, text)
        short = test.ask("types", program.pid, "--top", 1).stdout
        test.expect("more types" in short and "zoo::Hybrid" not in short, short)


def sampled_test(test):
    with Program(test, TCMALLOC_SAMPLE_PARAMETER="1000") as program:
        found = test.json("types", program.pid, "--top", 1000)
        counts = {(row["type"], row["offset"]): row["objects"] for row in found["types"]}
        for key, wanted in EXPECTED.items():
            test.expect(counts.get(key) == wanted, f"sampled: {counts.get(key)} objects of {key}, not {wanted}")
        names = [frame["function"] for site in found["call_sites"] for frame in site["frames"]]
        test.expect("main" in names, f"call sites: {names[:20]}")
        text = test.ask("types", program.pid).stdout
        test.expect("No type known, but sampled: " in text, text)


def files_test(test):
    with tempfile.TemporaryDirectory() as name, Program(test, TCMALLOC_SAMPLE_PARAMETER="0") as program:
        folder = pathlib.Path(name)
        test.ask("snapshot", program.pid, folder / "whole", "--contents")
        test.ask("snapshot", program.pid, folder / "records")
        run = test.ask("types", folder / "records", status=None)
        said = run.stdout + run.stderr
        test.expect("incomplete: " in said and "snapshot --contents" in said, said)
        check(test, folder / "whole", "snapshot")
        if shutil.which("gcore") is None:
            print("SKIP: gdb's gcore is not installed")
            return SKIPPED
        subprocess.run(["gcore", "-o", folder / "core", str(program.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       check=True)
        check(test, folder / f"core.{program.pid}", "gcore")
    return 0


if __name__ == "__main__":
    sys.exit(run_one(Test, {"live": live_test, "sampled": sampled_test, "files": files_test}))
