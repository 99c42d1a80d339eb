#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests programs whose heap lies where the environment says: mmap, sbrk, a memory file, a device.

usage: memory_sources_test.py process MEMORY_SOURCES LIBRARY   on tmpfs, for every user
       memory_sources_test.py system MEMORY_SOURCES LIBRARY    on file systems of its own: as root, in a mount namespace of
                                                               its own
"""

import os
import pathlib
import re
import resource
import signal
import subprocess
import sys

import process_test
from process_test import Skipped

MIB = 1 << 20
HUGEPAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")


class Sources(process_test.Test):

    def run(self, name, settings, arguments, status=0, stdout=None, stderr=""):
        """stdout: (least, most) of the number that is printed; stderr: a pattern of the whole text."""
        done = super().run(*arguments, prepare=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
                           **{f"TCMALLOC_{key}": value for key, value in settings.items()})
        if done.returncode == process_test.SKIPPED:
            print(f"{name}: {done.stdout.strip()}")
            return
        right = done.returncode == status and re.fullmatch(stderr, done.stderr)
        if stdout is not None:
            number = re.fullmatch(r"(\d+)\n", done.stdout)
            right = right and number and stdout[0] <= int(number[1]) <= stdout[1]
        self.expect(right, f"{name}: not status {status}, stdout {stdout}, stderr {stderr!r}: {done}")


# With these settings as many objects fit the second time, since no free memory is released in between.
KEPT = {"MEMFS_DISABLE_FALLBACK": 1, "RELEASE_RATE": 0}


def anonymous(case):
    case.run("mmap", {}, ["work", "", 0])
    case.run("mmap without sbrk", {"SKIP_SBRK": 1}, ["work", "", 0])
    case.run("sbrk alone", {"SKIP_MMAP": 1}, ["work", "[heap]", 0])
    case.run("sbrk when mmap gives nothing", {}, ["without_mmap", "[heap]"])
    case.run("neither", {"SKIP_MMAP": 1, "SKIP_SBRK": 1}, ["nothing"])


def memory_file(case, folder):
    path = f"{folder}/heap"
    file = {"MEMFS_MALLOC_PATH": path}
    limited = {**file, "MEMFS_LIMIT_MB": 8}
    abort_line = (r"tcmalloc: TCMALLOC_MEMFS_ABORT_ON_FAIL: cannot allocate \d+ bytes from "
                  r"TCMALLOC_MEMFS_MALLOC_PATH\n")
    case.run("memory file", file, ["work", path, 1])
    case.run("private memory file", {**file, "MEMFS_MAP_PRIVATE": 1}, ["work", path, 0])
    case.run("memory file and sbrk for records", {**file, "SKIP_MMAP": 1}, ["work", path, 1])
    case.run("falls back at the limit", limited, ["fill", path], stdout=(7, 8))
    case.run("fails at the limit", {**limited, **KEPT}, ["exhaust", path], stdout=(7, 8))
    case.run("aborts at the limit", {**limited, "MEMFS_ABORT_ON_FAIL": 1}, ["fill", path],
             status=-signal.SIGABRT, stderr=abort_line)
    nowhere = {"MEMFS_MALLOC_PATH": f"{folder}/nowhere/heap"}
    line = (f"tcmalloc: TCMALLOC_MEMFS_MALLOC_PATH: cannot open {folder}/nowhere/heap: "
            "No such file or directory; allocating nothing from it\n")
    case.run("falls back without a file", nowhere, ["work", "", 0], stderr=line)
    case.run("fails without a file", {**nowhere, "MEMFS_DISABLE_FALLBACK": 1}, ["nothing"], stderr=line)
    case.run("aborts without a file", {**nowhere, "MEMFS_ABORT_ON_FAIL": 1}, ["fill", ""],
             status=-signal.SIGABRT, stderr=line + abort_line)
    other = pathlib.Path(folder) / "other"
    other.write_text("the program's")
    case.run("descriptors closed", file, ["close", path, other], stdout=(0, 8))
    case.expect_equal(other.read_text(), "the program's", "the program's file")
    other.unlink()
    case.expect_equal(os.listdir(folder), [], "files that are left")


def device(case, folder):
    path = pathlib.Path(folder) / "device"
    old = b"\xdd" * (128 * MIB)
    path.write_bytes(old)
    device = {"DEVMEM_DEVICE": path, "DEVMEM_START": 1}
    # The device has contents already, which calloc must clear.
    case.run("device", device, ["work", path, 1])
    path.write_bytes(old)
    case.run("device up to its limit", {**device, "DEVMEM_LIMIT": 9}, ["fill", path], stdout=(7, 8))
    contents = path.read_bytes()
    case.expect(contents[:MIB] == old[:MIB] and contents[9 * MIB:] == old[9 * MIB:] and
                contents[MIB:9 * MIB].count(b"\xdd") < MIB, "what is used of the device")
    memory = {**device, "DEVMEM_LIMIT": 9, "MEMFS_MALLOC_PATH": f"{folder}/heap", "MEMFS_LIMIT_MB": 8}
    case.run("the memory file comes first", memory, ["fill", f"{folder}/heap"], stdout=(7, 8))
    case.run("then the device", memory, ["fill", path], stdout=(6, 8))
    path.unlink()
    case.run("no device", device, ["work", "", 0],
             stderr=f"tcmalloc: TCMALLOC_DEVMEM_DEVICE: cannot open {path}: "
                    "No such file or directory; allocating nothing from it\n")


def mount(kind, options, folder):
    subprocess.run(["mount", "-t", kind, "-o", options, "none", folder], check=True)


def full_file_system(case, folder):
    """On a tmpfs of 8 MiB the allocator finds that there is no room before a thread touches memory."""
    mount("tmpfs", "size=8m", folder)
    path = f"{folder}/heap"
    file = {"MEMFS_MALLOC_PATH": path}
    try:
        case.run("falls back when it is full", file, ["fill", path], stdout=(5, 8))
        case.run("fails when it is full", {**file, **KEPT}, ["exhaust", path], stdout=(5, 8))
        case.run("aborts when it is full", {**file, "MEMFS_ABORT_ON_FAIL": 1}, ["fill", path],
                 status=-signal.SIGABRT, stderr=r"tcmalloc: .*_ABORT_ON_FAIL: .*\n")
    finally:
        subprocess.run(["umount", folder], check=True)


def hugepages(case, folder):
    before = HUGEPAGES.read_text()
    HUGEPAGES.write_text("96")
    try:
        count = int(HUGEPAGES.read_text())
        if count < 96:
            raise Skipped(f"the system has {count} free hugepages, 96 are needed")
        mount("hugetlbfs", "pagesize=2M", folder)
        path = f"{folder}/heap"
        file = {"MEMFS_MALLOC_PATH": path}
        try:
            case.run("hugepages", file, ["work", path, 1])
            case.run("private hugepages", {**file, "MEMFS_MAP_PRIVATE": 1}, ["work", path, 1])
            # With an odd limit the heap takes whole hugepages below it.
            case.run("hugepages up to a limit", {**file, "MEMFS_LIMIT_MB": 9}, ["fill", path], stdout=(7, 8))
            HUGEPAGES.write_text("6")
            case.run("falls back without hugepages", file, ["fill", path], stdout=(9, 12))
            case.run("fails without hugepages", {**file, **KEPT}, ["exhaust", path], stdout=(9, 12))
            case.expect_equal(os.listdir(folder), [], "files that are left")
        finally:
            subprocess.run(["umount", folder], check=True)
    finally:
        HUGEPAGES.write_text(before)


def test_process(case):
    anonymous(case)
    memory_file(case, case.folder)
    device(case, case.folder)


def test_system(case):
    if not os.environ.get("IN_MOUNT_NAMESPACE"):
        if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"]).returncode:
            raise Skipped("mounting file systems needs root")
        os.environ["IN_MOUNT_NAMESPACE"] = "1"
        sys.exit(subprocess.run(["unshare", "-m", sys.executable, *sys.argv]).returncode)
    full_file_system(case, case.folder)
    hugepages(case, case.folder)


if __name__ == "__main__":
    process_test.main(globals(), Sources, "/dev/shm")
