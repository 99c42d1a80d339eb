#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks what a program and the dynamic linker see of the shared libraries.

  abi_test.py BUILD (gcc, clang or debug) LIBRARY_FOLDER

Compares exported symbols with packaging/libtcmalloc.abi, and undefined ones with undefined_symbols.txt. Checks the needed
libraries, the name, and how the file is mapped: no text relocations, no executable stack, the relocated data read-only,
never unloaded, little static thread-local storage. In the static libraries, no definition except the entry points may have
a name that a program could have.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LARGEST_TLS = 32  # bytes; static thread-local storage is scarce for what is loaded late
NEWEST_GLIBC = (2, 34)  # for strong symbols

# The exported symbols that only the full libraries have: profiles and the leak checker.
FULL = re.compile(r"tcmalloc_(profile_|leaks_|check_leaks|for_each_object|[gs]et_profile_|(start|stop)_allocation_profiling)"
                  r"|_Z\d+GetStack|_ZNK?\d+Heap(Cleaner|LeakChecker)|GetHeapProfile|(Is)?HeapProfiler")
# The exported symbols that are not in the static libraries.
SHARED = {"__register_atfork", "pthread_create"}

# All forms of operator new and delete: a statically linked program may bring its own.
REPLACEABLE = re.compile(r"_Z(n[wa]|d[la]Pv)")


class Test:

    def __init__(self, library):
        self.library = library
        self.failed = 0
        self.narrow = "ELF32" in readelf("-h", library)

    def listed(self, name):
        """Returns the name that the lists have for a symbol: size_t is no unsigned long on 32-bit machines."""
        if not self.narrow:
            return name
        if re.match(r"_ZN(10MallocHook|15MallocExtension)", name):
            return name.replace("j", "m")
        return re.sub(r"^(_Zn[aw]|_Zd[al]Pv)j", r"\1m", name)

    def expect(self, condition, message):
        if not condition:
            self.failed += 1
            print(f"{self.library.name}: {message}")

    def expect_same(self, found, wanted, what):
        for name in sorted(found - wanted):
            self.expect(False, f"{what} {name}, which is not in the list")
        for name in sorted(wanted - found):
            self.expect(False, f"does not have {what} {name}, which is in the list")


def readelf(option, path):
    run = subprocess.run(["readelf", "-W", option, path], check=True, stdout=subprocess.PIPE, text=True)
    return run.stdout


def read_list():
    """[(symbol, the words before it)] of undefined_symbols.txt."""
    lines = (HERE / "undefined_symbols.txt").read_text().split("\n")
    entries = [(symbol, line.partition(":")[0].split()) for line in lines if not line.startswith("#")
               for symbol in line.partition(":")[2].split()]
    names = [symbol for symbol, _ in entries]
    for symbol in sorted({symbol for symbol in names if names.count(symbol) > 1}):
        sys.exit(f"undefined_symbols.txt: {symbol} is there twice")
    return entries


def exported_names(full):
    """The names that the release exports."""
    names = set(re.findall(r"<elf-symbol name='([^']+)'", (ROOT / "packaging/libtcmalloc.abi").read_text()))
    return {name for name in names if full or not FULL.match(name)}


def dynamic_symbols(test):
    """[(binding, visibility, type, section, name, version)] of the dynamic symbol table."""
    symbols = []
    for line in readelf("--dyn-syms", test.library).split("\n"):
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdigit():
            kind, binding, visibility, section, name = words[3:8]
            name, _, version = name.partition("@")
            symbols.append((binding, visibility, kind, section, test.listed(name), version.lstrip("@")))
    return symbols


def check_symbols(test, build, full):
    symbols = dynamic_symbols(test)
    exported = {s[4] for s in symbols if s[3] != "UND"}
    test.expect_same(exported, exported_names(full), "exported symbol")
    for binding, visibility, kind, section, name, version in symbols:
        if section != "UND":
            wanted_binding = "WEAK" if REPLACEABLE.match(name) else "GLOBAL"
            if name.startswith(("_ZTV", "_ZTI", "_ZTS")):
                wanted_binding = binding  # the compiler decides
            test.expect((binding, visibility, version) == (wanted_binding, "DEFAULT", ""),
                        f"{name} is exported as {binding} {visibility} {version}")
            test.expect(kind in ("FUNC", "OBJECT"), f"{name} is exported as a {kind}")

    listed = {}
    for name, words in read_list():
        if not full and "full" in words:
            continue
        builds = [word for word in words[1:] if word != "full"]
        if builds and build not in builds:
            if build == "debug":
                listed[name] = (words[0], False)  # any compiler may have built it: it may be there
            continue
        listed[name] = (words[0], build != "debug" or builds == ["debug"])
    undefined = {s[4]: s for s in symbols if s[3] == "UND" and s[4]}
    test.expect_same(set(undefined), {name for name in listed if listed[name][1] or name in undefined}, "undefined symbol")
    for name, (binding, _, _, _, _, version) in undefined.items():
        kind = listed.get(name, ("strong", True))[0]
        test.expect(binding == ("WEAK" if kind == "weak" else "GLOBAL"), f"{name} is to be {kind} and is {binding}")
        if binding == "GLOBAL":
            number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?: \(\d+\))?", version)
            test.expect(number, f"{name} is strong and comes from {version or 'nowhere'}, not from the C library")
            test.expect(not number or (int(number[1]), int(number[2])) <= NEWEST_GLIBC, f"{name} needs {version}")
    print(f"{test.library.name}: {len(exported)} symbols exported, {len(undefined)} undefined")


def check_file(test):
    dynamic = re.findall(r"^\s*0x[0-9a-f]+ \((\w+)\)\s+(.*?)\s*$", readelf("-d", test.library), re.MULTILINE)
    entries = {}
    for tag, value in dynamic:
        entries.setdefault(tag, []).append(value)
    bracketed = lambda tag: [re.search(r"\[(.*)\]", value)[1] for value in entries.get(tag, [])]
    needed = [name for name in bracketed("NEEDED") if not name.startswith("ld-linux")]
    test.expect(needed == ["libc.so.6"], f"needs {needed}, not libc.so.6 alone")
    soname = test.library.name
    test.expect(bracketed("SONAME") == [soname], f"has the name {bracketed('SONAME')}")
    for tag in ("TEXTREL", "RPATH", "RUNPATH", "VERDEF", "SYMBOLIC"):
        test.expect(tag not in entries, f"has a {tag} entry")
    flags = " ".join(entries.get("FLAGS", []))
    flags_1 = " ".join(entries.get("FLAGS_1", []))
    test.expect("TEXTREL" not in flags, "has text relocations")
    test.expect("NODELETE" in flags_1, "may be unloaded (no NODELETE flag)")
    test.expect("STATIC_TLS" in flags, "its thread-local storage is not of the initial-exec kind")
    test.expect("NOW" in flags_1, "is bound lazily, so the table of addresses stays writable")

    segments = {}
    for line in readelf("-l", test.library).split("\n"):
        match = re.match(r"\s+([A-Z_]+)\s+0x\w+ 0x\w+ 0x\w+ 0x(\w+) 0x(\w+) ([RWE ]{3})", line)
        if match:
            segments.setdefault(match[1], []).append((int(match[3], 16), match[4]))
    test.expect(all("E" not in flags for _, flags in segments.get("GNU_STACK", [(0, "E")])), "asks for an executable stack")
    test.expect("GNU_RELRO" in segments, "leaves relocated data writable (no GNU_RELRO)")
    test.expect(not any("W" in flags and "E" in flags for _, flags in segments.get("LOAD", [])),
                "has a segment that is both writable and executable")
    tls = sum(size for size, _ in segments.get("TLS", []))
    test.expect(0 < tls <= LARGEST_TLS, f"has {tls} bytes of thread-local storage")
    # The general kinds go through __tls_get_addr or descriptors, which may allocate.
    relocations = readelf("-r", test.library)
    for kind in ("DTPMOD", "DTPOFF", "TLSDESC", "COPY"):
        test.expect(kind not in relocations, f"has relocations of the kind {kind}")
    test.expect("TPOFF" in relocations, "has no thread-local storage of the initial-exec kind")
    print(f"{test.library.name}: {tls} bytes of thread-local storage, needs {' '.join(needed)}")


def check_archive(test, full):
    """A static library must define no name outside the namespace except the entry points."""
    wanted = exported_names(full) - SHARED
    listed = {name for name, _ in read_list()}
    defined = set()
    undefined = set()
    for line in readelf("-s", test.library).split("\n"):
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdigit() and words[4] != "LOCAL":
            (undefined if words[6] == "UND" else defined).add((test.listed(words[7]), words[4], words[5]))
    # Other names are functions of the compiler itself, for processors without an instruction that reads the program
    # counter.
    own = re.compile(r"_Z(N[KO]?|T[VISH]|TWN|THN|GV)*N?8tcmalloc|_ZZN[KO]?8tcmalloc"
                     r"|__x86\.get_pc_thunk\.|otel_memory_(alloc|free)_semaphore$")
    names = {name for name, _, _ in defined}
    for name in sorted(wanted - names):
        test.expect(False, f"does not define {name}")
    for name, binding, visibility in sorted(defined):
        if name not in wanted and not own.match(name):
            # These are instances of templates of the C++ library and the like. They must not replace those of other
            # files.
            test.expect(binding in ("WEAK", "UNIQUE") and visibility == "HIDDEN", f"defines {name} ({binding}, {visibility})")
        elif name not in wanted:
            test.expect(visibility == "HIDDEN", f"{name} is not hidden")
    for name, binding, _ in sorted(undefined):
        if name not in names and name not in listed and name != "_GLOBAL_OFFSET_TABLE_":
            test.expect(False, f"refers to {name} ({binding}), which is not in the list")
    print(f"{test.library.name}: {len(names)} global symbols")


def main():
    build, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    failed = 0
    for name in ("libtcmalloc", "libtcmalloc_minimal", "libtcmalloc_debug", "libtcmalloc_minimal_debug"):
        full = "minimal" not in name
        test = Test(folder / f"{name}.so.4")
        check_symbols(test, build, full)
        check_file(test)
        failed += test.failed
        test = Test(folder / f"{name}.a")
        check_archive(test, full)
        failed += test.failed
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
