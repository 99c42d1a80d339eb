# SPDX-License-Identifier: BSD-3-Clause
"""Peers that are built here: the C and C++ sources inside their Rust source packages.

cargo fetches a package of a pinned version, and its sources are compiled into one shared library
that overrides malloc. No Rust is compiled or measured. Everything is kept in build/peers/. The
compiler is clang if it is installed, which most authors of these allocators use, else the system's
compiler; each library's version names it.
"""

import concurrent.futures
import dataclasses
import functools
import os
import pathlib
import platform
import shutil
import subprocess

OPTIMISE = ("-O3", "-DNDEBUG", "-w", "-fPIC")
DOUBLE_WORD_EXCHANGE = ("-mcx16",) if platform.machine() == "x86_64" else ()
EXPORT_MARKED = ("-fvisibility=hidden", "-ftls-model=initial-exec")


@dataclasses.dataclass(frozen=True)
class SourcePeer:
    name: str
    package: str
    package_version: str
    # The authors' version of the sources in that package.
    version: str
    # The folder of the package in which the compiler runs; the sources are glob patterns below it.
    folder: str
    sources: tuple
    flags: tuple
    # Endings of file names that are left out of `sources`, besides tests and benchmarks.
    excluded: tuple = ()
    # Sources that are compiled into an archive, from which the linker takes what the others need.
    helpers: str = ""


SOURCE_PEERS = (
    SourcePeer(
        name="mimalloc3", package="libmimalloc-sys", package_version="0.1.49", version="3.3.2",
        folder="c_src/mimalloc/v3", sources=("src/static.c",),
        flags=("-std=gnu11", "-Iinclude", "-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB",
               "-DMI_SHARED_LIB_EXPORT", "-fno-builtin-malloc", *EXPORT_MARKED)),
    SourcePeer(
        name="snmalloc", package="snmalloc-sys", package_version="0.7.6", version="0.7.6",
        folder="upstream",
        sources=("src/snmalloc/override/malloc.cc", "src/snmalloc/override/new.cc"),
        flags=("-std=c++20", "-Isrc", "-DSNMALLOC_USE_CXX11_THREAD_ATEXIT_DIRECT",
               "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1",
               '-DSNMALLOC_EXPORT=__attribute__((visibility("default")))', *EXPORT_MARKED,
               *DOUBLE_WORD_EXCHANGE)),
    SourcePeer(
        name="rpmalloc", package="rpmalloc-sys", package_version="0.2.3", version="1.4.3",
        folder="rpmalloc/rpmalloc", sources=("rpmalloc.c",),
        flags=("-std=gnu11", "-DENABLE_OVERRIDE=1", "-DENABLE_PRELOAD=1")),
    SourcePeer(
        name="google", package="libtcmalloc-sys", package_version="0.1.14", version="0.1.14",
        folder="c_src",
        sources=("tcmalloc/tcmalloc/*.cc", "tcmalloc/tcmalloc/internal/*.cc",
                 "tcmalloc/tcmalloc/internal/percpu_rseq_asm.S", "tcmalloc/tcmalloc/selsan/*.cc"),
        # These need protocol buffers, or are for other processors.
        excluded=("profile_marshaler.cc", "profile_builder.cc", "unsupported.cc"),
        helpers="abseil-cpp/absl/**/*.cc",
        flags=("-std=c++17", "-Itcmalloc", "-Iabseil-cpp", "-DTCMALLOC_INTERNAL_8K_PAGES")),
)


class BuildFailed(Exception):
    """A peer could not be fetched or compiled. The exception's text gives the reason."""


def built_library(peer, folder):
    """The path of the peer's library, built or not."""
    return _work_folder(peer, folder) / f"lib{peer.name}.so"


def describe(peer, folder):
    """The versions of a built peer and the compiler it was built with."""
    stamp = _work_folder(peer, folder) / "compiler"
    compiler = stamp.read_text().strip() if stamp.is_file() else "unknown compiler"
    return f"{peer.version} ({peer.package} {peer.package_version}, {compiler})"


def can_build():
    return shutil.which("cargo") is not None


def build(peer, folder, jobs):
    """Fetches and compiles the peer, unless it is built. Raises BuildFailed."""
    library = built_library(peer, folder)
    if library.is_file():
        return
    work = _work_folder(peer, folder)
    work.mkdir(parents=True, exist_ok=True)
    package = _fetch(peer, work)
    source_folder = package / peer.folder
    compilers = _compilers()
    sources = [path for pattern in peer.sources for path in source_folder.glob(pattern)]
    objects = work / "objects"
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        compile_one = functools.partial(_compile, peer, compilers, source_folder, objects)
        main_objects = list(pool.map(compile_one, _chosen(peer, sources)))
        helpers = list(pool.map(compile_one, _chosen(peer, source_folder.glob(peer.helpers))
                                if peer.helpers else []))
    inputs = main_objects
    if helpers:
        archive = work / "helpers.a"
        archive.unlink(missing_ok=True)
        _command(["ar", "rcs", archive, *helpers], work)
        inputs = [*main_objects, archive]
    is_cpp = any(path.suffix == ".cc" for path in sources)
    unfinished = library.with_suffix(".tmp")
    _command([compilers[is_cpp], "-shared", "-Wl,-z,defs", "-o", unfinished, *inputs, "-lpthread",
              "-ldl"], work)
    version = subprocess.run([compilers[is_cpp], "--version"], stdout=subprocess.PIPE, text=True)
    (work / "compiler").write_text(version.stdout.splitlines()[0] + "\n")
    unfinished.rename(library)
    shutil.rmtree(objects)


def _work_folder(peer, folder):
    return pathlib.Path(folder) / f"{peer.name}-{peer.package_version}"


def _compilers():
    """The compilers for C and for C++."""
    for suffix in ("-19", ""):
        if shutil.which("clang" + suffix) and shutil.which("clang++" + suffix):
            return "clang" + suffix, "clang++" + suffix
    return "cc", "c++"


def _fetch(peer, work):
    """The folder with the package's files."""
    manifest = work / "fetch" / "Cargo.toml"
    manifest.parent.mkdir(exist_ok=True)
    manifest.write_text(
        '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n\n'
        '[lib]\npath = "empty.rs"\n\n'
        f'[dependencies]\n{peer.package} = "={peer.package_version}"\n')
    (manifest.parent / "empty.rs").touch()
    _command(["cargo", "vendor", "--quiet", "--manifest-path", manifest, work / "packages"], work)
    return work / "packages" / peer.package


def _chosen(peer, paths):
    endings = ("_test.cc", "_fuzz.cc", *peer.excluded)
    parts = ("mock_", "test_", "testing", "want_", "_test_", "benchmark")
    return sorted(path for path in paths if not path.name.endswith(endings)
                  and not any(part in path.name for part in parts))


def _compile(peer, compilers, source_folder, objects, source):
    path = source.relative_to(source_folder)
    target = objects / path.with_name(path.name + ".o")
    target.parent.mkdir(parents=True, exist_ok=True)
    compiler = compilers[source.suffix != ".c"]
    _command([compiler, *OPTIMISE, *peer.flags, "-c", path, "-o", target.absolute()], source_folder)
    return target.absolute()


def _command(command, folder):
    result = subprocess.run([os.fspath(word) for word in command], cwd=folder, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if "error" in line.lower()]
        detail = (lines or result.stderr.splitlines() or ["no message"])[0]
        raise BuildFailed(f"{command[0]} failed: {detail[:300]}")
