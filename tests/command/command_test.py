#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tcmalloc command on processes that run on the library, and on others.

  command_test.py WHAT COMMAND PROGRAM LIBRARY

  rest      stats of a process at rest: each figure is that of tcmalloc_stats_json
  load      stats of a busy process: the sums hold in each of 100 readings
  thousand  the same, 1,000 times
  untouched stats and ps do not stop a process: no thread of it runs
  objects   the objects are those of tcmalloc_for_each_object, before and after others were freed
  profile   the samples are those of tcmalloc_profile_snapshot: in use, at the peak, of a recording
  inspect   the states of an object
  busy      objects of a busy process: it is stopped at a moment at which nothing is half changed
  threads   1,000 threads: each continues
  states    a stopped process stays stopped; a zombie; one that ends; one that is traced; no rights
  other     another malloc; a program that does not exist
  deleted   the library's file was deleted, or replaced by another, after the start
  forks     a process that forks, and its children
  namespace a process in namespaces of its own for processes and mounts, whose library has no name here
  age       the objects of an idle process grow older
  clock     ... also in a namespace of its own for time
  sparse    a heap of 10 GiB
  run       tcmalloc run: its summary, the exit status, settings, the JSON file
  ps        the list of processes

LIBRARY may be "linked": then the program has the allocator in itself. COMMAND may be the folder of all builds: then
the test uses a command that one of them has, for programs that no command is built for.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 60
OTHER_MALLOC = 3
SKIPPED = 77
OTHER_CLOCK_S = 100_000
OTHER_MALLOCS = (("libjemalloc.so.2", "jemalloc"), ("libmimalloc.so.2.0", "mimalloc"),
                 ("libtcmalloc_minimal.so.4", "another TCMalloc"))
AGED_S = 0.3
CLOCK_TICK_S = 0.02  # more than that of the coarse clock
# Without the library's thread, which releases memory, a program that does nothing has a heap that does not change.
AT_REST = {"TCMALLOC_BACKGROUND": "0"}
SPARSE_OBJECTS = 10 << 10
SPARSE_BYTES = 1 << 20


class Target:
    """A process of the program observed_program.c."""

    def __init__(self, test, library=None, prefix=(), program=None, folder=None, **variables):
        environment = clean_environment()
        library = library or test.library
        if library != "linked" and not prefix:
            environment["LD_PRELOAD"] = library
        environment.update(variables)
        self.process = subprocess.Popen([*prefix, program or test.program], env=environment, text=True, cwd=folder,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def state(self):
        """The letter that ps prints."""
        return re.search(r"^State:\s+(\w)", pathlib.Path(f"/proc/{self.pid}/status").read_text(),
                         re.MULTILINE)[1]


def clean_environment(**variables):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("TCMALLOC_", "LD_PRELOAD", "MALLOCSTATS"))}
    return {**kept, **variables}


def find_command(path):
    """The command, or the newest one of the builds in this folder; None."""
    if not path.is_dir():
        return path
    return max(path.glob("*/bin/tcmalloc"), key=lambda command: command.stat().st_mtime, default=None)


class Test:

    def __init__(self, command, program, library):
        self.command = find_command(pathlib.Path(command))
        self.program = program
        self.library = library
        self.failed = 0

    def expect(self, condition, message):
        if not condition:
            self.failed += 1
            print(f"FAILED: {message}")

    def ask(self, *arguments, status=0, command=None, environment=None, **options):
        run = subprocess.run([command or self.command, *map(str, arguments)], stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.PIPE, check=False, timeout=TIMEOUT_S,
                             env=environment or clean_environment(), **options)
        if status is not None:
            self.expect(run.returncode == status, f"{arguments}: exit status {run.returncode}, not "
                        f"{status}\n{run.stdout[:500]}{run.stderr[:500]}")
        return run

    def json(self, *arguments):
        return json.loads(self.ask(*arguments, "--json").stdout)

    def check_sums(self, figures):
        parts = sum(figures[name] for name in (
            "in_use_bytes", "page_heap_free_bytes", "central_cache_free_bytes",
            "thread_cache_free_bytes", "metadata_bytes"))
        self.expect(parts == figures["actual_bytes"], f"parts: {parts} of {figures['actual_bytes']}")
        self.expect(figures["virtual_bytes"] - figures["released_bytes"] == figures["actual_bytes"],
                    "virtual less released is actual")
        self.expect(figures["large_in_use_bytes"] <= figures["in_use_bytes"], "large objects in use")
        self.expect(figures["in_use_bytes"] > 20 << 20, "what the program holds")


def rest(test):
    with Target(test, **AT_REST, TCMALLOC_SAMPLE_PARAMETER="100000") as target:
        for step in ("", "free", "sleep 5", "rest"):
            if step:
                target.tell(step)
            text = target.tell("json")
            wanted = json.loads(text)
            found = test.json("stats", target.pid)
            test.expect(len(wanted) > 40, "the library's figures")
            for name, value in wanted.items():
                test.expect(found.get(name) == value, f"after '{step}' {name} is {found.get(name)}, not {value}")
            test.expect([name for name in found if name in wanted] == list(wanted), "order of the members")
            same = json.dumps({name: found[name] for name in wanted}, separators=(",", ":"))
            test.expect(same == text.strip(), f"after '{step}' the texts differ:\n{same}\n{text}")
            test.check_sums(found)
        test.expect("TCMALLOC_SAMPLE_PARAMETER" in found["settings"], f"settings: {found['settings']}")
        text = test.ask("stats", target.pid).stdout
        test.expect("in objects that the program holds" in text, text)


def thousand(test):
    load(test, 1000)


def load(test, readings=100):
    with Target(test) as target:
        target.tell("busy 4")
        unsettled = 0
        for _ in range(readings):
            figures = test.json("stats", target.pid)
            test.check_sums(figures)
            unsettled += figures["unsettled"]
        print(f"{readings} readings, {unsettled} of them without a moment at which the page heap's lock was free")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def switches(pid):
    """How often each thread of the process gave up its CPU: a thread that is stopped does."""
    counts = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        counts[task.name] = [int(count) for count in re.findall(r"^\w*voluntary_ctxt_switches:\s+(\d+)", status,
                                                                re.MULTILINE)]
    return counts


def untouched(test):
    with Target(test, **AT_REST) as target:
        target.tell("wait 5")
        while any("State:\tS" not in (task / "status").read_text()
                  for task in pathlib.Path(f"/proc/{target.pid}/task").iterdir()):
            time.sleep(0.01)
        before = switches(target.pid)
        for _ in range(20):
            test.json("stats", target.pid)
        test.json("ps")
        test.expect(len(before) == 6 and switches(target.pid) == before, f"{before}, then {switches(target.pid)}")
        # Shows that a stop of the process is noticed.
        test.json("objects", target.pid)
        after = switches(target.pid)
        test.expect(all(after[thread] != before[thread] for thread in before), f"{before}, then {after}")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def walked(target):
    words = target.tell("objects").split()
    return {(int(words[i], 16), int(words[i + 1])) for i in range(0, len(words), 2)}


def listed(test, target):
    return {tuple(pair) for pair in test.json("objects", target.pid, "--list")["list"]}


def objects(test):
    with Target(test, **AT_REST, TCMALLOC_SAMPLE_PARAMETER="100000") as target:
        for step in ("", "free", "sleep 20", "rest"):
            if step:
                target.tell(step)
            wanted, found = walked(target), listed(test, target)
            if not wanted and not step:
                print("SKIP: the library has no tcmalloc_for_each_object to compare with")
                return SKIPPED
            test.expect(len(wanted) > 10000, "the library's walk")
            test.expect(wanted == found, f"after '{step}': {len(wanted - found)} objects are missing, "
                        f"{len(found - wanted)} are not the library's")
        report = test.json("objects", target.pid)
        test.expect(report["objects"] == len(found) and report["bytes"] == sum(b for _, b in found),
                    "the sums of the report")
    return 0


def librarys_profile(text):
    """The library's figures: recorded ones by entry, and estimates of objects and bytes by stack."""
    recorded, estimates = collections.Counter(), collections.defaultdict(lambda: [0.0, 0.0])
    for entry in text.strip().split(";")[:-1]:
        _, objects, byte_count, *estimated = entry.split()[:5]
        stack = tuple(int(frame, 16) for frame in entry.split()[5:])
        recorded[stack, int(objects), int(byte_count)] += 1
        for i, value in enumerate(estimated):
            estimates[stack][i] += float(value)
    return recorded, estimates


def commands_profile(test, target, kind):
    recorded = collections.Counter()
    text = test.ask("profile", target.pid, "--type", kind, "--format", "legacy").stdout
    for line in text.partition("\n\n")[0].splitlines()[1:]:
        objects, byte_count = re.match(r"(\d+): (\d+) \[\1: \2\] @", line).groups()
        stack = tuple(int(frame, 16) for frame in line.partition("@")[2].split())
        recorded[stack, int(objects), int(byte_count)] += 1
    sites = test.json("profile", target.pid, "--type", kind)["call_sites"]
    return recorded, {tuple(site["addresses"]): (site["objects"], site["bytes"]) for site in sites}


def profile(test):
    with Target(test, TCMALLOC_SAMPLE_PARAMETER="20000") as target:

        def compare(kind, step, command):
            found = None if kind != "allocations" else commands_profile(test, target, kind)
            recorded, estimates = librarys_profile(target.tell(command))
            found_recorded, found_estimates = found or commands_profile(test, target, kind)
            samples = sum(objects * n for (_, objects, _), n in recorded.items())
            print(f"after '{step}', {kind}: {samples} samples, {len(estimates)} call sites, "
                  f"at most {max(map(len, estimates))} frames")
            test.expect(samples > 100, f"{samples} samples")
            test.expect(recorded == found_recorded, f"after '{step}', {kind}: {sum((recorded - found_recorded).values())} "
                        f"entries are missing, {sum((found_recorded - recorded).values())} are not the library's")
            wrong = [stack for stack, wanted in estimates.items()
                     if any(abs(a - b) > 1 for a, b in zip(wanted, found_estimates.get(stack, (-2, -2))))]
            test.expect(not wrong, f"after '{step}', {kind}: {len(wrong)} call sites have other estimates")

        for step in ("", "more 3000", "free", "sleep 20", "rest"):
            if step:
                target.tell(step)
            compare("in-use", step, "profile")
            compare("peak", step, "peak")
        target.tell("record")
        target.tell("more 3000")
        compare("allocations", "more 3000", "recorded")


def inspect(test):
    with Target(test) as target:
        target.tell("free")
        in_use, freed, large, stack = target.tell("address").split()
        for address, states in ((in_use, ("in use",)), (freed, ("free", "free, in a thread cache")),
                                (large, ("in use",)), (stack, ("outside",)),
                                (hex(int(in_use, 16) + 3), ("in use",))):
            answer = test.json("inspect", target.pid, address)
            test.expect(answer["state"] in states, f"{address}: {answer['state']}, not {states}")
            if states == ("in use",):
                test.expect(answer["object"]["start"] in (int(in_use, 16), int(large, 16)), "start")
        text = test.ask("inspect", target.pid, in_use, "--contents").stdout
        test.expect("01 01 01" in text and "in use" in text, text)
        run = test.ask("inspect", target.pid, "nothing", status=1)
        test.expect("'nothing' is not an address" in run.stderr, run.stderr)


def busy(test):
    with Target(test) as target:
        target.tell("busy 3")
        for _ in range(10):
            report = test.json("objects", target.pid)
            test.expect(report["settled"] and report["objects"] > 20000, f"{report['objects']} objects")
        test.ask("objects", target.pid, "--no-stop", status=None)
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def threads(test):
    with Target(test) as target:
        target.tell("sleep 1000")
        report = test.json("objects", target.pid)
        print(f"{report['threads']} threads stopped for {report['stopped_ms']:.1f} ms")
        test.expect(report["threads"] > 1000, "threads")
        test.expect(test.json("stats", target.pid)["thread_caches"] >= 1000, "thread caches")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def states(test):
    with Target(test) as target:
        os.kill(target.pid, signal.SIGSTOP)
        os.waitpid(target.pid, os.WUNTRACED)
        test.check_sums(test.json("stats", target.pid))
        test.expect(test.json("objects", target.pid)["settled"], "objects of a stopped process")
        # After the tracer lets it go, the thread is runnable for a moment before it enters its own stop again.
        end = time.monotonic() + TIMEOUT_S
        while target.state() == "R" and time.monotonic() < end:
            pass
        test.expect(target.state() == "T", f"state {target.state()}: it stays stopped")
        os.kill(target.pid, signal.SIGCONT)
        test.expect(target.tell("free") == "done\n", "it continues")
        if os.getuid() == 0:
            with tempfile.TemporaryDirectory() as folder:  # the build folder may be readable by root only
                os.chmod(folder, 0o755)
                run = test.ask("stats", target.pid, status=1, user="nobody", command=shutil.copy(test.command, folder))
            test.expect("not permitted" in run.stderr and "run this command as" in run.stderr, run.stderr)
            test.expect(run.stderr.count("\n") == 1, "one line")
        os.kill(target.pid, signal.SIGKILL)
        os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOWAIT)
        for command in ("stats", "objects"):
            run = test.ask(command, target.pid, status=1)
            test.expect("has ended" in run.stderr, run.stderr)
    run = test.ask("stats", target.pid, status=1)
    test.expect(f"there is no process {target.pid}" in run.stderr, run.stderr)
    with Target(test) as target:  # the process ends during the command
        target.tell("busy 2")
        with subprocess.Popen([test.command, "objects", str(target.pid)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=clean_environment()) as reader:
            target.process.kill()
            reader.communicate(timeout=TIMEOUT_S)
            test.expect(reader.returncode in (0, 1), f"exit status {reader.returncode}")
    with Target(test) as target:  # its first thread has ended
        test.expect(target.tell("leave") == "ready\n", "another thread")
        while target.state() != "Z":
            time.sleep(0.01)
        test.check_sums(test.json("stats", target.pid))
        report = test.json("objects", target.pid)
        test.expect(report["objects"] >= 20000 and report["process_resident_bytes"] > 20 << 20, f"{report}")
        test.expect(target.tell("free") == "done\n", "it continues")
    with Target(test) as target:  # a thread waits in the kernel and cannot be stopped
        target.tell("vfork")
        run = test.ask("objects", target.pid, status=1)
        test.expect("does not stop" in run.stderr and "--no-stop" in run.stderr, run.stderr)
        test.check_sums(test.json("stats", target.pid))
        test.expect(target.tell("rest") == "done\n", "it continues")
        test.expect(test.json("objects", target.pid)["objects"] >= 20000, "objects afterwards")
    runner = subprocess.Popen([test.command, "run", "--quiet", test.program], text=True,
                              env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    runner.stdout.readline()
    child = int(pathlib.Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split()[0])
    run = test.ask("objects", child, status=None)
    test.expect("is traced by process" in run.stderr and "--no-stop" in run.stderr, run.stderr)
    runner.communicate()


def wait_for_mapping(pid, name):
    while name not in pathlib.Path(f"/proc/{pid}/maps").read_text():
        time.sleep(0.01)


def other(test):
    with subprocess.Popen(["sleep", "60"], env=clean_environment()) as process:
        wait_for_mapping(process.pid, "/libc.so.6")
        run = test.ask("stats", process.pid, status=OTHER_MALLOC)
        test.expect("runs on glibc's malloc" in run.stdout and "resident" in run.stdout, run.stdout)
        run = test.ask("objects", process.pid, status=1)
        test.expect("runs on glibc's malloc" in run.stderr, run.stderr)
        process.kill()
    found = 0
    for file, name in OTHER_MALLOCS:
        path = pathlib.Path("/usr/lib/x86_64-linux-gnu") / file
        if not path.exists():
            continue
        found += 1
        with subprocess.Popen(["sleep", "60"], env={**clean_environment(), "LD_PRELOAD": str(path)}) as process:
            wait_for_mapping(process.pid, file)
            run = test.ask("stats", process.pid, status=OTHER_MALLOC)
            test.expect(f"runs on {name}" in run.stdout, run.stdout)
            process.kill()
    print(f"{found} other libraries")
    run = test.ask("run", "/no/such/program", status=1)
    test.expect("cannot run /no/such/program: No such file" in run.stderr, run.stderr)


def deleted(test):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "libtcmalloc.so.4"
        shutil.copy(test.library, copy)
        with Target(test, library=str(copy)) as target:
            copy.unlink()
            test.check_sums(test.json("stats", target.pid))
            copy.write_text("a file of another kind, as after an upgrade\n")
            test.check_sums(test.json("stats", target.pid))
            test.expect(test.json("objects", target.pid)["objects"] > 20000, "objects after the upgrade")


def forks(test):
    with Target(test, **AT_REST) as target:
        target.tell("sleep 3")
        child = int(target.tell("fork"))
        parents, childs = test.json("stats", target.pid), test.json("stats", child)
        for name in ("in_use_bytes", "large_in_use_bytes", "virtual_bytes"):
            test.expect(abs(parents[name] - childs[name]) < 1 << 20, f"{name}: {parents[name]}, {childs[name]}")
        mine, its = (test.json("objects", pid) for pid in (target.pid, child))
        test.expect(its["objects"] >= 20000 and its["threads"] == 1, f"{its['objects']} objects of the child")
        test.expect(abs(mine["objects"] - its["objects"]) < 100, f"{mine['objects']}, {its['objects']}")
        target.tell("rest")
        target.tell("forks")
        for _ in range(20):
            test.expect(test.json("objects", target.pid)["objects"] >= 20000, "objects while it forks")
            test.check_sums(test.json("stats", target.pid))
        test.expect(target.tell("rest") == "done\n", "it goes on")


def namespace(test):
    with tempfile.TemporaryDirectory() as folder:
        script = f"mount -t tmpfs none {folder} && cp {test.library} {folder}/library.so && " \
                 f"exec env LD_PRELOAD={folder}/library.so \"$0\""
        prefix = ("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script)
        allowed = subprocess.run([*prefix[:-3], "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 check=False)
        if allowed.returncode != 0:
            print(f"SKIP: namespaces are not permitted here: {allowed.stdout.strip()}")
            return SKIPPED
        with Target(test, prefix=prefix) as target:
            inner = int(pathlib.Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text())
            test.expect(not os.listdir(folder), "the library has a name here")
            test.check_sums(test.json("stats", inner))
            test.expect(test.json("objects", inner)["objects"] >= 20000, "objects")
            test.expect(inner in [row["pid"] for row in test.json("ps")], "ps")
    return 0


def check_ages(test, pid, address):
    """The object's age by the command and by the clock of this process grow alike while the other one is idle."""
    def look():
        before = time.monotonic()
        age_s = test.json("inspect", pid, address)["span"]["handed_out_ms_ago"] / 1000
        return before, age_s, time.monotonic()

    before, first_age_s, after = look()
    test.expect(-CLOCK_TICK_S < first_age_s < TIMEOUT_S, f"an object that was just allocated is {first_age_s} seconds old")
    end = after
    while end - before < AGED_S:
        begin, age_s, end = look()
        least, most = begin - after - CLOCK_TICK_S, end - before + CLOCK_TICK_S
        test.expect(least <= age_s - first_age_s <= most,
                    f"the object grew older by {age_s - first_age_s:.3f} seconds, in {least:.3f} to {most:.3f}")


def age(test):
    with Target(test, **AT_REST) as target:
        check_ages(test, target.pid, target.tell("address").split()[0])


def clock(test):
    prefix = ("unshare", "--time", "--monotonic", str(OTHER_CLOCK_S), "--fork", "--kill-child",
              "env", f"LD_PRELOAD={test.library}")
    allowed = subprocess.run([*prefix[:-2], "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             check=False)
    if allowed.returncode != 0:
        print(f"SKIP: time namespaces are not permitted here: {allowed.stdout.strip()}")
        return SKIPPED
    with Target(test, prefix=prefix) as target:
        inner = int(pathlib.Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text())
        check_ages(test, inner, target.tell("address").split()[0])
    return 0


def sparse(test):
    with Target(test) as target:
        target.tell(f"objects {SPARSE_OBJECTS} {SPARSE_BYTES}")
        figures = test.json("stats", target.pid)
        test.check_sums(figures)
        test.expect(figures["in_use_bytes"] > SPARSE_OBJECTS * SPARSE_BYTES, f"{figures['in_use_bytes']} bytes in use")
        report = test.json("objects", target.pid)
        print(f"{report['objects']} objects of {report['bytes'] >> 30} GiB, stopped for {report['stopped_ms']:.1f} ms")
        test.expect(report["objects"] >= 20000 + SPARSE_OBJECTS, f"{report['objects']} objects")
        test.expect(report["bytes"] > SPARSE_OBJECTS * SPARSE_BYTES, f"{report['bytes']} bytes")


def run(test):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "end.json"
        done = test.ask("run", "--library", test.library, "--set", "release_rate=3", "--json", path,
                        "--", test.program, input="free\n")
        test.expect(re.search(r"^tcmalloc run: \w+ \(process \d+\) was served by TCMalloc \d+\.\d+\.\d+$", done.stderr, re.MULTILINE),
                    done.stderr)
        test.expect("at its end" in done.stderr and "resident" in done.stderr, done.stderr)
        test.expect(done.stdout == "ready\ndone\n", done.stdout)
        end = json.loads(path.read_text())
        test.check_sums({**end, "in_use_bytes": end["in_use_bytes"]})
        test.expect("TCMALLOC_RELEASE_RATE=3" in end["settings"], end["settings"])
    done = test.ask("run", "--library", test.library, "sh", "-c", "exit 7", status=7)
    done = test.ask("run", "--library", test.library, "sh", "-c", "kill -9 $$", status=128 + 9)
    done = test.ask("run", "--library", test.library, "-q", "sh", "-c", "exit 0")
    test.expect(done.stderr == "", done.stderr)
    with tempfile.TemporaryDirectory() as folder:  # a child is the largest process
        path = pathlib.Path(folder) / "end.json"
        script = f"{test.program} < /dev/null; exit 5"
        done = test.ask("run", "--children", "--library", test.library, "--json", path, "sh", "-c", script, status=5)
        test.expect("process_command" in done.stderr, done.stderr)
        test.check_sums(json.loads(path.read_text()))
    with tempfile.TemporaryDirectory() as folder:  # a library of the same name that is another allocator's
        other = pathlib.Path(folder, "lib", "libtcmalloc.so.4")
        other.parent.mkdir()
        other.write_bytes(b"\x7fELF")
        done = test.ask("run", "--library", other, "true", status=1)
        test.expect(f"{other} is not a library of this allocator" in done.stderr, done.stderr)
        done = test.ask("run", "--library", f"{folder}/none", "true", status=1)
        test.expect(f"there is no library {folder}/none" in done.stderr, done.stderr)
        alone = pathlib.Path(folder, "bin", "tcmalloc")
        alone.parent.mkdir()
        shutil.copy(test.command, alone)
        done = subprocess.run([alone, "run", "true"], env=clean_environment(), capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        test.expect(done.returncode == 1 and f"{other} is another allocator's" in done.stderr, done.stderr)
        shutil.copy(test.library, other)
        done = subprocess.run([alone, "run", "true"], env=clean_environment(), capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        test.expect(done.returncode == 0 and "at its end" in done.stderr, done.stderr)
    done = test.ask("run", "--children", "-q", "--library", test.library, "sh", "-c", "sleep 60 & kill -STOP $! ; "
                    "kill -9 $!; wait $!; exit 3", status=3)
    with subprocess.Popen([test.command, "run", "-q", "--library", test.library, "sh", "-c",
                           "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"], text=True,
                          stdout=subprocess.PIPE, env=clean_environment()) as runner:
        test.expect(runner.stdout.readline() == "ready\n", "the program starts")
        runner.terminate()
        test.expect(runner.wait(TIMEOUT_S) == 9, f"{runner.returncode}: it gets the signal")
    done = test.ask("run", "--set", "nothing", "true", status=1)
    test.expect("NAME=VALUE" in done.stderr, done.stderr)
    # A leak check that is not made must not look like one that found nothing.
    done = test.ask("run", "--set", "HEAPCHECK=normal", "--library", test.library, "true", status=1)
    test.expect("HEAPCHECK=normal checks nothing" in done.stderr and done.stderr.count("\n") == 1, done.stderr)
    for settings in (["HEAPCHECK=local"], ["HEAPCHECK="], ["HEAPCHECK=normal", "HEAP_CHECK_RUN_UNDER_GDB=1"]):
        options = [word for setting in settings for word in ("--set", setting)]
        test.ask("run", "-q", *options, "--library", test.library, "true", status=0)


def ps(test):
    with Target(test, TCMALLOC_RELEASE_RATE="3") as target:
        rows = {row["pid"]: row for row in test.json("ps")}
        row = rows.get(target.pid, {})
        test.expect(row.get("allocator", "").startswith("TCMalloc "), f"row {row}")
        test.expect(row.get("in_use_bytes", 0) > 20 << 20, f"row {row}")
        test.expect("RELEASE_RATE" in row.get("settings", ""), f"row {row}")
        others = {row["pid"]: row for row in test.json("ps", "--all")}
        test.expect("glibc" in others[os.getpid()]["allocator"], f"row {others[os.getpid()]}")
        test.expect(f"{target.pid} " in test.ask("ps").stdout, "the table")


def run_one(test_class, tests):
    """Runs the test that the arguments name; the exit status."""
    what, command, program, library = sys.argv[1:]
    test = test_class(command, program, library)
    if test.command is None:
        print(f"SKIP: no build in {command} has the command")
        return SKIPPED
    result = tests[what](test)
    print(f"{test.failed} failures")
    return result or min(test.failed, 1)


if __name__ == "__main__":
    sys.exit(run_one(Test, {
        "rest": rest, "load": load, "thousand": thousand, "untouched": untouched, "objects": objects, "profile": profile,
        "inspect": inspect, "busy": busy, "threads": threads, "states": states, "other": other, "deleted": deleted,
        "run": run, "ps": ps, "forks": forks, "namespace": namespace, "sparse": sparse, "age": age, "clock": clock}))
