#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plants deliberate faults in a copy of the tree, one at a time, and prints which test detects each.

A fault is a file tests/faults/NAME.patch, as tests/faults/README.md describes. For each one the script builds and runs
the tests that its head names: first those of `make check`, then, if none failed, those of `make test` and `make test-all` in their further
presets. A test that fails without a fault is reported, and does not count.

Exit status 1: a patch does not apply or does not compile, no test detected a fault, or a test fails without one. The copy
is build/faults; the script keeps it, so that the next run compiles little.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

import tiers

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATCHES = ROOT / "tests" / "faults"
COPY = ROOT / "build" / "faults"
# This test applies the patches itself, which fails in the copy while one is applied.
NOT_A_WITNESS = "layout.fault_patches"
TIERS = tiers.TIERS
# The timeout of tests that set none.
TEST_TIMEOUT_S = 300
LAST_LINES = 15  # how many lines of the output of a failed build are printed


class BadPatch(Exception):
    """The error in a patch."""


@dataclasses.dataclass
class Hunk:
    file: str
    old: str
    new: str


@dataclasses.dataclass
class Fault:
    name: str
    breaks: str
    kinds: tuple
    only: str = ""      # a regular expression for names of tests; empty: all of the kinds
    presets: tuple = ()  # the further presets to try; empty: all
    hunks: tuple = ()


# --- Patches: pure functions -------------------------------------------------------------------


def parse_head(lines, name):
    """The fault that the lines before a patch's first file describe, without hunks."""
    first = re.fullmatch(r"(\S.*\S) \[([a-z ]+)\]", lines[0]) if lines else None
    if not first:
        raise BadPatch("the first line must be: what it breaks [kinds of tests]")
    fault = Fault(name, first[1], tuple(first[2].split()))
    for kind in fault.kinds:
        if kind not in tiers.KINDS:
            raise BadPatch(f"there is no kind of test {kind}")
    for line in lines[1:]:
        key, _, value = line.partition(": ")
        if key == "only" and value:
            try:
                re.compile(value)
            except re.error as error:
                raise BadPatch(f"only: {value}: {error}") from error
            fault.only = value
        elif key == "presets" and value:
            fault.presets = tuple(value.split())
            for preset in fault.presets:
                if preset not in tiers.presets_of("all"):
                    raise BadPatch(f"make test-all has no preset {preset}")
        else:
            raise BadPatch(f"expected only: or presets:, found: {line}")
    if not plan(fault):
        raise BadPatch("make test-all runs nothing of these kinds in these presets")
    return fault


def parse_hunks(lines):
    """The hunks of a unified diff against the libraries or cli/. Line numbers do not count: the file must contain the old text exactly once."""
    hunks = []
    file = None
    old, new = [], []

    def end():
        if old or new:
            if old == new:
                raise BadPatch(f"a hunk of {file} changes nothing")
            hunks.append(Hunk(file, "".join(old), "".join(new)))
            old.clear()
            new.clear()

    for line in lines:
        if line.startswith("--- "):
            end()
            file = None
        elif line.startswith("+++ "):
            match = re.fullmatch(r"\+\+\+ b/((?:src|instruments|formats|cli)/\S+)\n?", line)
            if not match:
                raise BadPatch(f"not a file of the libraries or of cli/: {line.strip()}")
            file = match[1]
        elif line.startswith("@@ "):
            end()
        elif file is None or line[:1] not in (" ", "-", "+"):
            raise BadPatch(f"not a line of a unified diff: {line.rstrip()}")
        else:
            if line[0] != "+":
                old.append(line[1:])
            if line[0] != "-":
                new.append(line[1:])
    end()
    if not hunks:
        raise BadPatch("there is no diff")
    return tuple(hunks)


def parse_patch(text, name):
    lines = text.splitlines(keepends=True)
    begin = next((i for i, line in enumerate(lines) if line.startswith("--- ")), len(lines))
    fault = parse_head([line.rstrip("\n") for line in lines[:begin]], name)
    fault.hunks = parse_hunks(lines[begin:])
    return fault


def applied(hunks, read):
    """File -> its text with the hunks applied. read(file) returns the text without them, None if there is no file."""
    texts = {}
    for hunk in hunks:
        text = texts[hunk.file] if hunk.file in texts else read(hunk.file)
        if text is None:
            raise BadPatch(f"there is no {hunk.file}")
        # Counts matches at the beginnings of lines only.
        count = ("\n" + text).count("\n" + hunk.old)
        if count != 1:
            raise BadPatch(f"{hunk.file} contains the old text {'nowhere' if count == 0 else f'{count} times'}")
        texts[hunk.file] = ("\n" + text).replace("\n" + hunk.old, "\n" + hunk.new)[1:]
    return texts


def plan(fault, everything=False):
    """[(tier, preset, kinds)]: the tests that may detect the fault, in this order."""
    steps = []
    for tier in TIERS:
        for preset in tiers.presets_of(tier):
            kinds = [kind for kind in tiers.kinds_of(preset, tier) if everything or kind in fault.kinds]
            if kinds and (everything or tier == "check" or not fault.presets or preset in fault.presets):
                steps.append((tier, preset, kinds))
    return steps


def selected(tests, kinds, only, runs):
    """Returns those tests (name -> labels) that have one of the kinds, match `only`, and run
    according to runs(name, labels)."""
    return [name for name, labels in tests.items()
            if set(labels) & set(kinds) and runs(name, labels)
            and name != NOT_A_WITNESS and re.search(only, name)]


def folder_of(fault):
    """The folder of the first file that a fault changes: src/page_heap, instruments/leaks, cli/heap."""
    return "/".join(pathlib.PurePath(fault.hunks[0].file).parts[:-1][:2])


def sample(faults, count, seed):
    """`count` faults, drawn by a seed: first one from each folder, then any of the others."""
    drawn = random.Random(seed).sample(faults, len(faults))
    first = {folder_of(fault): fault for fault in reversed(drawn)}.values()
    return [*first, *(fault for fault in drawn if fault not in first)][:count]


def table(rows):
    """Lines of a table. `rows` are lists of texts; the first is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
             for row in rows]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def summary(tiers_that_saw):
    """The last line: how many faults each tier detected. None: no tier did."""
    counts = [f"{tiers_that_saw.count(tier)} seen by {tiers.COMMANDS[tier]}" for tier in TIERS]
    return f"{len(tiers_that_saw)} faults: {', '.join(counts)}, {tiers_that_saw.count(None)} by nothing"


# --- The copy ----------------------------------------------------------------------------------


def read_faults(only_names):
    """(faults, complaints): of all patches, or of the named ones."""
    faults, complaints = [], []
    paths = sorted(PATCHES.glob("*.patch"))
    for name in sorted(set(only_names) - {path.stem for path in paths}):
        complaints.append(f"{name}: there is no fault of this name")
    for path in paths:
        if only_names and path.stem not in only_names:
            continue
        try:
            fault = parse_patch(path.read_text(), path.stem)
            applied(fault.hunks, lambda file: read_text(ROOT / file))
            faults.append(fault)
        except BadPatch as error:
            complaints.append(f"{path.stem}: {error}")
    return faults, complaints


def read_text(path):
    return path.read_text() if path.is_file() else None


def update_copy():
    """Makes the copy equal to the tree, with uncommitted changes. Leaves equal files as they are,
    so that they are not compiled again, and also the files that were built."""
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                             stdout=subprocess.PIPE)
    names = {name for name in os.fsdecode(listing.stdout).split("\0") if name and (ROOT / name).is_file()}
    COPY.mkdir(parents=True, exist_ok=True)
    for folder, folders, files in os.walk(COPY):
        inside = pathlib.Path(folder).relative_to(COPY)
        if inside == pathlib.Path("."):
            folders[:] = [name for name in folders if name != "build"]
        for file in files:
            if str(inside / file) not in names:
                (COPY / inside / file).unlink()
    for name in names:
        source, target = ROOT / name, COPY / name
        if target.is_file() and source.read_bytes() == target.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


class Preset:
    """A preset's build folder in the copy."""

    def __init__(self, name, jobs):
        self.name = name
        self.jobs = jobs
        self.folder = COPY / "build" / name
        self.ready = set()      # kinds that are built without a fault
        self.stale = set()      # kinds whose programs may still contain an earlier fault
        self.sound = {}         # test -> whether it passes without a fault, for tests that were tried

    def run(self, command):
        """Runs a command and returns (whether it succeeded, its output)."""
        # The output is not a pipe: a process that a test did not end may keep a pipe open.
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            done = subprocess.run([str(word) for word in command], cwd=COPY, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT)
            output.seek(0)
            return done.returncode == 0, output.read()

    def build(self, targets):
        return self.run(["cmake", "--build", self.folder, "-j", self.jobs, "--target", *sorted(targets)])

    def prepare(self, kinds):
        """Builds what tests of these kinds need. Returns the output if this failed, else None."""
        if set(kinds) <= self.ready:
            return None
        succeeded, output = self.run(["cmake", "--preset", self.name, "--log-level=WARNING"])
        if succeeded:
            succeeded, output = self.build({f"tests_{kind}" for kind in kinds})
        if not succeeded:
            return output
        self.ready |= set(kinds)
        return None

    def tests(self):
        """Name -> (labels, words of its command and environment)."""
        listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=self.folder, check=True, stdout=subprocess.PIPE)
        found = {}
        for test in json.loads(listing.stdout)["tests"]:
            properties = {item["name"]: item["value"] for item in test.get("properties", [])}
            words = " ".join([*test.get("command", []), *properties.get("ENVIRONMENT", [])])
            found[test["name"]] = (properties.get("LABELS", []), re.split(r"[\s=:;]", words))
        return found

    def targets(self, tests, names, kinds):
        """The targets that these tests need: the programs and libraries that they name. All targets of their kinds if a
        test names none."""
        listing = subprocess.run(["ninja", "-t", "targets", "all"], cwd=self.folder, check=True, stdout=subprocess.PIPE,
                                 text=True).stdout
        known = {line.rsplit(":", 1)[0] for line in listing.splitlines()}
        needed = set()
        for name in names:
            paths = {os.path.relpath(word, self.folder) for word in tests[name][1] if word.startswith(str(self.folder))}
            own = {path for path in paths if path in known}
            if not own:
                return {f"tests_{kind}" for kind in kinds}
            needed |= own
        return needed

    def failures(self, names, at_first):
        """The tests among `names` that fail; at_first: only the first of them."""
        if not names:
            return []
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.xml"
            escaped = "|".join(re.sub(r"([^\w/-])", r"\\\1", name) for name in names)
            self.run(["ctest", "--test-dir", self.folder, "-R", f"^({escaped})$", "-j", 2 * self.jobs, "--timeout",
                      TEST_TIMEOUT_S, "--output-junit", results, *(["--stop-on-failure"] if at_first else [])])
            if not results.exists():
                return list(names)
            return [case.get("name") for case in ElementTree.parse(results).getroot().findall("testcase")
                    if case.get("status") == "fail"]


# ctest's regular expressions and command lines have a maximum length.
NAMES_AT_ONCE = 200


def first_failure(preset, names):
    for i in range(0, len(names), NAMES_AT_ONCE):
        failed = preset.failures(names[i:i + NAMES_AT_ONCE], True)
        if failed:
            return failed[0]
    return None


class Hunt:
    """A run over faults."""

    def __init__(self, jobs, everything):
        self.jobs = jobs
        self.everything = everything
        self.presets = {}
        self.complaints = []

    def candidates(self, fault, tier, preset, kinds):
        """The tests that may detect it and pass without a fault; None if they cannot be built."""
        problem = preset.prepare(kinds)
        if problem is not None:
            self.complaints.append(f"{preset.name} does not build without a fault: {last_lines(problem)}")
            return None
        labels = {name: test[0] for name, test in preset.tests().items()}
        only = "" if self.everything else fault.only
        names = selected(labels, kinds, only, lambda name, of_test: tiers.runs(tier, preset.name, name, of_test))
        unknown = [name for name in names if name not in preset.sound]
        stale = preset.stale & set(kinds)
        if unknown and stale:
            succeeded, problem = preset.build({f"tests_{kind}" for kind in stale})
            if not succeeded:
                self.complaints.append(f"{preset.name} does not build any more: {last_lines(problem)}")
                return None
            preset.stale -= stale
        for i in range(0, len(unknown), NAMES_AT_ONCE):
            failed = preset.failures(unknown[i:i + NAMES_AT_ONCE], False)
            preset.sound.update({name: name not in failed for name in unknown[i:i + NAMES_AT_ONCE]})
            self.complaints += [f"{preset.name}: {name} fails without any fault" for name in failed]
        return [name for name in names if preset.sound[name]]

    def look(self, fault):
        """(tier, preset, test) that detected the fault; None if no test did; a text if it could not be tried."""
        asked = set()
        for tier, name, kinds in plan(fault, self.everything):
            preset = self.presets.setdefault(name, Preset(name, self.jobs))
            candidates = self.candidates(fault, tier, preset, kinds)
            if candidates is None:
                return "no baseline"
            names = [test for test in candidates if (name, test) not in asked]
            asked |= {(name, test) for test in names}
            if not names:
                continue
            tests = preset.tests()
            targets = {f"tests_{kind}" for kind in kinds} if self.everything else preset.targets(tests, names, kinds)
            texts = applied(fault.hunks, lambda file: read_text(COPY / file))
            before = {file: (COPY / file).read_text() for file in texts}
            try:
                for file, text in texts.items():
                    (COPY / file).write_text(text)
                preset.stale = set(preset.ready)
                succeeded, output = preset.build(targets)
                if not succeeded:
                    self.complaints.append(f"{fault.name} does not build in {name}: {last_lines(output)}")
                    return "does not build"
                seen = first_failure(preset, names)
            finally:
                for file, text in before.items():
                    (COPY / file).write_text(text)
            if seen:
                return tier, name, seen
        return None if asked else "no test is selected"


def last_lines(output):
    return "\n    ".join(["", *output.splitlines()[-LAST_LINES:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this fault (repeatable)")
    parser.add_argument("--sample", type=int, metavar="N", help="only N faults, from all folders of the libraries and cli/")
    parser.add_argument("--seed", type=int, default=1, help="which N (default: 1)")
    parser.add_argument("--list", action="store_true", help="print the faults and exit")
    parser.add_argument("--apply-only", action="store_true", help="only check that every patch applies")
    parser.add_argument("--all", action="store_true", help="run every test of all tiers, not only those that the patches name")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="default: one per CPU")
    options = parser.parse_args()

    faults, complaints = read_faults(options.only)
    if options.sample:
        faults = sample(faults, options.sample, options.seed)
        print(f"{len(faults)} faults in {len(set(map(folder_of, faults)))} folders, seed {options.seed}")
    if options.list:
        print("\n".join(table([("fault", "kinds", "breaks"), *(
            (fault.name, " ".join(fault.kinds), fault.breaks) for fault in faults)])))
    if complaints or options.list or options.apply_only:
        print("\n".join(complaints or [f"{len(faults)} faults apply"]))
        return 1 if complaints or not faults else 0

    update_copy()
    hunt = Hunt(options.jobs, options.all)
    rows = [("fault", "seen by", "preset", "test", "seconds")]
    outcomes = []
    for number, fault in enumerate(faults, 1):
        started = time.monotonic()
        found = hunt.look(fault)
        seen = found if isinstance(found, tuple) else (found or "nothing", "", "")
        outcomes.append(found[0] if isinstance(found, tuple) else None)
        seconds = f"{time.monotonic() - started:.0f}"
        rows.append((fault.name, *seen, seconds))
        print(f"{number}/{len(faults)} {fault.name}: {' '.join(filter(None, seen))} ({seconds} s)", flush=True)
    print()
    print("\n".join(table(rows)))
    print("\n".join(["", *hunt.complaints, summary(outcomes)]))
    return 1 if hunt.complaints or None in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
