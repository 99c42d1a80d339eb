# SPDX-License-Identifier: BSD-3-Clause
"""Builds an index, copies it through JSON, and shows what that allocated.

python -m tcmalloc run index.py [FILE]   also writes the profile to FILE: .svg, .folded, .pb.gz, ...
"""

import json
import sys

import tcmalloc


def build_index(count):
    return {f"key {i}": [i] * 20 for i in range(count)}


with tcmalloc.profile() as profile:
    index = build_index(100_000)
    copy = json.loads(json.dumps(index))

print(tcmalloc.stats())
print()
print(profile.text(top=2))
if len(sys.argv) > 1:
    profile.save(sys.argv[1])

copy = None
tcmalloc.trim()
print()
print(tcmalloc.stats())
