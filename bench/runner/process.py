# SPDX-License-Identifier: BSD-3-Clause
"""Starts one measured process with an allocator in place, watches it, and reads its report.

A program that takes part writes one line of JSON to the file descriptor that BENCH_REPORT_FD names:

    {"program": "larson", "args": ["1", ...],
     "metrics": [{"name": "time_s", "value": 1.25, "unit": "s", "better": "lower"}, ...],
     "wall_s": 1.25, "user_s": 2.4, "sys_s": 0.1, "minor_faults": 900, "major_faults": 0,
     "peak_rss_kib": 20000, "malloc_library": "/usr/lib/libsomething.so"}

The first metric is the program's own figure; wall_s is the time of the part that it measured. Other
programs run under bench_launch, which reports the same without "metrics" and "malloc_library".
"""

import dataclasses
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

REPORT_VARIABLE = "BENCH_REPORT_FD"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# These folders come before PATH, where a user's own wrapper scripts may take the place of the real programs.
PROGRAM_FOLDERS = ("/usr/bin", "/usr/local/bin")
RESOURCES = ("wall_s", "user_s", "sys_s", "minor_faults", "major_faults", "peak_rss_kib")


class BenchError(Exception):
    """The run cannot continue, since its report would be wrong."""


class WrongLibrary(BenchError):
    """Another library than the intended one served malloc."""


class ProcessFailed(Exception):
    """A measured process crashed, ended with an error, or took too long."""


@dataclasses.dataclass
class Finished:
    """A process that ended successfully."""

    output: str
    errors: str
    report: dict | None
    elapsed_s: float


def find_program(name):
    """The path of an installed program, or None."""
    for folder in PROGRAM_FOLDERS:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    return shutil.which(name)


def environment_for(allocator, extra=None):
    """This process's environment, with the allocator instead of any other preloaded one."""
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    environment.update(allocator.environment)
    if allocator.preload:
        environment["LD_PRELOAD"] = allocator.preload
    environment.update(extra or {})
    return environment


def warm_memory(bin_folder, kib):
    """Warms `kib` KiB of free memory: a process then gets it without delay (warm_memory.c)."""
    program = bin_folder / "bench_warm_memory"
    if kib > 0 and program.is_file():
        subprocess.run([str(program), str(kib)], check=True, env={})


def run(command, environment, timeout_s, cwd=None, stdin=None):
    """Runs a process to its end; raises ProcessFailed if it did not end successfully.

    Its output goes to files, not pipes, so that no reader of a pipe changes its timing.
    """
    with (tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors,
          tempfile.TemporaryFile() as report):
        environment = {**environment, REPORT_VARIABLE: str(report.fileno())}
        started = time.monotonic()
        try:
            process = subprocess.Popen(
                command, env=environment, cwd=cwd, stdin=stdin or subprocess.DEVNULL, stdout=output,
                stderr=errors, pass_fds=[report.fileno()], start_new_session=True)
        except OSError as error:
            raise BenchError(f"{command[0]} cannot be started: {error.strerror}") from None
        try:
            status = process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise ProcessFailed(f"timed out after {timeout_s:g} s") from None
        finally:
            _end_group(process)
        elapsed_s = time.monotonic() - started
        error_text = _text(errors)
        if status != 0:
            raise ProcessFailed(describe_status(status, error_text))
        return Finished(_text(output), error_text, _read_report(command, _text(report)), elapsed_s)


def describe_status(status, errors=""):
    """A text that describes a process's exit status."""
    # bench_launch, like a shell, adds 128 for a process that a signal ended.
    number = -status if status < 0 else status - 128 if status > 128 else 0
    if number:
        try:
            return f"crashed ({signal.Signals(number).name})"
        except ValueError:
            pass
    last = errors.strip().splitlines()[-1:]
    return f"exit status {status}" + (f": {last[0][:200]}" if last else "")


def check_library(allocator, served_by):
    """Raises WrongLibrary unless `served_by`, a path, is the allocator's file."""
    if os.path.realpath(served_by) != os.path.realpath(allocator.library):
        raise WrongLibrary(f"{allocator.name}: {allocator.library} was to be measured, but malloc "
                           f"is served by {served_by or 'an unknown library'}")


def prove_by_linker(allocator, run_once):
    """Proves that the allocator serves a program that cannot report it.

    Calls run_once(environment) with variables that make the dynamic linker write down to which library
    it bound each reference to malloc. All of them must be bound to the allocator. The allocator's own
    references and those of programs with a malloc of their own are ignored.
    """
    with tempfile.TemporaryDirectory(prefix="bench-bindings-") as folder:
        run_once({"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": os.path.join(folder, "log"),
                  "LD_BIND_NOW": "1"})
        providers = set()
        for log in pathlib.Path(folder).iterdir():
            providers |= malloc_providers(log.read_text(errors="replace"), allocator.library)
    for provider in providers or {""}:
        check_library(allocator, provider)


def malloc_providers(log, library):
    """The files that references to malloc were bound to, from the dynamic linker's log."""
    binding = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `malloc'")
    bound = [(user, to) for user, to in binding.findall(log)
             # The allocator's own calls do not matter, and those of the dynamic linker come too early.
             if os.path.realpath(user) != os.path.realpath(library)
             and not os.path.basename(user).startswith("ld-")]
    # If a program at a fixed address takes malloc's address, references of the libraries are bound to a
    # jump in the program, which in turn is bound to the malloc that serves.
    onward = {user: to for user, to in bound if user != to}
    return {onward.get(to, to) for _, to in bound}


def _end_group(process):
    """Ends the process and the processes that it started, as far as they still run."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _text(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def _read_report(command, text):
    """The report checked against the protocol, or None where the program wrote none."""
    if not text:
        return None

    def reject(why):
        raise BenchError(f"{command[0]}: its report {why}: {text[:500]}")

    if text.count("\n") != 1 or not text.endswith("\n"):
        reject("is not one line")
    try:
        report = json.loads(text)
    except json.JSONDecodeError as error:
        reject(f"is not JSON ({error})")
    for name in RESOURCES:
        if not _is_number(report.get(name)):
            reject(f"has no number {name}")
    for metric in report.get("metrics", []):
        if not _is_number(metric.get("value")) or metric.get("better") not in ("lower", "higher"):
            reject("has a metric without a value or a direction")
    return report


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
