#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the Debian packages, installs them below a folder, and builds clients with what is there.

Usage: debian_test.py BUILD_FOLDER WORK_FOLDER C_COMPILER CXX_COMPILER

dpkg treats the folder as a system of its own, on which only the libraries that the packages depend on are installed.
For users other than root the packages are only unpacked, without dpkg. debian_root_test.sh installs them in a real
system.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from clients import LIBRARIES, Clients, environment

PACKAGES = ("tcmalloc", "tcmalloc-minimal", "tcmalloc-dev", "tcmalloc-tools")
LARGEST_DEV_KIB = 12 << 10
# Packages that must be installable beside these: none of their files may be ours.
OTHERS = ("google-perftools", "libgoogle-perftools4", "libtcmalloc-minimal4", "libgoogle-perftools-dev")


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def files_of_others():
    """The files of those packages of OTHERS that this system has."""
    found = set()
    for package in OTHERS:
        run = subprocess.run(["dpkg-query", "-L", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             check=False)
        found |= {path for path in run.stdout.split("\n") if not os.path.isdir(path)}
    return found


class System:
    """A folder that dpkg treats as a system."""

    def __init__(self, folder, *installed):
        self.root = folder
        self.calls = folder / "ldconfig-calls"
        programs = folder / "programs"
        database = folder / "var/lib/dpkg"
        for path in (programs, database / "info", database / "updates"):
            path.mkdir(parents=True)
        # The packages' scripts run on this system, and must not change it.
        ldconfig = programs / "ldconfig"
        ldconfig.write_text(f"#!/bin/sh\necho called >>{self.calls}\n")
        ldconfig.chmod(0o755)
        self.environment = environment(PATH=f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin",
                                       DPKG_MAINTSCRIPT_DEBUG="0")
        (database / "status").write_text("".join(
            f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n"
            f"Architecture: {output_of('dpkg', '--print-architecture')}\n"
            f"Maintainer: nobody <nobody@localhost>\nDescription: {name}\n\n"
            for name, version in installed))

    def dpkg(self, *arguments):
        return ["dpkg", f"--root={self.root}", "--force-script-chrootless", "--log=/dev/null",
                *arguments]


def check_package(test, package, file):
    def field(name):
        return output_of("dpkg-deb", "--field", file, name)

    test.expect(field("Package") == package, f"{file}: its name is {field('Package')}")
    test.expect(field("Architecture") == output_of("dpkg", "--print-architecture"),
                f"{package}: architecture {field('Architecture')}")
    for name in ("Conflicts", "Replaces", "Provides", "Breaks"):
        test.expect(not field(name), f"{package} has {name}: {field(name)}")
    version = field("Version")
    depends = field("Depends")
    contents = output_of("dpkg-deb", "--contents", file)
    test.expect(f"./usr/share/doc/{package}/copyright" in contents, f"{package}: copyright")
    test.expect(f"./usr/share/doc/{package}/README.Debian" in contents, f"{package}: README.Debian")
    paths = {line.split()[5].lstrip(".") for line in contents.split("\n") if not line.startswith("d")}
    shared = paths & files_of_others()
    test.expect(not shared, f"{package} has files of other packages: {shared}")
    if package == "tcmalloc-dev":
        test.expect(sorted(depends.split(", ")) == [f"tcmalloc (= {version})", f"tcmalloc-minimal (= {version})"],
                    f"{package} depends on {depends}")
        archives = int(field("Installed-Size"))
        test.expect(archives < LARGEST_DEV_KIB, f"{package} has {archives} KiB: are the archives stripped?")
        return
    if package == "tcmalloc-tools":
        test.expect({"/usr/bin/tcmalloc", "/usr/share/man/man1/tcmalloc.1",
                     "/usr/share/bash-completion/completions/tcmalloc"} <= paths, f"{package} has {paths}")
        test.expect("libdw1" in depends and "libfmt" in depends, f"{package} depends on {depends}")
        return
    test.expect(re.fullmatch(r"libc6 \(>= 2\.\d\d\)", depends), f"{package} depends on {depends}")
    test.expect(len(re.findall(r"\.so", contents)) == 2, f"{package} has\n{contents}")
    control = subprocess.run(["dpkg-deb", "--ctrl-tarfile", file], check=True,
                             stdout=subprocess.PIPE).stdout
    shlibs = subprocess.run(["tar", "-xOf", "-", "./shlibs"], input=control, check=True,
                            stdout=subprocess.PIPE).stdout.decode().strip()
    library = f"lib{package.replace('-', '_')}"
    test.expect(sorted(shlibs.split("\n")) == [f"{library}{debug} 4 {package} (>= {version})" for debug in ("", "_debug")],
                f"{package}: shlibs {shlibs}")


def install(test, work, files):
    """Returns the folder below which the packages are installed."""
    if os.geteuid() != 0:
        print("not root: the packages are unpacked only")
        for file in files.values():
            test.command(["dpkg-deb", "--extract", file, work / "system"])
        return work / "system"

    needed = {dependency.split()[0] for file in files.values()
              for dependency in output_of("dpkg-deb", "--field", file, "Depends").split(", ")} - set(PACKAGES)
    system = System(work / "system", *((name, output_of("dpkg-query", "-W", "-f", "${Version}", name)) for name in sorted(needed)))
    test.command(system.dpkg("--install", *files.values()), env=system.environment)
    test.expect(not system.calls.exists(), "ldconfig is called, which does not look into the folder of the libraries")
    return system


def main():
    build, work = map(pathlib.Path, sys.argv[1:3])
    compilers = sys.argv[3:5]
    shutil.rmtree(work, ignore_errors=True)
    test = Clients(work, *compilers)

    made = work / "packages"
    test.command(["cpack", "--config", build / "CPackConfig.cmake", "-B", made])
    architecture = output_of("dpkg", "--print-architecture")
    found = {path.name.split("_")[0]: path for path in made.glob(f"*_{architecture}.deb")}
    if not test.expect(set(found) == set(PACKAGES), f"the packages are {sorted(found)}"):
        sys.exit(1)
    files = {package: found[package] for package in PACKAGES}
    for package, file in files.items():
        check_package(test, package, file)

    system = install(test, work, files)
    root = system.root if isinstance(system, System) else system
    folders = [path.parent for path in root.rglob("libtcmalloc.so.4")]
    if not test.expect(len(folders) == 1, f"libtcmalloc.so.4 lies in {folders}"):
        sys.exit(1)
    folder = folders[0]
    for library in LIBRARIES:
        test.build("pkg_config", library, test.pkg_config(folder, library), folder, ("c", "cc"))
        test.build("static", library, ["-static", *(test.pkg_config(folder, library, "--static")
                                                    or [])], None, ("c",))
    test.build_with_cmake("find_package", root / "usr", folder, *compilers,
                          [*LIBRARIES, "tcmalloc_minimal_static"])
    print(f"{test.built} programs")
    test.expect(test.built == len(LIBRARIES) * 3 + (len(LIBRARIES) + 1) * 3, "programs are missing")

    if isinstance(system, System):
        test.command(system.dpkg("--remove", *PACKAGES), env=system.environment)
        left = [path for path in (root / "usr").rglob("*") if not path.is_dir()]
        test.expect(not left, f"left after removal: {left}")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
