# SPDX-License-Identifier: BSD-3-Clause
"""perl: strings, hashes, sorting, regular expressions, buffers, fork."""

import pathlib

import harness

SCRIPT = pathlib.Path(__file__).parent / "workloads" / "strings.pl"


def workload(side):
    # Perl orders its hashes by a random seed. The script sorts wherever the order is visible, and the
    # fixed seed makes both sides allocate alike.
    return side.run(["perl", SCRIPT], env={"PERL_HASH_SEED": "1", "PERL_PERTURB_KEYS": "0"}).outputs()


if __name__ == "__main__":
    harness.main(workload, programs=["perl"], min_heap_mib=30)
