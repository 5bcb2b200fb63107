#!/bin/bash
# own_variant.sh FAGEN: the variant that README.md shows is found, explained, right, and emitted.
set -eu
fagen=$1
readme=$(cd "$(dirname "$0")/../.." && pwd)/README.md
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# The section, its file's name, and the Lua in it.
sed -n '/^## Your own variant/,/^## [^Y]/p' "$readme" >"$folder/section"
if ! [ -s "$folder/section" ]; then
  echo "FAILED: README.md has no section 'Your own variant'"
  exit 1
fi
name=$(grep -o 'variants/[a-z_0-9]*\.lua' "$folder/section" | head -n 1)
name=$(basename "$name" .lua)
mkdir "$folder/variants"
sed -n '/^```lua/,/^```$/p' "$folder/section" | sed '/^```/d' >"$folder/variants/$name.lua"
export FA_TEMPLATE_DIR=$folder

failed=0
# expect WORDS COMMAND...: the command succeeds and says the words.
expect() {
  local words=$1 code=0
  shift
  "$@" >"$folder/said" 2>&1 || code=$?
  if [ $code != 0 ] || ! grep -qF -- "$words" "$folder/said"; then
    echo "FAILED ($code), wanted '$words': $*"
    sed 's/^/  /' "$folder/said"
    failed=1
  fi
}

expect "  $name " "$fagen" list
expect "empty" "$fagen" explain "fwd cpu f32 d64 causal $name" --seqlen 512
for words in "fwd cpu f32 d64 $name" "bwd cpu f32 d40 gqa2 causal $name" "bwd cpu bf16 d64 $name"; do
  expect "right" "$fagen" check "$words"
done
for words in "bwd cpu f32 d64 $name" "fwd,bwd sm80 bf16 d64 $name" "fwd,bwd sm90 bf16 d128 causal $name"; do
  "$fagen" emit "$words" >"$folder/emitted"
  if ! grep -qE "p\.${name}_" "$folder/emitted"; then
    echo "FAILED: the emitted kernel names no parameter of $name: $words"
    failed=1
  fi
done
exit $failed
