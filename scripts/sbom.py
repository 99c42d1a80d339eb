# SPDX-License-Identifier: BSD-3-Clause
"""The list of components of a release, as a document of SPDX 2.3.

The components come from the files: the dynamic sections of the library and the command name the libraries that they
need, and dpkg gives the package of each and its version. Only components that leave no trace in a file are listed
here: headers and archives that are compiled into the command.
"""

import hashlib
import json
import pathlib
import re
import subprocess

# Packages that are compiled into the command: Debian's package -> name of the project, its licence.
COMPILED_IN = {
    "libcli11-dev": ("CLI11", "BSD-3-Clause"),
    "nlohmann-json3-dev": ("JSON for Modern C++", "MIT"),
    "libiberty-dev": ("libiberty", "LGPL-2.0-or-later"),
}


def needed(file):
    """The sonames of the libraries that a file needs."""
    run = subprocess.run(["readelf", "-Wd", file], check=True, stdout=subprocess.PIPE, text=True)
    return re.findall(r"\(NEEDED\).*\[(.*?)\]", run.stdout)


def loaded_files(file):
    """{soname: file} as the dynamic linker finds them."""
    run = subprocess.run(["ldd", file], check=True, stdout=subprocess.PIPE, text=True)
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", run.stdout, re.MULTILINE))


def package_of(file):
    """Debian's package of a file, as (name, version, source)."""
    # dpkg knows the file by its path below /usr, or, if /lib is a link, by the path without /usr.
    names = {str(pathlib.Path(file)), str(pathlib.Path(file).resolve())}
    names |= {name.removeprefix("/usr") for name in names} | {f"/usr{name}" for name in names if not name.startswith("/usr")}
    run = subprocess.run(["dpkg-query", "-S", *sorted(names)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                         check=False)
    owners = {line.split(":")[0] for line in run.stdout.splitlines() if not line.startswith("diversion")}
    if len(owners) != 1:
        raise SystemExit(f"release: no package, or more than one, has {file}: {sorted(owners)}")
    return installed(owners.pop())


def installed(package):
    run = subprocess.run(["dpkg-query", "-W", "-f", "${Package}|${Version}|${source:Package}\n", package], check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if run.returncode:
        raise SystemExit(f"release: the package {package} is not installed")
    return tuple(run.stdout.split("\n")[0].split("|"))


def identifier(*words):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(words))


def sha256(file):
    return hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()


class Document:

    def __init__(self, version, commit, created):
        self.version = version
        self.packages, self.files, self.relations = {}, [], []
        self.head = {
            "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"tcmalloc-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/tcmalloc-{version}-{commit}",
            "creationInfo": {"created": created, "creators": [f"Tool: tcmalloc-scripts-release-{version}"]},
        }

    def package(self, name, version, licence, **more):
        key = identifier("Package", name)
        self.packages.setdefault(key, {
            "SPDXID": key, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more})
        return key

    def own(self, name, comment):
        key = self.package(name, self.version, "BSD-3-Clause", comment=comment)
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", key)
        return key

    def of_debian(self, package, licence="NOASSERTION", name=None):
        found, version, source = package
        return self.package(name or found, version, licence, externalRefs=[{
            "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
            "referenceLocator": f"pkg:deb/debian/{found}@{version.replace('+', '%2B').replace(':', '%3A')}"}],
            sourceInfo=f"Debian's package {found}, of the source {source}")

    def file(self, path):
        key = identifier("File", path.name)
        self.files.append({"SPDXID": key, "fileName": f"./{path.name}", "licenseConcluded": "NOASSERTION",
                           "copyrightText": "NOASSERTION",
                           "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(path.read_bytes()).hexdigest()},
                                         {"algorithm": "SHA256", "checksumValue": sha256(path)}]})
        self.relate("SPDXRef-DOCUMENT", "DESCRIBES", key)

    def relate(self, one, kind, other):
        relation = {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
        if relation not in self.relations:
            self.relations.append(relation)

    def needs(self, owner, file):
        """Every library that a file needs."""
        found = loaded_files(file)
        for soname in needed(file):
            if soname.startswith("ld-linux"):
                continue
            self.relate(owner, "DYNAMIC_LINK", self.of_debian(package_of(found[soname])))

    def text(self):
        return json.dumps({**self.head, "packages": list(self.packages.values()), "files": self.files,
                           "relationships": self.relations}, indent=1) + "\n"


def write(output, version, commit, created, build, artifacts):
    """Writes the document about the artifacts that were made of the files in a build folder."""
    document = Document(version, commit, created)
    library = document.own("libtcmalloc", "Both libraries and their debug libraries: no code of other projects.")
    document.needs(library, build / "lib/libtcmalloc.so.4")
    command = document.own("tcmalloc-command", "The tcmalloc command.")
    document.needs(command, build / "bin/tcmalloc")
    for package, (name, licence) in COMPILED_IN.items():
        key = document.of_debian(installed(package), licence, name)
        document.relate(command, "STATIC_LINK", key)
    for path in artifacts:
        document.file(path)
    output.write_text(document.text())
