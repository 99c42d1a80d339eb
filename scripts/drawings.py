#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the drawings of the documents: docs/drawings/NAME.svg from docs/drawings/NAME.dot.

  drawings.py          make those whose source has changed
  drawings.py --all    make all
  drawings.py --stale  print those whose source has changed; exit status 1 when there is one

Needs graphviz (dot). Each SVG has the SHA-256 of its source in a comment, so that a test sees
without graphviz whether it was made from the present source (scripts/lint/drawing_sources.py).

Each text has a fixed length: its length in DejaVu Sans, or the length for which its box has room. A
reader's browser may have another font, and scales its letters to this length.
"""

import argparse
import hashlib
import html
import pathlib
import re
import subprocess
import sys

DIRECTORY = "docs/drawings"
MARK = re.compile(r"<!-- made by 'make drawings' from ([\w.-]+), sha256 ([0-9a-f]{64}) -->")

GROUP = re.compile(r'<g id="(?:node|edge)\d+" class="(node|edge)">.*?</g>', re.DOTALL)
SHAPE = re.compile(r'<(?:polygon|path) [^>]*?(?:points|d)="([^"]*)"')
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TEXT = re.compile(r'<text text-anchor="(\w+)" x="([-\d.]+)" y="([-\d.]+)"([^>]*?) font-size="([\d.]+)"(?: textLength="([\d.]+)"'
                  r' lengthAdjust="spacingAndGlyphs")?>([^<]*)</text>')
# Free space between a text and the edge of its box.
MARGIN = 4.0
# A text may be this much narrower than DejaVu Sans.
LEAST_OF_LENGTH = 0.9
# Advance widths of DejaVu Sans and of its bold face, in thousandths of the font's size, from " " to "~".
FIRST = 32
WIDTHS = [int(width) for width in """
    318 401 460 838 636 950 780 275 390 390 500 838 318 361 318 337 636 636 636 636 636 636 636 636 636 636 337 337 838
    838 838 531 1000 684 686 698 770 632 575 775 752 295 295 656 557 863 748 787 603 787 695 635 611 732 684 989 685 611
    685 390 337 390 838 500 500 613 635 550 635 615 352 635 634 278 278 579 278 974 634 612 635 635 411 521 392 634 592
    818 592 592 525 636 337 636 838
""".split()]
BOLD_WIDTHS = [int(width) for width in """
    348 456 521 838 696 1002 872 306 457 457 523 838 380 415 380 365 696 696 696 696 696 696 696 696 696 696 400 400 838
    838 838 580 1000 774 762 734 830 683 683 821 837 372 372 775 637 995 837 850 733 850 770 720 682 812 774 1103 771
    724 725 457 365 457 838 500 500 675 716 593 716 678 435 716 712 343 343 665 343 1042 712 687 716 716 493 595 478 712
    652 924 645 652 582 712 365 712 838
""".split()]


class Text:
    """A <text> of a group. `x` is where it begins; `natural` is its length at a size and in a
    font."""

    def __init__(self, match):
        self.anchor, self.attributes = match[1], match[4]
        self.x, self.y, self.size = (float(match[number]) for number in (2, 3, 5))
        self.length = float(match[6]) if match[6] else None
        # A browser drops a space at the beginning of a text.
        self.label = re.sub("^ ", "&#160;", match[7])
        widths = BOLD_WIDTHS if "bold" in self.attributes else WIDTHS
        letters = [ord(letter) - FIRST for letter in html.unescape(self.label).replace("\u00a0", " ")]
        self.natural = self.size / 1000 * sum(widths[letter] if 0 <= letter < len(widths) else 1000 for letter in letters)


def boxes_of(group):
    """(left, lower, right, upper) of the shapes of a group."""
    found = []
    for points in SHAPE.findall(group):
        numbers = [float(number) for number in NUMBER.findall(points)]
        found.append((min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])))
    return found


def room(group, text):
    """The most length of a text of a node: up to the next text of its line, or nearly up to the
    edge of the smallest box around its beginning. None if it is in no box."""
    boxes = [box for box in boxes_of(group) if box[0] <= text.x <= box[2] and box[1] <= text.y - text.size / 3 <= box[3]]
    if not boxes or text.anchor != "start":
        return None
    right = min(boxes, key=lambda box: (box[2] - box[0]) * (box[3] - box[1]))[2] - MARGIN
    others = [other.x for other in map(Text, TEXT.finditer(group)) if other.y == text.y and text.x < other.x < right]
    return min([right, *others]) - text.x


def fit(svg):
    """Gives each text of a drawing its length."""
    def fit_group(group):
        def fit_text(match):
            text = Text(match)
            space = room(group[0], text) if group[1] == "node" else None
            ends_at_text = space is not None and any(
                abs(other.x - text.x - space) < 0.01 and other.y == text.y for other in map(Text, TEXT.finditer(group[0])))
            length = text.natural
            if space is not None and (ends_at_text or length > space):
                length = space
            return (f'<text text-anchor="{text.anchor}" x="{text.x:g}" y="{text.y:g}"{text.attributes} '
                    f'font-size="{text.size:.2f}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs">'
                    f'{text.label}</text>')
        return TEXT.sub(fit_text, group[0])
    return GROUP.sub(fit_group, svg)


def ill_fitting(svg):
    """The labels of the texts that have no length, overrun their box, or are much too narrow."""
    found = []
    for group in GROUP.finditer(svg):
        for text in map(Text, TEXT.finditer(group[0])):
            space = room(group[0], text) if group[1] == "node" else None
            if text.length is None:
                fits = False
            else:
                overruns = space is not None and text.length > space + 0.1
                fits = not overruns and text.length >= LEAST_OF_LENGTH * text.natural
            if not fits:
                found.append(text.label)
    return found


def sources(root):
    return sorted((root / DIRECTORY).glob("*.dot"))


def drawing_of(source):
    return source.with_suffix(".svg")


def digest(source):
    return hashlib.sha256(source.read_bytes()).hexdigest()


def is_stale(source):
    """The drawing is missing, or was made from another text."""
    drawing = drawing_of(source)
    mark = MARK.search(drawing.read_text()) if drawing.exists() else None
    return mark is None or mark.groups() != (source.name, digest(source))


def make(source):
    svg = subprocess.run(["dot", "-Tsvg", source], check=True, capture_output=True, text=True).stdout
    # The version of graphviz does not matter for the drawing.
    svg = re.sub(r"<!-- Generated by graphviz.*?-->\n", "", svg, flags=re.DOTALL)
    mark = f"<!-- made by 'make drawings' from {source.name}, sha256 {digest(source)} -->\n"
    drawing_of(source).write_text(fit(svg).replace("<svg ", mark + "<svg ", 1))


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description="Makes docs/drawings/*.svg.")
    parser.add_argument("--all", action="store_true", help="also those that are up to date")
    parser.add_argument("--stale", action="store_true", help="print what is out of date, make nothing")
    arguments = parser.parse_args()
    chosen = [source for source in sources(root) if arguments.all or is_stale(source)]
    for source in chosen:
        print(drawing_of(source).relative_to(root))
        if not arguments.stale:
            make(source)
    return 1 if arguments.stale and chosen else 0


if __name__ == "__main__":
    sys.exit(main())
