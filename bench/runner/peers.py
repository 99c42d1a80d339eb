# SPDX-License-Identifier: BSD-3-Clause
"""The allocators that are measured: this project's library, the C library, and other allocators
that are installed.

A peer that is not installed is listed with the reason, and the tables show it as missing.
"""

import dataclasses
import os
import pathlib
import platform
import subprocess

from . import peer_sources

# (name, Debian package, file names)
PACKAGED = (
    ("gperftools", "libtcmalloc-minimal4", ("libtcmalloc_minimal.so.4",)),
    ("jemalloc", "libjemalloc2", ("libjemalloc.so.2",)),
    ("mimalloc2", "libmimalloc2.0", ("libmimalloc.so.2.0", "libmimalloc.so.2")),
)
C_LIBRARY = "glibc"
ROOT = pathlib.Path(__file__).resolve().parents[2]
# Google's library has per-CPU caches only if it can register its own rseq area, and a thread has
# one. With this variable the C library registers none.
PER_CPU = {"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}


@dataclasses.dataclass
class Allocator:
    name: str
    # The real path of the file that must serve malloc; empty if it is missing.
    library: str
    source: str
    # The value of LD_PRELOAD; empty if nothing is preloaded.
    preload: str = ""
    environment: dict = dataclasses.field(default_factory=dict)
    version: str = ""
    ours: bool = False

    @property
    def missing(self):
        return not self.library


def find(build_folder, peers_folder, ours=(), extra=(), build_sources=True, jobs=1,
         say=lambda text: None):
    """All allocators, ours first. `ours` and `extra` are pairs of a name and a path.

    One of `extra` takes the place of the usual peer of its name. Its name may end in @VERSION, which the tables show.
    """
    given = {name.partition("@")[0] for name, _ in extra}
    ours = ours or [("tcmalloc", build_folder / "lib" / "libtcmalloc_minimal.so.4")]
    allocators = [_from_file(name, path, f"expected at {path}", ours=True) for name, path in ours]
    for allocator in allocators:
        allocator.version = _own_version(build_folder)
    c_library = c_library_path()
    allocators.append(Allocator(
        name=C_LIBRARY, library=c_library, source="the C library",
        version=_package_version("libc6") or " ".join(platform.libc_ver())))
    for name, package, files in PACKAGED:
        if name not in given:
            allocators.append(_packaged(name, package, files, c_library))
    for peer in peer_sources.SOURCE_PEERS:
        if peer.name not in given:
            allocators += _from_sources(peer, peers_folder, build_sources, jobs, say)
    for name, path in extra:
        name, _, version = name.partition("@")
        allocators.append(_from_file(name, path, f"expected at {path}"))
        allocators[-1].version = version
    names = [allocator.name for allocator in allocators]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two allocators are called {name}")
    return allocators


def portable(text):
    """`text` with paths inside the repository relative to its root, so that results name no user's folders."""
    return text.replace(f"{ROOT}/", "")


def c_library_path():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[5].strip() if line.count("/") else ""
            if os.path.basename(path).startswith(("libc.so.6", "libc-2.")):
                return os.path.realpath(path)
    raise RuntimeError("no C library is mapped into this process")


def _from_file(name, path, source, ours=False):
    real = os.path.realpath(path)
    if not os.path.isfile(real):
        return Allocator(name=name, library="", source=source, ours=ours)
    return Allocator(name=name, library=real, preload=real, source=source, ours=ours)


def packaged(name):
    """One of PACKAGED."""
    package, files = next((package, files) for known, package, files in PACKAGED if known == name)
    return _packaged(name, package, files, c_library_path())


def _packaged(name, package, files, c_library):
    """A library of the distribution: beside the C library, or where other distributions put it.

    /usr/local is left out: this project may be installed there under the name of gperftools.
    """
    beside = os.path.dirname(c_library)
    for folder in (beside, "/usr" + beside, "/usr/lib64", "/usr/lib"):
        for file in files:
            path = os.path.join(folder, file)
            if os.path.isfile(path):
                allocator = _from_file(name, path, f"package {package}")
                allocator.version = _package_version(package) or os.path.basename(allocator.library)
                return allocator
    return Allocator(name=name, library="", source=f"package {package} is not installed")


def _from_sources(peer, folder, build_it, jobs, say):
    library = peer_sources.built_library(peer, folder)
    why = ""
    if not library.is_file():
        if not peer_sources.can_build():
            why = "needs cargo to fetch its sources"
        elif not build_it:
            why = "not built yet: 'make bench' without --quick builds it"
        else:
            say(f"fetching and compiling {peer.name} {peer.version} (once)")
            try:
                peer_sources.build(peer, folder, jobs)
            except peer_sources.BuildFailed as failure:
                why = f"could not be built: {failure}"
    allocator = _from_file(peer.name, library, why or f"sources in {peer.package}")
    if not allocator.missing:
        allocator.version = peer_sources.describe(peer, folder)
    if peer.name != "google":
        return [allocator]
    return [allocator, dataclasses.replace(allocator, name="google-percpu", environment=PER_CPU)]


def _package_version(package):
    try:
        result = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\n", package],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError:
        return ""
    return result.stdout.split("\n")[0] if result.returncode == 0 else ""


def _own_version(build_folder):
    try:
        result = subprocess.run(["git", "describe", "--always", "--dirty", "--tags"], cwd=ROOT,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError:
        return f"built in {build_folder.name}"
    return f"{result.stdout.strip() or 'unknown revision'}, built in {build_folder.name}"
