#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares our libraries and headers, and those of gperftools, with gperftools_symbols.txt.

  gperftools_test.py ROOT LIBRARY_FOLDER

  * all of our libraries, or only libtcmalloc and libtcmalloc_debug, export what the list calls provided; none exports
    what it leaves out
  * every function that our headers in include/gperftools/ declare is provided, and the headers of
    what is left out are not there; nor in include/google/, where each has its old name
  * where Debian's libgoogle-perftools-dev is installed: every name that its libraries export and
    every function that its headers declare is in the list, and each pattern of the list matches a name
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "gperftools_symbols.txt"
HEADERS = {"heap-checker.h", "heap-profiler.h", "malloc_extension.h", "malloc_extension_c.h", "malloc_hook.h",
           "malloc_hook_c.h", "nallocx.h", "stacktrace.h", "tcmalloc.h"}
NEVER_IN_GOOGLE = {"nallocx.h"}  # came after the folder was renamed
DEBIAN_HEADERS = pathlib.Path("/usr/include/gperftools")
# profiler.h is libprofiler's, whose names are in the list as well.
DECLARED = re.compile(
    r"\b((?:MallocExtension|MallocHook)_\w+|tc_\w+|nallocx|\w*Profil(?:er|ing)\w*|GetHeapProfile"
    r"|GetStack(?:Trace|Frames)\w*)\s*\(")


class Test:

    def __init__(self):
        self.failed = 0
        self.entries = []  # (heading, text, compiled pattern)
        heading = None
        for line in LIST.read_text().split("\n"):
            line = line.split("#")[0].strip()
            if match := re.fullmatch(r"\[(provided|provided by libtcmalloc|"
                                     r"declared for C\+\+|left out: .+)\]", line):
                heading = match[1]
            elif line:
                pattern = line[1:-1] if line[0] == line[-1] == "/" else re.escape(line) + "$"
                self.entries.append((heading, line, re.compile(pattern)))
        self.used = set()

    def expect(self, condition, message):
        if not condition:
            self.failed += 1
            print(message)

    def heading_of(self, name):
        for heading, text, pattern in self.entries:
            if pattern.match(name):
                self.used.add(text)
                return heading
        return None


def exported(library):
    run = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                         stdout=subprocess.PIPE)
    return {line.split()[2] for line in run.stdout.split("\n") if line}


def declared(header):
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    return set(DECLARED.findall(re.sub(r"//.*", "", text)))


def check_ours(test, root, folder):
    in_both = {text for heading, text, _ in test.entries if heading == "provided"}
    in_full = {text for heading, text, _ in test.entries if heading == "provided by libtcmalloc"}
    for name, headings in (("libtcmalloc.so.4", ("provided", "provided by libtcmalloc")),
                           ("libtcmalloc_debug.so.4", ("provided", "provided by libtcmalloc")),
                           ("libtcmalloc_minimal.so.4", ("provided",)),
                           ("libtcmalloc_minimal_debug.so.4", ("provided",))):
        provided = in_both | in_full if len(headings) > 1 else in_both
        have = exported(folder / name)
        for symbol in sorted(provided - have):
            test.expect(False, f"{name} does not have {symbol}, which the list calls provided")
        for symbol in sorted(have):
            heading = test.heading_of(symbol)
            test.expect(heading in (None, *headings), f"{name} has {symbol}: {heading}")
    folder = root / "include" / "gperftools"
    headers = {path.name for path in folder.iterdir()}
    test.expect(headers == HEADERS, f"include/gperftools has {sorted(headers ^ HEADERS)}, or not")
    old = {path.name: path.read_text() for path in (root / "include/google").iterdir()}
    test.expect(set(old) == HEADERS - NEVER_IN_GOOGLE, f"include/google has {sorted(set(old) ^ (HEADERS - NEVER_IN_GOOGLE))}, or not")
    for name, text in old.items():
        test.expect(re.findall(r"#\s*include.*", text) == [f"#include <gperftools/{name}>"],
                    f"include/google/{name} includes something else than gperftools/{name}")
    count = 0
    for path in sorted(folder.iterdir()):
        for function in sorted(declared(path)):
            # Names of types of functions have one of these ends.
            if re.search(r"(Hook|Replacement)$", function) and function not in in_both:
                continue
            count += 1
            test.expect(test.heading_of(function) in ("provided", "provided by libtcmalloc",
                                                        "declared for C++"),
                        f"{path.name} declares {function}, which is not provided")
    print(f"{len(in_both | in_full)} names provided, {count} of them declared as functions of C")
    test.expect(count > 100, "the headers declare hardly anything")


def check_debian(test):
    libraries = [library for name in ("tcmalloc", "tcmalloc_minimal", "tcmalloc_debug", "tcmalloc_minimal_debug")
                 for library in sorted(pathlib.Path("/usr/lib").glob(f"*-linux-gnu/lib{name}.so.4"))]
    if not DEBIAN_HEADERS.is_dir() or len(libraries) < 4:
        print("libgoogle-perftools-dev is not installed: not compared with it")
        return
    names = set()
    for library in libraries:
        names |= exported(library)
    for path in sorted(DEBIAN_HEADERS.glob("*.h")):
        names |= {name for name in declared(path) if not re.search(r"_\w+(Hook|Replacement)$", name)
                  or name.startswith(("MallocHook_Add", "MallocHook_Remove", "MallocHook_Set"))}
    for name in sorted(names):
        test.expect(test.heading_of(name) is not None, f"{name} of gperftools is not in the list")
    for heading, text, _ in test.entries:
        if heading.startswith("left out") and text.startswith("/"):
            test.expect(text in test.used, f"{text} matches nothing")
    print(f"{len(names)} names of {libraries[0].resolve().name} and its headers are in the list")


def main():
    test = Test()
    check_ours(test, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    check_debian(test)
    print(f"{test.failed} failed")
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
