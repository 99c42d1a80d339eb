# SPDX-License-Identifier: BSD-3-Clause
"""CPython with PYTHONMALLOC=malloc: part of its own test suite.

The part of the suite consists of the modules that make objects of many sizes, grow and shrink them,
or start threads and processes that do.

The results of all test cases are compared one by one. The suite runs without MALLOCSTATS, since many
of its tests require that a child process writes nothing to its standard error. A further program reports the size of its heap.
"""

import concurrent.futures
import xml.etree.ElementTree

import harness

PYTHON = (
    "/usr/bin/python3.11"  # The system's, which the package libpython3.11-testsuite belongs to.
)
SUITE = "/usr/lib/python3.11/test/test_dict.py"
LARGE_HEAP = "import pickle; print(len(pickle.dumps([str(n) * 20 for n in range(300_000)])))"

STRESSING = """
    test_array test_bytes test_ctypes test_deque test_dict test_gc test_list test_mmap
    test_ordered_dict test_re test_sort test_string test_struct test_thread test_xml_etree_c
    test_zlib""".split()
THREADS_AND_FORK = ["test_threading", "test_fork1"]

# Tests that depend on the time are left out: on a busy machine they fail on any malloc. So are test.lock_tests, from
# which test_threading derives: they give other threads only 10 ms to get where the test expects them.
NOT_IN_ONE_PROCESS = ["*test_search_anchor_at_beginning", "*NoQuadraticComplexity"]
LOCKS = "Lock PyRLock CRLock Event ConditionAsRLock Condition Semaphore BoundedSemaphore Barrier".split()
NOT = ["*timeout*", "*test_map_no_failfast*", *(f"test.test_threading.{name}Tests.*" for name in LOCKS)]

ENVIRONMENT = {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def suite(side, name, tests, selection=()):
    directory = side.directory / name
    directory.mkdir()
    report = directory / "report.xml"
    side.run(
        [PYTHON, "-m", "test", "-W", "--tempdir", directory, "--junit-xml", report, *selection, *tests],
        cwd=directory, timeout=480, stats=False, env=ENVIRONMENT)
    cases = xml.etree.ElementTree.parse(report).iter("testcase")
    results = sorted((c.get("name"), c.get("status"), c.get("result"), *sorted(e.tag for e in c)) for c in cases)
    return "".join(" ".join(map(str, r)) + "\n" for r in results)


def workload(side):
    outputs = {}
    not_by_the_clock = [w for p in NOT_IN_ONE_PROCESS for w in ("-i", p)]
    selection = [w for p in NOT for w in ("-i", p)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # The second part mostly waits.
        first = pool.submit(suite, side, "one-process", STRESSING, not_by_the_clock)
        second = pool.submit(suite, side, "threads-and-fork", THREADS_AND_FORK, selection)
        outputs["suite in one process"] = first.result()
        outputs["suite of threads and fork"] = second.result()
    outputs["large heap"] = side.run([PYTHON, "-c", LARGE_HEAP], env=ENVIRONMENT).stdout
    for name, least in (("suite in one process", 1500), ("suite of threads and fork", 60)):
        cases = outputs[name].count("\n")
        if cases < least:
            raise harness.Failure(f"{name}: only {cases} test cases ran, expected {least}")
    return outputs


if __name__ == "__main__":
    harness.main(workload, programs=[PYTHON, SUITE], min_heap_mib=20, min_processes=30)
