#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""'tcmalloc inspect --referrers' on referrers.cc, which makes objects with known chains of pointers.

  referrers_test.py WHAT COMMAND PROGRAM LIBRARY

  live     the running process, as JSON and as text
  sampled  call sites of the objects of a chain
  running  with --no-stop: the answer is incomplete
  kernel   a core of the kernel
  gcore    a core of gdb's gcore
  records  a snapshot without the contents of objects: "incomplete: ...", with all of the registered roots
  missing  truncated cores and snapshots: "incomplete: ...", never "leaked"
  memfs    a heap in a file that other processes may share

LIBRARY may be "linked": then the program has the allocator in itself.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import cores
from command_test import SKIPPED, Test, clean_environment, run_one
from core_test import gcore
from cores import crash

INCOMPLETE = 5
LIST_LENGTH = 100_000
# More roots and places of the heap than fit into the library's lists themselves: the lists then lie in pages that have
# nothing else that a snapshot contains.
MANY = 40
SHARED = 100


class Program:
    """Runs referrers.cc until the end of the block, and has its objects by name."""

    def __init__(self, test, *arguments, folder=None, **variables):
        library = {} if test.library == "linked" else {"LD_PRELOAD": test.library}
        self.process = subprocess.Popen([test.program, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, cwd=folder,
                                        env={**clean_environment(), **library, "TCMALLOC_SAMPLE_PARAMETER": "0", **variables})
        self.pid = self.process.pid
        self.objects = {}
        for line in self.process.stdout:
            if line == "ready\n":
                break
            name, address = line.split()
            self.objects[name] = address

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def referrers(test, process, address, *options, status=0):
    run = test.ask("inspect", "--referrers", address, process, "--json", *options, status=status)
    return json.loads(run.stdout)["referrers"] if run.stdout else {}


def describe(chain):
    """The places of a chain, from the object on, as short words."""
    words = []
    for link in chain["links"]:
        word = link["where"]
        if "variable" in link:
            word = f"{word} {link['variable']}"
        elif "function" in link:
            word = f"{word} in {link['function']}"
        elif "register" in link:
            word = f"{word} {link['register']}"
        elif "object" in link:
            word = f"{word}+{link['object']['offset']}"
        words.append(word)
    return [*words, chain["ends"]]


def check(test, process, objects, status=0):
    """Checks the command's answer for each object. Returns the answer for the list's object."""
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
    test.expect({*wanted, "hidden", "list"} == {*objects}, f"the program has {objects}")
    for name, places in wanted.items():
        found = referrers(test, process, objects[name], status=status)
        chains = [describe(chain) for chain in found["chains"]]
        test.expect(chains and chains[0] == places, f"{name}: {chains[:2]}, not {places}")
        test.expect(found["reachable"] == (places[-1] == "root"), f"{name}: {found['reachable']}")
        if name == "shared":
            test.expect(found["words"] == SHARED and len(chains) == 10, f"{name}: {found['words']} words")
        if name == "inside":
            test.expect(found["chains"][0]["links"][0]["points_to"] == int(objects[name], 16), f"{found['chains']}")
        if name == "ring":
            test.expect(len(chains) == 2 and chains[1][-2:] == ["variable global_ring", "root"], f"{chains}")
        if name == "cycle":
            test.expect(found["only_through_this"]["objects"] == 2, f"{found['only_through_this']}")
    found = referrers(test, process, objects["hidden"], status=status)
    test.expect(found["words"] == 0 and not found["chains"], f"hidden: {found}")
    return referrers(test, process, objects["list"], "--limit", 1, status=status)


def check_list(test, found):
    chain = found["chains"][0]
    test.expect(describe(chain)[-2:] == ["variable global_list", "root"], f"the list: {describe(chain)}")
    test.expect(len(chain["links"]) + chain["not_shown"]["objects"] == LIST_LENGTH + 1, f"the list: {chain['not_shown']}")


def live_test(test):
    with Program(test) as program:
        found = check(test, program.pid, program.objects)
        check_list(test, found)
        test.expect(found["complete"] and not found["incomplete"], f"{found['incomplete']}")
        text = test.ask("inspect", "--referrers", program.pid, program.objects["global"]).stdout
        test.expect("1 word points to the object" in text and "of type chain::Node" in text and "from variable global_nodes in " in text
                    and "was stopped for" in text, text)
        text = test.ask("inspect", "--referrers", program.objects["hidden"], program.pid).stdout
        test.expect("No referrer found" in text and "it is leaked, or the pointer is hidden" in text, text)
        text = test.ask("inspect", "--referrers", program.objects["inside"], program.pid).stdout
        test.expect("(points 24 bytes into it)" in text, text)
        text = test.ask("inspect", "--referrers", program.objects["list"], program.pid).stdout
        test.expect(" more objects\n" in text and "from variable global_list in " in text, text)
        # An address outside of the heap.
        text = test.ask("inspect", "--referrers", "0x123456000", program.pid).stdout
        test.expect("is outside of the heap" in text and "points to the address\n" in text, text)


def sampled_test(test):
    with Program(test, TCMALLOC_SAMPLE_PARAMETER="1") as program:
        found = referrers(test, program.pid, program.objects["global"])
        for link in found["chains"][0]["links"][:-1]:
            names = [frame["function"] for frame in link["allocated_by"]]
            test.expect("MakeGlobal" in names, f"call site: {names}")
        text = test.ask("inspect", "--referrers", program.objects["global"], program.pid).stdout
        test.expect(text.count(", allocated by MakeGlobal (referrers.cc:") == 2, text)


def running_test(test):
    with Program(test) as program:
        found = referrers(test, program.pid, program.objects["global"], "--no-stop", status=INCOMPLETE)
        # Old words on stacks count, since the stack pointers are not known.
        ends = [describe(chain)[-2:] for chain in found["chains"]]
        test.expect(["variable global_nodes", "root"] in ends, f"{found}")
        text = test.ask("inspect", "--referrers", program.objects["hidden"], program.pid, "--no-stop", status=INCOMPLETE).stdout
        test.expect("incomplete: the process was not stopped" in text and "leaked" not in text, text)


def files_test(test, make):
    with tempfile.TemporaryDirectory() as name, Program(test, folder=name) as program:
        core = make(program, pathlib.Path(name))
        found = check(test, core, program.objects)
        check_list(test, found)
        test.expect(found["complete"], f"{found['incomplete']}")
        text = test.ask("inspect", "--referrers", program.objects["hidden"], core).stdout
        test.expect("No referrer found" in text and f"Read from {core}" in text, text)
    return 0


@cores.needed
def kernel_test(test):
    return files_test(test, crash)


def gcore_test(test):
    if shutil.which("gcore") is None:
        print("SKIP: gdb's gcore is not installed")
        return SKIPPED
    return files_test(test, gcore)


def records_test(test):
    for arguments in ((), (MANY,)):
        # "freed" stays in its thread's cache, which the background thread would flush.
        with tempfile.TemporaryDirectory() as name, Program(test, *arguments, TCMALLOC_BACKGROUND="0") as program:
            file = pathlib.Path(name, "records")
            test.ask("snapshot", program.pid, file)
            alive = referrers(test, program.pid, program.objects["registered"])
            roots = alive["registered_roots"]
            test.expect(len(roots) == 1 + sum(arguments), f"the process has {len(roots)} registered roots")
            test.expect(describe(alive["chains"][0]) == ["registered root", "root"], f"{alive['chains']}")
            # "freed" is in a thread cache, whose memory is the allocator's own: it does not count.
            for address in ("registered", "hidden", "freed"):
                found = referrers(test, file, program.objects[address], status=INCOMPLETE)
                test.expect(found.get("registered_roots") == roots, f"{arguments}: the snapshot has other registered roots")
                test.expect(not found.get("chains"), f"{arguments}: {address}: {found}")
                text = test.ask("inspect", "--referrers", program.objects[address], file, status=INCOMPLETE).stdout
                test.expect(f"incomplete: a snapshot has no variables, stacks, registered roots ({len(roots)}) and" in text, text)
                test.expect("leaked" not in text, text)
            run = test.ask("leaks", file, status=1)
            test.expect("incomplete: " in run.stderr and "--contents" in run.stderr and not run.stdout, run.stderr + run.stdout)


def missing_test(test):
    with tempfile.TemporaryDirectory() as name, Program(test, folder=name) as program:
        folder = pathlib.Path(name)
        hidden, held = program.objects["hidden"], program.objects["global"]
        test.ask("snapshot", program.pid, folder / "contents", "--contents")
        # The file has all private memory and the registers.
        text = test.ask("inspect", "--referrers", hidden, folder / "contents").stdout
        test.expect("incomplete" not in text and "leaked" in text, text)
        found = referrers(test, folder / "contents", held)
        test.expect(describe(found["chains"][0])[0] == "object+16" and found["complete"], f"{found}")
        found = referrers(test, folder / "contents", program.objects["register"])
        test.expect(describe(found["chains"][0]) == ["register rbx", "root"], f"{found}")
        if shutil.which("gcore") is None:
            return 0
        whole = gcore(program, folder).read_bytes()
        cut = folder / "cut"
        for percent in (10, 40, 70, 90, 99):
            cut.write_bytes(whole[:len(whole) * percent // 100])
            for address in (hidden, held):
                run = test.ask("inspect", "--referrers", address, cut, status=None)
                test.expect(run.returncode in (1, INCOMPLETE), f"{percent} %: exit status {run.returncode}")
                test.expect("incomplete: " in run.stdout + run.stderr and "leaked" not in run.stdout,
                            f"{percent} %: {run.stdout[-500:]}{run.stderr}")
    return 0


def memfs_test(test):
    with Program(test, TCMALLOC_MEMFS_MALLOC_PATH="/dev/shm/heap") as program:
        test.expect("/heap." in pathlib.Path(f"/proc/{program.pid}/maps").read_text(), "the heap is not in the file")
        check_list(test, check(test, program.pid, program.objects))


if __name__ == "__main__":
    sys.exit(run_one(Test, {"live": live_test, "sampled": sampled_test, "running": running_test, "kernel": kernel_test,
                            "gcore": gcore_test, "records": records_test, "missing": missing_test, "memfs": memfs_test}))
