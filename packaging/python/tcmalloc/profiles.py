# SPDX-License-Identifier: BSD-3-Clause
"""Heap profiles of a block of a program.

The library samples what is allocated. At the end of the block, the tcmalloc command saves the allocator's records of this
process in a file, from which it makes each format on request.
"""

import bisect
import ctypes
import html
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import weakref

from . import library

COMMAND = library.NATIVE / "tcmalloc"
FORMATS = {".txt": "text", ".folded": "folded", ".svg": "svg", ".html": "html", ".json": "json", ".heap": "legacy", ".gz": "pprof"}
KINDS = {"allocated": "allocations", "in-use": "in-use"}
# A constant of Linux' prctl: names a process that may read this one if otherwise only a parent may.
_PR_SET_PTRACER = 0x59616D61
_ANY = ctypes.c_ulong(-1)
_SHORTEST_LABEL = 14


def without_library(environment):
    """An environment in which a program runs on the allocator that it was built for."""
    kept = dict(environment)
    preloaded = [name for name in re.split("[ :]", kept.pop("LD_PRELOAD", "")) if name and name != str(library.PATH)]
    if preloaded:
        kept["LD_PRELOAD"] = ":".join(preloaded)
    return kept


def run_command(*arguments):
    """Runs the tcmalloc command and returns its output. Raises Error with the command's message."""
    if not COMMAND.exists():
        raise library.Error("this wheel has no tcmalloc command, which profiles need: build it with the command")
    done = subprocess.run([COMMAND, *map(str, arguments)], env=without_library(os.environ), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    if done.returncode:
        raise library.Error(done.stderr.decode(errors="replace").strip() or f"tcmalloc ended with {done.returncode}")
    return done.stdout


class PythonNames:
    """Names of the Python functions whose addresses the interpreter has written to /tmp/perf-PID.map (from 3.12 on)."""

    ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")

    def __init__(self, pid):
        self.entries = []
        try:
            lines = pathlib.Path(f"/tmp/perf-{pid}.map").read_text(errors="replace").splitlines()
        except OSError:
            lines = []
        for line in lines:
            words = line.split(" ", 2)
            if len(words) == 3 and words[2].startswith("py::"):
                function, _, file = words[2][4:].partition(":")
                self.entries.append((int(words[0], 16), int(words[1], 16), f"{function} ({os.path.basename(file)})"))
        self.entries.sort()

    def of(self, address):
        at = bisect.bisect_right(self.entries, (address, float("inf"), "")) - 1
        if at >= 0 and address <= sum(self.entries[at][:2]):
            return self.entries[at][2]
        return None

    def put_into(self, text, change=lambda name: name):
        """The text with names for addresses."""
        if not self.entries:
            return text
        return self.ADDRESS.sub(lambda match: change(self.of(int(match[0], 16)) or match[0]), text)

    def put_into_drawing(self, text):
        """The SVG with names for addresses. A label in a box keeps its length."""
        def label(match):
            name = self.put_into(match[1])
            return f">{html.escape(name if name == match[1] else name[:_SHORTEST_LABEL])}</text>"
        text = re.sub(r">(0x[0-9a-f]+)</text>", label, text)
        return self.put_into(text, html.escape)


class Profile:
    """The allocations of a block, or the objects in use at its end. Use it after the block."""

    def __init__(self, interval, kind):
        if kind not in KINDS:
            raise ValueError(f'kind is "allocated" or "in-use", not {kind!r}')
        self._interval, self._kind = interval, kind
        self._folder = None
        self._names = None

    def __enter__(self):
        functions = library.functions()
        if not COMMAND.exists():
            run_command()  # raises an error before the block runs if something is missing
        self._interval_before = functions.tcmalloc_get_profile_sampling_interval()
        if self._kind == "allocated" and not functions.tcmalloc_start_allocation_profiling():
            raise library.Error("a profile of allocations is being recorded already")
        functions.tcmalloc_set_profile_sampling_interval(self._interval)
        return self

    def __exit__(self, kind, value, trace):
        functions = library.functions()
        functions.tcmalloc_set_profile_sampling_interval(0)  # later allocations do not belong to the block
        try:
            if kind is None:
                self._save()
        finally:
            if self._kind == "allocated":
                functions.tcmalloc_profile_free(functions.tcmalloc_stop_allocation_profiling())
            functions.tcmalloc_set_profile_sampling_interval(self._interval_before)

    def _save(self):
        self._folder = tempfile.mkdtemp(prefix="tcmalloc-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._names = PythonNames(os.getpid())
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)  # fails without Yama, where it is not needed
        try:
            run_command("snapshot", os.getpid(), self._file("snapshot"))
        finally:
            prctl(_PR_SET_PTRACER, 0, 0, 0, 0)

    def _file(self, name):
        return os.path.join(self._folder, name)

    def _write(self, form, path, *more):
        if self._folder is None:
            raise library.Error("the block has not ended: use the profile after it")
        run_command("profile", self._file("snapshot"), "--type", KINDS[self._kind], "--format", form, "-o", path, *more)

    def _read(self, form, *more):
        self._write(form, self._file("written"), *more)
        return pathlib.Path(self._file("written")).read_text(errors="replace")

    def text(self, top=10):
        """The call sites with the most memory."""
        text = self._read("text", "--top", top)
        return self._names.put_into(text.split("\nRead from ")[0].rstrip("\n"))

    def folded(self):
        """A line for each call stack, outermost function first, with its bytes."""
        return self._names.put_into(self._read("folded"))

    def svg(self):
        """A flame graph."""
        return self._names.put_into_drawing(self._read("svg"))

    def save(self, path):
        """Writes a file in the format that its suffix selects: .svg, .folded, .txt, .html, .json, .heap, .pb.gz."""
        suffix = pathlib.Path(path).suffix
        if suffix not in FORMATS:
            raise ValueError(f"{path}: the name of a profile ends in one of {' '.join(FORMATS)}")
        own = {".svg": self.svg, ".folded": self.folded, ".txt": self.text}
        if suffix in own:
            pathlib.Path(path).write_text(own[suffix]())
        else:
            self._write(FORMATS[suffix], path)

    def __str__(self):
        return self.text() if self._folder else "a profile of a block that has not ended"

    def _repr_html_(self):
        return re.sub(r"^<\?xml[^>]*>\s*", "", self.svg()) if self._folder else str(self)


def profile(interval=64 << 10, kind="allocated"):
    """A profile of a block, by samples: about one for each `interval` allocated bytes.

        with tcmalloc.profile() as profile:
            build_index()
        print(profile)
        profile.save("index.svg")

    With kind "allocated" it has everything that the block allocated, on any thread. With "in-use" it has the objects
    in use at the end of the block; objects from before the block count only if they were sampled.
    """
    return Profile(interval, kind)
