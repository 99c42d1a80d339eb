#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The first program of the emulated machine of test_many_cpus.py: mounts what Linux programs expect, runs the workloads that
/plan.json names, and switches the machine off.

Prints a line "##RESULT {...}" for each workload, and "##END". A workload fails if a program ends with the wrong status or takes
too long, and if the kernel reports trouble meanwhile.
"""

import collections
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

SEED = 20261126
MOUNTS = (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/dev/shm"), ("tmpfs", "/tmp"),
          ("cgroup2", "/sys/fs/cgroup"))
CPUS = pathlib.Path("/sys/devices/system/cpu")
NODES = pathlib.Path("/sys/devices/system/node")
GROUP = pathlib.Path("/sys/fs/cgroup/tested")
# Kernel messages that the workloads do not cause on purpose.
TROUBLE = re.compile(r"BUG|WARNING|Oops|general protection|traps:|segfault|Call Trace|Out of memory|Killed process|blocked for more"
                     r"|refused|corrupt|\bbad\b.*(page|map)")
SYS_FUTEX = "202"
BETWEEN_LOOKS_S = 20
MOST_WORDS = 5


def text(output):
    return (output or b"").decode(errors="replace")


def ranges(numbers):
    return ",".join(map(str, sorted(numbers)))


def look(pid):
    """The states of a process's threads, how often each was switched, the words that they wait for (futex), and their values."""
    states, waiters, switches, words = collections.Counter(), collections.Counter(), {}, {}
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            states[f"{state} {(task / 'wchan').read_text()}"] += 1
            system_call = (task / "syscall").read_text().split()
            switches[task.name] = sum(map(int, re.findall(r"ctxt_switches:\s*(\d+)", (task / "status").read_text())))
        except OSError:
            continue  # it has ended
        if system_call[0] == SYS_FUTEX:
            waiters[int(system_call[1], 16)] += 1
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for address in waiters:
            try:
                words[address] = int.from_bytes(os.pread(memory.fileno(), 4, address), "little")
            except OSError:
                pass  # it was unmapped
    return {"states": states, "waiters": waiters, "switches": switches, "words": words}


class Failed(Exception):
    pass


class Workloads:
    """A method for each kind. They return what the report says about a workload that passed."""

    def __init__(self, plan):
        self.plan = plan
        self.random = random.Random(SEED)
        self.cpus = sorted(int(path.name[3:]) for path in CPUS.glob("cpu[0-9]*"))

    def environment(self, test):
        return {**os.environ, **test.get("environment", {})}

    def start(self, test):
        """Starts a program that runs until the end of its stdin, and waits until it works."""
        process = subprocess.Popen(test["command"], env=self.environment(test), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        lines = []
        for line in process.stdout:
            lines.append(text(line))
            if text(line).strip() == test["ready"]:
                return process, lines
        raise Failed(f"ended with {process.wait()}:\n{''.join(lines)}")

    def finish(self, process, lines, deadline):
        try:
            output, _ = process.communicate(timeout=max(1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired as late:
            raise Failed(f"does not end\n{''.join(lines)}{text(late.stdout)}{self.two_looks(process.pid)}") from None
        finally:
            process.kill()
        output = "".join(lines) + text(output)
        if process.returncode != 0:
            raise Failed(f"ended with {process.returncode}:\n{output}")
        return output

    @staticmethod
    def two_looks(pid):
        """Shows what changes within some seconds, which distinguishes a slow machine from threads
        that are stuck."""
        first = look(pid)
        time.sleep(BETWEEN_LOOKS_S)
        second = look(pid)
        switched = sum(count != second["switches"].get(task, count) for task, count in first["switches"].items())
        lines = [", ".join(f"{count} threads {state}" for state, count in second["states"].most_common()),
                 f"{switched} of {len(first['switches'])} threads were switched within {BETWEEN_LOOKS_S} s"]
        for address, count in second["waiters"].most_common(MOST_WORDS):
            values = [f"{seen['words'].get(address, 0):#x}" for seen in (first, second)]
            lines.append(f"{count} threads wait for the word at {address:#x}, which was {values[0]}, then {values[1]}")
        return "\n".join(lines)

    def program(self, test, deadline):
        """A program that runs to its end."""
        process = subprocess.Popen(test["command"], env=self.environment(test), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return self.finish(process, [], deadline)

    def changes(self, test, deadline, change):
        """A program that works meanwhile. `change` returns a word about what it changed."""
        process, lines = self.start(test)
        done = []
        end = time.monotonic() + test["seconds"]
        while time.monotonic() < end:
            if process.poll() is not None:
                raise Failed(f"ended with {process.returncode} after {len(done)} changes:\n{''.join(lines)}"
                             + text(process.stdout.read()))
            done.append(change(process))
        return done, self.finish(process, lines, deadline)

    def hotplug(self, test, deadline):
        """CPUs go offline and come back. The first one has to stay."""
        online = set(self.cpus)

        def change(_):
            # Sometimes few CPUs are online and sometimes many, and each CPU is online at some time.
            cpu = self.random.choice(self.cpus[1:])
            wanted = cpu not in online
            (CPUS / f"cpu{cpu}" / "online").write_text(str(int(wanted)))
            (online.add if wanted else online.remove)(cpu)
            return len(online)

        try:
            counts, output = self.changes(test, deadline, change)
        finally:
            for cpu in self.cpus[1:]:
                (CPUS / f"cpu{cpu}" / "online").write_text("1")
        return f"{len(counts)} changes, from {min(counts)} to {max(counts)} CPUs online\n" + output

    def cpusets(self, test, deadline):
        """The CPUs and memory nodes that a group may use change."""
        (GROUP.parent / "cgroup.subtree_control").write_text("+cpuset")
        GROUP.mkdir(exist_ok=True)
        nodes = [int(path.name[4:]) for path in NODES.glob("node[0-9]*")]

        def change(process):
            (GROUP / "cgroup.procs").write_text(str(process.pid))
            count = self.random.choice((1, 2, len(self.cpus) // 4, len(self.cpus)))
            allowed = self.random.sample(self.cpus, count)
            (GROUP / "cpuset.cpus").write_text(ranges(allowed))
            (GROUP / "cpuset.mems").write_text(ranges(self.random.sample(nodes, self.random.randint(1, len(nodes)))))
            # Threads of the process move themselves, too. A cpuset overrides what the threads
            # request.
            for task in self.random.sample(os.listdir(f"/proc/{process.pid}/task"), 1):
                try:
                    os.sched_setaffinity(int(task), self.random.sample(self.cpus, max(1, len(self.cpus) // 2)))
                except (ProcessLookupError, OSError):
                    pass  # the thread has ended, or all of these CPUs are forbidden
            time.sleep(0.05)
            return count

        counts, output = self.changes(test, deadline, change)
        return f"{len(counts)} changes, {min(counts)} to {max(counts)} CPUs allowed, {len(nodes)} nodes\n" + output

    def looks(self, test, deadline):
        """The tcmalloc command looks at a process that works."""
        process, lines = self.start(test)
        seen = []
        for arguments in test["looks"]:
            arguments = [word.replace("PID", str(process.pid)) for word in arguments]
            begin = time.monotonic()
            try:
                done = subprocess.run([self.plan["command"], *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=max(1, deadline - begin))
            except subprocess.TimeoutExpired as late:
                raise Failed(f"{' '.join(arguments)} does not end: {text(late.stdout)}") from None
            output = text(done.stdout)
            if done.returncode != 0:
                raise Failed(f"{' '.join(arguments)} ended with {done.returncode}:\n{output}")
            stopped = re.findall(r"stopped for .*", output)
            seen.append(f"{' '.join(arguments)}: {(stopped or output.splitlines() or ['no output'])[-1].strip()}")
        return "\n".join(seen) + "\n" + self.finish(process, lines, deadline)


def kernel_trouble(messages):
    """The messages of the kernel since the last call that match TROUBLE."""
    found = []
    while True:
        try:
            record = os.read(messages, 8192)
        except BlockingIOError:
            return found
        except BrokenPipeError:  # some were overwritten
            continue
        line = text(record).partition(";")[2].splitlines()[0]
        if TROUBLE.search(line):
            found.append(line)


def report(line):
    sys.stdout.write(f"\n{line}\n")
    sys.stdout.flush()


def main():
    for kind, folder in MOUNTS:
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["/usr/bin/mount", "-t", kind, kind, folder], check=True)
    os.environ.update({"PATH": "/usr/bin:/bin", "HOME": "/tmp"})
    plan = json.loads(pathlib.Path("/plan.json").read_text())
    workloads = Workloads(plan)
    messages = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    trouble = kernel_trouble(messages)
    report("##MACHINE " + json.dumps({
        "cpus": len(os.sched_getaffinity(0)), "nodes": len(list(NODES.glob("node[0-9]*"))),
        "kernel": os.uname().release, "trouble": trouble}))
    for test in plan["tests"]:
        begin = time.monotonic()
        try:
            output, passed = getattr(workloads, test["kind"])(test, begin + test["timeout"]), True
        except (Failed, OSError, subprocess.SubprocessError) as failure:
            output, passed = f"{type(failure).__name__}: {failure}", False
        trouble = kernel_trouble(messages)
        if trouble:
            output, passed = output + "\nthe kernel says:\n" + "\n".join(trouble), False
        report("##RESULT " + json.dumps({"name": test["name"], "passed": passed, "output": output[-8000:],
                                         "seconds": round(time.monotonic() - begin, 1)}))
    report("##END")


if __name__ == "__main__":
    try:
        main()
    finally:
        # A reset ends QEMU, which was told not to boot again.
        pathlib.Path("/proc/sysrq-trigger").write_text("b")
