#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The wheel of packaging/python: built, installed into a virtual environment without a network, and used.

Usage: wheel_test.py SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER

* The wheel has the library, the licence and, where it was built, the command. Its tag names this kind of machine.
* A wheel without the command, which needs libraries of the distribution, is a manylinux one, and pip installs it.
* A script under "python -m tcmalloc run" is served by TCMalloc; without that, calls say what to do.
* The example prints what docs/python.md shows. Each format of a profile is written; the flame graph names functions.
* With a Python 3.12 or newer, if there is one, --names names the Python function that allocated.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile

import shown
from steps import expect, project_version, run, skip

# The interpreter of the distribution, for which setuptools is installed.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

# Lines of the example that depend on how the interpreter was compiled, or on chance.
FREE = r"\d objects  |^ {20}|^  and |  free, in |  in free pages"
STATISTICS = """
import tcmalloc
before = tcmalloc.stats()["in_use_bytes"]
held = [bytes(1000) for _ in range(20000)]
grown = tcmalloc.stats()["in_use_bytes"] - before
assert 20_000_000 < grown < 40_000_000, grown
assert "in objects that the program holds" in tcmalloc.stats()._repr_html_()
assert tcmalloc.get_property("generic.current_allocated_bytes") > 20_000_000
assert tcmalloc.properties().keys() >= {"generic.heap_size", "tcmalloc.slack_bytes"}
assert "MALLOC:" in tcmalloc.stats_text() and len(tcmalloc.stats_text(True)) > len(tcmalloc.stats_text())
assert tcmalloc.openmetrics().endswith("# EOF\\n")
tcmalloc.set_property("tcmalloc.max_total_thread_cache_bytes", 8 << 20)
for call, message in ((lambda: tcmalloc.get_property("no.such"), "has no property no.such"),
                      (lambda: tcmalloc.set_property("generic.heap_size", 0), "heap_size cannot be set to 0")):
    try:
        call()
        raise SystemExit("no exception")
    except (KeyError, tcmalloc.Error) as error:
        assert message in str(error), error
del held
tcmalloc.trim()
assert tcmalloc.get_property("tcmalloc.pageheap_free_bytes") < 1 << 20
assert tcmalloc.flush_this_thread_cache() >= 0 and tcmalloc.flush_all_thread_caches() >= 0
print("statistics ok")
"""

PROFILES = """
import gzip, os, sys
import tcmalloc
folder = sys.argv[1]
def allocate():
    return [str(number) * 20 for number in range(100000)]
with tcmalloc.profile(interval=4096) as profile:
    held = allocate()
    try:
        tcmalloc.profile().__enter__()
        raise SystemExit("two recordings at a time")
    except tcmalloc.Error as error:
        assert "recorded already" in str(error), error
total = sum(int(line.rsplit(" ", 1)[1]) for line in profile.folded().splitlines())
assert 7_000_000 < total < 40_000_000, total
for ending in (".svg", ".folded", ".txt", ".html", ".json", ".heap", ".pb.gz"):
    profile.save(f"{folder}/profile{ending}")
assert len(gzip.decompress(open(f"{folder}/profile.pb.gz", "rb").read())) > 1000
assert profile._repr_html_().startswith("<svg")
held = None
with tcmalloc.profile(interval=4096, kind="in-use") as profile:
    more = allocate()
    dropped = allocate()
    del dropped
total = sum(int(line.rsplit(" ", 1)[1]) for line in profile.folded().splitlines())
assert 7_000_000 < total < 25_000_000, total
try:
    with tcmalloc.profile():
        raise KeyError("of the block")
except KeyError:
    pass
with tcmalloc.profile():  # the recording before has ended
    pass
print("profiles ok")
"""

# Names in the form in which an interpreter writes them if it names its functions. A name has to be
# escaped in a drawing.
NAMES = """
import os
from tcmalloc.profiles import PythonNames
path = f"/tmp/perf-{os.getpid()}.map"
with open(path, "w") as file:
    file.write("7f0000001000 20 py::build:/srv/a.py\\n7f0000001020 b py::<module>:/srv/b.py\\n7f0000002000 8 other\\n")
names = PythonNames(os.getpid())
os.unlink(path)
assert names.put_into("0x7f0000001005;f 10") == "build (a.py);f 10"
assert names.put_into("0x7f0000001fff;0x7f0000002001;f") == "0x7f0000001fff;0x7f0000002001;f"
drawing = names.put_into_drawing("<title>0x7f0000001021 (1 B)</title><text>0x7f0000001021</text><text>0x7f</text>")
assert drawing == "<title>&lt;module&gt; (b.py) (1 B)</title><text>&lt;module&gt; (b.py</text><text>0x7f</text>", drawing
"""


def lacks_tools():
    return subprocess.run([PYTHON, "-c", "import setuptools, wheel, venv, ensurepip"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode != 0


def build_wheel(source, build, work, command=None):
    """Makes a virtual environment with the wheel's build tools in `work`, and the wheel; with another file of the command, which
    needs no library of the distribution."""
    # Building leaves files beside setup.py.
    shutil.copytree(source / "packaging/python", work / "source")
    run(PYTHON, "-m", "venv", "--system-site-packages", work / "tools")
    run(work / "tools/bin/pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", work / "dist", work / "source",
        env={**os.environ, "TCMALLOC_SOURCE": str(source), "TCMALLOC_BUILD": str(build)} | (
            {"TCMALLOC_COMMAND": str(command)} if command else {}))
    wheels = list((work / "dist").glob("*.whl"))
    expect(len(wheels) == 1, f"there are {len(wheels)} wheels")
    system = r"manylinux_2_\d+" if command else "linux"
    name = rf"tcmalloc-{re.escape(project_version(source))}-py3-none-{system}_{platform.machine()}\.whl"
    expect(re.fullmatch(name, wheels[0].name), f"the wheel is {wheels[0].name}, not {name}")
    files = set(zipfile.ZipFile(wheels[0]).namelist())
    wanted = {"tcmalloc/native/libtcmalloc.so.4"} | {f"tcmalloc/{path.name}"
                                                    for path in (source / "packaging/python/tcmalloc").glob("*.py")}
    if (command or build / "bin/tcmalloc").exists():
        wanted.add("tcmalloc/native/tcmalloc")
    expect(wanted == {file for file in files if file.startswith("tcmalloc/")}, f"the wheel has {sorted(files)}")
    licences = [zipfile.ZipFile(wheels[0]).read(file) for file in files if file.endswith("/LICENSE")]
    expect(licences == [(source / "LICENSE").read_bytes()], f"the wheel's licences are {licences}")
    print(f"{wheels[0].name}: {wheels[0].stat().st_size} bytes")
    return wheels[0]


def install(python, wheel, folder):
    """The interpreter of a new virtual environment that has the wheel."""
    run(python, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "--no-index", "--no-deps", wheel)
    return folder / "bin/python"


def check_profiles(python, work, page, source):
    print(run(python, "-m", "tcmalloc", "run", "-c", PROFILES, work))
    tree = ElementTree.parse(work / "profile.svg")
    titles = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}title")]
    expect(any(title.startswith("_PyEval_EvalFrameDefault") for title in titles), f"the flame graph has {titles[:5]}")
    output = run(python, "-m", "tcmalloc", "run", source / "packaging/python/examples/index.py")
    page.compare_lines("python -m tcmalloc run index.py", re.sub(r"^python\w* \(process \d+", "python3 (process PID", output, flags=re.MULTILINE), FREE)


def check_names(wheel, work, source):
    newer = [path for path in map(shutil.which, ("python3.12", "python3.13", "python3.14")) if path and subprocess.run(
        [path, "-c", "import venv, ensurepip"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0]
    for path in newer[:1]:
        python = install(path, wheel, work / "newer")
        run(python, "-m", "tcmalloc", "run", "--names", source / "packaging/python/examples/index.py", work / "named.svg")
        drawing = (work / "named.svg").read_text()
        expect("build_index (index.py) (" in drawing, f"{path}: the flame graph does not name build_index")
        ElementTree.fromstring(drawing)
        print(f"{path} names Python functions")


def main():
    source, build, work = (pathlib.Path(name).resolve() for name in sys.argv[1:4])
    if lacks_tools():
        skip("python3-setuptools, python3-wheel or python3-venv is not installed")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    wheel = build_wheel(source, build, work)
    python = install(PYTHON, wheel, work / "user")
    print(run(python, "-m", "tcmalloc", "run", "-c", STATISTICS))
    said = run(python, "-c", "import tcmalloc; tcmalloc.stats()", status=1)
    expect("start it with python -m tcmalloc run SCRIPT" in said, said)
    expect("run needs a script" in run(python, "-m", "tcmalloc", "run", status=1), "no message without a script")
    run(python, "-m", "tcmalloc", "run", "-c", "raise SystemExit(7)", status=7)
    run(python, "-c", NAMES)
    (work / "without").mkdir()
    without = install(PYTHON, build_wheel(source, build, work / "without", work / "no_command"), work / "without/user")
    print(run(without, "-m", "tcmalloc", "run", "-c", STATISTICS))
    if (build / "bin/tcmalloc").exists():
        expect("Usage: tcmalloc" in run(python, "-m", "tcmalloc", "stats", "--help"), "the command does not run")
        check_profiles(python, work, shown.Page(source / "docs/python.md"), source)
        check_names(wheel, work, source)


if __name__ == "__main__":
    main()
