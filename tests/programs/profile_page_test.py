# SPDX-License-Identifier: BSD-3-Clause
"""Tests the HTML page of tcmalloc profile in a headless Chromium, with the contents that its script makes of the data.

With --screenshot FILE it also takes a picture, for docs/.
"""

import argparse
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import command_profile_test
import pprof_test
from pprof_test import expect

SKIPPED = 77
BROWSERS = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")


def browse(browser, folder, *arguments):
    """Opens a page; returns what --dump-dom prints."""
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser",
         "--hide-scrollbars", "--window-size=1400,1000", "--virtual-time-budget=5000", *map(str, arguments)],
        capture_output=True, text=True, timeout=240, check=False)
    expect(done.returncode == 0, done.stderr[-2000:])
    expect("Uncaught" not in done.stderr, done.stderr[-2000:])
    return done.stdout


class Dom(html.parser.HTMLParser):
    """The parts that a test checks: boxes of the flame graph, rows of the table, texts of elements with an id."""

    def __init__(self, text):
        super().__init__()
        self.boxes = []  # (title, width in pixels, classes)
        self.tags = []
        self.texts = {}
        self._last_id = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self._last_id = attributes.get("id")
        width = re.search(r"width: ?([\d.]+)px", attributes.get("style", ""))
        if tag == "div" and width and "title" in attributes:
            self.boxes.append((attributes["title"], float(width[1]), attributes.get("class", "")))

    def handle_data(self, data):
        self.texts.setdefault(self._last_id, data)

    def rows(self):
        return self.tags.count("tr") - 1  # without the heading row


def check(page, browser, folder, program):
    url = page.as_uri()
    plain = Dom(browse(browser, folder, "--dump-dom", url))
    expect(plain.boxes and plain.boxes[0][0].startswith("all: "), f"boxes: {plain.boxes[:5]}")
    width = plain.boxes[0][1]
    expect(width > 1000, f"the graph is {width} pixels wide")
    widths = {title.rpartition(": ")[0]: of for title, of, _ in plain.boxes}
    expect(widths.get("main", 0) > width * 0.9, f"main: {widths}")
    hidden = [box for box in plain.boxes if box[0].startswith("(anonymous namespace)::Hidden: 3.0 MiB")]
    total = float(re.search(r"all: ([\d.]+) MiB", plain.boxes[0][0])[1])
    expect(hidden and abs(hidden[0][1] / width - 3 / total) < 0.02, f"{hidden} of {width} pixels, {total} MiB")
    expect(plain.rows() >= 3, f"{plain.rows()} rows of the table")
    expect(plain.tags.count("polyline") == 3, "the timeline has three lines")
    expect(plain.texts["title"].startswith(f"{program.name[:15]} (process "), plain.texts["title"])
    found = Dom(browse(browser, folder, "--dump-dom", f"{url}#search=hidden"))
    matched = found.texts["matched"]
    expect(matched.startswith("3.0 MiB, ") and "in matching calls" in matched, f"search: {matched}")
    expect(sum("found" in classes for _, _, classes in found.boxes) == 1, "one box is found")
    expect(found.rows() == 1, f"{found.rows()} rows are found")
    nothing = Dom(browse(browser, folder, "--dump-dom", f"{url}#search=nothing%20like%20it"))
    expect(nothing.texts["matched"].startswith("0 B, ") and nothing.rows() == 0, "nothing is found")


def main():
    parser = argparse.ArgumentParser()
    for name in ("library", "command", "program", "tools"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--screenshot", type=pathlib.Path)
    arguments = parser.parse_args()
    browser = next((name for name in BROWSERS if shutil.which(name)), None)
    if browser is None:
        print("SKIP: not installed: chromium (scripts/setup.sh test)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "profile.html"
        with command_profile_test.Program(arguments.library, arguments.program) as program:
            program.process.stdout.readline()
            pprof_test.run([arguments.command, "profile", program.pid, "--watch", "1", "-o", page])
        check(page, browser, folder, arguments.program)
        if arguments.screenshot:
            browse(browser, folder, f"--screenshot={arguments.screenshot.absolute()}", page.as_uri())
    print("the page's graph, table, timeline and search are right")


if __name__ == "__main__":
    main()
