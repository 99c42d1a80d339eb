# SPDX-License-Identifier: BSD-3-Clause
"""The pictures of a run, as SVG. Needs matplotlib, which is optional: see available()."""

import math

from . import curves, server, statistics, summary
from .report import GROUP_TITLES, rows_of

# Bars beyond this many times the reference are cut, with their figure written on them.
LONGEST_BAR = 4.0
COLUMNS = 6


def available():
    """matplotlib's version, or None."""
    try:
        import matplotlib
    except ImportError:
        return None
    return matplotlib.__version__


SERVER_PICTURE = "memory.svg"
# Titles by file, in the order of a page.
PICTURES = {
    **{file: title for group, name in GROUP_TITLES.items() if group != "latency" for file, title in (
        (f"{group}.svg", f"{name}: cost relative to the reference"),
        (f"{group}-rss.svg", f"{name}: peak RSS relative to the leanest peer"))},
    "t-test1-elapsed.svg":
        "t-test1: million operations per elapsed second against the largest size",
    "t-test1-cpu.svg": "t-test1: million operations per CPU second against the number of threads",
    "over-threads.svg": "Cost over threads, at the parameters of the report on false sharing",
    "large-objects.svg": "Objects of 16 KiB to 1 MiB: cost relative to the best peer",
    "call-latency.svg": "Single calls of malloc and free: the share of calls that take longer than a time",
    "rss-over-time.svg": "RSS over time",
    "index-build.svg": "An index rebuilt by threads that take turns: RSS over time",
}


def drawn_from(folder, json_name):
    """The pictures in the folder that show this data: pairs of a title and a file name."""
    return [(title, file) for file, title in PICTURES.items()
            if (folder / file).is_file() and source_mark(json_name) in (folder / file).read_text()]


def source_mark(json_name):
    """The element by which matplotlib names the source of a picture."""
    return f"<dc:source>{json_name}</dc:source>"


def draw_all(data, derived, folder, json_name):
    """Writes the pictures and returns their names. Each picture names the file of its data."""
    import matplotlib
    matplotlib.use("svg")
    # With this salt the same data gives the same file.
    matplotlib.rcParams.update({"svg.hashsalt": "tcmalloc", "font.size": 8})
    style = Style(data)
    drawn = []

    def save(figure, file):
        if figure is None:
            return
        figure.savefig(folder / file, metadata={"Date": None, "Source": json_name})
        drawn.append(file)
        import matplotlib.pyplot as pyplot
        pyplot.close(figure)

    for group in (group for group in GROUP_TITLES if group != "latency"):
        save(bars(data, derived, group, style), f"{group}.svg")
        if group in ("programs", "apps"):
            save(bars(data, derived, group, style, peaks=True), f"{group}-rss.svg")
    points = sweep_points(data)
    save(throughput_by_size(points, style), "t-test1-elapsed.svg")
    save(throughput_by_threads(points, style), "t-test1-cpu.svg")
    save(cost_over_threads(data, style), "over-threads.svg")
    save(cost_over_sizes(data, style), "large-objects.svg")
    save(call_latency(data, style), "call-latency.svg")
    save(memory_over_time(data, style), "rss-over-time.svg")
    save(index_build(data, style), "index-build.svg")
    return drawn


class Style:
    """One colour per allocator in all pictures; ours stands out."""

    def __init__(self, data):
        import matplotlib
        colours = matplotlib.colormaps["tab10"].colors
        self.names = summary.measured_names(data)
        self.ours = {a["name"] for a in data["allocators"] if a["ours"]}
        others = [name for name in self.names if name not in self.ours]
        self._colours = {name: colours[number % len(colours)]
                         for number, name in enumerate(others)}

    def colour(self, name):
        return self._colours.get(name, "black")

    def line(self, name):
        return {"color": self.colour(name), "linewidth": 2 if name in self.ours else 1,
                "marker": "o", "markersize": 2, "label": name}


def _grid(number, height, columns=COLUMNS, **options):
    import matplotlib.pyplot as pyplot
    rows = math.ceil(number / columns)
    figure, axes = pyplot.subplots(rows, min(columns, number), squeeze=False, layout="constrained",
                                   figsize=(2.2 * min(columns, number) + 1.5, height * rows + 0.8),
                                   **options)
    flat = list(axes.flat)
    for unused in flat[number:]:
        unused.set_axis_off()
    return figure, flat


def bars(data, derived, group, style, peaks=False):
    rows = [row for row in rows_of(data, group) if derived["rows"].get(row["name"])]
    if not rows:
        return None
    figure, axes = _grid(len(rows), 0.16 * len(style.names) + 0.5)
    key = "peak_to_reference" if peaks else "to_reference"
    for axis, row in zip(axes, rows):
        entries = derived["rows"][row["name"]]
        for position, name in enumerate(style.names):
            ratio = entries[name][key] if name in entries else None
            if ratio is None:
                axis.text(0.05, position, "failed" if name not in entries else "no figure",
                          va="center", fontsize=6)
                continue
            low, high = ratio.interval
            length = min(ratio.median, LONGEST_BAR)
            axis.barh(position, length, color=style.colour(name))
            if ratio.median > LONGEST_BAR:
                axis.text(LONGEST_BAR, position, f"{ratio.median:.1f} ", ha="right", va="center",
                          fontsize=6, color="white")
            else:
                axis.hlines(position, low, min(high, LONGEST_BAR), color="grey", linewidth=1)
        axis.axvline(1, color="grey", linewidth=0.5)
        axis.set_title(row["name"] + (" ~" if row["noise"] else ""), fontsize=8)
        axis.set_yticks(range(len(style.names)), style.names, fontsize=6)
        axis.tick_params(axis="x", labelsize=6)
        axis.set_xlim(left=0)
        axis.invert_yaxis()
    return figure


def sweep_points(data):
    """(allocator, threads, size) -> million operations per elapsed and per CPU second.

    The median over the rounds.
    """
    operations = {row["name"]: int(row["command"].split()[3]) for row in data["rows"]
                  if row["group"] == "sweep"}
    values = {}
    for record in data["records"]:
        if record["row"] not in operations or "failure" in record:
            continue
        _, threads, size = record["row"].split("/")
        millions = operations[record["row"]] * int(threads) / 1e6
        cpu_s = record["user_s"] + record["sys_s"]
        if record["wall_s"] > 0 and cpu_s > 0:
            values.setdefault((record["allocator"], int(threads), int(size)), []).append(
                (millions / record["wall_s"], millions / cpu_s))
    return {point: tuple(map(statistics.median, zip(*rounds))) for point, rounds in values.items()}


def throughput_by_size(points, style):
    return _throughput(points, style, panel=1, across=2, value=0,
                       title=lambda threads: f"{threads} thread{'s' * (threads > 1)}",
                       label="largest size, bytes", base=2)


def throughput_by_threads(points, style):
    return _throughput(points, style, panel=2, across=1, value=1,
                       title=lambda size: f"up to {size} bytes", label="threads", base=None)


def cost_over_threads(data, style):
    """A panel for each program and size, a line for each allocator."""
    found = curves.points(data, curves.THREADS)
    if not found:
        return None
    figure, axes = _grid(len(found), 2.2, columns=4)
    for axis, ((program, size), lines) in zip(axes, sorted(found.items())):
        for name in style.names:
            if name in lines:
                axis.plot(*zip(*lines[name]), **style.line(name))
        lowest = min(cost for line in lines.values() for _, cost in line)
        highest = max(cost for line in lines.values() for _, cost in line)
        _label_curves(axis, f"{program}, {curves.size_text(size)}", "threads",
                      min(highest * 1.05, LONGEST_BAR * lowest))
    axes[0].set_ylabel("cost", fontsize=6)
    _add_legend(figure, axes[0])
    return figure


def cost_over_sizes(data, style):
    """A panel for each pattern and number of threads: cost divided by the best peer's."""
    panels = {}  # (pattern, threads) -> allocator -> pairs of size and ratio
    for (program, size), lines in curves.points(data, curves.LARGE).items():
        costs = {}
        for name, line in lines.items():
            for threads, cost in line:
                costs.setdefault(threads, {})[name] = cost
        for threads, by_name in costs.items():
            best = min((cost for name, cost in by_name.items() if name not in style.ours),
                       default=None)
            for name, cost in by_name.items():
                if best:
                    panels.setdefault((program, threads), {}).setdefault(name, []).append(
                        (size, cost / best))
    if not panels:
        return None
    figure, axes = _grid(len(panels), 2.2, columns=3)
    for axis, ((program, threads), lines) in zip(axes, sorted(panels.items(), reverse=True)):
        for name in style.names:
            if name in lines:
                axis.plot(*zip(*sorted(lines[name])), **style.line(name))
        axis.axhline(1, color="grey", linewidth=0.5)
        _label_curves(axis, f"{program}, {threads} thread{'s' * (threads > 1)}", "size, bytes",
                      LONGEST_BAR)
    axes[0].set_ylabel("cost / the best peer's", fontsize=6)
    _add_legend(figure, axes[0])
    return figure


def _label_curves(axis, title, label, top):
    axis.set_xscale("log", base=2)
    axis.set_ylim(0, top)
    axis.set_title(title, fontsize=8)
    axis.set_xlabel(label, fontsize=6)
    axis.tick_params(labelsize=6)


def _throughput(points, style, panel, across, value, title, label, base):
    """One panel per value of the key's part `panel`, one line per allocator along `across`."""
    if not points:
        return None
    panels = sorted({point[panel] for point in points})
    figure, axes = _grid(len(panels), 2.2, columns=3)
    for axis, of_panel in zip(axes, panels):
        for name in style.names:
            line = sorted((point[across], figures[value]) for point, figures in points.items()
                          if point[0] == name and point[panel] == of_panel)
            if line:
                axis.plot(*zip(*line), **style.line(name))
        if base:
            axis.set_xscale("log", base=base)
        axis.set_title(title(of_panel), fontsize=8)
        axis.set_xlabel(label, fontsize=6)
        axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=6)
    axes[0].set_ylabel("million operations/s", fontsize=6)
    _add_legend(figure, axes[0])
    return figure


def _add_legend(figure, axis):
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, fontsize=6) \
        if _has_outside() else axis.legend(fontsize=5)


def _has_outside():
    import matplotlib
    return tuple(map(int, matplotlib.__version__.split(".")[:2])) >= (3, 7)


def courses(data):
    """row -> allocator -> (columns, rows) of the last counted run that reports a course."""
    found = {}
    for record in data["records"]:
        if record.get("series") and "failure" not in record:
            series = record["series"]
            found.setdefault(record["row"], {})[record["allocator"]] = (series["columns"],
                                                                        series["rows"])
    return found


def memory_over_time(data, style):
    """A panel for each row that reports resident memory and nothing else."""
    memory = {row["name"] for row in rows_of(data, "memory")} - {*INDEX_BUILD_ROWS}
    panels = {row: by_name for row, by_name in courses(data).items() if row in memory}
    if not panels:
        return None
    figure, axes = _grid(len(panels), 3.5, columns=1)
    figure.set_figwidth(8)
    for axis, (row, by_name) in zip(axes, panels.items()):
        for name in style.names:
            if name in by_name:
                axis.plot(*seconds_and_mib(by_name[name], "rss_kib"),
                          **{**style.line(name), "marker": None})
        label_memory(axis, row)
    return figure


def call_latency(data, style):
    """The shares of slower calls over the time, both logarithmic, for the row with the most threads."""
    rows = rows_of(data, "latency")
    by_name = courses(data).get(rows[-1]["name"]) if rows else None
    if not by_name:
        return None
    figure, axes = _grid(2, 4, columns=2)
    figure.set_figwidth(11)
    for axis, column, title in zip(axes, ("slower_mallocs", "slower_frees"), ("malloc", "free")):
        for name in style.names:
            if name in by_name:
                columns, points = by_name[name]
                at = columns.index(column)
                axis.plot(*zip(*((point[0], point[at]) for point in points if point[at] > 0)),
                          **{**style.line(name), "marker": None})
        axis.set(xscale="log", yscale="log", title=f"{title}, {rows[-1]['name']}", xlabel="ns", ylabel="share of calls that take longer")
        axis.legend(fontsize=6)
    return figure


# Without phases, the panel has every allocator; with phases, those that have phases.
INDEX_BUILD_ROWS = ("index-build", "index-build-phases")


def index_build(data, style):
    """Draws the rows with phases and without in one panel, above the memory that the program holds."""
    without, phases = (courses(data).get(row, {}) for row in INDEX_BUILD_ROWS)
    if not without and not phases:
        return None
    figure, axes = _grid(1, 5, columns=1)
    figure.set_figwidth(10)
    axis = axes[0]
    for name in style.names:
        line = {**style.line(name), "marker": None}
        if name in without:
            own = {"linestyle": "--", "label": f"{name}, no phases"} if name in style.ours else {}
            axis.plot(*seconds_and_mib(without[name], "rss_kib"), **{**line, **own})
        if name in phases:
            axis.plot(*seconds_and_mib(phases[name], "rss_kib"),
                      **{**line, "label": f"{name}, phases"})
    live = next(iter((phases or without).values()))
    axis.fill_between(*seconds_and_mib(live, "live_kib"), color="lightgrey", label="live")
    label_memory(axis, "index-build: four shards, sixteen threads that take turns")
    return figure


def draw_server(data, folder):
    """Draws the memory of redis-servers over time (server.py) and returns the name of the file."""
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "tcmalloc", "font.size": 8})
    style = Style({**data, "records": [{"allocator": name} for name in data["records"]]})
    figure, axes = _grid(1, 4.5, columns=1)
    figure.set_figwidth(10)
    axis = axes[0]
    for name, rows in data["records"].items():
        axis.plot([row[0] / 60 for row in rows], [row[1] / 1024 for row in rows], **{**style.line(name), "marker": None})
    times, kib = zip(*server.live(data["records"]))
    axis.fill_between([time / 60 for time in times], [value / 1024 for value in kib], color="lightgrey", label="objects")
    label_memory(axis, "a redis-server under a load that changes every tenth of the time")
    axis.set_xlabel("minutes")
    figure.savefig(folder / SERVER_PICTURE, metadata={"Date": None})
    return SERVER_PICTURE


def seconds_and_mib(course, column):
    """The times and the values of a course's column."""
    columns, rows = course
    at = columns.index(column)
    return [row[0] for row in rows], [row[at] / 1024 for row in rows]


def label_memory(axis, title):
    axis.set_title(title)
    axis.set_xlabel("seconds")
    axis.set_ylabel("MiB resident")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=6)
