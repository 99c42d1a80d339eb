#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds src/, instruments/ and formats/ to the order of its folders and to the rules that come with it.

  layering_test.py ROOT

  * a folder includes only folders below it; no file includes itself by a detour; a project header
    is included in quotes, by its path from src/ or, if it is not there, from the project's folder
  * files of src/ include a header of instruments/ only if a file named no_* also includes it, to define its functions
    for the minimal library
  * only process/ and the folders above it name the process's heap
  * only entry points include public headers
  * below process/ only os/ has virtual functions
  * conditional compilation and macros are only in files that are meant for them
  * headers have #pragma once, sources their licence line
  * cli/ includes no header of src/ or include/, since the command reads every version of the library. The exceptions
    are those of CLI_SHARED: rules and names, no layout. The folders of cli/ are in the order
    of CLI_FOLDERS, and none includes a later one
  * no file of the project names a machine's folders, a package registry or a ticket
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import source  # noqa: E402

# A folder may include those of a lower level; folders of one level do not include each other.
LEVELS = (
    ("base",), ("os", "formats/marker", "formats/profiles"), ("os/memory",),
    ("page_heap", "config", "instruments/unwind", "instruments/world_stop", "instruments/annotations",
     "instruments/red_zones"),
    ("central",), ("thread_cache",), ("process",), ("stats",),
    ("instruments/profiles", "instruments/pressure"), ("instruments/guard",),
    ("instruments/introspection", "instruments/control", "instruments/leaks"),
    ("malloc", "instruments"), ("instruments/debug",), ("instruments/gperftools",),
)
# The folders of the tcmalloc command.
CLI_FOLDERS = ("image", "heap", "report", "commands")
# The code that the command shares with the library: the rules of the marker, of near names and of
# hints about variables, the writers of profiles, plain data, the names of settings, the files of control groups.
CLI_SHARED = re.compile(r"formats/(marker|profiles)/\w+\.h|base/(address_range|text)\.h"
                        r"|config/(environment_hints|settings_table)\.h|os/cgroup\.h")
LEVEL = {folder: level for level, folders in enumerate(LEVELS) for folder in folders}

PROCESS_HEAP = re.compile(r"\b(GlobalHeap|global_heap_storage|global_page_map|current_slot)\b")
VIRTUAL = re.compile(r"\b(virtual|override)\b")

# Files with system calls and with code that differs between systems and machines.
SYSTEM = (r"os/.*|instruments/(world_stop/.*|unwind/(?!mapped_libraries).*"
          r"|profiles/sampler\.\w+|leaks/(process_search|main_start)\.\w+"
          r"|pressure/(monitor|event_sources|figures)\.\w+"
          r"|guard/fault_handler\.\w+)")
CONDITIONALS_IN = re.compile(rf"base/(config|compiler)\.h|{SYSTEM}|malloc/override(\.h|_.*)")
MACROS_IN = re.compile(rf"base/(compiler|config)\.h|{SYSTEM}|malloc/override(\.h|_.*)")
# Headers of the system below the C++ library: what they declare differs between systems.
SYSTEM_HEADER = re.compile(r"(sys|linux|asm|bits)/.*|(unistd|fcntl|sched|signal|dlfcn)\.h")
SYSTEM_HEADERS_IN = re.compile(SYSTEM)
# Only files that define public functions may include the public headers.
PUBLIC_HEADERS_IN = re.compile(r"malloc/entry_.*|instruments/(\w+/entry_.*|gperftools/.*)")
# Files that may break a rule: (rule, file), with the reason.
EXCEPTIONS = {
    ("macro definition", "instruments/introspection/field_table.h"):
        "makes name, offset and size of a member from one token",
    ("system header", "instruments/gperftools/malloc_hook.cc"):
        "offers mmap and munmap to programs as they are",
    ("system header", "malloc/oom_policy.cc"):
        "asks dlopen for the C++ runtime; os/ does not know that there is such a thing",
    ("system header", "malloc/override_threads.cc"):
        "asks dlsym for the functions that it stands before",
}

# (header, header that it must not include, not even by a detour, with the reason).
NOT_INCLUDED = {("malloc/fast_path.h", "process/heap.h"): "the fast path needs three variables, not all tiers"}

# Forbidden in every file of the project, documentation and scripts included.
FORBIDDEN_EVERYWHERE = (
    (re.compile(r"(?<![\w.*$}~])/(work|home/\w+|Users/\w+)/"), "names a folder of one machine"),
    (re.compile(r"\.\./shared\b"), "names a folder outside the project"),
    (re.compile(r"\b(pypi|pythonhosted|npmjs|crates|rubygems|anaconda|golang|docker|quay)"
                r"\.(org|com|io)\b|\b(deb|archive|ftp)\.(debian|ubuntu)\.(org|com)\b"),
     "names the host of a package registry"),
    (re.compile(r"\b(issue|ticket) #?\d+\b", re.IGNORECASE), "names a ticket"),
)

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
CONDITIONAL = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else)\b", re.MULTILINE)
DEFINE = re.compile(r"^\s*#\s*define\b", re.MULTILINE)
LICENCE = "SPDX-License-Identifier: BSD-3-Clause"


def folder_of(name):
    """The folder of a file."""
    return name.rpartition("/")[0]


class Checker:

    def __init__(self, root):
        self.root = root
        self.complaints = source.Complaints(root)
        self.used_exceptions = set()
        # File, as it is included -> [(line, included file, text of the line)].
        self.includes = {}

    def complain(self, path, match_or_line, message, text=""):
        line = match_or_line
        if not isinstance(line, int):
            whole = match_or_line.string
            line = whole.count("\n", 0, match_or_line.start(0) + len(match_or_line[0]) -
                               len(match_or_line[0].lstrip())) + 1
            text = whole.split("\n")[line - 1]
        self.complaints.add(path, line, message, text)

    def excepted(self, rule, name):
        if (rule, name) not in EXCEPTIONS:
            return False
        self.used_exceptions.add((rule, name))
        return True

    def check_file(self, path):
        name = source.name_of(self.root, path)
        folder = folder_of(name)
        if folder not in LEVEL:
            self.complain(path, 1, f"{folder} is not in the order of folders (LEVELS)")
            return
        text = path.read_text()
        code = source.without_comments(text)
        bare = source.without_comments_and_strings(text)
        self.check_includes(path, name, folder, code)
        if LEVEL[folder] < LEVEL["process"]:
            for match in PROCESS_HEAP.finditer(bare):
                self.complain(path, match, f"{folder}/ is below process/ and must not name the process's heap")
            if not SYSTEM_HEADERS_IN.fullmatch(name):
                for match in VIRTUAL.finditer(bare):
                    self.complain(path, match, "virtual functions below process/ are for os/ alone")
        for pattern, allowed, rule in ((CONDITIONAL, CONDITIONALS_IN, "conditional compilation"),
                                       (DEFINE, MACROS_IN, "macro definition")):
            for match in pattern.finditer(code):
                if not allowed.fullmatch(name) and not self.excepted(rule, name):
                    self.complain(path, match, f"{rule} outside {allowed.pattern}")
        if path.suffix == ".h" and code.count("#pragma once") != 1:
            self.complain(path, 1, "a header has #pragma once, once")

    def check_includes(self, path, name, folder, code):
        arrows = self.includes.setdefault(name, [])
        for match in INCLUDE.finditer(code):
            quote, target = match[1], match[2]
            target_folder = folder_of(target)
            if quote == "<":
                if source.place_of(self.root, target).exists():
                    self.complain(path, match, "the project's own headers are included in quotes")
                if (SYSTEM_HEADER.fullmatch(target) and not SYSTEM_HEADERS_IN.fullmatch(name)
                        and not self.excepted("system header", name)):
                    self.complain(path, match, "headers of the operating system are for os/")
                continue
            if (self.root / "include" / target).is_file():
                if not PUBLIC_HEADERS_IN.fullmatch(name):
                    self.complain(path, match, "public headers are for the entry points")
                continue
            if not source.place_of(self.root, target).is_file():
                self.complain(path, match, "is not a path of a header from src/ or from the project's folder")
                continue
            line = code.count("\n", 0, match.start(1)) + 1
            arrows.append((line, target, code.split("\n")[line - 1]))
            if target_folder not in LEVEL:
                continue  # reported with that folder's files
            if target_folder != folder and LEVEL[target_folder] >= LEVEL[folder]:
                self.complain(path, match, f"{folder}/ must not include {target_folder}/, which is not below it")

    def check_minimal(self):
        """Code of src/ uses only functions of instruments/ that a file named no_* defines for the minimal library, too."""
        answered = {target for name, arrows in self.includes.items() if "/no_" in name for _, target, _ in arrows}
        for name, arrows in sorted(self.includes.items()):
            if name.startswith("instruments/"):
                continue
            for line, target, text in arrows:
                if target.startswith("instruments/") and target not in answered:
                    self.complain(source.place_of(self.root, name), line,
                                  f"the minimal library has no answer for {target}", text)

    def check_cli(self):
        """Checks the command's folders and returns the number of its files."""
        cli = self.root / "cli"
        files = source.code_files(cli)
        for path in files:
            folder = path.relative_to(cli).parts[0]
            code = source.without_comments(path.read_text())
            if folder not in CLI_FOLDERS:
                self.complain(path, 1, f"cli/{folder} is not in the order of folders (CLI_FOLDERS)")
                continue
            for match in INCLUDE.finditer(code):
                target = match[2].split("/")[0]
                if match[1] == "<":
                    continue
                if CLI_SHARED.fullmatch(match[2]):
                    continue
                if target not in CLI_FOLDERS or not (cli / match[2]).is_file():
                    self.complain(path, match, "cli/ includes its own headers only")
                elif CLI_FOLDERS.index(target) > CLI_FOLDERS.index(folder):
                    self.complain(path, match, f"cli/{folder} must not include {target}/, which is not below it")
        return len(files)

    def check_cycles(self):
        state = {}  # file -> "open" while its includes are followed, "done" afterwards

        def visit(name, trail):
            state[name] = "open"
            for line, target, text in self.includes.get(name, ()):
                if state.get(target) == "open":
                    loop = trail[trail.index(target):] + [target]
                    self.complain(source.place_of(self.root, name), line, "closes a cycle: " + " -> ".join(loop), text)
                elif target not in state:
                    visit(target, trail + [target])
            state[name] = "done"

        for name in sorted(self.includes):
            if name not in state:
                visit(name, [name])

    def closure(self, name):
        seen = set()
        waiting = [name]
        while waiting:
            for _, target, _ in self.includes.get(waiting.pop(), ()):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        return seen

    def check_closures(self):
        for (name, excluded), reason in NOT_INCLUDED.items():
            if excluded in self.closure(name):
                self.complain(source.place_of(self.root, name), 1, f"includes {excluded}: {reason}")

    def check_everywhere(self, path):
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            return
        for pattern, message in FORBIDDEN_EVERYWHERE:
            for match in pattern.finditer(text):
                self.complain(path, match, message)
        if path.suffix in source.CODE_SUFFIXES and LICENCE not in text.split("\n")[0]:
            self.complain(path, 1, f"the first line is to be // {LICENCE}")

    def run(self):
        files = source.library_files(self.root)
        for path in files:
            self.check_file(path)
        self.check_minimal()
        cli_files = self.check_cli()
        self.check_cycles()
        self.check_closures()
        everything = source.tree_files(self.root)
        for path in everything:
            self.check_everywhere(path)
        for rule, name in sorted(set(EXCEPTIONS) - self.used_exceptions):
            self.complain(None, 0, f"the exception for {name} ({rule}) is not needed any more")
        if not files:
            self.complain(None, 0, "there are no files")
        arrows = sum(len(of_file) for of_file in self.includes.values())
        below = [name for name in self.includes
                 if LEVEL.get(folder_of(name), 0) < LEVEL["process"] and name.endswith(".h")]
        largest = max(below, key=lambda name: len(self.closure(name)), default=None)
        print(f"{len(files)} files of the libraries, {cli_files} in cli/, {arrows} includes of project headers, "
              f"{len(everything)} files in all")
        if largest:
            print(f"largest header below process/: {largest} with "
                  f"{len(self.closure(largest))} others that it includes")
        print(f"{self.complaints.count} complaints")
        return 1 if self.complaints.count else 0


if __name__ == "__main__":
    sys.exit(Checker(pathlib.Path(sys.argv[1]).resolve()).run())
