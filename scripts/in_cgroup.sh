#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs a command in its own control group, of version 1 or 2, with a memory limit. Needs root.
#
#   scripts/in_cgroup.sh 200M COMMAND...
#
# Its exit status is that of the command, or 125 if it cannot make the group.
set -euo pipefail

if (($# < 2)); then
  echo "usage: scripts/in_cgroup.sh LIMIT COMMAND..." >&2
  exit 2
fi
limit=$1
shift

# Makes the group in folder $1 and writes its limit to the file $2.
make_group() {
  group=$1/tcmalloc-$$
  mkdir "$group" 2>/dev/null || return 1
  if (echo "$limit" >"$group/$2") 2>/dev/null; then return 0; fi
  rmdir "$group"
  return 1
}

# Finds this process's group in version 1's memory hierarchy, and in version 2.
old=$(sed -nE 's/^[0-9]+:([^:]*,)?memory(,[^:]*)?://p' /proc/self/cgroup)
new=$(sed -n 's/^0:://p' /proc/self/cgroup)
if ! { [[ -n $old ]] && make_group "/sys/fs/cgroup/memory$old" memory.limit_in_bytes; } &&
  ! make_group "/sys/fs/cgroup$new" memory.max; then
  echo "in_cgroup: cannot make a control group with a memory limit below" \
    "/sys/fs/cgroup/memory$old or /sys/fs/cgroup$new: become root" >&2
  exit 125
fi
trap 'rmdir "$group"' EXIT
# Only the command is in the group: this shell's memory does not count.
(echo "$BASHPID" >"$group/cgroup.procs" && exec "$@")
