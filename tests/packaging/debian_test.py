#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the Debian packages, unpacks them, and builds clients with what is there.

Usage: debian_test.py BUILD_FOLDER WORK_FOLDER C_COMPILER CXX_COMPILER

debian_root_test.sh installs them in a real system.
"""

import getpass
import os
import pathlib
import re
import shutil
import subprocess
import sys

from clients import LIBRARIES, Clients

SOURCE = pathlib.Path(__file__).resolve().parents[2]
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


def check_maintainers(test, work):
    """Checks which maintainer packaging/maintainer.cmake chooses."""
    script = work / "maintainer.cmake"
    script.write_text(f'include("{SOURCE}/packaging/maintainer.cmake")\nmessage(NOTICE "${{CPACK_PACKAGE_CONTACT}}")\n')
    user, host = getpass.getuser(), os.uname().nodename
    settings = work / "gitconfig"
    settings.write_text("[user]\n  name = Git Name\n  email = git@example.org\n")
    # GIT_DIR keeps git from using the settings of the repository that the sources may be in.
    nobody = {name: value for name, value in os.environ.items() if not name.startswith(("DEB", "GIT_"))}
    nobody |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_DIR": str(work / "no_repository")}
    for wanted, own in (("D Name <d@example.org>", {"DEBFULLNAME": "D Name", "DEBEMAIL": "d@example.org"}),
                        ("E Name <e@example.org>", {"DEBEMAIL": "E Name <e@example.org>"}),
                        ("Git Name <git@example.org>", {"GIT_CONFIG_GLOBAL": str(settings)}),
                        (f"{user} <{user}@{host}>", {})):
        said = subprocess.run(["cmake", "-P", script], check=True, stderr=subprocess.PIPE, text=True, env=nobody | own).stderr.strip()
        test.expect(said == wanted, f"the maintainer is {said}, not {wanted}")


def check_package(test, build, package, file):
    def field(name):
        return output_of("dpkg-deb", "--field", file, name)

    test.expect(field("Package") == package, f"{file}: its name is {field('Package')}")
    test.expect(field("Architecture") == output_of("dpkg", "--print-architecture"),
                f"{package}: architecture {field('Architecture')}")
    for name in ("Conflicts", "Replaces", "Provides", "Breaks"):
        test.expect(not field(name), f"{package} has {name}: {field(name)}")
    configured = re.search(r'CPACK_PACKAGE_CONTACT "(.*)"', (build / "CPackConfig.cmake").read_text())[1]
    test.expect(field("Maintainer") == (configured or "Test of Packages <packages@example.org>"),
                f"the maintainer of {package} is {field('Maintainer')}")
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
    control = subprocess.run(["dpkg-deb", "--ctrl-tarfile", file], check=True, stdout=subprocess.PIPE).stdout
    shlibs = subprocess.run(["tar", "-xOf", "-", "./shlibs"], input=control, check=True,
                            stdout=subprocess.PIPE).stdout.decode().strip()
    library = f"lib{package.replace('-', '_')}"
    test.expect(sorted(shlibs.split("\n")) == [f"{library}{debug} 4 {package} (>= {version})" for debug in ("", "_debug")],
                f"{package}: shlibs {shlibs}")


def main():
    build, work = map(pathlib.Path, sys.argv[1:3])
    compilers = sys.argv[3:5]
    shutil.rmtree(work, ignore_errors=True)
    test = Clients(work, *compilers)

    check_maintainers(test, work)
    made = work / "packages"
    os.environ |= {"DEBFULLNAME": "Test of Packages", "DEBEMAIL": "packages@example.org"}
    test.command(["cpack", "--config", build / "CPackConfig.cmake", "-B", made])
    architecture = output_of("dpkg", "--print-architecture")
    found = {path.name.split("_")[0]: path for path in made.glob(f"*_{architecture}.deb")}
    if not test.expect(set(found) == set(PACKAGES), f"the packages are {sorted(found)}"):
        sys.exit(1)
    files = {package: found[package] for package in PACKAGES}
    for package, file in files.items():
        check_package(test, build, package, file)

    root = work / "system"
    for file in files.values():
        test.command(["dpkg-deb", "--extract", file, root])
    folders = [path.parent for path in root.rglob("libtcmalloc.so.4")]
    if not test.expect(len(folders) == 1, f"libtcmalloc.so.4 lies in {folders}"):
        sys.exit(1)
    folder = folders[0]
    for library in LIBRARIES:
        test.build("pkg_config", library, test.pkg_config(folder, library), folder, ("c", "cc"))
        test.build("static", library, ["-static", *(test.pkg_config(folder, library, "--static") or [])], None, ("c",))
    test.build_with_cmake("find_package", root / "usr", folder, *compilers, [*LIBRARIES, "tcmalloc_minimal_static"])
    print(f"{test.built} programs")
    test.expect(test.built == len(LIBRARIES) * 3 + (len(LIBRARIES) + 1) * 3, "programs are missing")
    sys.exit(1 if test.failures else 0)


if __name__ == "__main__":
    main()
