#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes a folder of the crates from which they are packed and published: cargo package, cargo publish.

  crates.py FOLDER

In a clone, the crates compile the sources of the clone. An archive has to carry them, so FOLDER has packaging/rust, and in
tcmalloc-sys/native the sources of the library.
"""

import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRATES = ("tcmalloc-sys", "tcmalloc")
SOURCES = (("src", ("*.cc", "*.h", "CMakeLists.txt")), ("instruments", ("*.cc", "*.h")), ("formats", ("*.cc", "*.h")),
           ("include", ("*.h",)))


def copy(source, folder):
    """Makes `folder`, which must not exist, out of the repository `source`."""
    shutil.copytree(source / "packaging/rust", folder, ignore=shutil.ignore_patterns("target"))
    for crate in CRATES:
        shutil.copyfile(source / "LICENSE", folder / crate / "LICENSE")
    native = folder / "tcmalloc-sys/native"
    for part, patterns in SOURCES:
        for path in (path for pattern in patterns for path in (source / part).rglob(pattern)):
            target = native / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    shutil.copyfile(source / "CMakeLists.txt", native / "CMakeLists.txt")


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    if folder.exists():
        sys.exit(f"crates: {folder} exists: name a new folder")
    copy(ROOT, folder)
    print(f"crates: cargo package and cargo publish work in {folder / CRATES[0]}, then in {folder / CRATES[1]}")


if __name__ == "__main__":
    main()
