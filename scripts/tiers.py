#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Defines which kinds of tests run in which preset, and from which tier on. No other table has
this.

  scripts/tiers.py              prints the table (make help-tests)
  scripts/tiers.py --markdown   prints it as tests/README.md has it

A tier includes the tiers before it, except for the cells in LEFT_TO. A cell is a tier, or the reason why the kind does not
run there. In the cells of GATE, `make test`, the gate for changes, runs only some of the tests, so
that it takes minutes.
"""

import re
import sys

TIERS = ("check", "test", "all")
COMMANDS = {"check": "make check", "test": "make test", "all": "make test-all"}

# Preset -> what only this preset can show, in the order in which the presets run.
PRESETS = {
    "check": "optimised, with asserts, invariant checks and lock ranks",
    "release": "what is shipped",
    "asan": "AddressSanitizer and UndefinedBehaviorSanitizer",
    "tsan": "ThreadSanitizer",
    "clang": "a second compiler, thread-safety analysis",
    "i386": "32-bit words; undefined behaviour ends a test by a trap",
    "musl": "a C library without shared objects, no C++ library",
    "aarch64": "64-bit ARM, cross-compiled: its instructions, as QEMU emulates them",
    "debug": "no optimisation: for debuggers",
    "fuzz": "libFuzzer",
}

# Presets without a column, and their purpose.
NOT_FOR_TESTS = {"coverage": "make coverage"}

# The reasons why cells are empty.
REASONS = {
    "owned": "the sanitizer replaces malloc, so there is no library to preload or to link with",
    "once": "the result does not depend on how the library is built: the preset release is enough",
    "shipped": "tests what is shipped: files, sizes, figures",
    "no C++": "GoogleTest and C++ programs need a C++ library, which this preset lacks",
    "64 bits": "the programs of a 64-bit system cannot load a 32-bit library",
    "asserts": "tests the timing of a protocol, which asserts and missing optimisation change",
    "fuzzer": "the preset fuzz differs from asan only in the fuzz targets",
    "threads": "the fuzz targets have one thread, so they have no races",
    "bench": "only the preset release builds the benchmark programs",
    "guest": "needs a whole emulated machine, and QEMU emulates single programs here",
}

# Kind, which is the label of its tests -> what it is.
KINDS = {
    "unit": "a test file per source file, on fake virtual memory (GoogleTest)",
    "entry": "the contract of each entry point, through the library",
    "process": "the life of a process: threads, fork, dlopen, limits, misuse, reports",
    "command": "the tcmalloc command on processes, cores and snapshots",
    "compat": "gperftools' own programs on the libraries",
    "model": "how one thread takes another's cache: a model, and runs on the machine",
    "layout": "layers, headers, comments, symbols, instructions, start-up size",
    "packaging": "what users install: files and packages",
    "programs": "real programs on the library, compared with the C library's malloc",
    "bench": "the benchmark programs and their runner",
    "fuzz": "each fuzz target with a fixed seed, by libFuzzer or random inputs; in make test-all for ten minutes more",
}

# Kind -> preset -> tier or reason.
CELLS = {
    "unit": {
        "check": "check", "release": "all", "asan": "test", "tsan": "test", "clang": "all",
        "i386": "all", "musl": "no C++", "aarch64": "all", "debug": "all", "fuzz": "fuzzer",
    },
    "entry": {
        "check": "check", "release": "test", "asan": "owned", "tsan": "owned", "clang": "all",
        "i386": "all", "musl": "no C++", "aarch64": "guest", "debug": "all", "fuzz": "owned",
    },
    "process": {
        "check": "check", "release": "all", "asan": "owned", "tsan": "owned", "clang": "all",
        "i386": "all", "musl": "test", "aarch64": "guest", "debug": "all", "fuzz": "owned",
    },
    "command": {
        "check": "check", "release": "test", "asan": "owned", "tsan": "owned", "clang": "all",
        "i386": "all", "musl": "once", "aarch64": "guest", "debug": "all", "fuzz": "owned",
    },
    "compat": {
        "check": "check", "release": "all", "asan": "owned", "tsan": "owned", "clang": "all",
        "i386": "all", "musl": "no C++", "aarch64": "guest", "debug": "all", "fuzz": "owned",
    },
    "model": {
        "check": "asserts", "release": "all", "asan": "asserts", "tsan": "all", "clang": "all",
        "i386": "all", "musl": "no C++", "aarch64": "guest", "debug": "asserts", "fuzz": "asserts",
    },
    "layout": {
        "check": "check", "release": "test", "asan": "owned", "tsan": "owned", "clang": "all",
        "i386": "all", "musl": "shipped", "aarch64": "all", "debug": "all", "fuzz": "owned",
    },
    "packaging": {
        "check": "shipped", "release": "test", "asan": "shipped", "tsan": "shipped",
        "clang": "once", "i386": "once", "musl": "once", "aarch64": "once", "debug": "shipped", "fuzz": "shipped",
    },
    "programs": {
        "check": "shipped", "release": "test", "asan": "owned", "tsan": "owned",
        "clang": "once", "i386": "64 bits", "musl": "no C++", "aarch64": "guest", "debug": "shipped", "fuzz": "owned",
    },
    "bench": {
        "check": "bench", "release": "all", "asan": "bench", "tsan": "bench", "clang": "bench",
        "i386": "bench", "musl": "bench", "aarch64": "bench", "debug": "bench", "fuzz": "bench",
    },
    "fuzz": {
        "check": "check", "release": "all", "asan": "test", "tsan": "threads",
        "clang": "all", "i386": "all", "musl": "no C++", "aarch64": "guest", "debug": "all", "fuzz": "all",
    },
}

# (kind, preset) -> (the tests that `make test` runs there, a regular expression for their names; which these are).
GATE = {
    ("entry", "release"): (r"entry\.(aligned\.)?tcmalloc$", "the tests of the full library; those of the debug libraries run in `check`"),
    ("programs", "release"): (
        r"programs\.(perl|memcached|leaks_cxx)$",
        "one program for each kind of use: an interpreter, a server in C, a C++ program with leaks"),
    ("packaging", "release"): (r"packaging\.install$", "the test of the installed files"),
    ("unit", "tsan"): (
        r"unit\.(?!Classes/CentralFreeListModelTest|CentralFreeListTest|PageHeapAddressSpaceTest"
        r"|HardwarePages/MetadataArenaPageSizeTest)",
        "the tests other than the longest ones with a single thread"),
}

# Jobs that belong to no kind and no preset -> (tier, what it is).
ONCE = {
    "format": ("test", "clang-format would change no file"),
    "lint": ("all", "make lint has no advice on words, comments, lengths of files and places of numbers"),
    "tidy": ("all", "clang-tidy over src/ has no warning"),
    "soak": ("all", "for minutes, one thread takes the caches of others while they run"),
    "fuzzing": ("all", "ten minutes of each fuzz target"),
    "clean root": ("all", "the README's commands in a new Debian system (root)"),
}

# Cells of an earlier tier that a later tier leaves to another preset: (kind, preset, tier) -> (that preset, reason).
LEFT_TO = {
    ("unit", "check", "test"): ("asan", "has the same asserts and a sanitizer"),
    ("layout", "check", "test"): ("release", "has more of these tests"),
    ("command", "check", "test"): ("release", "has the command as it is shipped"),
    ("fuzz", "check", "test"): ("asan", "has the same asserts and a sanitizer"),
}

# Labels other than kinds -> the first tier that runs tests with this label.
LATER_LABELS = {"slow": "all", "thorough": "all"}


def included(tier, limit):
    return TIERS.index(tier) <= TIERS.index(limit)


def kinds_of(preset, tier):
    """The kinds that a tier runs in a preset."""
    return [kind for kind, cells in CELLS.items()
            if cells[preset] in TIERS and included(cells[preset], tier)
            and (kind, preset, tier) not in LEFT_TO]


def presets_of(tier):
    return [preset for preset in PRESETS if kinds_of(preset, tier)]


def runs(tier, preset, name, labels):
    """Whether a tier runs a test of the preset. Requires: the tier runs tests of this kind in the preset."""
    if any(label in labels and not included(first, tier) for label, first in LATER_LABELS.items()):
        return False
    gates = [GATE[kind, preset][0] for kind in labels if (kind, preset) in GATE] if tier == "test" else []
    return all(re.match(gate, name) for gate in gates)


def exceptions():
    """Lines about the exceptions, which the table does not show."""
    lines = [f"{COMMANDS[tier]} runs `{kind}` not in `{preset}`, but in `{other}`, which {why}"
             for (kind, preset, tier), (other, why) in LEFT_TO.items()]
    lines += [f"of `{kind}` in `{preset}` {COMMANDS['test']} runs only {which}" for (kind, preset), (_, which) in GATE.items()]
    return lines + [f"tests labelled `{label}` run from {COMMANDS[first]} on" for label, first in LATER_LABELS.items()]


def jobs_of(tier):
    """The jobs of a tier that belong to no preset."""
    return [job for job, (first, _) in ONCE.items() if included(first, tier)]


def markdown():
    """The table, with a note for each reason."""
    notes = {reason: str(number) for number, reason in enumerate(REASONS, 1)}
    lines = ["| | " + " | ".join(PRESETS) + " |", "|---|" + "---|" * len(PRESETS)]
    for kind, cells in CELLS.items():
        shown = [cells[preset] if cells[preset] in TIERS else f"({notes[cells[preset]]})"
                 for preset in PRESETS]
        lines.append(f"| `{kind}` | " + " | ".join(shown) + " |")
    lines += ["", "A cell names the first tier that runs the kind in the preset, or has the number of the reason why none does:", ""]
    lines += [f"{number}. {REASONS[reason]}" for reason, number in notes.items()]
    lines += ["", "Exceptions:", ""]
    lines += [f"* {line}" for line in exceptions()]
    lines += ["", "Kinds:", ""]
    lines += [f"* `{kind}`: {text}" for kind, text in KINDS.items()]
    lines += ["", "Presets:", ""]
    lines += [f"* `{preset}`: {text}" for preset, text in PRESETS.items()]
    lines += ["", "Once, in no preset:", ""]
    lines += [f"* {job} (`{COMMANDS[tier]}`): {text}" for job, (tier, text) in ONCE.items()]
    return "\n".join(lines)


def plain():
    """The table for a terminal."""
    width = max(map(len, CELLS)) + 2
    column = max(map(len, PRESETS)) + 2
    notes = {reason: f"({number})" for number, reason in enumerate(REASONS, 1)}
    lines = ["".ljust(width) + "".join(preset.ljust(column) for preset in PRESETS)]
    for kind, cells in CELLS.items():
        lines.append(kind.ljust(width) + "".join(
            notes.get(cells[preset], cells[preset]).ljust(column) for preset in PRESETS))
    lines += ["", "A cell names the first tier that runs the kind in the preset: "
              + ", ".join(f"{tier} ({command})" for tier, command in COMMANDS.items()) + ".", ""]
    lines += [f"{notes[reason]} {text}" for reason, text in REASONS.items()]
    lines += ["", *(line.replace("`", "") for line in exceptions()), ""]
    for group in (KINDS, PRESETS):
        lines += [f"{name.ljust(width)}{text}" for name, text in group.items()] + [""]
    lines += [f"{job.ljust(width)}{COMMANDS[tier]}: {text}" for job, (tier, text) in ONCE.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown() if sys.argv[1:] == ["--markdown"] else plain())
