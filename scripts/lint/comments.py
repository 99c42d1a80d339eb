#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each file, type, function, macro or constant that a comment in src/ or cli/ names must exist.

  comments.py ROOT

The same applies to names in backticks in the Markdown documentation. A name exists if it is an identifier in the code
of src/ or cli/. A name in backticks may also be in the code of any folder, in a script, a CMake file or a text
constant. A file exists if some path of the tree ends in it. In the tables of docs/migrating-from-*.md only the last
column has names of this project.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import source  # noqa: E402

FILE = re.compile(r"(?<![\w/.*<-])((?:[\w-]+/)*[\w-]+\.(?:h|cc|c|py|sh|md|txt|json))\b(?!\()")
FOLDER = re.compile(r"(?<![\w/.~-])((?:src|tests|bench|tools|scripts|docs|base|os|page|central|"
                    r"cache|config|heap|stats|entry|compat)(?:/[\w-]+)*)/(?![\w.])")
CONSTANT = re.compile(r"\bk[A-Z]\w*")
MACRO = re.compile(r"\b(?:TC|TCMALLOC)_[A-Z]\w*")
CAMEL = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b")
CALL = re.compile(r"\b(\w+)\(")
QUALIFIED = re.compile(r"\b\w+(?:::~?\w+)+")
MEMBER = re.compile(r"\b[a-z]\w*_(?![\w*])")
CLANG_TIDY = re.compile(r"\bNOLINT\w*\([\w.-]+\)")
BACKTICKED = re.compile(r"`([^`\n]+)`")
WORD = re.compile(r"[A-Za-z_]\w*")

SCRIPTS = {".py", ".rs", ".sh", ".txt", ".json", ".cmake"}
# Names of things outside the project.
FOREIGN = {
    "GoogleTest", "OpenMetrics", "ThreadSanitizer", "AddressSanitizer", "UndefinedBehaviorSanitizer", "GiB", "MiB",
    "KiB", "CMake", "CMakeLists", "O",
}
# The prefixes of the entry points' names, which are not members.
PREFIXES = {"tc_", "tcmalloc_", "__libc_", "_"}
# Files that users or systems have, not the project.
FOREIGN_FILES = re.compile(r"(sys|linux|bits|gperftools)/.*"
                           r"|(malloc|stdlib|unistd|pthread|errno)\.h")


class Names:
    """The names that exist."""

    def __init__(self, root):
        self.code = set()      # identifiers in the code of src/ and cli/
        self.anywhere = set()  # words of code, text constants, scripts and CMake files everywhere
        self.files = set()     # every path, and every end of it that begins at a folder
        self.folders = set()
        for path in source.tree_files(root):
            parts = path.relative_to(root).parts
            self.files.update("/".join(parts[i:]) for i in range(len(parts)))
            self.folders.update("/".join(parts[i:j]) for i in range(len(parts))
                                for j in range(i + 1, len(parts)))
            if path.suffix in source.CODE_SUFFIXES:
                text = source.without_comments(path.read_text())
                self.anywhere.update(WORD.findall(text))
                if parts[0] in (*source.LIBRARY_FOLDERS, "include", "cli"):
                    self.code.update(
                        WORD.findall(source.without_comments_and_strings(text)))
            elif path.suffix in SCRIPTS or path.name == "Makefile":
                if "tests" not in parts[:1]:
                    self.anywhere.update(WORD.findall(path.read_text()))

    def missing_in_comment(self, line):
        """Names in a line of a comment that do not exist."""
        missing = set(self.missing_files(line))
        plain = CLANG_TIDY.sub(" ", FILE.sub(" ", line))
        for match in QUALIFIED.finditer(plain):
            parts = match[0].split("::")
            if parts[0] != "std" and any(part.lstrip("~") not in self.code for part in parts):
                missing.add(match[0])
        names = CONSTANT.findall(plain) + MACRO.findall(plain) + CAMEL.findall(plain)
        names += [name for name in MEMBER.findall(plain) if name not in PREFIXES]
        names += [name for name in CALL.findall(plain) if re.search(r"[A-Z]", name)]
        for name in names:
            if name not in FOREIGN and name not in self.code:
                if not (MACRO.fullmatch(name) and name in self.anywhere):
                    missing.add(name)
        for quoted in BACKTICKED.findall(plain):
            missing.update(self.missing_in_quote(quoted))
        return missing

    def missing_in_quote(self, quoted):
        """Returns the names in a quote in backticks that do not exist: identifiers and files only."""
        missing = set(self.missing_files(quoted))
        if re.fullmatch(r"~?\w+(::~?\w+)*(\(.*\))?", quoted):
            for name in WORD.findall(quoted.split("(")[0]):
                # Lower-case words may be commands, system calls or options of other programs.
                ours = re.search(r"[A-Z]", name[:2]) or name.endswith("_") and name not in PREFIXES
                if ours and name not in FOREIGN and name not in self.anywhere:
                    if not re.fullmatch(r"[A-Z]\d+|[A-Z0-9_]+", name):  # invariants; the system's
                        missing.add(name)
        return missing

    def missing_files(self, line):
        for name in FILE.findall(line):
            if name not in self.files and not FOREIGN_FILES.fullmatch(name):
                yield name
        for name in FOLDER.findall(line):
            if name not in self.folders:
                yield name + "/"


def check(root):
    names = Names(root)
    complaints = source.Complaints(root)
    lines = 0
    for path in [*source.library_files(root), *source.code_files(root / "cli")]:
        for number, line in source.comments(path.read_text()):
            lines += 1
            for name in sorted(names.missing_in_comment(line)):
                complaints.add(path, number, f"names {name}, which does not exist", line)
    quotes = 0
    for path in source.tree_files(root):
        if path.suffix == ".md" and path.name != "CHANGELOG.md":
            of_others = path.name.startswith("migrating-from-")
            for number, line in enumerate(path.read_text().split("\n"), 1):
                ours = line.rpartition(" | ")[2] if of_others else line
                for quoted in BACKTICKED.findall(ours):
                    quotes += 1
                    for name in sorted(names.missing_in_quote(quoted)):
                        complaints.add(path, number, f"names {name}, which does not exist", line)
    print(f"{lines} lines of comments, {quotes} names in documents, "
          f"{complaints.count} complaints")
    return 1 if complaints.count or not lines else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve()))
