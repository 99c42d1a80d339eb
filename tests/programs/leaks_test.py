#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""'tcmalloc leaks' on servers under load finds what the library's own leak checker finds.

  leaks_test.py PROGRAM COMMAND LIBRARY CHECK_INSIDE SERVER

PROGRAM: cxx (the server SERVER) or rust (the server of leaks/server.rs). It runs with LIBRARY and CHECK_INSIDE
(leaks/check_inside.c) preloaded. While clients keep it busy, it is checked in turns from outside, from inside, and from
outside again. Leaked objects stay leaked, so each check's objects must be among those of the next one. The servers leak
objects on request, which must be found.

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


class Failed(Exception):
    pass


class Program:
    """A process that makes leak checks from inside on request."""

    def __init__(self, library, check_inside, folder, server):
        self.name = f"{folder}/inside"
        for end in ("ask", "answer"):
            os.mkfifo(f"{self.name}.{end}")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TCMALLOC_", "HEAP"))}
        self.process = subprocess.Popen([server], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env={**kept, "LD_PRELOAD": f"{library}:{check_inside}", "CHECK_INSIDE": self.name})
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
    run = subprocess.run([command, "leaks", str(program.pid), "--json", "--objects"], stdout=subprocess.PIPE,
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


def serve(program):
    port = int(program.process.stdout.readline())
    rng = random.Random(SEED)

    def client():
        connection = Connection(port)
        for _ in range(20):
            connection.ask(*(f"{rng.choice(('set', 'get'))} key{rng.randrange(500)} {rng.randrange(5000)}"
                             for _ in range(50)))
    # The objects are lost before other threads have had memory at their addresses, which may still be on their stacks.
    # The connection's thread stays, so the words that are still on its stack are the same in all checks.
    program.losing = Connection(port)
    lose_objects(program.losing)
    program.load(client, client, client, client)


def lose_objects(connection):
    connection.ask(*(f"leak {LOST_BYTES}" for _ in range(LOST_OBJECTS)))
    # Other values take the place of the last one.
    for i in range(100):
        connection.ask(f"set other{i} 100", f"get other{i}")


def compile_rust(folder):
    source = pathlib.Path(__file__).parent / "leaks" / "server.rs"
    subprocess.run(["rustc", "-O", "--edition", "2021", "-o", f"{folder}/server", source], check=True)
    return f"{folder}/server"


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
        lost = sum(size >= LOST_BYTES for size in inside.values())
        if not LOST_OBJECTS - 1 <= lost <= LOST_OBJECTS:
            raise Failed(f"{lost} objects of {LOST_BYTES} bytes are leaked, not {LOST_OBJECTS}")
    if program.process.poll() is not None:
        raise Failed(f"the program ended: {program.process.returncode}")


def main():
    name, command, library, check_inside, server = sys.argv[1:]
    # A program runs without a preloaded library that is not there, and then nobody would answer.
    if not pathlib.Path(check_inside).is_file():
        print(f"FAILED: {check_inside} is not built")
        return 1
    if name == "rust" and shutil.which("rustc") is None:
        print("SKIP: rustc is not installed")
        return SKIPPED
    print(f"seed {SEED}")
    with tempfile.TemporaryDirectory() as folder:
        program = Program(library, check_inside, folder, compile_rust(folder) if name == "rust" else server)
        try:
            serve(program)
            compare(program, name, command)
        except Failed as failure:
            print(f"FAILED: {name}: {failure}")
            return 1
        finally:
            program.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
