# SPDX-License-Identifier: BSD-3-Clause
"""Functions that the tests of the source tree share: they find files and tell code from comments."""

import os
import pathlib
import re

CODE_SUFFIXES = {".cc", ".h", ".c"}
LIBRARY_FOLDERS = ("src", "instruments", "formats")
SKIPPED_FOLDERS = {".git", "build", "__pycache__"}

# In the order of the alternatives: comments, raw strings, strings, characters. A quote between two
# digits separates them and starts no character constant.
TOKEN = re.compile(
    r"(?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?\*/)"
    r'|(?P<string>R"(?P<delimiter>[^()\s\\]{0,16})\(.*?\)(?P=delimiter)"|"(?:[^"\\\n]|\\.)*")'
    r"|(?P<character>(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+')",
    re.DOTALL)


def tree_files(root):
    """Every file of the project below root, sorted, without what was built."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        found += [pathlib.Path(folder) / name for name in sorted(files) if name != ".git"]
    return found


def code_files(root):
    return [path for path in tree_files(root) if path.suffix in CODE_SUFFIXES]


def library_files(root):
    """The source files of the libraries."""
    return [path for folder in LIBRARY_FOLDERS for path in code_files(root / folder)]


def name_of(root, path):
    """Returns the path by which files include a file: from src/ or, for a file outside of it, from
    the root."""
    return path.relative_to(root).as_posix().removeprefix("src/")


def place_of(root, name):
    """Returns the file that is included by this path."""
    return root / (name if name.startswith(LIBRARY_FOLDERS) else f"src/{name}")


def blank(text):
    """Returns the text with all characters except line ends replaced by spaces, so that later text keeps its line
    number."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return TOKEN.sub(lambda m: blank(m[0]) if m["comment"] else m[0], text)


def without_comments_and_strings(text):
    return TOKEN.sub(lambda m: blank(m[0]), text)


def comments(text):
    """(line number, text) of each line of each comment."""
    for match in TOKEN.finditer(text):
        if match["comment"]:
            first = text.count("\n", 0, match.start()) + 1
            for offset, line in enumerate(match[0].split("\n")):
                yield first + offset, line


class Complaints:
    """Collects and prints what a test found wrong."""

    def __init__(self, root):
        self.root = root
        self.count = 0

    def add(self, path, line, message, text=""):
        self.count += 1
        name = pathlib.Path(path).relative_to(self.root) if path else "(tree)"
        print(f"{name}:{line}: {message}")
        if text:
            print(f"    {text.strip()}")
