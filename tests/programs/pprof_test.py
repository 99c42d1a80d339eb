# SPDX-License-Identifier: BSD-3-Clause
"""Tests profiles of known functions and figures with the programs that such profiles are for.

pprof/write_profiles.cc writes them. gperftools' pprof reads the text, Go's pprof the text and the
proto. Each must find the functions, also those that the compiler inlined, and the figures.

Go's pprof is compiled from the sources that Debian packages, offline, once per build folder.
"""

import argparse
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GO = "/usr/lib/go-1.19/bin/go"
GO_SOURCES = "/usr/share/gocode"
GO_PPROF = "github.com/google/pprof"
SKIPPED = 77
PERIOD = 524288
# (kind, sample period, whether the figures count allocated objects)
PROFILES = (("sampled", PERIOD, False), ("complete", 0, False), ("peak", PERIOD, False),
            ("allocations", PERIOD, True), ("growth", 0, True))
# The functions of each site, the innermost first, as the sources have them.
BASE = ("AllSites", "main")
STACKS = (("DirectSite", *BASE),
          ("InlinedSite", "CallerOfInlined", *BASE),
          ("InnerSite", "InlinedCaller", "CallerOfInlined", *BASE),
          ("CallbackSite", "LibraryInner", "LibraryOuter", *BASE))
# (site, size, live objects, allocated objects), as in write_profiles.cc.
ENTRIES = ((0, 1000, 3, 5), (0, 2000000, 2, 2), (1, 64, 7, 11), (3, 300000, 1, 4), (3, 48, 0, 9), (2, 4096, 10, 12))

TOTAL = "(total)"

GO_LINE = re.compile(r"\s*(\d+)B?\s+[\d.]+%\s+[\d.]+%\s+(\d+)B?\s+[\d.]+%\s+(\S+)(?: \(.*\))?")
PERL_LINE = re.compile(r"\s*(\d+)\s+[\d.]+%\s+[\d.]+%\s+(\d+)\s+[\d.]+%\s+(\S+)(?: \(inline\))?")


class Failure(Exception):
    pass


def run(argv, **options):
    done = subprocess.run([str(word) for word in argv], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=300, **options)
    if done.returncode != 0:
        raise Failure(f"{argv} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def expect(condition, message):
    if not condition:
        raise Failure(message)


def need(*programs):
    """Skips the test unless each of the programs or files is installed."""
    missing = [name for name in programs if not shutil.which(name) and not os.path.isfile(name)]
    if missing:
        print(f"SKIP: not installed: {', '.join(missing)} (scripts/setup.sh test)")
        sys.exit(SKIPPED)


def parse_arguments(*names):
    """The script's options, which are paths."""
    parser = argparse.ArgumentParser()
    for name in names:
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    return parser.parse_args()


def build_go_pprof(folder):
    """The program, which is compiled if it does not exist."""
    program = folder / "pprof"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            fresh = pathlib.Path(cache) / "pprof"
            run([GO, "build", "-o", fresh, GO_PPROF],
                env={"PATH": "/usr/bin:/bin", "HOME": cache, "GOPATH": GO_SOURCES, "GOCACHE": cache,
                     "GO111MODULE": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"})
            fresh.rename(program)
    return program


def expected(counted, period):
    """(flat, cumulative): {function: figure}; `counted` names a sample type of pprof's."""
    allocated = not counted.startswith("inuse_")
    flat, cumulative = {}, {}
    for site, size, live_objects, allocated_objects in ENTRIES:
        figure = allocated_objects if allocated else live_objects
        if counted.endswith("space"):
            figure *= size
        if period:
            figure /= 1 - math.exp(-size / period)
        flat[STACKS[site][0]] = flat.get(STACKS[site][0], 0) + figure
        for function in STACKS[site]:
            cumulative[function] = cumulative.get(function, 0) + figure
    return flat, cumulative


def compare(what, found, wanted, demand_all=True):
    """Compares figures. Readers round the figure of each entry, some downwards; whole numbers stay exact."""
    for function in sorted(set(found) | set(wanted)):
        if not demand_all and function not in wanted:
            continue
        figure = wanted.get(function, 0)
        entries = sum(function in (*STACKS[entry[0]], TOTAL) for entry in ENTRIES)
        if abs(found.get(function, 0) - figure) > (0 if figure == int(figure) else entries):
            raise Failure(f"{what}: {function}: found {found.get(function, 0)}, not {wanted.get(function, 0)}")


def compare_report(what, pattern, report, total, wanted):
    """The lines of a report with flat and cumulative figures."""
    lines = [match for match in map(pattern.fullmatch, report.split("\n")) if match]
    flat = {match[3]: int(match[1]) for match in lines if int(match[1])}
    cumulative = {match[3]: int(match[2]) for match in lines}
    compare(f"{what}, flat", flat, wanted[0])
    # The reports have further functions below main.
    compare(f"{what}, cumulative", cumulative, wanted[1], demand_all=False)
    compare(f"{what}, total", {TOTAL: int(total.search(report)[1])}, {TOTAL: sum(wanted[0].values())})


def sample_types(allocated):
    if allocated:
        return ("objects", "space")
    return ("alloc_objects", "alloc_space", "inuse_objects", "inuse_space")


def check_go(pprof, folder):
    total = re.compile(r"of (\d+)B? total")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    for name, period, allocated in PROFILES:
        for suffix in ("proto", "legacy"):
            profile = folder / f"{name}.{suffix}"
            for counted in (None, *sample_types(allocated)):
                chosen = [f"-sample_index={counted}"] if counted else []
                # The text has no names of symbols; both readers find the files by themselves.
                done = run([pprof, "-top", "-unit=B", "-nodefraction=0", "-symbolize=local", *chosen, profile], env=environment)
                if done.stderr:
                    raise Failure(f"{profile}: pprof complains: {done.stderr}")
                kind = counted or sample_types(allocated)[-1]
                if f"Type: {kind}\n" not in done.stdout:
                    raise Failure(f"{profile}: the type is not {kind}:\n{done.stdout}")
                compare_report(f"{profile.name}, {kind}", GO_LINE, done.stdout, total, expected(kind, period))


def check_perl(program, folder):
    total = re.compile(r"Total: (\d+)")
    for name, period, allocated in PROFILES:
        for kind in ("inuse_space", "inuse_objects", "alloc_space", "alloc_objects"):
            done = run(["google-pprof", "--text", "--show_bytes", f"--{kind}", "--nodefraction=0",
                        program, folder / f"{name}.legacy"],
                       env={"PATH": "/usr/bin:/bin", "HOME": str(folder),
                            "PPROF_TMPDIR": str(folder)})
            # The text has only one kind of figure for these.
            counted = kind.replace("inuse", "alloc") if allocated else kind
            flat, cumulative = expected(counted, period)
            # It looks up an innermost return address unchanged, which is after the inlined function.
            flat["CallerOfInlined"] = flat.pop("InlinedSite")
            del cumulative["InlinedSite"]
            compare_report(f"google-pprof, {name}.legacy, {kind}", PERL_LINE, done.stdout, total, (flat, cumulative))


def main():
    arguments = parse_arguments("program", "tools")
    need(GO, f"{GO_SOURCES}/src/{GO_PPROF}/pprof.go", "google-pprof")
    pprof = build_go_pprof(arguments.tools)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run([arguments.program, folder])
        check_go(pprof, folder)
        check_perl(arguments.program, folder)
    print("every reader found every function and figure")


if __name__ == "__main__":
    main()
