#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The Debian packages in a new Debian 12 beside gperftools' packages: installed, used, upgraded, removed.
#
#   debian_root_test.sh SOURCE_FOLDER BUILD_FOLDER WORK_FOLDER
#
# Makes the system with debootstrap, so it needs root and a mirror of Debian. debian_root_steps.sh runs in the system.
set -euo pipefail

source_folder=$1 build=$2 work=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/debian_root.sh
source "$source_folder/scripts/debian_root.sh"

skip() { echo "SKIP: $*"; exit 77; }

(($(id -u) == 0)) || skip "needs root: it makes a system with debootstrap and calls chroot"
command -v debootstrap >/dev/null || skip "debootstrap is not installed (scripts/setup.sh cleanroot)"
[[ -n $(debian_sources) ]] || skip "this machine's apt has no source for $release"

root=$work/root
cleanup() {
  if grep -qF " $root/" /proc/self/mountinfo; then
    echo "cannot remove $root: something is mounted below it"
  else
    rm -rf --one-file-system "$root"
  fi
}
rm -rf --one-file-system "$work"
mkdir -p "$root"
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Makes two versions; the second one is made of the same files.
version=$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")/\1/p' "$build/CPackConfig.cmake")
later=$version+1
cpack --config "$build/CPackConfig.cmake" -B "$work/packages" >"$work/log"
cpack --config "$build/CPackConfig.cmake" -R "$later" -B "$work/later" >>"$work/log"
make_debian_root "$root" "" >>"$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
mkdir "$root/packages" "$root/later"
cp "$work"/packages/*deb "$root/packages"
cp "$work"/later/*deb "$root/later"
cp "$here/debian_root_steps.sh" "$here/debian_root_client.c" "$root/root"
in_debian_root "$root" /root "bash ./debian_root_steps.sh $version $later"
