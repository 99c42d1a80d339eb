#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests requests of the tcmalloc command to running processes: flush, release, trim, set, profile
--start and --stop."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import time

import harness
from field_table import FieldTable
from harness import (AT_REST, PENDING, TIMEOUT_S, Skipped, Target, Tracer, children_of, clean_environment, new_folder, run_test, state_of,
                     wait_for_mapping, wait_until)

SEED = 20261125
LONGEST_REQUEST_S = 0.02
# Values of the sleep word (src/process/background_thread.cc).
ASLEEP_UNTIL_FREES, CALLED = 1, 3
NOBODY, OWNER = 65534, 1
REQUESTS = ("flush", "release", "trim", "set")
ACTIONS = (("flush",), ("release",), ("trim",), ("set", "soft_limit=1002M"))
LISTENS = {"TCMALLOC_BACKGROUND": "1"}
MUST_SLEEP = {**LISTENS, "TCMALLOC_RELEASE_RATE": "1000"}


def without_remarks(text):
    """... about the limit of the control group of this machine."""
    return re.sub("; above the control group's limit of .*", "", text)


class Test(harness.Test):

    def ask(self, *arguments, status=0, **options):
        """A request that must be carried out has more time than a user would wait: the process may wait for a processor."""
        patient = status == 0 and arguments[0] in REQUESTS and "--wait" not in arguments
        return super().ask(*arguments, *(("--wait", f"{2 * TIMEOUT_S}s") if patient else ()), status=status, **options)

    def expect_limit(self, pid, mib, what):
        self.expect_equal(self.json("stats", pid)["soft_limit_bytes"], mib << 20, what)

    def wait_for_limit(self, pid, mib, what):
        wait_until(lambda: self.json("stats", pid)["soft_limit_bytes"] == mib << 20, what)

    def leave_pending(self, pid, mib=1002):
        """Makes a request that is not carried out yet."""
        self.ask("set", pid, f"soft_limit={mib}M", "--wait", "10ms", status=PENDING)

    @contextlib.contextmanager
    def pending_command(self, pid):
        """A command whose request is pending."""
        with subprocess.Popen([self.command, "set", str(pid), "soft_limit=1002M", "--wait", f"{TIMEOUT_S}s"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()) as command:
            record = Record(pid)
            wait_until(record.is_pending, "the request is written")
            yield command
            if command.returncode is None:
                _, text = command.communicate(timeout=TIMEOUT_S)
                self.expect(command.returncode in (1, -signal.SIGKILL) and text.count("\n") <= 1, text)
                command.text = text

    def check_actions(self, target):
        """Each action on a process that carries it out."""
        target.tell("free")
        run = self.ask("flush", target.pid)
        self.expect(re.fullmatch(r"process \d+ \(process_command\w*\): [\d.]+ \w+ moved out of caches\n", run.stdout), run.stdout)
        before = self.json("stats", target.pid)
        released = self.json("release", target.pid)
        self.expect_equal((list(released), released["pid"]), (["pid", "released_bytes"], target.pid), "release")
        after = self.json("stats", target.pid)
        self.expect(released["released_bytes"] == 0 or after["releases_total"] > before["releases_total"], f"{released}")
        trimmed = self.json("trim", target.pid)["released_bytes"]
        self.expect(trimmed > 1 << 20, f"{trimmed} bytes trimmed: the program freed every second object")
        run = self.ask("set", target.pid, "release_rate=10", "soft-limit=1002M", "TCMALLOC_HEAP_LIMIT_MB=1500")
        self.expect_equal(without_remarks(run.stdout), "release_rate: 1 -> 10\nsoft-limit: no limit -> 1002.0 MiB\n"
                          "TCMALLOC_HEAP_LIMIT_MB: no limit -> 1.5 GiB (1572864000 bytes)\n", "set")
        found = self.json("set", target.pid, "soft_limit=1003M", "release_rate=0.5")
        for answer in found["settings"]:
            del answer["remark"]
        self.expect_equal(found, {"pid": target.pid, "settings": [
            {"name": "soft_limit", "before": "1050673152", "after": "1051721728"},
            {"name": "release_rate", "before": "10", "after": "0.5"}]}, "set")
        self.expect_limit(target.pid, 1003, "the limit")
        self.expect(target.tell("more 1") == "done\n", "it goes on")


class Record:
    """The record for requests, found as docs/introspection.md says. The test writes to it without
    the precautions of the command."""

    def __init__(self, pid):
        self.memory = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        maps = re.findall(r"^(\w+)-(\w+) rw.*?(\[\w+\])?$", pathlib.Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE)
        runs = [(int(start, 16), int(end, 16) - int(start, 16)) for start, end, name in maps if not name.startswith("[v")]
        self.table = FieldTable(runs, self.read)
        self.control = self.place("Heap", "control", self.table.heap)
        self.request = self.place("Control", "request_", self.control)
        self.bytes = self.table.structures["Control"]["request_"][1]
        self.pointer_bytes = self.table.pointer_bytes

    def place(self, structure, field, address):
        return address + self.table.structures[structure][field][0]

    def read(self, address, length):
        self.memory.seek(address)
        return self.memory.read(length)

    def write(self, address, content):
        self.memory.seek(address)
        self.memory.write(content)

    def number(self, address, length=4):
        return int.from_bytes(self.read(address, length), "little")

    def is_pending(self):
        return self.number(self.place("ControlRequest", "ticket", self.request)) != \
            self.number(self.place("Control", "taken_", self.control))

    def sleep_word(self):
        """Its address."""
        return self.number(self.place("Control", "sleep_word_", self.control), self.pointer_bytes)

    def await_sleep(self):
        wait_until(lambda: self.number(self.sleep_word()) == ASLEEP_UNTIL_FREES, "the thread sleeps")

    def send(self, text, kind=4, ticket=0x5eed):
        """A request, by default to change a setting, and nothing else."""
        text = text.ljust(self.table.structures["ControlRequest"]["text"][1], b"\0")
        check = 0xcbf29ce484222325
        for word in (ticket, kind, *struct.unpack(f"<{len(text) // 4}I", text)):
            check = (check ^ word) * 0x100000001b3 % (1 << 64)
        for name, content in (("kind", struct.pack("<I", kind)), ("text", text), ("check", struct.pack("<Q", check)),
                              ("ticket", struct.pack("<I", ticket))):
            self.write(self.place("ControlRequest", name, self.request), content)


def test_listener(test):
    with Target(test, **LISTENS) as target:
        test.check_actions(target)
        # Makes requests at any moment of the thread's work.
        for i in range(200):
            test.ask("set", target.pid, f"soft_limit={i + 1001}M")
            if i % 10 == 0:
                target.tell("more 50")
        test.expect_limit(target.pid, 1200, "the last one")
    with Target(test) as target:
        target.tell("busy 3")
        test.check_actions(target)
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def test_pressure(test):
    with Target(test, TCMALLOC_PRESSURE="auto") as target:
        test.check_actions(target)
        target.tell("busy 3")
        test.ask("set", target.pid, "soft_limit=1005M")
        test.expect_limit(target.pid, 1005, "set while it is busy")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def test_busy(test):
    with Target(test, **AT_REST) as target:
        target.tell("busy 3")
        test.check_actions(target)
        for i in range(50):
            test.ask("set", target.pid, f"soft_limit={i + 1001}M")
        test.expect_limit(target.pid, 1050, "the last one")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def test_idle(test):
    # By default the command waits for two seconds.
    for wait_s, options, environment in ((2, (), {}), (0.1, ("--wait", "0.1s"), AT_REST)):
        with Target(test, **environment) as target:
            target.tell("wait 2" if environment else "free")
            for action in ACTIONS:
                begin = time.monotonic()
                test.fails(action[0], target.pid, *action[1:], *options, status=PENDING, words=(
                    f"tcmalloc: {' '.join(action)}: process {target.pid} (", "pending until the process allocates; "
                    "start it with TCMALLOC_BACKGROUND=1 to have it at once\n"))
                test.expect(time.monotonic() - begin >= wait_s, f"{action}: it waits")
            test.expect_limit(target.pid, 0, "nothing is carried out")
            # Makes one allocation of a size that the thread's cache has.
            target.tell("more 1")
            test.expect_limit(target.pid, 1002, "carried out by the allocation")
            test.leave_pending(target.pid, 1003)
            test.expect_limit(target.pid, 1002, "pending")


def test_values(test):
    changed = {"aggressive_decommit": "1", "guarded_sample": "7", "heap_limit_mb": "1900", "large_alloc_report_threshold": "5000000",
               "max_total_thread_cache_bytes": "8000000", "release_rate": "0.5", "retention": "0", "sampling": "0",
               "soft_limit": "1058013184"}
    start = {"TCMALLOC_SOFT_LIMIT": "1G", "TCMALLOC_SMALL": "1", "TCMALLOC_GUARDED_SAMPLE": "5"}
    with Target(test, **LISTENS, **start) as target:
        test.expect_equal(test.json("stats", target.pid)["settings_set_while_running"], {}, "values of the start")
        test.ask("set", target.pid, *(f"{name}={value}" for name, value in changed.items()))
        test.expect_equal(test.json("stats", target.pid)["settings_set_while_running"], changed, "values now")
        words = "=1G retention=0 (set while running) sampling=off (set while running) soft_limit=1009.0 MiB (set while running)\n"
        for command in (("stats", target.pid), ("doctor", target.pid), ("ps",)):
            text = re.sub(r" aggr.*release_rate=0.5 .set while running.", "", test.ask(*command).stdout)
            test.expect(words in re.sub("=1G .*? retention", "=1G retention", text), f"{command}: {text}")
        run = test.ask("set", target.pid, "soft_limit=9M", "soft_limit=50%", "soft_limit=1G")
        test.expect(re.fullmatch(
            r"soft_limit: 1009.0 MiB -> 9.0 MiB; the program already holds [\d.]+ MiB\n"
            r"soft_limit: 9.0 MiB -> (50%, off: no limit was found|50% \([^)]*\))\nsoft_limit: \1 -> 1.0 GiB\n",
            without_remarks(run.stdout)), run.stdout)
    with Target(test, **LISTENS, TCMALLOC_SOFT_LIMIT="1G") as target:
        test.fails("set", target.pid, words="for example 'tcmalloc set PID soft_limit=2G'")
        for setting, reason in (
                ("release_rate=1001", "expected number from 0 to 1000"), ("release_rate=x", "expected number"),
                ("soft_limit=-1", "expected bytes"), ("soft_limit=101%", "expected bytes"),
                ("nothing=1", "there is no such setting; settings that can be changed: aggressive_decommit, guarded_sample, "),
                ("LD_PRELOAD=x", ", sampling, soft_limit\n"),
                ("control=0", "it cannot be changed while the process runs; settings that can be changed: "),
                ("soft_limit", "write NAME=VALUE, for example release_rate=10"), ("=3", "write NAME=VALUE"),
                ("soft_limit=" + "1" * 200, "too long")):
            test.fails("set", target.pid, setting, words=reason)
        # The settings before an error are changed, those after it are not.
        run = test.ask("set", target.pid, "release_rate=3", "release_rate=-1", "soft_limit=1009M", status=1)
        test.expect_equal(run.stdout, "release_rate: 1 -> 3\n", "before the error")
        test.expect_limit(target.pid, 1024, "after the error")


def test_profile(test):
    with Target(test, **LISTENS) as target:
        test.fails("profile", target.pid, "--stop", words="no profile --start came before")
        test.fails("profile", target.pid, "--start", "--interval", "nothing", words="must be a number of bytes")
        run = test.ask("profile", target.pid, "--start", "--interval", "20K")
        test.expect("): records allocations; sampling: one sample per 20.0 KiB, before off\n" in run.stdout, run.stdout)
        test.fails("profile", target.pid, "--start", words="recorded already")
        target.tell("more 3000")
        sites = test.json("profile", target.pid, "--type", "allocations")["call_sites"]
        allocated = sum(site["bytes"] for site in sites)
        test.expect(len(sites) >= 2 and 2 << 20 < allocated < 40 << 20, f"{len(sites)} sites, {allocated} bytes")
        test.expect_equal(test.json("profile", target.pid, "--stop"), {
            "pid": target.pid, "recording": False, "sampling_interval_before": "20480", "sampling_interval": "0"}, "--stop")
        run = test.ask("set", target.pid, "sampling=512K", "guarded_sample=100")
        test.expect_equal(run.stdout, "sampling: off -> 512.0 KiB\nguarded_sample: 0 -> 100\n", "set")
        # What was allocated before has no samples.
        text = test.ask("profile", target.pid).stdout
        test.expect(re.search(r"\nOnly what was allocated .*: about [\d.]+ \w+ of the 4\d.\d MiB that the program holds. ", text), text)
    # If every object is sampled, no allocation uses the thread's cache.
    with Target(test, **AT_REST, TCMALLOC_SAMPLE_PARAMETER="1") as target:
        test.leave_pending(target.pid)
        target.tell("more 1")
        test.expect_limit(target.pid, 1002, "every object is sampled")


def test_stopped(test):
    for variables, after in ((LISTENS, "json"), ({}, "more 1")):
        with Target(test, **variables) as target:
            os.kill(target.pid, signal.SIGSTOP)
            os.waitpid(target.pid, os.WUNTRACED)
            test.fails("set", target.pid, "soft_limit=1002M", status=PENDING,
                       words=": the process is stopped: pending until it continues\n")
            test.expect_equal(state_of(target.pid), "T", "it stays stopped")
            test.expect_limit(target.pid, 0, "nothing is done")
            os.kill(target.pid, signal.SIGCONT)
            target.tell(after)
            test.wait_for_limit(target.pid, 1002, "carried out when it continues")


def allocate_and_free(target):
    target.tell("busy 2")
    target.tell("rest")


def test_traced(test):
    with Target(test, **MUST_SLEEP) as target:
        test.ask("flush", target.pid)
        Record(target.pid).await_sleep()
        with Tracer(target.pid) as tracer:
            test.fails("set", target.pid, "soft_limit=1002M", status=PENDING, words=(
                f": pending: process {target.pid} is traced by process {tracer}, so its thread that waits for requests cannot be woken"))
        allocate_and_free(target)
        test.wait_for_limit(target.pid, 1002, "carried out when it is woken")
    with Target(test, **AT_REST) as target:
        target.tell("busy 2")
        with Tracer(target.pid):
            test.ask("set", target.pid, "soft_limit=1002M")
        test.expect_limit(target.pid, 1002, "a thread that allocates needs no call")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def test_fork(test):
    with Target(test, **AT_REST) as target:
        test.leave_pending(target.pid)
        child = int(target.tell("fork 1000"))
        test.expect_limit(target.pid, 0, "the parent has not allocated")
        test.expect_limit(child, 0, "the child has carried out its parent's request")
        test.leave_pending(child, 1003)
        target.tell("more 1")
        test.expect_limit(target.pid, 1002, "the parent carries it out")
    with Target(test) as target:  # forks while requests are made
        target.tell("forks 1")
        for i in range(100):
            test.ask("set", target.pid, f"soft_limit={i + 1001}M")
        test.expect_limit(target.pid, 1100, "the last one")
        test.expect(target.tell("rest") == "done\n", "it goes on")


def test_ends(test):
    def kill(command, target):
        target.process.kill()
        target.process.wait()

    for end, words in ((kill, "has ended before it carried out the request"),
                       (lambda command, target: target.tell("exec"), "has started another program before it carried out the request")):
        with Target(test, **AT_REST) as target:
            with test.pending_command(target.pid) as command:
                end(command, target)
            test.expect(words in command.text, command.text)
    with Target(test, **AT_REST) as target:
        with test.pending_command(target.pid) as command:
            command.send_signal(signal.SIGINT)
        test.expect("the request is withdrawn" in command.text, command.text)
        target.tell("more 1")
        test.expect_limit(target.pid, 0, "a withdrawn request is not carried out")
        test.expect(not Record(target.pid).is_pending(), "it is not pending any more")


def test_killed(test):
    print(f"seed {SEED}")
    source = random.Random(SEED)
    for variables in (LISTENS, AT_REST):
        with Target(test, **variables) as target:
            target.tell("busy 2")
            for i in range(100):
                with subprocess.Popen([test.command, "set", str(target.pid), f"soft_limit={i + 1001}M"],
                                      stdout=subprocess.DEVNULL, env=clean_environment()) as command:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        command.wait(source.uniform(0, LONGEST_REQUEST_S))
                    command.kill()
            test.ask("set", target.pid, "soft_limit=1500M")
            test.expect_limit(target.pid, 1500, "a later request")
            test.expect(target.tell("rest") == "done\n", "the threads go on")
    # The written request stays.
    with Target(test, **AT_REST) as target:
        with test.pending_command(target.pid) as command:
            command.kill()
        test.expect_limit(target.pid, 0, "nothing allocates")
        target.tell("more 1")
        test.expect_limit(target.pid, 1002, "the request of a command that was killed")
    # Killed before it has woken the thread: the thread sees the request when it has work again.
    with Target(test, **MUST_SLEEP) as target:
        record = Record(target.pid)
        test.ask("flush", target.pid)
        allocate_and_free(target)
        record.await_sleep()
        record.send(b"TCMALLOC_SOFT_LIMIT=1002M")
        record.write(record.sleep_word(), struct.pack("<I", CALLED))
        test.expect_limit(target.pid, 0, "the thread sleeps")
        allocate_and_free(target)
        test.wait_for_limit(target.pid, 1002, "the thread carries it out when it is woken")


def test_two(test):
    bases = (1000, 1200, 1400)
    script = f"for i in $(seq 50); do {test.command} set $1 soft_limit=$((i + $0))M --wait {2 * TIMEOUT_S}s --json || exit 1; done"
    for variables in (LISTENS, AT_REST):
        with Target(test, **variables) as target:
            target.tell("busy 2")
            commands = [subprocess.Popen(["sh", "-c", script, str(base), str(target.pid)], stdout=subprocess.PIPE, text=True,
                                         env=clean_environment()) for base in bases]
            seen = {"0": -1}
            for base, command in zip(bases, commands):
                text, _ = command.communicate()
                test.expect_equal(command.returncode, 0, "a command's status")
                replies = [json.loads(line)["settings"][0] for line in text.splitlines()]
                test.expect_equal([int(reply["after"]) >> 20 for reply in replies], [i + 1 + base for i in range(50)],
                                  "each gets the reply to its own request")
                for reply in replies:
                    seen[reply["before"]] = seen.get(reply["before"], 0) + 1
                    seen[reply["after"]] = seen.get(reply["after"], 0) - 1
            # Each value is the outcome of one request and the former value of the next, except the first and the last.
            last = str(test.json("stats", target.pid)["soft_limit_bytes"])
            test.expect_equal({value: n for value, n in seen.items() if n != 0}, {last: -1}, "the values")
            test.expect(target.tell("rest") == "done\n", "the threads go on")


def test_random(test):
    print(f"seed {SEED}")
    source = random.Random(SEED)
    with Target(test, **AT_REST, TCMALLOC_SOFT_LIMIT="1G") as target:
        record = Record(target.pid)
        fields = record.table.structures["ControlRequest"]
        (kind, *_), (text, text_bytes, _), (ticket, *_) = fields["kind"], fields["text"], fields["ticket"]
        target.tell("busy 2")
        for i in range(10_000):
            content = bytearray(source.randbytes(record.bytes))
            if i % 4 == 0:  # a request with a wrong check
                content[kind:kind + 4] = struct.pack("<I", source.randrange(1, 8))
                content[text:text + text_bytes] = b"TCMALLOC_SOFT_LIMIT=1002M".ljust(text_bytes, b"\0")
            if i % 2 == 0:
                record.write(record.request, content)
            else:  # a word at random
                at = source.randrange(0, record.bytes, 4)
                record.write(record.request + at, content[at:at + 4])
                record.write(record.request + ticket, content[:4])
        # A request of the right form is carried out after all this.
        test.ask("set", target.pid, "release_rate=2")
        test.expect_limit(target.pid, 1024, "random words changed the limit")
        test.check_sums(test.json("stats", target.pid))
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def test_refused(test):
    with Target(test, **LISTENS, TCMALLOC_CONTROL="0") as target:
        for command, *arguments in (*ACTIONS, ("profile", "--start"), ("profile", "--stop")):
            test.fails(command, target.pid, *arguments, words="takes no requests: it was started with TCMALLOC_CONTROL=0")
        test.expect_limit(target.pid, 0, "nothing is carried out")
    with subprocess.Popen(["sleep", "60"], env=clean_environment()) as process:
        wait_for_mapping(process.pid, "/libc.so.6")
        test.fails("flush", process.pid, words="runs on glibc's malloc")
        process.kill()
        process.wait()
        test.fails("flush", process.pid, words="there is no process")
    with Target(test, **LISTENS) as target:
        with new_folder() as folder:
            test.ask("snapshot", target.pid, folder / "snapshot")
            test.fails("flush", folder / "snapshot", words="needs a running process")
        for name, *arguments in ACTIONS if os.geteuid() == 0 else ():
            test.fails_as_nobody(name, target.pid, *arguments, words="not permitted")
        record = Record(target.pid)
        record.write(record.table.layout + record.table.text.index(b"\n control "), b"\n contrxl ")
        test.fails("flush", target.pid, words="is older than this command")


def test_set_uid(test):
    harness.needs_root()
    if "NoNewPrivs:\t1" in pathlib.Path("/proc/self/status").read_text():
        raise Skipped("this process and its children ignore set-uid")
    with new_folder() as folder:
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            raise Skipped(f"the file system of {folder} ignores set-uid")
        test.program = shutil.copy(test.program, folder)
        os.chown(test.program, OWNER, -1)
        os.chmod(test.program, 0o4755)
        prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "TCMALLOC_BACKGROUND=1")
        with Target(test, prefix=prefix) as target:
            test.fails("flush", target.pid, words="takes no requests: it runs with more privileges than its user (setuid)")


def test_namespace(test):
    prefix = harness.namespace("--pid", "--mount", "--mount-proc")
    with new_folder() as folder:
        script = f"mount -t tmpfs none {folder} && cp {test.library} {folder}/library.so && " \
                 f"exec env TCMALLOC_BACKGROUND=1 LD_PRELOAD={folder}/library.so \"$0\""
        with Target(test, prefix=(*prefix, "sh", "-c", script)) as target:
            inner, = children_of(target.pid)
            for command, *arguments in ACTIONS:
                test.ask(command, inner, *arguments)
            test.expect_limit(inner, 1002, "the limit")
            program, *rest = harness.namespace("--mount")
            test.fails(*rest, "sh", "-c", f"mount -o remount,bind,ro /proc && exec {test.command} flush {inner}", command=program,
                       words="/proc is mounted read-only here")


if __name__ == "__main__":
    run_test(globals(), Test)
