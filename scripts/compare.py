#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Says whether a change made the allocator better or worse: 'make compare'.

    scripts/compare.py --base HEAD       the working tree against its last commit
    scripts/compare.py --help            all options
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from runner import compare  # noqa: E402

if __name__ == "__main__":
    sys.exit(compare.main())
