#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No comment, message or document uses the words that docs/glossary.md says to avoid.

  words.py ROOT          what the folders and files in CHECKED must not have
  words.py ROOT --all    also what the rest of the tree has, without failing for it

Reads the table of docs/glossary.md, "Words to avoid", which explains its notation. Looks at comments and
string literals of C, C++ and Python, comments of shell scripts, and Markdown without code. An exception that
matches nothing fails too.
"""

import bisect
import io
import pathlib
import re
import sys
import tokenize

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import source  # noqa: E402

HEADING = "## Words to avoid"
# Folders (with a slash at the end) and files that must be free of these words.
CHECKED = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "bench/common/",
    "bench/memory/",
    "bench/micro/",
    "bench/model/",
    "bench/programs/",
    "bench/runner/",
    "docs/",
    "formats/",
    "include/",
    "instruments/",
    "packaging/",
    "scripts/",
    "src/",
    "tests/command/",
    "tests/compat/",
    "tests/entry/",
    "tests/fuzz/",
    "tests/layout/",
    "tests/model/",
    "tests/packaging/",
    "tests/process/",
    "tests/programs/",
    "tests/unit/",
)
# Other places in which --all looks for these words.
OTHERS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "bench/", "docs/", "formats/", "instruments/", "src/",
          "tests/")
# (path, regular expression of the text around the phrase, reason)
EXCEPTIONS = (
    ("bench/runner/documents.py", "behind", "of figures: slower than the best peer's"),
)
CONTEXT = 30  # characters on each side of a phrase that an exception may look at


def phrase_pattern(phrase):
    """The regular expression of a phrase in the notation of the table."""
    start = phrase.startswith("^")
    pattern = ""
    for word in phrase.lstrip("^").split():
        if word == "…":
            pattern += r"(?:[\w'-]+ ){0,4}?"
            continue
        choices = [re.escape(choice).replace(r"\(s\)", "s?") for choice in word.split("/")]
        if not pattern and not start:  # also at the beginning of a sentence
            choices = [f"[{choice[0].upper()}{choice[0].lower()}]{choice[1:]}" for choice in choices]
        pattern += f"(?:{'|'.join(choices)}) "
    pattern = pattern.rstrip(" ")
    return re.compile(rf"(?:^|(?<=[.:;] )){pattern}\b" if start else rf"\b{pattern}\b")


class Rule:
    """A row of the table."""

    def __init__(self, write, phrases, allowed):
        self.write = write
        self.patterns = [phrase_pattern(phrase) for phrase in phrases]
        self.allowed = [phrase_pattern(phrase) for phrase in allowed]

    def matches(self, text):
        allowed = [match.span() for pattern in self.allowed for match in pattern.finditer(text)]
        for pattern in self.patterns:
            for match in pattern.finditer(text):
                if not any(begin <= match.start() and match.end() <= end for begin, end in allowed):
                    yield match


def rules_of(glossary):
    """The rows of the table in the text of the glossary."""
    rules = []
    for line in glossary.split(HEADING, 1)[1].split("\n"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or cells[0] in ("write", "---"):
            continue
        phrases = re.findall(r"`([^`]+)`", cells[1])
        if not phrases:
            raise ValueError(f"a row of {HEADING!r} has no phrase in backticks: {line}")
        rules.append(Rule(cells[0], phrases, re.findall(r"`([^`]+)`", cells[2])))
    return rules


class Passage:
    """Text that belongs together, as one line, and the numbers of the lines that it comes from."""

    def __init__(self):
        self.text = ""
        self.starts = []
        self.lines = []

    def add(self, line, text):
        text = " ".join(text.split())
        if text:
            self.text += " " if self.text else ""
            self.starts.append(len(self.text))
            self.lines.append(line)
            self.text += text

    def line_at(self, offset):
        return self.lines[bisect.bisect_right(self.starts, offset) - 1]


def passages(pieces):
    """Joins (line, text, continues) to passages: a piece that continues belongs to the one before."""
    passage = Passage()
    for line, text, continues in pieces:
        if not continues:
            if passage.text:
                yield passage
            passage = Passage()
        passage.add(line, text)
    if passage.text:
        yield passage


def code_pieces(text):
    end, end_line, end_kind = 0, 0, ""
    for match in source.TOKEN.finditer(text):
        kind = match.lastgroup if match.lastgroup != "delimiter" else "string"
        line = text.count("\n", 0, match.start()) + 1
        if match["comment"]:
            between = text[end:match.start()]
            continues = end_kind == "comment" and not between.strip() and line == end_line + 1
            for offset, part in enumerate(match[0].split("\n")):
                stripped = re.sub(r"^\s*(?://+|/\*+|\*(?!/))|\*/\s*$|SPDX-License.*", "", part).strip()
                yield line + offset, stripped, continues and bool(stripped)
                continues = bool(stripped)
        elif match["string"]:
            if not match[0].startswith("R"):
                continues = end_kind == "string" and not text[end:match.start()].strip()
                yield line, re.sub(r"\\[nt]", " ", match[0][1:-1]), continues
            else:
                for offset, part in enumerate(match[0].split("\n")):
                    yield line + offset, part, offset > 0
        end, end_kind = match.end(), "comment" if match["comment"] else "string" if match["string"] else kind
        end_line = text.count("\n", 0, end) + 1


def python_pieces(text):
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        first = token.start[0]
        if token.type == tokenize.COMMENT:
            yield first, token.string.lstrip("#"), first == last + 1
            last = first
        elif token.type == tokenize.STRING:
            continues = False
            for offset, part in enumerate(token.string.strip("rbfRBF'\"").split("\n")):
                yield first + offset, part, continues and bool(part.strip())
                continues = True


def shell_pieces(text):
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("#"):
            yield number, line.lstrip().lstrip("#"), number > 1


def markdown_pieces(text):
    fenced, continues = False, False
    for number, line in enumerate(text.split(HEADING)[0].split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        code = fenced or line.startswith("    ") and not continues
        plain = "" if code else re.sub(r"`[^`]*`|\]\([^)]*\)", " X ", line)
        # Headings, rows of tables and items of lists begin anew.
        begins = not continues or re.match(r"\s*(#|\||[*-] |\d+\. )", line) is not None
        yield number, plain.lstrip("#*|- "), not begins
        continues = bool(plain.strip())


READERS = {".py": python_pieces, ".sh": shell_pieces, ".md": markdown_pieces}
READERS.update((suffix, code_pieces) for suffix in source.CODE_SUFFIXES)


def is_in(name, places):
    return any(name.startswith(place) if place.endswith("/") else name == place for place in places)


def check(root, everything):
    rules = rules_of((root / "docs/glossary.md").read_text())
    complaints, others = source.Complaints(root), source.Complaints(root)
    used = set()
    files = 0
    for path in source.tree_files(root):
        name = path.relative_to(root).as_posix()
        checked = is_in(name, CHECKED)
        if path.suffix not in READERS or not (checked or everything and is_in(name, OTHERS)):
            continue
        files += checked
        for passage in passages(READERS[path.suffix](path.read_text())):
            for rule in rules:
                for match in rule.matches(passage.text):
                    around = passage.text[max(match.start() - CONTEXT, 0):match.end() + CONTEXT]
                    excepted = [i for i, (where, what, _) in enumerate(EXCEPTIONS) if where == name and re.search(what, around)]
                    used.update(excepted)
                    if not excepted:
                        (complaints if checked else others).add(
                            path, passage.line_at(match.start()), f'"{match[0]}": write: {rule.write}', around)
    for i, (where, what, _) in enumerate(EXCEPTIONS):
        if i not in used:
            complaints.add(root / where, 0, f"the exception {what!r} of words.py matches nothing: remove it there")
    for place in CHECKED:
        if not (root / place).exists():
            complaints.add(None, 0, f"{place} is in CHECKED of words.py, and does not exist: remove it there")
    rest = f", {others.count} in the rest" if everything else ""
    print(f"{len(rules)} rules, {files} files, {complaints.count} complaints{rest}")
    return 1 if complaints.count or not files or not rules else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve(), "--all" in sys.argv[2:]))
