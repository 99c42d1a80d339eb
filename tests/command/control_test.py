#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Requests of the tcmalloc command to running processes: flush, release, trim, set, profile --start and --stop.

  control_test.py WHAT COMMAND PROGRAM LIBRARY

  listener   a process with a background thread, busy and idle: each action is carried out at once
  pressure   ... with the thread that listens to memory pressure
  busy       a process without such a thread whose threads allocate, mostly from their caches
  idle       a process without such a thread that does nothing: each request is pending until it allocates
  values     values that a setting cannot have, and what is no setting
  profile    recording allocations is switched on and off
  minimal    the minimal library takes no samples
  stopped    a stopped process: a request is pending until it continues
  traced     a process under a debugger
  fork       a forked child does not carry out the request that was pending in its parent
  ends       a process that ends, or starts another program, before it carries out a request; Ctrl-C withdraws one
  killed     commands that are killed in the middle of a request
  two        several commands at once, also beside a writer that takes no care
  random     10,000 records of random words change nothing
  refused    TCMALLOC_CONTROL=0; without rights; another malloc; files; a library that has no requests
  set_uid    a setuid program
  namespace  a process in namespaces of its own
"""

import json
import os
import pathlib
import random as randomness
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from command_test import SKIPPED, TIMEOUT_S, Target, Test, clean_environment, run_one

PENDING = 6
UNTIL_ALLOCATES = "pending until the process allocates; start it with TCMALLOC_BACKGROUND=1 to have it at once\n"
SEED = 20261125
NUM_RANDOM = 10_000
NUM_KILLED = 100
NUM_DISTURBED = 50
LONGEST_REQUEST_S = 0.02
# Values of the sleep word (src/heap/background_thread.cc).
ASLEEP_UNTIL_FREES, CALLED = 1, 3
NOBODY, OWNER = 65534, 1
REQUESTS = ("flush", "release", "trim", "set")
LONG_WAIT = f"{TIMEOUT_S - 10}s"
ACTIONS = (("flush",), ("release",), ("trim",), ("set", "soft_limit=1002M"))


class Control(Test):

    def ask(self, *arguments, status=0, **options):
        """A request that must be carried out has more time than a user would wait: the process may wait for a processor."""
        patient = status == 0 and arguments[0] in REQUESTS and "--wait" not in arguments
        return super().ask(*arguments, *(("--wait", LONG_WAIT) if patient else ()), status=status, **options)

    def limit(self, pid):
        return self.json("stats", pid)["soft_limit_bytes"]

    def check_actions(self, target):
        """Each action on a process that carries it out."""
        target.tell("free")
        run = self.ask("flush", target.pid)
        self.expect(re.fullmatch(r"process \d+ \(process_command\w*\): [\d.]+ \w+ moved out of caches\n", run.stdout),
                    run.stdout)
        before = self.json("stats", target.pid)
        released = self.json("release", target.pid)
        self.expect(list(released) == ["pid", "released_bytes"] and released["pid"] == target.pid, f"{released}")
        after = self.json("stats", target.pid)
        self.expect(released["released_bytes"] == 0 or after["releases_total"] > before["releases_total"],
                    f"{released} after {before['releases_total']} releases, then {after['releases_total']}")
        trimmed = self.json("trim", target.pid)["released_bytes"]
        self.expect(trimmed > 1 << 20, f"{trimmed} bytes trimmed: the program freed every second object")
        run = self.ask("set", target.pid, "release_rate=10", "soft-limit=1002M", "TCMALLOC_HEAP_LIMIT_MB=1500")
        self.expect(run.stdout == "release_rate: 1 -> 10\nsoft-limit: 0 -> 1050673152\n"
                    "TCMALLOC_HEAP_LIMIT_MB: 0 -> 1500\n", run.stdout)
        found = self.json("set", target.pid, "soft_limit=1003M", "release_rate=0.5")
        self.expect(found == {"pid": target.pid, "settings": [
            {"name": "soft_limit", "before": "1050673152", "after": "1051721728"},
            {"name": "release_rate", "before": "10", "after": "0.5"}]}, f"{found}")
        stats = self.json("stats", target.pid)
        self.expect(stats["soft_limit_bytes"] == 1003 << 20, f"{stats['soft_limit_bytes']}")
        self.expect(target.tell("more 1") == "done\n", "it goes on")


def listener(test):
    with Target(test, TCMALLOC_BACKGROUND="1") as target:
        test.check_actions(target)
    with Target(test) as target:
        target.tell("busy 3")
        test.check_actions(target)
        test.expect(target.tell("rest") == "done\n", "the threads go on")
    # Makes requests at any moment of the thread's work.
    with Target(test, TCMALLOC_BACKGROUND="1") as target:
        for i in range(200):
            test.ask("set", target.pid, f"soft_limit={i + 1001}M")
            if i % 10 == 0:
                target.tell("more 50")
        test.expect(test.limit(target.pid) == 1200 << 20, "the last one")


def pressure(test):
    with Target(test, TCMALLOC_PRESSURE="auto") as target:
        test.check_actions(target)
        target.tell("busy 3")
        test.ask("set", target.pid, "soft_limit=1005M")
        test.expect(test.limit(target.pid) == 1005 << 20, "set while it is busy")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def busy(test):
    with Target(test, TCMALLOC_BACKGROUND="0") as target:
        target.tell("busy 3")
        test.check_actions(target)
        for i in range(50):
            test.ask("set", target.pid, f"soft_limit={i + 1001}M")
        test.expect(test.limit(target.pid) == 1050 << 20, "the last one")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def idle(test):
    for wait_s, environment in ((2, {}), (0.1, {"TCMALLOC_BACKGROUND": "0"})):
        with Target(test, **environment) as target:
            target.tell("wait 2" if environment else "free")
            for command, *arguments in ACTIONS:
                options = [] if wait_s == 2 else ["--wait", f"{wait_s}s"]
                begin = time.monotonic()
                run = test.ask(command, target.pid, *arguments, *options, status=PENDING)
                passed_s = time.monotonic() - begin
                what = " ".join([command, *arguments])
                test.expect(run.stderr == f"tcmalloc: {what}: process {target.pid} ({NAME}): {UNTIL_ALLOCATES}",
                            run.stderr)
                test.expect(passed_s >= wait_s, f"{what}: {passed_s} seconds")
            test.expect(test.limit(target.pid) == 0, "nothing is carried out")
            # Makes one allocation of a size that the thread's cache has.
            target.tell("more 1")
            test.expect(test.limit(target.pid) == 1002 << 20, "carried out by the allocation")
            test.ask("set", target.pid, "soft_limit=1003M", "--wait", "10ms", status=PENDING)
            test.expect(test.limit(target.pid) == 1002 << 20, "pending")


def values(test):
    with Target(test, TCMALLOC_BACKGROUND="1", TCMALLOC_SOFT_LIMIT="1G") as target:
        for setting, reason in (
                ("release_rate=1001", "expected number from 0 to 1000"), ("release_rate=x", "expected number"),
                ("soft_limit=-1", "expected bytes"), ("soft_limit=50%", "a percentage can be set in the environment only"),
                ("nothing=1", "there is no such setting; settings that can be changed: "),
                ("control=0", "it cannot be changed while the process runs; settings that can be changed: "),
                ("memfs_malloc_path=/tmp/x", "it cannot be changed"), ("LD_PRELOAD=x", "there is no such setting"),
                ("soft_limit", "write NAME=VALUE, for example release_rate=10"), ("=3", "write NAME=VALUE"),
                ("soft_limit=" + "1" * 200, "too long")):
            run = test.ask("set", target.pid, setting, status=1)
            test.expect(reason in run.stderr and run.stderr.count("\n") == 1 and run.stderr.startswith("tcmalloc: set "),
                        f"{setting}: {run.stderr}")
        # The settings before an error are changed, those after it are not.
        run = test.ask("set", target.pid, "release_rate=3", "release_rate=-1", "soft_limit=1009M", status=1)
        test.expect(run.stdout == "release_rate: 1 -> 3\n", run.stdout)
        test.expect(test.limit(target.pid) == 1 << 30, "the limit")


def profile(test):
    with Target(test, TCMALLOC_BACKGROUND="1") as target:
        run = test.ask("profile", target.pid, "--stop", status=1)
        test.expect("no profile --start came before" in run.stderr, run.stderr)
        run = test.ask("profile", target.pid, "--start", "--interval", "nothing", status=1)
        test.expect("must be a number of bytes" in run.stderr, run.stderr)
        run = test.ask("profile", target.pid, "--start", "--interval", "20K")
        test.expect(run.stdout == f"process {target.pid} ({NAME}): records allocations; sampling: one sample per 20480 "
                    "bytes, before off\n", run.stdout)
        run = test.ask("profile", target.pid, "--start", status=1)
        test.expect("recorded already" in run.stderr, run.stderr)
        target.tell("more 3000")
        sites = test.json("profile", target.pid, "--type", "allocations")["call_sites"]
        allocated = sum(site["bytes"] for site in sites)
        test.expect(len(sites) >= 2 and 2 << 20 < allocated < 40 << 20, f"{len(sites)} sites, {allocated} bytes")
        found = test.json("profile", target.pid, "--stop")
        test.expect(found == {"pid": target.pid, "recording": False, "sampling_interval_before": "20480",
                              "sampling_interval": "0"}, f"{found}")
        run = test.ask("profile", target.pid, "--type", "allocations", status=1)
        test.expect("tcmalloc profile --start" in run.stderr or "takes no samples" in run.stderr, run.stderr)
        run = test.ask("set", target.pid, "sampling=512K", "guarded_sample=100")
        test.expect(run.stdout == "sampling: 0 -> 524288\nguarded_sample: 0 -> 100\n", run.stdout)
        run = test.ask("profile", target.pid, "--start", "--stop", status=None)
        test.expect(run.returncode != 0 and "exclude" in run.stderr, run.stderr)
    # If every object is sampled, no allocation uses the thread's cache.
    with Target(test, TCMALLOC_BACKGROUND="0", TCMALLOC_SAMPLE_PARAMETER="1") as target:
        test.ask("set", target.pid, "soft_limit=1002M", "--wait", "10ms", status=PENDING)
        target.tell("more 1")
        test.expect(test.limit(target.pid) == 1002 << 20, "every object is sampled")


def minimal(test):
    with Target(test, TCMALLOC_BACKGROUND="1") as target:
        for arguments in (("set", target.pid, "sampling=512K"), ("profile", target.pid, "--start")):
            run = test.ask(*arguments, status=1)
            test.expect("libtcmalloc_minimal takes no samples" in run.stderr and run.stderr.count("\n") == 1, run.stderr)
        run = test.ask("set", target.pid, "guarded_sample=1", status=1)
        test.expect("libtcmalloc_minimal" in run.stderr, run.stderr)
        test.ask("set", target.pid, "sampling=0")


def wait_for(test, condition, what):
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            test.expect(False, what)
            return
        time.sleep(0.01)


def stopped(test):
    for variables, after in (({"TCMALLOC_BACKGROUND": "1"}, "json"), ({}, "more 1")):
        with Target(test, **variables) as target:
            os.kill(target.pid, signal.SIGSTOP)
            os.waitpid(target.pid, os.WUNTRACED)
            run = test.ask("set", target.pid, "soft_limit=1002M", status=PENDING)
            test.expect(run.stderr.endswith(": the process is stopped: pending until it continues\n"), run.stderr)
            test.expect(target.state() == "T" and test.limit(target.pid) == 0, "it stays stopped, and nothing is done")
            os.kill(target.pid, signal.SIGCONT)
            target.tell(after)
            wait_for(test, lambda: test.limit(target.pid) == 1002 << 20, "carried out when it continues")


class Tracer:
    """A process that traces all threads of another one, as a debugger does. The threads keep running."""

    SCRIPT = """
import ctypes, pathlib, sys
libc = ctypes.CDLL(None, use_errno=True)
for task in pathlib.Path(f"/proc/{sys.argv[1]}/task").iterdir():
    if libc.ptrace(0x4206, int(task.name), None, None) != 0:  # PTRACE_SEIZE
        sys.exit("cannot trace")
print("traces", flush=True)
sys.stdin.read()
"""

    def __init__(self, pid):
        self.process = subprocess.Popen([sys.executable, "-c", self.SCRIPT, str(pid)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "traces\n"

    def __enter__(self):
        return self.process.pid

    def __exit__(self, *_):
        self.process.communicate(timeout=TIMEOUT_S)


def traced(test):
    with Target(test, TCMALLOC_BACKGROUND="1", TCMALLOC_RELEASE_RATE="1000") as target:
        record = Record(target.pid)
        test.ask("flush", target.pid)
        wait_for(test, lambda: record.read_word(record.pointer("sleep_word_")) == ASLEEP_UNTIL_FREES, "it sleeps")
        with Tracer(target.pid) as tracer:
            run = test.ask("set", target.pid, "soft_limit=1002M", status=PENDING)
            test.expect(run.stderr.count("\n") == 1 and f": pending: process {target.pid} is traced by process {tracer}, so "
                        "its thread that waits for requests cannot be woken" in run.stderr, run.stderr)
        allocate_and_free(target)
        wait_for(test, lambda: test.limit(target.pid) == 1002 << 20, "carried out when it is woken")
    with Target(test, TCMALLOC_BACKGROUND="0") as target:
        target.tell("busy 2")
        with Tracer(target.pid):
            test.ask("set", target.pid, "soft_limit=1002M")
        test.expect(test.limit(target.pid) == 1002 << 20, "a thread that allocates needs no call")
        test.expect(target.tell("rest") == "done\n", "the threads go on")


def fork(test):
    with Target(test, TCMALLOC_BACKGROUND="0") as target:
        test.ask("set", target.pid, "soft_limit=1002M", "--wait", "10ms", status=PENDING)
        child = int(target.tell("fork_more"))
        test.expect(test.limit(target.pid) == 0, "the parent has not allocated")
        test.expect(test.limit(child) == 0, "the child has carried out its parent's request")
        test.ask("set", child, "soft_limit=1003M", "--wait", "10ms", status=PENDING)
        target.tell("more 1")
        test.expect(test.limit(target.pid) == 1002 << 20, "the parent carries it out")
    with Target(test) as target:  # forks while requests are made
        target.tell("forks")
        for i in range(100):
            test.ask("set", target.pid, f"soft_limit={i + 1001}M")
        test.expect(test.limit(target.pid) == 1100 << 20, "the last one")
        test.expect(target.tell("rest") == "done\n", "it goes on")


def pending_command(test, pid):
    """A command whose request is pending."""
    command = subprocess.Popen([test.command, "set", str(pid), "soft_limit=1002M", "--wait", f"{TIMEOUT_S}s"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment())
    record = Record(pid)
    wait_for(test, lambda: record.word("ticket") != record.taken(), "the request is written")
    return command


def ends(test):
    with Target(test, TCMALLOC_BACKGROUND="0") as target:
        with pending_command(test, target.pid) as command:
            target.process.kill()
            target.process.wait()
            _, text = command.communicate(timeout=TIMEOUT_S)
            test.expect(command.returncode == 1 and text.count("\n") == 1 and
                        f"process {target.pid} ({NAME}) has ended before it carried out the request" in text, text)
    with Target(test, TCMALLOC_BACKGROUND="0") as target:
        with pending_command(test, target.pid) as command:
            target.tell("exec")
            _, text = command.communicate(timeout=TIMEOUT_S)
            test.expect(command.returncode == 1 and text.count("\n") == 1 and
                        f"({NAME}) has started another program before it carried out the request" in text, text)
            test.expect(target.process.poll() is None, "the other program runs")
    with Target(test, TCMALLOC_BACKGROUND="0") as target:
        with pending_command(test, target.pid) as command:
            command.send_signal(signal.SIGINT)
            _, text = command.communicate(timeout=TIMEOUT_S)
            test.expect(command.returncode == 1 and text.count("\n") == 1 and "the request is withdrawn" in text, text)
        target.tell("more 1")
        test.expect(test.limit(target.pid) == 0, "a withdrawn request is not carried out")
        record = Record(target.pid)
        test.expect(record.word("ticket") == record.taken(), "it is not pending any more")


def allocate_and_free(target):
    target.tell("busy 2")
    target.tell("rest")


def killed(test):
    print(f"seed {SEED}")
    source = randomness.Random(SEED)
    for background in ("1", "0"):
        with Target(test, TCMALLOC_BACKGROUND=background) as target:
            target.tell("busy 2")
            for i in range(NUM_KILLED):
                with subprocess.Popen([test.command, "set", str(target.pid), f"soft_limit={i + 1001}M"],
                                      stdout=subprocess.DEVNULL, env=clean_environment()) as command:
                    try:
                        command.wait(source.uniform(0, LONGEST_REQUEST_S))
                    except subprocess.TimeoutExpired:
                        command.kill()
            test.ask("set", target.pid, "soft_limit=1500M")
            test.expect(test.limit(target.pid) == 1500 << 20, "a later request")
            test.expect(target.tell("rest") == "done\n", "the threads go on")
    # The written request stays.
    with Target(test, TCMALLOC_BACKGROUND="0") as target:
        with pending_command(test, target.pid) as command:
            command.kill()
        test.expect(test.limit(target.pid) == 0, "nothing allocates")
        target.tell("more 1")
        test.expect(test.limit(target.pid) == 1002 << 20, "the request of a command that was killed")
    # Killed before it has woken the thread: the thread sees the request when it has work again.
    with Target(test, TCMALLOC_BACKGROUND="1", TCMALLOC_RELEASE_RATE="1000") as target:
        record = Record(target.pid)
        test.ask("flush", target.pid)
        sleep_word = record.pointer("sleep_word_")
        allocate_and_free(target)
        wait_for(test, lambda: record.read_word(sleep_word) == ASLEEP_UNTIL_FREES, "the thread sleeps")
        record.send(b"TCMALLOC_SOFT_LIMIT=1002M")
        record.write(sleep_word, struct.pack("<I", CALLED))
        test.expect(test.limit(target.pid) == 0, "the thread sleeps")
        allocate_and_free(target)
        wait_for(test, lambda: test.limit(target.pid) == 1002 << 20, "the thread carries it out when it is woken")


def two(test):
    with Target(test, TCMALLOC_BACKGROUND="0") as target:
        target.tell("busy 2")
        print(f"seed {SEED}")
        source = randomness.Random(SEED)
        record = Record(target.pid)
        outcomes = set()
        script = f"for i in $(seq {NUM_DISTURBED}); do {test.command} set {target.pid} soft_limit=$((i + 1000))M 2>&1; done"
        with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, env=clean_environment()) as command:
            while command.poll() is None:
                at = source.randrange(0, record.bytes, 4)
                record.write(record.request + at, source.randbytes(4))
            for line in command.stdout.read().splitlines():
                known = re.search(r"soft_limit: \d+ -> (\d+)$|other commands make requests of .* at the same time", line)
                test.expect(known, line)
                test.expect(not known or not known[1] or 1000 < int(known[1]) >> 20 <= 1000 + NUM_DISTURBED, line)
                outcomes.add(bool(known and known[1]))
        print(f"carried out or refused: {outcomes}")
        test.ask("set", target.pid, "soft_limit=1005M")
        test.expect(test.limit(target.pid) == 1005 << 20, "a request that nothing disturbs")
        test.expect(target.tell("rest") == "done\n", "the threads go on")
    for variables in ({"TCMALLOC_BACKGROUND": "1"}, {"TCMALLOC_BACKGROUND": "0"}):
        with Target(test, **variables) as target:
            target.tell("busy 2")
            script = f"for i in $(seq 50); do {test.command} set {target.pid} soft_limit=$((i + $0))M --wait 60s --json " \
                     "|| exit 1; done"
            commands = [subprocess.Popen(["sh", "-c", script, str(base)], stdout=subprocess.PIPE, text=True,
                                         env=clean_environment()) for base in (1000, 1200, 1400)]
            seen = {"0": -1}
            for base, command in zip((1000, 1200, 1400), commands):
                text, _ = command.communicate(timeout=4 * TIMEOUT_S)
                test.expect(command.returncode == 0, "a command failed")
                replies = [json.loads(line)["settings"][0] for line in text.splitlines()]
                test.expect([reply["after"] for reply in replies] ==
                            [str(i + 1 + base << 20) for i in range(50)], "each gets the reply to its own request")
                for reply in replies:
                    seen[reply["before"]] = seen.get(reply["before"], 0) + 1
                    seen[reply["after"]] = seen.get(reply["after"], 0) - 1
            # Each value is the outcome of one request and the former value of the next, except the first and the last.
            left = {value: n for value, n in seen.items() if n != 0}
            last = str(test.limit(target.pid))
            test.expect(left == {last: -1}, f"{left}, and the last is {last}")
            test.expect(target.tell("rest") == "done\n", "the threads go on")


class Record:
    """The record for requests, found as docs/introspection.md says, and written without the command's care."""

    def __init__(self, pid):
        self.memory = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        self.pointer_bytes = 8
        root = self.find_root(pid)
        self.pointer_bytes = struct.unpack("<H", self.read(root + 12, 2))[0]
        self.words = "<8Q" if self.pointer_bytes == 8 else "<8I"
        _, self.layout, layout_bytes, _, heap, *_ = struct.unpack(self.words, self.read(root + 32, 8 * self.pointer_bytes))
        self.text = self.read(self.layout, layout_bytes)
        self.fields = {}
        for line in self.text.decode().rstrip("\0").splitlines():
            words = line.split()
            if not line.startswith((" ", "=")):
                self.fields[words[0]] = structure = {}
            elif line.startswith(" "):
                structure[words[0]] = (int(words[1]), int(words[2]))
        self.control = heap + self.fields["Heap"]["control"][0]
        self.request = self.control + self.fields["Control"]["request_"][0]
        self.bytes = self.fields["Control"]["request_"][1]

    def find_root(self, pid):
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            start, end = (int(word, 16) for word in re.match(r"(\w+)-(\w+)", line).groups())
            if " rw" not in line or "[v" in line:
                continue
            content = self.read(start, end - start)
            for match in re.finditer(rb"TCMROOT\n\x01\0\0\0", content):
                at = start + match.start()
                width = struct.unpack("<H", content[match.start() + 12:match.start() + 14])[0]
                if int.from_bytes(content[match.start() + 32:match.start() + 32 + width], "little") == at:
                    return at
        raise AssertionError("no root")

    def read(self, address, length):
        self.memory.seek(address)
        return self.memory.read(length)

    def write(self, address, content):
        self.memory.seek(address)
        self.memory.write(content)

    def word(self, name):
        return struct.unpack("<I", self.read(self.request + self.fields["ControlRequest"][name][0], 4))[0]

    def read_word(self, address):
        return struct.unpack("<I", self.read(address, 4))[0]

    def pointer(self, name):
        return int.from_bytes(self.read(self.control + self.fields["Control"][name][0], self.pointer_bytes), "little")

    def send(self, text, kind=4, ticket=0x5eed):
        """A request, by default to change a setting, and nothing else."""
        text = text.ljust(self.fields["ControlRequest"]["text"][1], b"\0")
        check = 0xcbf29ce484222325
        for word in (ticket, kind, *struct.unpack(f"<{len(text) // 4}I", text)):
            check = (check ^ word) * 0x100000001b3 % (1 << 64)
        for name, content in (("kind", struct.pack("<I", kind)), ("text", text), ("check", struct.pack("<Q", check)),
                              ("ticket", struct.pack("<I", ticket))):
            self.write(self.request + self.fields["ControlRequest"][name][0], content)

    def taken(self):
        return struct.unpack("<I", self.read(self.control + self.fields["Control"]["taken_"][0], 4))[0]


def random(test):
    print(f"seed {SEED}")
    source = randomness.Random(SEED)
    with Target(test, TCMALLOC_BACKGROUND="0", TCMALLOC_SOFT_LIMIT="1G") as target:
        record = Record(target.pid)
        ticket = record.fields["ControlRequest"]["ticket"][0]
        target.tell("busy 2")
        for i in range(NUM_RANDOM):
            content = bytearray(source.randbytes(record.bytes))
            if i % 4 == 0:  # a request with a wrong check
                kind = record.fields["ControlRequest"]["kind"][0]
                content[kind:kind + 4] = struct.pack("<I", source.randrange(1, 8))
                text = record.fields["ControlRequest"]["text"]
                content[text[0]:text[0] + text[1]] = b"TCMALLOC_SOFT_LIMIT=1002M".ljust(text[1], b"\0")
            if i % 2 == 0:
                record.write(record.request, content)
            else:  # a word at random
                at = source.randrange(0, record.bytes, 4)
                record.write(record.request + at, content[at:at + 4])
                record.write(record.request + ticket, content[:4])
        # A request of the right form is carried out after all this.
        test.expect(test.limit(target.pid) == 1 << 30, "random words changed the limit")
        test.ask("set", target.pid, "release_rate=2")
        test.expect(test.limit(target.pid) == 1 << 30, "random words changed the limit")
        test.check_sums(test.json("stats", target.pid))
        test.expect(target.tell("rest") == "done\n", "the threads go on")
        report = test.json("objects", target.pid)
        test.expect(report["objects"] >= 20000, "objects")


def refused(test):
    def one_line(run, wanted):
        test.expect(run.stderr.count("\n") == 1 and run.stderr.startswith("tcmalloc: ") and wanted in run.stderr and
                    not run.stdout, f"not '{wanted}': {run.stderr}{run.stdout}")

    with Target(test, TCMALLOC_CONTROL="0", TCMALLOC_BACKGROUND="1") as target:
        for command, *arguments in (*ACTIONS, ("profile", "--start"), ("profile", "--stop")):
            run = test.ask(command, target.pid, *arguments, status=1)
            one_line(run, "takes no requests: it was started with TCMALLOC_CONTROL=0")
        test.expect(test.limit(target.pid) == 0, "nothing is carried out")
    with Target(test, TCMALLOC_BACKGROUND="1") as target:
        if os.getuid() == 0:
            with tempfile.TemporaryDirectory() as folder:  # the build may be where only root may look
                os.chmod(folder, 0o755)
                command = shutil.copy(test.command, folder)
                for name, *arguments in ACTIONS:
                    one_line(test.ask(name, target.pid, *arguments, status=1, user="nobody", command=command),
                             "not permitted")
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/snapshot"
            test.ask("snapshot", target.pid, file)
            for name, *arguments in (*ACTIONS, ("profile", "--start")):
                one_line(test.ask(name, file, *arguments, status=1), "needs a running process")
        record = Record(target.pid)
        record.write(record.layout + record.text.index(b"\n control "), b"\n contrxl ")
        one_line(test.ask("flush", target.pid, status=1), "is older than this command")
    with subprocess.Popen(["sleep", "60"], env=clean_environment()) as process:
        wait_for(test, lambda: "/libc.so.6" in pathlib.Path(f"/proc/{process.pid}/maps").read_text(), "libc")
        one_line(test.ask("flush", process.pid, status=1), "runs on glibc's malloc")
        process.kill()
        process.wait()
        one_line(test.ask("flush", process.pid, status=1), "there is no process")


def set_uid(test):
    if os.geteuid() != 0:
        print("SKIP: only root can make a program that belongs to somebody else")
        return SKIPPED
    if "NoNewPrivs:\t1" in pathlib.Path("/proc/self/status").read_text():
        print("SKIP: this process and its children ignore set-uid")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            print(f"SKIP: the file system of {folder} ignores set-uid")
            return SKIPPED
        os.chmod(folder, 0o755)
        test.program = shutil.copy(test.program, folder)
        os.chown(test.program, OWNER, -1)
        os.chmod(test.program, 0o4755)
        prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "TCMALLOC_BACKGROUND=1")
        with Target(test, prefix=prefix) as target:
            wait_for(test, lambda: NAME in pathlib.Path(f"/proc/{target.pid}/comm").read_text(), "the program")
            run = test.ask("flush", target.pid, status=1)
            test.expect("takes no requests: it runs with more privileges than its user (setuid)" in run.stderr, run.stderr)
            test.expect(run.stderr.count("\n") == 1, run.stderr)
    return 0


def namespace(test):
    with tempfile.TemporaryDirectory() as folder:
        script = f"mount -t tmpfs none {folder} && cp {test.library} {folder}/library.so && " \
                 f"exec env TCMALLOC_BACKGROUND=1 LD_PRELOAD={folder}/library.so \"$0\""
        prefix = ("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script)
        allowed = subprocess.run([*prefix[:-3], "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 check=False)
        if allowed.returncode != 0:
            print(f"SKIP: namespaces are not permitted here: {allowed.stdout.strip()}")
            return SKIPPED
        with Target(test, prefix=prefix) as target:
            inner = int(pathlib.Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text())
            for command, *arguments in ACTIONS:
                test.ask(command, inner, *arguments)
            test.expect(test.limit(inner) == 1002 << 20, "the limit")
    return 0


NAME = os.path.basename(sys.argv[3])[:15] if len(sys.argv) > 3 else ""

if __name__ == "__main__":
    sys.exit(run_one(Control, {
        "listener": listener, "pressure": pressure, "busy": busy, "idle": idle, "values": values, "profile": profile,
        "minimal": minimal, "stopped": stopped, "traced": traced, "fork": fork, "ends": ends, "killed": killed, "two": two, "random": random,
        "refused": refused, "set_uid": set_uid, "namespace": namespace}))
