#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the call sites that the tcmalloc command shows: tcmalloc profile, objects --by site, run.

PROGRAM is the program of profile_names.cc.
"""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

import harness
from harness import (Process, build_id, children_of, clean_environment, debuginfod, namespace, needs, new_folder, run_test,
                     wait_for_mapping)

INTERVAL = 65536
HIDDEN = "(anonymous namespace)::Hidden"


class Target(Process):

    def __init__(self, library, *command, **options):
        super().__init__(library, *command, **{"TCMALLOC_SAMPLE_PARAMETER": str(INTERVAL), **options})


class Test(harness.Test):

    def sites(self, pid, **options):
        return self.json("profile", pid, **options)["call_sites"]

    def expect_stack(self, sites, wanted, what):
        """Checks that a call site has the wanted functions one after the other; (function, source) for one
        whose place in a file is known."""
        stacks = [[(f["function"], f"{os.path.basename(f.get('file', ''))}:{f.get('line', 0)}")
                   for f in site["frames"]] for site in sites]

        def matches(stack):
            for begin in range(len(stack) - len(wanted) + 1):
                if all(w in (frame, frame[0]) for w, frame in zip(wanted, stack[begin:])):
                    return True
            return False

        self.expect(any(map(matches, stacks)), f"{what}: no call site has {wanted}:\n"
                    + "\n".join(str(stack) for stack in stacks))


def line_of(source, text):
    """The number of the line with this text, in a file of this folder."""
    lines = (pathlib.Path(__file__).parent / source).read_text().splitlines()
    return f"{source}:{1 + next(i for i, line in enumerate(lines) if text in line)}"


def functions(sites):
    return {frame["function"] for site in sites for frame in site["frames"]}


def test_names(test):
    with Target(test.library, test.program) as target:
        sites = test.sites(target.pid)
        fill = ("shop::Store<double>::Fill", line_of("profile_names.cc", "i < n; ++i) Put"))
        test.expect_stack(sites, [
            "std::make_unique<double, double&>",
            ("shop::Store<double>::Put", line_of("profile_names.cc", "items_.push_back")), fill,
            ("main", line_of("profile_names.cc", "store.Fill("))], "a template, and what it inlines")
        test.expect_stack(sites, [(HIDDEN, line_of("profile_names.cc", "void Hidden(")), ("main", line_of("profile_names.cc", "Hidden(0)"))],
                          "an anonymous namespace")
        lambda_name = ({"main::{lambda(int)#1}::operator()", "main::$_0::operator()"} & functions(sites) or {"lambda"}).pop()
        test.expect_stack(sites, [(lambda_name, line_of("profile_names.cc", "const auto lambda")),
                                  ("main", line_of("profile_names.cc", "lambda(1)"))], "a lambda")
        stacks = [[frame["function"] for frame in site["frames"]] for site in sites]
        test.expect(any(stack[0] == "(anonymous namespace)::Compare" and "main" in stack for stack in stacks if stack), "a callback")
        inlined = {frame["function"] for site in sites for frame in site["frames"] if frame.get("inlined")}
        test.expect("shop::Store<double>::Put" in inlined and "shop::Store<double>::Fill" not in inlined, f"inlined: {inlined}")
        test.expect_equal({site["name"]: site["bytes"] for site in sites}.get(HIDDEN), 3 << 20, "bytes of one object")
        text = test.ask("profile", target.pid).stdout
        test.expect(f"{HIDDEN} (profile_names.cc:" in text, text)
        large = next(start for start, size in test.objects(target.pid) if size >= 5 << 20)
        text = test.ask("inspect", target.pid, hex(large)).stdout
        test.expect(f"{lambda_name} (profile_names.cc:" in text, text)


def test_deleted(test):
    with new_folder() as folder:
        copy = pathlib.Path(shutil.copy(test.program, folder / "copy"))
        with Target(test.library, str(copy)) as target:
            copy.unlink()
            test.expect_stack(test.sites(target.pid), [HIDDEN, "main"], "after it was deleted")
            shutil.copy(test.command, copy)
            test.expect_stack(test.sites(target.pid), [HIDDEN, "main"], "after it was replaced")


def test_compilers(test):
    source = pathlib.Path(__file__).parent / "profile_names.cc"
    clang = next((name for name in ("clang++-19", "clang++") if shutil.which(name)), None)
    # The builds by clang have no table of addresses, or names of functions only.
    for compiler, option in (("g++", "-gdwarf-4"), ("g++", "-g -gsplit-dwarf"), (clang, "-g"), (clang, "-gline-tables-only")):
        if compiler is None:
            continue
        with new_folder() as folder:
            subprocess.run([compiler, "-std=c++20", "-O2", *option.split(), "-o", f"{folder}/names", source], check=True, cwd=folder)
            with Target(test.library, f"{folder}/names") as target:
                sites = test.sites(target.pid)
        put = "Put" if option == "-gline-tables-only" else "shop::Store<double>::Put"
        test.expect_stack(sites, [(HIDDEN, line_of("profile_names.cc", "void Hidden(")), ("main", line_of("profile_names.cc", "Hidden(0)"))],
                          f"{compiler} {option}")
        test.expect_stack(sites, [(put, line_of("profile_names.cc", "items_.push_back")),
                                  ("shop::Store<double>::Fill", line_of("profile_names.cc", "i < n; ++i) Put")),
                                  ("main", line_of("profile_names.cc", "store.Fill("))], f"{compiler} {option}")


def test_formats(test):
    with Target(test.library, test.program) as target, new_folder() as folder:
        report = test.json("profile", target.pid)
        total = report["estimated_bytes"]
        test.expect(total > 8 << 20 and report["samples"] > 20 and report["remark"] == "", f"{total} bytes: {report['remark']}")

        def write(suffix, *arguments):
            test.ask("profile", target.pid, "-o", folder / f"profile.{suffix}", *arguments)
            return (folder / f"profile.{suffix}").read_bytes()

        folded = write("folded").decode().splitlines()
        test.expect(abs(sum(int(line.rpartition(" ")[2]) for line in folded) - total) <= len(folded), "folded")
        test.expect(any(line.endswith(f"main;{HIDDEN} {3 << 20}") for line in folded), str(folded))
        test.expect_equal(json.loads(write("json"))["estimated_bytes"], total, "json")
        test.expect(HIDDEN in write("txt").decode(), "text")
        titles = [title.text for title in xml.etree.ElementTree.fromstring(write("svg")).iter("{http://www.w3.org/2000/svg}title")]
        test.expect(any(title.startswith(f"{HIDDEN} (3.0 MiB") for title in titles), str(titles))
        html = write("html", "--watch", "1").decode()
        data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
        test.expect(HIDDEN in data["names"] and len(data["timeline"]) > 10, "page")
        test.expect(abs(sum(site["bytes"] for site in data["sites"]) - total) <= len(data["sites"]), "page")
        test.expect("http" not in html.replace("http://www.w3.org", ""), "the page needs no other file")
        test.expect(HIDDEN.encode() in gzip.decompress(write("pb.gz")), "pprof")
        legacy = write("heap").decode()
        test.expect(legacy.startswith("heap profile: ") and f" heap_v2/{INTERVAL}\n" in legacy and test.program in legacy, legacy[:200])
        test.expect_equal(test.json("objects", target.pid, "--by", "site")["estimated_bytes"], total, "objects --by site")
        one = test.json("objects", target.pid, "--by", "site", "--size", 3 << 20)
        test.expect_equal([site["name"] for site in one["by_site"]], [HIDDEN], "--size")
        peak = test.json("profile", target.pid, "--type", "peak")
        test.expect(peak["estimated_bytes"] >= total, "the peak is not less than what is in use")


def test_stripped(test):
    """... and with debug information on a server."""
    with new_folder() as folder:
        stripped, debug = folder / "stripped", folder / "debug"
        subprocess.run(["strip", "-o", stripped, test.program], check=True)
        subprocess.run(["objcopy", "--only-keep-debug", test.program, debug], check=True)
        with Target(test.library, str(stripped)) as target:
            found = functions(test.sites(target.pid))
            test.expect(any(name.startswith("stripped+0x") for name in found), str(found))
            with debuginfod(folder, {f"{build_id(test.program)}/debuginfo": debug}) as environment:
                sites = test.sites(target.pid, environment=environment)
        test.expect_stack(sites, [(HIDDEN, line_of("profile_names.cc", "void Hidden(")), ("main", line_of("profile_names.cc", "Hidden(0)"))], "debuginfod")


def test_errors(test):
    with Target(test.library, test.program, TCMALLOC_SAMPLE_PARAMETER="0") as target:
        test.fails("profile", target.pid, words=("takes no samples", f"tcmalloc set {target.pid} sampling=512K",
                                                 "TCMALLOC_SAMPLE_PARAMETER=", "tcmalloc run"))
        test.fails("objects", target.pid, "--by", "site", words="takes no samples")
    with Target(test.library, test.program) as target:
        for arguments, words in ((("profile", target.pid, "--type", "allocations"), ("records no allocations", "StartAllocationProfiling")),
                                 (("profile", target.pid, "-o", "/tmp/profile.xyz"), (".html", "--format")),
                                 (("profile", target.pid, "-o", "/no/such/dir/p.svg"), ("/no/such/dir/p.svg: No such file",)),
                                 (("objects", target.pid, "--by", "site", "--list"), ("--list",))):
            test.fails(*arguments, words=words)
    minimal = test.library.replace("libtcmalloc.so", "libtcmalloc_minimal.so")
    if os.path.exists(minimal):
        with Target(minimal, test.program, TCMALLOC_BACKGROUND="1") as target:
            test.fails("profile", target.pid, words=("libtcmalloc_minimal", "libtcmalloc.so.4"))
            for arguments in (("set", target.pid, "sampling=512K"), ("set", target.pid, "guarded_sample=1"),
                              ("profile", target.pid, "--start")):
                test.fails(*arguments, words="libtcmalloc_minimal")
            test.ask("set", target.pid, "sampling=0")
    with subprocess.Popen(["sleep", "60"], env=clean_environment()) as process:
        wait_for_mapping(process.pid, "/libc.so.6")
        test.fails("profile", process.pid, words="glibc's malloc")
        process.kill()


def test_run(test):
    with new_folder() as folder:
        flame, figures = folder / "flame.svg", folder / "figures.json"
        done = test.ask("run", "--library", test.library, "--flame", flame, "--json", figures, "--set",
                        f"sample_parameter={INTERVAL}", test.program, input="\n")
        test.expect("largest call sites when most was in use" in done.stderr and f"{HIDDEN} (profile_names.cc:" in done.stderr, done.stderr)
        svg = flame.read_text()
        test.expect(HIDDEN in svg and svg.endswith("</svg>\n"), svg[:200])
        report = json.loads(figures.read_text())
        test.expect_stack(report["call_sites_at_peak"], [HIDDEN, "main"], "run")
        # The program frees all but two objects.
        sums = [sum(site["bytes"] for site in report[which]) for which in ("call_sites_at_peak", "call_sites_at_end")]
        test.expect(sums[0] > sums[1] >= 8 << 20, f"bytes at the peak and at the end: {sums}")
        test.expect_equal(report["sampling_interval_bytes"], INTERVAL, "interval")
    done = test.ask("run", "--library", test.library, test.program, input="\n")
    test.expect("one per 512.0 KiB" in done.stderr, done.stderr)


def test_rust(test):
    needs("rustc")
    source = pathlib.Path(__file__).parent / "profile_names.rs"
    with new_folder() as folder:
        for mangling in ("v0", "legacy"):
            program = f"{folder}/names_{mangling}"
            done = subprocess.run(["rustc", "-O", "-g", "--crate-name", "names", "-C", f"symbol-mangling-version={mangling}", "-o", program, source],
                                  capture_output=True, text=True, check=False)
            if "legacy" in done.stderr and done.returncode != 0:
                print(f"this rustc has no {mangling} names")
                continue
            test.expect(done.returncode == 0, done.stderr)
            with Target(test.library, program) as target:
                sites = test.sites(target.pid)
                found = functions(sites)
                for wanted in ("names::grow", "names::main", ".*names::shop::Store<.*fill.*", ".*names::shop::Store<.*put"):
                    test.expect(any(re.fullmatch(wanted, name) for name in found), f"{mangling}: no function is {wanted}: {sorted(found)}")
                mangled = [name for name in found if re.search(r"17h[0-9a-f]{16}|^_R|^_ZN", name)]
                test.expect_equal(mangled, [], mangling)
                test.expect("profile_names.rs" in str(sites), "files")


def test_namespace(test):
    prefix = namespace("--mount")
    with new_folder() as folder:
        script = f"mount -t tmpfs none {folder} && cp {test.program} {folder}/inner && exec {folder}/inner"
        with Target(test.library, *prefix, "sh", "-c", script) as target:
            inner, = children_of(target.pid)
            test.expect(not os.listdir(folder), "the program has a name here")
            test.expect_stack(test.sites(inner), [HIDDEN, "main"], "in another mount namespace")


if __name__ == "__main__":
    run_test(globals(), Test)
