#!/bin/bash
# table.sh: tests/public_bugs.md names tests that exist, leaves none out, and has every row once.
cd "$(dirname "$0")/../.." || exit 1
status=0
complain() {
  echo "public_bugs.md: $*"
  status=1
}

rows=$(grep -oE '^\| B[0-9]+' public_bugs.md)
[ "$(wc -l <<<"$rows")" = 67 ] || complain "$(wc -l <<<"$rows") rows, 67 wanted"
[ -z "$(sort <<<"$rows" | uniq -d)" ] || complain "twice: $(sort <<<"$rows" | uniq -d)"

for name in $(grep -oE '\bb[0-9]+_[a-z0-9_]+' public_bugs.md | sort -u); do
  grep -q "cmocka_unit_test($name)" numeric/public_bugs/*.c || complain "there is no test $name"
done
for name in $(grep -ohE 'cmocka_unit_test\(b[0-9]+_[a-z0-9_]+' numeric/public_bugs/*.c); do
  grep -q "${name#*(}" public_bugs.md || complain "${name#*(} is not in the table"
done
while read -r file name; do
  grep -rq --include="${file%:}" "cmocka_unit_test($name)" . || complain "no $name in ${file%:}"
done < <(grep -oE '[a-z_]+\.c: [a-z0-9_]+' public_bugs.md | sort -u)
exit $status
