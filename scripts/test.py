#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds the presets of a tier, runs its tests and counts the results.

scripts/tiers.py defines the tiers. A run ends with the ten slowest tests and the line
"N passed, N failed, N skipped, N flaky", over all presets. A test that fails runs again, alone; if it
then passes five times, it is flaky instead of failed (scripts/flaky.py). Its outputs are in
build/failures/PRESET. Besides failing tests these count as failed: more than two flaky tests; a
preset that does not build, or has no test of a kind that it should have; a test that ctest could not
start; a test without a label, which no tier would run; a test that skips without a reason ("SKIP:
reason", or GoogleTest's GTEST_SKIP() << reason); files that clang-format would change (one check for
all of them).
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

import flaky
import tiers
import unchanged

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAILURES = ROOT / "build" / "failures"  # the outputs of the tests that failed, by preset

# Tests of this kind run only on request: they change settings of the system while they run.
SYSTEM_KIND = "system"
# Tests of this kind need an emulated machine.
GUEST_KIND = "guest"
LABELS = (*tiers.KINDS, SYSTEM_KIND, GUEST_KIND)
# The commands of these tests name all files that must be built for them, so that a tier builds only what it runs.
NAMING_KINDS = ("entry", "process", "command", "programs")
SLOWEST_SHOWN = 10
TEST_TIMEOUT_S = 600  # the timeout of tests that set none
FORMATTED_FOLDERS = ("src", "instruments", "formats", "include", "cli", "tests", "bench")
FORMATTED_SUFFIXES = {".cc", ".h", ".c"}
LINES_OF_ALL_FAILURES = 24  # how many lines of the failed tests' outputs are repeated above the counts
CLANG_FORMAT = "clang-format-19"
JOB_COMMANDS = {
    "lint": ["scripts/lint.py"],
    "tidy": ["make", "--no-print-directory", "tidy"],
    "soak": ["scripts/soak.py"],
    "fuzzing": ["scripts/fuzz.py", "--minutes", "10"],
    "clean root": ["scripts/clean_root.sh"],
}


class Tally:
    """The counts of a run, and a line about each failure and skip."""

    def __init__(self):
        self.passed = 0
        self.failures = []
        self.outputs = []  # the outputs of the tests that failed, in the order of failures; None if unknown
        self.skips = []
        self.flaky = []  # the tests that failed once and then passed
        self.seconds = []  # (seconds, name) of each test
        self.unchanged = 0  # tests that passed before with the same files, and did not run again

    def fail(self, what, output=None):
        self.failures.append(what)
        self.outputs.append(output)
        print(f"FAIL  {what}", flush=True)

    def skip(self, what):
        self.skips.append(what)
        print(f"SKIP  {what}", flush=True)


def last_words(output, lines):
    """The last lines of a failed test's output that are not empty, cut to a readable width."""
    kept = [line.rstrip()[:200] for line in (output or "").splitlines() if line.strip()]
    return kept[-max(lines, 1):]


def say(text):
    print(f"== {text}", flush=True)


def skip_reason(output):
    """The reason a skipped test gave in its output, or None."""
    lines = output.splitlines()
    for number, line in enumerate(lines):
        own = re.match(r"\s*SKIP(?:PED)?\s*[:(-]\s*(\S.*)", line)
        if own:
            return own.group(1)
        if re.search(r":\d+: Skipped$", line) and number + 1 < len(lines):  # GoogleTest
            reason = lines[number + 1].strip()
            if reason and not reason.startswith("["):
                return reason
    return None


def count_results(preset, junit_file, log_file, tally, run_again):
    """Adds the results of a run of ctest to the tally and returns name -> whether it passed.

    run_again(name) runs a test alone: (ctest's word for its end, or None if it passed; output).
    """
    cases = ElementTree.parse(junit_file).getroot().findall("testcase")
    ends = list(flaky.ends_of_tests(junit_file, log_file))
    failed = [test for case, test in zip(cases, ends) if case.get("status") == "fail"]
    for case in cases:
        name = f"{preset}: {case.get('name')}"
        tally.seconds.append((float(case.get("time") or 0), name))
        status = case.get("status")
        if status == "run":
            tally.passed += 1
            continue
        if status == "fail":
            continue
        skipped = case.find("skipped")
        message = skipped.get("message", "") if skipped is not None else ""
        if not message.startswith("SKIP_"):  # disabled, or its program does not exist
            tally.fail(f"{name}: did not run: {message or status}")
            continue
        reason = skip_reason(case.findtext("system-out") or "")
        if reason is None:
            tally.fail(f"{name}: skipped without a reason")
        else:
            tally.skip(f"{name}: {reason}")
    # More failures than that are not chance, and running them again would take long.
    many = len(failed) + len(tally.flaky) > flaky.LARGEST_NUMBER
    for name, end, output in failed:
        if many:
            flaky.keep(FAILURES / preset, name, 1, output)
            tally.fail(f"{preset}: {name}: {end}; not run again, as more than {flaky.LARGEST_NUMBER} tests failed", output)
            continue
        reason = flaky.judge(name, end, output, lambda name=name: run_again(name), FAILURES / preset)
        if reason:
            tally.fail(f"{preset}: {name}: {reason}", output)
        else:
            tally.flaky.append(f"{preset}: {name}: 1 of {flaky.REPEATS + 1}")
            print(f"FLAKY {tally.flaky[-1]}", flush=True)
    return {case.get("name"): case.get("status") == "run" for case in cases}


def all_tests(build_dir):
    """ctest's description of every test in a build folder, in its order."""
    listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build_dir, check=True,
                             stdout=subprocess.PIPE)
    return json.loads(listing.stdout)["tests"]


class Memory:
    """The tests that passed in a build folder, and their files."""

    # These tests read the sources themselves.
    ALWAYS = {"layout"}

    def __init__(self, build_dir, tests):
        self.build_dir = build_dir
        self.passed = unchanged.load(build_dir)
        self.now = unchanged.fingerprints(ROOT, build_dir, [
            test for test in tests if not self.ALWAYS & set(unchanged.labels_of(test))])

    def is_unchanged(self, name):
        return name in self.now and self.passed.get(name) == self.now[name]

    def store(self, names, passed_names):
        """Remembers the results of the tests that ran."""
        for name in names:
            self.passed.pop(name, None)
        self.passed.update({name: self.now[name] for name in passed_names if name in self.now})
        unchanged.store(self.build_dir, self.passed)


def named_outputs(build_dir, names):
    """The files that a build makes and that the commands and environments of tests name, as ninja names them."""
    listing = subprocess.run(["ninja", "-t", "targets", "all"], cwd=build_dir, check=True, stdout=subprocess.PIPE, text=True)
    made = {line.rpartition(":")[0] for line in listing.stdout.splitlines()}
    # ctest lists no command whose program is not built yet, so this reads what CMake has written for it.
    lines = [line for path in build_dir.rglob("CTestTestfile.cmake") for line in path.read_text().splitlines()]
    tests = [re.match(r"(?:add_test|set_tests_properties)\((?:\[=\[(.*?)\]=\]|(\S+))(.*)", line) for line in lines]
    words = {os.path.relpath(path, build_dir) for test in tests if test and (test[1] or test[2]) in names
             for path in re.findall(rf"{re.escape(str(build_dir))}[^\s\";:]*", test[3])}
    return sorted(made & words)


def build(preset, kinds, jobs, runs):
    """Builds what tests of some kinds need. runs(test): whether it is to run. Returns the step that failed, or None."""
    if subprocess.run(["cmake", "--preset", preset, "--log-level=WARNING"], cwd=ROOT,
                      stdout=subprocess.DEVNULL).returncode:
        return "configuring"
    build_dir = ROOT / "build" / preset
    tests = all_tests(build_dir)
    targets = []
    for kind in kinds:
        of_kind = [test for test in tests if kind in unchanged.labels_of(test)]
        chosen = {test["name"] for test in of_kind if runs(test)}
        if kind == SYSTEM_KIND or kind in NAMING_KINDS and len(chosen) < len(of_kind):
            targets += named_outputs(build_dir, chosen)
        else:
            targets.append(f"tests_{kind}")
    command = ["cmake", "--build", "--preset", preset, "-j", str(jobs), "--target", *targets]
    if not sys.stdout.isatty():
        command += ["--", "--quiet"]  # ninja's progress is one line only on a terminal
    return "building" if subprocess.run(command, cwd=ROOT).returncode else None


def run_ctest(build_dir, numbers, jobs, junit_file, log_file, *options):
    """Runs the tests of these numbers, writes their results and returns ctest's exit status."""
    junit_file.unlink(missing_ok=True)
    with tempfile.NamedTemporaryFile("w") as list_file:
        # ctest drops the last character of the file.
        list_file.write(f"{numbers[0]},{numbers[0]},1,{','.join(map(str, numbers))}\n")
        list_file.flush()
        # The whole outputs are needed: the reason for a skip may be anywhere in them.
        return subprocess.run(
            ["ctest", "-I", list_file.name, "-j", str(jobs), "--no-tests=error", "--timeout", str(TEST_TIMEOUT_S),
             "--test-output-size-passed", "1000000", "--test-output-size-failed", "10000000",
             "--output-junit", junit_file, "--output-log", log_file, *options], cwd=build_dir).returncode


def run_tests(preset, build_dir, chosen, jobs, tally):
    """Runs the tests, given as number -> name. Returns ctest's exit status, and name -> whether the test passed."""
    files = [build_dir / "results.xml", build_dir / "results.log"]
    # Runs twice as many tests as there are CPUs, since many tests mostly wait.
    status = run_ctest(build_dir, list(chosen), 2 * jobs, *files, "--output-on-failure", "--progress")

    def run_again(name):
        again = [build_dir / "again.xml", build_dir / "again.log"]
        run_ctest(build_dir, [number for number, of_test in chosen.items() if of_test == name][:1], 1, *again, "--quiet")
        return next(flaky.ends_of_tests(*again))[1:] if again[0].exists() else ("did not run", "")

    return status, count_results(preset, *files, tally, run_again) if files[0].exists() else {}


def run_preset(preset, tier, jobs, only, again, tally):
    started = time.monotonic()
    # A preset that was named runs all its kinds if the tier has none of them.
    kinds = [kind for kind in
             only or tiers.kinds_of(preset, tier) or tiers.kinds_of(preset, tiers.TIERS[-1])
             if kind == SYSTEM_KIND or tiers.CELLS[kind][preset] in tiers.TIERS]
    say(f"{preset}: build")

    def runs(test):
        of_test = unchanged.labels_of(test)
        return set(of_test) & set(kinds) and tiers.runs(tier, preset, test["name"], of_test)

    failed_step = build(preset, kinds, jobs, runs)
    if failed_step:
        tally.fail(f"{preset}: {failed_step}")
        return
    build_dir = ROOT / "build" / preset
    tests = all_tests(build_dir)
    # A list, since names may repeat, and ctest numbers each repetition.
    names, labels = [test["name"] for test in tests], [unchanged.labels_of(test) for test in tests]
    for name, of_test in zip(names, labels):
        # For a program that is not built, ctest has one test, which fails.
        if not set(of_test) & set(LABELS) and not name.endswith("_NOT_BUILT"):
            tally.fail(f"{preset}: {name}: has none of the labels {' '.join(LABELS)}")
    for kind in kinds:
        if not any(kind in of_test for of_test in labels):
            tally.fail(f"{preset}: has no test labelled {kind}")
    # The numbers follow the order of ctest, which counts from 1.
    chosen = [number for number, test in enumerate(tests, 1) if runs(test)]
    memory = Memory(build_dir, tests) if tier == "check" else None
    if memory and not again:
        repeated = [number for number in chosen if not memory.is_unchanged(names[number - 1])]
        tally.unchanged += len(chosen) - len(repeated)
        say(f"{preset}: {len(chosen) - len(repeated)} tests passed before with the same files"
            " (ARGS=--again runs them as well)")
        chosen = repeated
        if not chosen:
            return
    if not chosen:
        tally.fail(f"{preset}: no test is to be run")
        return

    say(f"{preset}: test ({' '.join(kinds)}), built in {time.monotonic() - started:.0f} s")
    started = time.monotonic()
    before = len(tally.failures), len(tally.flaky)
    status, results = run_tests(preset, build_dir, {number: names[number - 1] for number in chosen}, jobs, tally)
    if memory:
        memory.store(results, [name for name, passed in results.items() if passed])
    if not results:
        tally.fail(f"{preset}: no test ran")
    elif len(results) != len(chosen):
        tally.fail(f"{preset}: of {len(chosen)} tests {len(results)} ran")
    elif status != 0 and (len(tally.failures), len(tally.flaky)) == before:
        tally.fail(f"{preset}: ctest ended with {status}")
    say(f"{preset}: {len(results)} tests in {time.monotonic() - started:.0f} s")


def formatted_files():
    return sorted(
        str(path.relative_to(ROOT))
        for folder in FORMATTED_FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in FORMATTED_SUFFIXES
    )


def check_format(tally):
    files = formatted_files()
    check = subprocess.run([CLANG_FORMAT, "--dry-run", *files], cwd=ROOT, stderr=subprocess.PIPE,
                           text=True) if files else None
    if check is None or (check.returncode and not check.stderr):
        tally.fail("format: nothing was checked")
        return
    wrong = sorted({line.split(":")[0] for line in check.stderr.splitlines()
                    if "[-Wclang-format-violations]" in line})
    if wrong:
        tally.fail(f"format: {len(wrong)} of {len(files)} files, which 'make format' repairs: "
                   + " ".join(wrong))
    elif check.returncode or check.stderr:
        print(check.stderr)
        tally.fail("format: clang-format failed")
    else:
        tally.passed += 1


def run_job(job, tally):
    """Runs a job of a tier that belongs to no preset."""
    say(job)
    if job == "format":
        check_format(tally)
    elif job == "clean root" and os.geteuid() != 0:
        tally.skip("clean root: needs root: it mounts filesystems and calls chroot")
    else:
        started = time.monotonic()
        if subprocess.run(JOB_COMMANDS[job], cwd=ROOT).returncode:
            tally.fail(f"{job}: {' '.join(JOB_COMMANDS[job])}")
        else:
            tally.passed += 1
        say(f"{job}: {time.monotonic() - started:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tier", choices=tiers.TIERS, default="test", help="default: test")
    parser.add_argument("--preset", action="append", choices=tiers.PRESETS,
                        help="only this preset (repeatable)")
    parser.add_argument("--kind", action="append", choices=(*tiers.KINDS, SYSTEM_KIND),
                        help="only tests of this kind, of any tier (repeatable)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="default: one per CPU")
    parser.add_argument("--again", action="store_true",
                        help="make check: run also tests that passed before with the same files")
    parser.add_argument("--list-formatted", action="store_true",
                        help="print the files that the format check covers, and exit")
    options = parser.parse_args()
    if options.list_formatted:
        print("\n".join(formatted_files()))
        return 0

    started = time.monotonic()
    tally = Tally()
    shutil.rmtree(FAILURES, ignore_errors=True)
    for error in flaky.list_errors((ROOT / "tests" / "flaky.txt").read_text(), datetime.date.today()):
        tally.fail(error)
    jobs = [] if options.preset or options.kind else tiers.jobs_of(options.tier)
    for job in jobs:
        if job == "format":  # in seconds
            run_job(job, tally)
    for preset in options.preset or tiers.presets_of(options.tier):
        if options.kind and not any(
                kind == SYSTEM_KIND or tiers.CELLS[kind][preset] in tiers.TIERS
                for kind in options.kind):
            continue
        run_preset(preset, options.tier, options.jobs, options.kind, options.again, tally)
    for job in jobs:
        if job != "format":
            run_job(job, tally)

    if len(tally.flaky) > flaky.LARGEST_NUMBER:
        tally.fail(f"{len(tally.flaky)} tests are flaky; at most {flaky.LARGEST_NUMBER} are forgiven")
    say(f"all of it took {time.monotonic() - started:.0f} s")
    say("the slowest tests")
    for seconds, name in sorted(tally.seconds, reverse=True)[:SLOWEST_SHOWN]:
        print(f"{seconds:8.1f} s  {name}")
    # Prints the failures once more, since a reader may see only the end of a long log.
    for failure, output in zip(tally.failures, tally.outputs):
        print(f"FAIL  {failure}")
        for line in last_words(output, LINES_OF_ALL_FAILURES // len(tally.failures)):
            print(f"      {line}")
    for test in tally.flaky:
        print(f"FLAKY {test}")
    print(f"{tally.passed} passed, {len(tally.failures)} failed, {len(tally.skips)} skipped"
          + (f", {len(tally.flaky)} flaky" if tally.flaky else "")
          + (f", {tally.unchanged} unchanged since they passed" if tally.unchanged else ""), flush=True)
    return 1 if tally.failures or not tally.passed + tally.unchanged else 0


if __name__ == "__main__":
    sys.exit(main())
