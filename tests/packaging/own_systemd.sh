#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs a command as a service of a systemd of its own. Needs root.
#
#   own_systemd.sh FOLDER COMMAND...
#
# This systemd sees the machine's files, but what it writes stays in memory, outside of FOLDER, and is lost at the end. It
# has its own processes, mounts and control groups. The exit status is that of the command, or 125 if systemd does not start.
set -euo pipefail

folder=$(realpath "$1")
shift
die() { echo "own_systemd: $*" >&2; exit 125; }
(($(id -u) == 0)) || die "become root"
[[ -x /lib/systemd/systemd ]] || die "systemd is not installed"

# Makes a control group in each hierarchy: at the mount points of version 1, or of version 2.
name=tcmalloc-systemd-$$
groups=()
scratch=$(mktemp -d)
clean_up() {
  local group
  for group in "${groups[@]}"; do find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true; done
  rmdir "$scratch"
}
trap clean_up EXIT
while read -r mount_point kind options; do
  if [[ $kind == cgroup ]]; then
    controller=$(sed -nE 's/.*\b(name=[a-z]+|cpuset|cpu|cpuacct|blkio|memory|devices|freezer|pids|net_cls|net_prio|perf_event|hugetlb|rdma|misc)$/\1/p' <<<"$options")
    own=$(sed -nE "s/^[0-9]+:([^:]*,)?$controller(,[^:]*)?://p" /proc/self/cgroup)
  else
    own=$(sed -n 's/^0:://p' /proc/self/cgroup)
  fi
  mkdir "$mount_point$own/$name" || die "cannot make a control group below $mount_point$own"
  groups+=("$mount_point$own/$name")
done < <(awk '$3 == "cgroup" || $3 == "cgroup2" { print $2, $3, $4 }' /proc/self/mounts)

# Runs in the namespaces: $1 is an empty folder, $2 is FOLDER, the rest is the command.
boot() {
  local scratch=$1 folder=$2 root=$1/root each
  shift 2
  mount -t tmpfs tmpfs "$scratch"
  mkdir "$scratch"/{upper,work,root}
  mount -t overlay overlay -o "lowerdir=/,upperdir=$scratch/upper,workdir=$scratch/work" "$root"
  # systemd empties folders of temporary files when it starts.
  for each in tmp var/tmp run var/log etc/systemd/system; do mount -t tmpfs tmpfs "$root/$each"; done
  mkdir -p "$root$folder"
  mount --bind "$folder" "$root$folder"
  mount -t proc proc "$root/proc"
  mount --bind "$root/proc/sys" "$root/proc/sys"
  mount -o remount,bind,ro "$root/proc/sys"
  mount -t sysfs -o ro sysfs "$root/sys"
  # systemd mounts its control groups itself. The root of its namespace is the groups that were made for it.
  mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
  mount -t tmpfs tmpfs "$root/dev"
  mkdir "$root"/dev/{shm,pts,mqueue,hugepages}
  mount -t devpts devpts -o newinstance,ptmxmode=0666 "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  ln -s /proc/self/fd "$root/dev/fd"
  for each in null zero full random urandom tty; do
    touch "$root/dev/$each"
    mount --bind "/dev/$each" "$root/dev/$each"
  done
  for each in modules-load sysctl remount-fs update-utmp; do
    ln -s /dev/null "$root/etc/systemd/system/systemd-$each.service"
  done
  printf '%q ' "$@" >"$root/run/command"
  cat >"$root/etc/systemd/system/own.target" <<END
[Unit]
Requires=dbus.socket systemd-journald.service
Wants=command.service
END
  cat >"$root/etc/systemd/system/command.service" <<END
[Unit]
After=dbus.socket systemd-journald.service
SuccessAction=exit-force
FailureAction=exit-force
[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardOutput=file:$folder/output
StandardError=inherit
ExecStart=-/bin/bash /run/command
ExecStopPost=/bin/sh -c 'echo \$EXIT_STATUS >$folder/status'
END
  # Does not use chroot, after which a service cannot have a user namespace (PrivateUsers=).
  mkdir -p "$root/run/machine"
  cd "$root"
  pivot_root . run/machine
  umount -l /run/machine
  exec env -i container=tcmalloc PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --unit=own.target \
    --log-target=console --show-status=no
}

rm -f "$folder/status" "$folder/output"
(
  # A new group of cpuset has no CPU, and systemd needs none there.
  for group in "${groups[@]}"; do (echo "$BASHPID" >"$group/cgroup.procs") 2>/dev/null || true; done
  export -f boot
  exec unshare --mount --pid --cgroup --uts --ipc --fork --kill-child --propagation private -- \
    bash -euc 'boot "$@"' own_systemd "$scratch" "$folder" "$@"
) </dev/null || true
[[ -e $folder/status ]] || die "systemd did not run the command"
cat "$folder/output"
exit "$(cat "$folder/status")"
