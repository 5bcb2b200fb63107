#!/usr/bin/env bash
# Builds and passes the tests: with the address and undefined-behaviour sanitizers, with the thread
# sanitizer what threads share, and all of them in a plain build. Says what was skipped and why.
# Needs no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
./cmake/packages.sh build-essential cmake libtcc-dev liblua5.4-dev libxxhash-dev libcmocka-dev

build() { # folder, cmake options; $targets: what to build, empty: all
  local folder=$1
  shift
  cmake -S . -B "$folder" -DBUILD_TESTING=ON "$@" >"$folder.log" 2>&1 || { cat "$folder.log"; exit 1; }
  cmake --build "$folder" -j "$(nproc)" ${targets:+--target $targets} >"$folder.log" 2>&1 || { tail -n 60 "$folder.log"; exit 1; }
}

run() { # folder, ctest options
  local folder=$1
  shift
  (cd "$folder" && ctest --output-on-failure --no-tests=error -j "$(nproc)" "$@")
  local skipped
  skipped=$(grep -rhs '^SKIP' "$folder/Testing/Temporary/LastTest.log" | sort -u || true)
  [ -z "$skipped" ] || printf 'Skipped, and why:\n%s\n' "$skipped"
}

targets=
mkdir -p build
source tests/gpu/tools.sh
echo "== Sanitized build (address, undefined)"
build build/sanitized -DFAGEN_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1
run build/sanitized -LE "slow|gpu"

echo "== Build with the thread sanitizer"
threads="test_load test_registry test_cpu_pool test_jit"
targets="$threads fake_nvrtc"
build build/threads -DFAGEN_SANITIZE=thread -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS=-O1
run build/threads -R "^(${threads// /|})\$"
targets=

echo "== Plain build"
build build
run build
