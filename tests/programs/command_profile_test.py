# SPDX-License-Identifier: BSD-3-Clause
"""Profiles of the tcmalloc command: Go's pprof and gperftools' must find the functions and bytes that its own report has."""

import json
import os
import pathlib
import re
import subprocess
import tempfile

import pprof_test
from pprof_test import expect

INTERVAL = 65536
HIDDEN = "(anonymous namespace)::Hidden"
HIDDEN_BYTES = 3 << 20


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


def check_readers(arguments, folder):
    with Program(arguments.library, arguments.program) as program:
        program.process.stdout.readline()
        proto, legacy = folder / "profile.pb.gz", folder / "profile.heap"
        for path in (proto, legacy):
            pprof_test.run([arguments.command, "profile", program.pid, "-o", path])
        report = json.loads(pprof_test.run([arguments.command, "profile", program.pid, "--json"]).stdout)
    total = report["estimated_bytes"]
    pprof = pprof_test.build_go_pprof(arguments.tools)
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PPROF_TMPDIR": str(folder)}
    # pprof runs without the program's files, so that all names come from the profile.
    text = pprof_test.run([pprof, "-top", "-unit=B", "-nodefraction=0", "-symbolize=none", proto], env=environment).stdout
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


def main():
    arguments = pprof_test.parse_arguments("library", "command", "program", "tools")
    pprof_test.need(pprof_test.GO, "google-pprof")
    with tempfile.TemporaryDirectory() as folder:
        check_readers(arguments, pathlib.Path(folder))
    print("every reader: the known functions, and the bytes")


if __name__ == "__main__":
    main()
