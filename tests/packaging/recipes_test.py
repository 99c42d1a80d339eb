#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the commands of a page of docs/recipes/ and compares what they print.

Usage: recipes_test.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER RECIPE

The library and the command are installed into the home folder. The commands run in a copy of packaging/recipes/RECIPE.
Blocks of shell commands are run; a block of text after one is what it prints: numbers may differ, and a line "..." stands
for any lines. A block of another language is one of the recipe's files. Programs that the commands leave are ended.
"""

import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from clients import environment
from pages_test import BLOCK, Pages
from steps import need, skip

# The programs that a recipe runs, and the folders besides those of PATH in which Debian has them.
PROGRAMS = {
    "redis": ("redis-server", "redis-cli"),
    "nginx": ("nginx", "curl"),
    "prometheus": ("prometheus-node-exporter", "promtool", "curl", "systemd-analyze"),
    "ci": ("g++", "c++filt"),
    "other-tools": ("gcc", "heaptrack", "valgrind"),
    "python": ("python3",),
    "node": ("node",),
    "jvm": ("java", "jcmd"),
    "postgresql": ("initdb", "pgbench"),
    "docker": ("podman", "runc", "debootstrap"),
    "kubernetes": ("podman", "runc", "debootstrap"),
}
FOLDERS = "/usr/sbin:/sbin:/usr/lib/postgresql/15/bin"
# Servers that refuse to run as root.
USERS = {"postgresql": "postgres"}
# Podman's own defaults need the right to raise limits, and do not work with every set-up of control groups.
CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
"""
STORAGE_CONF = """[storage]
driver = "overlay"
graphroot = "{folder}/images"
runroot = "{folder}/running"
"""
BASE_IMAGE = "localhost/debian:12-slim"
PR_SET_CHILD_SUBREAPER = 36


class RecipePages(Pages):
    """The lines for a comparison: numbers of other forms may differ, too, and the page shows the folder as /srv/ci."""

    def run(self, command, statuses=(0,)):
        printed = super().run(command, statuses)
        return printed and plain_numbers(printed.replace(str(self.folder), "/srv/ci"))


def plain_numbers(text):
    return re.sub(r"\b0x[0-9a-f]+\b|\b\d[\d.]*e\+\d+\b|\b\d+(?=KB\b)", "0", text)


def file_blocks(text):
    return [contents for language, contents in BLOCK.findall(text) if language not in ("sh", "text")]


def end_descendants():
    """Ends the processes that the commands have left. This process becomes the parent of processes
    whose parent has ended."""
    while True:
        children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(int(child), 0)


def run_page(source, recipe, folder, own):
    """Runs the commands in `folder`, and returns the number of those that ran, and of failures."""
    text = (source / f"docs/recipes/{recipe}.md").read_text()
    files = source / "packaging/recipes" / recipe
    present = {path.name: path.read_text() for path in files.iterdir()} if files.exists() else {}
    user = USERS.get(recipe) if os.geteuid() == 0 else None
    folder.mkdir()
    for name in present:
        shutil.copy(files / name, folder)
    if user:
        shutil.chown(folder, user)
    pages = RecipePages(folder, own, None, user)
    for contents in file_blocks(text):
        if contents not in present.values():
            pages.failed += 1
            print(f"FAILED: no file of packaging/recipes/{recipe} is this one of the page:\n{contents}")
    try:
        pages.page(f"docs/recipes/{recipe}.md", plain_numbers(text))
    finally:
        end_descendants()
    return pages.ran, pages.failed


@contextlib.contextmanager
def podman(work, own):
    """Podman with a storage of its own, which has Debian's image."""
    if os.geteuid() != 0:
        skip("to make an image of Debian needs root")
    root = work / "debian"
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(parents=True)
        run = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root / "root"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            skip(f"debootstrap makes no root of Debian: {run.stdout.splitlines()[-1:]}")
        (root / "complete").touch()
    (work / "containers.conf").write_text(CONTAINERS_CONF)
    (work / "storage.conf").write_text(STORAGE_CONF.format(folder=work / "containers"))
    own.update(CONTAINERS_CONF=str(work / "containers.conf"), CONTAINERS_STORAGE_CONF=str(work / "storage.conf"))

    def run(*arguments, **others):
        return subprocess.run(["podman", *arguments], env=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, **others)
    with subprocess.Popen(["tar", "-C", root / "root", "-c", "."], stdout=subprocess.PIPE) as archive:
        made = run("import", "--change", f"ENV PATH={FOLDERS}:/usr/bin:/bin", "-", BASE_IMAGE, stdin=archive.stdout)
    tried = run("run", "--rm", "--network", "none", "--memory", "100m", BASE_IMAGE, "true")
    try:
        if made.returncode or tried.returncode:
            skip(f"podman runs no container with a memory limit here: {made.stdout}{tried.stdout}")
        yield
    finally:
        run("pod", "rm", "--force", "--all", "--time", "0")
        run("rm", "--force", "--all", "--time", "0")
        run("rmi", "--force", "--all")
        subprocess.run(["umount", work / "containers/images/overlay"], stderr=subprocess.DEVNULL)
        shutil.rmtree(work / "containers", ignore_errors=True)


def main():
    source, build, work, recipe = sys.argv[1:5]
    source, work = pathlib.Path(source).resolve(), pathlib.Path(work).resolve()
    path = f"/usr/bin:/bin:{FOLDERS}"
    need(*PROGRAMS[recipe], path=path)
    # A path of a socket is at most 108 bytes long. Servers may run as another user, which has to reach the library.
    with tempfile.TemporaryDirectory(prefix="tcmalloc-recipe-") as temporary:
        home = pathlib.Path(temporary)
        home.chmod(0o755)
        subprocess.run(["cmake", "--install", build, "--prefix", home / "tcmalloc"], check=True, stdout=subprocess.DEVNULL)
        own = environment(HOME=str(home), PATH=f"{home}/tcmalloc/bin:/usr/local/bin:{path}")
        del own["TCMALLOC_MAX_FREE_QUEUE_SIZE"]  # tcmalloc ps would show the variable
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        surroundings = contextlib.nullcontext()
        if "podman" in PROGRAMS[recipe]:
            surroundings = podman(work, own)
        with surroundings:
            ran, failed = run_page(source, recipe, home / "here", own)
    print(f"{ran} commands, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
