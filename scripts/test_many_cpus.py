#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the allocator on emulated machines with 16 and 64 CPUs in four memory nodes: make test-many-cpus.

QEMU emulates the machine, with Debian's kernel: it schedules threads on all CPUs, takes CPUs offline, changes cpusets. A thread
of QEMU executes the instructions of each CPU, so that two CPUs of this machine run them by turns, interrupted anywhere. It shows
errors, not speed.

The machine has no disk and no network. Its initial RAM disk has Python, the programs of the presets check and release, and the
libraries that they need, all from this machine. The kernel's package is fetched once, 27 MiB; root is not needed.

Each workload has a time limit. The run fails if one fails or hangs, or if the kernel reports trouble; scripts/many_cpus_guest.py
runs them. The last line is "N passed, N failed, N skipped".
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

from test import Tally, last_words, say

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "many-cpus"
PRESETS = ("release", "check")
KERNEL_PACKAGE = "linux-image-cloud-amd64"
MACHINES = (16, 64)
NODES = 4
MEMORY_MIB = 4096
SPARE_MIB = 1024  # for QEMU itself
PROGRAMS = ("process_many_cpus", "process_fork_busy", "process_debug_verify_tcmalloc_debug")
TARGETS = {"release": (*PROGRAMS, "process_flush_test_tcmalloc", "process_guarded_stress", "remote_take_torture", "tcmalloc",
                       "tcmalloc_debug", "command"),
           "check": (*PROGRAMS, "tcmalloc", "tcmalloc_debug")}
# Parts of Python's library that no workload imports.
PYTHON = pathlib.Path(os.path.realpath("/usr/bin/python3"))
PYTHON_LEFT_OUT = ("test", "idlelib", "lib2to3", "tkinter", "ensurepip", "pydoc_data", "distutils", "dist-packages", "config-*",
                   "unittest", "turtledemo")
BOOT_S = 300
RESULT, END, MACHINE = "##RESULT ", "##END", "##MACHINE "
SECONDS = 10  # for which a workload runs that could run for ever
LIMIT_S = 300  # for one workload, on a busy machine
DEBUG_LOAD_STARTS = "seed 20261125"  # its first line


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def programs_of(preset):
    return ROOT / "build" / preset / "bin"


def library_of(preset, name="tcmalloc"):
    return ROOT / "build" / preset / "lib" / f"lib{name}.so"


def workloads(cpus):
    """Those of a machine, in their order."""
    tests = []

    def add(name, command, kind="program", library=None, timeout=LIMIT_S, **more):
        environment = {"LIBRARY_UNDER_TEST": str(library)} if library else {}
        if library and more.pop("preload", True):
            environment["LD_PRELOAD"] = str(library)
        tests.append({"name": name, "command": [str(word) for word in command], "kind": kind, "timeout": timeout,
                      "environment": environment, **more})

    for preset in PRESETS:
        programs = programs_of(preset)
        library, debug_library = library_of(preset), library_of(preset, "tcmalloc_debug")
        many_cpus = programs / "process_many_cpus"
        add(f"{preset}.facts", (many_cpus, "facts"))
        add(f"{preset}.work", (many_cpus, "work", 4 * cpus, SECONDS))
        add(f"{preset}.moves", (many_cpus, "moves", 2 * cpus, SECONDS))
        add(f"{preset}.flush_1000", (many_cpus, "flush", 1000, SECONDS))
        add(f"{preset}.hotplug", (many_cpus, "work", 2 * cpus, 0), kind="hotplug", ready="works", seconds=SECONDS)
        add(f"{preset}.cpusets", (many_cpus, "moves", 2 * cpus, 0), kind="cpusets", ready="works", seconds=SECONDS)
        add(f"{preset}.forks", (programs / "process_fork_busy", 2 * cpus, 20), library=library)
        debug_verify = programs / "process_debug_verify_tcmalloc_debug"
        add(f"{preset}.debug_library", (debug_verify, "verify", 2 * cpus), library=debug_library, preload=False)
        add(f"{preset}.debug_check", (debug_verify, "wait", 2 * cpus), kind="looks", library=debug_library, preload=False,
            ready=DEBUG_LOAD_STARTS, looks=[("check", "PID")] * 3)
        add(f"{preset}.command", (many_cpus, "work", 2 * cpus, 0), kind="looks", ready="works",
            looks=[("stats", "PID"), ("top", "PID", "--once"), ("leaks", "PID"), ("leaks", "--snapshot", "PID"), ("objects", "PID"),
                   ("doctor", "PID")])
    release = programs_of("release")
    torture = release / "remote_take_torture"
    owners = cpus + 1
    add("release.torture", (torture, "--seconds", SECONDS, "--owners", owners, "--least-takings", 100))
    add("release.torture_without_membarrier", (torture, "--seconds", SECONDS, "--owners", 3, "--without-membarrier"))
    add("release.flush_test", (release / "process_flush_test_tcmalloc", ), library=library_of("release"), preload=False)
    add("release.guarded_stress", (release / "process_guarded_stress", ), library=library_of("release"), preload=False)
    return tests


def fetch_kernel():
    """Debian's kernel, which is fetched once."""
    image = FOLDER / "vmlinuz"
    if image.exists():
        return image
    FOLDER.mkdir(parents=True, exist_ok=True)
    listing = run("apt-cache", "depends", KERNEL_PACKAGE, stdout=subprocess.PIPE, text=True).stdout
    package = re.search(r"Depends: (linux-image-[0-9]\S+)", listing)
    if package is None:
        sys.exit(f"many CPUs: this system's package lists have no {KERNEL_PACKAGE}")
    say(f"many CPUs: fetch {package[1]}")
    with tempfile.TemporaryDirectory(dir=FOLDER) as work:
        run("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", package[1], cwd=work)
        [file] = pathlib.Path(work).glob("*.deb")
        run("dpkg-deb", "-x", file, work)
        [kernel] = pathlib.Path(work).glob("boot/vmlinuz-*")
        shutil.copy(kernel, image)
    return image


def build():
    for preset in PRESETS:
        say(f"many CPUs: build {preset}")
        run("cmake", "--preset", preset, "--log-level=WARNING", cwd=ROOT, stdout=subprocess.DEVNULL)
        run("cmake", "--build", "--preset", preset, "--target", *TARGETS[preset], "--", "--quiet", cwd=ROOT)


def libraries_of(files):
    """The shared libraries, and the dynamic linker, that programs load."""
    listing = subprocess.run(["ldd", *map(str, files)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return {pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", listing)}


def place(file, guest, strip=False):
    """Copies a file to the same path of the machine."""
    target = guest / file.relative_to("/")
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)
    if strip:
        run("strip", "--strip-debug", target)


def make_disk(name, tests, command):
    """Writes the archive that the kernel unpacks as its root."""
    own = {pathlib.Path(test["command"][0]) for test in tests} | {command}
    own |= {pathlib.Path(test["environment"]["LIBRARY_UNDER_TEST"]) for test in tests if test["environment"]}
    python_library = pathlib.Path("/usr/lib") / PYTHON.name
    system = {PYTHON, pathlib.Path("/usr/bin/mount")}
    disk = FOLDER / f"{name}.cpio"
    with tempfile.TemporaryDirectory(dir=FOLDER) as work:
        guest = pathlib.Path(work)
        for folder in ("bin", "sbin", "lib", "lib64"):
            (guest / "usr" / folder).mkdir(parents=True, exist_ok=True)
            (guest / folder).symlink_to(f"usr/{folder}")
        shutil.copytree(python_library, guest / python_library.relative_to("/"), symlinks=True,
                        ignore=shutil.ignore_patterns(*PYTHON_LEFT_OUT))
        for file in own:
            if file.suffix == ".so":  # a link to the file that programs name by its version
                place(file.with_suffix(".so.4"), guest, strip=True)
                (guest / file.relative_to("/")).symlink_to(f"{file.stem}.so.4")
            else:
                place(file, guest, strip=True)
        for file in system | libraries_of(own | system | set(python_library.glob("lib-dynload/*.so"))):
            place(file, guest)
        (guest / "usr/bin/python3").symlink_to(PYTHON.name)
        shutil.copy(ROOT / "scripts" / "many_cpus_guest.py", guest / "init")
        (guest / "init").chmod(0o755)
        (guest / "plan.json").write_text(json.dumps({"tests": tests, "command": str(command)}))
        names = run("find", ".", cwd=guest, stdout=subprocess.PIPE).stdout
        with open(disk, "wb") as out:
            run("cpio", "--create", "--format=newc", "--quiet", "--owner=0:0", cwd=guest, input=names, stdout=out)
    return disk


def qemu(kernel, disk, cpus):
    command = ["qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
               "-smp", f"{cpus},sockets={NODES},cores={cpus // NODES},threads=1", "-m", str(MEMORY_MIB), "-kernel", str(kernel),
               "-initrd", str(disk), "-nic", "none", "-display", "none", "-serial", "stdio", "-no-reboot"]
    for node in range(NODES):
        first = node * cpus // NODES
        command += ["-object", f"memory-backend-ram,id=m{node},size={MEMORY_MIB // NODES}M",
                    "-numa", f"node,nodeid={node},memdev=m{node},cpus={first}-{first + cpus // NODES - 1}"]
    # Watchdogs would report CPUs of this machine that are busy with others.
    words = "console=ttyS0 quiet loglevel=1 panic=-1 nowatchdog nosoftlockup rcupdate.rcu_cpu_stall_suppress=1 mitigations=off"
    return [*command, "-append", words]


def lines_of(command, limit_s, log):
    """Yields the lines of the machine's console, which also go to a file, and ends the machine in the end."""
    with open(log, "w") as out, subprocess.Popen(["timeout", str(limit_s), *command], stdin=subprocess.DEVNULL,
                                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as machine:
        try:
            for line in machine.stdout:
                line = line.decode(errors="replace").rstrip("\r\n")
                out.write(line + "\n")
                out.flush()
                yield line
        finally:
            machine.terminate()


def unsuitable():
    """Why this machine cannot emulate another one; None if it can."""
    if platform.machine() != "x86_64":
        return f"the programs must be of x86-64, and this is {platform.machine()}"
    free = int(re.search(r"MemAvailable:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) // 1024
    if free < MEMORY_MIB + SPARE_MIB:
        return f"{MEMORY_MIB + SPARE_MIB} MiB of free memory are needed, and there are {free}"
    return None


def show(output, lines):
    print("\n".join("      " + line for line in last_words(output, lines)), flush=True)


def run_machine(cpus, kernel, options, tally):
    tests = [test for test in workloads(cpus) if re.search(options.only, test["name"])]
    if not tests:
        sys.exit("many CPUs: no such workload")
    disk = make_disk(f"disk-{cpus}", tests, programs_of("release") / "tcmalloc")
    waiting = [test["name"] for test in tests]
    log = FOLDER / f"console-{cpus}.log"
    console = []
    ended = False
    for line in lines_of(qemu(kernel, disk, cpus), BOOT_S + 60 * options.minutes, log):
        if line.startswith(MACHINE):
            machine = json.loads(line.removeprefix(MACHINE))
            say(f"{machine['cpus']} CPUs, {machine['nodes']} nodes, Linux {machine['kernel']}")
            if (machine["cpus"], machine["nodes"]) != (cpus, NODES):
                tally.fail(f"{cpus} CPUs: the kernel sees {machine['cpus']} CPUs and {machine['nodes']} nodes")
            if machine["trouble"]:
                tally.fail(f"{cpus} CPUs: the kernel reports trouble at its start", "\n".join(machine["trouble"]))
        elif line.startswith(RESULT):
            result = json.loads(line.removeprefix(RESULT))
            waiting.remove(result["name"])
            name = f"{cpus} CPUs: {result['name']}"
            tally.seconds.append((result["seconds"], name))
            if result["passed"]:
                tally.passed += 1
                print(f"ok    {name}, {result['seconds']:.0f} s", flush=True)
            else:
                tally.fail(name, result["output"])
            show(result["output"], 8 if result["passed"] else 40)
        elif line == END:
            ended = True
        elif line.strip():
            console.append(line)
    if not ended:
        tally.fail(f"{cpus} CPUs: the machine ended, or hung, before the workloads did: {log}", "\n".join(console[-40:]))
        show("\n".join(console), 40)
    for name in waiting:
        tally.fail(f"{cpus} CPUs: {name}: did not run to its end")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpus", type=int, action="append", help=f"of the machine, repeatable; default: {MACHINES}")
    parser.add_argument("--only", metavar="REGEX", default="", help="workloads whose names match")
    parser.add_argument("--list", action="store_true", help="print the names of the workloads, and exit")
    parser.add_argument("--minutes", type=int, default=40, help="until a machine is switched off; default: 40")
    options = parser.parse_args()
    if options.list:
        print("\n".join(test["name"] for test in workloads(MACHINES[0])))
        return 0
    if any(cpus % NODES for cpus in options.cpus or ()):
        parser.error(f"--cpus takes multiples of {NODES}")
    for program in ("qemu-system-x86_64", "cpio", "apt-get"):
        if shutil.which(program) is None:
            sys.exit(f"many CPUs: needs {program}: scripts/setup.sh many-cpus")
    reason = unsuitable()
    if reason is not None:
        print(f"SKIP  many CPUs: {reason}\n0 passed, 0 failed, 1 skipped", flush=True)
        return 0
    started = time.monotonic()
    kernel = fetch_kernel()
    build()
    tally = Tally()
    for cpus in options.cpus or MACHINES:
        run_machine(cpus, kernel, options, tally)
    say(f"all of it took {time.monotonic() - started:.0f} s")
    for failure in tally.failures:
        print(f"FAIL  {failure}")
    print(f"{tally.passed} passed, {len(tally.failures)} failed, {len(tally.skips)} skipped", flush=True)
    return 1 if tally.failures or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
