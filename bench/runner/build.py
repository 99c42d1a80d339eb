# SPDX-License-Identifier: BSD-3-Clause
"""Builds what is measured: the working tree's programs and libraries, libraries of revisions."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tarfile

from .process import BenchError

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("bench_micro", "bench_memory", "bench_launch", "bench_warm_memory",
            "bench_probe_machine", "bench_programs")
# Target and file of each library.
LIBRARIES = {"minimal": ("tcmalloc_minimal", "libtcmalloc_minimal.so.4"),
             "full": ("tcmalloc", "libtcmalloc.so.4")}
# Each revision's libraries are kept in a folder below this one, and so are the results of comparisons.
COMPARE_FOLDER = ROOT / "build" / "compare"


def working_tree(targets, is_bare=False):
    """Builds these targets and returns the folder that holds bin/ and lib/."""
    if is_bare:
        # The preset needs ninja, and the tests need GoogleTest. So this build has a folder of its own.
        folder = ROOT / "build" / "bare"
        configure = ["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
                     "-DTCMALLOC_TESTS=OFF", "--log-level=WARNING"]
    else:
        folder = ROOT / "build" / "release"
        configure = ["cmake", "--preset", "release", "--log-level=WARNING"]
    _run(configure, ROOT)
    _build(folder, targets, ROOT)
    return folder


def revision(name, say):
    """The libraries of a revision, by the names of LIBRARIES, and its full hash. Built once."""
    commit = _resolve(name)
    folder = COMPARE_FOLDER / commit[:12]
    made_by = _compiler()
    if not _is_built(folder, made_by):
        say(f"building {name} ({commit[:12]}), once")
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "source").mkdir(parents=True)
        _extract(commit, folder / "source")
        # Builds as the revision itself does for a release, without its tests and benchmarks.
        _run(["cmake", "--preset", "release", "--log-level=WARNING", "-DTCMALLOC_TESTS=OFF",
              "-DTCMALLOC_BENCH=OFF"], folder / "source")
        built = folder / "source" / "build" / "release"
        _build(built, [target for target, _ in LIBRARIES.values()], folder / "source")
        (folder / "lib").mkdir()
        for _, file in LIBRARIES.values():
            shutil.copy(built / "lib" / file, folder / "lib" / file)
        shutil.rmtree(folder / "source")
        (folder / "compiler").write_text(made_by)
    return {kind: folder / "lib" / file for kind, (_, file) in LIBRARIES.items()}, commit


def describe_tree():
    """The working tree's revision, and whether it has uncommitted changes."""
    result = _git("describe", "--always", "--dirty=, with changes", "--exclude=*")
    return result.stdout.strip() if result.returncode == 0 else "unknown revision"


def _resolve(name):
    result = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if result.returncode != 0:
        raise BenchError(f"{name} is no revision of this repository; 'git log --oneline' lists "
                         "them")
    return result.stdout.strip()


def _git(*arguments):
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    except FileNotFoundError:
        raise BenchError("git is not installed, and revisions come from it") from None


def _extract(commit, folder):
    archiver = subprocess.Popen(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE)
    with contextlib.closing(archiver.stdout), tarfile.open(fileobj=archiver.stdout,
                                                           mode="r|") as archive:
        archive.extractall(folder)
    if archiver.wait() != 0:
        raise BenchError(f"git archive {commit} failed")


def _is_built(folder, made_by):
    try:
        return ((folder / "compiler").read_text() == made_by
                and all((folder / "lib" / file).is_file() for _, file in LIBRARIES.values()))
    except OSError:
        return False


def _compiler():
    """The things besides its sources on which a library depends, as text."""
    compiler = os.environ.get("CXX", "c++")
    try:
        result = subprocess.run([compiler, "--version"], text=True, stdout=subprocess.PIPE)
    except FileNotFoundError:
        raise BenchError(f"{compiler}: there is no compiler of this name") from None
    flags = " ".join(os.environ.get(name, "") for name in ("CXXFLAGS", "LDFLAGS"))
    return f"{result.stdout.splitlines()[0]}\n{flags}\n"


def _build(folder, targets, source):
    jobs = str(len(os.sched_getaffinity(0)))
    _run(["cmake", "--build", folder, "-j", jobs, "--target", *targets], source)


def _run(command, folder):
    result = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    if result.returncode != 0:
        lines = result.stdout.strip().splitlines()
        raise BenchError("\n".join([f"{' '.join(map(str, command))} failed in {folder}:",
                                    *lines[-30:]]))
