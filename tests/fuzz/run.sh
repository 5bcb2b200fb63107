#!/usr/bin/env bash
# run.sh [SECONDS [TARGET...]]: fuzzes each target (all six) for so long (600), with libFuzzer where
# clang has it, else with the driver of our own; with the address and undefined-behaviour sanitizers
# in either case. What libFuzzer finds goes to build/fuzz/found, a crash to build/fuzz.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
seconds=${1:-600}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(spec arguments template variant entry launch)

has_libfuzzer() {
  echo 'int LLVMFuzzerTestOneInput(const char *d, long n); int LLVMFuzzerTestOneInput(const char *d, long n) { return !d && n; }' |
    clang -fsanitize=fuzzer -x c - -o /dev/null 2>/dev/null
}

options=(-DBUILD_TESTING=ON -DFAGEN_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=Debug)
if has_libfuzzer; then
  options+=(-DCMAKE_C_COMPILER=clang -DFAGEN_LIBFUZZER=ON "-DCMAKE_C_FLAGS=-O1 -fsanitize=fuzzer-no-link")
else
  echo "No libFuzzer here (clang, libclang-rt-dev): mutations without coverage"
  options+=(-DCMAKE_C_FLAGS=-O1)
fi
mkdir -p build
cmake -S . -B build/fuzz "${options[@]}" >build/fuzz.log 2>&1 || { cat build/fuzz.log; exit 1; }
cmake --build build/fuzz -j "$(nproc)" --target fake_nvrtc "${targets[@]/#/fuzz_}" >build/fuzz.log 2>&1 ||
  { tail -n 60 build/fuzz.log; exit 1; }

cd build/fuzz
failed=0
for target in "${targets[@]}"; do
  dictionary=words
  case $target in template | variant) dictionary=lua ;; esac
  mkdir -p "found/$target"
  if "tests/fuzz_$target" -max_total_time="$seconds" -timeout=60 -seed="${FUZZ_SEED:-$RANDOM}" \
    -dict="$root/tests/fuzz/$dictionary.dict" "found/$target" "$root/tests/fuzz/corpus/$target" \
    >"$target.log" 2>&1; then
    grep -hE 'DONE|no crash' "$target.log" | sed "s/^/$target: /"
  else
    failed=1
    echo "$target: FAILED; $PWD/$target.log ends in"
    tail -n 30 "$target.log"
  fi
done
exit $failed
