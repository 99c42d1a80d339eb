# SPDX-License-Identifier: BSD-3-Clause
"""The results that a run's records show: figures by row and allocator, ratios, geometric means,
noise.

Works on the plain data of the JSON file, so that an old file can be reported and compared like the
run that has just ended. A row's cost is its figure if lower is better, and the inverse if higher is
better, so a ratio of costs below 1 is always an advantage.
"""

import collections

from . import statistics

# Groups of rows that are points of curves (curves.py). They have ratios like others, but do not count in means.
POINT_GROUPS = ("over-threads", "large-objects")
GROUPS = ("micro", "programs", "apps", "latency", "memory", *POINT_GROUPS)
# Groups of rows whose figure is a time or a rate; the figure of the others is memory itself.
TIMED_GROUPS = ("micro", "programs", "apps")

Figure = collections.namedtuple("Figure", "median quartiles unit better name")


class Samples:
    """The records of the given phases, by row and allocator, in the order of the rounds."""

    def __init__(self, records, phases=("counted", "repeat")):
        self._by_pair = collections.defaultdict(list)
        self._failures = {}
        for record in records:
            pair = (record["row"], record["allocator"])
            if "failure" in record:
                self._failures[pair] = record["failure"]
            elif record["phase"] in phases:
                self._by_pair[pair].append(record)

    def failure(self, row, allocator):
        return self._failures.get((row, allocator), "")

    @property
    def failures(self):
        """(row, allocator) -> how it failed."""
        return dict(self._failures)

    def records(self, row, allocator):
        """The records; empty for a pair that failed at any time, since an incomplete result does not count."""
        return [] if self.failure(row, allocator) else self._by_pair[row, allocator]

    def costs(self, row, allocator):
        """The costs; empty if one of them is 0, since no ratio can be formed with 0."""
        costs = [cost(record["metrics"][0]) for record in self.records(row, allocator)]
        return costs if all(costs) else []

    def peaks(self, row, allocator):
        return [record["peak_rss_kib"] for record in self.records(row, allocator)]

    def faults(self, row, allocator):
        return [record["minor_faults"] for record in self.records(row, allocator)]

    def figure(self, row, allocator, metric=0):
        """The row's own figure over the rounds; None if it has no records."""
        records = self.records(row, allocator)
        if not records:
            return None
        values = [record["metrics"][metric]["value"] for record in records]
        first = records[0]["metrics"][metric]
        return Figure(statistics.median(values), statistics.quartiles(values), first["unit"],
                      first["better"], first["name"])

    def cost_ratio(self, row, ours, theirs, seed):
        return self._ratio(row, ours, theirs, lambda record: cost(record["metrics"][0]), seed)

    def peak_ratio(self, row, ours, theirs, seed):
        return self._ratio(row, ours, theirs, lambda record: record["peak_rss_kib"], seed)

    def _ratio(self, row, ours, theirs, value, seed):
        pairs = self._pairs(row, ours, theirs, value)
        return statistics.paired_ratio(*zip(*pairs), seed) if pairs else None

    def round_ratios(self, row, ours, theirs, value):
        """The ratio of each round in which both took part."""
        return [our / their for our, their in self._pairs(row, ours, theirs, value)]

    def _pairs(self, row, ours, theirs, value):
        by_round = {record["round"]: value(record) for record in self.records(row, theirs)}
        pairs = [(value(record), by_round[record["round"]]) for record in self.records(row, ours)
                 if record["round"] in by_round]
        return pairs if all(our > 0 and their > 0 for our, their in pairs) else []


def cost(metric):
    """The cost; 0 for a rate of 0, with which no ratio is formed."""
    value = metric["value"]
    if metric["better"] == "lower" or value <= 0:
        return max(value, 0.0)
    return 1 / value


def summarize(data):
    """The derived figures that the JSON file holds besides the raw ones."""
    samples = Samples(data["records"])
    seed = data["run"]["seed"]
    names = measured_names(data)
    ours = [allocator["name"] for allocator in data["allocators"]
            if allocator["ours"] and not allocator["missing"]]
    rows = {row["name"]: summarize_row(row, samples, names, ours, seed)
            for row in data["rows"] if not row["missing"] and row["group"] in GROUPS}
    return {
        "rows": rows,
        "means": {name: summarize_means(data["rows"], samples, name, ours, seed)
                  for name in names},
        "failures": [{"row": row, "allocator": allocator, "what": what}
                     for (row, allocator), what in samples.failures.items()],
    }


def stored(data):
    """The summary in a run's file, as summarize() returned it."""
    def restored(value):
        if isinstance(value, list):
            return [restored(item) for item in value]
        if not isinstance(value, dict):
            return value
        made = {name: restored(item) for name, item in value.items()}
        for form in (statistics.Ratio, statistics.Interval):
            if set(made) == set(form._fields):
                return form(**made)
        return made

    return restored(data["summary"])


def measured_names(data):
    return [allocator["name"] for allocator in data["allocators"] if not allocator["missing"]]


def summarize_row(row, samples, names, ours, seed):
    result = {}
    for name in names:
        figure = samples.figure(row["name"], name)
        if figure is None:
            continue
        peaks = samples.peaks(row["name"], name)
        result[name] = {
            "median": figure.median, "quartiles": figure.quartiles, "unit": figure.unit,
            "better": figure.better, "metric": figure.name, "rounds": len(peaks),
            "peak_rss_kib": statistics.median(peaks),
            "minor_faults": statistics.median(samples.faults(row["name"], name)),
            "to_reference": samples.cost_ratio(row["name"], name, row["reference"], seed),
            "peak_to_reference": samples.peak_ratio(row["name"], name, row["memory_reference"],
                                                    seed),
        }
        if name in ours:
            result[name]["to_each"] = {
                other: samples.cost_ratio(row["name"], name, other, seed)
                for other in names if other != name}
    return result


def summarize_means(rows, samples, name, ours, seed):
    """Geometric means over the timed rows: to the rows' references, and of ours to this one."""
    timed = [row for row in rows if row["group"] in TIMED_GROUPS and not row["missing"]]
    time_of, peak_of = (lambda record: cost(record["metrics"][0]),
                        lambda record: record["peak_rss_kib"])

    def mean(value, numerator, denominator):
        """Both sides are functions that return an allocator's name for a row."""
        ratios = [samples.round_ratios(row["name"], numerator(row), denominator(row), value)
                  for row in timed]
        ratios = [of_row for of_row in ratios if of_row]
        return statistics.geometric_mean_ratio(ratios, seed) if ratios else None

    def constant(row):
        return name

    return {
        "time": mean(time_of, constant, lambda row: row["reference"]),
        "peak": mean(peak_of, constant, lambda row: row["memory_reference"]),
        "rows": sum(bool(samples.records(row["name"], name)) for row in timed),
        "failed": sum(bool(samples.failure(row["name"], name)) for row in timed),
        "ours": {our: {"time": mean(time_of, lambda row, our=our: our, constant),
                       "peak": mean(peak_of, lambda row, our=our: our, constant)}
                 for our in ours if our != name},
    }


def compare(new, old, seed):
    """Compares our figures in this run with another run, for rows that both have, by name.

    Machines differ and change, so besides the plain ratio each row has the ratio of the two runs'
    ratios to the C library's allocator, measured in the same rounds.
    """
    new_samples, old_samples = Samples(new["records"]), Samples(old["records"])
    our_new, our_old = first_of_ours(new), first_of_ours(old)
    old_rows = {row["name"]: row for row in old["rows"]}
    result = []
    for row in new["rows"]:
        if row["name"] not in old_rows or row["group"] not in GROUPS:
            continue
        if row["command"] != old_rows[row["name"]]["command"]:
            result.append({"row": row["name"], "differs": "was run with other arguments"})
            continue
        sides = [samples.costs(row["name"], name) for samples, name in
                 ((new_samples, our_new), (old_samples, our_old))]
        peaks = [samples.peaks(row["name"], name) for samples, name in
                 ((new_samples, our_new), (old_samples, our_old))]
        relative = [samples.round_ratios(row["name"], name, "glibc",
                                         lambda record: cost(record["metrics"][0]))
                    for samples, name in ((new_samples, our_new), (old_samples, our_old))]
        usable = all(sides)
        result.append({
            "row": row["name"], "differs": "" if usable else "has no figure of ours in both",
            "time": statistics.unpaired_ratio(*sides, seed) if usable else None,
            "peak": statistics.unpaired_ratio(*peaks, seed) if usable else None,
            "relative": statistics.unpaired_ratio(*relative, seed) if all(relative) else None})
    return result


def first_of_ours(data):
    return next(allocator["name"] for allocator in data["allocators"] if allocator["ours"])
