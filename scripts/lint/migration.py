#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the tables of docs/migrating-from-*.md name only things that exist, and leave out no option of the other
allocators.

  migration.py ROOT

* Each name in the last column of a table that ends with "here" exists: a setting in docs/settings.md, a property in
  docs/properties.md, a function or type in include/, a command and its options in cli/, a library, or a function of C.
* A row has a name there, or says "none", "the same" or another word of PLAIN. "none" has a reason after it: "none: ...".
* The pages for jemalloc, mimalloc, gperftools and glibc have each name of migration_names.txt.
* The page for glibc has each tunable that this machine's dynamic linker lists, and each parameter of mallopt.
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import source  # noqa: E402

TABLE = re.compile(r"^\|(.*)\|\n\|[-|]+\|\n((?:\|.*\|\n)+)", re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")
SETTING = re.compile(r"^\| `([A-Z][A-Z_]+)` \|", re.MULTILINE)
PROPERTY = re.compile(r"^\| `((?:generic|tcmalloc)\.[\w.]+)` \|", re.MULTILINE)
COMMAND = re.compile(r"add_subcommand\(\s*\"([a-z]+)\"|\"([a-z]+)\", \"[A-Z][^\"]{20,}\"|^ +\{\"([a-z]+)\",$", re.MULTILINE)
OPTION = re.compile(r"--[a-z][a-z-]*")
# A row without one of these words must have a name.
PLAIN = re.compile(r"\b(none|the same|always so|accepted|complete|missing)\b")
# A reader who looks an option up wants to know why it has no effect.
NO_REASON = re.compile(r"^none\b(?!( \w+){0,4}[:;] \S)")
# Names of the C and C++ libraries.
STANDARD = set("""malloc calloc realloc reallocarray free aligned_alloc malloc_usable_size malloc_trim malloc_stats malloc_info
    free_sized free_aligned_sized nallocx std::allocator new MADV_DONTNEED realloc(p,0) p pprof LD_PRELOAD
    libtcmalloc libtcmalloc_minimal libtcmalloc_debug libtcmalloc_minimal_debug bpftrace memset""".split())
HEADER = re.compile(r"gperftools/\w+\.h|tcmalloc/\w+\.h")


class Names:
    """The names that exist."""

    def __init__(self, root):
        self.settings = set(SETTING.findall((root / "docs/settings.md").read_text()))
        self.settings |= set(re.findall(r"`([A-Z][A-Z_]+)`", (root / "docs/settings.md").read_text()))
        self.properties = set(PROPERTY.findall((root / "docs/properties.md").read_text()))
        code = "\n".join(source.without_comments(path.read_text()) for path in source.code_files(root / "include"))
        self.words = set(re.findall(r"\w+", code))
        self.headers = {path.relative_to(root / "include").as_posix() for path in source.code_files(root / "include")}
        cli = "\n".join(path.read_text() for path in source.code_files(root / "cli"))
        self.commands = {name for pair in COMMAND.findall(cli) for name in pair if name}
        self.options = set(OPTION.findall(cli))

    def complaint(self, text):
        """Returns why a text in backticks names nothing that exists, or None."""
        if text.startswith("tcmalloc ") and re.match(r"tcmalloc [a-z]+", text):
            return self.command_complaint(text.split())
        if re.fullmatch(r"(generic|tcmalloc)\.[\w.]+", text):
            return None if text in self.properties else "is no property"
        setting = re.match(r"([A-Z][A-Z_]+)(=|$)", text)
        if setting and setting[1] not in STANDARD:
            return None if setting[1] in self.settings else "is no setting"
        if text in self.headers:
            return None
        name = re.sub(r"\(.*\)(;)?$", "", text).replace("operator ", "")
        if name in STANDARD or text in STANDARD:
            return None
        parts = [part for part in re.split(r"::|\.\.\.", name) if part]
        missing = [part for part in parts if part not in self.words and part != "tcmalloc"]
        return f"is nothing in include/: {', '.join(missing)}" if missing or not parts else None

    def command_complaint(self, words):
        if words[1] not in self.commands:
            return "is no command"
        missing = [word for word in words if word.startswith("--") and word not in self.options]
        return f"has no option {missing[0]}" if missing else None


def rows(text):
    """(line number, first cells, last cell) of the rows of tables whose last column is "here"."""
    for table in TABLE.finditer(text):
        header = [cell.strip() for cell in table[1].split("|")]
        if header[-1] != "here":
            continue
        line = text.count("\n", 0, table.start()) + 3
        for number, row in enumerate(table[2].rstrip("\n").split("\n")):
            cells = [cell.strip() for cell in row.strip("|").split(" | ")]
            yield line + number, " ".join(cells[:-1]), cells[-1]


def check_page(path, text, names, complaints):
    count = 0
    for line, _, here in rows(text):
        found = CODE.findall(here)
        count += len(found)
        if not found and not PLAIN.search(here):
            complaints.add(path, line, "says neither what is here instead nor that there is none", here)
        if NO_REASON.search(here):
            complaints.add(path, line, "says 'none' without a reason", here)
        for name in found:
            why = names.complaint(name)
            if why:
                complaints.add(path, line, f"`{name}` {why}")
    return count


def names_of_glibc():
    """Returns the tunables and the parameters of mallopt, except those that this machine cannot list."""
    found = set()
    for linker in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"):
        if pathlib.Path(linker).exists():
            listed = subprocess.run([linker, "--list-tunables"], stdout=subprocess.PIPE, text=True).stdout
            found |= set(re.findall(r"^(glibc\.malloc\.\w+):", listed, re.MULTILINE))
    header = pathlib.Path("/usr/include/malloc.h")
    if header.exists():
        found |= set(re.findall(r"^# *define (M_\w+)", header.read_text(), re.MULTILINE))
    return found


def wanted_names(path):
    """{allocator: names} of migration_names.txt."""
    found = {}
    for line in path.read_text().split("\n"):
        if line.startswith("["):
            names = found.setdefault(line.strip("[]"), set())
        elif line and not line.startswith("#"):
            names.add(line)
    return found


def check_names(path, text, wanted, complaints):
    for name in sorted(wanted):
        if not re.search(rf"`{re.escape(name)}[`=:(]", text):
            complaints.add(path, 1, f"does not have {name}")
    return len(wanted)


def check(root):
    complaints, names, count = source.Complaints(root), Names(root), 0
    pages = sorted((root / "docs").glob("migrating-from-*.md"))
    for path in pages:
        count += check_page(path, path.read_text(), names, complaints)
    wanted = wanted_names(root / "scripts/lint/migration_names.txt")
    wanted["glibc"] |= names_of_glibc()
    others = 0
    for allocator, theirs in wanted.items():
        path = root / f"docs/migrating-from-{allocator}.md"
        others += check_names(path, path.read_text(), theirs, complaints)
    print(f"{len(pages)} pages, {count} names here, {others} names of others, {complaints.count} complaints")
    return 1 if complaints.count or len(pages) != 5 or count < 150 or others < 430 else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]).resolve()))
