#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tuning constants, those that base/tuned.h marks, and docs/numbers.md, the page that lists them.

  scripts/tuning_constants.py > docs/numbers.md

tests/layout/documents_test.py compares the page with the code, scripts/lint/tuning.py checks the comments.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import source  # noqa: E402

DECLARATION = re.compile(r"^(?P<indent> *)(?:(?:inline|static) )*constexpr [\w:]+ (?P<name>k\w+)(?:\[\])? =\s*"
                         r"(?P<value>[^;]*\bTuned(?:Length|<\w+>)?\([^;]*);", re.MULTILINE)
TUNED = re.compile(r"\bTuned(?:Length|<\w+>)?(?=\()")
# The words with which a comment says what is known about the value.
EVIDENCE = re.compile(r"[Nn]ot measured|decision \d{4}|as in (?:gperftools|the TCMalloc document)|Xeon")
HEAD = """# Numbers

This page lists the {count} compile-time constants that tune the allocator. Each is in the source beside the rule that uses it. The comment there says why it has
this value. `scripts/tuning_constants.py` makes this page from the source.

To change a constant, edit its file, build, and run the tests and the benchmarks ([an example](../CONTRIBUTING.md#example-change-how-a-bin-grows)). The compiler
checks that the value is in the range. Numbers that users set are [settings](settings.md).

A name that ends in `Part` is a divisor: 16 means one sixteenth. A name that ends in `Ms` is a time in milliseconds. The column "measured" links the
[decision](decisions/README.md) that has the measurements. "Yes" means that the comment in the source has them. "TCMalloc document" means that gperftools'
description of TCMalloc has the same value, "no" that the value was not measured. The [glossary](glossary.md) and the [design book](design/README.md) explain the terms.
"""


class Constant:
    """One tuning constant: where it is, its values with their ranges, its comment."""

    def __init__(self, file, line, match, comment):
        self.file, self.line, self.name, self.comment = file, line, match["name"], comment
        self.values = []  # (value, least, most)
        for at in TUNED.finditer(match["value"]):
            self.values.append(tuple(plain(text) for text in arguments(match["value"], at.end())))


def arguments(text, at):
    """The arguments of the call whose opening parenthesis is text[at]."""
    depth, begin = 0, at + 1
    for i in range(at, len(text)):
        depth += (text[i] in "({[") - (text[i] in ")}]")
        if text[i] == "," and depth == 1 or depth == 0:
            yield " ".join(text[begin:i].split())
            begin = i + 1
        if depth == 0:
            return


def plain(value):
    """64_KiB -> 64 KiB, 120'000 -> 120,000, kLength.bytes() -> kLength."""
    value = value.removesuffix(".bytes()")
    return re.sub(r"(?<=\d)'(?=\d)", ",", re.sub(r"(\d)_([KMG]iB)\b", r"\1 \2", value))


def comment_above(lines, at, indent):
    """The comment of the declaration in lines[at], as a list of paragraphs. Declarations that follow each other without a
    blank line have one comment."""
    while at > 0 and lines[at - 1].strip() and not lines[at - 1].startswith(f"{indent}//"):
        at -= 1
    paragraphs = [[]]
    while at > 0 and lines[at - 1].startswith(f"{indent}//"):
        at -= 1
        text = lines[at].strip()[2:].strip()
        if text:
            paragraphs[0].insert(0, text)
        else:
            paragraphs.insert(0, [])
    return [" ".join(paragraph) for paragraph in paragraphs]


def constants(root):
    """All tuning constants, by file and line."""
    found = []
    for path in source.library_files(root):
        text = path.read_text()
        if path.name == "tuned.h" or "Tuned" not in text:
            continue
        lines = text.split("\n")
        for match in DECLARATION.finditer(source.without_comments(text)):
            line = text.count("\n", 0, match.start("name"))
            found.append(Constant(path.relative_to(root).as_posix(), line + 1, match,
                                  comment_above(lines, line, match["indent"])))
    return found


def sizes(root):
    """{"kName": "64 KiB"} of the constants that are one size."""
    return {one.name: one.values[0][0] for one in constants(root)
            if len(one.values) == 1 and re.fullmatch(r"\d+ [KMG]iB", one.values[0][0])}


def code(text):
    """The text with the names of constants as code."""
    return re.sub(r"\bk[A-Z]\w*", lambda m: f"`{m[0]}`", text)


def measured(root, comment):
    numbers = sorted(set(re.findall(r"decision (\d{4})", comment)))
    not_all = re.search("[Nn]ot measured", comment)
    if numbers:
        pages = {path.name[:4]: path.name for path in (root / "docs/decisions").glob("[0-9]*.md")}
        return ("in part: " if not_all else "") + ", ".join(f"[{number}](decisions/{pages[number]})" for number in numbers)
    if not_all:
        return "no"
    match = re.search(r"as in (gperftools|the TCMalloc document)", comment)
    return match[1].removeprefix("the ") if match else "yes"


def cell(texts):
    return "<br>".join(text.replace("|", "\\|") for text in texts)


def page(root):
    out = []
    folder = None
    all_constants = constants(root)
    rows = []  # constants with one comment are one row
    for one in all_constants:
        if rows and rows[-1][0].file == one.file and rows[-1][0].comment == one.comment:
            rows[-1].append(one)
        else:
            rows.append([one])
    for row in rows:
        file = pathlib.PurePosixPath(row[0].file)
        if folder != file.parent:
            folder = file.parent
            out += ["", f"## {folder}", "", "| name | value | range | decides | measured | file |", "|---|---|---|---|---|---|"]
        first = re.match(r".*?\.(?= |$)", row[0].comment[-1])
        decides = code(re.sub(r" \(decision \d{4}\)", "", (first[0] if first else row[0].comment[-1]).rstrip(".:")))
        # A table's ranges that repeat are listed once.
        ranges = [code("; ".join(dict.fromkeys(f"{least} to {most}" for _, least, most in one.values))) for one in row]
        out.append("| " + " | ".join([
            cell(f"`{one.name}`" for one in row),
            cell(code(", ".join(value for value, _, _ in one.values)) for one in row), cell(ranges),
            cell([decides]), measured(root, row[0].comment[-1]), f"[{file.name}](../{file})"]) + " |")
    return HEAD.format(count=len(all_constants)) + "\n".join(out) + "\n"


if __name__ == "__main__":
    print(page(pathlib.Path(__file__).resolve().parent.parent), end="")
