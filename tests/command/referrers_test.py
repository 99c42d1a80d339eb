#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""'tcmalloc inspect --referrers' on referrers.cc, which makes objects with known chains of pointers.

core_matrix_test.py has other cores, also truncated ones.
"""

import pathlib
import re

from cores import crash
from harness import AT_REST, INCOMPLETE, Process, new_folder, run_test

LIST_LENGTH = 100_000
# The number of additional roots and places of the heap. The library's lists themselves have no room
# for this many, so the lists lie in other pages, which have nothing else that a snapshot contains.
MANY = 40
SHARED = 100


class Program(Process):
    """Runs referrers.cc until the end of the block, and has its objects by name."""

    def __init__(self, test, *arguments, **options):
        super().__init__(test.library, test.program, *map(str, arguments), **{"TCMALLOC_SAMPLE_PARAMETER": "0", **options})
        self.objects = dict(self.said)


def referrers(test, process, address, *options, status=0):
    return test.json("inspect", "--referrers", address, process, *options, status=status).get("referrers", {})


def text_of(test, process, address, *options, status=0):
    return test.ask("inspect", "--referrers", address, process, *options, status=status).stdout


def describe(chain):
    """The places of a chain, from the object on, as short words."""
    words = []
    for link in chain["links"]:
        word = link["where"]
        if "object" in link and not {"variable", "function", "register"} & {*link}:
            word += f"+{link['object']['offset']}"
        for key, between in (("variable", " "), ("function", " in "), ("register", " ")):
            if key in link:
                word += between + link[key]
                break
        words.append(word)
    return [*words, chain["ends"]]


def check(test, process, objects):
    """Checks the command's answer for each object."""
    pointer = 4 if "i386" in test.program else 8
    wide = pointer == 8
    wanted = {
        "global": [f"object+{2 * pointer}", f"object+{pointer}", "variable global_nodes", "root"],
        "inside": [f"variable global_table+{2 * pointer}", "root"],
        "shared": ["variable global_shared", "root"],
        "ring": [f"object+{pointer}", "variable global_ring", "root"],
        "mapped": ["memory", "variable global_mapping", "root"],
        "registered": ["registered root", "root"],
        "cycle": ["object+0", "object+0", "itself"],
        "leaked": [f"object+{2 * pointer}", "leaked"],
        # 32-bit programs make system calls in the kernel's own page, from which the stack cannot be unwound.
        "stack": ["stack in HoldOnStack" if wide else "stack", "root"],
        "thread": [f"thread-local storage thread_variable+{pointer}", "root"],
        "register": [f"register {'rbx' if wide else 'esi'}", "root"],
        "freed": ["variable global_freed", "root"],
    }
    if "no_pie" in test.program:  # this program does not find the function that registers memory
        del wanted["registered"]
    test.expect_equal({*objects}, {*wanted, "hidden", "list"}, "the program's objects")
    found = {}
    for name, places in wanted.items():
        found[name] = referrers(test, process, objects[name])
        chains = [describe(chain) for chain in found[name]["chains"]]
        test.expect_equal(chains[:1], [places], name)
        test.expect_equal(found[name]["reachable"], places[-1] == "root", name)
    shared, inside, ring, cycle = (found[name] for name in ("shared", "inside", "ring", "cycle"))
    test.expect_equal((shared["words"], len(shared["chains"])), (SHARED, 10), "shared")
    test.expect_equal(inside["chains"][0]["links"][0]["points_to"], int(objects["inside"], 16), "inside")
    test.expect_equal([describe(chain)[-2:] for chain in ring["chains"]], [["variable global_ring", "root"]] * 2, "ring")
    test.expect_equal(cycle["only_through_this"]["objects"], 2, "cycle")
    hidden = referrers(test, process, objects["hidden"])
    test.expect_equal((hidden["words"], hidden["chains"], hidden["complete"]), (0, [], True), "hidden")
    chain, = referrers(test, process, objects["list"], "--limit", 1)["chains"]
    test.expect_equal(describe(chain)[-2:], ["variable global_list", "root"], "list")
    test.expect_equal(len(chain["links"]) + chain["not_shown"]["objects"], LIST_LENGTH + 1, "list")
    text = text_of(test, process, objects["hidden"])
    test.expect("No referrer found" in text and "it is leaked, or the pointer is hidden" in text, text)


def test_live(test):
    with Program(test) as program:
        check(test, program.pid, program.objects)
        for name, words in (("global", ("1 word points to the object", "of type chain::Node", "from variable global_nodes in ")),
                            ("inside", ("(points 24 bytes into it)",)),
                            ("list", (" more objects\n", "from variable global_list in "))):
            text = text_of(test, program.pid, program.objects[name])
            test.expect(all(each in text for each in words), text)
        text = text_of(test, program.pid, "0x123456000")
        test.expect("is outside of the heap" in text and "points to the address\n" in text, text)


def test_sampled(test):
    with Program(test, TCMALLOC_SAMPLE_PARAMETER="1") as program:
        found = referrers(test, program.pid, program.objects["global"])
        for link in found["chains"][0]["links"][:-1]:
            names = [frame["function"] for frame in link["allocated_by"]]
            test.expect("MakeGlobal" in names, f"call site: {names}")
        text = text_of(test, program.pid, program.objects["global"])
        # A compiler may not inline the vector's function.
        sites = re.findall(r", allocated by (?:MakeGlobal \(referrers\.cc|reserve \(vector\.tcc):", text)
        test.expect_equal(len(sites), 2, text)


def test_running(test):
    with Program(test) as program:
        found = referrers(test, program.pid, program.objects["global"], "--no-stop", status=INCOMPLETE)
        # Old words on stacks count, since the stack pointers are not known.
        ends = [describe(chain)[-2:] for chain in found["chains"]]
        test.expect(["variable global_nodes", "root"] in ends, f"{found}")
        text = text_of(test, program.pid, program.objects["hidden"], "--no-stop", status=INCOMPLETE)
        test.expect("incomplete: the process was not stopped" in text and "leaked" not in text, text)


def test_kernel(test):
    with new_folder() as folder, Program(test, folder=folder) as program:
        check(test, crash(program, folder), program.objects)


def test_records(test):
    for arguments in ((), (MANY,)):
        # "freed" stays in its thread's cache, which the background thread would flush.
        with new_folder() as folder, Program(test, *arguments, **AT_REST) as program:
            file = folder / "records"
            test.ask("snapshot", program.pid, file)
            alive = referrers(test, program.pid, program.objects["registered"])
            roots = alive["registered_roots"]
            test.expect_equal(len(roots), 1 + sum(arguments), "registered roots of the process")
            test.expect_equal(describe(alive["chains"][0]), ["registered root", "root"], "registered")
            # "freed" is in a thread cache, whose memory is the allocator's own: it does not count.
            for name in ("registered", "hidden", "freed"):
                found = referrers(test, file, program.objects[name], status=INCOMPLETE)
                test.expect_equal((found.get("registered_roots"), found.get("chains")), (roots, []), f"{arguments}: {name}")
                text = text_of(test, file, program.objects[name], status=INCOMPLETE)
                test.expect(f"incomplete: a snapshot has no variables, stacks, registered roots ({len(roots)}) and" in text and
                            "leaked" not in text, text)
            # The file has all private memory and the registers. Each of the many objects of 128 MiB has one word.
            test.ask("snapshot", program.pid, file, "--contents")
            test.expect(file.stat().st_size < 1 << 29, f"a snapshot of {file.stat().st_size} bytes")
            text = text_of(test, file, program.objects["hidden"])
            test.expect("incomplete" not in text and "leaked" in text, text)
            found = referrers(test, file, program.objects["register"])
            test.expect_equal(describe(found["chains"][0]), ["register rbx", "root"], "register")


def test_memfs(test):
    with Program(test, TCMALLOC_MEMFS_MALLOC_PATH="/dev/shm/heap") as program:
        test.expect("/heap." in pathlib.Path(f"/proc/{program.pid}/maps").read_text(), "the heap is not in the file")
        check(test, program.pid, program.objects)


if __name__ == "__main__":
    run_test(globals())
