# SPDX-License-Identifier: BSD-3-Clause
"""Real programs as benchmark rows: time and peak memory of each, and latencies of a server.

Their inputs are in bench/apps/. If a program is not installed, its row is missing.
"""

import dataclasses
import os
import pathlib
import re
import subprocess

from . import process, programs, redis

INPUTS = pathlib.Path(__file__).resolve().parent.parent / "apps"


@dataclasses.dataclass(frozen=True)
class CommandRow:
    """A program that runs to its end. {inputs} and {work} in its arguments are folders."""

    name: str
    program: str
    args: tuple
    quick_args: tuple
    variables: tuple = ()
    # A file below {inputs} for standard input.
    stdin: str = ""
    group: str = "apps"
    timeout_s: float = 300
    nominal_s: float = 1.5

    def missing(self, context):
        return "" if process.find_program(self.program) else f"{self.program} is not installed"

    def describe(self, context):
        words = [*self.variables, self.program, *self._args(context, "bench/apps", "WORK")]
        return " ".join(words) + (f" < bench/apps/{self.stdin}" if self.stdin else "")

    def _args(self, context, inputs, work):
        args = self.quick_args if context.quick else self.args
        return [str(arg).format(inputs=inputs, work=work) for arg in args]

    def measure(self, allocator, context, prove):
        def run_once(extra):
            command = [str(context.bin_folder / "bench_launch"),
                       *programs.assignments(allocator, [*self.variables, *extra]),
                       process.find_program(self.program),
                       *self._args(context, INPUTS, context.work_folder)]
            with open(INPUTS / self.stdin if self.stdin else os.devnull, "rb") as stdin:
                return process.run(command, programs.clean_environment(), self.timeout_s,
                                   cwd=context.work_folder, stdin=stdin)

        if prove:
            process.prove_by_linker(
                allocator, lambda variables: run_once([f"{name}={value}" for name, value
                                                       in variables.items()]))
        report = run_once([]).report
        if report is None:
            raise process.BenchError(f"bench_launch reported nothing of {self.program}")
        return {"metrics": [{"name": "time_s", "value": report["wall_s"], "unit": "s",
                             "better": "lower"}],
                **{name: report[name] for name in process.RESOURCES}}


@dataclasses.dataclass(frozen=True)
class RedisRow:
    """redis-server under redis-benchmark. The figures are the server's; the client runs on the C library.

    Throughput is measured with pipelined requests, latency with single ones. The server may be
    linked with an allocator of its own, so the C library has to be preloaded as well.
    """

    name: str = "redis"
    group: str = "apps"
    timeout_s: float = 300
    nominal_s: float = 5.0

    def missing(self, context):
        absent = redis.missing()
        return f"{' and '.join(absent)} not installed" if absent else ""

    def describe(self, context):
        return ("redis-server; redis-benchmark " + "; ".join(
            " ".join(args) for args in (*self._throughput(context), self._latency(context))))

    @staticmethod
    def _throughput(context):
        number, ranges = ("20000", "4000") if context.quick else ("300000", "60000")
        return (("-t", "set,get,lpush,lpop", "-n", number, "-P", "16", "-r", "100000"),
                ("-t", "lrange_100", "-n", ranges, "-P", "16"))

    @staticmethod
    def _latency(context):
        return ("-t", "set,get", "-n", "10000" if context.quick else "60000", "-r", "100000")

    def measure(self, allocator, context, prove):
        preloaded = dataclasses.replace(allocator, preload=allocator.preload or allocator.library)
        if prove:
            process.prove_by_linker(
                preloaded, lambda variables: self._serve(preloaded, context, variables, [
                    # Takes some milliseconds at least: redis-benchmark divides by the time on its clock.
                    ("-t", "set,get", "-n", "5000")]))
        return self._serve(preloaded, context, {},
                           [*self._throughput(context), self._latency(context)])

    def _serve(self, allocator, context, variables, loads):
        """Starts a server, runs the loads on it, and returns the record of the measurement."""
        server = redis.Server("redis", context.work_folder, process.environment_for(allocator, variables))
        try:
            before = server.usage()
            results = [self._load(server, load) for load in loads]
            after = server.usage()
            server.process.terminate()
            server.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            raise process.ProcessFailed("the server did not end") from None
        finally:
            server.stop()
        throughput = [test for result in results[:-1] for test in result] or results[-1]
        total_s = sum(test["requests"] / test["per_s"] for test in throughput)
        metrics = [{"name": "time_s", "value": total_s, "unit": "s", "better": "lower"}]
        metrics += [{"name": f"{test['name']}_per_s", "value": test["per_s"], "unit": "1/s",
                     "better": "higher"} for test in throughput]
        metrics += [{"name": f"{test['name']}_{part}_ms", "value": test[part], "unit": "ms",
                     "better": "lower"} for test in results[-1] for part in ("p50", "p99", "p99.9")]
        usage = {name: after[name] - before[name] for name in before if name in process.RESOURCES and name != "peak_rss_kib"}
        return {"metrics": metrics, "wall_s": total_s, **usage,
                "peak_rss_kib": after["peak_rss_kib"]}

    def _load(self, server, arguments):
        try:
            client = subprocess.run([process.find_program("redis-benchmark"), "-s", server.path, *arguments],
                                    env=programs.clean_environment(), stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            raise process.ProcessFailed(f"timed out after {self.timeout_s:g} s") from None
        server.check_runs()
        results = parse_redis(client.stdout)
        if client.returncode != 0 or not results:
            raise process.BenchError(f"redis-benchmark failed: {client.stdout[-300:]}")
        return results


def parse_redis(output):
    """Each test in redis-benchmark's report: requests, throughput, latencies in milliseconds."""
    output = output.replace("\r", "\n")
    results = []
    for name, text in re.findall(r"^====== (.*?) ======[ ]*$(.*?)(?=^======|\Z)", output,
                                 re.MULTILINE | re.DOTALL):
        requests = re.search(r"(\d+) requests completed", text)
        per_s = re.search(r"throughput summary: ([\d.]+) requests per second", text)
        summary = re.search(r"latency summary \(msec\):\s+avg.*\n\s*([\d. ]+)", text)
        if not (requests and per_s and summary):
            continue
        _, _, p50, _, p99, _ = map(float, summary.group(1).split())
        # Percentile lines are at 99.902 %, so 99.9 % is the first at or above.
        steps = re.findall(r"([\d.]+)% <= ([\d.]+) milliseconds", text)
        p999 = next(float(ms) for share, ms in steps if float(share) >= 99.9)
        results.append({"name": re.sub(r"\W+", "_", name.split("(")[0].strip()).lower(),
                        "requests": int(requests.group(1)), "per_s": float(per_s.group(1)),
                        "p50": p50, "p99": p99, "p99.9": p999})
    return results


def app_rows(quick):
    compiler = CommandRow("g++", "g++", ("-O2", "-std=c++20", "-c", "{inputs}/containers.cc", "-o",
                                         "/dev/null"),
                          ("-std=c++20", "-fsyntax-only", "{inputs}/containers.cc"))
    return [
        RedisRow(),
        *([] if quick else [compiler]),  # takes a second or more
        # With -E Python would ignore the variable.
        CommandRow("python", "python3.11", ("-S", "-s", "{inputs}/objects.py", 12),
                   ("-S", "-s", "{inputs}/objects.py", 1), variables=("PYTHONMALLOC=malloc",)),
        CommandRow("perl", "perl", ("{inputs}/hashes.pl", 10), ("{inputs}/hashes.pl", 1)),
        CommandRow("lua", "lua5.4", ("{inputs}/tables.lua", 16), ("{inputs}/tables.lua", 1)),
        CommandRow("sqlite", "sqlite3", ("-cmd", ".parameter init", "-cmd",
                                         ".parameter set :rows 200000", ":memory:"),
                   ("-cmd", ".parameter init", "-cmd", ".parameter set :rows 20000", ":memory:"),
                   stdin="tables.sql"),
        CommandRow("node", "node", ("{inputs}/buffers.js", 10), ("{inputs}/buffers.js", 1)),
        rocksdb_row(),
    ]


def rocksdb_row():
    def args(number):
        return ("--benchmarks=fillrandom,readrandom", f"--num={number}", "--db={work}/rocksdb",
                "--threads=2", "--compression_type=none", "--use_existing_db=0")

    return CommandRow("rocksdb", "db_bench", args(150_000), args(10_000), nominal_s=3)
