#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds the documentation site in build/docs/site and checks its links.

  docs.py            build and check ('make docs')
  docs.py --command FILE     the tcmalloc command whose help is shown, instead of that in build/release/bin
  docs.py --look     also open pages in Chromium: pictures in build/docs/pictures, contrast, order of the keyboard; --look=some: few
  docs.py --serve    build, then serve the site at http://localhost:8000 until Ctrl-C

docs/site/ has what it is made with: the navigation, the requirements, the style. scripts/setup.sh docs installs MkDocs into
build/docs/python; nothing is fetched afterwards, neither by the build nor by a reader of the site.
"""

import argparse
import functools
import http.server
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs/site"))
# Python must not write its byte code into the source tree.
sys.dont_write_bytecode = True

import check_links
import gather
import generate
import look
import navigation

WORK = ROOT / "build/docs"
MKDOCS = WORK / "python/bin/mkdocs"


def configuration(pages, site):
    """mkdocs.yml with the folders and the navigation."""
    files = navigation.site_pages()
    lines = [(ROOT / "docs/site/mkdocs.yml").read_text(), f"docs_dir: {pages}", f"site_dir: {site}", "nav:",
             "  - Home: index.md"]
    for title, folder, entries in navigation.SECTIONS:
        lines.append(f"  - {title}:")
        lines += [f"      - \"{name}\": {files.get(source, f'{folder}/{source}.md')}" for name, source in entries]
    return "\n".join(lines) + "\n"


def build(command):
    pages, site = WORK / "pages", WORK / "site"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    gathered = gather.gather(ROOT, pages)
    generate.generate(ROOT, pages, command)
    for name in ("site.css", "site.js", "iframe-worker.js"):
        shutil.copyfile(ROOT / "docs/site" / name, pages / name)
    (WORK / "mkdocs.yml").write_text(configuration(pages, site))
    print(f"{len(gathered)} files of the project are in the site")
    # The theme announces its next versions on stderr.
    run = subprocess.run([MKDOCS, "build", "--quiet", "--clean", "--config-file", WORK / "mkdocs.yml"], cwd=WORK,
                         env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"})
    return run.returncode or check_links.report(site)


def serve():
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=WORK / "site")
    with http.server.ThreadingHTTPServer(("localhost", 8000), handler) as server:
        print("http://localhost:8000", flush=True)
        server.serve_forever()


def main():
    parser = argparse.ArgumentParser(description="Builds the documentation site.")
    parser.add_argument("--command", type=pathlib.Path, default=ROOT / "build/release/bin/tcmalloc",
                        help="the tcmalloc command")
    parser.add_argument("--look", nargs="?", const="all", choices=("all", "some"), help="open pages in Chromium")
    parser.add_argument("--serve", action="store_true", help="serve the site at localhost:8000")
    options = parser.parse_args()
    if not MKDOCS.exists():
        print(f"docs.py: {MKDOCS} is missing: run scripts/setup.sh docs", file=sys.stderr)
        return 1
    if not options.command.exists():
        print(f"docs.py: {options.command} is missing: cmake --build --preset release --target command", file=sys.stderr)
        return 1
    status = build(options.command)
    if status == 0:
        print(f"The site: {WORK / 'site/index.html'}")
        if options.look:
            status = look.look(WORK / "site", WORK / "pictures", few=options.look == "some")
        if options.serve:
            serve()
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (FileNotFoundError, ValueError) as error:
        print(f"docs.py: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
