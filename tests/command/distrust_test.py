#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the tcmalloc command on processes of a malicious user, and its output.

PROGRAM is the program of observed_program.c, with debug information; for "hostile" that of hostile.c.
"""

import os
import pathlib
import re
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

from harness import (DAMAGED, INCOMPLETE, LEAKS, OTHER_MALLOC, PENDING, TIMEOUT_S, Process, Skipped, Target, children_of,
                     clean_environment, gcore, namespace, needs, needs_root, new_folder, run_test, state_of, wait_until)

HERE = pathlib.Path(__file__).resolve().parent
SAMPLED = {"TCMALLOC_SAMPLE_PARAMETER": "65536"}
BOMB_BYTES, BOMB_PIECE = 3 << 30, 1 << 24
SPARSE_BYTES = 1 << 30


def profile_of(test, program, message=None):
    """The text of the profile of a process of that program."""
    with Target(test, program=program, **SAMPLED) as target:
        run = test.ask("profile", target.pid)
        if message is None:
            test.expect(run.stderr == "", run.stderr)
        else:
            test.expect(re.fullmatch(f"tcmalloc: names are missing: {re.escape(str(program))}: {message}\n", run.stderr),
                        run.stderr)
    return run.stdout


def test_link(test):
    """Reads the separate debug information, and then a pipe with the name of its file."""
    with new_folder() as folder:
        program, debug = folder / "copy", folder / "copy.debug"
        subprocess.run(["objcopy", "--only-keep-debug", test.program, debug], check=True)
        subprocess.run(["objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", test.program, program], check=True)
        test.expect("observed_program.c" in profile_of(test, program), "the linked file has the lines")
        debug.unlink()
        os.mkfifo(debug)
        found = profile_of(test, program)
        test.expect("main" in found and "observed_program.c" not in found, found[:2000])


def test_split(test):
    """Reads the other part of split debug information, and then a pipe with the name of its file."""
    needs("cc")
    with new_folder() as folder:
        subprocess.run(["cc", "-g", "-gsplit-dwarf", "-O0", "-fno-builtin", f"-I{HERE.parents[1]}/include", "-pthread",
                        HERE / "observed_program.c", "-o", "program", "-ldl"], check=True, cwd=folder)
        part, = folder.glob("*.dwo")
        test.expect("main (observed_program.c:" in profile_of(test, folder / "program"), "with the part")
        part.unlink()
        os.mkfifo(part)
        test.expect("main" in profile_of(test, folder / "program"), "with a pipe")


def zeroes_packed():
    """A stream of zlib that unpacks to BOMB_BYTES zeroes: one block again and again."""
    compressor = zlib.compressobj(9)
    head = compressor.compress(b"") + compressor.flush(zlib.Z_FULL_FLUSH)
    piece = compressor.compress(bytes(BOMB_PIECE)) + compressor.flush(zlib.Z_FULL_FLUSH)
    end = b"\1\0\0\xff\xff" + struct.pack(">HH", BOMB_BYTES % 65521, 1)  # an empty last block, Adler-32
    return head + piece * (BOMB_BYTES // BOMB_PIECE) + end


def with_bomb(contents):
    """The ELF file with other compressed debug information."""
    packed = struct.pack("<IIQQ", 1, 0, BOMB_BYTES, 1) + zeroes_packed()
    table, = struct.unpack_from("<Q", contents, 40)
    entry_bytes, count, names = struct.unpack_from("<HHH", contents, 58)
    sections = [list(struct.unpack_from("<IIQQQQIIQQ", contents, table + i * entry_bytes)) for i in range(count)]
    place, section = next((table + i * entry_bytes, section) for i, section in enumerate(sections)
                          if contents.startswith(b".debug_info\0", sections[names][4] + section[0]))
    section[2] |= 0x800  # SHF_COMPRESSED
    section[4:6] = len(contents), len(packed)
    changed = bytearray(contents)
    struct.pack_into("<IIQQQQIIQQ", changed, place, *section)
    return changed + packed


def test_unpacked(test):
    """Compressed debug information that unpacks to gigabytes."""
    with new_folder() as folder:
        program = folder / "copy"
        program.write_bytes(with_bomb(pathlib.Path(test.program).read_bytes()))
        program.chmod(0o700)
        found = profile_of(test, program, f"its debug information unpacks to {BOMB_BYTES >> 20} MiB, "
                           r"its reader may use \d+ MiB")
        test.expect("main" in found, "names of symbols remain")


def test_escapes(test):
    contents = pathlib.Path(test.program).read_bytes()
    old = b"\0main\0"
    test.expect(old in contents, "the program has symbols")
    with tempfile.TemporaryDirectory() as folder:
        # The kernel cuts the name after 15 bytes.
        program = os.path.join(folder.encode(), b"\x1b]0;a b\x07\xff")
        with open(program, "wb") as file:
            file.write(contents.replace(old, b"\0\x1b[1m\0"))
        os.chmod(program, 0o700)
        for arguments in (("objects", os.fsdecode(program)), ("diff", os.fsdecode(program), "/dev/null")):
            line = test.fails(*arguments, words="]0;a b?")
            test.expect(line[:-1].isprintable(), f"{arguments} prints {line!r}")
        with Target(test, program=program, **SAMPLED) as target:
            for arguments in (("ps",), ("ps", "--json"), ("stats", target.pid), ("profile", target.pid),
                              ("profile", target.pid, "--json"), ("doctor", target.pid), ("objects", target.pid),
                              ("profile", target.pid, "--format", "legacy"), ("types", target.pid)):
                run = test.ask(*arguments)
                text = run.stdout + run.stderr
                bad = [c for c in text if c != "\n" and not c.isprintable()]
                test.expect(not bad, f"{arguments} prints {bad}")
                if arguments[0] != "types":
                    test.expect("]0;a b?" in text or arguments[0] == "doctor" or "--json" in arguments, text[:300])


def test_memory(test):
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.truncate(SPARSE_BYTES)
        code = "import mmap, sys; memory = mmap.mmap(int(sys.argv[1]), 0); print('ready', flush=True); sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", code, str(file.fileno())], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, pass_fds=[file.fileno()], env=clean_environment()) as process:
            process.stdout.readline()
            test.ask("stats", process.pid, status=3)
            test.ask("doctor", process.pid, status=3)
            test.ask("ps")
            blocks = os.fstat(file.fileno()).st_blocks
            test.expect(blocks == 0, f"{blocks} blocks of the file are allocated")
            process.kill()


def test_full(test):
    with Target(test, **SAMPLED) as target, open("/dev/full", "wb") as device:
        for arguments in (("ps",), ("stats", target.pid), ("doctor", target.pid), ("objects", target.pid),
                          ("objects", target.pid, "--list"), ("profile", target.pid), ("inspect", target.pid, "1"),
                          ("types", target.pid), ("--help",), ("snapshot", target.pid, "-"),
                          ("timeline", target.pid, "--count", "1")):
            run = subprocess.run([test.command, *map(str, arguments)], stdout=device, stderr=subprocess.PIPE, text=True,
                                 check=False, env=clean_environment())
            test.expect(run.returncode == 1, f"{arguments}: exit status {run.returncode}")
            test.expect(re.fullmatch("tcmalloc: cannot write to standard output.*\n", run.stderr), f"{arguments}: {run.stderr}")
        # Without standard output: a file that is written must not become it.
        with new_folder() as folder:
            for file, status in (("file", 0), ("-", 1)):
                run = subprocess.run(["sh", "-c", '"$@" >&-', "sh", test.command, "run", "-q", "--json", file, "true"], cwd=folder,
                                     stderr=subprocess.PIPE, text=True, check=False, env=clean_environment())
                test.expect((run.returncode, "cannot write to standard output" in run.stderr) == (status, status == 1), f"{run}")
            test.expect('"exit_status":0' in (folder / "file").read_text(), "the file")


def test_outputs(test):
    """Devices, pipes and links that have the name of an output are written to."""
    with new_folder() as folder, Target(test, **SAMPLED) as target:
        pipe = folder / "pipe.svg"
        os.mkfifo(pipe)
        old = folder / "old"
        old.write_text("old")
        # The test makes its own device: a wrong command, run by root, would replace the device of the machine.
        device = folder / "device"
        try:
            os.mknod(device, stat.S_IFCHR | 0o600, os.stat("/dev/full").st_rdev)
            device.open("wb").close()
        except OSError:
            device = None
        behind_link = folder / "link.svg"
        behind_link.symlink_to("old")
        commands = (("snapshot", target.pid), ("profile", target.pid, "--format", "svg", "-o"),
                    ("timeline", target.pid, "--count", "1", "--openmetrics", "-o"),
                    ("timeline", target.pid, "--count", "1", "--svg"), ("timeline", target.pid, "--count", "1", "-o"))
        for command in commands:
            got = []
            reader = threading.Thread(target=lambda got=got: got.append(pipe.read_bytes()))
            reader.start()
            test.ask(*command, pipe)
            reader.join()
            test.expect(got[0] and stat.S_ISFIFO(pipe.stat().st_mode), f"{command} to a pipe")
            before = old.read_bytes()
            test.ask(*command, behind_link)
            test.expect(behind_link.is_symlink() and old.read_bytes() != before, f"{command} through a link")
            if device is not None:
                test.ask(*command, device, status=1)
                test.expect(stat.S_ISCHR(device.stat().st_mode), f"{command} to a device")
            run = subprocess.run([test.command, *map(str, command), "-"], stdout=subprocess.PIPE, check=True,
                                 stderr=subprocess.PIPE, env=clean_environment())
            test.expect(run.stdout, f"{command} to standard output")
        names = {path.name for path in folder.iterdir()} - {"device"}
        test.expect(names == {"link.svg", "old", "pipe.svg"}, str(names))


def commands(pid, folder):
    """A command line of each command that looks at a process."""
    snapshot = folder / "snapshot"
    yield from (("stats", pid), ("stats", pid, "--json"), ("doctor", pid), ("doctor", pid, "--json"), ("objects", pid),
                ("objects", pid, "--no-stop"), ("objects", pid, "--by", "site"), ("profile", pid), ("profile", pid, "--json"),
                ("types", pid), ("leaks", pid), ("leaks", pid, "--no-stop"), ("leaks", pid, "--snapshot"), ("check", pid),
                ("inspect", pid, "0x1000"), ("inspect", pid, "0x1000", "--referrers"), ("explain", pid),
                ("snapshot", pid, snapshot), ("snapshot", pid, snapshot, "--contents"), ("timeline", pid, "--count", "1"),
                ("top", pid, "--once"), ("set", pid, "release_rate=1"), ("flush", pid))


def ask_everything(test, pid, what):
    """Each command answers with text, or fails with one line."""
    with new_folder() as folder:
        for arguments in commands(pid, folder):
            run = test.ask(*arguments, status=None)
            test.expect(run.returncode in (0, 1, DAMAGED, OTHER_MALLOC, LEAKS, INCOMPLETE, PENDING),
                        f"{what}: {arguments}: exit status {run.returncode}")
            text = run.stdout + run.stderr
            bad = [c for c in text if c != "\n" and not c.isprintable()]
            test.expect(not bad, f"{what}: {arguments} prints {bad}")
            if run.returncode == 1:
                test.expect(run.stdout == "" and re.fullmatch("tcmalloc: [^\n]*\n", run.stderr),
                            f"{what}: {arguments} fails with {run.stdout[:300]}{run.stderr[:300]}")
            else:
                test.expect(text, f"{what}: {arguments} prints nothing")
        test.ask("ps")


def test_hostile(test):
    for what in ("names", "changes", "mappings", "modules"):
        with Process(test.library, test.program, what, **SAMPLED) as process:
            ask_everything(test, process.pid, what)
            test.expect(test.json("objects", process.pid)["objects"] >= 1000, f"{what}: objects")
            test.expect(process.process.poll() is None, f"{what}: the process has ended")
    with Process(test.library, test.program, "names", **SAMPLED) as process:
        os.kill(process.pid, signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        ask_everything(test, process.pid, "stopped")
    prefix = namespace("--pid", "--mount")
    with Process(test.library, *prefix, test.program, "names", **SAMPLED) as process:
        inner, = children_of(process.pid)
        ask_everything(test, inner, "namespaces")


def test_served(test):
    """A process whose memory cannot be read for ever: the lists go on, the others end on Ctrl-C."""
    with Process("linked", test.program, "served") as process:
        if process.said:
            raise Skipped("the kernel allows no userfaultfd")
        test.ask("top", "--once")
        test.expect(f"process {process.pid} does not answer" in test.ask("ps").stdout, "ps names it")
        for arguments in (("stats", process.pid), ("timeline", process.pid), ("flush", process.pid)):
            with subprocess.Popen([test.command, *map(str, arguments)], env=clean_environment()) as command:
                wait_until(lambda pid=command.pid: state_of(pid) == "D", "it reads")
                command.send_signal(signal.SIGINT)
                test.expect_equal(command.wait(TIMEOUT_S), -signal.SIGINT, f"{arguments} ends")


def test_others(test):
    with subprocess.Popen(["true"], env=clean_environment()) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        ask_everything(test, process.pid, "a zombie")
        test.fails("stats", process.pid, words="has ended")
    # The shell becomes the command, which has its number.
    for command in ("stats", "doctor", "objects", "profile", "leaks", "leaks --snapshot", "types", "explain", "check"):
        run = subprocess.run(["sh", "-c", f"exec {test.command} {command} $$"], capture_output=True, text=True, check=False,
                             env=clean_environment(), timeout=60)
        test.expect(run.returncode in (1, OTHER_MALLOC) and run.stdout.count("\n") + run.stderr.count("\n") > 0,
                    f"itself: {command}: {run}")
    ask_everything(test, 1, "the first process")
    # A kernel thread has no program.
    kernel = next((int(folder.name) for folder in pathlib.Path("/proc").iterdir()
                   if folder.name.isdigit() and b"\nVmSize" not in read_status(folder) and b"\nPPid:\t2\n" in read_status(folder)), None)
    if kernel is None:
        raise Skipped("no kernel thread is to be seen here")
    ask_everything(test, kernel, "a kernel thread")


def readers_of(command, mapped, is_it):
    """Runs the command until one of its children was seen that has given up its rights and satisfies is_it. Returns its status
    and what it has open."""
    seen = []

    def look():
        with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=clean_environment()) as process:
            while not seen and process.poll() is None:
                for folder in map(pathlib.Path, (f"/proc/{child}" for child in children_of(process.pid))):
                    status = read_status(folder).decode()
                    try:
                        files = {os.readlink(link) for link in (folder / "fd").iterdir()}
                    except OSError:
                        continue
                    if "NoNewPrivs:\t1\n" in status and is_it(files & mapped):
                        seen.append((status, {name for name in files - mapped if not re.match("socket:|/dev/null$|/proc/[0-9]+/fd$", name)}))
        return seen

    wait_until(look, f"a reader of {command}")
    return seen[0]


def test_readers(test):
    """The children that parse files have neither rights nor descriptors of the command."""
    needs_root()
    with new_folder() as folder, Target(test, **SAMPLED) as target:
        core = gcore(target, folder)
        os.chown(core, 12345, 2345)
        mapped = {line.split()[-1] for line in pathlib.Path(f"/proc/{target.pid}/maps").read_text().splitlines()}
        for arguments, user, is_it, others in ((("explain", core), 12345, lambda files: len(files) > 1, set()),
                                               (("profile", core), 12345, lambda files: len(files) == 1, {"/"}),
                                               (("profile", target.pid), 65534, lambda files: len(files) == 1, {"/"})):
            status, files = readers_of((test.command, *arguments), mapped, is_it)
            for line in (f"Uid:\t{user}\t{user}\t{user}\t{user}\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n"):
                test.expect(line in status, f"{arguments}: {line} is not in {status}")
            test.expect_equal(files, others, f"{arguments}: other files")


def read_status(folder):
    try:
        return (folder / "status").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


if __name__ == "__main__":
    run_test(globals())
