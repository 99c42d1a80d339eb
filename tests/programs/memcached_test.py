# SPDX-License-Identifier: BSD-3-Clause
"""memcached: four threads under load from many connections; each value is compared with a model.

Every client has keys of its own, so that its model is exact while the others work.
"""

import concurrent.futures
import os
import random
import socket
import threading

import harness

CLIENTS = 16
BATCHES = 40
CONNECTIONS_HELD = 300


class Client:
    def __init__(self, port):
        self._port = port
        self._open()

    def _open(self):
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        self._file = self._socket.makefile("rb", buffering=1 << 16)

    def reconnect(self):
        self.close()
        self._open()

    def close(self):
        self._file.close()
        self._socket.close()

    def send(self, request):
        self._socket.sendall(request)

    def line(self):
        return self._file.readline()[:-2]

    def values(self):
        """The answer to a `get` or `gets` of several keys: {key: value}."""
        found = {}
        while (line := self.line()) != b"END":
            word, key, _, length, *_ = line.split(b" ")
            if word != b"VALUE":
                raise harness.Failure(f"memcached answered {line!r}")
            found[key] = self._file.read(int(length) + 2)[:-2]
        return found

    def stats(self):
        self.send(b"stats\r\n")
        found = {}
        while (line := self.line()) != b"END":
            _, name, value = line.split(b" ", 2)
            found[name.decode()] = value.decode()
        return found


def client_run(port, number, start_line):
    """Random commands on this client's keys, many in one write; every answer is known beforehand."""
    rng = random.Random(number)
    client, model = Client(port), {}
    start_line.wait(timeout=60)
    for batch in range(BATCHES):
        requests, answers = [], []
        for _ in range(60):
            key = b"c%d-%d" % (number, rng.randrange(120))
            kind = rng.randrange(8)
            if kind <= 1:
                size = rng.choice([10, 100, 1_000, 8_000, 8_000, 100_000 if rng.randrange(8) == 0 else 50])
                model[key] = rng.randbytes(size)
                requests.append(b"set %s 0 0 %d\r\n%s\r\n" % (key, size, model[key]))
                answers.append(b"STORED")
            elif kind == 2:
                more = rng.randbytes(rng.randrange(1, 200))
                known = key in model and len(model[key]) < 150_000
                if known or key not in model:
                    requests.append(b"append %s 0 0 %d\r\n%s\r\n" % (key, len(more), more))
                    answers.append(b"STORED" if known else b"NOT_STORED")
                    if known:
                        model[key] += more
            elif kind == 3:
                requests.append(b"delete %s\r\n" % key)
                answers.append(b"DELETED" if model.pop(key, None) is not None else b"NOT_FOUND")
            elif kind == 4:
                requests.append(b"add %s 0 0 3\r\n123\r\n" % key)
                answers.append(b"NOT_STORED" if key in model else b"STORED")
                model.setdefault(key, b"123")
            else:
                keys = [b"c%d-%d" % (number, rng.randrange(120)) for _ in range(rng.randrange(1, 30))]
                requests.append(b"get %s\r\n" % b" ".join(keys))
                answers.append({k: model[k] for k in keys if k in model})
        # One thread writes and another one reads, so that neither side waits for the other with full buffers.
        writer = threading.Thread(target=client.send, args=(b"".join(requests),))
        writer.start()
        for request, expected in zip(requests, answers):
            answer = client.values() if isinstance(expected, dict) else client.line()
            if answer != expected:
                raise harness.Failure(f"{request[:100]!r}: answered {str(answer)[:200]}, not {str(expected)[:200]}")
        writer.join()
        if batch % 10 == 9:
            client.reconnect()
    client.close()
    return len(model)


def start(side):
    user = ["-u", harness.user_name()] if os.geteuid() == 0 else []

    def start_at(port):
        argv = ["memcached", *f"-l 127.0.0.1 -p {port} -U 0 -t 4 -c 1000 -m 512".split(), *user]
        return port, side.start(argv, lambda: harness.accepts(port))

    port, server = harness.start_on_free_port(start_at)
    side.check_maps([server.pid])
    return port, server


def all_clients(port):
    start_line = threading.Barrier(CLIENTS)
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(lambda n: client_run(port, n, start_line), range(CLIENTS)))


def workload(side):
    outputs = {}
    port, server = start(side)
    held = [
        Client(port) for _ in range(CONNECTIONS_HELD)
    ]  # memcached calls malloc for its connections.
    for i, client in enumerate(held):
        client.send(b"set held%d 0 0 %d\r\n%s\r\nget held%d\r\n" % (i, 5_000 + i, b"h" * (5_000 + i), i))
    for i, client in enumerate(held):
        if client.line() != b"STORED" or client.values() != {b"held%d" % i: b"h" * (5_000 + i)}:
            raise harness.Failure(f"connection {i} read back something else")
    outputs["keys per client"] = all_clients(port)
    stats = held[0].stats()
    for client in held:
        client.close()
    for name in "cmd_get cmd_set get_hits get_misses delete_hits curr_items bytes".split():
        outputs[name] = stats[name]
    if stats["evictions"] != "0":
        raise harness.Failure(f"{stats['evictions']} evictions although there is room")
    server.stop()
    return outputs


if __name__ == "__main__":
    harness.main(workload, programs=["memcached"], min_heap_mib=20)
