# SPDX-License-Identifier: BSD-3-Clause
"""Medians, quartiles, paired ratios with bootstrap intervals, geometric means. Plain arithmetic.

All random numbers come from a seed that the caller gives: the same figures give the same interval.
"""

import collections
import math
import random

Interval = collections.namedtuple("Interval", "low high")
Ratio = collections.namedtuple("Ratio", "median interval rounds")

CONFIDENCE = 0.95
# 100 resamples lie beyond each end of a 95 % interval.
RESAMPLES = 4000
# The resamples of geometric means, which need the median of each row in each resample.
RESAMPLES_OF_ALL_ROWS = 1000
# A row's ratio is precise enough if its interval reaches no further than this from its middle.
NOISE_BOUND = 0.03
# With fewer rounds an interval means nothing: that of a single round is a point.
FEWEST_ROUNDS = 3


def quantile(sample, q):
    """The q-quantile, interpolated between neighbours (0 the smallest, 1 the largest)."""
    return _quantile_of_sorted(sorted(sample), q)


def median(sample):
    return quantile(sample, 0.5)


def quartiles(sample):
    ordered = sorted(sample)
    return Interval(_quantile_of_sorted(ordered, 0.25), _quantile_of_sorted(ordered, 0.75))


def geometric_mean(values):
    """The geometric mean of positive numbers."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def bootstrap_median(sample, seed):
    """The interval that contains the median of resamples with the probability CONFIDENCE."""
    generator = random.Random(seed)
    size = len(sample)
    medians = [median(generator.choices(sample, k=size)) for _ in range(RESAMPLES)]
    return _central_interval(medians)


def paired_ratio(ours, theirs, seed):
    """The median over the rounds of ours/theirs, each ratio from figures of the same round.

    A disturbance of the machine slows both sides of a pair.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError("a paired ratio needs as many figures on both sides, at least one")
    ratios = [our / their for our, their in zip(ours, theirs)]
    return Ratio(median(ratios), bootstrap_median(ratios, seed), len(ratios))


def unpaired_ratio(new, old, seed):
    """The ratio of the medians of two samples taken at different times."""
    generator = random.Random(seed)

    def resampled(sample):
        return median(generator.choices(sample, k=len(sample)))

    ratios = [resampled(new) / resampled(old) for _ in range(RESAMPLES)]
    return Ratio(median(new) / median(old), _central_interval(ratios), min(len(new), len(old)))


def geometric_mean_ratio(rows, seed):
    """The geometric mean over rows of each row's median ratio, with its interval.

    `rows` holds the ratios of each row's rounds. The rows themselves are fixed, not a sample, so only
    the rounds within each row are resampled.
    """
    generator = random.Random(seed)
    means = [geometric_mean(median(generator.choices(row, k=len(row))) for row in rows)
             for _ in range(RESAMPLES_OF_ALL_ROWS)]
    return Ratio(geometric_mean(median(row) for row in rows), _central_interval(means),
                 min(map(len, rows)))


def is_noise(ratio):
    """Whether the ratio has no interval, or one that reaches further from its middle than NOISE_BOUND of it."""
    low, high = ratio.interval
    return not has_interval(ratio) or (high - low) / 2 > NOISE_BOUND * (high + low) / 2


def has_interval(ratio):
    return ratio.rounds >= FEWEST_ROUNDS


def interval_text(ratio, digits=3):
    if ratio is None:
        return "-"
    if not has_interval(ratio):
        return f"{ratio.median:.{digits}f} (too few rounds)"
    interval = ratio.interval
    return f"{ratio.median:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def meets(ratio, bound):
    """Whether the ratio may be `bound` or less: a bound is met when the interval reaches it."""
    return has_interval(ratio) and ratio.interval.low <= bound


def _quantile_of_sorted(ordered, q):
    position = q * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _central_interval(values):
    ordered = sorted(values)
    tail = (1 - CONFIDENCE) / 2
    return Interval(_quantile_of_sorted(ordered, tail), _quantile_of_sorted(ordered, 1 - tail))
