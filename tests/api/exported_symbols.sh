#!/bin/bash
# exported_symbols.sh LIBRARY: the shared library shows the symbols of symbols.txt and nothing else,
# needs neither what is inside it nor any GPU library, has no page both writable and executable, and calls
# nothing that ends the process, starts another or opens a connection.
# A new function of fagen.h goes into symbols.txt by hand: names are for ever.
set -euo pipefail
export LC_ALL=C
library=$1
tests=$(cd "$(dirname "$0")" && pwd)
failed=0

complain() {
  echo "$1"
  failed=1
}

diff "$tests/symbols.txt" <(nm -D --defined-only "$library" | awk '{print $3}' | sort) ||
  complain "exported symbols differ from symbols.txt (<: listed, >: exported)"

diff "$tests/symbols.txt" <(sed -n 's/^FA_API .*[ *]\(fa_[a-z_]*\)(.*/\1/p' \
  "$tests/../../include/fagen.h" | sort) ||
  complain "fagen.h declares other functions than symbols.txt lists (>: declared)"

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for name in $needed; do
  case $name in
    libc.so.* | libm.so.* | ld-linux* | libpthread.so.* | libdl.so.* | libgcc_s.so.*) ;;
    libasan.so.* | libubsan.so.* | libtsan.so.*) ;; # of a build with sanitizers
    *) complain "needs $name" ;;
  esac
done

readelf -d "$library" | grep -q TEXTREL && complain "has text relocations"
readelf -lW "$library" | grep -Eq '(LOAD|GNU_STACK).* RWE' &&
  complain "has a segment that is writable and executable"
undefined=$(nm -D --undefined-only "$library" | awk '{print $2}' |
  grep -E '^(lua|tcc|cu[A-Z]|cuda|nvrtc|XXH)' || true)
[ -z "$undefined" ] || complain "wants from elsewhere: $undefined"
calls=$(nm -D --undefined-only "$library" | awk '{print $2}' | sed 's/@.*//' |
  grep -xE '_?exit|_Exit|quick_exit|v?fork|exec[a-z]+|posix_spawnp?|system|popen|socket|connect' || true)
[ -z "$calls" ] || complain "ends the process, starts one or opens a connection: $calls"

[ $failed = 0 ] && echo "$(wc -l <"$tests/symbols.txt") symbols; needs" $needed
exit $failed
