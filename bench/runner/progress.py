# SPDX-License-Identifier: BSD-3-Clause
"""How far a run is and how much longer it takes: one line, rewritten on a terminal."""

import collections
import sys
import time

LINE_INTERVAL_S = 30  # if the output is no terminal


class Progress:
    def __init__(self, stream=sys.stderr):
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._left = collections.Counter()  # runs, by row
        self._nominal_s = {}
        self._spent_s = collections.defaultdict(list)
        self._done = 0
        self._last_line = time.monotonic()
        # The time at which the run ends, by time.monotonic(), if it does not end after a number of runs.
        self.deadline = None

    def plan(self, runs):
        """Adds `runs` more runs of each row."""
        for row, number in runs.items():
            self._left[row] += number
            self._nominal_s[row] = row.nominal_s

    def start(self, row, allocator, phase, number):
        now = time.monotonic()
        if not self._is_terminal and now - self._last_line < LINE_INTERVAL_S:
            return
        self._last_line = now
        total = "" if self.deadline else f"/{self._done + sum(self._left.values())}"
        text = (f"{self._done}{total} runs, about {in_words(self.left_s())} left: {phase} "
                f"{number + 1}, {row.name}, {allocator.name}")
        self._stream.write(f"\r\033[K{text[:110]}" if self._is_terminal else f"{text}\n")
        self._stream.flush()

    def finish(self, row, elapsed_s):
        self._spent_s[row].append(elapsed_s)
        self._left[row] -= 1
        self._done += 1

    def skip(self, row):
        self._left[row] -= 1

    def drop(self, rows):
        """Removes the planned runs of these rows."""
        for row in rows:
            self._left[row] = 0

    def failed(self, row, allocator, what):
        self.say(f"{row.name}: {allocator.name}: {what}")

    def say(self, text):
        self._stream.write(f"\r\033[K{text}\n" if self._is_terminal else f"{text}\n")
        self._stream.flush()

    def note(self, text):
        """Shows the text in place of the line before, on a terminal only."""
        if self._is_terminal:
            self._stream.write(f"\r\033[K{text}")
            self._stream.flush()

    def end(self):
        if self._is_terminal:
            self._stream.write("\r\033[K")
            self._stream.flush()

    def left_s(self):
        """Estimates from the time that each row has taken so far, or from the row's own guess if it has not run yet."""
        if self.deadline:
            return max(0.0, self.deadline - time.monotonic())
        total = 0.0
        for row, number in self._left.items():
            spent = self._spent_s[row]
            total += max(number, 0) * (sum(spent) / len(spent) if spent else self._nominal_s[row])
        return total


def in_words(seconds):
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
