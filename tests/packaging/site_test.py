#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The documentation site builds, its links lead somewhere, and pages of it look right in Chromium (scripts/docs.py).

Usage: site_test.py SOURCE_FOLDER COMMAND
"""

import pathlib
import re
import shutil
import subprocess
import sys

from steps import skip


def main():
    root, command = pathlib.Path(sys.argv[1]), sys.argv[2]
    if not (root / "build/docs/python/requirements").exists():
        skip("MkDocs is not installed: scripts/setup.sh docs")
    look = ["--look=some"] if shutil.which("chromium") else []
    run = subprocess.run([sys.executable, root / "scripts/docs.py", "--command", command, *look],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(run.stdout)
    site = root / "build/docs/site"
    index = (site / "search/search_index.json").read_text() if run.returncode == 0 else ""
    found = all(name in index for name in ("tcmalloc_flush_thread_caches", "dirty_decay_ms", "TCMALLOC_RETENTION"))
    pages = re.search(r"^(\d+) pages, ", run.stdout, re.MULTILINE)
    print(f"in the index of the search: {found}")
    return 0 if run.returncode == 0 and found and int(pages[1]) > 90 else 1


if __name__ == "__main__":
    sys.exit(main())
