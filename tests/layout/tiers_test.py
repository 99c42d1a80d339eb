#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the table of scripts/tiers.py is complete, and that other files agree with it.

  tiers_test.py ROOT

Each preset of CMakePresets.json is in the table, each kind and preset has a cell that is a tier or a reason that exists, no
reason is without a cell, and tests/README.md has the table as the script prints it.
"""

import json
import pathlib
import sys


def faults(root):
    sys.path.insert(0, str(root / "scripts"))
    import tiers

    presets = json.loads((root / "CMakePresets.json").read_text())["configurePresets"]
    visible = {preset["name"] for preset in presets if not preset.get("hidden")}
    for name in visible ^ {*tiers.PRESETS, *tiers.NOT_FOR_TESTS}:
        yield f"preset {name} is in one of CMakePresets.json and scripts/tiers.py only"
    for name in set(tiers.KINDS) ^ set(tiers.CELLS):
        yield f"kind {name} has no cells or no description"
    used = set()
    for kind, cells in tiers.CELLS.items():
        for name in set(cells) ^ set(tiers.PRESETS):
            yield f"{kind}: {name} is no preset, or has no cell"
        for preset, cell in cells.items():
            used.add(cell)
            if cell not in (*tiers.TIERS, *tiers.REASONS):
                yield f"{kind}, {preset}: {cell} is neither a tier nor a reason"
    for reason in set(tiers.REASONS) - used:
        yield f"reason {reason} is given nowhere"
    readme = (root / "tests" / "README.md").read_text()
    between = readme.partition("<!-- tiers -->\n")[2].partition("<!-- /tiers -->")[0]
    if between != tiers.markdown() + "\n":
        yield "tests/README.md has another table: put there what scripts/tiers.py --markdown prints"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "one table")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
