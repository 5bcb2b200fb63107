#!/bin/bash
# causal_loops.sh FAGEN: a causal mask costs nothing where tiles are full. A causal kernel has a loop
# over masked tiles and, for the others, the loop of the kernel without a mask at the same tile: as many
# of every instruction, compares and selects included, but for moves and the arithmetic of addresses,
# which the compiler places as it likes, and which make the loop no longer than by 1 %.
set -eu
fagen=$1
tests=$(cd "$(dirname "$0")" && pwd)
. "$tests/cuda_tool.sh"
want_tool causal_loops nvdisasm
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export FA_CACHE_DIR=

# Pairs of entries that have the same tile: spec, entry without a mask, entry under causal.
cat >"$folder/pairs" <<'END'
fwd sm90 bf16 d64: short short
fwd sm90 bf16 d64: main main
fwd sm90 bf16 d128: short short
fwd sm90 bf16 d128: main main
fwd sm90 bf16 d256: main main
bwd sm90 bf16 d128: main main
fwd sm80 bf16 d128: main main
bwd sm80 bf16 d128: main main
END

compile_all() {
  local -a specs
  mapfile -t specs < <(cut -d: -f1 "$folder/pairs" | sort -u)
  "$fagen" compile "${specs[@]}" "${specs[@]/%/ causal}" -o "$folder" >"$folder/log" 2>&1 && return
  tail -n 3 "$folder/log"
  if command -v nvcc >/dev/null; then exit 1; fi
  echo "SKIP causal_loops: NVRTC cannot compile here, and there is no CUDA toolkit that has it"
  exit 77
}

# opcodes FUNCTION OUTPUT: lines of loop, opcode, how many.
opcodes() {
  nvdisasm -c "$folder/${1%_*}.cubin" | awk -v opcodes=1 -f "$tests/sass_loops.awk" |
    sed -n "s/^$1 //p" >"$2"
}

# Two such files: which loop of the second is one of the first, and that another has a mask.
same_loop() {
  awk '
    function of_addresses(opcode) { return opcode ~ /^U?(MOV|IMAD|IADD3|LEA|LOP3|SHF)/ || opcode ~ /^(VIADD|R2UR)/ }
    function of_masks(opcode) { return opcode ~ /^(ISETP|FSETP|FSEL|SEL)/ }
    FNR == 1 { ++file }
    {
      if (!((file, $1) in size)) loops[file] = $1 > loops[file] ? $1 : loops[file]
      size[file, $1] += $3
      if (of_masks($2)) compares[file, $1] += $3
      if (!of_addresses($2)) { number[file, $1, $2] = $3; seen[$2] = 1 }
    }
    function differ(a, b,   opcode, text) {
      for (opcode in seen)
        if (number[1, a, opcode] != number[2, b, opcode])
          text = text sprintf(" %s %d for %d", opcode, number[2, b, opcode], number[1, a, opcode])
      if (size[2, b] > 1.01 * size[1, a]) text = text " its length"
      return text
    }
    END {
      for (a = 1; a <= loops[1]; ++a)
        for (b = 1; b <= loops[2]; ++b) {
          text = differ(a, b)
          if (!shown || length(text) < length(least)) least = text
          shown = 1
          if (text == "" && (!found || size[2, b] > size[2, found])) { found = b; with = a }
        }
      for (b = 1; b <= loops[2]; ++b)
        if (found && compares[2, b] > compares[2, found] && compares[2, b] > most) most = compares[2, b]
      if (!shown) print "no loop around products is found"
      else if (!found) print "no loop is as without a mask; in the nearest:" least
      else if (!most) print "no loop has more compares and selects: where is the mask?"
      else printf "a loop of %d instructions for %d, %d compares and selects in both, %d in the masked\n",
                  size[2, found], size[1, with], compares[2, found], most
      exit !(found && most)
    }' "$1" "$2"
}

compile_all
failed=0
while IFS=: read -r spec entries; do
  read -r full causal <<<"$entries"
  name=fa_${spec// /_}
  opcodes "${name}_$full" "$folder/full"
  opcodes "${name}_causal_$causal" "$folder/causal"
  if said=$(same_loop "$folder/full" "$folder/causal"); then
    echo "$spec, $causal: $said"
  else
    echo "FAULT: $spec, $causal: $said"
    FA_NVRTC=/none "$fagen" explain "$spec" "$spec causal" | sed -n '/^Decisions/,/^$/p'
    failed=1
  fi
done <"$folder/pairs"
exit $failed
