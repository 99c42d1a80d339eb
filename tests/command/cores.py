# SPDX-License-Identifier: BSD-3-Clause
"""Core files that the kernel writes, for tests.

kernel.core_pattern says where they are. A process of a test has a current folder of its own. If the
pattern is relative, the process's core is the only one there. If the pattern is absolute, the cores
of all processes are in one folder, and their names need the process.
"""

import glob
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile

from harness import TIMEOUT_S, Skipped, clean_environment

KERNEL = pathlib.Path("/proc/sys/kernel")
DEFAULT_FILTER = "0x33"
# The core contains code of files, too, from which explain distinguishes a read from a write.
WITH_FILES = "0x37"


def pattern():
    """kernel.core_pattern with the process's number, if the kernel appends that."""
    text = (KERNEL / "core_pattern").read_text().rstrip("\n")
    numbered = (KERNEL / "core_uses_pid").read_text().strip() != "0" and "%p" not in re.findall("%.", text)
    return text + ".%p" if numbered and not text.startswith("|") else text


def why_none():
    """The reason why a test finds no cores of the kernel; None if it does."""
    text = pattern()
    what = f"kernel.core_pattern is '{text}'"
    if not text or text.startswith("|"):
        return f"{what}: there are no files"
    if text.startswith("/") and "%p" not in re.findall("%.", text):
        return f"{what}: the cores of all processes have one name"
    if text.startswith("/") and not os.access(os.path.dirname(text), os.W_OK):
        return f"{what}: that folder does not exist or is not writable"
    if not text.startswith("/") and "/" in text:
        return f"{what}: a process has no such folder"
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if hard != resource.RLIM_INFINITY and os.geteuid() != 0:
        return f"the hard limit of the size of cores is {hard} bytes"
    return None


def needed():
    reason = why_none()
    if reason is not None:
        raise Skipped(reason)


def take(pid, current_folder, to):
    """Moves the core of a process that has ended, and returns its new path."""
    known = {"%%": "%", "%p": str(pid)}
    parts = re.split("(%.?)", pattern())
    name = "".join(known.get(part, "*" if len(part) == 2 else "") if part.startswith("%") else glob.escape(part) for part in parts)
    found = glob.glob(os.path.join(glob.escape(str(current_folder)), name))
    assert found, f"process {pid} left no core: kernel.core_pattern is '{pattern()}', {current_folder} has " \
                  f"{os.listdir(current_folder)}"
    return pathlib.Path(shutil.move(max(found, key=os.path.getmtime), to))


def crash(target, folder, dump_filter=DEFAULT_FILTER):
    """Ends a process that runs, and returns its core, which lies in the folder."""
    needed()
    pathlib.Path(f"/proc/{target.pid}/coredump_filter").write_text(dump_filter)
    resource.prlimit(target.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    current_folder = os.readlink(f"/proc/{target.pid}/cwd")
    os.kill(target.pid, signal.SIGABRT)
    target.process.wait()
    return take(target.pid, current_folder, folder / f"taken.{target.pid}")


class Crash:
    """A run of a program that ends by a signal, in a folder of its own, and its core. With
    of_printed, the program prints the number of the process whose core is meant."""

    def __init__(self, library, *command, dump_filter=WITH_FILES, of_printed=False, **variables):
        needed()
        self.folder = tempfile.TemporaryDirectory()
        preload = [] if library == "linked" else [f"LD_PRELOAD={library}"]
        script = f"echo {dump_filter} >/proc/self/coredump_filter; ulimit -c unlimited; exec \"$@\""
        with subprocess.Popen(["sh", "-c", script, "sh", "env", *preload, *command], cwd=self.folder.name, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=clean_environment(**variables)) as process:
            self.said = process.communicate(timeout=TIMEOUT_S)[0].split()
        self.status = process.returncode
        pid = int(self.said[0]) if of_printed and self.said else process.pid
        self.core = take(pid, self.folder.name, pathlib.Path(self.folder.name, "taken"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()
