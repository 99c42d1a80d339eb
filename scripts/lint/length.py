#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A source file of src/ and cli/ has one idea: at most 450 lines, or a reason in its head comment.

  length.py ROOT

A reason is a line "// Length: REASON" in the comment that the file begins with. A file that gives a reason but is short
enough without it fails, too.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import source  # noqa: E402

MAX_LINES = 450
REASON = re.compile(r"// Length: \S")


def head_comment(text):
    """The lines of the comment at the beginning."""
    for line in text.split("\n"):
        if not line.startswith("//"):
            return
        yield line


def check(root):
    complaints = source.Complaints(root)
    files = [*source.library_files(root), *source.code_files(root / "cli")]
    lengths = {}
    for path in files:
        text = path.read_text()
        name = path.relative_to(root).as_posix()
        lengths[name] = text.count("\n")
        is_long = lengths[name] > MAX_LINES
        has_reason = any(REASON.match(line) for line in head_comment(text))
        if is_long and not has_reason:
            complaints.add(path, MAX_LINES + 1, f"has {lengths[name]} lines, more than {MAX_LINES}: split it by ideas, or say "
                           "in its head comment why it is one idea (// Length: REASON)")
        if has_reason and not is_long:
            complaints.add(path, 1, f"gives a reason for its length, but has only {lengths[name]} lines: remove the reason")
    longest = max(lengths, key=lengths.get, default="none")
    print(f"{len(files)} files, the longest is {longest}; {complaints.count} complaints")
    return 1 if complaints.count or not files else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve()))
