#!/usr/bin/env bash
# test_cli_gpu.sh PROGRAM [FAKE_NVRTC]: `fagen compile`, `fagen cache`, and `fagen explain` for GPU
# targets. Needs no GPU. What needs NVRTC is done with FAKE_NVRTC, a library that stands in for it,
# and again with the machine's own, and skipped where there is none.
set -u
fagen=$(realpath "${1:?usage: test_cli_gpu.sh PROGRAM [FAKE_NVRTC]}")
fake=${2:+$(realpath "$2")}
. "$(dirname "$(realpath "$0")")/support.sh"
own=${FA_NVRTC:-}
unset FA_TEMPLATE_DIR FA_THREADS FA_NVRTC FAKE_NVRTC_ERROR FAKE_NVRTC_MS FAKE_NVRTC_COUNT

# entries: how many the cache folder has, the note about NVRTC left out.
entries() { "$fagen" cache list | grep -c '^fa_'; }

# tiles_of_entry NAME SEQLEN: explain counts the tiles of the kernel that runs at that length.
tiles_of_entry() {
  local rows keys
  run explain fwd sm90 bf16 d128 causal --seqlen "$2"
  read -r rows keys < <(sed -nE "s/^  $1 +([0-9]+) rows x ([0-9]+) keys.*/\1 \2/p" stdout)
  has "tiles of $2 keys are of the entry $1" stdout \
    "mixed of $((($2 + rows - 1) / rows * (($2 + keys - 1) / keys))) a head"
}

# Every variant there is, with the share of its tiles, on every target.
explain_variants() {
  local target variant said
  for target in "cpu f32" "sm80 bf16" "sm90 bf16"; do
    said=
    for variant in $("$fagen" list | sed -n '/^Variants/,$s/^  \([a-z_]*\)  .*/\1/p'); do
      run explain "fwd $target d64 $variant" --seqlen 500 --heads 2
      grep -qE ' tiles .*% empty, .*% full, .*% mixed of [0-9]+ a head$' stdout || said+=" $variant"
    done
    same "the share of tiles of every variant on ${target% *}" "${variant:+all}$said" all
  done
}

without_nvrtc() {
  export FA_NVRTC=$scratch/none.so
  run compile fwd sm80 bf16 d64,128 -o cubins
  expect "compile without NVRTC" 3
  has "names the file" stderr "$FA_NVRTC"
  same "and says so once" "$(grep -c NVRTC stderr)" 1
  empty "and prints no table" stdout
  same "and writes nothing" "$(names cubins)" ""

  run explain fwd sm80 bf16 d64 --heads 32 --seqlen 8192
  expect "explain without NVRTC" 0
  has "shows the plan on a device of the arch" stdout "Launch plan on A100"
  has "which is described" stdout "108 multiprocessors, L2 of 41943040 bytes"
  has "and why it is not this machine's" stdout "A100 stands for cc80: "
  has "with its steps" stdout "fa_fwd_sm80_bf16_d64_main"
  has "their threads" stdout "block 128 x 1 x 1"
  has "and what could not be computed" stdout "not computed        NVRTC"
  run explain fwd sm80 cc86 f16 d64
  has "another arch is another device" stdout "RTX 3090 stands for cc86"
  run explain fwd sm90 bf16 d64 causal --batch 3 --heads 8 --seqlen 500 --seqlen-k 2000
  expect "explain for sm90" 0
  has "tensor map of Q" stdout "64 x 500 x 8 x 3 elements of 2 bytes"
  has "tensor map of K and V" stdout "64 x 2000 x 8 x 3 elements of 2 bytes"
  explain_variants
  tiles_of_entry short 2048
  tiles_of_entry main 4096
  run explain bwd sm90 bf16 d64 causal --seqlen 2048
  has "backward's, not those of its kernel to 1024 keys" stdout "6.25 % mixed of 256 a head"
  run explain bwd sm80 bf16 d64 --heads 3 --seqlen 1024
  expect "explain backward" 0
  has "workspace" stdout "  D                   $((3 * 1024 * 4)) bytes"
  unset FA_NVRTC
}

no_cache_folder() {
  local command
  for command in list verify prune; do
    FA_CACHE_DIR= run cache $command
    expect "cache $command, none wanted" 0
    has "none wanted is said" stdout "FA_CACHE_DIR is empty"
    FA_CACHE_DIR=$scratch/never run cache $command
    expect "cache $command, none there" 0
    has "none there is said" stdout "$scratch/never is not there"
    if [ -e never ]; then not_ok "and it is not made" "it is"; else ok "and it is not made"; fi
  done
  (unset FA_CACHE_DIR XDG_CACHE_HOME HOME && "$fagen" cache list >stdout)
  has "no variable names a folder" stdout "neither FA_CACHE_DIR nor XDG_CACHE_HOME nor HOME"
  mkdir open
  chmod 777 open
  FA_CACHE_DIR=$scratch/open run cache list
  expect "a folder that others may write to" 3
  has "is refused with the reason" stderr "others may write to it"
}

# cell NAME COLUMN: a word of the table that the last run printed.
cell() { awk -v name="$1" -v column="$2" '$1 == name { print $column }' stdout; }

# compiles COMPILER: with FA_NVRTC set for it, or unset for the machine's own.
compiles() {
  local by=$1 name=fa_fwd_sm80_bf16_d64
  export FA_CACHE_DIR=$scratch/kept_$by
  run compile fwd sm80 bf16 d64 --no-cache
  expect "$by: compile" 0
  has "$by: came from the compiler" stdout NVRTC
  empty "$by: nothing on stderr" stderr
  same "$by: no files" "$(find . -name '*.cubin' -not -path './cubins_*')" ""
  FA_CACHE_DIR= run cache list
  if [ -e "$FA_CACHE_DIR" ]; then not_ok "$by: --no-cache keeps nothing" "it made a folder"
  else ok "$by: --no-cache keeps nothing"; fi

  run compile fwd sm80 bf16 d64 "fwd sm80 cc86 f16 d64 causal" --jobs 2 -o "cubins_$by/first"
  expect "$by: compile two into a folder" 0
  same "$by: and there they are" "$(names "cubins_$by/first" | tr '\n' ' ')" \
    "$name.cubin fa_fwd_sm80_cc86_f16_d64_causal.cubin "
  same "$by: the cubin's bytes are those of the table" "$(cell $name 10)" \
    "$(stat -c %s "cubins_$by/first/$name.cubin")"
  same "$by: a cubin is an ELF file" "$(head -c 4 "cubins_$by/first/$name.cubin" | tail -c 3)" ELF
  same "$by: both are kept" "$(entries)" 2
  run compile fwd sm80 bf16 d64 "fwd sm80 cc86 f16 d64 causal" -o "cubins_$by/second"
  same "$by: a second time they are from the disk" "$(grep -c 'disk cache$' stdout)" 2
  same "$by: and the same" "$(diff -r "cubins_$by/first" "cubins_$by/second" && echo same)" same
}

one_that_fails() {
  mkdir -p "broken_$1/variants"
  echo 'return variant { doc = "wrong", keep = function(at) return le(at.k at.q) end }' \
    >"broken_$1/variants/band.lua"
  FA_CACHE_DIR= FA_TEMPLATE_DIR=$scratch/broken_$1 run compile "fwd sm80 bf16 d64 band" "fwd sm80 bf16 d64" \
    -o "cubins_$1/some"
  expect "$1: one of two does not compile" 1
  has "$1: it is named" stderr "fa_fwd_sm80_bf16_d64_band: "
  has "$1: in the table too" stdout "not compiled"
  same "$1: the other is made" "$(names "cubins_$1/some")" fa_fwd_sm80_bf16_d64.cubin
  run compile fwd sm80 bf16 d64 --no-cache -o /proc/cubins
  expect "$1: a folder that cannot be made" 2
}

# The oldest first: two entries are there, the first of them was used long ago.
cache_command() {
  local by=$1 size
  run cache list
  expect "$by: cache list" 0
  same "$by: kernel and arch" "$(cell fa_fwd_sm80_bf16_d64 2)" 80
  same "$by: another arch" "$(cell fa_fwd_sm80_cc86_f16_d64_causal 2)" 86
  run cache verify
  expect "$by: cache verify" 0
  has "$by: tells the folder" stdout "$FA_CACHE_DIR"

  run cache prune
  has "$by: prune without a limit removes nothing that is right" stdout "removed 0 bytes"
  touch -a -d '3 days ago' "$FA_CACHE_DIR"/*.entry
  run compile "fwd sm80 cc86 f16 d64 causal"
  run cache list
  size=$(cell fa_fwd_sm80_cc86_f16_d64_causal 3)
  same "$by: list tells the last use" "$(cell fa_fwd_sm80_bf16_d64 6)" 3
  run cache prune --max-bytes $((size + 10000))
  expect "$by: cache prune" 0
  run cache list
  lacks "$by: what was not used for long is gone" stdout "fa_fwd_sm80_bf16_d64 "
  has "$by: what was used lately is left" stdout fa_fwd_sm80_cc86_f16_d64_causal
  run cache prune --max-bytes 0K
  same "$by: prune to nothing" "$(find "$FA_CACHE_DIR" -type f)" ""
}

# damage HOW: one entry that is right, changed by `damage_HOW FILE`; verify, then prune.
damage_altered() { printf 'X' | dd of="$1" bs=1 seek=200 conv=notrunc status=none; }
damage_cut() { truncate -s -1 "$1"; }
damage_emptied() { : >"$1"; }
damage_renamed() { mv "$1" "$(dirname "$1")/0123456789abcdef0123456789abcdef.entry"; }
damage_opened() { chmod 666 "$1"; }
damaged_entries() {
  local how file
  for how in altered cut emptied renamed opened; do
    run compile fwd sm80 bf16 d64
    file=$(grep -l 'spec fwd' "$FA_CACHE_DIR"/*.entry)
    damage_$how "$file"
    [ -e "$file" ] || file=0123456789abcdef0123456789abcdef.entry
    run cache verify
    expect "$1: an entry $how is noticed" 1
    has "$1: and named, $how" stdout "damaged: ${file##*/}"
    run cache list
    has "$1: and listed so, $how" stdout damaged
    run cache prune
    run cache verify
    expect "$1: prune removes it, $how" 0
    same "$1: and it alone, $how" "$(entries)" 0
  done
}

# A file system of so many kilobytes, which only this test sees.
on_small_disk() {
  # shellcheck disable=SC2016 # the inner shell's own
  unshare --user --map-root-user --mount bash -c \
    'mount -t tmpfs -o size="$1"k,mode=700 none "$2" && shift 2 && "$@"' bash "$1" "$FA_CACHE_DIR" "${@:2}"
}

# Four kernels where one has room, then what the folder holds.
fill_disk() {
  local dtype
  for dtype in bf16 f16; do "$fagen" compile fwd sm80 $dtype d64,72 --jobs 1 || echo "exit code $?"; done
  "$fagen" cache verify || echo "verify: exit code $?"
  find "$FA_CACHE_DIR" -name '*.tmp'
}

full_disk() {
  export FA_CACHE_DIR=$scratch/small
  mkdir -m 700 "$FA_CACHE_DIR"
  if ! on_small_disk 64 true 2>stderr; then
    skip "a full disk" "no file system of our own can be mounted: $(tail -n 1 stderr)"
    return
  fi
  export fagen
  export -f fill_disk
  on_small_disk 64 bash -c fill_disk >stdout 2>stderr
  same "a full disk stops no compilation" "$(grep -c '^fa_fwd_sm80.* NVRTC$' stdout)" 4
  lacks "every command ends well" stdout "exit code"
  has "a full disk is told" stderr "not kept"
  if grep -qE '^([1-9]|1[0-9]) right of \1 entries' stdout; then ok "what had room is kept, and right"
  else not_ok "what had room is kept, and right" "$(tail -n 2 stdout)"; fi
  lacks "nothing half written stays" stdout .tmp
}

# With the stand-in: failures and delays as wanted.
fake_only() {
  export FA_CACHE_DIR=$scratch/kept_more
  FA_TEMPLATE_DIR=$scratch/nowhere run compile fwd sm80 bf16 d64
  expect "an overlay that is not there" 2
  has "is named" stderr "$scratch/nowhere"
  FAKE_NVRTC_ERROR=6 run compile fwd sm80 bf16,f16 d64
  expect "a source that does not compile" 1
  has "is told with the compiler's number" stderr "error 6"
  empty "and there is no table" stdout
  FAKE_NVRTC_ERROR=7 run compile fwd sm80 bf16 d64
  expect "NVRTC without its builtins" 3
  has "is told" stderr "not complete"
  run compile fwd sm80 cc120 bf16 d64
  expect "an arch that this NVRTC does not know" 3
  has "is told with those it knows" stderr "80 86 89 90 100"
  FAKE_NVRTC_COUNT=$scratch/count run compile fwd sm80 bf16,f16 d64,128 causal --jobs 3
  same "each kernel is compiled once" "$(wc -c <count)" 4
  FAKE_NVRTC_MS=700 run compile fwd sm80 bf16 d64 --no-cache
  empty "no progress where there is no terminal" stderr
  if ! script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    skip "progress on a terminal" "there is no command script, or no terminal that it can open"
    return
  fi
  FAKE_NVRTC_MS=800 script -qec "'$fagen' compile fwd sm80 bf16 d64,128 --no-cache --jobs 1" \
    /dev/null >terminal </dev/null
  has "progress on a terminal" terminal "compiling: 1 of 2 done [###############...............]  50 %"
}

# With a driver that stands in too, which has a GPU of compute capability 9.0 first.
fake_gpu() {
  local drivers
  drivers=$(dirname "$fake")
  if [ ! -e "$drivers/libcuda.so.1" ]; then
    skip "with a driver that stands in" "there is none beside $fake"
    return
  fi
  LD_LIBRARY_PATH=$drivers run explain fwd sm80 bf16 d64
  expect "explain with a GPU" 0
  has "is about what that runs" stdout fa_fwd_sm80_cc90_bf16_d64_main
  has "and its plan" stdout "Launch plan on this machine's GPU"
  LD_LIBRARY_PATH=$drivers run explain fwd sm80 cc86 bf16 d64
  expect "explain for another GPU than this" 0
  has "is about a device of that arch" stdout "Launch plan on RTX 3090"
  has "and says why" stdout "this device runs what is made for cc90"
}

# With the machine's own: figures.
own_only() {
  export FA_CACHE_DIR=$scratch/kept_figures
  local name=fa_fwd_sm80_bf16_d64 registers shared
  run compile fwd sm80 bf16 d64
  registers=$(cell $name 4)
  if [ "${registers:-0}" -ge 32 ] && [ "$registers" -le 255 ]; then ok "registers: $registers"
  else not_ok "registers" "'$registers' in: $(cat stdout)"; fi
  if [[ $(cell $name 3) =~ ^[0-9]+\.[0-9]$ ]]; then ok "milliseconds"
  else not_ok "milliseconds" "$(cat stdout)"; fi
  shared="$(cell $name 7) + $(cell $name 9)"
  run explain fwd sm80 bf16 d64
  expect "explain" 0
  if "$fagen" list | grep -A1 '^  sm80' | grep -q 'runs here'; then
    skip "explain has the figures of compile" "it is about this machine's GPU"
  else
    has "explain has the registers of compile" stdout "$registers registers a thread"
    has "from the disk" stdout "from the disk cache"
    has "and the shared memory" stdout "shared memory $shared bytes a block"
  fi
  run explain fwd sm80 bf16 d64
  grep -oE 'occupancy: [1-9][0-9]* blocks? of 1?[0-9]+ threads a multiprocessor, [1-9][0-9]* of [0-9]+' \
    stdout >line
  if [ -s line ]; then ok "$(cat line) warps"; else not_ok "occupancy" "$(tail -5 stdout)"; fi
  local page line
  for page in compile cache; do
    "$fagen" help $page | grep -E '^  fagen ' | sed 's/^ *//' >examples
    while read -r line; do
      mkdir -p bin
      ln -sf "$fagen" bin/fagen
      PATH="$scratch/bin:$PATH" timeout 300 bash -c "$line" >stdout 2>stderr </dev/null
      code=$?
      expect "example: $line" 0
    done <examples
  done
}

with_compiler() {
  compiles "$1"
  one_that_fails "$1"
  cache_command "$1"
  damaged_entries "$1"
}

without_nvrtc
no_cache_folder
if [ -n "$fake" ]; then
  export FA_NVRTC=$fake
  with_compiler fake
  full_disk
  fake_only
  fake_gpu
  unset FA_NVRTC
else
  skip "with a library that stands in for NVRTC" "none is given"
fi
if [ -n "$own" ]; then export FA_NVRTC=$own; fi
FA_CACHE_DIR= run compile fwd sm80 bf16 d64
if [ "$code" -eq 3 ] && command -v nvcc >/dev/null; then
  not_ok "with NVRTC" "the CUDA toolkit is here, but: $(cat stderr)"
elif [ "$code" -eq 3 ]; then
  skip "with NVRTC" "$(cat stderr)"
else
  with_compiler own
  own_only
fi
summary
