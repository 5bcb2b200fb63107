#!/bin/bash
# run_judges.sh: run.sh tells what passes, fails, is skipped and hangs, and its exit code counts them.
# The programs are scripts with the names of some of its list; no GPU is needed.
set -eu
tests=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/tests"

# program NAME LINE...: a script in the place of a test program.
program() {
  local name=$1
  shift
  printf '%s\n' '#!/bin/sh' "$@" >"$folder/tests/$name"
  chmod +x "$folder/tests/$name"
}
program test_shapes "echo '[  PASSED  ] 3 test(s).'"
program test_seam "echo 'SKIP test_seam: no driver'" "exit 77"
program test_repeat "echo '[ RUN      ] a_kernel_that_waits_for_ever'" "exec sleep 60"
program test_large "echo '[  FAILED  ] 1 test(s), listed below:'" "exit 1"

failed=0
# expect CODE PROGRAMS LINE...: run.sh ends so, and prints each line, blanks folded.
expect() {
  local code=0 line wanted=$1 programs=$2
  shift 2
  FAGEN_SECONDS=1 FAGEN_TARGETS=sm80 FAGEN_PROGRAMS=$programs "$tests/run.sh" "$folder" >"$folder/said" 2>&1 ||
    code=$?
  tr -s ' ' <"$folder/said" >"$folder/folded"
  for line in "exit code $wanted" "$@"; do
    grep -qF -- "$line" "$folder/folded" || { echo "FAILED: not said: $line"; failed=1; }
  done
  [ "$code" = "$wanted" ] || { echo "FAILED: exit code $code, wanted $wanted"; failed=1; }
  [ $failed = 0 ] || cat "$folder/said"
}

expect 0 "test_shapes test_seam" "test_shapes sm80 3 0 0" "SKIP test_seam: no driver"
expect 1 "test_shapes test_large" "test_large sm80 0 1 0" "---- test_large_sm80"
expect 1 "test_shapes test_repeat" "ended by signal 14, in a_kernel_that_waits_for_ever"
expect 2 "test_none" "holds none of the programs"

# Ended early, it tells what has ended and in which test the rest is.
FAGEN_SECONDS=60 FAGEN_TARGETS=sm80 FAGEN_PROGRAMS="test_shapes test_repeat" \
  timeout 2 "$tests/run.sh" "$folder" >"$folder/said" 2>&1 || true
for line in "test_shapes sm80 3 0 0" "not ended, in a_kernel_that_waits_for_ever"; do
  tr -s ' ' <"$folder/said" | grep -qF -- "$line" || { echo "FAILED: not said: $line"; failed=1; }
done
[ $failed = 0 ] || cat "$folder/said"
exit $failed
