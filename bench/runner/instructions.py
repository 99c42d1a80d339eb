# SPDX-License-Identifier: BSD-3-Clause
"""Instructions that valgrind's callgrind counts in programs of one thread.

No other load of the machine changes the counts, so they show what no time would: one more instruction
in a call. The inputs are small, since counting takes fifty times as long as running. The program is
tied to one processor, because the library's caches depend on the processor.
"""

import dataclasses
import functools
import os
import re
import shutil
import subprocess

from . import process
from .apps import INPUTS
from .process import BenchError, ProcessFailed

TIMEOUT_S = 300
# How often each row is counted on each side: counts differ a little if the library reads the clock.
COUNTS = 2


@dataclasses.dataclass(frozen=True)
class CountedRow:
    name: str
    # A name in the folder of the benchmark programs, or an installed program.
    program: str
    args: tuple
    variables: tuple = ()
    stdin: str = ""

    def missing(self, context):
        if not shutil.which("valgrind"):
            return "valgrind is not installed"
        return "" if self._program(context) else f"{self.program} is not there"

    def _program(self, context):
        own = context.bin_folder / self.program
        return str(own) if own.is_file() else process.find_program(self.program)

    def count(self, allocator, context, processor):
        """All instructions of one run. Those of the program itself are the same on both sides."""
        known = {"{inputs}": INPUTS, "{processor}": processor, "{seed}": context.seed}
        args = [functools.reduce(lambda text, name: text.replace(name, str(known[name])), known,
                                 str(arg)) for arg in self.args]
        command = ["taskset", "--cpu-list", str(processor), "valgrind", "--tool=callgrind",
                   "--callgrind-out-file=/dev/null", self._program(context), *args]
        environment = process.environment_for(
            allocator, dict(variable.split("=", 1) for variable in self.variables))
        with open(INPUTS / self.stdin if self.stdin else os.devnull, "rb") as stdin:
            try:
                result = subprocess.run(command, env=environment, stdin=stdin, text=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                raise ProcessFailed(f"timed out after {TIMEOUT_S} s under callgrind") from None
        if result.returncode != 0:
            raise ProcessFailed(process.describe_status(result.returncode, result.stderr))
        return parse_count(result.stderr)


def parse_count(text):
    """The total in callgrind's closing lines."""
    found = re.search(r"^==\d+== Collected : (\d+)", text, re.MULTILINE)
    if not found:
        raise BenchError(f"callgrind printed no count: {text[-300:]}")
    return int(found.group(1))


def rows():
    """A row with the name of a timed row does the same with less work; the others exist here only."""
    def micro(number, name):
        return CountedRow(f"micro-{name}", "bench_micro", ("child", "{processor}", "{seed}", 100,
                                                           number))

    return [
        *(micro(number, name) for number, name in enumerate(("pair", "burst", "random"))),
        CountedRow("t-test1-1", "t-test1", (1, 1, 50_000, 10_000, 400)),
        CountedRow("threadtest-1", "threadtest", (1, 3, 50_000, 0, 8)),
        CountedRow("vector-growth", "vector-growth", (1, 2, 4, 1)),
        CountedRow("graph", "graph", (20_000, 20_000)),
        CountedRow("containers-1", "containers", (1, 4_000, 1)),
        CountedRow("lru-1", "lru", (1, 8, 50_000)),
        CountedRow("phases-1", "phases", (2, 10, 1)),
        CountedRow("rptest-1", "rptest", (1, 0, 1, 2, 50, 1000, 100, 8, 16_000)),
        CountedRow("large-buffers-1", "large-buffers", (1, 4, 100)),
        # Lua is left out: it computes the seed of its hash tables from addresses and the time.
        CountedRow("perl", "perl", ("{inputs}/hashes.pl", 1), variables=("PERL_HASH_SEED=0",)),
        CountedRow("sqlite", "sqlite3", ("-cmd", ".parameter init", "-cmd",
                                         ".parameter set :rows 3000", ":memory:"),
                   stdin="tables.sql"),
        CountedRow("python", "python3.11", ("-S", "-s", "-c", PYTHON_WORK),
                   variables=("PYTHONMALLOC=malloc", "PYTHONHASHSEED=0")),
    ]


PYTHON_WORK = """\
index = {}
for number in range(20000):
    name = f"node-{number * 7919 % 9973}"
    index.setdefault(name[:8], []).append((number, name))
print(sum(map(len, index.values())))
"""
