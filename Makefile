# SPDX-License-Identifier: BSD-3-Clause
#
# One command per purpose, listed by 'make help'. Each first installs what it needs (setup.sh).

# Taken as typed: make itself must not expand the dollar signs of a shell command.
export RUN_COMMAND := $(value CMD)
unexport CMD

JOBS ?= $(shell nproc)
# Debian's, for which python3-matplotlib is installed, rather than another one that PATH may name.
system_python = $(firstword $(wildcard /usr/bin/python3) python3)
release_libraries := tcmalloc tcmalloc_minimal tcmalloc_static tcmalloc_minimal_static

.PHONY: help help-tests run install check test test-all test-system test-many-cpus coverage faults soak fuzz bench compare format lint drawings docs tidy release sign clean

help:
	@echo "make run               a redis-server under load on this allocator and on glibc's: time, memory, flame graph"
	@echo "make run CMD='...'     a shell command of yours instead"
	@echo "make install PREFIX=P  build the libraries and the command, and install them below P"
	@echo "make check             the inner loop: one preset, what has changed (ARGS='--kind unit' for some)"
	@echo "make test              the gate for changes, in 10 minutes (ARGS='--preset asan' for some)"
	@echo "make test-all          every test in every preset, fuzzing, clang-tidy: hours"
	@echo "make help-tests        which of them runs what"
	@echo "make coverage          lines and branches of src/ that tests run"
	@echo "make faults            deliberate faults, and which test sees each (ARGS='--only NAME')"
	@echo "make test-system       tests that mount file systems, reserve hugepages and change settings (root)"
	@echo "make test-many-cpus    torture, forks, hotplug, cpusets on emulated machines with 16 and 64 CPUs (ARGS='--only REGEX')"
	@echo "make fuzz              each fuzz target for a minute (ARGS='--minutes 10')"
	@echo "make soak              tests that want minutes rather than seconds (ARGS='--minutes 10')"
	@echo "make bench             the benchmarks beside other allocators (ARGS=--quick: in 5 minutes)"
	@echo "make compare BASE=HEAD the library of the working tree beside a revision's: better, worse or same"
	@echo "make format            lay out all sources as the tests want them"
	@echo "make drawings          make the SVG files of docs/drawings from their sources"
	@echo "make docs              build the documentation site (ARGS=--serve: and serve it; --look: pictures)"
	@echo "make lint              advice on words, comments, lengths of files, places of numbers"
	@echo "make tidy              clang-tidy over the library's sources"
	@echo "make release           make and check what a release publishes, from the last commit (MAINTAINER='NAME <ADDRESS>')"
	@echo "make sign KEY=K        sign its checksums with an SSH or minisign key, or one of gpg"
	@echo "make clean             remove everything that was built"

run:
	@scripts/setup.sh run
	@scripts/run.py --build --jobs $(JOBS) $(ARGS)

PREFIX ?= /usr/local
debug_libraries := tcmalloc_debug tcmalloc_minimal_debug tcmalloc_debug_static tcmalloc_minimal_debug_static
install:
	@scripts/setup.sh build
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release -j $(JOBS) --target $(release_libraries) $(debug_libraries) command
	@cmake --install build/release --prefix $(PREFIX) >/dev/null
	@echo "To install without debug information: cmake --install build/release --prefix $(PREFIX) --strip"
	@echo "Installed below $(PREFIX). Try: $(PREFIX)/bin/tcmalloc run ls"

help-tests:
	@scripts/tiers.py

check:
	@scripts/setup.sh build
	@scripts/test.py --tier check $(ARGS)

test:
	@scripts/setup.sh test
	@scripts/test.py $(ARGS)

test-all:
	@scripts/setup.sh all
	@scripts/test.py --tier all $(ARGS)

coverage:
	@scripts/setup.sh test
	@scripts/coverage.py $(ARGS)

faults:
	@scripts/setup.sh all
	@scripts/faults.py $(ARGS)

fuzz:
	@scripts/setup.sh test
	@scripts/fuzz.py $(ARGS)

test-system:
	@scripts/setup.sh all
	@scripts/test.py --preset release --kind system $(ARGS)
	@scripts/test_system.py

test-many-cpus:
	@scripts/setup.sh many-cpus
	@scripts/test_many_cpus.py $(ARGS)

soak:
	@scripts/setup.sh build
	@scripts/soak.py $(ARGS)

bench:
	@scripts/setup.sh bench
	@$(system_python) scripts/bench.py $(ARGS)

# ROWS, PEERS and WITH are lists: ARGS=--help tells what they may hold.
compare:
	@scripts/setup.sh bench
	@$(system_python) scripts/compare.py --base '$(value BASE)' --rows '$(value ROWS)' \
	  --peers '$(value PEERS)' --with '$(value WITH)' $(ARGS)

format:
	@scripts/setup.sh lint
	@scripts/test.py --list-formatted | xargs clang-format-19 -i

drawings:
	@scripts/setup.sh drawings
	@scripts/drawings.py $(ARGS)

docs:
	@scripts/setup.sh docs
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release -j $(JOBS) --target command
	@$(system_python) scripts/docs.py $(ARGS)

lint:
	@scripts/lint.py $(ARGS)

tidy:
	@scripts/setup.sh lint
	@cmake --preset clang -B build/tidy -D CMAKE_BUILD_TYPE=Debug -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON -D CMAKE_UNITY_BUILD=OFF --log-level=WARNING >/dev/null
	@run-clang-tidy-19 -quiet -p build/tidy -j $(JOBS) "^$(CURDIR)/(src|instruments|formats)/"

release:
	@scripts/setup.sh all
	@scripts/release.py --maintainer '$(value MAINTAINER)' $(ARGS)

sign:
	@scripts/release.py --sign '$(value KEY)'

clean:
	rm -rf build
