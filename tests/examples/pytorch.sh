#!/usr/bin/env bash
# pytorch.sh LIBRARY: examples/pytorch/fagen.py with the python3 that is found, if it has PyTorch.
set -u
library=$(realpath "${1:?usage: pytorch.sh LIBRARY}")
sources=$(cd "$(dirname "$0")/../.." && pwd)
if ! reason=$(python3 -c 'import torch' 2>&1); then
  echo "SKIP pytorch: ${reason##*$'\n'}"
  exit 77
fi
export FAGEN_LIBRARY=$library FA_TEMPLATE_DIR=$sources/tests/numeric/overlay
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$sources/examples/pytorch${PYTHONPATH:+:$PYTHONPATH} \
  exec python3 "$sources/tests/examples/test_pytorch.py"
