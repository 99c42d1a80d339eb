#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""classes.py [FILE...]: how much memory tables of size classes waste in real programs.

Each file is a histogram that record.sh made. For each table it prints the bytes that rounding adds
to the live objects at the program's peak, in per cent of the requested bytes, and the number of
classes that hold an object then. Requests above the largest class are not counted.
"""

import bisect
import pathlib
import sys

LARGEST = 65536
EXTRA = (1088, 4416)  # kExtraSizes
FOLDER = pathlib.Path(__file__).resolve().parent / "programs"


def geometric(steps, first_doubling=128):
    """The rule of src/base/size_classes.h."""
    sizes = [8]
    while sizes[-1] < LARGEST:
        size = sizes[-1]
        if size < 16:
            sizes.append(16)
        elif size < first_doubling:
            sizes.append(size + 16)
        else:
            sizes.append(size + (1 << (size.bit_length() - 1)) // steps)
    return sizes


def read(path):
    """Pairs of a size and the number of live objects of that size at the peak."""
    lines = (line.split() for line in path.read_text().splitlines() if line[0] != "#")
    return [(max(int(size), 1), int(live)) for size, _, live in lines
            if int(live) > 0 and int(size) <= LARGEST]


def waste(histogram, sizes):
    """Bytes added by rounding, and the number of classes in use."""
    added, used = 0, set()
    for size, live in histogram:
        rounded = sizes[bisect.bisect_left(sizes, size)]
        added += (rounded - size) * live
        used.add(rounded)
    return added, len(used)


def improve(histograms, sizes, changes=24):
    """Adds the class that saves most, then removes the one that costs least, repeatedly.

    Keeps the powers of two, and the worst case of an eighth. Each program has the same weight.
    """
    def total(table):
        return sum(waste(histogram, table)[0] / sum(size * live for size, live in histogram)
                   for histogram in histograms)

    def allowed(table):
        return all(b < 256 or (b - a - 1) * 8 <= b for a, b in zip(table[7:], table[8:]))

    table = list(sizes)
    for _ in range(changes):
        # The library's table has steps of 128 bytes for sizes above 4,480.
        steps = ((size, 16 if size <= 4416 else 128) for histogram in histograms
                 for size, _ in histogram if size > 128)
        candidates = {-(-size // step) * step for size, step in steps}
        added = min((sorted([*table, size]) for size in candidates - set(table)), key=total)
        shorter = [[other for other in added if other != size] for size in added
                   if size > 128 and size & (size - 1)]
        removed = min(filter(allowed, shorter), key=total, default=added)
        if total(removed) > total(table) - 1e-4:
            break
        table = removed
    return table


def main():
    paths = [pathlib.Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.txt"))
    histograms = [read(path) for path in paths]
    regular = geometric(8)
    tables = {"8 a doubling": regular, "16 a doubling": geometric(16, 256),
              "ours": sorted([*regular, *EXTRA]),
              "searched": improve(histograms, regular)}
    for name, table in tables.items():
        print(f"{name}: {len(table)} classes; not in the first table: "
              f"{' '.join(str(size) for size in table if size not in regular) or '-'}; missing: "
              f"{' '.join(str(size) for size in regular if size not in table) or '-'}"[:600])
    print("program".ljust(10), "  ".join(name.rjust(14)[:14] for name in tables))
    for path, histogram in zip(paths, histograms):
        live = sum(size * count for size, count in histogram)
        print(path.stem.ljust(10), "  ".join(
            f"{added / live:8.2%} {used:4}" for added, used in
            (waste(histogram, table) for table in tables.values())))


if __name__ == "__main__":
    main()
