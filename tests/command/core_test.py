#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the tcmalloc command on core files and snapshots of processes."""

import json
import pathlib
import re
import shutil
import struct
import subprocess

from cores import WITH_FILES, DEFAULT_FILTER, crash
from harness import (OTHER_MALLOC, SAMPLED, Target, gcore, needs, new_folder, run_test, wait_until_asleep)

PT_LOAD = 1


def snapshot(test, target, folder, *options):
    test.ask("snapshot", target.pid, folder / "snapshot", *options)
    return folder / "snapshot"


class Said:
    """The figures that a process at rest reports about itself."""

    def __init__(self, test, target):
        for step in ("free", "wait 5", "rest"):
            target.tell(step)
        self.pid = target.pid
        self.addresses = target.tell("address").split()
        self.objects = target.objects()
        self.stats = target.tell("json").strip()
        self.call_sites = test.ask("profile", target.pid, "--format", "folded", status=None).stdout


def check(test, file, said, contents=True):
    """The figures that the commands report about the file."""
    wanted = json.loads(said.stats)
    found = test.json("stats", file)
    same = json.dumps({name: found[name] for name in found if name in wanted}, separators=(",", ":"))
    test.expect_equal(same, said.stats, f"{file}: the figures")
    name = pathlib.Path(test.program).name
    test.expect_equal((found["pid"], found["file"], pathlib.Path(found["program"]).name, found["name"]),
                      (said.pid, str(file), name, name[:15]), "the process")
    report = test.json("objects", file, "--list", "--by", "age")
    if said.objects:
        listed = {tuple(pair) for pair in report["list"]}
        test.expect(listed == said.objects, f"{file}: {len(said.objects - listed)} objects are missing, "
                    f"{len(listed - said.objects)} are not the library's")
    test.expect(report["settled"] and report["objects"] > 10000 and "by_age" in report, f"{report['objects']} objects")
    in_use, freed, large, stack = said.addresses
    for address, states in ((in_use, ("in use",)), (freed, ("free", "free, in a thread cache", "no object")), (large, ("in use",)),
                            (stack, ("outside",))):
        answer = test.json("inspect", file, address)
        test.expect(answer["state"] in states, f"{file}: {address}: {answer['state']}, not {states}")
    text = test.ask("inspect", file, in_use, "--contents").stdout
    test.expect(("01 01 01" if contents else "incomplete: ") in text and f"Read from {file}" in text, text)
    if said.call_sites:
        test.expect(test.ask("profile", file, "--format", "folded").stdout == said.call_sites, f"{file}: call sites")
        test.expect(";main " in said.call_sites or "stripped" in name, said.call_sites[:300])
    diagnosis = test.json("doctor", file)
    shares = {share["name"]: share["bytes"] for share in diagnosis["shares"]}
    test.expect_equal(sum(shares.values()), diagnosis["resident_bytes"], f"{file}: the sum of the shares")
    test.expect_equal(diagnosis["resident_is_minimum"], "process_resident_bytes" not in diagnosis, f"{file}: at least")
    test.expect(10 << 20 < shares["in_use"] <= wanted["in_use_bytes"], f"{file}: {shares['in_use']} bytes in use")


def test_crash(test):
    for dump_filter in (DEFAULT_FILTER, WITH_FILES):
        with new_folder() as folder, Target(test, folder=folder, **SAMPLED) as target:
            said = Said(test, target)
            core = crash(target, folder, dump_filter)
            check(test, core, said)
            text = test.ask("doctor", core).stdout
            test.expect("pages that are not all zeroes count" in text, "the estimate")
            test.expect(re.match(r"Process \d+, \w+: at least [\d.]+ MiB resident;", text), text)
            text = test.ask("stats", core).stdout
            test.expect("does not say how much" in text and "in objects that the program holds" in text, text)


def test_gcore(test):
    with new_folder() as folder, Target(test, folder=folder, **SAMPLED) as target:
        said = Said(test, target)
        check(test, gcore(target, folder), said)


def segments(core):
    """The place of each program header of a 64-bit core, and of its contents."""
    with core.open("rb") as file:
        head = file.read(64)
        offset, = struct.unpack_from("<Q", head, 32)
        count, = struct.unpack_from("<H", head, 56)
        file.seek(offset)
        table = file.read(count * 56)
    return [(offset + i * 56, *struct.unpack_from("<IIQQQQQQ", table, i * 56)) for i in range(count)]


def test_truncated(test):
    """In each file one part is missing, as if coredump_filter had left it out."""
    with new_folder() as folder, Target(test, **SAMPLED) as target:
        said = Said(test, target)
        core = gcore(target, folder)
        cut = folder / "cut"
        missing = 0
        for place, kind, *_, file_bytes, _, _ in segments(core):
            if kind != PT_LOAD or file_bytes == 0:
                continue
            shutil.copy(core, cut)
            with cut.open("r+b") as file:
                file.seek(place + 32)
                file.write(struct.pack("<Q", 0))
            for command in ("stats", "objects"):
                run = test.ask(command, cut, status=(0, 1))
                if run.returncode == 1:
                    missing += 1
                    test.expect(run.stdout == "" and run.stderr.count("\n") == 1 and
                                ("incomplete: " in run.stderr and "lacks the memory at 0x" in run.stderr or
                                 "no records of this TCMalloc" in run.stderr), f"{command}: {run.stdout}{run.stderr}")
                elif command == "objects":
                    test.expect(f"{len(said.objects)} objects" in run.stdout, run.stdout)
        test.expect(missing >= 2, f"{missing} parts are needed")


def test_wrong(test):
    with new_folder() as folder:
        for file, words in (("/no/such/file", "cannot read /no/such/file: No such file"), (folder, "is not a regular file"),
                            (test.program, "is a program or a library"), (__file__, "neither a process nor a core"),
                            ("99999999999", "there is no process 99999999999")):
            test.fails("stats", file, words=words)
        with Target(test) as target:
            file = snapshot(test, target, folder)
            other = bytearray(file.read_bytes())
            other[5] = 3 - other[5]  # EI_DATA
            other[16:18] = other[17:15:-1]  # e_type
            (folder / "other").write_bytes(other)
            test.fails("stats", folder / "other", words="another order of bytes")
        with subprocess.Popen(["sleep", "60"]) as process:
            try:
                core = gcore(process, folder)
            finally:
                process.kill()
        text = test.ask("stats", core, status=OTHER_MALLOC).stdout
        test.expect("runs on glibc's malloc" in text and "no figures of the kernel" in text, text)
        test.fails("objects", core, words="runs on glibc's malloc")
        text = test.ask("explain", core, status=OTHER_MALLOC).stdout
        test.expect("ran on glibc's malloc, not on this TCMalloc" in text and "Stack of thread" in text, text)


def gdb(*arguments):
    return subprocess.run(["gdb", "-batch", "-nx", *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False).stdout


def check_threads_of_snapshot(test, target, folder):
    """gdb shows the same threads and registers for a snapshot as for the process itself."""
    target.tell("wait 5")
    wait_until_asleep(target.pid)
    file = snapshot(test, target, folder)
    show = ("-ex", "thread apply all -q p/x $pc", "-ex", "thread apply all -q p/x $sp")
    shown = [sorted(re.findall(r"^\$\d+ = (0x[0-9a-f]+)", gdb(*show, *where), re.MULTILINE))
             for where in (("-c", file), ("-p", target.pid))]
    test.expect(shown[0] == shown[1] and len(shown[0]) >= 12, f"{shown[0]}, not {shown[1]}")
    text = gdb("-ex", "info threads", "-c", snapshot(test, target, folder, "--no-stop"))
    test.expect("LWP" not in text, text)


def test_snapshot(test):
    with new_folder() as folder, Target(test, **SAMPLED) as target:
        before = snapshot(test, target, folder).rename(folder / "before")
        said = Said(test, target)
        file = snapshot(test, target, folder)
        test.expect_equal(file.stat().st_mode & 0o777, 0o600, "the mode")
        size = file.stat().st_size
        test.expect(size < 4 << 20 and b"\1" * 1000 not in file.read_bytes(), f"{size} bytes: contents of objects")
        check(test, file, said, contents=False)
        test.expect(test.json("stats", file)["process_resident_bytes"] > 20 << 20, "the kernel's figures")
        changes = test.ask("diff", before, file).stdout
        test.expect("The program holds" in changes and "less" in changes, changes)
        both = folder / "both"
        test.ask("snapshot", target.pid, both, "--contents")
        check(test, both, said)
        test.fails("snapshot", target.pid, "/no/such/folder/file", words="cannot write /no/such/folder/file: No such file")
        test.expect_equal(sorted(path.name for path in folder.iterdir()), ["before", "both", "snapshot"], "files")
        test.expect(target.tell("wait 1") == "done\n", "the process goes on")
        needs("gdb")
        root = test.json("inspect", file, said.addresses[0])["object"]["start"]
        text = gdb("-ex", f"x/xb {root}", "-c", both)
        test.expect(re.search(r"0x[0-9a-f]+:\s+0x01$", text, re.MULTILINE), text)
        check_threads_of_snapshot(test, target, folder)


if __name__ == "__main__":
    run_test(globals())
