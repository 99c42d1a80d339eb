# SPDX-License-Identifier: BSD-3-Clause
"""node: buffers, worker threads, the thread pool, compression, a child process."""

import pathlib

import harness

SCRIPT = pathlib.Path(__file__).parent / "workloads" / "buffers.js"


def workload(side):
    return side.run(["node", SCRIPT]).outputs()


if __name__ == "__main__":
    harness.main(workload, programs=["node"], min_heap_mib=40, min_processes=2)
