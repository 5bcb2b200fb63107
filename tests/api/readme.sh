#!/bin/bash
# readme.sh COMPILER: the C in README.md is a function body that compiles without a warning.
set -eu
compiler=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
program=$(mktemp --suffix=.c)
trap 'rm -f "$program"' EXIT
{
  echo '#include <fagen.h>'
  echo 'static int fail(const char *why) { return why[0] != 0; }'
  echo 'int example(float *q, float *k, float *v, float *o, float *lse);'
  echo 'int example(float *q, float *k, float *v, float *o, float *lse) {'
  sed -n '/^```c$/,/^```$/p' "$root/README.md" | grep -v '^```\|^#include'
  echo 'return 0; }'
} >"$program"
if ! grep -q fa_forward "$program"; then
  echo "FAILED: README.md shows no call of fa_forward"
  exit 1
fi
"$compiler" -std=c99 -pedantic-errors -Wall -Wextra -Werror -fsyntax-only "-I$root/include" "$program"
echo "no warnings"
