#!/bin/sh
# check-leaks.sh PROGRAM ARGUMENT...
# Runs the program under the leak checker. Fails if the program fails, if it leaks, and if it was not checked.
library=${TCMALLOC_LIBRARY:-$HOME/tcmalloc/lib/libtcmalloc.so.4}
report=$(mktemp)
HEAPCHECK=normal HEAP_CHECK_DUMP_DIRECTORY=${LEAK_PROFILES:-.} LD_PRELOAD=$library "$@" 2>"$report"
status=$?
c++filt <"$report" >&2
if ! grep -q -i 'leak check "*_main_' "$report"; then
  echo "check-leaks: $1 was not checked for leaks" >&2
  status=2
fi
rm -f "$report"
exit $status
