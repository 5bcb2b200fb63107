#!/bin/bash
# search_on_cpu.sh FAGEN CXX: the search for tiles that GPU kernels walk, run on the processor for masks
# of tables and of divisions, in both orders: no kept pair is left out, and full tiles are full.
set -eu
fagen=$1
compiler=$2
tests=$(cd "$(dirname "$0")/.." && pwd)
if ! command -v "$compiler" >/dev/null; then
  echo "SKIP search_on_cpu: no $compiler"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/sm80"
cp -r "$tests/numeric/overlay/variants" "$folder"
cp "$tests/gpu/search/search.cu.lua" "$folder/sm80/fwd.cu.lua"
cp "$tests/gpu/search/search.cu.lua" "$folder/sm80/bwd.cu.lua"
export FA_TEMPLATE_DIR=$folder

failed=0
# judge SPEC: emits, compiles, runs.
judge() {
  "$fagen" emit "$1" >"$folder/search.cc"
  "$compiler" -std=c++17 -O1 -w -I"$tests/gpu/search" "$folder/search.cc" -o "$folder/search"
  "$folder/search" || failed=1
}

for words in document "causal document" block_draft dilated; do
  judge "fwd sm80 bf16 d64 $words"
  judge "bwd sm80 bf16 d64 $words"
done
judge "fwd sm80 bf16 d64 patchwork"
judge "fwd sm80 bf16 d64 causal window patchwork"
exit $failed
