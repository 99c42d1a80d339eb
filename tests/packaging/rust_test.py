#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The crates of packaging/rust: packed, built from their archives without a network, and run.

Usage: rust_test.py SOURCE_FOLDER WORK_FOLDER COMMAND

* The archive of tcmalloc-sys has every source of the library, as src/CMakeLists.txt finds them, and every header. Both
  archives have the licence.
* A program that names the folder of a clone as the dependency is compiled with the sources of the clone.
* It declares every function of tcmalloc/tcmalloc.h.
* The tests and the examples in the documentation of the crate tcmalloc pass.
* The example program is served by TCMalloc, which the tcmalloc command sees, and prints what docs/rust.md shows.

COMMAND is the tcmalloc command, or "none" where it is not built.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import shown
from steps import expect, need, project_version

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import crates  # noqa: E402


def declares_the_header(source):
    """tcmalloc-sys declares what the header does, no more and no less of these names."""
    header = re.sub(r"/\*.*?\*/", "", (source / "include/tcmalloc/tcmalloc.h").read_text(), flags=re.DOTALL)
    header = header[:header.index("namespace tcmalloc {")]
    in_header = set(re.findall(r"\b(tcmalloc_\w+)\((?!\*)", header))
    rust = (source / "packaging/rust/tcmalloc-sys/src/lib.rs").read_text()
    in_rust = set(re.findall(r"pub fn (tcmalloc_\w+)\(", rust))
    expect(in_header == in_rust and len(in_rust) > 30, "tcmalloc-sys and tcmalloc.h differ in "
           + " ".join(sorted(in_header ^ in_rust)))


class Packages:
    """A folder with a cargo of its own, whose only registry is the archives that it has packed."""

    def __init__(self, source, work, version):
        self.source, self.work, self.version = source, work, version
        self.registry = work / "registry"
        self.registry.mkdir(parents=True)
        self.workspace = work / "crates"
        crates.copy(source, self.workspace)
        home = work / "home"
        home.mkdir()
        (home / "config.toml").write_text(
            '[source.crates-io]\nreplace-with = "archives"\n'
            f'[source.archives]\ndirectory = "{self.registry}"\n[net]\noffline = true\n')
        self.environment = {**os.environ, "CARGO_HOME": str(home), "CARGO_TARGET_DIR": str(work / "target"),
                            # The profile needs the names of inlined functions.
                            "CARGO_PROFILE_RELEASE_DEBUG": "1"}
        # rustup's cargo looks for its compilers there.
        self.environment.setdefault("RUSTUP_HOME", str(pathlib.Path.home() / ".rustup"))
        if shutil.which("ccache"):
            for language in ("C", "CXX"):
                self.environment[f"CMAKE_{language}_COMPILER_LAUNCHER"] = "ccache"

    def cargo(self, *arguments, folder):
        done = subprocess.run(["cargo", *arguments], cwd=folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=580)
        print(f"cargo {' '.join(arguments)}\n{done.stdout}", flush=True)
        expect(done.returncode == 0, f"cargo {arguments[0]} ended with {done.returncode}")
        return done.stdout

    def pack(self, crate):
        """Packs a crate into the registry. Returns its folder there."""
        # cargo need not verify the archive, since it is built below.
        output = self.cargo("package", "--offline", "--no-verify", "--allow-dirty", "-p", crate, folder=self.workspace)
        expect("warning" not in output, f"cargo package has something to say about {crate}")
        archive = self.work / "target/package" / f"{crate}-{self.version}.crate"
        with tarfile.open(archive) as packed:
            packed.extractall(self.registry)
        folder = self.registry / f"{crate}-{self.version}"
        licence = (folder / "LICENSE").read_bytes()
        expect(licence == (self.source / "LICENSE").read_bytes(), f"the licence of {crate} is {licence[:80]}")
        checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
        (folder / ".cargo-checksum.json").write_text(json.dumps({"files": {}, "package": checksum}))
        print(f"{archive.name}: {archive.stat().st_size} bytes")
        return folder


def has_all_sources(source, folder):
    for part, patterns in crates.SOURCES:
        wanted = {str(path.relative_to(source / part)) for pattern in patterns for path in (source / part).rglob(pattern)}
        found = {str(path.relative_to(folder / "native" / part))
                 for path in (folder / "native" / part).rglob("*") if path.is_file()}
        expect(wanted and wanted == found, f"the archive and {part}/ differ in {sorted(wanted ^ found)[:9]}")
    wanted, found = source / "CMakeLists.txt", folder / "native/CMakeLists.txt"
    expect(wanted.read_bytes() == found.read_bytes(), f"{found} is not {wanted}")
    links = [path for path in folder.rglob("*") if path.is_symlink()]
    expect(not links, f"the archive has links: {links}")


def run_example(program, page, command):
    wanted = page.output_of("cargo run --release --example phases")
    waiting = subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        output = "".join(waiting.stdout.readline() for _ in range(len(wanted.splitlines())))
        shown.compare(output, wanted, "the example")
        if command == "none":
            return
        pid = str(waiting.pid)
        listed = subprocess.run([command, "ps"], check=True, text=True, stdout=subprocess.PIPE).stdout
        row = [line.split() for line in listed.splitlines() if line.split()[:1] == [pid]]
        expect(row and "TCMalloc" in row[0], f"tcmalloc ps does not list the example:\n{listed}")
        for name in ("stats", "profile"):
            said = subprocess.run([command, name, pid], check=True, text=True, stdout=subprocess.PIPE).stdout
            # Which functions are inlined, and so have no frame of their own, differs by compiler.
            first = page.compare_first_line(f"tcmalloc {name} PID", said.replace(pid, "PID"))
            expect(name == "stats" or "phases::build_index" in said, f"{first}\nThe profile does not name build_index:\n{said}")
    finally:
        waiting.stdin.close()
        waiting.wait(timeout=20)
    expect(waiting.returncode == 0, f"the example ended with {waiting.returncode}")


def builds_in_a_clone(source, work, packages):
    """A program whose dependency is a path of the repository, as docs/rust.md shows."""
    folder = work / "user"
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text('[package]\nname = "user"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
                                       f'[dependencies]\ntcmalloc = {{ path = "{source}/packaging/rust/tcmalloc" }}\n')
    (folder / "src/main.rs").write_text("#[global_allocator]\nstatic ALLOCATOR: tcmalloc::TCMalloc = tcmalloc::TCMalloc;\n"
                                        "fn main() { println!(\"{}\", tcmalloc::version()); }\n")
    said = packages.cargo("run", "--offline", "--quiet", folder=folder)
    expect(said == f"{packages.version}\n", f"the program prints {said}")


def main():
    source, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    command = sys.argv[3]
    need("cargo", "rustc")
    shutil.rmtree(work, ignore_errors=True)
    declares_the_header(source)
    packages = Packages(source, work, project_version(source))
    has_all_sources(source, packages.pack("tcmalloc-sys"))
    folder = packages.pack("tcmalloc")
    packages.cargo("test", "--offline", "--release", folder=folder)
    builds_in_a_clone(source, work, packages)
    run_example(work / "target/release/examples/phases", shown.Page(source / "docs/rust.md"), command)


if __name__ == "__main__":
    main()
