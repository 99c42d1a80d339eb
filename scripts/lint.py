#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Advice about the sources and documents, from scripts/lint/: words, comments, lengths, where numbers are, drawings.

  scripts/lint.py [NAME...]    default: all of scripts/lint/

Exit status 1 if there is a complaint. No gate runs it: its findings concern readers, not programs.
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    names = sys.argv[1:] or sorted(path.stem for path in (ROOT / "scripts" / "lint").glob("*.py"))
    failed = []
    for name in names:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, ROOT / "scripts" / "lint" / f"{name}.py", ROOT]).returncode:
            failed.append(name)
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed" + (f": {' '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
