# SPDX-License-Identifier: BSD-3-Clause
"""Which tests passed with the same files, so that make check need not run them again.

The fingerprint of a test covers all that it depends on: its command and environment, the contents of the files that these
name, of the shared libraries (except for unit tests) and of the helper programs that no test names, everything in the tree
that is not compiled (documents, scripts, build files), and the version of the kernel. Tests that read the sources must run
each time.
"""

import hashlib
import json
import pathlib
import platform
import re

COMPILED = {".cc", ".h", ".c"}
OUTSIDE = {"build", ".git"}  # folders that do not belong to the tree
FILE_NAME = "passed_tests.json"  # the file's name in the build folder


def _digest_of_file(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


class Files:
    """Contents of files, each read once."""

    def __init__(self):
        self._digests = {}

    def digest(self, path):
        path = str(path)
        if path not in self._digests:
            self._digests[path] = _digest_of_file(path)
        return self._digests[path]


def digest_of(words):
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def tree_digest(root, files):
    """The digest of the tree without files that are compiled."""
    words = []
    for top in sorted(root.iterdir()):
        if top.name in OUTSIDE:
            continue
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and path.suffix not in COMPILED and "__pycache__" not in path.parts:
                words += [str(path.relative_to(root)), files.digest(path)]
    return digest_of(words)


def named_files(test):
    """The files that a test's command and environment name; a test is its entry in ctest's JSON."""
    properties = {item["name"]: item["value"] for item in test.get("properties", [])}
    words = [*test.get("command", []), *properties.get("ENVIRONMENT", [])]
    paths = {word for text in words for word in re.split(r"[=:;]", text) if word.startswith("/")}
    return words, sorted(path for path in paths if pathlib.Path(path).is_file())


def fingerprints(root, build_dir, tests):
    """Name -> fingerprint of each of the tests."""
    files = Files()
    named = {test["name"]: named_files(test) for test in tests}
    all_named = {str(pathlib.Path(path).resolve()) for _, paths in named.values() for path in paths}
    others, libraries = [platform.release(), tree_digest(root, files)], []
    for path in sorted([*(build_dir / "bin").glob("*"), *(build_dir / "lib").glob("*")]):
        if not path.is_file() or path.suffix == ".a":  # programs contain the archives that they are linked with
            continue
        if path.name.startswith("libtcmalloc"):
            libraries += [path.name, files.digest(path)]
        elif str(path.resolve()) not in all_named:
            others += [path.name, files.digest(path)]

    def fingerprint(test):
        words, paths = named[test["name"]]
        # The programs of unit tests are linked with an archive, not with the shared libraries.
        of_all = others if "unit" in labels_of(test) else others + libraries
        return digest_of([*of_all, *words, *(files.digest(path) for path in paths)])

    return {test["name"]: fingerprint(test) for test in tests}


def labels_of(test):
    return next((item["value"] for item in test.get("properties", []) if item["name"] == "LABELS"), [])


def load(build_dir):
    """Name -> the fingerprint with which it passed."""
    try:
        return json.loads((build_dir / FILE_NAME).read_text())
    except (OSError, ValueError):
        return {}


def store(build_dir, passed):
    (build_dir / FILE_NAME).write_text(json.dumps(passed, indent=0, sort_keys=True))
