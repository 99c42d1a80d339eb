#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs a command in a control group of its own, version 1 or 2, in which memory is limited. For root.
#
#   scripts/in_cgroup.sh 200M COMMAND...
#
# Its status is the command's, or 125 when no such group can be made.
set -euo pipefail

if (($# < 2)); then
  echo "usage: scripts/in_cgroup.sh LIMIT COMMAND..." >&2
  exit 2
fi
limit=$1
shift

# Makes the group in folder $1; $2 is the file that takes its limit.
make_group() {
  group=$1/tcmalloc-$$
  mkdir "$group" 2>/dev/null || return 1
  if (echo "$limit" >"$group/$2") 2>/dev/null; then return 0; fi
  rmdir "$group"
  return 1
}

# The group that this process is in, in the hierarchy of version 1 that has the memory, and of version 2.
old=$(sed -nE 's/^[0-9]+:([^:]*,)?memory(,[^:]*)?://p' /proc/self/cgroup)
new=$(sed -n 's/^0:://p' /proc/self/cgroup)
if ! { [[ -n $old ]] && make_group "/sys/fs/cgroup/memory$old" memory.limit_in_bytes; } &&
  ! make_group "/sys/fs/cgroup$new" memory.max; then
  echo "in_cgroup: cannot make a control group with limited memory below" \
    "/sys/fs/cgroup/memory$old or /sys/fs/cgroup$new: become root" >&2
  exit 125
fi
trap 'rmdir "$group"' EXIT
# The command alone is in the group: what this shell has does not count.
(echo "$BASHPID" >"$group/cgroup.procs" && exec "$@")
