# SPDX-License-Identifier: BSD-3-Clause
"""Puts what was built into the wheel: libtcmalloc.so.4, and the tcmalloc command if there is one.

    cmake --preset release && cmake --build --preset release
    pip wheel --no-build-isolation --no-deps packaging/python

TCMALLOC_BUILD names another build folder, TCMALLOC_COMMAND another file of the command. With the usual command the wheel is for
this machine's kind of Linux: the command needs libraries of the distribution (libdw, libfmt,
libncurses). With a statically linked command, or without the command, it is a "manylinux" wheel
(PEP 600), for every system whose C library is not older than the functions that libtcmalloc.so.4
calls.
"""

import os
import pathlib
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py
from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
# If this folder was copied elsewhere, both variables must be set.
SOURCE = pathlib.Path(os.environ.get("TCMALLOC_SOURCE", HERE.parent.parent))
BUILD = pathlib.Path(os.environ.get("TCMALLOC_BUILD", SOURCE / "build/release"))


LIBRARY = BUILD / "lib/libtcmalloc.so.4"
COMMAND = pathlib.Path(os.environ.get("TCMALLOC_COMMAND", BUILD / "bin/tcmalloc"))


def readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, path], check=True, stdout=subprocess.PIPE, text=True).stdout


def platform_tag(usual):
    """The tag of the wheel; `usual` is the tag of a wheel for this system."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", LIBRARY))
    if needed != ["libc.so.6"] or (COMMAND.exists() and "(NEEDED)" in readelf("--dynamic", COMMAND)):
        return usual
    newest = max(int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", readelf("--version-info", LIBRARY)))
    return usual.replace("linux_", f"manylinux_2_{newest}_", 1)


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        native = pathlib.Path(self.build_lib) / "tcmalloc/native"
        native.mkdir(parents=True, exist_ok=True)
        if not LIBRARY.exists():
            raise SystemExit(f"{LIBRARY} does not exist: build the library, or set TCMALLOC_BUILD to its build folder")
        for path, name in ((LIBRARY, "libtcmalloc.so.4"), (COMMAND, "tcmalloc")):
            if path.exists():
                shutil.copy(path, native / name)
                subprocess.run(["strip", "--strip-unneeded", native / name], check=True)
            else:
                print(f"{path} does not exist: the wheel has no tcmalloc command, and cannot take profiles")


class OfOneMachine(Distribution):
    def has_ext_modules(self):
        return True


class WheelOfOneMachine(bdist_wheel):
    def get_tag(self):
        # The library is loaded by the dynamic linker, not by the interpreter: any Python 3 may run it.
        return "py3", "none", platform_tag(super().get_tag()[2])


setup(version=re.search(r"project\(tcmalloc VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1],
      distclass=OfOneMachine, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelOfOneMachine})
