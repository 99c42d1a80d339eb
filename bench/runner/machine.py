# SPDX-License-Identifier: BSD-3-Clause
"""The facts, besides the allocators, on which the figures of a run depend."""

import os
import platform
import re
import shutil
import subprocess
import time

ALLOCATOR_VARIABLES = re.compile(
    r"(TCMALLOC_|MALLOC_|MIMALLOC_|JEMALLOC_|SNMALLOC_|GLIBC_TUNABLES$|HEAPPROFILE|HEAPCHECK)")


def describe():
    """Facts by name, all text."""
    return {
        "name": platform.node(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "processors": str(processors()),
        "memory": _field("/proc/meminfo", "MemTotal") or "unknown",
        "kernel": " ".join((platform.system(), platform.release(), platform.machine())),
        "distribution": _distribution(),
        "hugepages": _first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "virtualization": "yes" if "hypervisor" in _field("/proc/cpuinfo", "flags") else "no",
        "load": _first_line("/proc/loadavg"),
        "compiler": _compiler(),
        "python": platform.python_version(),
        "allocator variables": " ".join(
            f"{name}={value}" for name, value in sorted(os.environ.items())
            if ALLOCATOR_VARIABLES.match(name)) or "none",
    }


def processors():
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def thread_counts(number):
    """1, 2, 4, ... up to the number of processors, that number, and 8: more threads than a small
    machine has processors."""
    counts = {1, 2, 8, number}
    power = 4
    while power < number:
        counts.add(power)
        power *= 2
    return sorted(counts)


def _first_line(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except OSError:
        return "unknown"


def _field(path, name):
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return ""


def _distribution():
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"


def _compiler():
    if not shutil.which("c++"):
        return "none"
    result = subprocess.run(["c++", "--version"], stdout=subprocess.PIPE, text=True)
    return result.stdout.splitlines()[0] if result.stdout else "unknown"
