#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the allocator's statistics of its heap with the readers that others use.

usage: statistics_test.py WHAT PROGRAM LIBRARY

  json, xml    the sums add up, and follow a program that knows what it holds to the byte; read by Python's own readers
  openmetrics  the same, read by Prometheus' client library, which is strict
  large        large allocations: the calls of the callback, and what goes to stderr, by the environment
"""
import json
import os
import re
import xml.etree.ElementTree

import process_test

GIB = 1 << 30
THRESHOLD = "TCMALLOC_LARGE_ALLOC_REPORT_THRESHOLD"


def run(test, argument, **variables):
    done = test.run(argument, **variables)
    test.expect_equal(done.returncode, 0, f"{argument}: exit status ({done.stderr})")
    return done


def both(test, form):
    """[(the allocator's statistics, the bytes that the program holds)] before and after allocations."""
    done = run(test, form)
    test.expect_equal(done.stderr, "", "stderr")
    blocks = re.split(r"\n=== (\d+)\n", done.stdout.removeprefix(f"{form}\n"))
    test.expect_equal(len(blocks), 5, "blocks")
    return [(blocks[0], int(blocks[1])), (blocks[2], int(blocks[3]))]


def check_growth(test, figures, held):
    """Checks the bytes in use of two snapshots against what the program knows."""
    test.expect(held[1] > 20 << 20, "the program holds something")
    test.expect_equal(figures[1] - figures[0], held[1] - held[0], "growth of what is in use")


# --- JSON ----------------------------------------------------------------------------------------

def check_figures(test, figures):
    """Checks the sums of figures by their names."""
    free = ("page_heap_free_bytes", "central_cache_free_bytes", "thread_cache_free_bytes")
    test.expect_equal(figures["actual_bytes"],
                      figures["in_use_bytes"] + sum(figures[name] for name in free) +
                      figures["metadata_bytes"], "actual_bytes")
    test.expect_equal(figures["virtual_bytes"], figures["actual_bytes"] + figures["released_bytes"],
                      "virtual_bytes")


def read_json(test, text):
    found = json.loads(text)
    check_figures(test, found)
    classes = found["size_classes"]
    for figure, objects, more in (
            ("in_use_bytes", "in_use_objects", found["large_in_use_bytes"]),
            ("thread_cache_free_bytes", "thread_cache_objects", 0),
            ("central_cache_free_bytes", "central_cache_objects",
             found["span_tail_bytes"] - found["released_in_spans_bytes"])):
        test.expect_equal(found[figure], more + sum(c["object_size_bytes"] * c[objects]
                                                    for c in classes), f"{figure}, by classes")
    test.expect_equal(found["spans_in_use"],
                      found["large_objects"] + sum(c["spans"] for c in classes), "spans_in_use")
    longer = found["longer_free_spans"]
    for figure, spans, more in (
            ("page_heap_free_bytes", "free_spans", longer["free_bytes"]),
            ("released_bytes", "released_spans",
             longer["released_bytes"] + found["released_in_spans_bytes"])):
        pages = sum(length["pages"] * length[spans] for length in found["free_spans_by_length"])
        test.expect_equal(found[figure], pages * found["page_size_bytes"] + more,
                          f"{figure}, by lengths")
    return found


def test_json(test):
    figures, held = [], []
    for text, bytes_held in both(test, "json"):
        test.expect("\n" not in text, "one line")
        figures.append(read_json(test, text)["in_use_bytes"])
        held.append(bytes_held)
    check_growth(test, figures, held)


# --- OpenMetrics ---------------------------------------------------------------------------------

def test_openmetrics(test):
    try:
        from prometheus_client.openmetrics import parser
    except ImportError as error:
        raise process_test.Skipped("there is no python3-prometheus-client") from error
    json_names = {name for name, value in read_json(test, both(test, "json")[0][0]).items()
                  if isinstance(value, int) and name != "pid"}
    figures, held = [], []
    for text, bytes_held in both(test, "openmetrics"):
        families = {family.name: family for family in
                    parser.text_string_to_metric_families(text)}
        samples = {}
        for family in families.values():
            test.expect(family.documentation, f"{family.name} has no help")
            for sample in family.samples:
                if not sample.labels:
                    samples[sample.name.removeprefix("tcmalloc_")] = sample.value
                    test.expect_equal(family.type,
                                      "counter" if sample.name.endswith("_total") else "gauge",
                                      f"type of {sample.name}")
        test.expect_equal(set(samples), json_names, "names")
        check_figures(test, samples)
        test.expect("tcmalloc_free_spans" in families and "tcmalloc_hugepages" in families,
                    f"families: {sorted(families)}")
        figures.append(samples["in_use_bytes"])
        held.append(bytes_held)
    check_growth(test, figures, held)


# --- malloc_info ---------------------------------------------------------------------------------

def test_xml(test):
    figures, held = [], []
    for text, bytes_held in both(test, "xml"):
        root = xml.etree.ElementTree.fromstring(text)
        size = {(element.tag, element.get("type")): int(element.get("size"))
                for element in root.iter() if element.get("type")}
        test.expect_equal(size["system", "current"],
                          sum(size["total", kind] for kind in ("in_use", "fast", "rest")),
                          "current")
        figures.append(size["total", "in_use"])
        held.append(bytes_held)
    check_growth(test, figures, held)


# --- large allocations ---------------------------------------------------------------------------

# The requests of statistics.c that must be reported, and the number that must be counted: the six of the program
# itself, and one for each report.
REPORTED = [GIB // 2 * 3, GIB // 10 * 12, GIB // 10 * 20, GIB // 10 * 19]
COUNTED = 6 + len(REPORTED)


def test_large(test):
    for variables, told, lines in (({}, True, False),
                                   ({THRESHOLD: str(GIB)}, True, True),
                                   ({THRESHOLD: "0"}, False, False),
                                   ({THRESHOLD: "-1"}, False, False)):
        done = run(test, "large", **variables)
        callbacks = [int(n) for n in re.findall(r"^callback (\d+)$", done.stdout, re.MULTILINE)]
        test.expect_equal(callbacks, REPORTED if told else [], f"told with {variables}")
        written = re.findall(r"^tcmalloc: large alloc (\d+) bytes == 0x[0-9a-f]+; next report at "
                             r"(\d+) bytes or more((?: @(?: 0x[0-9a-f]+)+)?)\n((?:    .*\n)*)",
                             done.stderr, re.MULTILINE)
        test.expect_equal(sum(1 + names.count("\n") for *_, names in written),
                          done.stderr.count("\n"), f"lines on stderr: {done.stderr}")
        # The report has at least the frames of the program's main and of main's caller, each with
        # its name and its file.
        full = "minimal" not in test.library
        test.expect_equal([trace.count(" 0x") >= 2 for _, _, trace, _ in written],
                          [full] * len(written), "stack traces")
        program = re.escape(os.path.realpath(test.program))
        for _, _, trace, names in written:
            test.expect_equal(names.count("\n"), trace.count(" 0x"), f"frames: {trace} {names}")
            test.expect_equal(
                re.search(rf"^    main\+0x[0-9a-f]+ \({program}\+0x[0-9a-f]+\)$", names,
                          re.MULTILINE) is not None, full, f"main is named: {names}")
        test.expect_equal([int(n) for n, *_ in written], REPORTED if lines else [],
                          f"lines with {variables}")
        threshold = GIB
        for _, following, *_ in written:
            threshold += threshold // 8
            test.expect_equal(int(following), threshold, "the next threshold")
        figures = json.loads(done.stdout[done.stdout.index("{"):])
        test.expect_equal(figures["large_allocations_total"], COUNTED if told else 0, "counted")
        test.expect_equal(figures["large_allocation_reports_total"], len(REPORTED) if told else 0,
                          "reported")


if __name__ == "__main__":
    process_test.main(globals())
