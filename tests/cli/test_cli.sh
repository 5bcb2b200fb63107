#!/usr/bin/env bash
# test_cli.sh PROGRAM: the program fagen from outside: exit codes, streams, files, figures. What is
# about compiled GPU kernels is in test_cli_gpu.sh.
set -u
fagen=$(realpath "${1:?usage: test_cli.sh PROGRAM}")
. "$(dirname "$(realpath "$0")")/support.sh"
unset FA_TEMPLATE_DIR FA_THREADS
cc=${CC:-cc}

help_and_version() {
  run
  expect "no command is bad input" 2
  run --help
  expect "--help is right" 0
  cp stdout overview
  run help
  same "help is --help" "$(cat stdout)" "$(cat overview)"
  for command in emit list explain check compile cache doctor help; do
    run help "$command"
    expect "help $command" 0
    cp stdout page
    run "$command" --help
    same "$command --help is help $command" "$(cat stdout)" "$(cat page)"
  done
  run --version
  same "--version" "$(cat stdout)" "fagen $(grep -oE '[0-9]+\.[0-9]+\.[0-9]+' stdout)"
}

# Every line of the help that shows a command to try is run as it stands.
examples_of_the_help() {
  mkdir my_templates bin
  ln -s "$fagen" bin/fagen
  local page line
  for page in help emit list explain check; do
    "$fagen" help $page | grep -E '^  (FA_TEMPLATE_DIR=[a-z_]* )?fagen [a-z]+( |$)' |
      grep -vE 'SPEC|COMMAND' | sed -E 's/^ *//; s/ {3,}.*//; s/\| less/| cat/' >examples
    if [ ! -s examples ]; then not_ok "help $page has examples" "none"; fi
    while read -r line; do
      PATH="$scratch/bin:$PATH" timeout 300 bash -o pipefail -c "$line" >stdout 2>stderr </dev/null
      code=$?
      expect "example: $line" 0
    done <examples
  done
  rm -rf out kernels
}

bad_input() {
  local number
  refuses "unknown command" "'bake'" bake
  refuses "unknown option" "--colour" explain fwd cpu f32 d64 --colour
  refuses "unknown short option" "-x" emit fwd cpu f32 d64 -x
  refuses "an option of another command" "--seqlen" emit fwd cpu f32 d64 --seqlen 3
  refuses "option without its value" "--batch" check fwd cpu f32 d64 --batch
  refuses "no spec" "no spec" emit
  refuses "empty spec" "lacks a pass" emit " "
  refuses "unknown word" "'fwdd'" emit "fwdd cpu f32 d64"
  refuses "unknown variant" "'softcup'" emit "fwd cpu f32 d64 softcup"
  refuses "unknown variant in a pass without variants" "'softcup'" emit "pre cpu f32 d64 softcup"
  refuses "word twice" "'causal'" emit "fwd cpu causal f32 d64 causal"
  refuses "two words of one axis" "'bwd'" emit "fwd cpu f32 d64 bwd"
  refuses "no dtype" "dtype" emit "fwd cpu d64"
  refuses "no head dimension" "head dimension" emit "fwd cpu f32"
  for dim in 0 4 257 264; do
    refuses "head dimension $dim" "$dim" emit "fwd cpu f32 d$dim"
  done
  refuses "f32 on a GPU" "f32" emit "fwd sm90 f32 d64"
  refuses "empty alternative" "'d64,,128'" emit fwd cpu f32 d64,,128
  refuses "argument of list" "'fwd'" list fwd
  refuses "compile without a spec" "no spec" compile
  refuses "compile for the processor" "name a GPU target" compile fwd cpu f32 d64
  refuses "one of several for the processor" "fwd cpu bf16 d64" compile fwd sm80,cpu bf16 d64
  for number in 0 -1 1025 x ""; do
    refuses "--jobs '$number'" "--jobs: '$number'; a whole number from 1 to 1024" \
      compile fwd sm80 bf16 d64 --jobs "$number"
  done
  refuses "a file in the way of the cubins" "--output" compile fwd sm80 bf16 d64 -o "$fagen"
  refuses "cache without a word" "list, verify or prune" cache
  refuses "cache with another word" "'empty'" cache empty
  refuses "cache with two words" "'verify' behind 'list'" cache list verify
  refuses "--max-bytes is for prune" "--max-bytes" cache list --max-bytes 1
  for number in -1 +1 "" " 1" 1.5 1T 1KK K 0x10 9223372036854775808 9007199254740992K 8589934592G; do
    refuses "--max-bytes '$number'" "--max-bytes: '$number'" cache prune --max-bytes "$number"
  done
  local option
  for option in batch heads heads-kv seqlen seqlen-k; do
    refuses "--$option 12x" "--$option: '12x'; a whole number from 0 to 2147483647" \
      explain fwd cpu f32 d64 --$option 12x
  done
  for number in -1 +1 "" " 1" 1.5 0x10 2147483648 99999999999999999999; do
    refuses "--seqlen '$number'" "--seqlen: '$number'" explain fwd cpu f32 d64 --seqlen "$number"
  done
  refuses "--seed -1" "--seed: '-1'" check fwd cpu f32 d64 --seed -1
  refuses "--seed of 65 bits" "--seed" check fwd cpu f32 d64 --seed 18446744073709551616
  for number in 0 -1 nan inf 1e-46 1e39 x ""; do
    refuses "--scale '$number'" "--scale: '$number'" check fwd cpu f32 d64 --scale "$number"
  done
  for number in cap softcap.cap softcap.=1 .cap=1 softcap.cap= softcap.cap=x softcap.cap=nan; do
    refuses "--param $number" "--param: '$number'" check fwd cpu f32 d64 --param "$number"
  done
  refuses "parameter twice" "given twice" check fwd cpu f32 d64 --param a.b=1 --param a.b=2
  refuses "heads and group" "--heads: 6; a multiple of the spec's group 4" \
    explain fwd cpu f32 d64 gqa4 --heads 6
  refuses "heads, key/value heads and group" "--heads-kv: 3 with --heads 8" \
    explain fwd cpu f32 d64 gqa4 --heads 8 --heads-kv 3
  refuses "sizes beyond counting" "sizes" \
    explain fwd cpu f32 d64 --batch 2147483647 --heads 2147483647 --seqlen 2147483647
}

emit_to_stdout() {
  run emit fwd cpu f32 d64 causal
  expect "emit to stdout" 0
  has "the kernel is on stdout" stdout fa_fwd_cpu_f32_d64_causal
  empty "and nothing on stderr" stderr
  cp stdout kernel
  run emit "causal d64 f32 cpu fwd"
  same "word order does not matter" "$(cksum <stdout)" "$(cksum <kernel)"
  run emit fwd cpu f32 d64 causal det
  same "det changes nothing on fwd" "$(cksum <stdout)" "$(cksum <kernel)"
  run emit -o folder fwd cpu f32 d64 causal
  cp folder/fa_fwd_cpu_f32_d64_causal.c file
  same "stdout is what the file holds" "$(cksum <file)" "$(cksum <kernel)"
  run emit fwd cpu f32 d64,128
  cat <("$fagen" emit fwd cpu f32 d64) <("$fagen" emit fwd cpu f32 d128) >kernel
  same "several kernels follow one another" "$(cksum <stdout)" "$(cksum <kernel)"
}

emit_to_a_folder() {
  run emit fwd,bwd cpu f32,bf16 d64,128 gqa2 -o deep/er/folder
  expect "emit a product" 0
  empty "nothing on stdout" stdout
  local wanted
  wanted=$(for pass in bwd fwd; do for dtype in bf16 f32; do for dim in d128 d64; do
    echo "fa_${pass}_cpu_${dtype}_${dim}_gqa2.c"
    echo "fa_${pass}_cpu_${dtype}_${dim}_gqa2_launch.c"
  done; done; done | LC_ALL=C sort)
  same "exactly two files a spec" "$(names deep/er/folder)" "$wanted"
  sed -n "s,^wrote deep/er/folder/,,p" stderr | LC_ALL=C sort >told
  same "what was written is told" "$(cat told)" "$wanted"

  run emit "fwd cpu f32 d64" "d64 fwd cpu f32" "fwd cpu f32 d64 v64 gqa1 det" -o once
  same "one spec in three spellings is written once" "$(grep -c . stderr)" 2
  same "and is two files" "$(names once | wc -l)" 2

  local file=once/fa_fwd_cpu_f32_d64.c
  cp $file fresh
  echo old >$file
  chmod 400 $file
  ln $file kept
  run emit fwd cpu f32 d64 -o once
  same "an old file is replaced" "$(cksum <$file)" "$(cksum <fresh)"
  same "and not written into" "$(cat kept)" old
  same "no temporary file is left" "$(names once | wc -l)" 2
  same "files are as open as the umask allows" \
    "$(umask 027; "$fagen" emit fwd cpu f32 d64 -o once 2>stderr; stat -c %a $file)" 640

  refuses "a file in the way of the folder" "$file" emit fwd cpu f32 d64 -o $file/deeper
  refuses "an empty folder name" "--output" emit fwd cpu f32 d64 -o ""
  mkdir taken taken/fa_fwd_cpu_f32_d64.c
  run emit fwd cpu f32 d64 -o taken
  expect "a file that cannot be replaced" 1
  same "leaves no temporary file" "$(find taken -type f)" ""
}

output_that_is_lost() {
  if [ -w /dev/full ]; then
    "$fagen" emit fwd cpu f32 d64 >/dev/full 2>stderr
    code=$?
    expect "a full disk is noticed" 1
    has "and told" stderr "could not be written"
  else
    skip "a full disk is noticed" "there is no /dev/full"
  fi
  "$fagen" list >&- 2>stderr
  code=$?
  expect "a closed stdout is noticed" 1
  "$fagen" emit fwd cpu f32 d8,16,24,32,40,48,56,64,72,80,88,96 2>stderr | true
  code=${PIPESTATUS[0]}
  expect "a closed pipe is noticed" 1
}

determinism() {
  "$fagen" emit fwd,pre,bwd cpu f32,f16,bf16 d40,128 causal -o first 2>stderr
  mkdir elsewhere
  (cd elsewhere && env -i LC_ALL=C HOME=/ \
    "$fagen" emit causal d128,40 bf16,f16,f32 bwd,pre,fwd cpu \
    -o ../second 2>stderr)
  if diff -r first second >stdout; then
    ok "two processes emit the same bytes"
  else
    not_ok "two processes emit the same bytes" "$(head -3 stdout)"
  fi
  same "all were compared" "$(names first | wc -l)" 36
}

emitted_c_compiles_alone() {
  if ! command -v "$cc" >/dev/null; then
    skip "emitted C compiles alone" "no C compiler"
    return
  fi
  "$fagen" emit fwd,pre,bwd cpu f32,bf16 d72 v40 gqa3 causal det -o alone 2>stderr
  "$fagen" emit fwd,bwd cpu f16 d64 -o alone 2>>stderr
  local file
  for file in alone/*.c; do
    if "$cc" -std=c99 -Wall -Wextra -Werror -c "$file" -o object.o 2>stderr; then
      ok "compiles alone: ${file##*/}"
    else
      not_ok "compiles alone: ${file##*/}" "$(head -5 stderr)"
    fi
  done
}

explain_figures() {
  run explain fwd cpu bf16 d128 --heads 32 --seqlen 8192
  expect "explain" 0
  has "name" stdout fa_fwd_cpu_bf16_d128
  has "pairs" stdout "67108864 of 67108864 a head"
  has "forward FLOPs" stdout "$((4 * 32 * 8192 * 8192 * 128)) ("
  has "backward FLOPs" stdout "$((10 * 32 * 8192 * 8192 * 128)) ("
  has "backward is 2.5 times forward" stdout "2.5 = 640/256 = 5/2"
  has "LSE saved: 1 MiB" stdout "1048576 bytes (1 MiB)"
  has "P stored: 4 GiB" stdout "4294967296 bytes (4 GiB)"
  has "bytes moved" stdout "in all              $((4 * 32 * 8192 * 128 * 2 + 32 * 8192 * 4)) bytes"
  has "plan" stdout "fa_fwd_cpu_bf16_d128_main"
  empty "nothing on stderr" stderr
  cp stdout given
  run explain fwd cpu bf16 d128
  same "these sizes are the default" "$(cat stdout)" "$(cat given)"

  run explain bwd cpu bf16 d128 v64 gqa4 causal --batch 3 --heads-kv 2 --seqlen 100 --seqlen-k 300
  expect "explain backward" 0
  local pairs=$((100 * 300 - 100 * 99 / 2))
  has "causal pairs" stdout "$pairs of 30000 a head"
  has "dim_v in forward" stdout "$((2 * 3 * 8 * pairs * (128 + 64))) ("
  has "dim_v in backward" stdout "$((2 * 3 * 8 * pairs * (3 * 128 + 2 * 64))) ("
  has "K by key/value heads" stdout "$((3 * 300 * 2 * 128 * 2)) bytes"
  has "workspace" stdout "Workspace"
  run explain fwd cpu f32 d64 causal --seqlen 300 --seqlen-k 100
  has "rows that see no key" stdout "$((100 * 101 / 2)) of 30000 a head"
  run explain fwd cpu f32 d64 --batch 0 --seqlen 0
  expect "sizes of 0" 0
  run explain fwd,bwd cpu f32 d64
  same "each spec is explained" "$(grep -cE '^fa_(fwd|bwd)_cpu_f32_d64$' stdout)" 2
}

# The words of a target that cannot run here, and the reason, are found out from `list`.
list_and_targets() {
  run list
  expect "list" 0
  has "list shows the doc of causal" stdout \
    "keys at or before the query, aligned to the bottom right"
  has "the cpu target runs" stdout "runs here"
  cp stdout listed
  run check fwd cpu f32 d64 causal
  expect "check on cpu" 0
  if grep -A1 '^  sm90' listed | grep -q 'cannot run here: .'; then
    run check fwd sm90 bf16 d64
    expect "check on sm90, which cannot run here" 3
    if [ -s stderr ]; then ok "with a reason"; else not_ok "with a reason" "no message"; fi
    lacks "and runs nowhere else" stdout right
    run explain fwd sm90 bf16 d64 causal --heads 32 --seqlen 8192
    expect "explain for sm90 all the same" 0
    has "with the arithmetic" stdout "1048576 bytes (1 MiB)"
    has "and why the plan is not this machine's" stdout "stands for cc90: "
  else
    skip "check on sm90, which cannot run here" "it can"
  fi
}

overlay() {
  mkdir -p overlay/variants broken/variants
  cat >overlay/variants/band.lua <<'LUA'
return variant {
  doc = "keys up to five after the query",
  keep = function(at) return le(at.k - at.q, 5) end,
}
LUA
  cat >broken/variants/band.lua <<'LUA'
return variant {
  doc = "no comma after this",
  keep = function(at) return le(at.k at.q) end,
}
LUA
  cp -r broken endless
  printf 'while true do end\n' >endless/variants/band.lua

  export FA_TEMPLATE_DIR=$scratch/overlay
  run list
  has "an overlay's variant is listed" stdout "keys up to five after the query"
  has "beside the embedded ones" stdout "aligned to the bottom right"
  run emit fwd cpu f32 d64 band -o banded
  expect "an overlay's variant is emitted" 0
  same "with its name" "$(names banded | head -1)" fa_fwd_cpu_f32_d64_band.c
  local q pairs=0
  for ((q = 0; q < 30; ++q)); do pairs=$((pairs + (q + 6 < 30 ? q + 6 : 30))); done
  run explain fwd cpu f32 d64 band --seqlen 30
  has "and explained" stdout "$pairs of 900 a head"
  run explain fwd cpu f32 d64 band --seqlen 20000
  has "too many pairs to count are said to be" stdout "too many pairs to count"
  run check fwd,bwd cpu f32 d64 band causal
  expect "and checked" 0

  export FA_TEMPLATE_DIR=$scratch/broken
  run emit fwd cpu f32 d64 band
  expect "a syntax error in a variant" 1
  has "is told with file and line" stderr "variants/band.lua:3"
  empty "and nothing is emitted" stdout
  run list
  expect "list with a broken variant" 1
  has "lists the others" stdout "aligned to the bottom right"
  export FA_TEMPLATE_DIR=$scratch/endless
  run emit fwd cpu f32 d64 band
  expect "an endless variant is stopped" 1
  has "and told" stderr "band.lua"

  local command
  for command in "list" "emit fwd cpu f32 d64" "explain fwd cpu f32 d64" "check fwd cpu f32 d64"; do
    export FA_TEMPLATE_DIR=$scratch/nowhere
    run $command
    expect "an overlay that is not there: ${command%% *}" 2
    has "is named: ${command%% *}" stderr "$FA_TEMPLATE_DIR"
  done
  export FA_TEMPLATE_DIR=
  run list
  expect "an empty FA_TEMPLATE_DIR is none" 0
  unset FA_TEMPLATE_DIR
}

# A file with parameters goes the whole way: found, listed, explained, checked, emitted, refused.
users_variant() {
  local folder=$scratch/own/variants
  mkdir -p "$folder"
  cat >"$folder/near.lua" <<'LUA'
return variant {
  doc = "keys within reach, and a learned bias for each head that fades with the distance",
  params = {
    reach = i32 { min = 0, max = 500, draw = { 30, 60 } },
    gain = f32 { per = "head", grad = true }, fade = f32 { above = 0, grad = true },
  },
  keep = function(at, p) return le(abs(at.k - at.q), p.reach) end,
  score = function(s, at, p) return s + p.gain * exp(-p.fade * abs(at.k - at.q)) end,
}
LUA
  export FA_TEMPLATE_DIR=$scratch/own
  run list
  expect "a variant with parameters is listed" 0
  has "with its doc" stdout "a learned bias for each head"
  has "a scalar with its limits and what is drawn" stdout \
    "reach: i32 >= 0 <= 500; drawn from 30 to 60"
  has "a table with its shape and gradient" stdout "gain: f32 table, heads, with a gradient"
  run emit bwd cpu f32 d40 gqa2 causal near -o near
  expect "and emitted" 0
  run check "bwd cpu f32 d40 gqa2 causal near"
  expect "and checked with causal" 0
  has "what was drawn is told" stdout "near.fade 0."
  has "a gradient into a scalar is judged" stdout "d near.fade"
  has "and one into a table" stdout "d near.gain"
  cp stdout printed
  run check "bwd cpu f32 d40 gqa2 causal near"
  same "twice the same" "$(cat stdout)" "$(cat printed)"
  run check bwd cpu f32 d40 near --seed 2 --param near.reach=7 --param near.gain=0.25
  expect "with parameters given" 0
  has "those are what is used" stdout "near.gain 4 values, 0.25 to 0.25, near.reach 7"
  run explain fwd cpu f32 d40 near --seqlen 1000 --param near.reach=40
  has "explain shows a parameter" stdout "here 40"
  has "counts with it" stdout "$((1000 * 81 - 40 * 41)) of 1000000 a head"
  # 16 x 16 tiles of 64: the diagonal and 15 on each side of it; all cut but the last, of 40 x 40.
  has "and tells the share of tiles" stdout "82 % empty, 0.391 % full, 17.6 % mixed of 256 a head"
  run explain fwd sm90 bf16 d64 near --seqlen 1000
  expect "and explains it for a GPU" 0
  has "with what it is given there" stdout "near.reach"
  refuses_param "above its limit" "near.lua:4: near.reach: 501; must be a whole number" near.reach=501
  refuses_param "below its limit" "near.lua:5: near.fade: 0; must be a finite number above 0" near.fade=0
  refuses_param "not whole" "near.reach: 1.5" near.reach=1.5
  refuses_param "unknown" "near.range" near.range=1
  run check fwd cpu f32 d40 bias --param bias.distances=2050
  expect "a table that is too long" 2
  has "is told with its range" stderr "bias.distances=2050; a table's length from 1 to 2049 is needed (bias.lua:5)"
  faulty "a Lua comparison" 3 'return at.k < at.q'
  faulty "an unknown symbol" 3 'return le(at.row, 3)'
  # Of a call that is returned Lua keeps no line: that of the function is told.
  faulty "a truth where a number is due" 2 'return le(le(at.k, 1), 0)'
  faulty "a mask that keeps nothing" 2 'return lt(at.k, at.k)'
  faulty "a parameter that is not declared" 3 'return lt(at.k, p.reach)'
  unset FA_TEMPLATE_DIR
}

# refuses_param NAME TEXT PARAM=VALUE
refuses_param() {
  run check fwd cpu f32 d40 near --param "$3"
  expect "a parameter $1" 2
  has "is told: $1" stderr "$2"
}

# faulty NAME LINE STATEMENT: a variant with that statement in its line LINE.
faulty() {
  printf 'return variant {\n  doc = "x", keep = function(at, p)\n    %s\n  end,\n}\n' "$3" \
    >"$FA_TEMPLATE_DIR/variants/faulty.lua"
  run check fwd cpu f32 d40 faulty
  expect "$1" 1
  has "is told with file and line: $1" stderr "variants/faulty.lua:$2: "
  run list
  expect "list with $1" 1
  rm "$FA_TEMPLATE_DIR/variants/faulty.lua"
}

check_command() {
  run check fwd,pre,bwd cpu f32,bf16 d40 v24 gqa3 causal det --seqlen 33 --seqlen-k 65
  expect "check a product" 0
  same "each spec is checked" "$(grep -cE '^fa_(fwd|pre|bwd)_cpu' stdout)" 6
  run check fwd cpu f32 d64 --batch 1 --heads 3 --seqlen 5 --seqlen-k 7 --scale 0.3 --seed 9
  expect "check with every size" 0
  has "shows the sizes" stdout "seqlen_k 7"
  run check fwd cpu f32 d64 --param softcap.cap=30
  expect "a parameter of no variant" 2
  has "is named" stderr softcap.cap
  run check fwd cpu f32 d64 "fwd cpu f32 d64 gqa3" --heads 4
  expect "one bad spec of two" 2
  has "the other is checked" stdout fa_fwd_cpu_f32_d64
}

help_and_version
examples_of_the_help
bad_input
emit_to_stdout
emit_to_a_folder
output_that_is_lost
determinism
emitted_c_compiles_alone
explain_figures
list_and_targets
overlay
users_variant
check_command
summary
