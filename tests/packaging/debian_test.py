#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the Debian packages, installs them below a folder, and builds clients with what is there.

Usage: debian_test.py BUILD_FOLDER WORK_FOLDER C_COMPILER CXX_COMPILER

dpkg knows the folder as a system of its own, on which only the C library is installed. Who is not
root gets the packages unpacked, without what dpkg itself does.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from clients import LIBRARIES, Clients, environment

PACKAGES = ("tcmalloc", "tcmalloc-minimal", "tcmalloc-dev")
# What has the same files.
RIVALS = {"tcmalloc": "libgoogle-perftools4", "tcmalloc-minimal": "libtcmalloc-minimal4",
          "tcmalloc-dev": "libgoogle-perftools-dev"}


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class System:
    """A folder that dpkg takes for a system."""

    def __init__(self, folder, *installed):
        self.root = folder
        self.calls = folder / "ldconfig-calls"
        programs = folder / "programs"
        database = folder / "var/lib/dpkg"
        for path in (programs, database / "info", database / "updates"):
            path.mkdir(parents=True)
        # The packages' scripts run on this system; they are to leave it alone.
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
    test.expect(RIVALS[package] in field("Conflicts") and RIVALS[package] in field("Replaces"),
                f"{package} and {RIVALS[package]} have the same files")
    version = field("Version")
    depends = field("Depends")
    contents = output_of("dpkg-deb", "--contents", file)
    test.expect(f"./usr/share/doc/{package}/copyright" in contents, f"{package}: copyright")
    if package == "tcmalloc-dev":
        test.expect(depends == f"tcmalloc (= {version}), tcmalloc-minimal (= {version})",
                    f"{package} depends on {depends}")
        return
    test.expect(re.fullmatch(r"libc6 \(>= 2\.\d\d\)", depends), f"{package} depends on {depends}")
    test.expect(len(re.findall(r"\.so", contents)) == 1, f"{package} has\n{contents}")
    control = subprocess.run(["dpkg-deb", "--ctrl-tarfile", file], check=True,
                             stdout=subprocess.PIPE).stdout
    shlibs = subprocess.run(["tar", "-xOf", "-", "./shlibs"], input=control, check=True,
                            stdout=subprocess.PIPE).stdout.decode().strip()
    test.expect(shlibs == f"lib{package.replace('-', '_')} 4 {package} (>= {version})",
                f"{package}: shlibs {shlibs}")


def install(test, work, files):
    """Returns the folder below which the packages are installed."""
    if os.geteuid() != 0:
        print("not root: the packages are unpacked only")
        for file in files.values():
            test.command(["dpkg-deb", "--extract", file, work / "system"])
        return work / "system"

    c_library = ("libc6", output_of("dpkg-query", "-W", "-f", "${Version}", "libc6"))
    for package, rival in RIVALS.items():
        system = System(work / f"with_{rival}", c_library, (rival, "2.10-1"))
        needed = PACKAGES if package == "tcmalloc-dev" else (package,)
        told = test.command(system.dpkg("--no-act", "--install", *(files[p] for p in needed)),
                            env=system.environment)
        test.expect(told is None or f"will remove {rival} in favour of {package}" in told,
                    f"{package} is installed beside {rival}:\n{told}")

    system = System(work / "system", c_library)
    test.command(system.dpkg("--install", *files.values()), env=system.environment)
    test.expect(system.calls.exists(), "the packages' scripts do not call ldconfig")
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
    test.expect(test.built == 2 * 3 + 3 * 3, "programs are missing")

    if isinstance(system, System):
        test.command(system.dpkg("--remove", *PACKAGES), env=system.environment)
        left = [path for path in (root / "usr").rglob("*") if not path.is_dir()]
        test.expect(not left, f"left after removal: {left}")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
