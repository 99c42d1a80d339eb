#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Call sites that the tcmalloc command shows: tcmalloc profile, objects --by site, run.

  profile_test.py WHAT COMMAND PROGRAM LIBRARY

  plain     functions of a C program
  callback  a function that the C library calls (a C library with call frame information)
  names     functions of a C++ program: templates, inlined and hidden ones, with files and lines
  compilers ... built by other compilers, and with other forms of debug information
  rust      functions of a Rust program, in both ways to mangle names
  formats   the same figures in each format, and names in each
  deleted   the program was deleted, or replaced by another, since it started
  stripped  a program without symbols
  server    ... whose debug information is on a server of debuginfod
  namespace a program in another mount namespace
  errors    each mistake ends in one line with a remedy
  run       tcmalloc run: the largest call sites, the flame graph
  busy      a process that allocates in several threads

LIBRARY may be "linked": then the program has the allocator in itself. COMMAND may be the folder of all
builds, for programs that no command is built for.
"""

import functools
import gzip
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree

import command_test

TIMEOUT_S = 60
SKIPPED = 77
INTERVAL = 65536


def clean_environment(**variables):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("TCMALLOC_", "LD_PRELOAD", "MALLOCSTATS", "DEBUGINFOD"))}
    return {**kept, **variables}


class Target:
    """A program that prints "ready" and waits."""

    def __init__(self, library, *command, **variables):
        self.process = subprocess.Popen(
            [*command], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=clean_environment(**({} if library == "linked" else {"LD_PRELOAD": library}),
                                  **{"TCMALLOC_SAMPLE_PARAMETER": str(INTERVAL), **variables}))
        self.pid = self.process.pid
        line = self.process.stdout.readline()
        assert line.startswith("ready"), line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


class Test(command_test.Test):

    def fails(self, *arguments, words):
        """The command fails with one line that has all the words."""
        run = self.ask(*arguments, status=1)
        self.expect(run.stderr.count("\n") == 1 and all(word in run.stderr for word in words),
                    f"{arguments}: {run.stderr}")

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


def plain(test):
    with Target(test.library, test.program) as target:
        sites = test.json("profile", target.pid)["call_sites"]
        test.expect_stack(sites, ["Inner", "Outer", "main"], "C")


def callback(test):
    with Target(test.library, test.program) as target:
        sites = test.json("profile", target.pid)["call_sites"]
        stacks = [[f["function"] for f in site["frames"]] for site in sites]
        test.expect(any(stack[0] == "Compare" and "main" in stack for stack in stacks if stack), str(stacks))


def names(test):
    with Target(test.library, test.program) as target:
        sites = test.json("profile", target.pid)["call_sites"]
        fill = ("shop::Store<double>::Fill", line_of("profile_names.cc", "i < n; ++i) Put"))
        test.expect_stack(sites, [
            "std::make_unique<double, double&>",
            ("shop::Store<double>::Put", line_of("profile_names.cc", "items_.push_back")), fill,
            ("main", line_of("profile_names.cc", "store.Fill("))], "a template, and what it inlines")
        test.expect_stack(sites, [("(anonymous namespace)::Hidden", line_of("profile_names.cc", "void Hidden(")),
                                  ("main", line_of("profile_names.cc", "Hidden(0)"))], "an anonymous namespace")
        functions = {f["function"] for site in sites for f in site["frames"]}
        lambda_name = (functions & {"main::{lambda(int)#1}::operator()", "main::$_0::operator()"} or {"lambda"}).pop()
        test.expect_stack(sites, [(lambda_name, line_of("profile_names.cc", "const auto lambda")),
                                  ("main", line_of("profile_names.cc", "lambda(1)"))], "a lambda")
        inlined = {f["function"] for site in sites for f in site["frames"] if f.get("inlined")}
        test.expect("shop::Store<double>::Put" in inlined, f"inlined: {inlined}")
        test.expect("shop::Store<double>::Fill" not in inlined, f"inlined: {inlined}")
        by_name = {site["name"]: site for site in sites}
        test.expect(by_name["(anonymous namespace)::Hidden"]["bytes"] == 3 << 20, "bytes of one object")
        text = test.ask("profile", target.pid).stdout
        test.expect("(anonymous namespace)::Hidden (profile_names.cc:" in text, text)
        address = json.loads(test.ask("objects", target.pid, "--list", "--json").stdout)["list"]
        large = [start for start, size in address if size >= 5 << 20]
        text = test.ask("inspect", target.pid, hex(large[0])).stdout
        test.expect(f"{lambda_name} (profile_names.cc:" in text, text)


def compilers(test):
    source = pathlib.Path(__file__).parent / "profile_names.cc"
    clang = next((name for name in ("clang++-19", "clang++") if shutil.which(name)), None)
    builds = [("g++", "-gdwarf-4"), ("g++", "-g -gsplit-dwarf")]
    # These builds have no table of addresses, or names of functions only.
    builds += [(clang, "-g"), (clang, "-gline-tables-only")] if clang else []
    for compiler, option in builds:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([compiler, "-std=c++20", "-O2", *option.split(), "-o", f"{folder}/names", source], check=True,
                           cwd=folder)
            with Target(test.library, f"{folder}/names") as target:
                sites = test.json("profile", target.pid)["call_sites"]
        what = f"{compiler} {option}"
        main_line = line_of("profile_names.cc", "store.Fill(")
        put = "Put" if option == "-gline-tables-only" else "shop::Store<double>::Put"
        test.expect_stack(sites, [("(anonymous namespace)::Hidden", line_of("profile_names.cc", "void Hidden(")),
                                  ("main", line_of("profile_names.cc", "Hidden(0)"))], what)
        test.expect_stack(sites, [(put, line_of("profile_names.cc", "items_.push_back")),
                                  ("shop::Store<double>::Fill", line_of("profile_names.cc", "i < n; ++i) Put")),
                                  ("main", main_line)], what)


def rust(test):
    if not shutil.which("rustc"):
        print("SKIP: rustc is not installed")
        return SKIPPED
    source = pathlib.Path(__file__).parent / "profile_names.rs"
    with tempfile.TemporaryDirectory() as folder:
        for mangling in ("v0", "legacy"):
            program = f"{folder}/names_{mangling}"
            done = subprocess.run(["rustc", "-O", "-g", "--crate-name", "names", "-C", f"symbol-mangling-version={mangling}", "-o",
                                   program, source], capture_output=True, text=True, check=False)
            if "legacy" in done.stderr and done.returncode != 0:
                print(f"this rustc has no {mangling} names")
                continue
            test.expect(done.returncode == 0, done.stderr)
            with Target(test.library, program) as target:
                sites = test.json("profile", target.pid)["call_sites"]
                functions = {f["function"] for site in sites for f in site["frames"]}
                for wanted in ("names::grow", "names::main", ".*names::shop::Store<.*fill.*",
                               ".*names::shop::Store<.*put"):
                    test.expect(any(re.fullmatch(wanted, name) for name in functions),
                                f"{mangling}: no function is {wanted}: {sorted(functions)}")
                test.expect(not any(re.search(r"17h[0-9a-f]{16}|^_R|^_ZN", name) for name in functions),
                            f"{mangling}: mangled: {sorted(functions)}")
                test.expect(any(site["frames"] and "profile_names.rs" in f.get("file", "")
                                for site in sites for f in site["frames"]), "files")
    return 0


def formats(test):
    with Target(test.library, test.program) as target, tempfile.TemporaryDirectory() as folder:
        report = test.json("profile", target.pid)
        total = report["estimated_bytes"]
        test.expect(total > 8 << 20 and report["samples"] > 20, f"{total} bytes")
        files = {suffix: pathlib.Path(folder) / f"profile.{suffix}"
                 for suffix in ("pb.gz", "heap", "folded", "svg", "html", "json", "txt")}
        for suffix, path in files.items():
            arguments = ("--watch", "1") if suffix == "html" else ()
            test.ask("profile", target.pid, "-o", path, *arguments)
        wanted = "(anonymous namespace)::Hidden"
        folded = files["folded"].read_text().splitlines()
        test.expect(abs(sum(int(line.rpartition(" ")[2]) for line in folded) - total) <= len(folded), "folded")
        test.expect(any(line == f"_start;__libc_start_main_impl;__libc_start_call_main;main;{wanted} {3 << 20}"
                        or line.endswith(f"main;{wanted} {3 << 20}") for line in folded), str(folded))
        test.expect(json.loads(files["json"].read_text())["estimated_bytes"] == total, "json")
        test.expect(wanted in files["txt"].read_text(), "text")
        svg = xml.etree.ElementTree.parse(files["svg"])
        titles = [title.text for title in svg.iter("{http://www.w3.org/2000/svg}title")]
        test.expect(any(title.startswith(f"{wanted} (3.0 MiB") for title in titles), str(titles))
        html = files["html"].read_text()
        data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
        test.expect(wanted in data["names"] and len(data["timeline"]) > 10, "page")
        test.expect(abs(sum(site["bytes"] for site in data["sites"]) - total) <= len(data["sites"]), "page")
        test.expect("http" not in html.replace("http://www.w3.org", ""), "the page needs no other file")
        test.expect(wanted.encode() in gzip.decompress(files["pb.gz"].read_bytes()), "pprof")
        legacy = files["heap"].read_text()
        test.expect(legacy.startswith("heap profile: ") and f" heap_v2/{INTERVAL}\n" in legacy and
                    test.program in legacy, legacy[:200])
        by_site = test.json("objects", target.pid, "--by", "site")
        test.expect(by_site["estimated_bytes"] == total, "objects --by site")
        one = test.json("objects", target.pid, "--by", "site", "--size", 3 << 20)
        test.expect([site["name"] for site in one["by_site"]] == [wanted], f"--size: {one['by_site']}")
        peak = test.json("profile", target.pid, "--type", "peak")
        test.expect(peak["estimated_bytes"] >= total, "the peak is not less than what is in use")


def deleted(test):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy"
        shutil.copy(test.program, copy)
        with Target(test.library, str(copy)) as target:
            copy.unlink()
            sites = test.json("profile", target.pid)["call_sites"]
            test.expect_stack(sites, ["(anonymous namespace)::Hidden", "main"], "after it was deleted")
            shutil.copy(test.command, copy)
            report = test.json("profile", target.pid)
            test.expect_stack(report["call_sites"], ["(anonymous namespace)::Hidden", "main"],
                              "after it was replaced")


def stripped(test):
    with tempfile.TemporaryDirectory() as folder:
        copy = f"{folder}/stripped"
        subprocess.run(["strip", "-o", copy, test.program], check=True)
        with Target(test.library, copy) as target:
            report = test.json("profile", target.pid)
            functions = {f["function"] for site in report["call_sites"] for f in site["frames"]}
            test.expect(any(name.startswith("stripped+0x") for name in functions), str(functions))


def server(test):
    """A web server with the one file stands in for debuginfod."""
    if not any("libdebuginfod.so.1" in line for line in
               subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout.splitlines()):
        print("SKIP: libdebuginfod.so.1 is not installed (scripts/setup.sh test)")
        return SKIPPED
    notes = subprocess.run(["readelf", "-n", test.program], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)
    if build_id is None:
        print("SKIP: the compiler gives programs no build id")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder) / "served/buildid" / build_id[1]
        files.mkdir(parents=True)
        subprocess.run(["objcopy", "--only-keep-debug", test.program, files / "debuginfo"], check=True)
        stripped_copy = f"{folder}/stripped"
        subprocess.run(["strip", "-o", stripped_copy, test.program], check=True)
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=f"{folder}/served")
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as web, \
                Target(test.library, stripped_copy) as target:
            threading.Thread(target=web.serve_forever, daemon=True).start()
            environment = clean_environment(DEBUGINFOD_URLS=f"http://127.0.0.1:{web.server_address[1]}",
                                            DEBUGINFOD_CACHE_PATH=f"{folder}/cache")
            done = subprocess.run([test.command, "profile", str(target.pid), "--json"], env=environment,
                                  capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
            web.shutdown()
        test.expect_stack(json.loads(done.stdout)["call_sites"],
                          [("(anonymous namespace)::Hidden", line_of("profile_names.cc", "void Hidden(")),
                           ("main", line_of("profile_names.cc", "Hidden(0)"))], "debuginfod")
    return 0


def namespace(test):
    with tempfile.TemporaryDirectory() as folder:
        script = f"mount -t tmpfs none {folder} && cp {test.program} {folder}/inner && exec {folder}/inner"
        prefix = ("unshare", "--mount", "--fork", "--kill-child", "sh", "-c")
        allowed = subprocess.run([*prefix, "true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 check=False)
        if allowed.returncode != 0:
            print(f"SKIP: namespaces are not permitted here: {allowed.stdout.strip()}")
            return SKIPPED
        with Target(test.library, *prefix, script) as target:
            inner = int(pathlib.Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text())
            test.expect(not os.listdir(folder), "the program has a name here")
            test.expect_stack(test.json("profile", inner)["call_sites"], ["(anonymous namespace)::Hidden", "main"],
                              "in another mount namespace")
    return 0


def errors(test):
    with Target(test.library, test.program, TCMALLOC_SAMPLE_PARAMETER="0") as target:
        test.fails("profile", target.pid, words=("takes no samples", f"tcmalloc set {target.pid} sampling=512K", "TCMALLOC_SAMPLE_PARAMETER=", "tcmalloc run"))
        test.fails("objects", target.pid, "--by", "site", words=("takes no samples",))
    with Target(test.library, test.program) as target:
        test.fails("profile", target.pid, "--type", "allocations",
                   words=("records no allocations", "StartAllocationProfiling"))
        test.fails("profile", target.pid, "-o", "/tmp/profile.xyz", words=(".html", "--format"))
        test.fails("profile", target.pid, "-o", "/no/such/dir/p.svg", words=("/no/such/dir/p.svg: No such file",))
        test.fails("objects", target.pid, "--by", "site", "--list", words=("--list",))
    minimal = test.library.replace("libtcmalloc.so", "libtcmalloc_minimal.so")
    if os.path.exists(minimal):
        with Target(minimal, test.program) as target:
            test.fails("profile", target.pid, words=("libtcmalloc_minimal", "libtcmalloc.so.4"))
    with subprocess.Popen(["sleep", "60"], env=clean_environment()) as process:
        command_test.wait_for_mapping(process.pid, "/libc.so.6")
        test.fails("profile", process.pid, words=("glibc's malloc",))
        process.kill()
    test.fails("profile", process.pid, words=(f"there is no process {process.pid}",))


def run(test):
    with tempfile.TemporaryDirectory() as folder:
        flame, figures = f"{folder}/flame.svg", f"{folder}/figures.json"
        done = test.ask("run", "--library", test.library, "--flame", flame, "--json", figures, "--set",
                        f"sample_parameter={INTERVAL}", test.program, input="\n")
        test.expect("largest call sites when most was in use" in done.stderr, done.stderr)
        test.expect("(anonymous namespace)::Hidden (profile_names.cc:" in done.stderr, done.stderr)
        svg = pathlib.Path(flame).read_text()
        test.expect("(anonymous namespace)::Hidden" in svg and svg.endswith("</svg>\n"), svg[:200])
        report = json.loads(pathlib.Path(figures).read_text())
        test.expect_stack(report["call_sites_at_peak"], ["(anonymous namespace)::Hidden", "main"], "run")
        # The program frees all but two objects.
        sums = [sum(site["bytes"] for site in report[which])
                for which in ("call_sites_at_peak", "call_sites_at_end")]
        test.expect(sums[0] > sums[1] >= 8 << 20, f"bytes at the peak and at the end: {sums}")
        test.expect(report["sampling_interval_bytes"] == INTERVAL, "interval")
    done = test.ask("run", "--library", test.library, test.program, input="\n")
    test.expect("one per 512.0 KiB" in done.stderr, done.stderr)


def busy(test):
    program = ("import os, signal, threading\n"
               "def work(i):\n"
               "    kept = []\n"
               "    while not rests:\n"
               "        kept.append(bytes(1000 + i))\n"
               "        if len(kept) > 2000: kept.clear()\n"
               "rests = []\n"
               "threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]\n"
               "[thread.start() for thread in threads]\n"
               "print('ready', flush=True)\n"
               "input()\n"
               "rests.append(True)\n"
               "[thread.join() for thread in threads]\n"
               "os.kill(os.getpid(), signal.SIGSTOP)\n")
    with Target(test.library, sys.executable, "-c", program, TCMALLOC_SAMPLE_PARAMETER="10000",
                PYTHONMALLOC="malloc") as target:
        for _ in range(5):
            report = test.json("profile", target.pid)
            test.expect(report["settled"] and report["threads"] >= 3, f"{report['threads']} threads")
        functions = {f["function"] for site in report["call_sites"] for f in site["frames"]}
        test.expect(any("Eval" in name for name in functions), f"the interpreter: {sorted(functions)}")
        test.expect(target.process.poll() is None, "it goes on")
        # It stops itself once its threads have ended: a thread that is stopped in the middle of a change keeps its locks.
        target.process.stdin.write("\n")
        target.process.stdin.flush()
        os.waitpid(target.pid, os.WUNTRACED)
        test.json("profile", target.pid)
        state = re.search(r"^State:\s+(\w)", pathlib.Path(f"/proc/{target.pid}/status").read_text(), re.MULTILINE)
        test.expect(state[1] == "T", f"state {state[1]}: it stays stopped")


if __name__ == "__main__":
    sys.exit(command_test.run_one(Test, {
        "plain": plain, "callback": callback, "names": names, "compilers": compilers, "rust": rust, "formats": formats,
        "deleted": deleted, "stripped": stripped, "server": server, "namespace": namespace, "errors": errors, "run": run,
        "busy": busy}))
