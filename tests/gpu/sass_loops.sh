#!/bin/bash
# sass_loops.sh FOLDER: no loop over products of a Hopper kernel uses local memory. FOLDER has the cubins
# that test_gpu_matrix left there (FAGEN_CUBINS); they are read once, and removed.
#
# Such a loop is the innermost one around HGMMA instructions: the walk over the tiles of a sequence.
# Around it, once a tile of the grid, some spills are allowed; test_gpu_matrix limits them.
set -eu
cubins=$1
tests=$(cd "$(dirname "$0")" && pwd)
. "$tests/cuda_tool.sh"
want_tool sass_loops nvdisasm
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# What must be found is found.
failed=0
cat >"$folder/wanted" <<'END'
FAULT: spills_in_its_loop: a loop of 5 instructions: 1 HGMMA, 1 LDL or STL
spills_around_its_loop: a loop of 6 instructions: 1 HGMMA, 0 LDL or STL
FAULT: has_no_loop: 1 HGMMA, in no loop
END
awk -f "$tests/sass_loops.awk" "$tests/sass_example.txt" >"$folder/found" && failed=1
diff "$folder/wanted" "$folder/found" || failed=1
[ $failed = 0 ] || echo "FAILED: the example is not read as it should be"

if ! ls "$cubins"/*.cubin >/dev/null 2>&1; then
  echo "SKIP sass_loops: test_gpu_matrix left no cubins in $cubins"
  exit 77
fi
for file in "$cubins"/*.cubin; do
  nvdisasm -c "$file" | awk -f "$tests/sass_loops.awk" || failed=1
  rm "$file"
done
exit $failed
