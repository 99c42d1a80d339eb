#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tcmalloc command on core files and snapshots of processes.

  core_test.py WHAT COMMAND PROGRAM LIBRARY

  crash     a core of the kernel, by the default filter (0x33) and by 0x37: stats, objects, inspect and profile give the
            answers that they gave for the process before, and doctor says which memory has contents
  gcore     the same for a core of gdb's gcore
  shared    cores of a heap in a memory file, which has no name, and in a file, which has one: the default filter has only
            the first; what it lacks is named, with the remedy
  busy      crashes of a process whose threads allocate: each command answers, or says in one line why it cannot
  truncated cores that end early, or lack memory: "incomplete", and never an answer without what is missing
  wrong     files that are no cores, cores of other programs, a file of another machine
  snapshot  the same for a snapshot: each command, without and with the contents of objects; diff of two; gdb opens it

LIBRARY may be "linked": then the program has the allocator in itself.
"""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import cores
from command_test import AT_REST, SKIPPED, Target, Test, run_one, walked
from cores import crash

FILTERS = ("33", "37")
CRASHES = 12
KIB = 1 << 10
PT_LOAD = 1
SAMPLED = {**AT_REST, "TCMALLOC_SAMPLE_PARAMETER": "20000"}


def gcore(target, folder):
    """Returns a core of a process that continues."""
    subprocess.run(["gcore", "-o", folder / "core", str(target.pid)], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=True)
    return folder / f"core.{target.pid}"


def snapshot(test, target, folder, *options):
    test.ask("snapshot", target.pid, folder / "snapshot", *options)
    return folder / "snapshot"


class Said:
    """What a process at rest reports about itself."""

    def __init__(self, test, target):
        target.tell("free")
        target.tell("sleep 5")
        target.tell("rest")
        self.pid = target.pid
        self.addresses = target.tell("address").split()
        self.objects = walked(target)
        self.stats = target.tell("json").strip()
        self.call_sites = test.ask("profile", target.pid, "--format", "folded", status=None).stdout


def check(test, file, said, contents=True):
    """What the commands say about the file."""
    wanted = json.loads(said.stats)
    found = test.json("stats", file)
    same = json.dumps({name: found[name] for name in found if name in wanted}, separators=(",", ":"))
    test.expect(same == said.stats, f"{file}: the figures differ:\n{same}\n{said.stats}")
    test.expect(found["pid"] == said.pid and found["threads"] >= 1 and found["file"] == str(file), f"{found}"[:300])
    test.expect(pathlib.Path(found["program"]).name == pathlib.Path(test.program).name, found["program"])
    test.expect(found["name"] == pathlib.Path(test.program).name[:15], found["name"])
    report = test.json("objects", file, "--list")
    if said.objects:
        listed = {tuple(pair) for pair in report["list"]}
        test.expect(listed == said.objects, f"{file}: {len(said.objects - listed)} objects are missing, "
                    f"{len(listed - said.objects)} are not the library's")
    test.expect(report["settled"] and report["objects"] > 10000, f"{report['objects']} objects")
    in_use, freed, large, stack = said.addresses
    for address, states in ((in_use, ("in use",)), (freed, ("free", "free, in a thread cache", "no object")), (large, ("in use",)),
                            (stack, ("outside",))):
        answer = test.json("inspect", file, address)
        test.expect(answer["state"] in states, f"{file}: {address}: {answer['state']}, not {states}")
    text = test.ask("inspect", file, in_use, "--contents").stdout
    test.expect(("01 01 01" if contents else "incomplete: ") in text and f"Read from {file}" in text, text)
    if said.call_sites:
        test.expect(test.ask("profile", file, "--format", "folded").stdout == said.call_sites, f"{file}: call sites")
        test.expect(said.call_sites.count("\n") >= 2, said.call_sites[:300])
    test.expect("by_age" in test.json("objects", file, "--by", "age"), "ages")
    diagnosis = test.json("doctor", file)
    shares = {share["name"]: share["bytes"] for share in diagnosis["shares"]}
    test.expect(sum(shares.values()) == diagnosis["resident_bytes"], f"{file}: {shares}")
    test.expect(10 << 20 < shares["in_use"] <= wanted["in_use_bytes"], f"{file}: {shares['in_use']} bytes in use")


@cores.needed
def crash_test(test):
    for dump_filter in FILTERS:
        with tempfile.TemporaryDirectory() as folder, Target(test, folder=folder, **SAMPLED) as target:
            pathlib.Path(f"/proc/{target.pid}/coredump_filter").write_text(f"0x{dump_filter}")
            said = Said(test, target)
            core = crash(target, pathlib.Path(folder))
            check(test, core, said)
            test.expect("pages that are not all zeroes count" in test.ask("doctor", core).stdout, "the estimate")
            text = test.ask("stats", core).stdout
            test.expect("does not say how much" in text and "in objects that the program holds" in text, text)
            run = test.ask("profile", core, "--watch", 1, status=1)
            test.expect("needs a running process" in run.stderr or "takes no samples" in run.stderr, run.stderr)
    return 0


def gcore_test(test):
    if shutil.which("gcore") is None:
        print("SKIP: gdb's gcore is not installed")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder, Target(test, folder=folder, **SAMPLED) as target:
        said = Said(test, target)
        check(test, gcore(target, pathlib.Path(folder)), said)
    return 0


@cores.needed
def shared_test(test):
    with tempfile.TemporaryDirectory() as name:
        device = pathlib.Path(name) / "device"
        with device.open("wb") as file:
            file.truncate(1 << 30)
        forms = (("memory file", {"TCMALLOC_MEMFS_MALLOC_PATH": "/dev/shm/heap"}, "33", True),
                 ("private memory file",
                  {"TCMALLOC_MEMFS_MALLOC_PATH": "/dev/shm/heap", "TCMALLOC_MEMFS_MAP_PRIVATE": "1"}, "33", True),
                 ("device", {"TCMALLOC_DEVMEM_START": "1", "TCMALLOC_DEVMEM_DEVICE": device}, "33", False),
                 ("device", {"TCMALLOC_DEVMEM_START": "1", "TCMALLOC_DEVMEM_DEVICE": device}, "7f", True))
        for form, variables, dump_filter, complete in forms:
            with Target(test, folder=name, **SAMPLED,
                        **{key: str(value) for key, value in variables.items()}) as target:
                pathlib.Path(f"/proc/{target.pid}/coredump_filter").write_text(f"0x{dump_filter}")
                test.expect(("heap." if "memory" in form else "/device") in
                            pathlib.Path(f"/proc/{target.pid}/maps").read_text(), f"{form}: the heap is not in the file")
                said = Said(test, target)
                core = crash(target, pathlib.Path(name))
                if complete:
                    check(test, core, said)
                    # The file does not say whether a mapping is private, so missing pages may have been written.
                    if "private" not in form:
                        test.expect("incomplete" not in test.ask("doctor", core).stdout, f"{form}: doctor")
                    continue
                # The file has the records.
                test.expect(test.json("objects", core)["objects"] == len(said.objects) or not said.objects, f"{form}: objects")
                remedy = "it was left out when the core was written (write 0x7f to /proc/PID/coredump_filter before"
                for text in (test.ask("doctor", core).stdout, test.ask("inspect", core, said.addresses[0], "--contents").stdout):
                    test.expect("incomplete: " in text and remedy in text, f"{form}: {text}")
                test.expect(" of the objects' memory: " in test.ask("doctor", core).stdout, form)
                test.expect("never touched" not in test.ask("doctor", core).stdout, f"{form}: what is missing was not touched")
    return 0


def one_line(test, run, what):
    test.expect(run.returncode in (0, 1), f"{what}: exit status {run.returncode}\n{run.stderr[:500]}")
    if run.returncode == 1:
        test.expect(run.stdout == "" and run.stderr.startswith("tcmalloc: ") and run.stderr.count("\n") == 1,
                    f"{what}: {run.stderr[:500]}")


@cores.needed
def busy_test(test):
    answers, unsettled = 0, 0
    for _ in range(CRASHES):
        with tempfile.TemporaryDirectory() as folder, Target(test, folder=folder, TCMALLOC_SAMPLE_PARAMETER="20000") as target:
            target.tell("busy 4")
            address = target.process.pid  # outside of the heap
            core = crash(target, pathlib.Path(folder))
            for command in (("stats",), ("objects",), ("inspect", hex(address)), ("profile",)):
                run = test.ask(command[0], core, *command[1:], status=None)
                one_line(test, run, command[0])
                answers += run.returncode == 0
                unsettled += "incomplete: " in run.stdout
            test.check_sums(test.json("stats", core))
    print(f"{answers} answers out of {CRASHES * 4}, {unsettled} of them of a heap that was changing")
    return 0


def segments(core):
    """The place of each program header of a 64-bit core, and of its contents."""
    head = core.read_bytes()[:64]
    offset, = struct.unpack_from("<Q", head, 32)
    count, = struct.unpack_from("<H", head, 56)
    with core.open("rb") as file:
        file.seek(offset)
        table = file.read(count * 56)
    return [(offset + i * 56, *struct.unpack_from("<IIQQQQQQ", table, i * 56)) for i in range(count)]


def truncated_test(test):
    with tempfile.TemporaryDirectory() as name, Target(test, **SAMPLED) as target:
        folder = pathlib.Path(name)
        said = Said(test, target)
        core = gcore(target, folder) if shutil.which("gcore") else snapshot(test, target, folder)
        whole = core.read_bytes()
        for part in (0.999, 0.9, 0.7, 0.5, 0.3, 0.1, 0.01, 0.0001, 0):
            cut = folder / "cut"
            cut.write_bytes(whole[:int(len(whole) * part)])
            for command in (("stats",), ("objects",), ("inspect", said.addresses[0]), ("profile",)):
                run = test.ask(command[0], cut, *command[1:], status=None)
                one_line(test, run, f"{part} of it, {command[0]}")
                test.expect(run.returncode == 0 or "incomplete: " in run.stderr or "takes no samples" in run.stderr or
                            "neither a process nor a core" in run.stderr, f"{part} of it: {run.stderr}")
                if run.returncode == 0 and command[0] == "objects":
                    test.expect(f"{len(said.objects)} objects" in run.stdout or not said.objects, run.stdout)
        # In each file one part is missing, as if coredump_filter had left it out.
        missing = 0
        for place, kind, *_, file_bytes, _, _ in segments(core):
            if kind != PT_LOAD or file_bytes == 0:
                continue
            cut.write_bytes(whole)
            with cut.open("r+b") as file:
                file.seek(place + 32)
                file.write(struct.pack("<Q", 0))
            for command in ("stats", "objects"):
                run = test.ask(command, cut, status=None)
                one_line(test, run, f"without a part, {command}")
                if run.returncode == 1:
                    missing += 1
                    test.expect("incomplete: " in run.stderr and "lacks the memory at 0x" in run.stderr or
                                "no records of this TCMalloc" in run.stderr, run.stderr)
                elif command == "objects":
                    test.expect(f"{len(said.objects)} objects" in run.stdout or not said.objects, run.stdout)
        test.expect(missing >= 2, f"{missing} parts are needed")
    return 0


def wrong_test(test):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for file, wanted in (("/no/such/file", "cannot read /no/such/file: No such file"), (name, "neither a process nor a core"),
                             (test.program, "is a program or a library"), (__file__, "neither a process nor a core"),
                             ("99999999999", "there is no process 99999999999")):
            run = test.ask("stats", file, status=1)
            test.expect(wanted in run.stderr and run.stderr.count("\n") == 1, run.stderr)
        with Target(test) as target:
            file = snapshot(test, target, folder)
            other = bytearray(file.read_bytes())
            other[5] = 3 - other[5]  # EI_DATA
            other[16:18] = other[17:15:-1]  # e_type
            (folder / "other").write_bytes(other)
            run = test.ask("stats", folder / "other", status=1)
            test.expect("another order of bytes" in run.stderr, run.stderr)
            for command in ("timeline", "top"):
                run = test.ask(command, file, status=1)
                test.expect(run.stderr == f"tcmalloc: {file} is no PID: {command} needs a running process, not a file\n", run.stderr)
        if shutil.which("gcore") is None:
            return 0
        with subprocess.Popen(["sleep", "60"]) as process:
            core = gcore(process, folder)
            run = test.ask("stats", core, status=3)
            test.expect("runs on glibc's malloc" in run.stdout and "no figures of the kernel" in run.stdout, run.stdout)
            run = test.ask("objects", core, status=1)
            test.expect("runs on glibc's malloc" in run.stderr, run.stderr)
            process.kill()
    return 0


def threads_of_snapshot(test, target, folder):
    """gdb shows the same threads and registers for a snapshot as for the process itself."""
    target.tell("wait 5")
    tasks = pathlib.Path(f"/proc/{target.pid}/task")
    while any((tasks / name / "stat").read_text().rpartition(")")[2].split()[0] != "S" for name in os.listdir(tasks)):
        time.sleep(0.01)
    file = snapshot(test, target, folder)
    show = ("-ex", "thread apply all -q p/x $pc", "-ex", "thread apply all -q p/x $sp")
    shown = []
    for where in (("-c", file), ("-p", target.pid)):
        run = subprocess.run(["gdb", "-batch", "-nx", *show, *map(str, where)], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=False)
        shown.append(sorted(re.findall(r"^\$\d+ = (0x[0-9a-f]+)", run.stdout, re.MULTILINE)))
    test.expect(shown[0] == shown[1] and len(shown[0]) >= 12, f"{shown[0]}, not {shown[1]}")
    file = snapshot(test, target, folder, "--no-stop")
    run = subprocess.run(["gdb", "-batch", "-nx", "-ex", "info threads", "-c", file], text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, check=False)
    test.expect("LWP" not in run.stdout, run.stdout)


def snapshot_test(test):
    with tempfile.TemporaryDirectory() as name, Target(test, **SAMPLED) as target:
        folder = pathlib.Path(name)
        before = snapshot(test, target, folder).rename(folder / "before")
        said = Said(test, target)
        file = snapshot(test, target, folder)
        test.expect(file.stat().st_mode & 0o777 == 0o600, f"mode {file.stat().st_mode:o}")
        size = file.stat().st_size
        test.expect(size < 4 << 20, f"{size // KIB} KiB without the contents of objects")
        test.expect(b"\1" * 1000 not in file.read_bytes(), "contents of objects")
        check(test, file, said, contents=False)
        found = test.json("stats", file)
        test.expect(found["process_resident_bytes"] > 20 << 20, "the kernel's figures")
        resident = test.json("doctor", target.pid)["resident_bytes"]
        saved = test.json("doctor", file)["resident_bytes"]
        test.expect(abs(resident - saved) < resident / 20, f"{saved} bytes resident, not {resident}")
        changes = test.ask("diff", before, file).stdout
        test.expect("The program holds" in changes and "less" in changes, changes)
        both = folder / "both"
        test.ask("snapshot", target.pid, both, "--contents")
        check(test, both, said)
        test.expect(both.stat().st_size > size + (10 << 20), f"{both.stat().st_size // KIB} KiB with contents")
        run = test.ask("snapshot", target.pid, "/no/such/folder/file", status=1)
        test.expect("cannot write /no/such/folder/file: No such file" in run.stderr, run.stderr)
        test.expect(sorted(path.name for path in folder.iterdir()) == ["before", "both", "snapshot"], "files")
        test.expect(target.tell("sleep 1") == "done\n", "the process goes on")
        if shutil.which("gdb"):
            root = test.json("inspect", file, said.addresses[0])["object"]["start"]
            run = subprocess.run(["gdb", "-batch", "-nx", "-ex", f"x/xb {root}", "-c", both], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            test.expect(re.search(r"0x[0-9a-f]+:\s+0x01$", run.stdout, re.MULTILINE), run.stdout)
            threads_of_snapshot(test, target, folder)
    return 0


if __name__ == "__main__":
    sys.exit(run_one(Test, {"crash": crash_test, "gcore": gcore_test, "busy": busy_test, "truncated": truncated_test, "shared": shared_test,
                            "wrong": wrong_test, "snapshot": snapshot_test}))
