#!/bin/bash
# sass_loops.sh TEST_GPU_MATRIX: no loop over products of a Hopper kernel uses local memory.
#
# Such a loop is the innermost one around HGMMA instructions: the walk over the tiles of a sequence.
# Around it, once a tile of the grid, some spills are allowed; test_gpu_matrix limits them.
set -eu
matrix=$1
tests=$(cd "$(dirname "$0")" && pwd)

if ! command -v nvdisasm >/dev/null; then
  for home in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    [ ! -x "$home/bin/nvdisasm" ] || PATH=$PATH:$home/bin
  done
fi
if ! command -v nvdisasm >/dev/null; then
  echo "SKIP sass_loops: no nvdisasm on PATH, in \$CUDA_HOME, \$CUDA_PATH or /usr/local/cuda"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# What must be found is found.
failed=0 code=0
cat >"$folder/wanted" <<'END'
FAULT: spills_in_its_loop: a loop of 5 instructions: 1 HGMMA, 1 LDL or STL
spills_around_its_loop: a loop of 6 instructions: 1 HGMMA, 0 LDL or STL
FAULT: has_no_loop: 1 HGMMA, in no loop
END
awk -f "$tests/sass_loops.awk" "$tests/sass_example.txt" >"$folder/found" && failed=1
diff "$folder/wanted" "$folder/found" || failed=1
[ $failed = 0 ] || echo "FAILED: the example is not read as it should be"

"$matrix" "$folder" || code=$?
[ $code != 77 ] || exit 77
[ $code = 0 ] || failed=1
for file in "$folder"/*.cubin; do
  [ -e "$file" ] || break
  nvdisasm -c "$file" | awk -f "$tests/sass_loops.awk" || failed=1
done
exit $failed
