#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/release.py on what is built: the files that a release publishes, from the last commit.

Usage: release_test.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER

* The source archive has the files of the commit, and a clone elsewhere makes the same bytes. A tree with changes is refused.
* The list of components is a document of SPDX whose references exist; the library needs the C library only, and every
  library that the command needs is listed with its version.
* The checksums are right. They are signed with an SSH key, with a key of minisign and with one of gpg, and not
  without a key or after a change. The commands of docs/verify.md check a download, and refuse a changed one.
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

from steps import expect, need, project_version, run, skip

# The components of the command: libraries that are loaded, and code that is compiled in.
COMPONENTS = {"libc6", "libdw1", "libelf1", "libfmt9", "libncursesw6", "libtinfo6", "libstdc++6", "libgcc-s1", "zlib1g"}
COMPILED_IN = {"CLI11", "JSON for Modern C++", "libiberty"}


class Test:

    def __init__(self, source, work):
        self.source, self.work = source, work
        self.output = work / "artifacts"

    def release(self, *arguments, **options):
        return run(self.source / "scripts/release.py", "--output", self.output, *arguments, **options)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def git(root, *arguments):
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", root, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def check_archive(test, version):
    archive = test.output / f"tcmalloc-{version}.tar.gz"
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
    names = {member.name.removeprefix(f"tcmalloc-{version}/") for member in members if not member.isdir()}
    wanted = set(git(test.source, "ls-tree", "-r", "--name-only", "-z", "HEAD").split("\0")) - {""}
    expect(names == wanted and len(names) > 1000, f"the archive and the commit differ in {sorted(names ^ wanted)[:9]}")
    expect(len({member.mtime for member in members}) == 1, "files of the archive have different times")
    expect({(member.uid, member.gid, member.mode & 0o022) for member in members if not member.issym()} == {(0, 0, 0)},
                "owners or modes")

    clone = test.work / "clone"
    git(test.source, "clone", "--quiet", "--no-local", test.source, clone)
    git(clone, "checkout", "--quiet", "--detach", git(test.source, "rev-parse", "HEAD").strip())
    again = test.work / "again"
    os.umask(0o077)
    run(clone / "scripts/release.py", "--output", again, "--only-archive", env={**os.environ, "TZ": "Asia/Tokyo", "LC_ALL": "C"})
    os.umask(0o022)
    expect(sha256(again / archive.name) == sha256(archive), "a clone makes another archive")
    (clone / "README.md").write_text("changed")
    said = run(clone / "scripts/release.py", "--output", again, "--only-archive", status=1)
    expect("commit or remove these changes first" in said and "README.md" in said, f"a changed tree: {said}")
    git(clone, "checkout", "--quiet", "README.md")
    manifest = clone / "packaging/rust/tcmalloc/Cargo.toml"
    manifest.write_text(manifest.read_text().replace(f'"{version}"', '"0.0.1"', 1))
    said = run(clone / "scripts/release.py", "--output", again, "--only-archive", "--uncommitted", status=1)
    expect("Cargo.toml says version 0.0.1" in said, f"versions that differ: {said}")


def check_components(test, version):
    document = json.loads((test.output / f"tcmalloc-{version}.spdx.json").read_text())
    expect(document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0", "the head of the document")
    packages = {package["SPDXID"]: package for package in document["packages"]}
    identifiers = ["SPDXRef-DOCUMENT", *packages, *(file["SPDXID"] for file in document["files"])]
    expect(len(set(identifiers)) == len(identifiers), "an identifier is there twice")
    for name in identifiers:
        expect(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name), f"{name} is no identifier of SPDX")
    linked = {}
    for relation in document["relationships"]:
        for end in ("spdxElementId", "relatedSpdxElement"):
            expect(relation[end] in identifiers, f"{relation[end]} does not exist")
        owner = packages.get(relation["spdxElementId"], {}).get("name")
        other = packages.get(relation["relatedSpdxElement"], {}).get("name")
        linked.setdefault((owner, relation["relationshipType"]), set()).add(other)
    expect(linked[("libtcmalloc", "DYNAMIC_LINK")] == {"libc6"}, f"the library needs {linked[('libtcmalloc', 'DYNAMIC_LINK')]}")
    expect(("libtcmalloc", "STATIC_LINK") not in linked, "the library has code of others")
    expect(linked[("tcmalloc-command", "DYNAMIC_LINK")] == COMPONENTS, f"the command needs {linked[('tcmalloc-command', 'DYNAMIC_LINK')]}")
    expect(linked[("tcmalloc-command", "STATIC_LINK")] == COMPILED_IN, "what is compiled into the command")
    for package in packages.values():
        expect(package["versionInfo"], f"{package['name']} has no version")
    libdw = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libdw1"], stdout=subprocess.PIPE, text=True, check=True).stdout
    expect(packages["SPDXRef-Package-libdw1"]["versionInfo"] == libdw, "the version of libdw1")
    for file in document["files"]:
        sums = {checksum["algorithm"]: checksum["checksumValue"] for checksum in file["checksums"]}
        expect(sums["SHA256"] == sha256(test.output / file["fileName"]), f"the checksum of {file['fileName']}")


def check_files(test, version):
    names = sorted(path.name for path in test.output.iterdir())
    for pattern in (rf"tcmalloc-{version}\.tar\.gz", rf"tcmalloc-{version}\.crate", rf"tcmalloc-sys-{version}\.crate",
                    rf"tcmalloc-{version}-py3-none-linux_\w+\.whl", rf"tcmalloc_{version}_\w+\.deb", rf"tcmalloc-tools_{version}_\w+\.deb",
                    rf"tcmalloc-dev_{version}_\w+\.deb", rf"tcmalloc-minimal_{version}_\w+\.deb", rf"tcmalloc-dbgsym_{version}_\w+\.ddeb",
                    rf"tcmalloc-{version}\.spdx\.json", "SHA256SUMS"):
        expect(sum(re.fullmatch(pattern, name) is not None for name in names) == 1, f"one file {pattern}: {names}")
    summed = dict(reversed(line.split("  ")) for line in (test.output / "SHA256SUMS").read_text().splitlines())
    expect(sorted([*summed, "SHA256SUMS"]) == names, f"SHA256SUMS has {sorted(summed)}")
    for name, value in summed.items():
        expect(sha256(test.output / name) == value, f"the checksum of {name}")


def commands_of_page(source):
    """The first command of docs/verify.md, and those of its table: {file beside SHA256SUMS: command}."""
    text = (source / "docs/verify.md").read_text()
    return (re.search(r"^```sh\n(.*)\n```$", text, re.MULTILINE)[1],
            dict(re.findall(r"^\| `(SHA256SUMS\.\w+)` \| `(.*)` \|$", text, re.MULTILINE)))


def download(test, archive, signature, keys):
    """A folder with the files that a user of the archive downloads."""
    folder = test.work / f"download{signature.suffix}"
    folder.mkdir()
    for path in (archive, test.output / "SHA256SUMS", signature, *keys):
        shutil.copy(path, folder)
    return folder


def check_download(test, archive, ending, keys=(), **options):
    """Checks a download as a user does, then one with a changed archive, then one with changed checksums."""
    sums, verify = commands_of_page(test.source)
    folder = download(test, archive, test.output / f"SHA256SUMS{ending}", keys)
    said = run("sh", "-c", sums, cwd=folder)
    expect(said == f"{archive.name}: OK\n", f"{sums}: {said}")
    run("sh", "-c", verify[f"SHA256SUMS{ending}"], cwd=folder, **options)
    with open(folder / archive.name, "ab") as file:
        file.write(b"\0")
    run("sh", "-c", sums, cwd=folder, status=1)
    with open(folder / "SHA256SUMS", "a", encoding="ascii") as file:
        file.write(f"{sha256(folder / archive.name)}  {archive.name}\n")
    run("sh", "-c", f"! {verify[f'SHA256SUMS{ending}']}", cwd=folder, **options)


def check_signatures(test, archive):
    said = test.release("--sign", status=1)
    expect("no key: make sign KEY=FILE" in said, f"without a key: {said}")
    key = test.work / "key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
    said = test.release("--sign", key)
    (test.work / "allowed_signers").write_text(said.split("allowed_signers: ")[-1])
    check_download(test, archive, ".sig", [test.work / "allowed_signers"])
    said = test.release("--sign", test.output / "SHA256SUMS", status=1)
    expect("neither an SSH key nor a minisign key" in said, f"another file as key: {said}")

    if shutil.which("minisign"):
        secret = test.work / "minisign.key"
        run("minisign", "-G", "-W", "-p", test.work / "minisign.pub", "-s", secret)
        test.release("--sign", secret)
        check_download(test, archive, ".minisig", [test.work / "minisign.pub"])
    if shutil.which("gpg"):
        home = test.work / "gpg"
        home.mkdir(mode=0o700)
        environment = {**os.environ, "GNUPGHOME": str(home)}
        run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "release@tcmalloc", "ed25519", "sign", env=environment)
        test.release("--sign", "release@tcmalloc", env=environment)
        check_download(test, archive, ".asc", env=environment)
        run("gpgconf", "--kill", "gpg-agent", env=environment)

    archive.write_bytes(archive.read_bytes() + b"\0")
    test.release("--sign", key, status=1)


def main():
    source, build, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    need("git", "cargo", "ssh-keygen")
    if subprocess.run(["git", "-c", "safe.directory=*", "-C", source, "rev-parse", "--verify", "-q", "HEAD"], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode:
        skip("the sources are no clone of the repository")
    if not (build / "bin/tcmalloc").exists():
        skip("the tcmalloc command is not built")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    test = Test(source, work)
    version = project_version(source)
    test.release("--uncommitted", "--tests", "none", "--build", build)
    check_files(test, version)
    check_components(test, version)
    check_archive(test, version)
    check_signatures(test, test.output / f"tcmalloc-{version}.tar.gz")


if __name__ == "__main__":
    main()
