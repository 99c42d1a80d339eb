# SPDX-License-Identifier: BSD-3-Clause
"""Hand-made data of benchmark runs, for tests of the code that evaluates such data."""


def record(row, allocator, number, value, phase="counted", peak=1000, better="lower", faults=1):
    return {"row": row, "allocator": allocator, "phase": phase, "round": number, "position": 0,
            "metrics": [{"name": "figure", "value": value, "unit": "s", "better": better}],
            "wall_s": value, "user_s": 2 * value, "sys_s": value, "minor_faults": faults,
            "major_faults": 0, "peak_rss_kib": peak}


def hand_made(records, rows=("a",), **facts):
    return {
        "format": 1,
        "run": {"seed": 1, "quick": False, "interrupted": False, "command_line": "bench"},
        "machine": {"name": "m", "processors": "2", "processor": "p", "kernel": "k",
                    "distribution": "d", "hugepages": "h", "time": "2026-01-01T00:00:00Z"},
        "allocators": [{"name": name, "ours": name == "ours", "missing": False, "library": "/l",
                        "version": "1", "source": "", "environment": {}}
                       for name in ("ours", "glibc", "fast")],
        "rows": [{"name": row, "group": "programs", "command": f"{row} 1", "missing": "",
                  "reference": "fast", "memory_reference": "glibc", "noise": False, **facts}
                 for row in rows],
        "records": records,
    }
