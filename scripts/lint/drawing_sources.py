#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the drawings of the documents.

  drawing_sources.py ROOT

* Each docs/drawings/NAME.svg was made from the NAME.dot that is there now (scripts/drawings.py).
* Each has a background of its own, so that it can be read in dark mode, and is at most 900 pixels wide.
* Each text has a length that fits into its box, whatever the font of the reader.
* Each is shown by a page, and each picture that a page shows exists.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import source  # noqa: E402

PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
WIDTH = re.compile(r'<svg width="(\d+)(pt|px)?"')
BACKGROUND = re.compile(r'<polygon fill="white" stroke="(?:none|transparent|white)"')
MOST_PIXELS = 900
PIXELS_IN_A_POINT = 96 / 72


def check_drawing(drawings, path, complaints):
    drawing = drawings.drawing_of(path)
    if drawings.is_stale(path):
        complaints.add(path, 1, f"is not the source of {drawing.name}: run 'make drawings'")
        return
    text = drawing.read_text()
    width = WIDTH.search(text)
    pixels = float(width[1]) * (PIXELS_IN_A_POINT if width[2] == "pt" else 1) if width else 0
    if not 0 < pixels <= MOST_PIXELS:
        complaints.add(drawing, 1, f"is {pixels:.0f} pixels wide, not 1 to {MOST_PIXELS}")
    for label in drawings.ill_fitting(text):
        complaints.add(drawing, 1, "has a text that does not fit", label)
    if not BACKGROUND.search(text):
        complaints.add(drawing, 1, "has no white background")


def check(root):
    sys.path.insert(0, str(root / "scripts"))
    import drawings  # the script that makes them
    complaints = source.Complaints(root)
    sources = drawings.sources(root)
    for path in sources:
        check_drawing(drawings, path, complaints)
    shown = set()
    for page in source.tree_files(root):
        if page.suffix != ".md":
            continue
        text = page.read_text()
        for match in PICTURE.finditer(text):
            if re.match(r"[a-z][a-z0-9+.-]*:", match[1]):
                continue
            picture = (page.parent / match[1]).resolve()
            shown.add(picture)
            if not picture.exists():
                line = text.count("\n", 0, match.start()) + 1
                complaints.add(page, line, f"shows {match[1]}, which does not exist")
    for picture in sorted((root / drawings.DIRECTORY).glob("*.svg")):
        if picture not in shown:
            complaints.add(picture, 1, "is shown by no page")
        if picture.with_suffix(".dot") not in sources:
            complaints.add(picture, 1, "has no source")
    print(f"{len(sources)} drawings, {len(shown)} pictures shown, {complaints.count} complaints")
    return 1 if complaints.count or not sources else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve()))
