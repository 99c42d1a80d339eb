#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests on a system with other settings than usual: strict overcommit, few mappings, hugepages
always or never. For root, on a machine of one's own on which nothing else runs: other programs are
refused memory too, and what they take meanwhile, the tests lack.

The settings are restored whatever happens: a second process waits until this one ends in any way,
and restores them.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
SETTINGS = pathlib.Path("/proc/sys/vm")
HUGEPAGE_SETTINGS = pathlib.Path("/sys/kernel/mm/transparent_hugepage")
LIBRARIES = ("tcmalloc", "tcmalloc_minimal")
PROGRAMS = ("process_address_limit", "process_few_mappings", "process_release_environment", "process_retention")
# The settings in the order in which they are restored. The kernel keeps only one of overcommit_ratio and
# overcommit_kbytes and shows the other as 0, so a setting that was 0 is not written.
NAMES = ("max_map_count", "overcommit_memory", "overcommit_ratio", "overcommit_kbytes", "enabled")
TIMEOUT_S = 300

STRICT = "2"
# The memory that programs may still map: as much as the test's program needs, and some for all other programs.
COMMIT_LEFT_KB = 500 << 10
# The limit is more mappings than any program of this test has, and far fewer than it would have with one mapping for
# each free range of its heap.
FEW_MAPPINGS = "300"


def path_of(folder, name):
    return (HUGEPAGE_SETTINGS if folder == SETTINGS and name == "enabled" else folder) / name


def read_settings(folder):
    """Name -> value. If a setting lists all choices, the value is the one in brackets."""
    settings = {}
    for name in NAMES:
        path = path_of(folder, name)
        if path.exists():  # a system without hugepages has no setting for them
            text = path.read_text().strip()
            chosen = re.search(r"\[(\w+)\]", text)
            settings[name] = chosen[1] if chosen else text
    return settings


def restore(folder, settings):
    for name, value in settings.items():
        if value != "0" or name == "overcommit_memory":
            path_of(folder, name).write_text(value)


class Guardian:
    """A process that restores the settings when this one has ended, or leaves the block."""

    def __init__(self, folder):
        self.folder = folder
        self.settings = read_settings(folder)

    def __enter__(self):
        end, self.held = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.setsid()
            os.close(self.held)
            os.read(end, 1)
            restore(self.folder, self.settings)
            os._exit(0)
        os.close(end)
        return self

    def __exit__(self, *_):
        os.close(self.held)
        os.waitpid(self.process, 0)
        if read_settings(self.folder) != self.settings:
            print(f"FAIL  the settings were not put back: {self.settings}", flush=True)


def memory_figure(name):
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    sys.exit(f"/proc/meminfo has no {name}")


def strict_overcommit(folder):
    kilobytes = memory_figure("Committed_AS") + COMMIT_LEFT_KB - memory_figure("SwapTotal")
    (folder / "overcommit_kbytes").write_text(str(max(kilobytes, 1)))
    (folder / "overcommit_memory").write_text(STRICT)


def few_mappings(folder):
    (folder / "max_map_count").write_text(FEW_MAPPINGS)


def hugepages_always(folder):
    path_of(folder, "enabled").write_text("always")


def hugepages_never(folder):
    path_of(folder, "enabled").write_text("never")


ALWAYS_PROGRAMS = (
    ("process_release_environment",),
    ("process_retention", "drop_threads", "hugepages"),
    ("process_retention", "drop_alone", "hugepages"),
)
# (name, changes of settings, programs and their arguments)
TESTS = (
    ("strict overcommit", strict_overcommit, (("process_address_limit", "commit", "later"),)),
    ("few mappings", few_mappings, (("process_few_mappings", "400"),)),
    ("hugepages always", hugepages_always, ALWAYS_PROGRAMS),
    ("hugepages never", hugepages_never, ALWAYS_PROGRAMS),
)


def run(program, library):
    path = BUILD / "lib" / f"lib{library}.so"
    environment = dict(os.environ, LD_PRELOAD=str(path), LIBRARY_UNDER_TEST=str(path))
    if "background" in program:
        environment["TCMALLOC_BACKGROUND"] = "1"
    return subprocess.run([str(BUILD / "bin" / program[0]), *program[1:]], env=environment,
                          timeout=TIMEOUT_S).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    # The test of this script uses this option.
    parser.add_argument("--settings", type=pathlib.Path, default=SETTINGS, help=argparse.SUPPRESS)
    parser.add_argument("--command", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.settings == SETTINGS and os.geteuid() != 0:
        return "make test-system changes settings of the system: it must be run by root"
    if options.command is None:
        for command in (["cmake", "--preset", "release", "--log-level=WARNING"],
                        ["cmake", "--build", "--preset", "release", "--target", *PROGRAMS,
                         *LIBRARIES]):
            if subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode:
                return f"this failed: {' '.join(command)}"
    failures = 0
    for name, change, programs in TESTS:
        for library in LIBRARIES:
            with Guardian(options.settings) as guardian:
                if "enabled" not in guardian.settings and name.startswith("hugepages"):
                    print(f"SKIP  {name}: this system has no transparent hugepages", flush=True)
                    continue
                change(options.settings)
                if options.command is None:
                    status = max(run(program, library) != 0 for program in programs)
                else:
                    status = subprocess.run(["sh", "-c", options.command]).returncode
            print(f"{'ok   ' if status == 0 else 'FAIL '} {name}, {library}", flush=True)
            failures += status != 0
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
