#!/bin/bash
# nvcc_compiles.sh FAGEN: an emitted .cu is complete: nvcc takes it alone, without a warning.
set -eu
fagen=$1

. "$(dirname "$0")/cuda_tool.sh"
want_tool nvcc_compiles nvcc
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

compile() { # option of nvcc for the architecture, then a spec
  local option=$1 spec=$2
  "$fagen" emit "$spec" >"$folder/alone.cu" &&
    nvcc -cubin "$option" -Werror all-warnings -o "$folder/alone.cubin" "$folder/alone.cu" &&
    echo "$spec: $option: $(stat -c %s "$folder/alone.cubin") bytes" && return
  echo "FAILED: $spec"
  failed=1
}

failed=0
compile -arch=sm_80 "fwd sm80 bf16 d64 causal"
compile -arch=sm_80 "bwd sm80 f16 d72 gqa4 det"
compile -arch=sm_80 "bwd sm80 bf16 d64 causal bias"
compile -arch=sm_86 "bwd sm80 bf16 d128 cc86"
compile -arch=sm_89 "fwd sm80 f16 d256 cc89"
compile -arch=sm_100 "fwd sm80 bf16 d128 cc100 causal"
compile -arch=sm_120 "bwd sm80 bf16 d64 cc120 causal"
hopper=-gencode=arch=compute_90a,code=sm_90a
compile $hopper "fwd sm90 bf16 d128 causal"
compile $hopper "bwd sm90 bf16 d64"
compile $hopper "bwd sm90 f16 d256 causal det document"
exit $failed
