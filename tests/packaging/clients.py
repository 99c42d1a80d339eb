# SPDX-License-Identifier: BSD-3-Clause
"""Builds client.c and bystander.c against an installed library as users do, and runs them."""

import os
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES = ("tcmalloc", "tcmalloc_minimal", "tcmalloc_debug", "tcmalloc_minimal_debug")
# Variables of the environment that would change which library is found.
UNWANTED = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "CMAKE_PREFIX_PATH")


def environment(**more):
    # The clients look at objects that they freed, so the debug libraries must not keep a queue of freed objects.
    return {**{name: value for name, value in os.environ.items() if name not in UNWANTED},
            "TCMALLOC_MAX_FREE_QUEUE_SIZE": "0", **more}


# The names of the C and C++ libraries' functions, and the allocator's names for its own.
NAMES = {"malloc": "tc_malloc", "free": "tc_free", "calloc": "tc_calloc", "realloc": "tc_realloc",
         "posix_memalign": "tc_posix_memalign", "_Znwm": "tc_new", "_ZdlPv": "tc_delete"}


# Calls that are compiled into a program or library request a version of the symbol. dlsym does not: the library itself looks
# up the C library's functions.
BINDING = re.compile(r"binding file \S+ \[0\] to (\S+) \[0\]: \w+ symbol `(\w+)' \[")


def who_serves(program, folder):
    """Checks which allocator serves a program's allocations; returns a list of complaints.

    In a program with an archive the usual names must be the allocator's functions. In another one the dynamic linker must
    bind these names to a library below `folder`.
    """
    run = subprocess.run(["nm", str(program)], check=True, stdout=subprocess.PIPE, text=True)
    symbols = {words[2]: words[0] for words in map(str.split, run.stdout.splitlines()) if len(words) == 3 and words[1] in "TWVi"}
    if "malloc" in symbols or "tc_malloc" in symbols:
        # A C program for musl has no operators.
        return [f"{name} in {program} is not {ours}" for name, ours in NAMES.items()
                if symbols.get(name) != symbols.get(ours) or name not in symbols and not name.startswith("_Z")]
    more = {"LD_LIBRARY_PATH": str(folder)} if folder else {}
    said = subprocess.run([str(program)], env=environment(LD_DEBUG="bindings", LD_BIND_NOW="1", **more), stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False, timeout=60).stderr
    bound = [(name, to) for to, name in BINDING.findall(said) if name in NAMES]
    wrong = [f"{program}: {name} is that of {to}" for name, to in bound if not to.startswith(f"{folder}/libtcmalloc")]
    return wrong or ([] if {"malloc", "free"} <= {name for name, _ in bound} else [f"{program}: it is not known who serves it"])


class Clients:
    """One folder of programs, and the failures."""

    def __init__(self, work, c_compiler, cxx_compiler):
        self.work = pathlib.Path(work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.compilers = {
            "c": [c_compiler, "-std=gnu11", HERE / "client.c"],
            "cc": [cxx_compiler, "-std=gnu++20", "-x", "c++", HERE / "client.c", "-x", "none"],
            "bystander": [c_compiler, "-std=gnu11", HERE / "bystander.c"],
        }
        self.built = 0
        self.failures = 0

    def expect(self, condition, message):
        if not condition:
            self.failures += 1
            print(f"FAILED: {message}", flush=True)
        return condition

    def command(self, arguments, **options):
        """Runs a command and returns its output, or None after a failure, which is noted."""
        arguments = [str(argument) for argument in arguments]
        options.setdefault("env", environment())
        run = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500, **options)
        good = self.expect(run.returncode == 0, f"{' '.join(arguments)}\nstatus {run.returncode}\n{run.stdout}")
        return run.stdout if good else None

    def pkg_config(self, folder, library, *options):
        flags = self.command(["pkg-config", "--cflags", "--libs", *options, f"lib{library}"],
                             env=environment(PKG_CONFIG_PATH=str(folder / "pkgconfig")))
        return flags.split() if flags else None

    def run(self, program, client, library, folder):
        """Runs a program and checks where its allocator comes from: `folder`, or None for the program itself."""
        self.built += 1
        more = {"LD_LIBRARY_PATH": str(folder)} if folder else {}
        output = self.command([program], env=environment(**more))
        self.expect(output is None or output == "client ok\n", f"{program} printed {output}")
        # ldd fails for static programs; only its output counts.
        needed = subprocess.run(["ldd", str(program)], env=environment(**more), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        found = [line.strip() for line in needed.split("\n") if "tcmalloc" in line]
        if folder:
            wanted = f"lib{library}.so.4 => {folder}/lib{library}.so.4 "
            self.expect(len(found) == 1 and found[0].startswith(wanted), f"{program} is to need {wanted}\n{needed}")
        else:
            self.expect(not found, f"{program} is to need no library of ours\n{needed}")
        for complaint in who_serves(program, folder):
            self.expect(False, complaint)
        if client != "cc":
            self.expect("libstdc++" not in needed, f"{program}, in C, needs libstdc++\n{needed}")

    def build(self, name, library, flags, folder, clients):
        """Builds the clients with `flags` and runs them."""
        for client in clients:
            program = self.work / f"{name}_{library}_{client}"
            if flags is None or self.command(
                    [*self.compilers[client], "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-o",
                     program, *flags]) is None:
                continue
            self.run(program, client, library, folder)

    def build_with_cmake(self, name, prefix, folder, c_compiler, cxx_compiler, targets, *more):
        """Builds and runs the clients through find_package(tcmalloc); `more` is passed to cmake."""
        build = self.work / name
        if self.command(["cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build,
                         f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_C_COMPILER={c_compiler}",
                         f"-DCMAKE_CXX_COMPILER={cxx_compiler}", "-DCMAKE_BUILD_TYPE=Release",
                         f"-DTARGETS={';'.join(targets)}",
                         *more]) is None:
            return
        if self.command(["cmake", "--build", build]) is None:
            return
        for target in targets:
            for client in self.compilers:
                self.run(build / f"{target}_{client}", client, target.removesuffix("_static"),
                         None if target.endswith("_static") else folder)
