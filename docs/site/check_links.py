# SPDX-License-Identifier: BSD-3-Clause
"""Checks the built site: no link leads nowhere, and nothing comes from another machine.

Each relative link of each page leads to a file, and to an element of that name where it names one. Scripts, styles, fonts
and pictures are files of the site. Links to other machines are counted, not followed.
"""

import html.parser
import pathlib
import re
import urllib.parse

LINKS = {"href", "src", "data-src", "poster", "srcset"}
# Links of these elements are followed by readers alone; all others are loaded with the page.
FOLLOWED = {"a", "area"}
# Links that a page names but no browser loads.
NOT_LOADED = {"canonical", "alternate", "edit", "next", "prev"}
STYLE_ADDRESS = re.compile(r"(?:url\(|@import\s*)[\"']?([^)\"';]+)")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = {name: value or "" for name, value in attributes}
        self.names.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        if tag == "link" and NOT_LOADED & set(attributes.get("rel", "").split()):
            return
        self.links += [(tag, attributes[name]) for name in LINKS & set(attributes) if attributes[name]]


def check(site):
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    complaints, inside, outside = [], 0, set()

    def follow(path, tag, target):
        nonlocal inside
        parts = urllib.parse.urlsplit(target)
        if parts.scheme in ("http", "https") or parts.netloc:
            outside.add(target)
            if tag not in FOLLOWED:
                complaints.append(f"{path}: loads {target} from another machine")
            return
        if parts.scheme in ("data", "mailto", "javascript"):
            return
        inside += 1
        name = urllib.parse.unquote(parts.path)
        # The page for a missing page is served at any depth, so its links begin with a slash.
        base = site if name.startswith("/") else path.parent
        file = base.joinpath(name.lstrip("/")).resolve() if name else path
        file = file / "index.html" if file.is_dir() else file
        fragment = urllib.parse.unquote(parts.fragment)
        if not file.is_file():
            complaints.append(f"{path}: links to {target}, which does not exist")
        elif fragment and file in pages and fragment not in pages[file].names:
            complaints.append(f"{path}: links to {target}: that page has no such name")

    for path, page in pages.items():
        for tag, target in page.links:
            follow(path, tag, target)
    for path in site.rglob("*.css"):
        for target in STYLE_ADDRESS.findall(path.read_text()):
            follow(path, "style", target)
    return pages, inside, outside, complaints


def report(site):
    pages, inside, outside, complaints = check(site)
    print(*complaints, sep="\n", end="\n" if complaints else "")
    print(f"{len(pages)} pages, {inside} links, {len(outside)} to other machines, {len(complaints)} complaints")
    return 1 if complaints or not (pages and inside) else 0
