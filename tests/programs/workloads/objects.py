# SPDX-License-Identifier: BSD-3-Clause
"""Objects, strings, buffers, threads and forked workers; every line printed depends on nothing
but this file."""

import hashlib
import json
import multiprocessing
import pickle
import queue
import random
import sys
import threading
import zlib
from collections import OrderedDict, deque


def digest(data):
    if isinstance(data, str):
        data = data.encode()
    return hashlib.sha256(data).hexdigest()[:32]


def objects(seed, count):
    rng = random.Random(seed)
    live = {}
    for i in range(count):
        kind = rng.randrange(6)
        if kind == 0:
            value = "s" * rng.randrange(2000) + str(i)
        elif kind == 1:
            value = [rng.randrange(1 << 40) for _ in range(rng.randrange(60))]
        elif kind == 2:
            value = {f"k{j}": j * i for j in range(rng.randrange(30))}
        elif kind == 3:
            value = rng.randbytes(rng.randrange(1, 40_000 if i % 50 == 0 else 500)).hex()
        elif kind == 4:
            value = [rng.randrange(1 << rng.randrange(1, 600)) ** 3]
        else:
            value = list(OrderedDict((str(j), [j] * j) for j in range(rng.randrange(12))).items())
        live[rng.randrange(4000)] = value
        if i % 7 == 0:
            live.pop(rng.randrange(4000), None)
    return digest(json.dumps(live, sort_keys=True)), digest(
        pickle.dumps(sorted(live.items(), key=lambda x: x[0]))
    )


def pipeline():
    """Objects allocated by some threads and freed by others."""
    channel, results = queue.Queue(maxsize=200), queue.Queue()

    def produce(seed):
        rng = random.Random(seed)
        for _ in range(4000):
            channel.put([rng.randbytes(rng.randrange(1, 3000)) for _ in range(rng.randrange(1, 6))])
        channel.put(None)

    def consume():
        total, recent = 0, deque(maxlen=100)
        while (item := channel.get()) is not None:
            total += sum(zlib.crc32(b) for b in item)
            recent.append(item)
        results.put(total)

    threads = [threading.Thread(target=produce, args=(s,)) for s in range(4)]
    threads += [threading.Thread(target=consume) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(results.get() for _ in range(4))


def in_child(seed):
    return objects(seed, 3000)


def main():
    print("objects", *objects(1, 60_000))
    print("pipeline", pipeline())
    stop = threading.Event()
    churn = threading.Thread(target=lambda: [objects(9, 500) for _ in iter(stop.is_set, True)])
    churn.start()  # The forks below happen while another thread allocates.
    try:
        with multiprocessing.get_context("fork").Pool(4, maxtasksperchild=3) as pool:
            for result in pool.map(in_child, range(36), chunksize=1):
                print("child", *result)
    finally:
        stop.set()
        churn.join()
    print("last words", file=sys.stderr)


main()
