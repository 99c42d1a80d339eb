#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""'tcmalloc leaks' on real programs under load finds what the library's own leak checker finds.

  leaks_test.py PROGRAM COMMAND LIBRARY CHECK_INSIDE [SERVER]

PROGRAM: redis, python, sqlite, or cxx (the server SERVER). The program runs with LIBRARY and CHECK_INSIDE (leaks/check_inside.c)
preloaded. While clients keep it busy, it is checked in turns from outside, from inside, and from outside again. Leaked objects
stay leaked, so each check's objects must be among those of the next one. SERVER leaks objects on request, which must be found.

Exit status: 0, 1, or 77 where the program is not installed.
"""

import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

SKIPPED = 77
ROUNDS = 5
LOST_BYTES = 3000
LOST_OBJECTS = 40
TIMEOUT_S = 60
SEED = 20261126
STATUSES = (0, 4)

PYTHON = """
import json, sys, threading
kept = {}
def work(seed):
    i = 0
    while True:
        i += 1
        key = f"{seed} {i % 1000}"
        kept[key] = json.loads(json.dumps({"key": key, "list": [str(n) for n in range(i % 50)]}))
for seed in range(4):
    threading.Thread(target=work, args=(seed,), daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


class Failed(Exception):
    pass


class Program:
    """A process that makes leak checks from inside on request."""

    options = ()  # of the command

    def __init__(self, library, check_inside, folder, argv, **variables):
        self.name = f"{folder}/inside"
        for end in ("ask", "answer"):
            os.mkfifo(f"{self.name}.{end}")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TCMALLOC_", "HEAP"))}
        self.process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL,
                                        env={**kept, "LD_PRELOAD": f"{library}:{check_inside}", "CHECK_INSIDE": self.name,
                                             **variables})
        self.pid = self.process.pid
        self.stopping = threading.Event()
        self.clients = []

    def load(self, *functions):
        """Calls each function again and again in a thread of its own."""
        def repeat(function):
            try:
                while not self.stopping.is_set():
                    function()
            except (OSError, ValueError):
                if not self.stopping.is_set():
                    raise
        for function in functions:
            self.clients.append(threading.Thread(target=repeat, args=(function,), daemon=True))
            self.clients[-1].start()

    def inside(self):
        """{address: bytes}"""
        pathlib.Path(f"{self.name}.ask").write_bytes(b"?")
        with open(f"{self.name}.answer", encoding="utf-8") as answer:
            *lines, end = answer.read().splitlines()
        if end != "end 0":
            raise Failed(f"the check from inside: {end}")
        return {int(address, 16): int(size) for address, size in map(str.split, lines)}

    def end(self):
        self.stopping.set()
        self.process.kill()
        self.process.wait()


def outside(command, program):
    run = subprocess.run([command, "leaks", str(program.pid), "--json", "--objects", *program.options], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False)
    if run.returncode not in STATUSES:
        raise Failed(f"exit status {run.returncode}: {run.stdout[-1000:]}{run.stderr}")
    report = json.loads(run.stdout)
    if not report["complete"]:
        raise Failed(f"{report['incomplete']}")
    return {address for site in report["sites"] for address in site["addresses"]}, report


class Connection:

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self.file = self.socket.makefile("rb")

    def ask(self, *lines):
        self.socket.sendall("".join(line + "\n" for line in lines).encode())
        return [self.file.readline() for _ in lines]


def start_cxx(start, folder, server):
    program = start([server])
    port = int(program.process.stdout.readline())
    rng = random.Random(SEED)

    def client():
        connection = Connection(port)
        for _ in range(20):
            connection.ask(*(f"{rng.choice(('set', 'get'))} key{rng.randrange(500)} {rng.randrange(5000)}" for _ in range(50)))
    # The server leaks the objects before other threads have had memory at their addresses, which may still be on their stacks.
    # The connection's thread stays, so the words that are still on its stack are the same in all checks.
    program.losing = Connection(port)
    program.losing.ask(*(f"leak {LOST_BYTES}" for _ in range(LOST_OBJECTS)))
    # Other values take the place of the last one.
    for i in range(100):
        program.losing.ask(f"set other{i} 100", f"get other{i}")
    program.load(client, client, client, client)
    return program


def start_python(start, folder, _):
    program = start(["/usr/bin/python3", "-c", PYTHON], PYTHONMALLOC="malloc")
    program.process.stdout.readline()
    return program


def start_sqlite(start, *_):
    # SQLite refers to a page of a database by the header at its end.
    program = start(["sqlite3", ":memory:"], HEAP_CHECK_MAX_POINTER_OFFSET="-1")
    program.options = ("--max-pointer-offset=-1",)
    ask = program.process.stdin.write
    ask(b"create table t(k integer primary key, v text);\n.print ready\n")
    program.process.stdin.flush()
    program.process.stdout.readline()
    rng = random.Random(SEED)

    def work():
        for _ in range(50):
            k = rng.randrange(2000)
            ask(f"insert or replace into t values({k}, '{'x' * rng.randrange(500)}');\n".encode())
        ask(b"select k, group_concat(v) from t group by k % 7 order by v;\n")
        program.process.stdin.flush()
    program.load(work, program.process.stdout.readline)
    return program


def start_redis(start, folder, _):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = start(["redis-server", "--port", str(port), "--save", "", "--dir", folder, "--io-threads", "2"])
    while b"Ready to accept" not in program.process.stdout.readline():
        if program.process.poll() is not None:
            raise Failed("redis-server did not start")
    program.load(lambda: program.process.stdout.readline(),
                 lambda: subprocess.run(["redis-benchmark", "-p", str(port), "-q", "-n", "20000", "-c", "20", "-P", "8",
                                         "-d", "300", "-r", "10000", "-t", "set,get,lpush,lpop,hset,zadd"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False))
    return program


PROGRAMS = {"redis": (start_redis, "redis-server"), "python": (start_python, "/usr/bin/python3"), "cxx": (start_cxx, "true"),
            "sqlite": (start_sqlite, "sqlite3")}


def compare(program, name, command):
    report = None
    for i in range(ROUNDS):
        before, _ = outside(command, program)
        inside = program.inside()
        after, report = outside(command, program)
        for label, less, more in (("outside, not inside", before, inside), ("inside, not outside", inside, after)):
            strange = [f"{address:#x}" for address in less if address not in more]
            if strange:
                raise Failed(f"round {i}: {len(strange)} of {len(less)} objects are leaked only {label}: {strange[:10]}")
        print(f"{name}: {len(before)}, {len(inside)} and {len(after)} objects of {report['objects_in_use']}; "
              f"stopped for {report['stopped_ms']:.1f} ms")
        if name == "cxx":
            lost = sum(size >= LOST_BYTES for size in inside.values())
            if not LOST_OBJECTS - 1 <= lost <= LOST_OBJECTS:
                raise Failed(f"{lost} objects of {LOST_BYTES} bytes are leaked, not {LOST_OBJECTS}")
    if program.process.poll() is not None:
        raise Failed(f"the program ended: {program.process.returncode}")


def main():
    name, command, library, check_inside, *rest = sys.argv[1:]
    # If the preloaded library does not exist, the program runs without it, and then there would be no answer.
    if not pathlib.Path(check_inside).is_file():
        print(f"FAILED: {check_inside} is not built")
        return 1
    starter, needed = PROGRAMS[name]
    if shutil.which(needed) is None:
        print(f"SKIP: {needed} is not installed")
        return SKIPPED
    program = None
    print(f"seed {SEED}")
    with tempfile.TemporaryDirectory() as folder:
        def start(argv, **variables):
            nonlocal program
            program = Program(library, check_inside, folder, argv, **variables)
            return program
        try:
            starter(start, folder, rest[0] if rest else None)
            compare(program, name, command)
        except Failed as failure:
            print(f"FAILED: {name}: {failure}")
            return 1
        finally:
            if program is not None:
                program.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
