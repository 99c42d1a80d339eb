# SPDX-License-Identifier: BSD-3-Clause
"""One word for each row of a comparison: better, worse, same or unknown. Plain arithmetic.

A figure is compared by pairs: both sides measured one after the other, in an order drawn at random.
With the same library on both sides the logarithm of a pair's ratio is therefore as likely positive
as negative, whatever the machine does meanwhile, and the signed-rank interval (Wilcoxon, Hodges and
Lehmann) misses the true ratio with no more than the probability it is made for. It assumes no
distribution, and a few wild pairs hardly move it.

Guard against chance. A run computes several intervals for every row. ALARM_PROBABILITY is the probability
of *any* wrong interval in a run: each interval gets its share of it (Bonferroni). Besides, a difference counts
only if the whole interval is beyond a margin: two copies of one file may lie differently in the
CPU's caches, and that difference is not a property of the library.

Instructions are counted, not timed: the counts of one side differ by about 0.1 %.
"""

import collections
import functools
import math

from .statistics import Interval, Ratio

BETTER, WORSE, SAME, UNKNOWN = "better", "worse", "same", "unknown"

# The probability that a run which compares a library with itself calls any row better or worse.
ALARM_PROBABILITY = 0.01
# How far the interval must be from 1 to show a difference, as a share of the figure.
COST_MARGIN = 0.01
PEAK_MARGIN = 0.02
# The margin for the instructions of one pattern. One more instruction for each pair of malloc and free is 2 %.
INSTRUCTION_MARGIN = 0.005
# An interval within this distance of 1 says that the sides are the same. One that reaches further and
# includes 1 cannot exclude a difference of this size.
TOLD_APART = 0.05
# A row is measured again until its interval reaches no further than this from its middle.
PRECISE = 0.02

# The result for one measure of a row: `ratio` is that of B to A, None if it could not be formed.
Finding = collections.namedtuple("Finding", "measure word ratio")


@functools.cache
def _signed_rank_counts(pairs):
    """How many of the 2 ** pairs choices of signs have each sum of the ranks 1 to `pairs`."""
    counts = [1]
    for rank in range(1, pairs + 1):
        counts = [(counts[total] if total < len(counts) else 0)
                  + (counts[total - rank] if total >= rank else 0)
                  for total in range(len(counts) + rank)]
    return counts


@functools.cache
def _outside(pairs, alarm):
    """How many of the smallest, and of the largest, averages of two pairs the interval excludes.

    None if there are too few pairs for an interval of that confidence.
    """
    most = alarm / 2 * 2 ** pairs
    outside, cumulated = 0, 0
    for count in _signed_rank_counts(pairs):
        cumulated += count
        if cumulated > most:
            break
        outside += 1
    return outside - 1 if outside else None


@functools.cache
def fewest_pairs(alarm):
    """The least number of pairs for an interval."""
    pairs = 1
    while _outside(pairs, alarm) is None:
        pairs += 1
    return pairs


def signed_rank_ratio(ratios, alarm):
    """The typical value of these ratios, as a Ratio whose interval is wrong with probability `alarm`.

    With too few ratios the interval is None.
    """
    logs = [math.log(ratio) for ratio in ratios]
    averages = sorted((logs[i] + logs[j]) / 2
                      for i in range(len(logs)) for j in range(i, len(logs)))
    middle = len(averages) // 2
    median = (averages[middle] + averages[-1 - middle]) / 2
    outside = _outside(len(logs), alarm)
    interval = None
    if outside is not None:
        interval = Interval(math.exp(averages[outside]), math.exp(averages[-1 - outside]))
    return Ratio(math.exp(median), interval, len(logs))


def span_ratio(base, tree):
    """The ratio of counts that hardly vary; its interval contains the ratios of all pairs of counts."""
    return Ratio(sum(tree) / len(tree) / (sum(base) / len(base)),
                 Interval(min(tree) / max(base), max(tree) / min(base)), len(tree))


def word_for(ratio, margin):
    if ratio is None or ratio.interval is None:
        return UNKNOWN
    low, high = ratio.interval
    if low > 1 + margin:
        return WORSE
    if high < 1 / (1 + margin):
        return BETTER
    return SAME if 1 / (1 + TOLD_APART) <= low and high <= 1 + TOLD_APART else UNKNOWN


def is_precise(ratio):
    if ratio is None or ratio.interval is None:
        return False
    low, high = ratio.interval
    return high / low <= ((1 + PRECISE) / (1 - PRECISE))


def alarm_of_each(measures):
    return ALARM_PROBABILITY / max(measures, 1)


def of_row(cost=None, peak=None, instructions=None):
    """The word for a row, and the Findings that it rests on.

    Time, or the row's own figure, decides. If it shows no difference, instructions decide. A gain in
    time does not compensate for a loss in peak memory, or the reverse: the row is worse, and the findings
    say why.
    """
    findings = [Finding(measure, word_for(ratio, margin), ratio)
                for measure, ratio, margin in (("cost", cost, COST_MARGIN),
                                               ("instructions", instructions, INSTRUCTION_MARGIN),
                                               ("peak", peak, PEAK_MARGIN)) if ratio is not None]
    by_measure = {finding.measure: finding for finding in findings}
    deciding = []
    timed = by_measure.get("cost")
    counted = by_measure.get("instructions")
    if timed and timed.word in (BETTER, WORSE) or not counted:
        deciding += [timed] if timed else []
    elif counted.word in (BETTER, WORSE) or not timed:
        deciding.append(counted)
    else:
        deciding.append(timed)
    if "peak" in by_measure:
        deciding.append(by_measure["peak"])
    words = {finding.word for finding in deciding}
    for word in (WORSE, BETTER, UNKNOWN, SAME):
        if word in words:
            return word, [finding for finding in deciding if finding.word == word]
    return UNKNOWN, []


def of_failures(new_failed, base_failed):
    """The word for a row in which a side crashed or took too long."""
    if new_failed == base_failed:
        return UNKNOWN
    return WORSE if new_failed else BETTER
