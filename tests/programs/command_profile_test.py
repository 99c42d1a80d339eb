# SPDX-License-Identifier: BSD-3-Clause
"""Profiles of the tcmalloc command: real programs, and what other programs read in them.

Go's pprof and gperftools' must find the functions and bytes that the command's own report has. In
redis-server and python3, as Debian packages them, the command must find known functions.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import pprof_test

SKIPPED = 77
INTERVAL = 65536
HIDDEN = "(anonymous namespace)::Hidden"
HIDDEN_BYTES = 3 << 20


class Failure(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failure(message)


class Program:
    """A program on the library, which takes samples."""

    def __init__(self, library, *argv, **variables):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("TCMALLOC_", "LD_PRELOAD", "DEBUGINFOD"))}
        self.process = subprocess.Popen(
            [*map(str, argv)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**kept, "LD_PRELOAD": str(library), "TCMALLOC_SAMPLE_PARAMETER": str(INTERVAL), **variables})
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def functions_of(command, pid):
    report = json.loads(pprof_test.run([command, "profile", str(pid), "--json"]).stdout)
    return report, {frame["function"] for site in report["call_sites"] for frame in site["frames"]}


def check_readers(arguments, folder):
    with Program(arguments.library, arguments.program) as program:
        program.process.stdout.readline()
        proto, legacy = folder / "profile.pb.gz", folder / "profile.heap"
        for path in (proto, legacy):
            pprof_test.run([arguments.command, "profile", program.pid, "-o", path])
        report, _ = functions_of(arguments.command, program.pid)
    total = report["estimated_bytes"]
    pprof = pprof_test.build_go_pprof(arguments.tools)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PPROF_TMPDIR": str(folder)}
    # pprof runs without the program's files, so that all names come from the profile.
    text = pprof_test.run([pprof, "-top", "-unit=B", "-nodefraction=0", "-symbolize=none", proto],
                          env=environment).stdout
    found = int(re.search(r"of (\d+)B total", text)[1])
    expect(abs(found - total) <= len(report["call_sites"]), f"pprof: {found} bytes, not {total}\n{text}")
    expect(re.search(rf"^ *{HIDDEN_BYTES}B .* {re.escape(HIDDEN)}$", text, re.MULTILINE), text)
    expect(re.search(r"shop::Store\S*::Put \(inline\)", text), text)
    text = pprof_test.run([pprof, "-top", "-unit=B", "-nodefraction=0", "-symbolize=local",
                           arguments.program, legacy], env=environment).stdout
    expect(re.search(rf"^ *{HIDDEN_BYTES}B .*Hidden$", text, re.MULTILINE), text)
    text = pprof_test.run(["google-pprof", "--text", "--show_bytes", "--nodefraction=0",
                           arguments.program, legacy], env=environment).stdout
    expect(re.search(rf"^ *{HIDDEN_BYTES} .*Hidden", text, re.MULTILINE), text)


def wait_for_port(port):
    for _ in range(600):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.1)
    raise Failure("redis-server does not answer")


def check_redis(arguments, folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Program(arguments.library, "redis-server", "--port", port, "--save", "", "--dir", folder) as program:
        connection = wait_for_port(port)
        for key in range(20):
            lines = "".join(f"*3\r\n$3\r\nSET\r\n$10\r\nkey{key:02}{i:05}\r\n$300\r\n{'x' * 300}\r\n"
                            for i in range(1000))
            connection.sendall(lines.encode())
            answers = 0
            while answers < 1000:
                answers += connection.recv(1 << 16).count(b"\n")
        report, functions = functions_of(arguments.command, program.pid)
        connection.close()
    expect(report["estimated_bytes"] > 3 << 20, f"redis-server: {report['estimated_bytes']} bytes")
    for wanted in ("createStringObject", "processInputBuffer", "readQueryFromClient", "aeMain", "main"):
        expect(wanted in functions, f"redis-server: no {wanted} in {sorted(functions)}")
    largest = report["call_sites"][0]
    expect("alloc" not in largest["name"], f"redis-server: the largest call site is {largest['name']}")


def check_python(arguments):
    code = "kept = [[i] for i in range(100000)]; print('ready', flush=True); input()"
    with Program(arguments.library, "/usr/bin/python3", "-c", code, PYTHONMALLOC="malloc") as program:
        program.process.stdout.readline()
        _, functions = functions_of(arguments.command, program.pid)
    for wanted in ("_PyEval_EvalFrameDefault", "PyEval_EvalCode", "PyRun_SimpleStringFlags", "Py_BytesMain",
                   "_start"):
        expect(wanted in functions, f"python3: no {wanted} in {sorted(functions)}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("library", "command", "program", "tools"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    needed = (pprof_test.GO, "google-pprof", "redis-server", "/usr/bin/python3")
    missing = [name for name in needed if not shutil.which(name) and not os.path.isfile(name)]
    if missing:
        print(f"SKIP: not installed: {', '.join(missing)} (scripts/setup.sh test)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        check_readers(arguments, pathlib.Path(folder))
        check_redis(arguments, folder)
    check_python(arguments)
    print("every reader and every program: the known functions, and the bytes")


if __name__ == "__main__":
    main()
