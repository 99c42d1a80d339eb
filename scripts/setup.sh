#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Installs the Debian packages that a job needs and that this machine lacks. Made for Debian 12.
#
#   scripts/setup.sh build      compile the libraries, tests and benchmarks with g++
#   scripts/setup.sh run        build + the server that 'make run' loads
#   scripts/setup.sh test       build + what the gate needs: the sanitizers' compiler, debuggers, some programs
#   scripts/setup.sh all        test + all programs and compilers that tests use, MkDocs as for docs
#   scripts/setup.sh bench      build + what benchmarks and comparisons need: allocators, programs, plots
#   scripts/setup.sh lint       build + clang-format and clang-tidy
#   scripts/setup.sh drawings   graphviz, which makes docs/drawings/*.svg
#   scripts/setup.sh docs       build + MkDocs, from PyPI into build/docs/python, and Chromium to look at the site
#   scripts/setup.sh many-cpus  build + an emulator of machines with many CPUs
#   scripts/setup.sh cleanroot  what scripts/clean_root.sh needs
#   scripts/setup.sh list test  print the packages of a group and do nothing
#
# If nothing is missing, it asks dpkg once and prints nothing. Otherwise it prints what it installs,
# and needs root or sudo. It does not start the services of a package.
set -euo pipefail

# The only list of packages. An entry "package=command" also counts as present if the command exists
# from another source (another repository's node, a cmake built by hand).
entries() {
  local peers="libtcmalloc-minimal4 libjemalloc2 libmimalloc2.0"
  local build="g++ cmake=cmake ninja-build=ninja libgtest-dev libgmock-dev make python3 perl=perl"
  # The tcmalloc command needs these.
  build+=" libcli11-dev libfmt-dev nlohmann-json3-dev libdw-dev libelf-dev libiberty-dev zlib1g-dev libncurses-dev"
  case "$1" in
    build) echo "$build" ;;
    run) echo "$build redis-server=redis-server redis-tools=redis-benchmark" ;;
    lint) echo "$build clang-19 clang-format-19 clang-tidy-19" ;;
    bench)
      echo "$build $peers"
      echo "clang-19 python3-matplotlib valgrind git=git"
      echo "redis-server redis-tools perl python3.11 lua5.4 sqlite3 rocksdb-tools nodejs=node"
      ;;
    test)
      echo "$build $peers"
      echo "clang-19 libclang-rt-19-dev clang-format-19 musl-tools pkgconf=pkg-config file"
      echo "abigail-tools"  # abidiff
      echo "valgrind gdb binutils procps strace"
      echo "zsh groff-base"  # the tcmalloc command's completion and man pages
      echo "python3-prometheus-client"  # its reader of OpenMetrics
      echo "tmux"                       # a terminal for tests
      echo "python3.11 perl git=git sqlite3 redis-server memcached"
      # gperftools itself, for programs that are built with it and run with this library.
      echo "libgoogle-perftools-dev"
      echo "libdebuginfod1"  # finds debug information for the command on servers
      ;;
    all)
      entries test
      echo "clang-tidy-19"
      # Compilers for 32 bits and for 64-bit ARM, GoogleTest's sources to build for both, and an emulator for ARM.
      # (g++-multilib, which also contains the first compiler, conflicts with the second one.)
      echo "g++-12-multilib g++-12-aarch64-linux-gnu=aarch64-linux-gnu-g++-12 googletest qemu-user-static"
      echo "dpkg-dev python3-venv spin openssl libpython3.11-testsuite redis-tools nginx curl=curl"
      echo "debootstrap debian-archive-keyring"  # a system for the Debian packages
      echo "default-jdk-headless=javac nodejs=node swi-prolog-nox=swipl swi-prolog-test"
      # Two readers of profiles: gperftools' pprof, and the sources of Go's pprof with a compiler for them.
      echo "google-perftools golang-1.19-go golang-github-google-pprof-dev"
      echo "python3-setuptools python3-wheel"  # the wheel
      echo "openssh-client=ssh-keygen gpg=gpg minisign=minisign"  # the signatures of a release
      echo "rustc=rustc cargo=cargo"  # the crates; programs of Rust in other tests
      echo "chromium=chromium"  # shows the HTML page of the tcmalloc command
      echo "heaptrack"  # beside the library
      echo "liblzma-dev libbz2-dev"  # the statically linked command
      echo "prometheus=promtool prometheus-node-exporter postgresql systemd dbus"
      echo "podman runc catatonit"
      ;;
    drawings) echo "python3 graphviz=dot" ;;
    docs) echo "$build python3-venv chromium=chromium" ;;
    many-cpus) echo "$build qemu-system-x86=qemu-system-x86_64 cpio=cpio" ;;
    cleanroot) echo "debootstrap debian-archive-keyring git=git util-linux" ;;
    *) return 1 ;;
  esac
}

# Services of the packages above. Only their programs are needed.
services="redis-server nginx memcached prometheus prometheus-node-exporter postgresql"
policy=/usr/sbin/policy-rc.d
policy_mark="# written by tcmalloc's scripts/setup.sh while it installs packages"

say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }

# Prints the packages of group $1 that are not installed and whose command does not exist.
missing_packages() {
  local entry package command installed
  local names=()
  for entry in $(entries "$1"); do names+=("${entry%%=*}"); done
  # shellcheck disable=SC2016 # ${...} is dpkg-query's own syntax
  installed=$(dpkg-query -W -f='${Package}|${db:Status-Status}\n' "${names[@]}" 2>/dev/null || true)
  for entry in $(entries "$1"); do
    package=${entry%%=*}
    grep -qxF "$package|installed" <<<"$installed" && continue
    if [[ $entry == *=* ]]; then
      command=${entry#*=}
      command -v "$command" >/dev/null 2>&1 && continue
    fi
    echo "$package"
  done
}

remove_policy() {
  if [[ -e $policy ]] && grep -qxF "$policy_mark" "$policy"; then rm -f "$policy"; fi
}

# Keeps package scripts from starting services. Does not replace a policy that the machine has.
forbid_service_starts() {
  remove_policy  # one of ours that an earlier run could not remove because it was killed
  [[ -e $policy ]] && return 0
  trap remove_policy EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  printf '#!/bin/sh\n%s\nexit 101\n' "$policy_mark" >"$policy"
  chmod 755 "$policy"
}

# Runs apt-get with its output in $log. Waits while another process holds one of apt's locks.
apt_quietly() {
  local tries
  for tries in $(seq 120); do
    apt-get -y -q -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=600 "$@" >"$log" 2>&1 </dev/null &&
      return 0
    grep -q "Could not get lock" "$log" || return 1
    ((tries > 1)) || say "waiting for another package manager, which holds the lock"
    sleep 5  # apt offers no way to wait for the lock of its package lists
  done
  return 1
}

install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  log=$(mktemp)
  if ! apt_quietly update; then
    tail -n 5 "$log" >&2
    say "apt-get update failed; trying with the existing package lists"
  fi
  # Slim images lack this folder, and the JDK's scripts fail without it.
  mkdir -p /usr/share/man/man1
  if ! apt_quietly install --no-install-recommends "$@"; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    die "apt-get install failed for: $*"
  fi
  rm -f "$log"
  # With systemd, installing a package also enables its service for the next start of the machine.
  local service
  if [[ -d /run/systemd/system ]]; then
    for service in $services; do
      if [[ " $* " == *" $service "* ]]; then systemctl --quiet disable "$service" || true; fi
    done
  fi
}

# The pinned packages of docs/site/requirements.txt, in an environment of their own.
install_mkdocs() {
  local folder requirements done_file
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  folder=build/docs/python requirements=docs/site/requirements.txt
  done_file=$folder/requirements
  cmp -s "$requirements" "$done_file" && return
  say "installing MkDocs into $folder"
  rm -rf "$folder"
  /usr/bin/python3 -m venv "$folder" &&
    "$folder/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements" &&
    cp "$requirements" "$done_file"
}

main() {
  if [[ ${1:-} == list ]] && entries "${2:-}" >/dev/null; then
    entries "$2" | tr ' ' '\n' | sed 's/=.*//'
    return
  fi
  # Called by sudo: packages that are not installed into the system belong to the user.
  if [[ ${1:-} == packages ]] && entries "${2:-}" >/dev/null; then
    install_group "$2"
    return
  fi
  if (($# != 1)) || ! entries "$1" >/dev/null; then
    die "usage: scripts/setup.sh [list] build|run|test|all|bench|lint|drawings|docs|many-cpus|cleanroot"
  fi
  install_group "$1"
  case "$1" in
    docs) install_mkdocs || die "pip cannot install the packages of docs/site/requirements.txt" ;;
    all) install_mkdocs || say "MkDocs cannot be installed: the test of the site is skipped" ;;
  esac
}

install_group() {
  local group=$1
  if ! command -v dpkg-query >/dev/null 2>&1; then
    say "this is not a Debian system: install yourself what is missing of" $(entries "$group")
    return
  fi
  local missing
  missing=$(missing_packages "$group" | tr '\n' ' ')
  [[ -z $missing ]] && return

  if (($(id -u) != 0)); then
    command -v sudo >/dev/null 2>&1 ||
      die "become root, or install sudo, to install: $missing"
    say "asking sudo to install: $missing"
    sudo -- "${BASH_SOURCE[0]}" packages "$group"
    return
  fi

  # Only one set-up may run at a time: each may write the service policy and remove it.
  exec 9>/run/lock/tcmalloc-setup
  flock 9
  missing=$(missing_packages "$group" | tr '\n' ' ')
  [[ -z $missing ]] && return
  say "installing for '$group' (takes a while the first time): $missing"
  forbid_service_starts
  # shellcheck disable=SC2086 # a list of words
  install_packages $missing 9>&-
  missing=$(missing_packages "$group" | tr '\n' ' ')
  [[ -z $missing ]] || die "still missing after the installation: $missing"
  say "done"
}

main "$@"
