# SPDX-License-Identifier: BSD-3-Clause
"""Tables of a run: on the terminal, and as the page bench/results/README.md.

Both are made from the same cells; only the frame differs.
"""

import collections
import math

from . import curves, peers, statistics, summary
from .programs import SWEEP_LARGEST_OF_ALL_OPERATIONS, SWEEP_OPERATIONS

GROUP_TITLES = {
    "micro": "Pairs of malloc and free",
    "programs": "Benchmark programs",
    "apps": "Real programs",
    "latency": "Single calls: 99.9 % of those of malloc take at most",
    "memory": "Memory",
}
TABLES = "tables.md"
LATENCY = (
    "`call-latency`: threads replace random objects, most of them of up to 1 KiB and 2 of 1,000 of up to 1 MiB, "
    "and time every call on its own. `p999` is the time that 99.9 % of the calls do not exceed. The worst call "
    "is often one during which the kernel gave the CPU to another thread.")
LEGEND = (
    "An allocator's column is its cost divided by the reference's (below 1 is better): the median "
    "of the rounds' own ratios. The reference is the best peer of a pilot round, which is not used "
    "otherwise. The interval is the 95 % bootstrap interval of our ratio; the bound of 1.00 counts "
    "as met when the interval reaches it. `~`: the interval is wider than ±3 % even after "
    "repeating; read it as noise. `x`: crashed, failed or timed out. `-`: not measured.")


def figure_text(value, unit):
    """A figure with three significant digits and a readable unit."""
    if unit == "1/s":
        for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= factor:
                return f"{_three(value / factor)} {prefix}/s"
    if unit == "1e6/s":
        return f"{_three(value)} M/s"
    if unit in ("1", "1e6"):
        return _three(value) + unit[1:]
    if unit == "KiB" and abs(value) >= 10_000:
        return f"{_three(value / 1024)} MiB"
    if unit == "s" and 0 < abs(value) < 0.1:
        return f"{_three(value * 1e3)} ms"
    return f"{_three(value)} {unit}".strip()


def _three(value):
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def ratio_text(ratio):
    return "-" if ratio is None else f"{ratio.median:.2f}"


def spread_text(entry):
    """The distance between the quartiles as a percentage of the median."""
    low, high = entry["quartiles"]
    return f"±{100 * (high - low) / 2 / abs(entry['median']):.1f} %" if entry["median"] else "-"


# ---- The tables. Each has a heading row and rows of text cells. ----


def ratio_table(data, derived, group):
    """For each row our figure, the reference, our ratio to it, and the ratio of each allocator to it."""
    names = summary.measured_names(data)
    ours = summary.first_of_ours(data)
    heading = ["row", f"{ours}'s figure", "spread", "reference", "ratio [95 % interval]",
               "<= 1.00", *names]
    table = []
    for row in rows_of(data, group):
        entries = derived["rows"].get(row["name"])
        if entries is None:
            continue
        our = entries.get(ours)
        ratio = our["to_reference"] if our else None
        table.append([
            row["name"],
            figure_text(our["median"], our["unit"]) if our else failure_mark(derived, row, ours),
            spread_text(our) if our else "-",
            row["reference"] or "-",
            statistics.interval_text(ratio) + (" ~" if row["noise"] else ""),
            "-" if ratio is None or not statistics.has_interval(ratio) else "met" if statistics.meets(ratio, 1.0) else "no",
            *(ratio_text(entries[name]["to_reference"]) if name in entries
              else failure_mark(derived, row, name) for name in names)])
    return heading, table


# The other figures of every run, besides the row's own figure, and their units.
RESOURCE_TABLES = {"peak_rss_kib": ("peak RSS", "KiB"), "minor_faults": ("page faults", "")}


def figure_table(data, derived, group, resource=None):
    """For each row each allocator's own figure, or one of RESOURCE_TABLES."""
    names = summary.measured_names(data)
    table = []
    for row in rows_of(data, group):
        entries = derived["rows"].get(row["name"], {})
        metric = next((entry["metric"] for entry in entries.values()), "")
        cells = []
        for name in names:
            entry = entries.get(name)
            if entry is None:
                cells.append(failure_mark(derived, row, name))
            elif resource:
                cells.append(figure_text(entry[resource], RESOURCE_TABLES[resource][1]))
            else:
                cells.append(figure_text(entry["median"], entry["unit"]))
        table.append([row["name"], *([] if resource else [metric]), *cells])
    return ["row", *([] if resource else ["figure"]), *names], table


def mean_table(data, derived):
    ours = summary.first_of_ours(data)
    heading = ["allocator", "time", f"{ours} / it, time", "peak RSS", f"{ours} / it, peak RSS",
               "rows", "failed"]
    table = []
    for name in summary.measured_names(data):
        means = derived["means"][name]
        against = means["ours"].get(ours, {})
        table.append([name, ratio_text(means["time"]), statistics.interval_text(against.get("time")),
                      ratio_text(means["peak"]), statistics.interval_text(against.get("peak")),
                      str(means["rows"]), str(means["failed"])])
    return heading, table


def without_the_outlier(data, derived):
    """The means without the row that changes them most; nothing if there are few rows."""
    ours = summary.first_of_ours(data)
    logs = {}  # by peer and row
    for row in data["rows"]:
        entry = derived["rows"].get(row["name"], {}).get(ours)
        if entry is None or row["group"] not in summary.TIMED_GROUPS:
            continue
        for peer, ratio in entry["to_each"].items():
            if ratio is not None:
                logs.setdefault(peer, {})[row["name"]] = math.log(ratio.median)
    shifts = collections.Counter()
    for of_peer in logs.values():
        mean = sum(of_peer.values()) / len(of_peer)
        for row, value in of_peer.items():
            shifts[row] += (value - mean) / len(of_peer)
    if len(shifts) < 3:
        return []
    most = max(shifts, key=lambda row: abs(shifts[row]))
    others = [f"{peer} {statistics.geometric_mean(map(math.exp, rest)):.2f}"
              for peer, of_peer in logs.items()
              if (rest := [value for row, value in of_peer.items() if row != most])]
    return [f"One row moves these means most: without `{most}` {ours} / it, time, would be "
            f"{', '.join(others)}."]


def details_table(data, row_name):
    """All figures of a row that has several: latencies, the parts of a memory benchmark."""
    names = summary.measured_names(data)
    samples = summary.Samples(data["records"])
    first = next((records[0] for name in names
                  if (records := samples.records(row_name, name))), None)
    if first is None or len(first["metrics"]) < 2:
        return None
    table = []
    for number, metric in enumerate(first["metrics"]):
        cells = [metric["name"]]
        for name in names:
            figure = samples.figure(row_name, name, number)
            cells.append("-" if figure is None else figure_text(figure.median, figure.unit))
        table.append(cells)
    return ["figure", *names], table


def allocator_table(data):
    return ["allocator", "version", "library", "variables"], [
        [a["name"], a["version"] or "-", peers.portable(a["library"]) or f"missing: {a['source']}",
         " ".join(f"{name}={value}" for name, value in a["environment"].items()) or "-"]
        for a in data["allocators"]]


def compare_table(comparison, unchanged=1.0):
    def text(ratio):
        if ratio is None:
            return "-"
        low, high = ratio.interval
        if not statistics.has_interval(ratio):
            return statistics.interval_text(ratio)
        mark = "  better" if high < unchanged else "  WORSE" if low > unchanged else ""
        return statistics.interval_text(ratio) + mark

    heading = ["row", "cost, new / old", "the same relative to glibc", "peak RSS, new / old"]
    return heading, [[row["row"], row["differs"], "", ""] if row["differs"] else
                     [row["row"], text(row["time"]), text(row["relative"]), text(row["peak"])]
                     for row in comparison]


def rows_of(data, group):
    return [row for row in data["rows"] if row["group"] == group and not row["missing"]]


def failure_mark(derived, row, name):
    failed = {(failure["row"], failure["allocator"]) for failure in derived["failures"]}
    return "x" if (row["name"], name) in failed else "-"


def notes(data, derived):
    """Lines about facts that the tables alone do not show."""
    lines = [f"{failure['allocator']} in {failure['row']}: {failure['what']}"
             for failure in derived["failures"]]
    lines += [f"{allocator['name']} missing: {allocator['source']}"
              for allocator in data["allocators"] if allocator["missing"]]
    missing = collections.defaultdict(list)
    for row in data["rows"]:
        if row["missing"]:
            missing[row["missing"]].append(row["name"])
    lines += [f"{names[0]}{f' and {len(names) - 1} more rows' if names[1:] else ''} missing: {why}"
              for why, names in missing.items()]
    # The tables of points show every interval.
    noise = [row["name"] for row in data["rows"]
             if row["noise"] and row["group"] not in summary.POINT_GROUPS]
    if noise:
        lines.append(f"noise (interval wider than ±{statistics.NOISE_BOUND:.0%}): "
                     + ", ".join(noise))
    return lines


# ---- The terminal. ----


def terminal(data, derived):
    lines = [f"{name}: {value}" for name, value in data["machine"].items()]
    lines += [f"seed {data['run']['seed']}", ""]
    for group, title in GROUP_TITLES.items():
        table_of = figure_table if group == "memory" else ratio_table
        heading, table = table_of(data, derived, group)
        if table:
            lines += [title, *aligned(heading, table), ""]
    lines += ["Geometric means over the timed rows: cost to the reference, peak RSS to the smallest "
              "of the peers in the pilot", *aligned(*mean_table(data, derived)), ""]
    for group, title in curves.TITLES.items():
        standings = curves.standings(data, derived, group)
        if standings:
            lines += [title, curves.summary_sentence(standings),
                      *aligned(*curves.standing_table(standings), last_left=True), ""]
    found = notes(data, derived)
    if found:
        lines += ["Also:", *(f"  {line}" for line in found), ""]
    if data["run"]["interrupted"]:
        lines.append("This run was interrupted.")
    if data["run"]["quick"]:
        lines.append("This was a quick run: too short for conclusions.")
    return "\n".join(lines)


def comparison_text(comparison):
    return "\n".join(aligned(*compare_table(comparison)))


def aligned(heading, table, last_left=False):
    """Lines of text in columns. The first column is aligned left, and with `last_left` the last one, too."""
    widths = [max(map(len, column)) for column in zip(heading, *table)]
    left = {0, len(heading) - 1} if last_left else {0}
    return ["  ".join(cell.ljust(width) if number in left else cell.rjust(width)
                      for number, (cell, width) in enumerate(zip(row, widths))).rstrip()
            for row in (heading, *table)]


# ---- The pages. ----


def page(data, derived, plots, json_name, reading="", server=()):
    """The short page, bench/results/README.md, for readers of the results. `plots` are pairs of a
    title and a file name."""
    machine = data["machine"]
    parts = [
        "# Benchmark results",
        "    make bench",
        f"Run of {machine['time'][:10]} on {machine['processors']} CPUs ({machine['processor']}), "
        f"{machine['kernel']}, "
        f"{machine['distribution']}, transparent hugepages `{machine['hugepages']}`. "
        f"[All tables]({TABLES}), with every row and every figure; all measurements: [{json_name}]({json_name}). "
        "`make bench` generates this page from that file; do not edit it.",
        *(["## Reading", reading] if reading else []),
        "## Geometric means",
        "Means over the benchmark programs and the real programs. Time is relative to each row's "
        "reference, peak RSS to the peer with the smallest peak. The mean of an allocator leaves "
        "out rows in which it failed, in its favour.",
        *markdown(*mean_table(data, derived)), *without_the_outlier(data, derived)]
    rows = [row["name"] for row in rows_of(data, "latency")]
    for row in rows[-1:]:
        if details := details_table(data, row):
            parts += ["## How long single calls take", LATENCY, *markdown(*details)]
    parts += server
    if plots:
        parts.append("## Pictures")
        parts += [f"![{title}]({file})" for title, file in plots]
    return "\n\n".join(parts) + "\n"


def tables(data, derived, json_name, times_name=""):
    """The page with every table."""
    machine = data["machine"]
    parts = ["# Benchmark results: all tables",
             f"The [page of results](README.md) has the means and the pictures. This page, too, is generated from [{json_name}]({json_name}).",
             "## Row by row", LEGEND]
    for group, title in GROUP_TITLES.items():
        heading, table = ratio_table(data, derived, group)
        if table:
            parts += [f"### {title}", *markdown(heading, table)]
    for group in curves.TITLES:
        parts += point_parts(data, derived, group)
    found = notes(data, derived)
    if found:
        parts += ["## Failed, missing, uncertain", "\n".join(f"* {line}" for line in found)]
    parts.append("## Figures")
    for group, title in GROUP_TITLES.items():
        heading, table = figure_table(data, derived, group)
        if table:
            parts += [f"### {title}: medians", *markdown(heading, table)]
    for group in ("programs", "apps"):
        for resource, (title, _) in RESOURCE_TABLES.items():
            heading, table = figure_table(data, derived, group, resource)
            if table:
                parts += [f"### {GROUP_TITLES[group]}: {title}", *markdown(heading, table)]
    for row in data["rows"]:
        is_point = row["group"] in ("sweep", *summary.POINT_GROUPS)
        details = None if is_point else details_table(data, row["name"])
        if details:
            parts += [f"### {row['name']}: all figures", *markdown(*details)]
    if times_name:
        parts += ["## t-test1, raw", f"One line for each run: "
                  f"[{times_name}]({times_name}), as `time.THREADS.ALLOCATOR.LARGEST_SIZE:`; "
                  f"{SWEEP_OPERATIONS:,} operations by each thread, fewer above "
                  f"{curves.size_text(SWEEP_LARGEST_OF_ALL_OPERATIONS)}."]
    parts += ["## How it was measured", *markdown(*allocator_table(data)),
              *markdown(["fact", ""], [[name, value] for name, value in machine.items()]),
              "Commands:",
              "\n".join(["```", *(f"{row['name']:24} {row['command']}" for row in data["rows"]
                                  if row["group"] != "sweep"), "```"]),
              f"Started as `{data['run']['command_line']}`, seed {data['run']['seed']}."]
    return "\n\n".join(parts) + "\n"


def point_parts(data, derived, group):
    """The section about a group of points; nothing if the run has none."""
    standings = curves.standings(data, derived, group)
    if not standings:
        return []
    parts = [f"## {curves.TITLES[group]}", curves.INTRODUCTIONS[group],
             curves.summary_sentence(standings), *markdown(*curves.standing_table(standings))]
    heading, table = curves.two_threads_table(data)
    if group == curves.LARGE and table:
        parts += ["Throughput of two threads divided by that of one:", *markdown(heading, table)]
    return parts


def markdown(heading, table):
    def line(cells):
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "---|" * len(heading)
    return ["\n".join([line(heading), rule, *map(line, table)])]


def sweep_times(data):
    """The raw data of the t-test1 figures, one line per run."""
    lines = []
    for record in data["records"]:
        if not record["row"].startswith("t-test1/") or "failure" in record:
            continue
        _, threads, size = record["row"].split("/")
        used = record["user_s"] + record["sys_s"]
        share = 100 * used / record["wall_s"] if record["wall_s"] else 0
        lines.append(f"time.{threads}.{record['allocator']}.{size}:"
                     f"{record['user_s']:.2f} user {record['sys_s']:.2f} system "
                     f"{record['wall_s']:.2f} elapsed {share:.0f}% CPU")
    return "".join(f"{line}\n" for line in lines)
