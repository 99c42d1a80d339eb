#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the picture of tcmalloc top in docs/command/live.md: a redis-server under load, seen in a terminal of tmux.

  top_picture.py COMMAND LIBRARY docs/images/top.svg

Needs tmux, redis-server and redis-benchmark. Look at the picture before you commit it.
"""

import html
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from command_top_test import Terminal
from harness import clean_environment

COLUMNS, LINES = 100, 24
CELL_WIDTH, LINE_HEIGHT, FONT_SIZE, MARGIN = 8.4, 18, 14, 12
BACKGROUND, FOREGROUND, DIM = "#1e2127", "#d7dae0", "#8b929e"
BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"  # from an eighth of a cell to all of it
SECONDS = 12
PORT = 6399


def runs(line):
    """The parts of a line of a terminal that have one style: (column, text, attributes), which are those of SGR."""
    column, attributes = 0, set()
    for part in re.split(r"(\x1b\[[\d;]*m)", line):
        style = re.fullmatch(r"\x1b\[([\d;]*)m", part)
        if style is None:
            if part:
                yield column, part, set(attributes)
            column += len(part)
            continue
        for number in (int(number or 0) for number in style[1].split(";")):
            attributes = set() if number == 0 else attributes | {number}


def text_element(column, row, text, color, bold):
    """Draws each word separately, so that it begins in its column whatever the width of the font's letters."""
    y = MARGIN + row * LINE_HEIGHT + FONT_SIZE
    elements = []
    for word in re.finditer(r"\S+(?: \S+)*", text):
        x = MARGIN + (column + word.start()) * CELL_WIDTH
        elements.append(f'<text x="{x:.1f}" y="{y}" textLength="{len(word[0]) * CELL_WIDTH:.1f}" '
                        f'lengthAdjust="spacingAndGlyphs" fill="{color}"{" font-weight=" + repr("bold") if bold else ""}>'
                        f"{html.escape(word[0])}</text>")
    return elements


def svg(screen, columns):
    """A picture of what `tmux capture-pane -e` prints."""
    lines = screen.rstrip("\n").split("\n")
    width, height = round(columns * CELL_WIDTH + 2 * MARGIN), len(lines) * LINE_HEIGHT + 2 * MARGIN
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{FONT_SIZE}" xml:space="preserve">',
           f'<rect width="{width}" height="{height}" rx="6" fill="{BACKGROUND}"/>']
    for row, line in enumerate(lines):
        for column, text, attributes in runs(line):
            color = DIM if 2 in attributes else FOREGROUND
            if 7 in attributes:
                out.append(f'<rect x="{MARGIN + column * CELL_WIDTH:.1f}" y="{MARGIN + row * LINE_HEIGHT}" '
                           f'width="{len(text) * CELL_WIDTH:.1f}" height="{LINE_HEIGHT}" fill="{color}"/>')
                color = BACKGROUND
            for i, character in enumerate(text):
                if character in BLOCKS:
                    filled = (LINE_HEIGHT - 2) * (1 + BLOCKS.index(character)) / len(BLOCKS)
                    out.append(f'<rect x="{MARGIN + (column + i) * CELL_WIDTH:.1f}" '
                               f'y="{MARGIN + (row + 1) * LINE_HEIGHT - filled:.1f}" width="{CELL_WIDTH - 1:.1f}" '
                               f'height="{filled:.1f}" fill="#61afef"/>')
            text = re.sub(f"[{BLOCKS}]", " ", text)
            out += text_element(column, row, text, color, 1 in attributes)
    return "\n".join([*out, "</svg>", ""])


def main():
    command, library, target = sys.argv[1:]
    missing = [name for name in ("tmux", "redis-server", "redis-benchmark") if shutil.which(name) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")
    environment = clean_environment(LD_PRELOAD=str(pathlib.Path(library).resolve()), TCMALLOC_SAMPLE_PARAMETER="262144")
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen(["redis-server", "--port", str(PORT), "--save", "", "--dir", folder], env=environment,
                             stdout=subprocess.DEVNULL) as server:
        try:
            time.sleep(1)
            with Terminal(str(pathlib.Path(command).resolve()), "top", str(server.pid), "--every", "500ms") as terminal:
                terminal.tmux("resize-window", "-x", str(COLUMNS), "-y", str(LINES))
                terminal.wait_for(rf"process {server.pid}")
                with subprocess.Popen(["redis-benchmark", "-p", str(PORT), "-q", "-r", "200000", "-n", "100000000", "-d",
                                       "300", "-t", "set"], stdout=subprocess.DEVNULL) as load:
                    terminal.keys("Tab", "Tab")
                    terminal.wait_for(r"\[call sites\]")
                    time.sleep(SECONDS)
                    screen = terminal.tmux("capture-pane", "-e", "-p")
                    load.kill()
                terminal.keys("q")
        finally:
            server.kill()
    pathlib.Path(target).write_text(svg(screen, COLUMNS))
    print(re.sub(r"\x1b\[[\d;]*m", "", screen))


if __name__ == "__main__":
    main()
