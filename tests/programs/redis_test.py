# SPDX-License-Identifier: BSD-3-Clause
"""redis-server: random commands; redis-benchmark, BGSAVE under load, the dump read again.

Debian's redis links libjemalloc. On the reference side the C library itself is preloaded, so that
its malloc comes first; on the other side the preloaded library comes first.
"""

import hashlib
import random
import socket
import time

import harness

CLIENT_ROUNDS = 25_000
BENCHMARKS = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_300,mset"


class Client:
    """The part of the redis protocol that is needed here, with many commands in flight."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self._socket.makefile("rb")

    def pipeline(self, commands):
        self._socket.sendall(b"".join(map(self._encode, commands)))
        return [self._reply() for _ in commands]

    def __call__(self, *command):
        return self.pipeline([command])[0]

    @staticmethod
    def _encode(command):
        parts = [p if isinstance(p, bytes) else str(p).encode() for p in command]
        return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)

    def _reply(self):
        line = self._file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self._file.read(length + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        raise harness.Failure(f"redis answered {line!r}")


def random_commands(client, seed):
    """Random commands in batches, with which the data and the answers depend on the seed only. Returns a digest of the answers."""
    rng = random.Random(seed)

    def value(most):
        return rng.randbytes(rng.randrange(most)).hex()

    def step():
        key = rng.randrange(1500)
        return rng.choice((
            ("SET", f"s{key}", value(30_000 if rng.randrange(40) == 0 else 400)), ("GET", f"s{key}"), ("APPEND", f"s{key}", value(300)),
            ("DEL", f"s{key}"), ("LPUSH", f"l{key % 50}", value(100)), ("RPUSH", f"l{key % 50}", value(100)), ("RPOP", f"l{key % 50}"),
            ("LRANGE", f"l{key % 50}", 5, 25), ("HSET", f"h{key % 100}", value(8), value(200)), ("HLEN", f"h{key % 100}"),
            ("ZADD", f"z{key % 20}", rng.randrange(1 << 30), f"m{rng.randrange(3000)}"), ("ZRANGE", f"z{key % 20}", 0, 9)))

    answers = hashlib.sha256()
    for _ in range(CLIENT_ROUNDS // 100):
        answers.update(repr(client.pipeline([step() for _ in range(100)])).encode())
    return answers.hexdigest()


def answers(port):
    """A server that is still loading its dump refuses the command."""
    try:
        return Client(port)("PING") == "PONG"
    except (OSError, harness.Failure):
        return False


def start(side):
    def start_at(port):
        options = ("--bind 127.0.0.1 --enable-debug-command yes --loglevel notice --lazyfree-lazy-user-del yes").split()
        argv = ["redis-server", "--port", port, "--save", "", "--dir", side.directory, *options]
        return port, side.start(argv, lambda: answers(port))

    port, server = harness.start_on_free_port(start_at)
    side.check_maps([server.pid])
    return port, server, Client(port)


def save(client):
    """Saves by a forked child and waits until the child has ended well."""
    wait_for_save(client)  # A save that was started during a benchmark may outlast it.
    client("BGSAVE")
    wait_for_save(client)


def wait_for_save(client):
    deadline = time.monotonic() + 60
    while info(client, "persistence", "rdb_bgsave_in_progress") != "0":
        if time.monotonic() > deadline:
            raise harness.Failure("the child that saves has not ended after 60 s")
        time.sleep(0.02)  # The pause between two checks.
    if info(client, "persistence", "rdb_last_bgsave_status") != "ok":
        raise harness.Failure("BGSAVE failed")


def info(client, section, field):
    return dict(line.split(":", 1) for line in client("INFO", section).decode().splitlines() if ":" in line)[field]


def workload(side):
    outputs = {}
    port, server, client = start(side)
    outputs["answers"] = random_commands(client, 11)
    outputs["digest"] = client("DEBUG", "DIGEST")
    outputs["keys"] = client("DBSIZE")
    save(client)
    client("DEBUG", "RELOAD")
    if client("DEBUG", "DIGEST") != outputs["digest"]:
        raise harness.Failure("DEBUG RELOAD changed the data")

    # redis-benchmark uses random keys and prints rates, so only the tests' names in its output are compared.
    for name, options in (
        ("large", ["-n", 10_000, "-c", 20, "-d", 16_000, "-r", 2_000, "-t", "set,get"]),
        ("small", ["-n", 30_000, "-c", 50, "-P", 16, "-d", 300, "-r", 20_000, "-t", BENCHMARKS]),
    ):
        done = side.run(["redis-benchmark", "-p", port, "--csv", *options])
        outputs[f"benchmark, {name}"] = [line.split(b",")[0] for line in done.stdout.splitlines()]
        save(client)
    digest_before = client("DEBUG", "DIGEST")

    # Saves while clients write: a forked child reads the heap while the parent changes it.
    for _ in range(3):
        client("BGSAVE")
        side.run(["redis-benchmark", "-p", port, *"--csv -n 30000 -P 16 -d 700 -r 30000 -t set,hset,lpush,lpop".split()])
        save(client)
    if client("DEBUG", "DIGEST") == digest_before:
        raise harness.Failure("the benchmark has written nothing")
    expected = client("DEBUG", "DIGEST"), client("DBSIZE")
    client("MEMORY", "PURGE")
    server.stop()

    port, server, client = start(side)  # Reads the dump.
    if (client("DEBUG", "DIGEST"), client("DBSIZE")) != expected:
        raise harness.Failure("the dump, loaded by a new server, differs from what was saved")
    client("FLUSHALL", "ASYNC")
    outputs["answers at the end"] = random_commands(client, 12)
    outputs["digest at the end"] = client("DEBUG", "DIGEST")
    outputs["keys at the end"] = client("DBSIZE")
    server.stop()
    return outputs


if __name__ == "__main__":
    harness.main(workload, programs=["redis-server", "redis-benchmark"], min_heap_mib=20, min_processes=7, reference_preload="libc.so.6")
