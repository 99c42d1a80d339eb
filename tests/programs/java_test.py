# SPDX-License-Identifier: BSD-3-Clause
"""A Java virtual machine: the compiler, then a multi-threaded program under two garbage
collectors."""

import hashlib
import pathlib
import shutil

import harness

SOURCE = pathlib.Path(__file__).parent / "workloads" / "Storm.java"


def workload(side):
    shutil.copy(SOURCE, side.directory)
    classes = side.directory / "classes"
    quiet = ["-XX:-UsePerfData", f"-Djava.io.tmpdir={side.directory}"]
    outputs = {}
    done = side.run(
        ["javac", *[f"-J{q}" for q in quiet], "-d", classes, "-Xlint:all", "Storm.java"]
    )
    outputs.update({f"javac, {k}": v for k, v in done.outputs().items()})
    for file in sorted(classes.iterdir()):
        outputs[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    for collector in ("G1", "Parallel"):
        done = side.run(
            [
                "java",
                *quiet,
                f"-XX:+Use{collector}GC",
                "-Xmx512m",
                "-XX:MaxDirectMemorySize=512m",
                "-cp",
                classes,
                "Storm",
                classes,
            ]
        )
        outputs.update({f"{collector}, {k}": v for k, v in done.outputs().items()})
    return outputs


if __name__ == "__main__":
    harness.main(workload, programs=["javac", "java"], min_heap_mib=30, min_processes=3)
