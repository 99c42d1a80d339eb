# SPDX-License-Identifier: BSD-3-Clause
"""The statistics of the heap."""

import json

from . import library

# The kinds of memory whose sum is all backed memory of the heap.
TIERS = (
    ("in_use_bytes", "in objects that the program holds"),
    ("thread_cache_free_bytes", "free, in thread caches"),
    ("central_cache_free_bytes", "free, in pages that also hold objects in use"),
    ("page_heap_free_bytes", "in free pages"),
    ("metadata_bytes", "in the allocator's own records"),
    ("actual_bytes", "all memory of the heap that may be backed"),
)


def size_text(count):
    """A number of bytes, for people."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.1f} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= 1024
    return f"{count:.1f} GiB"


class Statistics(dict):
    """All figures by name, as docs/statistics.md lists them. Prints as a table of where the memory is."""

    def __str__(self):
        return "\n".join(f"{size_text(self[name]):>10}  {what}" for name, what in TIERS)

    def _repr_html_(self):
        rows = "".join(f'<tr><td style="text-align:right">{size_text(self[name])}</td><td style="text-align:left">{what}</td></tr>'
                       for name, what in TIERS)
        return f"<table>{rows}</table>"


def stats():
    """The statistics of this process."""
    return Statistics(json.loads(library.text_of(library.functions().tcmalloc_stats_json)))


def stats_text(size_classes=False):
    """The statistics as malloc_stats prints them; with a line for each size class."""
    level = 2 if size_classes else 1
    write = library.functions().tcmalloc_stats_text
    return library.text_of(lambda buffer, length: write(level, buffer, length))


def openmetrics():
    """The statistics for Prometheus; content type application/openmetrics-text; version=1.0.0; charset=utf-8."""
    return library.text_of(library.functions().tcmalloc_stats_openmetrics)
