#!/usr/bin/env bash
# Measures the cpu target and writes the table into README.md, between its bench:cpu marks.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake -S . -B build >/dev/null
cmake --build build -j "$(nproc)" --target bench_cpu >/dev/null
table=$(mktemp)
trap 'rm -f "$table"' EXIT
echo "Measuring; this takes about half a minute." >&2
./build/tests/bench_cpu | tee "$table"
awk -v table="$table" '
  /^<!-- bench:cpu end -->$/ { skipping = 0 }
  !skipping { print }
  /^<!-- bench:cpu begin -->$/ { while ((getline line < table) > 0) print line; skipping = 1 }
' README.md >"$table.readme"
cat "$table.readme" >README.md
rm -f "$table.readme"
