# SPDX-License-Identifier: BSD-3-Clause
"""A redis-server on each allocator for an hour, all under the same load at the same time: memory over time.

One client sends the same commands to all servers, so that each has the same keys and values and does the same work:
strings whose sizes change every tenth of the time, keys that expire, hashes, lists. The client sends at most a fixed number of
commands in a second, and is quiet for two tenths of the time.
"""

import random
import re
import time

from . import process, redis

BATCHES_PER_SECOND = 20
COMMANDS_PER_BATCH = 150
KEYS = 60_000
SAMPLES = 720  # over the whole run
TENTHS = 10
FULL_MINUTES = 60  # a run of this length goes into the repository
QUIET_TENTHS = (4, 9)
# The sizes of values in a tenth: smallest and largest.
SIZES = ((16, 200), (200, 900), (16, 4000), (1000, 1500), (16, 200), (16, 100), (1000, 3000), (64, 64), (16, 4000), (16, 200))
COLUMNS = ("time_s", "rss_kib", "used_kib", "cpu_s")


class Server(redis.Server):
    def __init__(self, allocator, folder):
        # The C library, too, is preloaded: redis may be linked with an allocator.
        super().__init__(allocator.name, folder, process.environment_for(allocator, {"LD_PRELOAD": allocator.library}))
        try:
            self.check_library(allocator.library)
            self.socket = self.connect()
        except BaseException:
            self.stop()
            raise
        self.reader = self.socket.makefile("rb")

    def read_answers(self, count):
        for _ in range(count):
            line = self.reader.readline()
            if not line.startswith((b"+", b":")):
                raise process.BenchError(f"{self.name}: redis-server answered {line[:100]}")

    def figures(self):
        """Resident KiB, the KiB of all objects as redis counts them, processor seconds."""
        self.socket.sendall(redis.command("INFO", "memory"))
        info = self.reader.read(int(self.reader.readline()[1:]) + 2).decode()
        usage = self.usage()
        return usage["rss_kib"], int(re.search(r"used_memory:(\d+)", info)[1]) >> 10, round(usage["user_s"] + usage["sys_s"], 2)


VALUE = b"v" * 10_000


def batch(generator, tenth):
    """Commands that each answer with one line."""
    smallest, largest = SIZES[tenth]
    commands = []
    for _ in range(COMMANDS_PER_BATCH):
        key = generator.randrange(KEYS)
        value = VALUE[:generator.randint(smallest, largest)]
        kind = generator.random()
        if kind < 0.6:
            commands.append(redis.command("SET", f"s{key}", value))
        elif kind < 0.75:
            commands.append(redis.command("SET", f"e{key}", value, "EX", generator.randint(5, 600)))
        elif kind < 0.85:
            commands.append(redis.command("HSET", f"h{key % 20_000}", f"f{generator.randrange(60)}", value[:500]))
        elif kind < 0.95:
            commands.append(redis.command("LPUSH", f"l{key % 5_000}", value))
        else:
            commands.append(redis.command("DEL", f"s{key}", f"l{key % 5_000}"))
    return b"".join(commands)


def run(allocators, minutes, seed, folder, progress):
    """By allocator, rows of COLUMNS."""
    seconds = minutes * 60
    generator = random.Random(seed)
    records = {allocator.name: [] for allocator in allocators}
    servers = []
    try:
        for allocator in allocators:
            servers.append(Server(allocator, folder))
        start = time.monotonic()
        next_batch, next_sample = 0.0, 0.0
        while (now := time.monotonic() - start) < seconds:
            tenth = min(int(now * TENTHS / seconds), TENTHS - 1)
            if now >= next_sample:
                next_sample += seconds / SAMPLES
                for server in servers:
                    resident, used, cpu = server.figures()
                    records[server.name].append([round(now, 1), resident, used, cpu])
                progress.note(f"{now / 60:.0f} of {minutes} minutes")
            if now >= next_batch and tenth not in QUIET_TENTHS:
                commands = batch(generator, tenth)
                for server in servers:
                    server.socket.sendall(commands)
                for server in servers:
                    server.read_answers(COMMANDS_PER_BATCH)
                # Batches that are late by more than a second are left out.
                next_batch = max(next_batch + 1 / BATCHES_PER_SECOND, now - 1)
            else:
                time.sleep(0.005)
        return records
    finally:
        for server in servers:
            server.stop()


# ---- What a run's data says. ----


def live(records):
    """Pairs of a time and the KiB of all objects. They are the figures of the redis-server whose
    allocator rounds sizes up least."""
    series = min(records.values(), key=lambda rows: sum(row[2] for row in rows))
    return [(row[0], row[2]) for row in series]


def table(data):
    """For each allocator its resident memory on average, at most and at the end of the quiet tenths, and its processor time."""
    seconds = data["minutes"] * 60
    ends = [seconds * (tenth + 1) / TENTHS for tenth in QUIET_TENTHS]

    def cells(rows):
        resident = [row[1] / 1024 for row in rows]
        quiet = [max((row for row in rows if row[0] <= end), key=lambda row: row[0])[1] / 1024 for end in ends]
        return [f"{sum(resident) / len(resident):.1f}", f"{max(resident):.1f}", *(f"{value:.1f}" for value in quiet), f"{rows[-1][3]:.1f}"]

    objects = [kib / 1024 for _, kib in live(data["records"])]
    heading = ["allocator", "resident MiB, mean", "peak", *(f"after minute {end / 60:g}" for end in ends), "processor s"]
    return heading, [*([name, *cells(rows)] for name, rows in data["records"].items()),
                     ["objects", f"{sum(objects) / len(objects):.1f}", f"{max(objects):.1f}", *[""] * (len(ends) + 1)]]
