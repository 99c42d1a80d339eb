# SPDX-License-Identifier: BSD-3-Clause
"""Everything in the documents that comes from benchmark data, made from the data.

* bench/results/README.md, whole, and beside it the pictures and the raw lines of t-test1: from the
  one run in that folder, which is the newest full one. Earlier runs are in history/.
* The parts of README.md and docs/ between two marks. The first mark names what is made, and the
  data if that is another run's:

      <!-- made by 'scripts/bench.py --documents': reasons -->
      <!-- made by 'scripts/bench.py --documents': means -->
      <!-- made by 'scripts/bench.py --documents': index-build -->
      <!-- made by 'scripts/bench.py --documents': index-build bench/results/history/RUN.json -->
      ...
      <!-- end of what is made -->

The only words that a person writes are those of bench/results/reading.md.
"""

import json
import os
import re
import textwrap

from . import curves, pauses, plots, reasons, report, statistics, summary
from .process import BenchError

RESULTS = "bench/results"
HISTORY = "history"
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
    """The path of the newest full run: the only data in the folder of results."""
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
        reading.read_text().strip() if reading.is_file() else "",
        "t-test1.times.txt" if times else "")
    return files


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
         "google-percpu": "the same with its per-CPU caches"}


def shown_name(allocator):
    """The name with the first word of its version, without the distribution's suffix."""
    version = re.split(r"[-+ ]", allocator["version"])[0]
    return NAMES.get(allocator["name"], f"{allocator['name']} {{}}").format(version)


def means_part(data, path, folder):
    """Time and memory relative to every peer, and the rows in which this library is worse."""
    derived = summary.stored(data)
    ours = summary.first_of_ours(data)
    facts = data["machine"]
    timed = [row for row in data["rows"]
             if row["group"] in summary.TIMED_GROUPS and row["name"] in derived["rows"]]
    programs = sum(row["group"] == "apps" for row in timed)
    machine = f"{facts['processors']} CPUs ({facts['processor']}"
    machine += ", a virtual machine)" if facts.get("virtualization") == "yes" else ")"
    lines = [
        wrapped(f"Run of {facts['time'][:10]} on {machine}: geometric means over {len(timed)} "
                f"rows, {programs} of them real programs, of this library's figure divided by the "
                "other's, with 95 % intervals. Below 1 this library needs less."), "",
        "| compared with | time | peak memory |", "|---|---|---|"]
    for allocator in data["allocators"]:
        if allocator["ours"] or allocator["missing"]:
            continue
        against = derived["means"][allocator["name"]]["ours"][ours]
        lines.append(f"| {shown_name(allocator)} | {short_ratio(against['time'])} "
                     f"| {short_ratio(against['peak'])} |")
    lines += ["", wrapped(losses(timed, derived, ours)
                          + f" [Details]({link(folder, path.parent / 'README.md')}).")]
    return "\n".join(lines)


def losses(timed, derived, ours):
    """One sentence: how this library stands beside the best peer of each row."""
    ratios = {row["name"]: ratio for row in timed
              if (entry := derived["rows"][row["name"]].get(ours))
              and (ratio := entry["to_reference"]) and statistics.has_interval(ratio)}
    behind = sorted((name for name, ratio in ratios.items() if ratio.interval.low > 1),
                    key=lambda name: -ratios[name].median)
    ahead = sum(ratio.interval.high < 1 for ratio in ratios.values())
    text = (f"Compared with the best peer of each row this library is faster in {ahead} rows, "
            f"level in {len(ratios) - ahead - len(behind)} and slower in {len(behind)}")
    most = [f"`{name}` ({ratios[name].median:.2f})" for name in behind[:3]]
    return text + (f". Its largest costs relative to the best peer's: {', '.join(most)}."
                   if most else ".")


def index_build_part(data, path, folder):
    """Memory of the index that threads rebuild in turns, with phases and without."""
    samples = summary.Samples(data["records"])
    plain, phased = "index-build", "index-build-phases"
    ours = summary.first_of_ours(data)
    lines = []
    rows = [(phased, ours, "this library, with phases"), (plain, ours, "this library, without")]
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
    lines = [f"| {live / 1024:.0f} MiB live | peak resident, MiB | peak / live |", "|---|---|---|",
             *lines]
    picture = path.parent / f"{plain}.svg"
    if picture.is_file():
        lines += ["", f"![resident memory over time]({link(folder, picture)})"]
    return "\n".join(lines)


def wrapped(text):
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def link(folder, path):
    return os.path.relpath(path, folder)


def short_ratio(ratio):
    if ratio is None:
        return "-"
    return f"{ratio.median:.2f} [{ratio.interval.low:.2f}, {ratio.interval.high:.2f}]"


def points_part(group):
    """The text of a page about the points of a group: which they are, the results, the picture."""
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


def reasons_part(data, path, folder):
    """Why to use this library, with one figure each."""
    root = root_of(path)
    return "\n".join(reasons.reasons(data, root, lambda name: link(folder, root / name)))


def pauses_part(part):
    """A table of how long the command stops a process."""
    return lambda data, path, folder: pauses.shown(root_of(path), part)


def pauses_in_words(data, path, folder):
    root = root_of(path)
    return (f"With 1 GiB and 64 threads, `objects` stops a process for {pauses.objects_pause(root)} ms, `leaks` for "
            f"{pauses.leaks_pause(root)} ms.")


PARTS = {"means": means_part, "reasons": reasons_part, "index-build": index_build_part, "pauses-in-words": pauses_in_words,
         **{part: pauses_part(part) for part in pauses.SHOWN},
         **{group: points_part(group) for group in summary.POINT_GROUPS}}
