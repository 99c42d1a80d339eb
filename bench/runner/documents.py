# SPDX-License-Identifier: BSD-3-Clause
"""Everything in the documents that comes from benchmark data, made from the data.

* All of bench/results/README.md and tables.md, with the pictures and the raw lines of t-test1
  beside them. They are made from the one run in that folder, which is the newest full one. Earlier
  runs are in history/.
* The parts of README.md and docs/ between two marks. The first mark names the generated part, and
  the file of the data if that is another run's:

      <!-- made by 'scripts/bench.py --documents': in-short -->
      <!-- made by 'scripts/bench.py --documents': index-build -->
      <!-- made by 'scripts/bench.py --documents': index-build bench/results/history/RUN.json -->
      ...
      <!-- end of what is made -->

A person writes only the text of bench/results/reading.md.
"""

import json
import math
import os
import re
import textwrap

from . import curves, pauses, plots, report, server, statistics, summary
from .process import BenchError

RESULTS = "bench/results"
HISTORY = "history"
SERVER = "server"  # the folder of the run of servers (server.py), beside the other run
SERVER_DATA = "memory.json"
READING = "reading.md"
# The limit keeps the text short enough to be read.
MOST_READING_LINES = 30
MARKED = re.compile(r"(?P<first><!-- made by 'scripts/bench\.py --documents': (?P<what>[\w-]+)"
                    r"(?: (?P<run>\S+\.json))? -->\n)(?P<made>.*?)"
                    r"(?P<last><!-- end of what is made -->)", re.DOTALL)


def load(path):
    try:
        data = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise BenchError(f"{path}: {error}") from None
    if data.get("format") != 1 or "allocators" not in data:
        raise BenchError(f"{path} is not the data of a run")
    return data


def newest_run(root):
    """The path of the newest full run, which is the only data in the folder of results."""
    found = sorted((root / RESULTS).glob("*.json"))
    if len(found) != 1:
        raise BenchError(f"{RESULTS} has to hold the newest full run and no other, found "
                         f"{len(found)}: move the older ones to {RESULTS}/{HISTORY}")
    return found[0]


def retire(folder, newest):
    """Moves the data of earlier runs to another folder than the newest."""
    for path in folder.glob("*.json"):
        if path != newest:
            (folder / HISTORY).mkdir(exist_ok=True)
            path.rename(folder / HISTORY / path.name)


def results_files(folder, json_path, data, derived):
    """The texts beside a run's data, by name."""
    files = {}
    times = report.sweep_times(data)
    if times:
        files["t-test1.times.txt"] = times
    reading = folder / READING
    files["README.md"] = report.page(
        data, derived, plots.drawn_from(folder, json_path.name), json_path.name,
        reading.read_text().strip() if reading.is_file() else "", server_parts(folder))
    files[report.TABLES] = report.tables(data, derived, json_path.name,
                                         "t-test1.times.txt" if times else "")
    return files


def server_parts(folder):
    """The section about the run of servers. Empty if there was no such run."""
    if not (folder / SERVER / SERVER_DATA).is_file():
        return []
    data = json.loads((folder / SERVER / SERVER_DATA).read_text())
    revision = next(allocator["version"] for allocator in data["allocators"] if allocator["ours"])
    return [f"## A server for {data['minutes']} minutes", f"A redis-server on each allocator, all under the same load at the same time; run of "
            f"{data['machine']['time'][:10]}, tcmalloc {revision}. *Objects*: what is in use, as redis counts it.",
            *report.markdown(*server.table(data)), f"![resident memory over time]({SERVER}/{plots.SERVER_PICTURE})"]


def marked_documents(root):
    """The documents that may have marked parts."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def with_parts_made(root, document, data_of):
    """The correct text of the document. `data_of` loads a run by its path."""
    def make(match):
        if match["what"] not in PARTS:
            raise BenchError(f"{document}: there is no part {match['what']}, only "
                             f"{', '.join(PARTS)}")
        path = root / match["run"] if match["run"] else newest_run(root)
        made = PARTS[match["what"]](data_of(path), path, document.parent)
        return f"{match['first']}{made}\n{match['last']}"

    return MARKED.sub(make, document.read_text())


def expected(root):
    """All generated texts: the correct contents of each file, by path."""
    loaded = {}

    def data_of(path):
        if path not in loaded:
            loaded[path] = load(path)
        return loaded[path]

    newest = newest_run(root)
    data = data_of(newest)
    texts = {newest.parent / name: text for name, text in
             results_files(newest.parent, newest, data, summary.stored(data)).items()}
    for document in marked_documents(root):
        texts[document] = with_parts_made(root, document, data_of)
    return texts


def differing(root):
    """The files whose contents differ from what the data gives."""
    return [path for path, text in expected(root).items()
            if not path.is_file() or path.read_text() != text]


def write(root):
    """Updates all files and returns those that changed."""
    changed = differing(root)
    for path, text in expected(root).items():
        path.write_text(text)
    return changed


# ---- The parts. ----

NAMES = {"glibc": "C library (glibc {})", "mimalloc2": "mimalloc {}", "mimalloc3": "mimalloc {}",
         "google": "Google's TCMalloc {}, preloaded",
         "google-percpu": "Google's TCMalloc {}, with per-CPU caches"}


def shown_name(allocator):
    """The name with the first word of its version, without the distribution's suffix."""
    version = re.split(r"[-+ ]", allocator["version"])[0]
    return NAMES.get(allocator["name"], f"{allocator['name']} {{}}").format(version)


COMPARED = {"glibc": "glibc", "gperftools": "gperftools", "jemalloc": "jemalloc", "mimalloc2": "mimalloc", "mimalloc3": "mimalloc",
            "google-percpu": "Google's TCMalloc (per-CPU caches)"}


def in_short_part(data, path, folder):
    """Two lines: means over the real programs and over the benchmark programs of time and peak memory, and the losses."""
    derived = summary.stored(data)
    ours = summary.first_of_ours(data)
    peers = [peer for peer in data["allocators"] if peer["name"] in COMPARED and not peer["missing"]]
    names = [f"{COMPARED[peer['name']]} {re.split(r'[-+ ]', peer['version'])[0]}" for peer in peers]
    others = [shown_name(peer) for peer in data["allocators"]
              if peer["name"] not in COMPARED and not peer["missing"] and not peer["ours"]]
    lines = [f"| ratio of time / ratio of peak memory: this library to | {' | '.join(names)} |", "|---|" + "---|" * len(peers)]
    for groups, what in ((("apps",), "real programs"), (("micro", "programs"), "benchmark programs")):
        rows = [derived["rows"][row["name"]] for row in data["rows"]
                if row["group"] in groups and row["name"] in derived["rows"]]
        if not rows:
            continue
        cells = []
        for peer in peers:
            pairs = [(row[ours], row[peer["name"]]) for row in rows if ours in row and peer["name"] in row]
            time = math.exp(sum(math.log(cost_of(our) / cost_of(their)) for our, their in pairs) / len(pairs))
            peak = math.exp(sum(math.log(our["peak_rss_kib"] / their["peak_rss_kib"]) for our, their in pairs) / len(pairs))
            cells.append(f"{time:.2f} / {peak:.2f}")
        lines.append(f"| {len(rows)} {what} | {' | '.join(cells)} |")
    timed = [row for row in data["rows"] if row["group"] in summary.TIMED_GROUPS and row["name"] in derived["rows"]]
    lines += ["", f"A cell has this library's time divided by that of the column's allocator, then the same ratio for peak memory. "
              f"A ratio below 1 means that this library needs less. Each is the geometric mean of the programs' ratios; "
              f"a program's ratio is that of the two medians. The data is the run of "
              f"{data['machine']['time'][:10]} on {data['machine']['processors']} CPUs. {losses(timed, derived, ours, others)} "
              f"[The tables of that run]({link(folder, path.parent / report.TABLES)}) have all figures."]
    return "\n".join(lines)


def cost_of(entry):
    return entry["median"] if entry["better"] == "lower" else 1 / entry["median"]


def losses(timed, derived, ours, others):
    """Sentences that compare this library with the best peer of each row."""
    ratios = {row["name"]: ratio for row in timed
              if (entry := derived["rows"][row["name"]].get(ours))
              and (ratio := entry["to_reference"]) and statistics.has_interval(ratio)}
    behind = sorted((name for name, ratio in ratios.items() if ratio.interval.low > 1),
                    key=lambda name: -ratios[name].median)
    ahead = sum(ratio.interval.high < 1 for ratio in ratios.values())
    included = f" Allocators that this table leaves out took part, too: {'; '.join(others)}." if others else ""
    text = (f"For each of these {len(ratios)} programs, this library was also compared with the fastest other allocator.{included} "
            f"This library was faster in {ahead} programs and slower in {len(behind)}. In the other {len(ratios) - ahead - len(behind)}, "
            f"the 95 % interval of the ratio includes 1, so the run shows no clear difference.")
    most = [f"`{name}` ({ratios[name].median:.2f})" for name in behind[:3]]
    return text + (f" The largest ratios of this library's time to that of the fastest other allocator are in {', '.join(most)}." if most else "")


def index_build_part(data, path, folder):
    """The text about index-build: the memory of an index whose shards threads rebuild in turns,
    with phases and without."""
    samples = summary.Samples(data["records"])
    plain, phased = "index-build", "index-build-phases"
    ours = summary.first_of_ours(data)
    lines = []
    rows = [(phased, ours, "this library, with phases"), (plain, ours, "this library, without phases")]
    rows += [(plain, allocator["name"], shown_name(allocator)) for allocator in data["allocators"]
             if not allocator["ours"]]
    for row, name, shown in rows:
        figure = samples.figure(row, name)
        if figure is not None:
            peak = statistics.median(samples.peaks(row, name)) / 1024
            lines.append(f"| {shown} | {peak:,.0f} | {figure.median:.2f} |")
    if not lines:
        raise BenchError(f"{path} has no row {plain}")
    live = next(metric["value"] for record in data["records"] if record["row"] in (plain, phased)
                for metric in record.get("metrics", ()) if metric["name"] == "live_kib")
    lines = [f"| allocator | peak resident memory, MiB | peak divided by {live / 1024:.0f} MiB of live objects |", "|---|---|---|",
             *lines]
    picture = path.parent / f"{plain}.svg"
    if picture.is_file():
        lines += ["", f"![resident memory over time]({link(folder, picture)})"]
    return "\n".join(lines)


def wrapped(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def link(folder, path):
    return os.path.relpath(path, folder)


def points_part(group):
    """The text of a page about a group of points: a description of the points, their results, and
    their picture."""
    def make(data, path, folder):
        derived = summary.stored(data)
        standings = curves.standings(data, derived, group)
        if not standings:
            raise BenchError(f"{path} has no rows of the group {group}")
        facts = data["machine"]
        lines = [wrapped(f"Run of {facts['time'][:10]} on {facts['processors']} CPUs "
                         f"({facts['processor']}). {curves.INTRODUCTIONS[group]}"), "",
                 wrapped(curves.summary_sentence(standings)), "",
                 *report.markdown(*curves.standing_table(standings))]
        if group == curves.LARGE:
            lines += ["", "Throughput of two threads divided by that of one:", "",
                      *report.markdown(*curves.two_threads_table(data))]
        picture = path.parent / f"{group}.svg"
        if picture.is_file():
            lines += ["", f"![{plots.PICTURES[picture.name]}]({link(folder, picture)})"]
        return "\n".join(lines)

    return make


def root_of(path):
    return next(parent for parent in path.parents if (parent / RESULTS).is_dir())


def pauses_part(part):
    """A table of how long the command stops a process."""
    return lambda data, path, folder: pauses.shown(root_of(path), part)


def pauses_in_words(data, path, folder):
    root = root_of(path)
    return (f"`objects` stops a process that has 64 threads and a heap of 1 GiB for {pauses.objects_pause(root)} ms. `leaks` stops a process with "
            f"two threads and 1 GiB for {pauses.leaks_pause(root)} ms, and `leaks --snapshot` for {pauses.snapshot_pause(root)} ms.")


PARTS = {"in-short": in_short_part, "index-build": index_build_part, "pauses-in-words": pauses_in_words,
         **{part: pauses_part(part) for part in pauses.SHOWN},
         **{group: points_part(group) for group in summary.POINT_GROUPS}}
