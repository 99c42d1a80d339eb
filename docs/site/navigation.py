# SPDX-License-Identifier: BSD-3-Clause
"""The pages of the documentation site: which file is which page, in the order of the navigation.

A section is (title, folder of the site, pages). A page is (title, file of the project), or (title, name) for a page that
the build makes: GENERATED says from what. Files that are linked from these pages are in the site, too, but not in the
navigation.
"""

HOME = "docs/README.md"

SECTIONS = (
    ("Start", "start", (
        ("Install, run, link", "docs/getting-started.md"),
        ("Debian packages", "docs/debian.md"),
        ("CMake: FetchContent", "docs/cmake.md"),
        ("Rust", "docs/rust.md"),
        ("Python", "docs/python.md"),
        ("Go", "docs/go.md"),
        ("What changes between versions", "CHANGELOG.md"),
        ("Check a download", "docs/verify.md"),
        ("Report a vulnerability", "SECURITY.md"),
    )),
    ("Understand", "understand", (
        ("How it works", "docs/how-it-works.md"),
        ("Figures", "bench/results/README.md"),
        ("What the words mean", "docs/glossary.md"),
    )),
    ("Operate", "operate", (
        ("Tuning by symptom", "docs/tuning.md"),
        ("Heap profiles by samples", "docs/profiles.md"),
        ("Heap profiles of everything", "docs/heap-profiler.md"),
        ("Leaks", "docs/leak-checker.md"),
        ("Limits and memory that is returned", "docs/system-memory.md"),
        ("Memory pressure", "docs/pressure.md"),
        ("Phases", "docs/phases.md"),
        ("Containers", "docs/containers.md"),
        ("Guarded samples", "docs/guarded-sampling.md"),
        ("Misuse and the debug library", "docs/debugging.md"),
    )),
    ("Look into a process", "command", (
        ("All commands", "docs/command/README.md"),
        ("Processes and objects", "docs/command/processes.md"),
        ("Why resident memory is larger", "docs/doctor.md"),
        ("Which code: profile", "docs/command/profile.md"),
        ("Which types and referrers", "docs/command/types.md"),
        ("Leaks of a process", "docs/command/leaks.md"),
        ("Live: top, timeline", "docs/command/live.md"),
        ("Snapshots, differences", "docs/command/snapshots.md"),
        ("Core files", "docs/command/cores.md"),
        ("Crashes: explain", "docs/crashes.md"),
        ("Change a running process", "docs/control.md"),
        ("Run a program", "docs/command/run.md"),
        ("Pauses and rights", "docs/command/pauses.md"),
    )),
    ("Recipes", "recipes", (
        ("All recipes", "docs/recipes/README.md"),
        ("systemd", "docs/recipes/systemd.md"),
        ("Docker and Podman", "docs/recipes/docker.md"),
        ("Kubernetes", "docs/recipes/kubernetes.md"),
        ("Redis", "docs/recipes/redis.md"),
        ("nginx", "docs/recipes/nginx.md"),
        ("PostgreSQL", "docs/recipes/postgresql.md"),
        ("Python", "docs/recipes/python.md"),
        ("Node.js", "docs/recipes/node.md"),
        ("Java", "docs/recipes/jvm.md"),
        ("Prometheus", "docs/recipes/prometheus.md"),
        ("CI that fails on a leak", "docs/recipes/ci.md"),
        ("heaptrack, valgrind, sanitizers", "docs/recipes/other-tools.md"),
    )),
    ("Reference", "reference", (
        ("Settings", "docs/settings.md"),
        ("Numbers", "docs/numbers.md"),
        ("Properties", "docs/properties.md"),
        ("C functions", "c-functions"),
        ("C++ classes", "cpp-classes"),
        ("Command line", "command-line"),
        ("Statistics", "docs/statistics.md"),
        ("File formats", "docs/file-formats.md"),
        ("Compatibility", "docs/compatibility.md"),
        ("What stays the same", "docs/promise.md"),
        ("System calls", "docs/system-calls.md"),
    )),
    ("Migrate", "migrate", (
        ("From gperftools", "docs/migrating-from-gperftools.md"),
        ("From Google's TCMalloc", "docs/migrating-from-googles-tcmalloc.md"),
        ("From jemalloc", "docs/migrating-from-jemalloc.md"),
        ("From mimalloc", "docs/migrating-from-mimalloc.md"),
        ("From glibc's malloc", "docs/migrating-from-glibc.md"),
    )),
    ("Internals", "internals", (
        ("Read the sources", "docs/reading.md"),
        ("The design book", "docs/design/README.md"),
        ("Thread caches", "docs/design/thread-caches.md"),
        ("Central free lists and shards", "docs/design/central-lists.md"),
        ("The page heap", "docs/design/page-heap.md"),
        ("Release", "docs/design/release.md"),
        ("Hugepages", "docs/design/hugepages.md"),
        ("Fork", "docs/design/fork.md"),
        ("The leak check", "docs/design/leak-check.md"),
        ("Unwinding", "docs/design/unwinding.md"),
        ("Statistics and introspection", "docs/design/statistics.md"),
        ("Limits and memory pressure", "docs/design/limits.md"),
        ("Sampling", "docs/design/sampling.md"),
        ("Many processors", "docs/design/scaling.md"),
        ("Which file does what", "ARCHITECTURE.md"),
        ("Contribute", "CONTRIBUTING.md"),
        ("Taking another thread's cache", "docs/remote-flush.md"),
        ("The introspection root", "docs/introspection.md"),
        ("Scaling over threads", "docs/over-threads.md"),
        ("Tests", "tests/README.md"),
        ("Deliberate faults", "tests/faults/README.md"),
        ("Benchmarks", "bench/runner/README.md"),
        ("Benchmark programs", "bench/programs/README.md"),
        ("All tables of the figures", "bench/results/tables.md"),
        ("Earlier runs", "bench/results/history/README.md"),
        ("Release a version", "RELEASING.md"),
        ("Decisions", "docs/decisions/README.md"),
    )),
)


def site_pages():
    """{file of the project: page of the site} of all pages that are files."""
    found = {HOME: "index.md"}
    for _, folder, pages in SECTIONS:
        for _, source in pages:
            if source.endswith(".md"):
                name = source.removeprefix("docs/").removesuffix(".md").lower()
                name = name.removesuffix("/readme").replace("/", "-")
                name = name.removeprefix(folder + "-")
                found[source] = f"{folder}/{name}.md"
    return found
