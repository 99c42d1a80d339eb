# SPDX-License-Identifier: BSD-3-Clause
"""The state of the machine at a moment, and which moments are alike.

On a virtual machine the state changes by itself: the host moves the virtual processors, reclaims
free memory, and lends processors to others. Measurements in different states are not compared.
"""

import collections
import json
import os
import resource
import subprocess

from . import process, statistics
from .process import BenchError

# probe_machine.c describes ping_pong_ns, touch_4k_ns and touch_2m_us. `others` is the share of the
# CPU time since the previous probe that other processes or other guests of the host used. None means unknown.
Probe = collections.namedtuple("Probe", "ping_pong_ns touch_4k_ns touch_2m_us others")

# A figure that grows or shrinks by more than this from one probe to the next shows another state. Moving
# a line between processors without a common cache takes four times as long; touching memory that the host has
# to back first takes two to ten times as long.
FACTORS = {"ping_pong_ns": 1.4, "touch_4k_ns": 1.6, "touch_2m_us": 1.6}
# The most that `others` may exceed the run's median round, as a share of the CPU time.
MOST_OTHERS = 0.15
# Memory to warm before a probe, so that the probe finds it in the same state as every measured process.
WARMED_KIB = 128 << 10


class Prober:
    """Probes the machine, and computes how the CPU time was spent since the last probe."""

    def __init__(self, bin_folder):
        self._program = bin_folder / "bench_probe_machine"
        self._bin_folder = bin_folder
        self._processor_time = processor_times()

    def probe(self):
        process.warm_memory(self._bin_folder, WARMED_KIB)
        try:
            result = subprocess.run([str(self._program)], stdout=subprocess.PIPE, check=True,
                                    env={})
        except (OSError, subprocess.CalledProcessError) as error:
            raise BenchError(f"the machine cannot be probed: {error}") from None
        used, own = processor_times()
        used_before, own_before = self._processor_time
        self._processor_time = used, own
        seconds = used.total - used_before.total
        others = None
        if seconds > 0:
            others = max(0.0, used.busy - used_before.busy - (own - own_before)) / seconds
        return Probe(**json.loads(result.stdout), others=others)


ProcessorTimes = collections.namedtuple("ProcessorTimes", "busy total")


def processor_times():
    """The busy and idle CPU time so far, in seconds, and the part of this process and of its children
    that have ended."""
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    per_s = os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, waiting, interrupts, soft, stolen = ticks
    own = sum(usage.ru_utime + usage.ru_stime for usage in map(
        resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    busy = user + nice + system + interrupts + soft + stolen
    return ProcessorTimes(busy / per_s, (busy + idle + waiting) / per_s), own


def shares_last_level_cache():
    """What the OS says about the first two usable processors: "yes", "no", "unknown"."""
    first, *rest = sorted(os.sched_getaffinity(0))
    if not rest:
        return "one processor"
    folder = f"/sys/devices/system/cpu/cpu{first}/cache"
    try:
        levels = {}
        for name in os.listdir(folder):
            if name.startswith("index"):
                with open(f"{folder}/{name}/level", encoding="ascii") as level, \
                        open(f"{folder}/{name}/shared_cpu_list", encoding="ascii") as shared:
                    levels[int(level.read())] = processors_of(shared.read())
        return "yes" if rest[0] in levels[max(levels)] else "no"
    except (OSError, ValueError):
        return "unknown"


def processors_of(text):
    """The numbers in a list of the kernel, for example 0-3,8."""
    numbers = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def odd_rounds(probes):
    """The names of the figures that were unusual in each round; none for most rounds.

    Round i lies between the probes i and i + 1. It counts if both show the same state, whichever it
    is, since both sides of a pair were measured in it. The second probe says how busy other processes
    kept the machine meanwhile; this is compared with the run's median.
    """
    others = [probe.others for probe in probes[1:] if probe.others is not None]
    usual = statistics.median(others) if others else None
    return [changes(before, after) + busy_with_others(after, usual)
            for before, after in zip(probes, probes[1:])]


def busy_with_others(after, usual):
    return ["others"] if after.others is not None and after.others > usual + MOST_OTHERS else []


def changes(before, after):
    """The figures that show different states."""
    found = []
    for name, factor in FACTORS.items():
        values = getattr(before, name), getattr(after, name)
        if None not in values and max(values) > factor * min(values):
            found.append(name)
    return found


def seen(probes):
    """The smallest, the median and the largest value of each known figure."""
    return {name: (min(values), statistics.median(values), max(values)) for name in Probe._fields
            if (values := [value for probe in probes
                           if (value := getattr(probe, name)) is not None])}
