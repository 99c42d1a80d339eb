#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program on the allocator and on the C library's malloc, and compares time and memory.

Without RUN_COMMAND in the environment, the program is redis-server (run_redis.py), or perl with bench/apps/hashes.pl
where redis is not installed. With it ('make run CMD=...'), 'sh -c' runs that text. RUN_LIBRARY names another library to
preload than the one in build/release, and RUN_BUILD another build folder.

The first two runs of a command are not timed. One is on the C library's malloc and warms the
machine's caches. The other goes through 'tcmalloc run', which says where the memory of its largest
process was and draws a flame graph of its peak, and the dynamic linker logs into which programs it
loaded the library. If that log does not show the library, the script compares nothing. Then runs
with and without the library alternate; the table shows the median of each figure. Where the
tcmalloc command is not built, each process prints the allocator's statistics instead
(MALLOCSTATS=1).
"""

import argparse
import collections
import filecmp
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import run_redis

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from runner import process, redis  # noqa: E402

BUILD_DIR = pathlib.Path(os.environ.get("RUN_BUILD") or ROOT / "build" / "release")
DEFAULT_LIBRARY = BUILD_DIR / "lib" / "libtcmalloc.so.4"
COMMAND = BUILD_DIR / "bin" / "tcmalloc"
PROGRAM = ["perl", str(ROOT / "bench/apps/hashes.pl"), "20"]
TARGETS = ["tcmalloc", "command"]
RESULTS = BUILD_DIR.parent / "run"
FLAME_GRAPH = RESULTS / "flame.svg"
# The default interval is for servers: this program holds 8 MiB.
SAMPLE_BYTES = "65536"

Result = collections.namedtuple("Result", "exit_code wall_s user_s system_s minor_faults peak_kib floor_kib")


class Failure(Exception):
    """Ends the program with a message and an exit code."""

    def __init__(self, message, exit_code=1):
        super().__init__(message)
        self.exit_code = exit_code


def shown_path(path):
    return os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else path


def progress(text):
    """Replaces the line on a terminal; says nothing elsewhere."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


def build(jobs):
    """Builds what is run. Its progress is one line; what it prints is shown if it fails."""
    began = time.monotonic()
    configured = subprocess.run(["cmake", "--preset", "release", "--log-level=WARNING"], cwd=ROOT, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if configured.returncode:
        raise Failure(f"cmake failed:\n{configured.stdout}")
    # The command's absence, with its reason.
    warning = re.search(r"The tcmalloc command is left out.*?(?:\n\n|$)", configured.stdout, re.DOTALL)
    if warning:
        print(warning[0].strip())
    command = ["cmake", "--build", "--preset", "release", "-j", str(jobs), "--target", *TARGETS]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        printed = []
        for line in process.stdout:
            printed.append(line)
            step = re.match(r"\[(\d+)/(\d+)\]", line)
            if step:
                progress(f"Building: {step[1]} of {step[2]}")
    progress("")
    if process.returncode:
        raise Failure(f"The build failed:\n{''.join(printed[-30:])}")
    print(f"Built in {time.monotonic() - began:.0f} s.", flush=True)


def child_environment(extra):
    # The command gets the user's environment, without the variables that make adds.
    def dropped(name):
        return (name in ("LD_PRELOAD", "MALLOCSTATS", "MFLAGS", "RUN_COMMAND")
                or name.startswith("MAKE"))
    return {name: value for name, value in os.environ.items() if not dropped(name)} | extra


# The kernel reports a peak of at least that of the process that started the command. So a small process starts it:
# Python without its libraries. It prints to descriptor 3: errno of a failed start, or the status, times, page faults
# and both peaks.
LAUNCHER = """
import posix, sys, time
begin = time.monotonic()
try:
    pid = posix.posix_spawnp(sys.argv[1], sys.argv[1:], posix.environ, file_actions=[(posix.POSIX_SPAWN_CLOSE, 3)])
except OSError as error:
    posix.write(3, b"%d" % error.errno)
    posix._exit(0)
_, status, usage = posix.wait4(pid, 0)
wall = time.monotonic() - begin
with open("/proc/self/status") as file:
    own = next(line.split()[1] for line in file if line.startswith("VmHWM:"))
values = status, wall, usage.ru_utime, usage.ru_stime, usage.ru_minflt, usage.ru_maxrss, own
posix.write(3, " ".join(map(str, values)).encode())
posix._exit(0)
"""


def run_once(arguments, extra_environment, output_path, error_path):
    """Runs the command. The Result covers the process and all descendants that were waited for."""
    read, write = os.pipe()
    files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
             (os.POSIX_SPAWN_OPEN, 1, output_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
             (os.POSIX_SPAWN_OPEN, 2, error_path,
              os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600),
             (os.POSIX_SPAWN_DUP2, write, 3)]
    environment = child_environment(extra_environment)
    # These variables are for the command only: env starts it with them.
    own = [f"{name}={environment.pop(name)}" for name in ("LD_PRELOAD", "LD_DEBUG", "LD_DEBUG_OUTPUT", "MALLOCSTATS")
           if name in environment]
    pid = os.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", LAUNCHER, "env", *own, *arguments],
                         environment, file_actions=files)
    os.close(write)
    with os.fdopen(read) as pipe:
        fields = pipe.read().split()
    os.waitpid(pid, 0)
    if len(fields) != 7:
        raise Failure(f"{arguments[0]}: cannot be started", 127)
    status, wall_s, user_s, system_s, faults, peak_kib, floor_kib = fields
    return Result(os.waitstatus_to_exitcode(int(status)), float(wall_s), float(user_s), float(system_s), int(faults),
                  int(peak_kib), int(floor_kib))


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


def print_table(plain, preloaded):
    floor_kib = max(result.floor_kib for result in [*plain, *preloaded])
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
        print("'<=': all processes stayed below the size of the program that starts them.")


def prove_service(run, error_path, log_folder, library, is_shell):
    """Makes a run that must show that the library is used. Returns the text to print about it at the end."""
    log_folder.mkdir()
    log = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(log_folder / "log")}
    if COMMAND.exists():
        FLAME_GRAPH.parent.mkdir(parents=True, exist_ok=True)
        FLAME_GRAPH.unlink(missing_ok=True)
        run("plain", {"TCMALLOC_SAMPLE_PARAMETER": SAMPLE_BYTES} | log,
            [COMMAND, "run", "--children", "--flame", FLAME_GRAPH, "--library", library, "--"])
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
        flame = f"\n\nFlame graph of its peak: {shown_path(FLAME_GRAPH)}" if FLAME_GRAPH.exists() else ""
        return f"{report}\nThe largest process: {summary[2].strip()}{flame}"
    blocks = statistics_blocks(error_path.read_text(errors="replace"))
    if blocks:
        report += ("\nThe allocator's statistics, from the largest of "
                   f"{len(blocks)} process(es) that printed them:\n")
        return report + "\n".join(max(blocks, key=size_of_block))
    if not is_shell:  # perl is known to leave stderr open
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
            progress(f"round {number + 1} of {rounds}, {sides[side][0]}")
            results[side].append(run(side))
    progress("")
    print_table(results["plain"], results["preloaded"])
    same = filecmp.cmp(work_folder / "plain.out", work_folder / "preloaded.out", shallow=False)
    print("Both printed the same output." if same else "Their outputs differ (perhaps in times).")
    print(service)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", action="store_true", help="build the library and the command first")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="for --build; default: one per CPU")
    parser.add_argument("--rounds", type=int, help="runs on each side (default 5 of a command, 2 of redis)")
    parser.add_argument("--requests", type=int, default=run_redis.REQUESTS,
                        help="to redis, of each kind in a round (default %(default)s)")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    library = pathlib.Path(os.environ.get("RUN_LIBRARY") or DEFAULT_LIBRARY).absolute()
    shell_command = os.environ.get("RUN_COMMAND", "")
    with_redis = not shell_command and not redis.missing()
    if shell_command:
        what = f"run {shell_command}"
    elif with_redis:
        what = "load two redis-servers (about 20 s)"
    else:
        what = "run perl bench/apps/hashes.pl, as redis is not installed"
    first = "build the library and the tcmalloc command (the first time about a minute on 2 CPUs), then " if options.build else ""
    print(f"Will {first}{what}, on glibc's malloc and on TCMalloc in turns.", flush=True)
    if options.build:
        build(options.jobs)
    if not library.is_file():
        raise Failure(f"{library} does not exist: build it with 'cmake --build --preset release'")
    if with_redis:
        command = COMMAND if COMMAND.exists() else None
        lines = run_redis.run(library, command, RESULTS, child_environment({}), options.rounds or 2, options.requests,
                              progress)
        print("\n".join(lines).replace(f"{ROOT}/", ""))
        return
    arguments = ["sh", "-c", shell_command] if shell_command else PROGRAM
    with tempfile.TemporaryDirectory(prefix="tcmalloc-run-") as work_folder:
        compare(arguments, library, options.rounds or 5, pathlib.Path(work_folder), bool(shell_command))


if __name__ == "__main__":
    try:
        main()
    except (Failure, process.BenchError, process.ProcessFailed) as failure:
        sys.stdout.flush()
        print(f"make run: {failure}", file=sys.stderr)
        sys.exit(getattr(failure, "exit_code", 1))
    except KeyboardInterrupt:
        sys.exit(130)
