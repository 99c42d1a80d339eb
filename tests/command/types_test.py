#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""'tcmalloc types' on types.cc, whose types and counts are known."""

from harness import Process, gcore, new_folder, run_test

EXPECTED = {("zoo::Bird", 0): 1000, ("zoo::Duck", 0): 300, ("zoo::Hybrid", 0): 200, ("zoo::Cage<int>", 0): 70,
            ("(anonymous namespace)::Hidden", 0): 50}
ARRAYS = ("zoo::Animal", 20)
PLAIN = 500


def check_types(test, found, what):
    counts = {(row["type"], row["offset"]): row["objects"] for row in found["types"]}
    test.expect_equal({key: counts.get(key) for key in EXPECTED}, EXPECTED, what)
    return counts


def check(test, process, what):
    found = test.json("types", process, "--top", 1000)
    no_symbols = "stripped" in test.program or "static_pie" in test.program
    if found["incomplete"] and no_symbols:  # the names, or the vtables, are in the program's file
        wanted = sorted([*EXPECTED.values(), ARRAYS[1]])
        known = sorted(row["objects"] for row in found["types"] if "class with the vtable" in row["type"])
        test.expect(known in (wanted, []) and what != "live", f"{what}: {known}, not {wanted}")
        test.expect("lacks the memory at" in found["incomplete"][0], f"{found['incomplete']}")
        return
    counts = check_types(test, found, what)
    inside = sum(n for (name, offset), n in counts.items() if name == ARRAYS[0] and offset > 0)
    test.expect(inside == ARRAYS[1] and (ARRAYS[0], 0) not in counts, f"{what}: arrays: {counts}")
    plain = sum(row["objects"] for row in found["no_type_known"] if row["name"] in ("208 bytes", "200 bytes", "224 bytes"))
    test.expect(PLAIN <= plain <= PLAIN + 50, f"{what}: {plain} objects of 200 bytes")
    parts = sum(row["objects"] for row in [*found["types"], *found["no_type_known"], *found["call_sites"]])
    test.expect_equal((parts, found["objects"]), (found["objects"], test.json("objects", process)["objects"]), f"{what}: the sum")


def test_live(test):
    with Process(test.library, test.program) as program:
        check(test, program.pid, "live")
        text = test.ask("types", program.pid).stdout
        test.expect("1000 objects  zoo::Bird\n" in text and "20 objects  contains at offset " in text and
                    "No type known, by size:" in text, text)
        short = test.ask("types", program.pid, "--top", 1).stdout
        test.expect("more types" in short and "zoo::Hybrid" not in short, short)


def test_sampled(test):
    with Process(test.library, test.program, TCMALLOC_SAMPLE_PARAMETER="1000") as program:
        found = test.json("types", program.pid, "--top", 1000)
        check_types(test, found, "sampled")
        names = [frame["function"] for site in found["call_sites"] for frame in site["frames"]]
        test.expect("main" in names, f"call sites: {names[:20]}")
        text = test.ask("types", program.pid).stdout
        test.expect("No type known, but sampled: " in text, text)


def test_files(test):
    with new_folder() as folder, Process(test.library, test.program) as program:
        test.ask("snapshot", program.pid, folder / "whole", "--contents")
        test.ask("snapshot", program.pid, folder / "records")
        run = test.ask("types", folder / "records", status=None)
        said = run.stdout + run.stderr
        test.expect("incomplete: " in said and "snapshot --contents" in said, said)
        check(test, folder / "whole", "snapshot")
        check(test, gcore(program, folder), "gcore")


if __name__ == "__main__":
    run_test(globals())
