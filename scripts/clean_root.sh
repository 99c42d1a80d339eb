#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Proves the README's commands on a fresh Debian 12: makes a minimal system in a temporary folder,
# clones the last commit of this repository into it, and runs the README's first commands there.
#
#   scripts/clean_root.sh [--only run|test] [--keep] [--mirror URL]
#
#   --only    run only 'make run' or only 'make test'
#   --keep    keep the folder, and print where it is
#   --mirror  where to fetch Debian from; default: the mirror of this machine's apt
#
# Needs root and about 8 GB of space in $TMPDIR (or /tmp). Every step runs in its own mount and
# process namespace: no mount, daemon or other process outlives it, however it ends.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/debian_root.sh
source "$repository/scripts/debian_root.sh"
clone=/root/tcmalloc-source
root=
keep=false
mirror=
commands=("make install PREFIX=~/tcmalloc" "make run" "make test")
preparation="apt-get update && apt-get install -y git make"

say() { echo "clean root: $*" >&2; }
die() { say "$*"; exit 1; }

cleanup() {
  local status=$?
  trap - EXIT
  if [[ -n $root ]]; then rm -f "$root.log"; fi
  if [[ -z $root || ! -d $root ]]; then
    exit "$status"
  elif $keep; then
    say "kept in $root"
  elif grep -qF " $root/" /proc/self/mountinfo; then
    say "cannot remove $root: something is mounted below it"
    status=1
  else
    rm -rf --one-file-system "$root"
  fi
  exit "$status"
}

in_root() { in_debian_root "$root" "$@"; }

# Runs its arguments; prints their output only if they fail.
quietly() {
  if ! "$@" >"$root.log" 2>&1; then
    tail -n 20 "$root.log" >&2
    die "failed: $*"
  fi
}

while (($# > 0)); do
  case "$1" in
    --only)
      [[ ${2:-} == run || ${2:-} == test ]] || die "--only takes run or test"
      commands=("make $2")
      shift
      ;;
    --keep) keep=true ;;
    --mirror) mirror=${2:?--mirror takes a URL}; shift ;;
    -h | --help) sed -n '4,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit ;;
    *) die "unknown argument $1" ;;
  esac
  shift
done

(($(id -u) == 0)) || die "become root: it mounts filesystems and calls chroot"
"$repository/scripts/setup.sh" cleanroot

# The commands proved here must be those of the README.
for command in "$preparation" "${commands[@]}"; do
  awk -v command="$command" '
    { sub(/^ +/, ""); sub(/ *#.*/, "") }
    $0 == command { found = 1 }
    END { exit !found }' "$repository/README.md" || die "the README has no line '$command'"
done

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
root=$(mktemp -d --tmpdir tcmalloc-clean-root.XXXXXX)
chmod 755 "$root"

say "making a minimal $release in $root"
quietly make_debian_root "$root" "$mirror"

commit=$(git -c safe.directory='*' -C "$repository" rev-parse HEAD)
if [[ -n $(git -c safe.directory='*' -C "$repository" status --porcelain) ]]; then
  say "the clone has the last commit, without your uncommitted changes"
fi
git -c safe.directory='*' clone --quiet --no-local "$repository" "$root$clone"
git -C "$root$clone" checkout --quiet --detach "$commit"
git -C "$root$clone" remote remove origin

say "\$ $preparation"
quietly in_root / "$preparation"
for command in "${commands[@]}"; do
  say "\$ $command    (commit ${commit:0:12})"
  started=$SECONDS
  in_root "$clone" "$command" || die "'$command' failed with exit code $?"
  say "'$command' succeeded after $((SECONDS - started)) s"
  [[ ! -e $root/usr/sbin/policy-rc.d ]] || die "'$command' did not remove its /usr/sbin/policy-rc.d"
done
