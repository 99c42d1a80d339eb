#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes and checks what a release publishes, from the last commit: make release. RELEASING.md lists the files.

  scripts/release.py                      everything, after make test, into build/release-artifacts
  scripts/release.py --tests all          after make test-all instead; none: no tests. Else make check runs in the archive too
  scripts/release.py --only-archive       only the source archive
  scripts/release.py --sign KEY           sign the checksums of what was made: a file of an SSH or minisign key, or a gpg key's ID
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import crates
import sbom

ROOT = pathlib.Path(__file__).resolve().parent.parent
ARTIFACTS = ROOT / "build/release-artifacts"
SUMS = "SHA256SUMS"
SIGNER = "release@tcmalloc"
BUILT = ("tcmalloc", "tcmalloc_minimal", "tcmalloc_debug", "tcmalloc_minimal_debug")


def fail(message):
    sys.exit(f"release: {message}")


def say(text):
    print(f"== {text}", flush=True)


def run(*command, quiet=False, **options):
    """Runs a command. If `quiet`, shows its output only if it fails."""
    if quiet:
        options.update(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    done = subprocess.run([str(word) for word in command], check=False, **options)
    if done.returncode:
        fail(f"{' '.join(map(str, command))} ended with {done.returncode}" + (f"\n{done.stdout[-4000:]}" if quiet else ""))
    return done


def git(*arguments, root=ROOT):
    done = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, *arguments], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        fail(f"git {arguments[0]} failed: a release is made in a clone of the repository")
    return done.stdout


def version_of(root):
    """The version, which must be the same in all places that contain it."""
    version = re.search(r"project\(tcmalloc VERSION ([\d.]+)", (root / "CMakeLists.txt").read_text())[1]
    for crate in ("tcmalloc-sys", "tcmalloc"):
        found = re.search(r'^version = "(.*)"', (root / f"packaging/rust/{crate}/Cargo.toml").read_text(), re.MULTILINE)[1]
        if found != version:
            fail(f"packaging/rust/{crate}/Cargo.toml says version {found}, CMakeLists.txt {version}")
    port = json.loads((root / "packaging/vcpkg/tcmalloc/vcpkg.json").read_text())["version"]
    if port != version:
        fail(f"packaging/vcpkg/tcmalloc/vcpkg.json says version {port}, CMakeLists.txt {version}")
    return version


def require_date(root, version):
    if not re.search(rf"^## {re.escape(version)} – \d{{4}}-\d\d-\d\d$", (root / "CHANGELOG.md").read_text(), re.MULTILINE):
        fail(f"CHANGELOG.md has no section '## {version} – DATE'")


def make_archive(root, version, output):
    """Archives the sources of the last commit. Its bytes are the same everywhere: fixed times, modes and owners.

    GNU gzip has a compressor of its own. Python and git use zlib, whose output differs between zlib and zlib-ng."""
    tar = git("-c", "tar.umask=0022", "-c", "core.autocrlf=false", "archive", "--format=tar", f"--prefix=tcmalloc-{version}/",
              "HEAD", root=root)
    with open(output, "wb") as file:
        run("gzip", "-9", "--no-name", input=tar, stdout=file)


def archive_twice(version, output):
    file = output / f"tcmalloc-{version}.tar.gz"
    make_archive(ROOT, version, file)
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder) / "clone"
        git("clone", "--quiet", "--no-local", ROOT, clone)
        git("checkout", "--quiet", "--detach", git("rev-parse", "HEAD").decode().strip(), root=clone)
        again = pathlib.Path(folder) / "again.tar.gz"
        make_archive(clone, version, again)
        if file.read_bytes() != again.read_bytes():
            fail(f"{file.name} differs from that of a new clone")
    print(f"{file.name}: {sbom.sha256(file)}, twice")
    return file


def unpack(archive, work):
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run("tar", "-xzf", archive, "-C", work)
    return work / archive.name.removesuffix(".tar.gz")


def build_archive(source, build, jobs, maintainer):
    options = [f"-DTCMALLOC_PACKAGE_MAINTAINER={maintainer}"] if maintainer else []
    run("cmake", "--preset", "release", "-B", build, "-DTCMALLOC_TESTS=OFF", "-DTCMALLOC_BENCH=OFF", *options, cwd=source, quiet=True)
    run("cmake", "--build", build, "-j", jobs, "--target", "command", *BUILT, *(f"{name}_static" for name in BUILT), quiet=True)


def check_build(build, version):
    """Checks that the files of the build contain the version."""
    library = build / "lib/libtcmalloc.so.4"
    for command in ((build / "bin/tcmalloc", "--version"), (build / "bin/tcmalloc", "run", "--library", library, "true")):
        said = run(*command, quiet=True).stdout
        if not re.search(rf"(^|TCMalloc ){re.escape(version)}$", said.strip(), re.MULTILINE):
            fail(f"{' '.join(map(str, command))} does not say version {version}: {said}")


def make_debian_packages(build, work, output):
    run("cpack", "--config", build / "CPackConfig.cmake", "-B", work / "debian", quiet=True)
    for file in (*(work / "debian").glob("*.deb"), *(work / "debian").glob("*.ddeb")):
        shutil.copy(file, output)


def make_wheel(source, build, work, output):
    """Builds the wheel, which must work in an environment without other packages."""
    folder = work / "wheel"
    shutil.copytree(source / "packaging/python", folder / "source")
    environment = {**os.environ, "TCMALLOC_SOURCE": str(source), "TCMALLOC_BUILD": str(build)}
    run("/usr/bin/python3", "-m", "venv", "--system-site-packages", folder / "tools", quiet=True)
    run(folder / "tools/bin/pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", output, folder / "source",
        quiet=True, env=environment)
    wheel, = output.glob("*.whl")
    run("/usr/bin/python3", "-m", "venv", folder / "empty", quiet=True)
    run(folder / "empty/bin/pip", "install", "--no-index", "--no-deps", wheel, quiet=True)
    script = folder / "script.py"
    script.write_text("import tcmalloc; print(tcmalloc.stats()['in_use_bytes'] > 0)\n")
    if "True" not in run(folder / "empty/bin/python", "-m", "tcmalloc", "run", script, quiet=True).stdout:
        fail(f"{wheel.name} does not work in an empty environment")


def make_crates(source, work, version, output):
    sys.path.insert(0, str(ROOT / "tests/packaging"))
    import rust_test  # its registry has the crates that were packed before
    packages = rust_test.Packages(source, work / "rust", version)
    for crate in crates.CRATES:
        folder = packages.pack(crate)
        if crate == "tcmalloc-sys":
            rust_test.has_all_sources(source, folder)
        shutil.copy(work / "rust/target/package" / f"{crate}-{version}.crate", output)


def write_sums(output):
    files = sorted(path for path in output.iterdir() if not path.name.startswith(SUMS))
    (output / SUMS).write_text("".join(f"{sbom.sha256(path)}  {path.name}\n" for path in files))
    run("sha256sum", "--check", "--quiet", SUMS, cwd=output)


def sign(output, key):
    if not (output / SUMS).exists():
        fail(f"there is no {output / SUMS}: run make release first")
    if not key:
        fail("no key: make sign KEY=FILE, with the file of an SSH or minisign key, or KEY=ID, with the ID of a gpg key")
    run("sha256sum", "--check", "--quiet", SUMS, cwd=output)
    sums = output / SUMS
    for ending in (".sig", ".minisig", ".asc"):
        pathlib.Path(f"{sums}{ending}").unlink(missing_ok=True)
    head = pathlib.Path(key).read_text(errors="replace")[:200] if os.path.isfile(key) else ""
    if "OPENSSH PRIVATE KEY" in head:
        run("ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", key, sums)
        with tempfile.TemporaryDirectory() as folder:
            allowed = pathlib.Path(folder) / "allowed_signers"
            public = subprocess.run(["ssh-keygen", "-y", "-f", key], check=True, stdout=subprocess.PIPE, text=True).stdout
            allowed.write_text(f"{SIGNER} {public}")
            with open(sums, encoding="ascii") as text:
                run("ssh-keygen", "-Y", "verify", "-f", allowed, "-I", SIGNER, "-n", "file", "-s", f"{sums}.sig", stdin=text)
        print(f"publish with the key, as allowed_signers: {SIGNER} {public}", end="")
    elif head.startswith("untrusted comment:"):
        run("minisign", "-S", "-s", key, "-m", sums)
    elif head:
        fail(f"{key} is neither an SSH key nor a minisign key")
    else:
        run("gpg", "--yes", "--armor", "--detach-sign", "--local-user", key, "--output", f"{sums}.asc", sums)
        run("gpg", "--verify", f"{sums}.asc", sums)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=ARTIFACTS, help="default: build/release-artifacts")
    parser.add_argument("--tests", choices=("none", "check", "test", "all"), default="test", help="tests to run first; default: test")
    parser.add_argument("--only-archive", action="store_true", help="make only the source archive")
    parser.add_argument("--uncommitted", action="store_true", help="for a trial: leave out changes that are not committed, and accept a changelog without the date")
    parser.add_argument("--build", type=pathlib.Path, help="take libraries and command from this build folder, instead of building the archive")
    parser.add_argument("--maintainer", default="", help="of the Debian packages: NAME <ADDRESS>")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="default: one per CPU")
    parser.add_argument("--sign", metavar="KEY", nargs="?", const="", help="sign what was made")
    options = parser.parse_args()
    output = options.output.resolve()
    if options.sign is not None:
        sign(output, options.sign)
        return

    commit = git("rev-parse", "HEAD").decode().strip()
    changed = git("status", "--porcelain").decode()
    if changed and not options.uncommitted:
        fail(f"commit or remove these changes first, since the last commit is released:\n{changed}")
    version = version_of(ROOT)
    seconds = int(git("show", "-s", "--format=%ct", "HEAD"))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)

    say(f"tcmalloc {version}, commit {commit[:12]}: the source archive")
    archive = archive_twice(version, output)
    if options.only_archive:
        return
    if not options.uncommitted:
        require_date(ROOT, version)
    work = output.parent / f"{output.name}-work"
    source = unpack(archive, work)
    if options.tests != "none":
        say(f"tests of the archive, in {source}")
        run(source / "scripts/test.py", "--tier", "check", "--jobs", options.jobs)
        if options.tests != "check":
            say(f"tests of the repository: make test{'-all' if options.tests == 'all' else ''}")
            run(ROOT / "scripts/test.py", "--tier", options.tests, "--jobs", options.jobs)
        shutil.rmtree(source / "build")
    say("build of the archive")
    os.environ["SOURCE_DATE_EPOCH"] = str(seconds)
    build = options.build.resolve() if options.build else work / "build"
    if not options.build:
        build_archive(source, build, options.jobs, options.maintainer)
    check_build(build, version)
    say("Debian packages, wheel, crates")
    make_debian_packages(build, work, output)
    make_wheel(source, build, work, output)
    make_crates(source, work, version, output)
    say("components, checksums")
    sbom.write(output / f"tcmalloc-{version}.spdx.json", version, commit, created, build,
               sorted(path for path in output.iterdir()))
    write_sums(output)
    shutil.rmtree(work)
    print((output / SUMS).read_text(), end="")
    print(f"all in {output}; to sign: make sign KEY=...")


if __name__ == "__main__":
    main()
