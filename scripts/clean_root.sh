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

release=bookworm
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
clone=/root/tcmalloc
root=
keep=false
mirror=
commands=("make run" "make test")
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

# This machine's sources of Debian packages of the release, as lines of a sources.list.
debian_sources() {
  # shellcheck disable=SC2016 # $(...) is apt's own syntax
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v release="$release" '
      $3 == "main" && ($2 == release || $2 == release "-updates" || $2 == release "-security") &&
      !seen[$0]++ { print "deb", $1, $2, $3 }'
}

# Runs its arguments with private mounts and processes.
isolated() { unshare --mount --pid --fork --kill-child --propagation private -- "$@"; }

# Runs shell command $2 in folder $1 of the clean root. Of this environment it gets only the proxies.
in_root() {
  local folder=$1 command=$2 variable
  local environment=(HOME=/root LANG=C.UTF-8 "TERM=${TERM:-dumb}"
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  for variable in http_proxy https_proxy no_proxy; do
    if [[ -n ${!variable:-} ]]; then environment+=("$variable=${!variable}"); fi
  done
  # shellcheck disable=SC2016 # expanded by the inner shell
  isolated bash -ec '
    root=$1; shift
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" "$@"' isolated "$root" \
    env -i "${environment[@]}" bash -c "cd $folder && $command" </dev/null
}

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

if [[ -n $mirror ]]; then
  sources="deb $mirror $release main"
else
  sources=$(debian_sources)
  mirror=$(awk -v release="$release" '$3 == release { print $2; exit }' <<<"$sources")
  [[ -n $mirror ]] || die "this machine's apt has no source for $release: name one with --mirror"
fi
include=()
if [[ $sources == *https:* ]]; then include=(--include=ca-certificates); fi

trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
root=$(mktemp -d --tmpdir tcmalloc-clean-root.XXXXXX)
chmod 755 "$root"

say "making a minimal $release in $root from $mirror"
quietly isolated debootstrap --variant=minbase "${include[@]}" "$release" "$root" "$mirror"
echo "$sources" >"$root/etc/apt/sources.list"
# This machine's settings for reaching its package mirror, for example proxies.
apt-config dump --no-empty --format '%F "%v";%n' Acquire::http Acquire::https \
  Acquire::Check-Valid-Until Acquire::Check-Date >"$root/etc/apt/apt.conf.d/90host"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"

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
