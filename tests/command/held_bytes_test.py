#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""All reports of how much the program holds agree: held and requested bytes of docs/statistics.md.

PROGRAM is held_objects.c, which knows its objects. It is stopped while the command reads it.

  unsampled  no object is sampled
  some       some are, and some of these are guarded
  sampled    every object is sampled, so that the estimates of samples are exact
  guarded    every object is sampled, and every third that fits is guarded
"""

import json
import os
import re
import signal
import xml.etree.ElementTree

from harness import AT_REST, Process, new_folder, run_test, state_of, wait_until

EVERY = {"TCMALLOC_SAMPLE_PARAMETER": "1"}
# A smaller object is not sampled for certain, and a sample of it represents more than one object.
LEAST_SAMPLED = 64


def answers(process, command):
    """The process's answer, up to a line "end"; one line for `figures`."""
    process.process.stdin.write(command + "\n")
    process.process.stdin.flush()
    lines = []
    for line in process.process.stdout:
        if line == "end\n":
            break
        lines.append(line)
        if command == "figures":
            break
    return "".join(lines)


def by_classes(stats):
    """Bytes in use, as the sum of what JSON says of its parts."""
    return stats["large_in_use_bytes"] + stats["guarded_bytes"] + sum(
        row["object_size_bytes"] * row["in_use_objects"] for row in stats["size_classes"])


def check_parts(test, stats):
    """Sums of the JSON of a process without samples."""
    test.check_sums(stats, least=0)
    classes, longer = stats["size_classes"], stats["longer_free_spans"]
    for figure, objects, more in (
            ("thread_cache_free_bytes", "thread_cache_objects", 0),
            ("central_cache_free_bytes", "central_cache_objects", stats["span_tail_bytes"] - stats["released_in_spans_bytes"])):
        test.expect_equal(stats[figure], more + sum(row["object_size_bytes"] * row[objects] for row in classes),
                          f"{figure}, by classes")
    test.expect_equal(stats["spans_in_use"], stats["large_objects"] + sum(row["spans"] for row in classes), "spans_in_use")
    for figure, spans, more in (("page_heap_free_bytes", "free_spans", longer["free_bytes"]),
                                ("released_bytes", "released_spans", longer["released_bytes"] + stats["released_in_spans_bytes"])):
        pages = sum(length["pages"] * length[spans] for length in stats["free_spans_by_length"])
        test.expect_equal(stats[figure], pages * stats["page_size_bytes"] + more, f"{figure}, by lengths")


def check_metrics(test, text, stats):
    """Prometheus' client library, which is strict, finds each figure of the JSON."""
    try:
        from prometheus_client.openmetrics import parser
    except ImportError:
        print("the metrics are not parsed: there is no python3-prometheus-client")
        return
    families = list(parser.text_string_to_metric_families(text.removesuffix("\n")))  # without the line before "end"
    samples = {sample.name: family.type for family in families for sample in family.samples if not sample.labels}
    wanted = {f"tcmalloc_{name}": "counter" if name.endswith("_total") else "gauge"
              for name, value in stats.items() if isinstance(value, int) and name != "pid"}
    test.expect_equal(samples, wanted, "types of the metrics")
    test.expect(all(family.documentation for family in families), "a metric has no help")
    test.expect({"tcmalloc_free_spans", "tcmalloc_hugepages"} <= {family.name for family in families}, "metrics with labels")


def in_process(test, process, sampled):
    """({where: held bytes}, {where: requested bytes}) that the library reports in the process."""
    words = answers(process, "figures").split()
    figures = {name: int(value) for name, value in zip(words[::2], words[1::2])}
    stats = json.loads(answers(process, "json"))
    metrics = answers(process, "openmetrics")
    classes = sum(int(size) * int(objects) for size, objects in re.findall(
        r'^tcmalloc_size_class_objects\{object_size="(\d+)",state="in_use"\} (\d+)$', metrics, re.MULTILINE))
    gauge = {name: int(value) for name, value in re.findall(r"^tcmalloc_(\w+) (\d+)$", metrics, re.MULTILINE)}
    text = answers(process, "text")
    columns = re.findall(r"^MALLOC: +\d+ +(\d+) +\d+ +(\d+) +\d+ +\d+ +\d+ ", text, re.MULTILINE)
    sizes = {(element.tag, element.get("type")): int(element.get("size"))
             for element in xml.etree.ElementTree.fromstring(answers(process, "xml")).iter() if element.get("type")}
    test.expect_equal(sizes["system", "current"], sum(sizes["total", kind] for kind in ("in_use", "fast", "rest")),
                      "the XML's sum")
    check_metrics(test, metrics, stats)
    if not sampled:
        check_parts(test, stats)
    held = {
        "the JSON": stats["in_use_bytes"],
        "the classes of the JSON": by_classes(stats),
        "OpenMetrics": gauge["in_use_bytes"],
        "the classes of OpenMetrics": classes + gauge["large_in_use_bytes"] + gauge["guarded_bytes"],
        "malloc_stats": int(re.search(r"(\d+) \( *[\d.]+ MiB\) Bytes in use by application", text)[1]),
        "the classes of malloc_stats": sum(int(size) * int(objects) for size, objects in columns) +
                                       stats["large_in_use_bytes"] + stats["guarded_bytes"],
        "malloc_info": sizes["total", "in_use"],
        "external fragmentation": figures["generic.total_physical_bytes"] - figures["tcmalloc.external_fragmentation_bytes"],
        "what is not free": figures["generic.heap_size"] - sum(figures[f"tcmalloc.{name}"] for name in (
            "central_cache_free_bytes", "thread_cache_free_bytes", "pageheap_free_bytes", "pageheap_unmapped_bytes")),
        **{name: figures[name] for name in ("generic.current_allocated_bytes", "generic.bytes_in_use_by_app", "mallinfo2",
                                            "mallinfo", "MallocMemoryStats", "tcmalloc_for_each_object") if name in figures},
    }
    test.expect_equal(figures["tcmalloc.guarded_bytes"], stats["guarded_bytes"], "guarded bytes")
    return held, {"tcmalloc_profile_snapshot": figures["requested"]} if "requested" in figures else {}


def expect_classes(test, rows, stats, target):
    """Each class has as many objects in `objects` as in `stats`."""
    found = {row["name"]: row["bytes"] if row["name"] in ("large", "guarded samples") else row["objects"] for row in rows}
    wanted = {f'{row["object_size_bytes"]} bytes': row["in_use_objects"] for row in stats["size_classes"]}
    wanted |= {"large": stats["large_in_use_bytes"], "guarded samples": stats["guarded_bytes"]}
    test.expect_equal(found, {name: number for name, number in wanted.items() if number != 0}, f"{target}: objects by class")


def rounded(text, pattern):
    """Returns the bytes that the text has in the place of the pattern's group, and the value of the last digit."""
    number, unit = re.search(pattern, text)[1].split()
    unit_bytes = 1 << 10 * ("B KiB MiB GiB".split().index(unit.replace("bytes", "B")))
    return float(number) * unit_bytes, unit_bytes / 10


SIZE = r"([\d.]+ (?:bytes|KiB|MiB))"


def by_command(test, pid, folder):
    """The figures of the commands: ({where: held}, {where: requested}, {where: (held, +- this)})."""
    snapshot, report = folder / "snapshot", folder / "report"
    test.ask("snapshot", pid, snapshot, "--contents")
    held, texts = {}, {}
    for name, target in (("", pid), (" of a snapshot", snapshot)):
        stats = test.json("stats", target)
        held[f"stats{name}"] = stats["in_use_bytes"]
        held[f"the classes of stats{name}"] = by_classes(stats)
        for by in ("class", "age"):
            objects = test.json("objects", target, "--by", by)
            if by == "class":
                expect_classes(test, objects["by_class"], stats, target)
            held[f"objects{name}"] = objects["bytes"]
            held[f"objects --by {by}{name}"] = sum(row["bytes"] for row in objects[f"by_{by}"])
        held[f"objects --list{name}"] = sum(size for _, size in test.objects(target))
        held[f"types{name}"] = test.json("types", target)["bytes"]
        doctor = test.json("doctor", target)
        held[f"doctor{name}"] = doctor["in_use_bytes"]
        # The rest of it was never touched.
        held[f"the share of doctor{name}"] = doctor["not_resident_bytes"] + next(
            share["bytes"] for share in doctor["shares"] if share["name"] == "in_use")
        held[f"leaks{name}"] = test.json("leaks", target, status=None)["bytes_in_use"]
        texts[f"stats{name}, as text"] = rounded(test.ask("stats", target).stdout, f"the program holds {SIZE}")
        texts[f"objects{name}, as text"] = rounded(test.ask("objects", target).stdout, f"objects of {SIZE} in all")
    held["ps"] = next(row for row in test.json("ps") if row["pid"] == pid)["in_use_bytes"]
    test.ask("timeline", pid, "--count", 1, "-o", report)
    held["timeline"] = json.loads(report.read_text())["in_use_bytes"]
    texts["ps, as text"] = rounded(test.ask("ps").stdout, rf"(?m)^ *{pid} +[\d.]+ \w+ +{SIZE}")
    texts["top"] = rounded(test.ask("top", pid, "--once").stdout, f"{SIZE} in use")
    return held, texts


def requested_by_command(test, pid):
    """({where: requested}, {where: (requested, +- this)})"""
    profile = test.json("profile", pid)
    by_site = test.json("objects", pid, "--by", "site")
    folded = test.ask("profile", pid, "--format", "folded").stdout.splitlines()
    # The figure of each call site is rounded, since objects of the C library may be smaller than those of the program.
    rounding = len(profile["call_sites"])
    return {
        "profile": profile["estimated_bytes"],
        "objects --by site": by_site["estimated_bytes"],
    }, {
        "the call sites of profile": (sum(site["bytes"] for site in profile["call_sites"]), rounding),
        "the call sites of objects": (sum(site["bytes"] for site in by_site["by_site"]), rounding),
        "the folded profile": (sum(int(line.rsplit(" ", 1)[1]) for line in folded), rounding),
        "profile, as text": rounded(test.ask("profile", pid).stdout, f": {SIZE} requested, in use at"),
        "objects --by site, as text": rounded(test.ask("objects", pid, "--by", "site").stdout, f"objects, {SIZE} requested"),
    }


def expect_all(test, what, wanted, exact, rounded_ones):
    for where, found in exact.items():
        test.expect_equal(found, wanted, f"{what} bytes, by {where}")
    for where, (found, by) in rounded_ones.items():
        test.expect(abs(found - wanted) <= by, f"{what} bytes, by {where}: {found} +- {by}, not {wanted}")


def check(test, all_sampled=False, **settings):
    more = LEAST_SAMPLED if all_sampled else 0
    with Process(test.library, test.program, str(more), **AT_REST, **settings) as process, new_folder() as folder:
        (_, held, _, requested), = process.said
        held, requested = int(held), int(requested)
        test.expect(held > 10 << 20, f"{held} bytes are held")
        found, found_requested = in_process(test, process, sampled=bool(settings))
        os.kill(process.pid, signal.SIGSTOP)
        wait_until(lambda: state_of(process.pid) == "T", "the process is stopped")
        by_commands, texts = by_command(test, process.pid, folder)
        expect_all(test, "held", held, {**found, **by_commands}, texts)
        if all_sampled:
            by_commands, texts = requested_by_command(test, process.pid)
            expect_all(test, "requested", requested, {**found_requested, **by_commands}, texts)


def test_unsampled(test):
    check(test)


def test_sampled(test):
    check(test, all_sampled=True, **EVERY)


def test_some(test):
    check(test, TCMALLOC_SAMPLE_PARAMETER="20000", TCMALLOC_GUARDED_SAMPLE="7")


def test_guarded(test):
    check(test, all_sampled=True, TCMALLOC_GUARDED_SAMPLE="3", **EVERY)


if __name__ == "__main__":
    run_test(globals())
