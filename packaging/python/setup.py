# SPDX-License-Identifier: BSD-3-Clause
"""Puts what was built into the wheel: libtcmalloc.so.4, and the tcmalloc command if there is one.

    cmake --preset release && cmake --build --preset release
    pip wheel --no-build-isolation --no-deps packaging/python

TCMALLOC_BUILD names another build folder. The wheel is for this machine's kind of Linux, not a "manylinux" one: the command
needs libraries of the distribution (libdw, libfmt, libncurses).
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


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        native = pathlib.Path(self.build_lib) / "tcmalloc/native"
        native.mkdir(parents=True, exist_ok=True)
        library, command = BUILD / "lib/libtcmalloc.so.4", BUILD / "bin/tcmalloc"
        if not library.exists():
            raise SystemExit(f"{library} does not exist: build the library, or set TCMALLOC_BUILD to its build folder")
        for path in (library, command):
            if path.exists():
                shutil.copy(path, native / path.name)
                subprocess.run(["strip", "--strip-unneeded", native / path.name], check=True)
            else:
                print(f"{path} does not exist: the wheel has no tcmalloc command, and cannot take profiles")


class OfOneMachine(Distribution):
    def has_ext_modules(self):
        return True


class WheelOfOneMachine(bdist_wheel):
    def get_tag(self):
        # The library is loaded by the dynamic linker, not by the interpreter: any Python 3 may run it.
        return "py3", "none", super().get_tag()[2]


setup(version=re.search(r"project\(tcmalloc VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1],
      distclass=OfOneMachine, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelOfOneMachine})
