#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a command under the allocator and on the C library's malloc, and compares time and memory.

Without RUN_COMMAND in the environment, the command is the C++ compiler on the largest of this
project's own sources; with it ('make run CMD=...'), 'sh -c' runs that text. RUN_LIBRARY names
another library to preload than the one in build/release.

The first two runs are not timed. One is on the C library's malloc and warms the machine's caches. The
other goes through 'tcmalloc run', which says where the memory of its largest process was, and the
dynamic linker logs into which programs it loaded the library. If that log does not show the library,
the script compares nothing. Then runs with and without the library alternate; the table shows the
median of each figure. Where the tcmalloc command is not built, each process prints the allocator's
statistics instead (MALLOCSTATS=1).
"""

import argparse
import collections
import filecmp
import json
import os
import pathlib
import re
import resource
import shlex
import signal
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD_DIR = ROOT / "build" / "release"
DEFAULT_LIBRARY = BUILD_DIR / "lib" / "libtcmalloc.so.4"
COMMAND = BUILD_DIR / "bin" / "tcmalloc"
COMPILER = re.compile(r"(\+\+|cc)(-[\d.]+)?$")
OWN_SOURCE_FOLDERS = (ROOT / "src", ROOT / "tests")

Result = collections.namedtuple("Result", "exit_code wall_s user_s system_s minor_faults peak_kib")


class Failure(Exception):
    """Ends the program with a message and an exit code."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code


def compile_command():
    """The build's command for the largest source, writing to /dev/null, and the folder it needs."""
    database = BUILD_DIR / "compile_commands.json"
    try:
        entries = json.loads(database.read_text())
    except FileNotFoundError:
        raise Failure(f"{database} is missing: cmake --preset release") from None

    def lines(entry):
        source = pathlib.Path(entry["file"])
        own = any(folder in source.parents for folder in OWN_SOURCE_FOLDERS)
        return source.read_bytes().count(b"\n") if own and source.suffix == ".cc" else -1

    largest = max(entries, key=lines, default=None)
    if largest is None or lines(largest) < 0:
        raise Failure(f"{database} lists no source of this project")
    arguments = shlex.split(largest["command"])
    # The compiler itself, without a compiler cache in front of it.
    while arguments and not COMPILER.search(os.path.basename(arguments[0])):
        arguments.pop(0)
    arguments[arguments.index("-o") + 1] = "/dev/null"
    source = pathlib.Path(largest["file"]).relative_to(ROOT)
    print(f"Compiling {source} ({lines(largest)} lines) with {os.path.basename(arguments[0])}")
    return arguments, largest["directory"]


def child_environment(extra):
    # The command gets the user's environment, without the variables that make adds.
    def dropped(name):
        return (name in ("LD_PRELOAD", "MALLOCSTATS", "MFLAGS", "RUN_COMMAND")
                or name.startswith("MAKE"))
    return {name: value for name, value in os.environ.items() if not dropped(name)} | extra


def run_once(arguments, extra_environment, output_path, error_path):
    """Runs the command. The Result covers the process and all descendants that were waited for."""
    files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
             (os.POSIX_SPAWN_OPEN, 1, output_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
             (os.POSIX_SPAWN_OPEN, 2, error_path,
              os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)]
    started = time.monotonic()
    try:
        pid = os.posix_spawnp(arguments[0], arguments, child_environment(extra_environment),
                              file_actions=files)
    except OSError as error:
        raise Failure(f"{arguments[0]}: {error.strerror}", 127) from None
    _, status, usage = os.wait4(pid, 0)
    wall_s = time.monotonic() - started
    return Result(os.waitstatus_to_exitcode(status), wall_s, usage.ru_utime, usage.ru_stime,
                  usage.ru_minflt, usage.ru_maxrss)


def describe_exit(code):
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def check_exit(result, side, error_path):
    if result.exit_code == 0:
        return
    print_tail(error_path)
    code = result.exit_code if result.exit_code > 0 else 128 - result.exit_code
    raise Failure(f"The command {describe_exit(result.exit_code)} ({side}).", code)


def print_tail(path, lines=20):
    text = pathlib.Path(path).read_text(errors="replace").splitlines()
    for line in text[-lines:]:
        print(f"  {line}", file=sys.stderr)


def statistics_blocks(text):
    """The groups of lines that begin with MALLOC:, one for each process that printed statistics."""
    blocks = []
    inside = False
    for line in text.splitlines():
        if line.startswith("MALLOC:"):
            if not inside:
                blocks.append([])
            blocks[-1].append(line)
            inside = True
        else:
            inside = False
    return blocks


def size_of_block(block):
    """The largest byte count in a block: its process's address space."""
    numbers = (re.match(r"MALLOC:\s*[=+]?\s*(\d+) \(", line) for line in block)
    return max((int(number.group(1)) for number in numbers if number), default=0)


def served_programs(log_folder, library):
    """How often each program started with the library loaded, by the dynamic linker's log."""
    served = collections.Counter()
    for log in log_folder.iterdir():
        has_library = False
        for line in log.read_text(errors="replace").splitlines():
            if line.endswith(f"calling init: {library}"):
                has_library = True
            program = re.search(r"initialize program: (.*)$", line)
            if program:
                if has_library:
                    served[os.path.basename(program.group(1))] += 1
                has_library = False  # the same process may exec another program
    return served


def median(values):
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def print_table(plain, preloaded, floor_kib):
    print(f"\n{'':24}{'C library':>12}{'tcmalloc':>12}{'ratio':>9}")
    rows = (("wall time, s", "wall_s", 1, "{:.3f}"),
            ("user time, s", "user_s", 1, "{:.3f}"),
            ("system time, s", "system_s", 1, "{:.3f}"),
            ("minor page faults", "minor_faults", 1, "{:.0f}"),
            ("peak memory, MiB", "peak_kib", 1024, "{:.1f}"))
    at_floor = False
    for label, field, divisor, form in rows:
        cells = []
        values = []
        for results in (plain, preloaded):
            value = median(getattr(result, field) for result in results)
            text = form.format(value / divisor)
            if field == "peak_kib" and value <= floor_kib:
                text = f"<= {text}"
                at_floor = True
            values.append(value)
            cells.append(text)
        known = values[0] > 0 and not any(cell.startswith("<") for cell in cells)
        ratio = f"{values[1] / values[0]:.3f}" if known else "-"
        print(f"{label:24}{cells[0]:>12}{cells[1]:>12}{ratio:>9}")
    print(f"Medians over {len(plain)} round(s), taken in turns. Peak memory is the resident set\n"
          "(VmHWM) of the command's largest process; times and faults are sums over all processes.")
    if at_floor:
        print("'<=': all processes stayed below the size of the Python program that measures them.")


def prove_service(run, error_path, log_folder, library, is_shell):
    """One run that must show that the library is used. Returns the text to print about it at the end."""
    log_folder.mkdir()
    log = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(log_folder / "log")}
    if COMMAND.exists():
        run("plain", log, [COMMAND, "run", "--children", "--library", library, "--"])
    else:
        run("preloaded", {"MALLOCSTATS": "1", **log})
    served = served_programs(log_folder, library)
    why = "its programs are linked statically, are setuid, or clear LD_PRELOAD."
    if not served:
        raise Failure(f"The dynamic linker loaded {library} into no process of this command: {why}")
    if is_shell and served == {"sh": 1}:
        raise Failure(f"The library served the shell alone: {why}")
    names = [f"{name} ({count})" if count > 1 else name for name, count in served.most_common()]
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    report = f"Served by the library: {', '.join(names[:12])}{more}.\n"

    summary = error_path.read_text(errors="replace").rpartition("\ntcmalloc run: ")
    if summary[1]:
        return f"{report}\nThe largest process: {summary[2].strip()}"
    blocks = statistics_blocks(error_path.read_text(errors="replace"))
    if blocks:
        report += ("\nThe allocator's statistics, from the largest of "
                   f"{len(blocks)} process(es) that printed them:\n")
        return report + "\n".join(max(blocks, key=size_of_block))
    if not is_shell:  # the compiler is known to leave stderr open
        raise Failure("No process printed the allocator's statistics, as MALLOCSTATS=1 asks.")
    return report + ("No process printed the allocator's statistics: all of them closed stderr\n"
                     "before their end, as GNU's core utilities do, or ended without exit().")


def compare(arguments, library, rounds, work_folder, is_shell):
    sides = {"plain": ("on the C library's malloc", {}),
             "preloaded": (f"under {library.name}", {"LD_PRELOAD": str(library)})}
    results = {side: [] for side in sides}
    error_path = work_folder / "stderr"

    def run(side, extra=None, prefix=()):
        description, environment = sides[side]
        result = run_once([*map(str, prefix), *arguments], environment | (extra or {}), work_folder / f"{side}.out",
                          error_path)
        check_exit(result, description, error_path)
        return result

    run("plain")
    service = prove_service(run, error_path, work_folder / "linker", library, is_shell)
    for number in range(rounds):
        order = ("plain", "preloaded") if number % 2 == 0 else ("preloaded", "plain")
        for side in order:
            print(f"  round {number + 1} of {rounds}, {sides[side][0]}", flush=True)
            results[side].append(run(side))
    # The kernel reports a peak of at least that of the process that started it.
    print_table(results["plain"], results["preloaded"],
                floor_kib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    same = filecmp.cmp(work_folder / "plain.out", work_folder / "preloaded.out", shallow=False)
    print("Both printed the same output." if same else "Their outputs differ (perhaps in times).")
    print(service)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="runs on each side (default 3)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    library = pathlib.Path(os.environ.get("RUN_LIBRARY") or DEFAULT_LIBRARY).absolute()
    if not library.is_file():
        raise Failure(f"{library} does not exist: build it with 'cmake --build --preset release'")

    shell_command = os.environ.get("RUN_COMMAND", "")
    if shell_command:
        print(f"Running {shell_command}")
        arguments = ["sh", "-c", shell_command]
    else:
        arguments, folder = compile_command()
        os.chdir(folder)

    with tempfile.TemporaryDirectory(prefix="tcmalloc-run-") as work_folder:
        compare(arguments, library, options.rounds, pathlib.Path(work_folder), bool(shell_command))


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.stdout.flush()
        print(f"make run: {failure}", file=sys.stderr)
        sys.exit(failure.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
