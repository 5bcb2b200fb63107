#!/usr/bin/env bash
# Measures what the GPU targets take, on a machine with an NVIDIA GPU, and prints Markdown:
#   tests/bench/gpu.sh [--readme] [BUILD_DIR] [SECONDS]
# rendering, NVRTC, disk and warm start; dispatch and launch; bytes of workspace; then TFLOP/s beside
# cuDNN and FlashAttention (PyTorch has both), sm80 at D = 128 and all cells of the best target, in at
# most SECONDS (600); then variants beside FlexAttention, and the seconds of their first calls. With
# --readme the tables go between README's bench:gpu marks, and the plot that is shown there is drawn
# again (Python's matplotlib); RUNS, if set, is where compare.py's figures are kept.
set -euo pipefail
readme=
if [ "${1:-}" = --readme ]; then
  readme=yes
  shift
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
cd "$root"
seconds=${2:-600}
program=$build/tests
[ -x "$program/bench_build" ] || program=$build
runs=${RUNS:-$(mktemp -d)}
export FAGEN_LIBRARY=${FAGEN_LIBRARY:-$build/libfagen.so.0}
compare() { python3 tests/bench/compare.py "$@"; }

# Bytes of workspace for 32 heads of D = 128, as the launch plan has them.
workspace() {
  printf '| workspace of `%s`, 32 heads | 8192 | 131072 |\n|---|---|---|\n' "$1"
  paste -d '|' <(workspace_terms "$1" 8192) <(workspace_terms "$1" 131072 | cut -d '|' -f 2) |
    sed 's/^\(.*\)|\(.*\)|\(.*\)$/| \1 | \2 | \3 |/'
}

workspace_terms() {
  "$build/fagen" explain "$1" --batch 1 --heads 32 --seqlen "$2" |
    sed -n '/^Workspace/,/^$/s/^  \([A-Za-z ]*[A-Za-z]\)  *\([0-9]*\) bytes.*/\1|\2/p'
}

costs() {
  "$program/bench_build"
  echo
  "$program/test_cuda_runtime" | grep -E ' (us|ns)$' | sed 's/^/- /' || true
  printf '\nBytes of workspace:\n\n'
  workspace "bwd sm80 bf16 d128"
  echo
  workspace "bwd sm90 bf16 d128 det"
}

speed() {
  compare --target sm80 --only 'D128 full S8192' --save "$runs/sm80.json" --seconds "$seconds"
  compare --det --save "$runs/best.json" --seconds "$seconds"
  compare --variants --save "$runs/variants.json"
}

replace_between_marks() { # file
  awk -v table="$1" '
    /^<!-- bench:gpu end -->$/ { skipping = 0 }
    !skipping { print }
    /^<!-- bench:gpu begin -->$/ { while ((getline line < table) > 0) print line; skipping = 1 }
  ' README.md >"$runs/readme"
  cat "$runs/readme" >README.md
}

costs | tee "$runs/costs.md"
speed
{
  cat "$runs/costs.md"
  printf '\nTarget `sm80`, whose tiles are for all architectures:\n\n'
  compare --show "$runs/sm80.json" --markdown | grep '^|'
  printf '\nTarget `sm90`:\n'
  compare --show "$runs/best.json" --short | sed 's/^\(fwd\|bwd\|deterministic\):/- &/'
  printf '\nVariants: TFLOP/s of the pairs that the mask keeps; O, LSE, all gradients and workspace; first calls\n'
  printf 'that find nothing on disk (`compare.py --variants` says what the problems are):\n\n'
  compare --variants --show "$runs/variants.json" --short
} >"$runs/tables.md"
cat "$runs/tables.md"
if [ "$readme" ]; then
  replace_between_marks "$runs/tables.md"
  compare --show "$runs/best.json" --plot tests/bench/h200.png >/dev/null
fi
