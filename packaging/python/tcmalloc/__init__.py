# SPDX-License-Identifier: BSD-3-Clause
"""TCMalloc in a Python process: statistics, properties, heap profiles.

Start the interpreter on the library:

    python -m tcmalloc run script.py
"""

from .library import (Error, NotLoaded, flush_all_thread_caches, flush_this_thread_cache, is_loaded, properties,
                      get_property, release_free_memory, set_property, trim)
from .profiles import Profile, profile
from .statistics import Statistics, openmetrics, stats, stats_text

__all__ = ["Error", "NotLoaded", "Profile", "Statistics", "flush_all_thread_caches", "flush_this_thread_cache", "get_property",
           "is_loaded", "openmetrics", "profile", "properties", "release_free_memory", "set_property", "stats",
           "stats_text", "trim"]
