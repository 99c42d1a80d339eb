# SPDX-License-Identifier: BSD-3-Clause
"""Two redis-servers with threads for input and output, one on the C library's malloc and one on this library, under the
same load: what scripts/run.py runs if it is given no command.

By default there are two rounds, so each server is the first once. In a round both get the same requests in turns, from redis-benchmark
with two threads. Then nine of ten keys are deleted, as if they had expired, and both are idle for some seconds. The figures are
requests per second over all rounds, the processor time that the server took for them, its peak and its resident memory after
the idle time.
"""

import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from runner import process, redis  # noqa: E402

SAMPLE_BYTES = "524288"  # the interval that README.md advises for servers
KEYS = 200_000
DELETED = """for i = 0, tonumber(ARGV[1]) - 1 do
  if i % 10 ~= 0 then redis.call('DEL', string.format('key:%012d', i)) end
end"""
REQUESTS = 35_000  # of each kind in a round
# Values of four sizes, lists, hashes, sets and sorted sets: the objects of a cache with sessions and queues.
LOADS = (("-t", "set,get", "-d", "64"), ("-t", "set,get", "-d", "300"), ("-t", "set", "-d", "1200"),
         ("-t", "lpush,rpop,hset,sadd,zadd", "-d", "64"))
IDLE_S = 5
DOCTOR_LINES = 6


def libc():
    """The C library's file, of this process. Preloaded, its malloc comes before that of a library that redis is linked with."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    return re.search(r"/\S*/libc\.so\.6$", maps, re.MULTILINE)[0]


class Server(redis.Server):
    def __init__(self, name, library, folder, environment):
        super().__init__(name, folder, environment | {"LD_PRELOAD": str(library)}, ("--io-threads", "2", "--io-threads-do-reads", "yes"))
        self.requests = self.load_s = 0

    def load(self, arguments, requests, environment):
        command = ["redis-benchmark", "-s", self.path, "--csv", "--threads", "2", "-P", "16", "-r", str(KEYS),
                   "-n", str(requests), *arguments]
        run = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        rates = re.findall(r'^"[^"]+","([\d.]+)"', run.stdout, re.MULTILINE)
        if run.returncode or not rates:
            raise process.BenchError(f"{' '.join(command)}: {(run.stdout + run.stderr)[-500:]}")
        self.requests += requests * len(rates)
        self.load_s += sum(requests / float(rate) for rate in rates)


def table(plain, ours, facts):
    lines = [f"{'':36}{'glibc':>12}{'tcmalloc':>12}{'ratio':>9}"]
    for label, form, values in facts:
        lines.append(f"{label:36}{form.format(values[plain]):>12}{form.format(values[ours]):>12}"
                     f"{values[ours] / values[plain]:>9.2f}")
    return lines


def trimmed(command, server):
    trim = subprocess.run([command, "trim", str(server.pid)], capture_output=True, text=True)
    if trim.returncode:
        raise process.BenchError(f"tcmalloc trim: {trim.stderr}")
    return [f"$ tcmalloc trim {server.pid}", trim.stdout.strip(), f"Then {server.usage()['rss_kib'] / 1024:.1f} MiB are resident."]


def run(library, command, results, environment, rounds, requests, progress):
    """Returns the lines to show. `command` is the tcmalloc command or None, `results` the folder for what it writes."""
    results.mkdir(parents=True, exist_ok=True)
    servers = []
    sampling = environment | {"TCMALLOC_SAMPLE_PARAMETER": SAMPLE_BYTES}
    try:
        for name, file, variables in (("glibc", libc(), environment), ("tcmalloc", library, sampling)):
            servers.append(Server(name, file, results, variables))
            servers[-1].check_library(file)
        plain, ours = servers
        for number in range(rounds):
            for server in servers if number % 2 == 0 else servers[::-1]:
                progress(f"round {number + 1} of {rounds}, on {server.name}")
                for arguments in LOADS:
                    server.load(arguments, requests, environment)
        loaded = {server: server.usage() for server in servers}
        page = results / "redis.html"
        page.unlink(missing_ok=True)
        if command:
            profile = subprocess.run([command, "profile", str(ours.pid), "-o", page], capture_output=True, text=True)
            if profile.returncode:
                raise process.BenchError(f"tcmalloc profile: {profile.stderr}")
        progress(f"deleting nine of ten keys, then idle for {IDLE_S} s")
        for server in servers:
            if server.ask("EVAL", DELETED, "0", str(KEYS)) != "$-1":
                raise process.BenchError(f"{server.name}: EVAL failed: {server.log.read_text(errors='replace')[-500:]}")
        time.sleep(IDLE_S)
        idle = {server: server.usage()["rss_kib"] / 1024 for server in servers}
        cpu_s = {server: usage["user_s"] + usage["sys_s"] for server, usage in loaded.items()}
        peak = {server: usage["peak_rss_kib"] / 1024 for server, usage in loaded.items()}
        rate = {server: server.requests / server.load_s for server in servers}
        progress("")
        lines = [f"redis-server (2 I/O threads), {ours.requests:,} requests to each; served by TCMalloc: {library.name}", ""]
        lines += table(plain, ours, (
            ("requests per second", "{:,.0f}", rate), ("processor time of the server, s", "{:.1f}", cpu_s),
            ("peak memory, MiB", "{:.1f}", peak), (f"memory, {IDLE_S} s after 9 of 10 keys went", "{:.1f}", idle)))
        if command:
            doctor = subprocess.run([command, "doctor", str(ours.pid)], capture_output=True, text=True)
            if doctor.returncode:
                raise process.BenchError(f"tcmalloc doctor: {doctor.stderr}")
            (results / "doctor.txt").write_text(doctor.stdout)
            shown = doctor.stdout.splitlines()
            lines += ["", f"$ tcmalloc doctor {ours.pid}", *shown[:DOCTOR_LINES], f"... ({results / 'doctor.txt'})", "",
                      *trimmed(command, ours), "", f"Which code held the memory under load, as a flame graph: {page}"]
        return lines
    finally:
        for server in servers:
            server.stop()
