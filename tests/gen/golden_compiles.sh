#!/bin/bash
# golden_compiles.sh CC: emitted C is strict C99 that needs no header: an ordinary compiler takes it.
set -eu
compiler=$1
folder=$(dirname "$0")/golden

for file in "$folder"/*.c; do
  "$compiler" -std=c99 -pedantic-errors -Wall -Wextra -Werror -nostdinc -fsyntax-only "$file"
  echo "$(basename "$file"): no warnings"
done
