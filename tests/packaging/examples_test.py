#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The examples of packaging/examples, built without a network and run; they print what their pages show.

Usage: examples_test.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER fetchcontent|go

fetchcontent: CMake takes the library from a path of a repository, a clone of the last commit, in which v1.0.0 is a tag; then
from the folder of the sources, and builds it.
go: cgo finds the library, which is installed into a folder, by pkg-config.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from clients import environment
from steps import expect, run, skip

GO = "/usr/lib/go-1.19/bin/go"  # Debian's golang-1.19-go puts no link into /usr/bin


def expect_shown(output, page):
    expect(f"\n{output.strip()}\n" in page.read_text(), f"{page} does not show: {output}")
    print(output, end="")


def example_of(source, work, name):
    """A copy of an example, which the page shows unchanged."""
    folder = work / name
    shutil.copytree(source / "packaging/examples" / name, folder)
    return folder


def fetchcontent(source, build, work):
    page = source / "docs/cmake.md"
    folder = example_of(source, work, "fetchcontent")
    text = (folder / "CMakeLists.txt").read_text().split("\n", 1)[1]
    expect(text.strip() in page.read_text(), f"{page} does not show packaging/examples/fetchcontent/CMakeLists.txt")
    tag = re.search(r"GIT_TAG (\S+)\)", text)[1]
    repository = work / "repository"
    git = ["git", "-c", "safe.directory=*"]
    if not subprocess.run([*git, "clone", "--quiet", "--no-local", source, repository], check=False).returncode:
        run(*git, "-C", repository, "tag", "--force", tag)
        run("cmake", "-G", "Ninja", "-S", folder, "-B", work / "by_url", f"-DTCMALLOC_REPOSITORY=file://{repository}",
            env=environment())
        expect((work / "by_url/_deps/tcmalloc-src/src/CMakeLists.txt").exists(), "CMake has not fetched the library")
    options = []
    if shutil.which("ccache"):
        options = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")]
    run("cmake", "-G", "Ninja", "-S", folder, "-B", work / "by_path", f"-DFETCHCONTENT_SOURCE_DIR_TCMALLOC={source}", *options,
        env=environment())
    run("cmake", "--build", work / "by_path", "--target", "words", env=environment())
    output = run(work / "by_path/words", input="to be or not to be")
    expect_shown(output, page)
    linked = run("ldd", work / "by_path/words")
    expect("tcmalloc" not in linked, f"words needs a library of ours:\n{linked}")


def go(source, build, work):
    page = source / "docs/go.md"
    compiler = GO if os.path.exists(GO) else shutil.which("go")
    if not compiler:
        skip("go is not installed")
    prefix = work / "tcmalloc"
    run("cmake", "--install", build, "--prefix", prefix)
    folder = example_of(source, work, "go")
    expect((folder / "main.go").read_text().split("\n\n", 1)[1].strip() in page.read_text(),
           f"{page} does not show packaging/examples/go/main.go")
    settings = environment(PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"), CGO_LDFLAGS_ALLOW="-Wl,.*",
                           CGO_LDFLAGS=f"-Wl,-rpath,{prefix}/lib", GOPROXY="off", GOFLAGS="-mod=mod", GOTOOLCHAIN="local",
                           GOCACHE=str(work / "cache"), GOPATH=str(work / "path"), HOME=str(work))
    run(compiler, "build", "-o", work / "buffers", ".", cwd=folder, env=settings)
    expect_shown(run(work / "buffers"), page)


def main():
    source, build, work = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    {"fetchcontent": fetchcontent, "go": go}[sys.argv[4]](source, build, work)


if __name__ == "__main__":
    main()
