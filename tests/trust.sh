#!/usr/bin/env bash
# trust.sh [SECONDS]: makes the table of the README's section on reliability: builds with the
# sanitizers, makes calls fail, fuzzes each target for so long (60), races processes and threads,
# compares runs bit by bit, and measures a load. Needs no GPU. The table goes to stdout, the rest to
# build/trust.log. Exit code 1 when anything went wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
seconds=${1:-60}
mkdir -p build
log=$root/build/trust.log
export FAGEN_TRUST_REPORT=$root/build/trust.figures
rm -f "$FAGEN_TRUST_REPORT"
: >"$log"
status=0

build() { # folder, targets, cmake options
  local folder=$1 targets=$2
  shift 2
  # shellcheck disable=SC2086 # a list
  { cmake -S . -B "$folder" -DBUILD_TESTING=ON "$@" &&
    cmake --build "$folder" -j "$(nproc)" --target $targets; } >>"$log" 2>&1 ||
    { tail -n 40 "$log" >&2; exit 1; }
}

try() { # what, command...
  local what=$1
  shift
  echo "== $what" >>"$log"
  "$@" >>"$log" 2>&1 && return
  echo "$what failed; see $log" >&2
  status=1
}

sum() { awk -v kind="$1" -v column="$2" '$1 == kind { n += $column } END { print n + 0 }' "$FAGEN_TRUST_REPORT"; }
load_of() { awk -v threads="$1" '$1 == "load" && $2 == threads { print $3 }' "$FAGEN_TRUST_REPORT"; }
row() { printf '| %s | %s | %s |\n' "$1" "$2" "$3"; }

build build/sanitized "test_faults test_cache test_load fake_nvrtc fake_nvrtc_next" \
  -DFAGEN_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1
try "calls made to fail" env FAGEN_FAULTS_DENSE="${FAGEN_FAULTS_DENSE:-8}" build/sanitized/tests/test_faults
try "processes" build/sanitized/tests/test_cache
try "threads and runs" build/sanitized/tests/test_load
rm -f build/fuzz/{crash,timeout,oom,leak}-*
try "fuzzers" tests/fuzz/run.sh "$seconds"

build build/threads "test_load test_registry test_cpu_pool test_jit fake_nvrtc" \
  -DFAGEN_SANITIZE=thread -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1
for program in test_load test_registry test_cpu_pool test_jit; do
  # Its own figures are those of the other build again.
  try "$program under the thread sanitizer" env -u FAGEN_TRUST_REPORT "build/threads/tests/$program"
done
races=$(grep -c 'WARNING: ThreadSanitizer' "$log" || true)

build build "load fake_nvrtc"
try "load" build/tests/load

# Of libFuzzer, whose figures are in its logs: "#12345 DONE".
inputs=$(sum fuzz 2)
for file in build/fuzz/*.log; do
  runs=$(sed -n 's/^#\([0-9]*\)[ \t]*DONE.*/\1/p' "$file" | tail -n 1)
  inputs=$((inputs + ${runs:-0}))
done
crashes=$(find build/fuzz -maxdepth 1 \( -name 'crash-*' -o -name 'timeout-*' -o -name 'oom-*' -o -name 'leak-*' \) | wc -l)

echo "| What | How much | Went wrong |"
echo "|---|---|---|"
row "Calls made to fail (memory, files, pages, threads, libtcc, Lua, NVRTC, driver), each alone and with all that follow" \
  "$(sum faults 2) faults, $(sum faults 3) survived" $(($(sum faults 2) - $(sum faults 3)))
row "Inputs fuzzed: specs, command lines, templates, variants, cache entries, launch arguments" \
  "$inputs" "$crashes crashes"
row "Processes that ask for one cold kernel at once" \
  "$(sum processes 2) processes, $(sum processes 3) compilation" "$(sum processes 4) wrong"
row "Threads that build, look up, launch, evict at once" \
  "$(sum threads 2) threads, $(sum threads 3) kernels, $(sum threads 4) compilations" "$(sum threads 5) wrong"
row "The same under the thread sanitizer" "4 programs" "$races races"
row "Forward and backward with 1, 2 and 3 threads, compared bit by bit" "$(sum runs 2) runs" \
  "$(sum runs 3) differences"
echo
echo "fa_forward on a warm cache, on $(nproc) processors, without a GPU's work: $(load_of 1), $(load_of 2) and" \
  "$(load_of 8) million calls a second from 1, 2 and 8 threads."
exit $status
