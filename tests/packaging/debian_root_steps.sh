#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The steps that debian_root_test.sh runs in its system, which has nothing installed yet. Arguments: the version of the
# packages in /packages, and that of those in /later. docs/debian.md has the commands that users type.
set -euo pipefail
version=$1 later=$2
theirs=(google-perftools libgoogle-perftools-dev libgoogle-perftools4 libtcmalloc-minimal4)
ours=(tcmalloc tcmalloc-minimal tcmalloc-dev tcmalloc-tools)
export DEBIAN_FRONTEND=noninteractive
failures=0

say() { echo "== $*"; }
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
# Fails if text $1 does not have pattern $2.
expect() { [[ $1 == *$2* ]] || fail "${3:-output}: '$1', not '$2'"; }

# Runs apt; prints its output only if it fails.
apt_get() {
  if ! apt-get -y -q -o Dpkg::Use-Pty=0 "$@" >/tmp/apt.log 2>&1; then
    cat /tmp/apt.log
    fail "apt-get $*"
  fi
}

state_of() { dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null || true; }

# Checks that gperftools' packages are installed, its programs use its library, and its pprof reads the library's
# profile.
gperftools_works() {
  local package
  for package in "${theirs[@]}"; do
    expect "$(state_of "$package")" "installed " "$package $1"
  done
  expect "$(./client)" "gperftools 2.10 $libraries/libtcmalloc.so.4" "gperftools' client $1"
  expect "$(./minimal_client)" "gperftools 2.10 $libraries/libtcmalloc_minimal.so.4" "gperftools' minimal client $1"
  rm -f /tmp/theirs.*
  HEAPPROFILE=/tmp/theirs HEAP_PROFILE_MMAP=0 ./client >/dev/null 2>&1 || true
  expect "$(google-pprof --text ./client /tmp/theirs.0001.heap 2>&1 || true)" "Total:" "google-pprof $1"
}

ours_works() {
  local wanted=$1 output package
  for package in "${ours[@]}"; do
    expect "$(state_of "$package")" "installed $wanted" "$package"
  done
  # LD_PRELOAD has the whole path; a client of gperftools' library gets the library of the same name.
  expect "$(LD_PRELOAD=$folder/libtcmalloc.so.4 ./client)" "gperftools 2.18.1 $folder/libtcmalloc.so.4" LD_PRELOAD
  expect "$(LD_PRELOAD=$folder/libtcmalloc_minimal.so.4 ./minimal_client)" "gperftools 2.18.1 $folder/libtcmalloc_minimal.so.4" LD_PRELOAD
  expect "$(MALLOCSTATS=1 LD_PRELOAD=$folder/libtcmalloc.so.4 perl -e 1 2>&1)" "TCMalloc ${wanted%+1}, $folder/libtcmalloc.so.4" MALLOCSTATS
  expect "$(MALLOCSTATS=1 LD_PRELOAD=$folder/libtcmalloc_debug.so.4 perl -e 1 2>&1)" "TCMalloc ${wanted%+1}" "the debug library"
  # The command finds the library and looks into a process.
  output=$(tcmalloc run perl -e 1 2>&1 || true)
  expect "$output" "was served by TCMalloc ${wanted%+1}" "tcmalloc run"
  rm -f /tmp/ready
  LD_PRELOAD=$folder/libtcmalloc.so.4 perl -e '$| = 1; print "ready\n"; <STDIN>' < <(sleep 100) >/tmp/ready &
  local pid=$!
  until grep -qs ready /tmp/ready; do sleep 0.1; done
  expect "$(tcmalloc stats $pid 2>&1 || true)" "the program holds" "tcmalloc stats"
  expect "$(tcmalloc ps 2>&1 || true)" "TCMalloc ${wanted%+1}" "tcmalloc ps"
  kill $pid
  wait $pid 2>/dev/null || true
  [[ -e /usr/share/man/man1/tcmalloc.1 ]] || fail "there is no man page"
  # Programs can be linked with the library.
  for name in libtcmalloc libtcmalloc_minimal libtcmalloc_debug; do
    gcc -O1 debian_root_client.c -o ours_client $(PKG_CONFIG_PATH=$folder/pkgconfig pkg-config --cflags --libs $name)
    expect "$(./ours_client)" "gperftools 2.18.1 $folder/$name.so.4" "a program that pkg-config linked with $name"
  done
  gcc -O1 -static debian_root_client.c -o ours_static -I$folder/include \
    $(PKG_CONFIG_PATH=$folder/pkgconfig pkg-config --static --libs libtcmalloc_minimal) 2>/dev/null
  expect "$(./ours_static || true)" "gperftools 2.18.1 no library" "a static program"
}

say "gperftools' packages, and a client of each of their libraries"
apt_get update
apt_get install --no-install-recommends "${theirs[@]}" gcc libc6-dev pkgconf perl
libraries=/usr/lib/$(gcc -dumpmachine)
folder=$libraries/tcmalloc
gcc -O1 debian_root_client.c -o client -Wl,--no-as-needed -ltcmalloc
gcc -O1 debian_root_client.c -o minimal_client -Wl,--no-as-needed -ltcmalloc_minimal
gperftools_works "alone"

say "our packages beside them"
apt_get install --no-install-recommends /packages/*.deb
ours_works "$version"
gperftools_works "beside ours"
[[ $(ldconfig -p) != *"$folder"* ]] || fail "the dynamic linker looks into $folder"

say "debug information in packages of its own"
dpkg --install /packages/tcmalloc-dbgsym_*.ddeb >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; fail "dbgsym"; }
id=$(dpkg -L tcmalloc-dbgsym | grep -c '/usr/lib/debug/.build-id/.*\.debug$')
expect "$id" 2 "files with debug information"
apt_get purge tcmalloc-dbgsym

say "all programs use ours, by the dynamic linker's configuration, and again gperftools'"
echo "$folder" >/etc/ld.so.conf.d/00-tcmalloc.conf
ldconfig
expect "$(./client)" "gperftools 2.18.1 $folder/libtcmalloc.so.4" "with 00-tcmalloc.conf"
rm /etc/ld.so.conf.d/00-tcmalloc.conf
ldconfig
gperftools_works "without 00-tcmalloc.conf"

say "the same by dpkg-divert, which survives an update of gperftools' package"
file=libtcmalloc.so.4.5.10
mkdir "$libraries/gperftools"
dpkg-divert --quiet --local --rename --divert "$libraries/gperftools/$file" --add "$libraries/$file"
ln -s tcmalloc/libtcmalloc.so.4 "$libraries/$file"
ldconfig
expect "$(./client)" "gperftools 2.18.1 $folder/libtcmalloc.so.4" "diverted"
apt_get install --reinstall libgoogle-perftools4
expect "$(./client)" "gperftools 2.18.1 $folder/libtcmalloc.so.4" "diverted, and gperftools' package installed again"
rm "$libraries/$file"
dpkg-divert --quiet --rename --remove "$libraries/$file"
rmdir "$libraries/gperftools"
ldconfig
gperftools_works "after the diversion"

say "an upgrade, while a program runs on the old library"
LD_PRELOAD=$folder/libtcmalloc.so.4 perl -e '$| = 1; print "ready\n"; <STDIN>; @a = map { "x" x 1000 } 1 .. 100000; print "done\n"' \
  < <(until [[ -e /tmp/upgraded ]]; do sleep 0.1; done; echo) >/tmp/running &
running=$!
until grep -qs ready /tmp/running; do sleep 0.1; done
apt_get install --no-install-recommends /later/*.deb
touch /tmp/upgraded
wait $running || fail "a program that ran during the upgrade"
expect "$(cat /tmp/running)" "done" "a program that ran during the upgrade"
ours_works "$later"
gperftools_works "after the upgrade of ours"

say "ours is removed"
apt_get purge "${ours[@]}"
left=$(find / -xdev \( -path /proc -o -path /sys -o -path /root -o -path /tmp -o -path /packages -o -path /later -o -path /var/lib \
  -o -path /var/cache -o -path /var/log \) -prune -o -path '*tcmalloc*' -newer debian_root_steps.sh -print |
  grep -v "$libraries/\(libtcmalloc\|pkgconfig\)" | grep -vE '/(libtcmalloc-minimal4|gperftools|google)' || true)
dpkg -S $left >/dev/null 2>&1 || [[ -z $left ]] || fail "left after removal: $left"
[[ ! -e $folder ]] || fail "$folder is left"
gperftools_works "after the removal of ours"

say "$failures failures"
((failures == 0))
