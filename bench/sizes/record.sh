#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# record.sh [FOLDER]: records the sizes that ten real programs request, one file for each program
# (count_sizes.c says what is in it). Programs that are not installed are left out.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/programs}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"
cc -O2 -fno-builtin -shared -fPIC -o "$work/count_sizes.so" "$here/count_sizes.c"
apps=$here/../apps

# record NAME COMMAND...: keeps the figures of the process of COMMAND with the largest peak.
record() {
  local name=$1
  shift
  command -v "$1" >/dev/null || { echo "$name: $1 is not installed"; return; }
  rm -f "$work/sizes"
  (cd "$work" && COUNT_SIZES=$work/sizes LD_PRELOAD=$work/count_sizes.so "$@" >/dev/null 2>&1) || true
  [ -s "$work/sizes" ] || { echo "$name: nothing was recorded"; return; }
  awk '/^#/ { keep = $NF > most; if (keep) { most = $NF; text = "" } } keep { text = text $0 "\n" }
       END { printf "%s", text }' "$work/sizes" >"$folder/$name.txt"
  head -1 "$folder/$name.txt"
}

echo 'int main() {}' >"$work/empty.c"
cat >"$work/program.cc" <<'END'
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
int main(int, char** argv) {
  std::map<std::string, std::unordered_map<int, std::string>> maps;
  maps[argv[0]][1] = std::regex_replace(argv[0], std::regex("a"), "b");
  return maps.size() > 1;
}
END
(cd "$work" && for i in $(seq 20000); do echo "{\"id\": $i, \"name\": \"name $i\", \"tags\": [1, $i, \"x$i\"]}"; done >rows.json)
record lua lua5.4 "$apps/tables.lua" 4
record perl perl "$apps/hashes.pl" 4
record python env PYTHONMALLOC=malloc /usr/bin/python3 "$apps/objects.py" 2
record sqlite sqlite3 :memory: ".param init" ".param set :rows 60000" ".read $apps/tables.sql"
record cc1plus g++ -O1 -std=c++17 -c program.cc -o program.o
record clang clang++-19 -O1 -std=c++17 -c program.cc -o program2.o
record git git -C "$here" log --stat -n 300
record node node "$apps/buffers.js" 20
record jq jq -c 'select(.id > 5) | .tags' rows.json
record bash bash -c 'for ((i = 0; i < 20000; ++i)); do a[i]="word $i"; done; f() { local x=$1; echo $((x * 2)); }; for ((i = 0; i < 300; ++i)); do f $i; done'
if command -v redis-server >/dev/null; then
  COUNT_SIZES=$work/redis LD_PRELOAD=$work/count_sizes.so redis-server --port 0 \
      --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" >/dev/null 2>&1 &
  server=$!
  for ((i = 0; i < 100; ++i)); do [ -S "$work/socket" ] && break; sleep 0.1; done
  redis-benchmark -s "$work/socket" -t set,get,lpush,lpop,hset -n 60000 -P 16 -r 30000 >/dev/null
  redis-cli -s "$work/socket" shutdown nosave >/dev/null
  wait $server || true
  mv "$work/redis" "$folder/redis.txt"
  head -1 "$folder/redis.txt"
fi
