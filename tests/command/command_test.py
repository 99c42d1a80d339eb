#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the tcmalloc command on processes that run on the library, and on others."""

import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from harness import (AT_REST, OTHER_MALLOC, TIMEOUT_S, Skipped, Target, Tracer, children_of, clean_environment, namespace, new_folder,
                     run_test, state_of, tasks, wait_for_mapping, wait_until, wait_until_asleep)

OTHER_CLOCK_S = 100_000
OTHER_MALLOCS = (("libc.so.6", "glibc's malloc"), ("libjemalloc.so.2", "jemalloc"), ("libmimalloc.so.2.0", "mimalloc"),
                 ("libtcmalloc_minimal.so.4", "another TCMalloc"))
CLOCK_TICK_S = 0.02  # more than that of the coarse clock
SPARSE_OBJECTS, SPARSE_BYTES = 10 << 10, 1 << 20


def test_rest(test):
    with Target(test, **AT_REST, TCMALLOC_SAMPLE_PARAMETER="100000") as target:
        for step in ("address", "free", "wait 5", "rest"):
            target.tell(step)
            text = target.tell("json")
            found = test.json("stats", target.pid)
            same = json.dumps({name: found.get(name) for name in json.loads(text)}, separators=(",", ":"))
            test.expect(len(json.loads(text)) > 40, "the library's figures")
            test.expect_equal(same, text.strip(), f"after '{step}'")
            test.check_sums(found)
        test.expect("TCMALLOC_SAMPLE_PARAMETER" in found["settings"], f"settings: {found['settings']}")


def test_load(test):
    with Target(test) as target:
        target.tell("busy 4")
        for _ in range(100):
            test.check_sums(test.json("stats", target.pid))
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def switches(pid):
    """How often each thread of the process gave up its CPU; a thread does so when it is stopped."""
    return {task.name: re.findall(r"^\w*voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)
            for task in tasks(pid)}


def test_untouched(test):
    with Target(test, **AT_REST) as target:
        target.tell("wait 5")
        wait_until_asleep(target.pid)
        before = switches(target.pid)
        for _ in range(20):
            test.json("stats", target.pid)
        test.json("ps")
        test.expect(len(before) == 6, f"{before}")
        test.expect_equal(switches(target.pid), before, "switches")
        # Shows that a stop of the process is noticed.
        test.json("objects", target.pid)
        after = switches(target.pid)
        test.expect(all(after[thread] != before[thread] for thread in before), f"{before}, then {after}")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def expect_objects(test, target, what):
    """The command lists the objects that the library lists. Returns those."""
    wanted, found = target.objects(), test.objects(target.pid)
    test.expect(wanted == found, f"{what}: {len(wanted - found)} objects are missing, {len(found - wanted)} are not the library's")
    return wanted


def test_objects(test):
    with Target(test, **AT_REST, TCMALLOC_SAMPLE_PARAMETER="100000") as target:
        if not target.objects():
            raise Skipped("the library has no tcmalloc_for_each_object to compare with")
        for step in ("address", "free", "wait 20", "rest"):
            target.tell(step)
            wanted = expect_objects(test, target, f"after '{step}'")
            test.expect(len(wanted) > 10000, "the library's walk")
        report = test.json("objects", target.pid)
        test.expect_equal((report["objects"], report["bytes"]), (len(wanted), sum(size for _, size in wanted)), "the sums")


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


def test_profile(test):
    with Target(test, TCMALLOC_SAMPLE_PARAMETER="20000") as target:

        def compare(kind, step, command):
            # The program's answer ends the recording.
            found = commands_profile(test, target, kind) if kind == "allocations" else None
            recorded, estimates = librarys_profile(target.tell(command))
            found_recorded, found_estimates = found or commands_profile(test, target, kind)
            test.expect(sum(objects * n for (_, objects, _), n in recorded.items()) > 100, f"{len(recorded)} samples")
            test.expect(recorded == found_recorded, f"after '{step}', {kind}: {sum((recorded - found_recorded).values())} "
                        f"entries are missing, {sum((found_recorded - recorded).values())} are not the library's")
            wrong = [stack for stack, wanted in estimates.items()
                     if any(abs(a - b) > 1 for a, b in zip(wanted, found_estimates.get(stack, (-2, -2))))]
            test.expect(not wrong, f"after '{step}', {kind}: {len(wrong)} call sites have other estimates")

        for step in ("address", "more 3000", "free", "wait 20", "rest"):
            target.tell(step)
            compare("in-use", step, "profile")
            compare("peak", step, "peak")
        target.tell("record")
        target.tell("more 3000")
        compare("allocations", "more 3000", "recorded")
        folded = test.ask("profile", target.pid, "--format", "folded").stdout
        test.expect(re.search(r"main;.*Outer;Inner", folded) or "stripped" in test.program, folded)


def test_inspect(test):
    with Target(test) as target:
        target.tell("free")
        in_use, freed, large, stack = target.tell("address").split()
        inside = hex(int(in_use, 16) + 3)
        for address, start, states in ((in_use, in_use, ("in use",)), (inside, in_use, ("in use",)), (large, large, ("in use",)),
                                       (freed, freed, ("free", "free, in a thread cache")), (stack, None, ("outside",))):
            answer = test.json("inspect", target.pid, address)
            test.expect(answer["state"] in states, f"{address}: {answer['state']}, not {states}")
            test.expect(start is None or answer["object"]["start"] == int(start, 16), f"{address}: {answer}")
        text = test.ask("inspect", target.pid, in_use, "--contents").stdout
        test.expect("01 01 01" in text and "in use" in text, text)
        test.fails("inspect", target.pid, "nothing", words="'nothing' is not an address")


def test_busy(test):
    """The process is stopped at a moment at which nothing is half changed."""
    with Target(test, TCMALLOC_SAMPLE_PARAMETER="20000") as target:
        target.tell("busy 3")
        for _ in range(10):
            report = test.json("objects", target.pid)
            test.expect(report["settled"] and report["objects"] > 20000, f"{report['objects']} objects")
            report = test.json("profile", target.pid)
            test.expect(report["settled"] and report["threads"] >= 4 and report["call_sites"], f"{report['threads']} threads")
        test.ask("objects", target.pid, "--no-stop", status=None)
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def test_threads(test):
    with Target(test) as target:
        target.tell("wait 1000")
        report = test.json("objects", target.pid)
        test.expect(report["threads"] > 1000, "threads")
        test.expect(test.json("stats", target.pid)["thread_caches"] >= 1000, "thread caches")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def test_states(test):
    with Target(test) as target:
        os.kill(target.pid, signal.SIGSTOP)
        os.waitpid(target.pid, os.WUNTRACED)
        test.check_sums(test.json("stats", target.pid))
        test.expect(test.json("objects", target.pid)["settled"], "objects of a stopped process")
        # After the tracer lets it go, the thread is runnable for a moment before it enters its own stop again.
        wait_until(lambda: state_of(target.pid) == "T", "it stays stopped")
        os.kill(target.pid, signal.SIGCONT)
        test.expect(target.tell("free") == "done\n", "it continues")
        with Tracer(target.pid):
            for words in ("is traced by process", "--no-stop"):
                test.fails("objects", target.pid, words=words)
        os.kill(target.pid, signal.SIGKILL)
        os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOWAIT)
        for command in ("stats", "objects"):
            test.fails(command, target.pid, words="has ended")
    test.fails("stats", target.pid, words=f"there is no process {target.pid}")
    with Target(test) as target:  # the process ends during the command
        target.tell("busy 2")
        with subprocess.Popen([test.command, "objects", str(target.pid)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=clean_environment()) as reader:
            target.process.kill()
            reader.communicate(timeout=TIMEOUT_S)
            test.expect(reader.returncode in (0, 1), f"exit status {reader.returncode}")
    with Target(test) as target:  # its first thread has ended
        test.expect(target.tell("leave") == "ready\n", "another thread")
        wait_until(lambda: state_of(target.pid) == "Z", "the first thread ends")
        test.check_sums(test.json("stats", target.pid))
        report = test.json("objects", target.pid)
        test.expect(report["objects"] >= 20000 and report["process_resident_bytes"] > 20 << 20, f"{report}")
        for command in ("leaks",), ("leaks", "--snapshot"), ("doctor",):
            test.ask(*command, target.pid)
        test.expect(target.tell("free") == "done\n", "it continues")
    with Target(test) as target:  # a thread waits in the kernel and cannot be stopped
        target.tell("vfork 1")
        test.fails("objects", target.pid, words=("does not stop", "--no-stop"))
        test.check_sums(test.json("stats", target.pid))
        test.expect(target.tell("rest") == "done\n", "it continues")
        test.expect(test.json("objects", target.pid)["objects"] >= 20000, "objects afterwards")
        test.fails_as_nobody("stats", target.pid, words=("not permitted", "run this command as"))


def test_other(test):
    folder = pathlib.Path("/usr/lib/x86_64-linux-gnu")
    for file, name in OTHER_MALLOCS:
        if not (folder / file).exists():
            continue
        with subprocess.Popen(["sleep", "60"], env=clean_environment(LD_PRELOAD=str(folder / file))) as process:
            wait_for_mapping(process.pid, file)
            text = test.ask("stats", process.pid, status=OTHER_MALLOC).stdout
            test.expect(f"runs on {name}" in text and "resident" in text, text)
            test.fails("objects", process.pid, words=f"runs on {name}")
            process.kill()
    test.fails("run", "/no/such/program", words="cannot run /no/such/program: No such file")


def test_deleted(test):
    with new_folder() as folder:
        copy = pathlib.Path(shutil.copy(test.library, folder / "libtcmalloc.so.4"))
        with Target(test, library=copy) as target:
            copy.unlink()
            test.check_sums(test.json("stats", target.pid))
            copy.write_text("a file of another kind, as after an upgrade\n")
            test.check_sums(test.json("stats", target.pid))
            test.expect(test.json("objects", target.pid)["objects"] > 20000, "objects after the upgrade")


def test_forks(test):
    with Target(test, **AT_REST) as target:
        target.tell("wait 3")
        child = int(target.tell("fork"))
        parents, childs = test.json("stats", target.pid), test.json("stats", child)
        for name in ("in_use_bytes", "large_in_use_bytes", "virtual_bytes"):
            test.expect(abs(parents[name] - childs[name]) < 1 << 20, f"{name}: {parents[name]}, {childs[name]}")
        mine, its = (test.json("objects", pid) for pid in (target.pid, child))
        test.expect(its["objects"] >= 20000 and its["threads"] == 1, f"{its['objects']} objects of the child")
        test.expect(abs(mine["objects"] - its["objects"]) < 100, f"{mine['objects']}, {its['objects']}")
        target.tell("rest")
        target.tell("forks 1")
        for _ in range(20):
            test.expect(test.json("objects", target.pid)["objects"] >= 20000, "objects while it forks")
            test.check_sums(test.json("stats", target.pid))
        test.expect(target.tell("rest") == "done\n", "it goes on")


def test_namespace(test):
    """The library and the program have no names outside of the process's mount namespace."""
    prefix = namespace("--pid", "--mount", "--mount-proc")
    with new_folder() as folder:
        script = f"mount -t tmpfs none {folder} && cp {test.library} {folder}/library.so && cp {test.program} {folder}/program && " \
                 f"exec env TCMALLOC_SAMPLE_PARAMETER=20000 LD_PRELOAD={folder}/library.so {folder}/program"
        with Target(test, prefix=(*prefix, "sh", "-c", script)) as target:
            inner, = children_of(target.pid)
            test.expect(not os.listdir(folder), "the files have names here")
            test.check_sums(test.json("stats", inner))
            test.expect(test.json("objects", inner)["objects"] >= 20000, "objects")
            test.expect(";main " in test.ask("profile", inner, "--format", "folded").stdout, "names of functions")
            test.expect(inner in [row["pid"] for row in test.json("ps")], "ps")


def check_age(test, prefix=()):
    """The command and the clock of this process agree about how old an object is."""
    begin = time.monotonic()
    with Target(test, prefix=prefix, **AT_REST) as target:
        started = time.monotonic()
        pid = children_of(target.pid)[0] if prefix else target.pid
        for _ in range(2):
            asked = time.monotonic()
            age_s = test.json("inspect", pid, target.tell("address").split()[0])["span"]["handed_out_ms_ago"] / 1000
            least, most = asked - started - CLOCK_TICK_S, time.monotonic() - begin + CLOCK_TICK_S
            test.expect(least <= age_s <= most, f"the object is {age_s:.3f} seconds old, not {least:.3f} to {most:.3f}")
            target.tell("leave")  # again without its first thread
            wait_until(lambda: state_of(pid) == "Z", "the first thread ends")


def test_age(test):
    check_age(test)


def test_clock(test):
    check_age(test, (*namespace("--time", "--monotonic", str(OTHER_CLOCK_S)), "env", f"LD_PRELOAD={test.library}"))


def test_sparse(test):
    with Target(test) as target:
        target.tell(f"untouched {SPARSE_OBJECTS} {SPARSE_BYTES}")
        figures = test.json("stats", target.pid)
        test.check_sums(figures)
        test.expect(figures["in_use_bytes"] > SPARSE_OBJECTS * SPARSE_BYTES, f"{figures['in_use_bytes']} bytes in use")
        report = test.json("objects", target.pid)
        test.expect(report["objects"] >= 20000 + SPARSE_OBJECTS, f"{report['objects']} objects")
        test.expect(report["bytes"] > SPARSE_OBJECTS * SPARSE_BYTES, f"{report['bytes']} bytes")


def test_run(test):
    def run(*arguments, **options):
        return test.ask("run", "--library", test.library, *arguments, **options)

    with new_folder() as folder:
        path = folder / "end.json"
        done = run("--set", "release_rate=3", "--json", path, "--", test.program, input="free\n")
        test.expect(re.search(r"^tcmalloc run: \w+ \(process \d+\) was served by TCMalloc \d+\.\d+\.\d+$", done.stderr, re.MULTILINE) and
                    "at its end" in done.stderr and "resident" in done.stderr, done.stderr)
        test.expect_equal(done.stdout, "ready\ndone\n", "the program's output")
        end = json.loads(path.read_text())
        test.check_sums(end)
        test.expect("TCMALLOC_RELEASE_RATE=3" in end["settings"], end["settings"])
        # Memory that is not the allocator's is named.
        done = run(sys.executable, "-c", "import mmap, os; memory = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE); "
                   "memory.write(bytes(64 << 20)); os._exit(0)")
        named = re.search(r"^  not the allocator's: ([\d.]+) MiB: ([\d.]+) MiB memory that the program maps itself, without malloc, ",
                          done.stderr, re.MULTILINE)
        test.expect(named is not None and float(named[1]) >= float(named[2]) >= 64, done.stderr)
        # A child is the largest process.
        done = run("--children", "--json", path, "sh", "-c", f"{test.program} < /dev/null; exit 5", status=5)
        test.expect("process_command" in done.stderr, done.stderr)
        test.check_sums(json.loads(path.read_text()))
        # A file with the library's name that is not a library of this allocator.
        other = folder / "lib/libtcmalloc.so.4"
        other.parent.mkdir()
        other.write_bytes(b"\x7fELF")
        test.fails("run", "--library", other, "true", words=f"{other} is not a library of this allocator")
        test.fails("run", "--library", f"{folder}/none", "true", words=f"there is no library {folder}/none")
        (folder / "bin").mkdir()
        alone = shutil.copy(test.command, folder / "bin/tcmalloc")
        test.fails("run", "true", words=f"{other} is another allocator's", command=alone)
        shutil.copy(test.library, other)
        test.expect("at its end" in test.ask("run", "true", command=alone).stderr, "the library beside the command")
    run("sh", "-c", "exit 7", status=7)
    run("sh", "-c", "kill -9 $$", status=128 + 9)
    test.expect_equal(run("-q", "sh", "-c", "exit 0").stderr, "", "-q")
    # A process of the command itself that reads files must not be alive when the command waits for those that it traces.
    with subprocess.Popen([test.command, "run", "--children", "-q", "--library", test.library, "sh", "-c",
                           f"{test.program} < /dev/null; echo ended; read word"], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=clean_environment()) as runner:
        wait_for = iter(runner.stdout.readline, "ended\n")
        test.expect_equal(list(wait_for), ["ready\n"], "the program's output")
        test.expect_equal(len(children_of(runner.pid)), 1, "processes of the command")
        runner.communicate("\n", timeout=TIMEOUT_S)
    run("--children", "-q", "sh", "-c", "sleep 60 & kill -STOP $! ; kill -9 $!; wait $!; exit 3", status=3)
    with subprocess.Popen([test.command, "run", "-q", "--library", test.library, "sh", "-c",
                           "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"], text=True,
                          stdout=subprocess.PIPE, env=clean_environment()) as runner:
        test.expect(runner.stdout.readline() == "ready\n", "the program starts")
        runner.terminate()
        test.expect_equal(runner.wait(TIMEOUT_S), 9, "it gets the signal")
    test.fails("run", "--set", "nothing", "true", words="NAME=VALUE")
    # A leak check that is not made must not look like one that found nothing.
    test.fails("run", "--set", "HEAPCHECK=normal", "--library", test.library, "true", words="HEAPCHECK=normal checks nothing")
    for settings in (["HEAPCHECK=local"], ["HEAPCHECK="], ["HEAPCHECK=normal", "HEAP_CHECK_RUN_UNDER_GDB=1"]):
        run("-q", *[word for setting in settings for word in ("--set", setting)], "true")


def test_mistakes(test):
    page = pathlib.Path(__file__).parents[2] / "docs/command/README.md"
    rows = re.findall(r"^\| `tcmalloc(.*?)` \| `(.*?)` \|$", page.read_text(), re.MULTILINE)
    test.expect(len(rows) > 8, f"the table has {len(rows)} mistakes")
    for arguments, line in rows:
        run = test.ask(*arguments.split(), status=1)
        test.expect_equal(run.stdout + run.stderr, line + "\n", f"tcmalloc{arguments}")
    test.expect_equal(test.ask("help", "stats").stdout, test.ask("stats", "--help").stdout, "help stats")
    test.expect_equal(test.ask("help").stdout, test.ask("--help").stdout, "help")
    test.expect_equal(test.ask("-v").stdout, test.ask("--version").stdout, "-v")
    # The only process with this name is found by it, and a file of that name comes first.
    with new_folder() as folder:
        program = shutil.copy(test.program, f"{folder}/only_this_one")
        with Target(test, program=program) as target:
            test.expect_equal(test.json("stats", "only_this_one")["pid"], target.pid, "by name")
            with Target(test, program=program):
                test.fails("stats", "only_this_one", words=("2 processes", str(target.pid)))
            pathlib.Path(f"{folder}/no_core").write_text("")
            test.fails("stats", f"{folder}/no_core", words="no_core")


def test_sizes(test):
    """--size means the objects that the heap makes for that size."""
    with Target(test, **AT_REST) as target:
        target.tell("rest")
        counts = collections.Counter(size for _, size in test.json("objects", target.pid, "--list")["list"])
        for served in sorted(counts)[:5] + sorted(counts)[-1:]:
            for size in (served, served - 1):
                report = test.json("objects", target.pid, "--size", size)
                test.expect_equal(report["objects"], counts[served], f"--size {size}")


def test_ps(test):
    with Target(test, TCMALLOC_RELEASE_RATE="3") as target:
        row = {row["pid"]: row for row in test.json("ps")}[target.pid]
        test.expect(row["allocator"].startswith("TCMalloc ") and row["in_use_bytes"] > 20 << 20 and
                    "RELEASE_RATE" in row["settings"], f"row {row}")
        others = {row["pid"]: row for row in test.json("ps", "--all")}
        test.expect("glibc" in others[os.getpid()]["allocator"], f"row {others[os.getpid()]}")
        test.expect(f"{target.pid} " in test.ask("ps").stdout, "the table")
        run = test.as_nobody(test.ask, "ps", "--json")
        test.expect(f'"pid":{target.pid},' not in run.stdout and
                    re.fullmatch(r"tcmalloc: \d+ processes could not be read, the last one: .*run this command as .*\n", run.stderr), f"{run}")


if __name__ == "__main__":
    run_test(globals())
