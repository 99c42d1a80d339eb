# SPDX-License-Identifier: BSD-3-Clause
"""CPython with PYTHONMALLOC=malloc: part of its own test suite, and a workload of our own.

  python_test.py [--whole] --library FILE

Without --whole it runs the modules of the suite that make objects of many sizes, grow and shrink them, or start
threads and processes that do; with it, all modules whose results do not depend on the machine.

The results of all test cases are compared one by one. The suite runs without MALLOCSTATS, since many
of its tests require that a child process writes nothing to its standard error.
"""

import concurrent.futures
import pathlib
import sys
import xml.etree.ElementTree

import harness

PYTHON = (
    "/usr/bin/python3.11"  # The system's, which the package libpython3.11-testsuite belongs to.
)
SUITE = "/usr/lib/python3.11/test/test_dict.py"
SCRIPT = pathlib.Path(__file__).parent / "workloads" / "objects.py"

STRESSING = """
    test_array test_bytes test_ctypes test_deque test_dict test_gc test_list test_mmap
    test_ordered_dict test_re test_sort test_string test_struct test_thread test_xml_etree_c
    test_zlib""".split()
WHOLE = """
    test_array test_buffer test_bytes test_codecs test_collections test_coroutines test_csv
    test_ctypes test_decimal test_deque test_descr test_dict test_exceptions test_functools test_gc
    test_generators test_heapq test_itertools test_json test_list test_long test_memoryio
    test_minidom test_mmap test_ordered_dict test_pickle test_pyexpat test_re test_set test_sort
    test_string test_struct test_syntax test_thread test_tokenize test_traceback test_unicode
    test_xml_etree_c test_zlib""".split()

# Tests that depend on the time are left out: on a busy machine they fail on any malloc. So are
# test.lock_tests, from which test_threading derives: they give other threads only 10 ms to get where
# the test expects them.
NOT_IN_ONE_PROCESS = ["*test_search_anchor_at_beginning", "*NoQuadraticComplexity"]

# Threads and fork. The tests of multiprocessing mostly wait.
THREADS_AND_FORK = ["test_threading", "test_fork1"]
WHOLE_THREADS_AND_FORK = [*THREADS_AND_FORK, "test_multiprocessing_fork"]
ONLY = [
    "test.test_threading.*",
    "test.test_fork1.*",
    "*TestPool*",
    "*WithProcessesTestQueue*",
    "*SharedMemory*",
    "*WithProcessesTestConnection*",
]
NOT = ["*timeout*", "*test_map_no_failfast*", "*TestPool.test_terminate"] + [
    f"test.test_threading.{name}.*"
    for name in (
        "LockTests",
        "PyRLockTests",
        "CRLockTests",
        "EventTests",
        "ConditionAsRLockTests",
        "ConditionTests",
        "SemaphoreTests",
        "BoundedSemaphoreTests",
        "BarrierTests",
    )
]

ENVIRONMENT = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def suite(side, name, tests, selection=()):
    directory = side.directory / name
    directory.mkdir()
    report = directory / "report.xml"
    side.run(
        [
            PYTHON,
            "-m",
            "test",
            "-W",
            "--tempdir",
            directory,
            "--junit-xml",
            report,
            *selection,
            *tests,
        ],
        cwd=directory,
        timeout=480,
        stats=False,
        env=ENVIRONMENT,
    )
    cases = xml.etree.ElementTree.parse(report).iter("testcase")
    results = sorted(
        (c.get("name"), c.get("status"), c.get("result"), *sorted(e.tag for e in c)) for c in cases
    )
    return "".join(" ".join(map(str, r)) + "\n" for r in results)


def workload(side, modules, threads_and_fork, least_cases):
    outputs = {}
    not_by_the_clock = [w for p in NOT_IN_ONE_PROCESS for w in ("-i", p)]
    selection = [w for p in ONLY for w in ("-m", p)] + [w for p in NOT for w in ("-i", p)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # The second part mostly waits.
        first = pool.submit(suite, side, "one-process", modules, not_by_the_clock)
        second = pool.submit(suite, side, "threads-and-fork", threads_and_fork, selection)
        outputs["suite in one process"] = first.result()
        outputs["suite of threads and fork"] = second.result()
    done = side.run([PYTHON, SCRIPT], env=ENVIRONMENT)
    outputs.update({f"objects.py, {k}": v for k, v in done.outputs().items()})
    for name, least in least_cases.items():
        if outputs[name].count("\n") < least:
            raise harness.Failure(
                f"{name}: only {outputs[name].count(chr(10))} test cases ran, expected {least}"
            )
    return outputs


def stressing(side):
    least = {"suite in one process": 1500, "suite of threads and fork": 60}
    return workload(side, STRESSING, THREADS_AND_FORK, least)


def whole(side):
    least = {"suite in one process": 6000, "suite of threads and fork": 170}
    return workload(side, WHOLE, WHOLE_THREADS_AND_FORK, least)


if __name__ == "__main__":
    chosen = stressing
    if "--whole" in sys.argv:
        sys.argv.remove("--whole")
        chosen = whole
    harness.main(chosen, programs=[PYTHON, SUITE], min_heap_mib=20, min_processes=30)
