# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
#
# Makes a minimal Debian system in a folder, for scripts and tests that source this file. Needs root and the packages
# of "setup.sh cleanroot". Every step runs in its own mount and process namespace: no mount,
# daemon or other process outlives it, however it ends.

release=bookworm

# Prints this machine's sources of Debian packages of the release, as lines of a sources.list.
debian_sources() {
  # shellcheck disable=SC2016 # $(...) is apt's own syntax
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    awk -v release="$release" '
      $3 == "main" && ($2 == release || $2 == release "-updates" || $2 == release "-security") &&
      !seen[$0]++ { print "deb", $1, $2, $3 }'
}

# Runs its arguments with private mounts and processes.
isolated() { unshare --mount --pid --fork --kill-child --propagation private -- "$@"; }

# Runs shell command $3 in folder $2 of the system in folder $1. The command gets only the proxies of this environment.
in_debian_root() {
  local root=$1 folder=$2 command=$3 variable
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

# Makes the system in folder $1. Packages come from mirror $2, or, if that is empty, from the mirror of this machine's
# apt. Fails with a line on stderr.
make_debian_root() {
  local root=$1 mirror=$2 sources include=()
  if [[ -n $mirror ]]; then
    sources="deb $mirror $release main"
  else
    sources=$(debian_sources)
    mirror=$(awk -v release="$release" '$3 == release { print $2; exit }' <<<"$sources")
    if [[ -z $mirror ]]; then
      echo "this machine's apt has no source for $release" >&2
      return 1
    fi
  fi
  if [[ $sources == *https:* ]]; then include=(--include=ca-certificates); fi
  isolated debootstrap --variant=minbase "${include[@]}" "$release" "$root" "$mirror" &&
    echo "$sources" >"$root/etc/apt/sources.list" &&
    copy_apt_settings "$root"
}

copy_apt_settings() {
  local root=$1
  # This machine's settings for reaching its package mirror, for example proxies.
  apt-config dump --no-empty --format '%F "%v";%n' Acquire::http Acquire::https \
    Acquire::Check-Valid-Until Acquire::Check-Date >"$root/etc/apt/apt.conf.d/90host" &&
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
}
