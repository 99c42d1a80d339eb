#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares gperftools' names with what libtcmalloc exports (packaging/libtcmalloc.abi) and leaves out (gperftools_symbols.txt).

  gperftools_test.py ROOT LIBRARY_FOLDER

  * no library exports what the list leaves out
  * every function that our headers in include/gperftools/ declare is exported, and the headers of
    what is left out are not there; nor in include/google/, where each has its old name
  * where Debian's libgoogle-perftools-dev is installed: every name that its libraries export and
    every function that its headers declare is exported or left out, and each pattern of the list matches a name
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
DECLARED_FOR_CPP = {"GetStackTrace", "GetStackFrames", "GetStackTraceWithContext", "GetStackFramesWithContext"}
DEBIAN_HEADERS = pathlib.Path("/usr/include/gperftools")
# profiler.h is libprofiler's, whose names are in the list as well.
DECLARED = re.compile(
    r"\b((?:MallocExtension|MallocHook)_\w+|tc_\w+|nallocx|\w*Profil(?:er|ing)\w*|GetHeapProfile"
    r"|GetStack(?:Trace|Frames)\w*)\s*\(")


class Test:

    def __init__(self):
        self.failed = 0
        self.patterns = {}  # text: compiled pattern
        for line in LIST.read_text().split("\n"):
            line = line.split("#")[0].strip()
            if line and not line.startswith("["):
                self.patterns[line] = re.compile(line[1:-1] if line[0] == line[-1] == "/" else re.escape(line) + "$")
        self.used = set()

    def expect(self, condition, message):
        if not condition:
            self.failed += 1
            print(message)

    def is_left_out(self, name):
        found = [text for text, pattern in self.patterns.items() if pattern.match(name)]
        self.used.update(found)
        return bool(found)


def exported(library):
    run = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True, stdout=subprocess.PIPE)
    return {line.split()[2] for line in run.stdout.split("\n") if line}


def declared(header):
    text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
    return set(DECLARED.findall(re.sub(r"//.*", "", text)))


def check_ours(test, root, folder):
    provided = exported(folder / "libtcmalloc.so.4")
    for name in ("libtcmalloc", "libtcmalloc_debug", "libtcmalloc_minimal", "libtcmalloc_minimal_debug"):
        for symbol in sorted(exported(folder / f"{name}.so.4")):
            test.expect(not test.is_left_out(symbol), f"{name} has {symbol}, which the list leaves out")
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
            if re.search(r"(Hook|Replacement)$", function) and function not in provided:
                continue
            count += 1
            test.expect(function in provided | DECLARED_FOR_CPP, f"{path.name} declares {function}, which is not provided")
    print(f"{len(provided)} names exported, {count} of them declared as functions of C")
    test.expect(count > 100, "the headers declare hardly anything")
    return provided


def check_debian(test, provided):
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
        test.expect(name in provided | DECLARED_FOR_CPP or test.is_left_out(name), f"{name} of gperftools is not in the lists")
    for text in test.patterns:
        test.expect(text in test.used or not text.startswith("/"), f"{text} matches nothing")
    print(f"{len(names)} names of {libraries[0].resolve().name} and its headers are in the lists")


def main():
    test = Test()
    check_debian(test, check_ours(test, pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
    print(f"{test.failed} failed")
    return 1 if test.failed else 0


if __name__ == "__main__":
    sys.exit(main())
