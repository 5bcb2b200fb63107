#!/bin/bash
# headers.sh c99|cxx COMPILER: the public headers compile without a warning under strict flags.
set -eu
language=$1 compiler=$2
tests=$(cd "$(dirname "$0")" && pwd)
include=$(cd "$tests/../../include" && pwd)
strict=(-pedantic-errors -Wall -Wextra -Werror -Wshadow -fsyntax-only "-I$include")

if ! command -v "$compiler" >/dev/null; then
  echo "skipped: no compiler '$compiler'"
  exit 77
fi

if [ "$language" = c99 ]; then
  for standard in c99 c11; do
    "$compiler" "-std=$standard" -Wstrict-prototypes "${strict[@]}" "$tests/header_c99.c"
    echo "$standard: no warnings"
  done
else
  for standard in c++11 c++17; do
    "$compiler" "-std=$standard" "${strict[@]}" "$tests/header_cxx.cc"
    echo "$standard: no warnings"
  done
fi
