#!/bin/bash
# dependency_law.sh ROOT: include <- gen <- runtime; examples see include/ only; emitted code
# includes nothing; no file names a place on one machine.
set -euo pipefail
export LC_ALL=C
cd "$1"
failed=0

complain() {
  echo "$1"
  failed=1
}

# Prints "FILE NAME" for each #include of the files given; NAME keeps its < or ".
includes_of() {
  sed -n -s 's/^[ \t]*#[ \t]*include[ \t]*\([<"][^>"]*\).*/\1/;T;F;p' "$@" | paste - -
}

sources_in() {
  find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cc' \) | sort
}

# allow FOLDER REGEX: every quoted include of FOLDER's files matches, or is a file beside it.
allow() {
  local file name path
  while read -r file name; do
    [[ $name == '"'* ]] || continue
    path=${name#\"}
    [[ -f $(dirname "$file")/$path || $path =~ ^($2)$ ]] ||
      complain "$file includes $path; $1/ may not"
  done < <(includes_of $(sources_in "$1"))
}

# refuse FOLDER REGEX: no include of FOLDER's files, with its < or ", matches.
refuse() {
  local file name
  while read -r file name; do
    [[ $name =~ $2 ]] && complain "$file includes ${name#?}; $1/ may not"
  done < <(includes_of $(sources_in "$1")) || true
}

while read -r file name; do
  [[ $name == '<stddef.h' || $name == '<stdint.h' ]] || complain "$file includes ${name#?}"
done < <(includes_of include/*.h)
includes_of include/fagen_plan.h | grep . && complain "fagen_plan.h is pasted into emitted code"

allow gen 'fagen\.h|fagen_plan\.h'
refuse gen '^(<(cuda|nvrtc|dlfcn|libtcc|pthread)|"(runtime|templates)/)'
allow runtime '((gen|runtime)/)?[a-z_]+\.h|templates/.*\.h|fagen\.h|fagen_plan\.h'
refuse runtime '^(<(cuda|nvrtc)|"(tests|examples)/)'
for file in $(sources_in runtime -maxdepth 1); do
  includes_of "$file" | grep -E 'cli/' && complain "$file includes the program's code"
done
allow examples 'fagen\.h|fagen_plan\.h'
refuse examples '^.(gen|runtime|templates)/'

# Emitted code: what a host compiles with the driver's header is fenced off by FA_WITH_DRIVER.
while read -r file; do
  awk -v file="$file" '
    /^#[ \t]*ifdef FA_WITH_DRIVER/ { inside = 1 }
    /^#[ \t]*endif/ { inside = 0 }
    /^[ \t]*#[ \t]*include/ && !inside { print file ":" FNR ": " $0; found = 1 }
    END { exit found }' "$file" || complain "emitted code includes nothing"
done < <(find templates tests/gen/golden -name '*.lua' -o -name '*.c' -o -path 'templates/*.h')

grep -rnIE --exclude-dir='build*' --exclude-dir=.git \
  '(^|[^A-Za-z0-9_.-])/(wor[k]|roo[t]|hom[e])/' . &&
  complain "a file names a place on one machine"

[ $failed = 0 ] && echo "the law holds"
exit $failed
