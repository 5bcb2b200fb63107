#!/usr/bin/env bash
# Everything that wants a GPU, from a folder of binaries; needs neither cmake nor ctest.
#   tests/gpu/run.sh BUILD_DIR              the programs of programs.txt, and a table of them
#   tests/gpu/run.sh --sanitize BUILD_DIR   compute-sanitizer over `fagen check` of odd shapes
# FAGEN_TARGETS (default "sm80 sm90") and FAGEN_JOBS (default: as many as processors) limit both,
# FAGEN_PROGRAMS, a list of names, the first, FAGEN_TOOLS (default "memcheck initcheck racecheck") the
# second; COMPUTE_SANITIZER names that program. What hangs is ended after FAGEN_SECONDS (900), and has
# failed.
# Exit code: 0 when all passed or were skipped with a reason, 1 otherwise, 2 for a wrong call.
set -uo pipefail
mode=run
if [ "${1:-}" = --sanitize ]; then
  mode=sanitize
  shift
fi
if [ $# != 1 ] || [ ! -d "$1" ]; then
  sed -n '2,10s/^# //p' "$0"
  exit 2
fi
build=$(cd "$1" && pwd)
sources=$(cd "$(dirname "$0")/../.." && pwd)
cd "$sources" || exit 2
targets=${FAGEN_TARGETS:-sm80 sm90}
jobs=${FAGEN_JOBS:-$(nproc)}
limit=${FAGEN_SECONDS:-900}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export FA_CACHE_DIR=${FA_CACHE_DIR:-$logs/cache}
began=$SECONDS
fagen=$build/fagen

program_file() {
  local name
  for name in "$build/tests/$1" "$build/$1"; do
    [ ! -x "$name" ] || { echo "$name"; return; }
  done
}

# Runs "job NAME ARGUMENTS" in the background, at most $jobs at a time.
start() {
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  "$@" &
}

# NAME: the command's output, exit code and seconds go to files of that name.
timed() {
  local name=$1 start=$EPOCHREALTIME
  shift
  timeout --signal=ALRM --kill-after=20 --preserve-status "$limit" "$@" >"$logs/$name.log" 2>&1 </dev/null
  echo $? >"$logs/$name.rc"
  awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", b - a }' >"$logs/$name.seconds"
}

# Puts the kernels that most tests use into the disk cache, all processors at work: only a matter
# of time, so that nothing depends on this list. sm90 is compiled for 9.0 alone.
compile_ahead() {
  local target=$1 arch='' variants
  [ "$target" != sm80 ] || arch=cc${FAGEN_ARCH:-$(compute_capability)}
  variants=$(basename -s .lua templates/variants/*.lua tests/numeric/overlay/variants/*.lua |
    grep -vx causal | paste -sd ,)
  FA_TEMPLATE_DIR=tests/numeric/overlay timed "compile_$target" "$fagen" compile --jobs "$jobs" \
    "fwd,bwd $target $arch f16,bf16 d8,40,64,72,80,96,128,192,256" \
    "fwd,bwd $target $arch f16,bf16 d8,40,64,72,80,96,128,192,256 causal" \
    "fwd,bwd $target $arch f16 d16,24,32,48,56,88,104,112,120,136,144,152,160,168,176,184" \
    "fwd,bwd $target $arch f16 d200,208,216,224,232,240,248" \
    "fwd,bwd $target $arch f16,bf16 d40 gqa2 ahead,behind,twice" \
    "fwd,bwd $target $arch f16,bf16 d40 gqa2 causal ahead,behind,twice" \
    "fwd,bwd $target $arch f16,bf16 d64 gqa2,gqa3,gqa4,gqa8 causal" \
    "fwd,bwd $target $arch f16,bf16 d64 gqa2" \
    "fwd,bwd $target $arch bf16 d64 gqa2 $variants" \
    "fwd $target $arch f16 d64 gqa2 causal $variants" \
    "bwd $target $arch f16,bf16 d64 gqa2 causal det $variants" \
    "bwd $target $arch bf16 d128,256 det" "bwd $target $arch bf16 d128,256 causal det" \
    "fwd,bwd $target $arch f16 d192 v128 gqa2 causal det" "bwd $target $arch f16 d160 gqa3 causal"
}

compute_capability() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d . |
    grep -E '^(80|86|89|90|100|120)$' || echo 90
}

count() { # of tests that PASSED, FAILED or were SKIPPED in a log of cmocka
  sed -n "s/^\[  $2 *\] \([0-9]*\) test(s).*/\1/p" "$1" | tail -n 1 | grep . || echo 0
}

# One line of the table; 1 when the program failed.
print_row() {
  local program=$1 target=$2 name=$1_$2 log=$logs/$1_$2.log rc seconds note=
  if [ ! -e "$logs/$name.seconds" ]; then
    note=$(grep -a 'RUN ' "$log" 2>/dev/null | tail -n 1 | sed 's/.*\] //')
    printf '%-18s %-6s %40s\n' "$program" "$target" "not ended, in ${note:-its start}"
    return 1
  fi
  rc=$(cat "$logs/$name.rc")
  seconds=$(cat "$logs/$name.seconds")
  if [ "$rc" = 77 ]; then
    note=$(grep -h '^SKIP' "$log" | head -n 1)
    note=${note:-SKIP $program: no reason given}
  elif [ "$rc" -gt 128 ]; then
    note=$(grep -a 'RUN ' "$log" | tail -n 1 | sed 's/.*\] //')
    note="ended by signal $((rc - 128)), in $note"
  elif [ "$rc" != 0 ]; then
    note="exit code $rc"
  fi
  printf '%-18s %-6s %6s %6s %7s %8s  %s\n' "$program" "$target" "$(count "$log" PASSED)" \
    "$(count "$log" FAILED)" "$(count "$log" SKIPPED)" "$seconds" "$note"
  [ "$rc" = 0 ] || [ "$rc" = 77 ]
}

wanted() { [ -z "${FAGEN_PROGRAMS:-}" ] || [[ " $FAGEN_PROGRAMS " == *" $1 "* ]]; }

rows=() # "program target" of what was started

run_programs() {
  local line program target file
  if [ -x "$fagen" ] && [ -e /dev/nvidiactl ] && [ -z "${FAGEN_PROGRAMS:-}" ]; then
    for target in $targets; do
      compile_ahead "$target"
      echo "compiled ahead for $target: $(cat "$logs/compile_$target.seconds") s," \
        "exit code $(cat "$logs/compile_$target.rc")"
    done
  fi
  trap stopped TERM INT
  while read -r line; do
    for target in ${line#* }; do
      program=${line%% *}
      file=$(program_file "$program")
      if ! wanted "$program" || [ -z "$file" ]; then continue; fi
      if [ "$target" = - ]; then # measures times: alone
        timed "${program}_-" "$file"
      elif [[ " $targets " == *" $target "* ]]; then
        start timed "${program}_$target" env FAGEN_TEST_TARGET="$target" "$file"
      else
        continue
      fi
      rows+=("$program $target")
    done
  done < <(grep -v '^#' tests/gpu/programs.txt)
  wait
  [ ${#rows[@]} != 0 ] || { echo "$build holds none of the programs"; return 2; }
  print_table
}

# Told to end early: what is known by then is not lost.
stopped() {
  # shellcheck disable=SC2046 # numbers
  kill $(jobs -p) 2>/dev/null
  print_table
  exit 1
}

print_table() {
  local line status=0
  local -a failed=()
  printf '%-18s %-6s %6s %6s %7s %8s\n' program target passed failed skipped seconds
  for line in "${rows[@]}"; do
    # shellcheck disable=SC2086 # two words
    print_row $line || failed+=("${line/ /_}")
  done
  for line in ${failed[@]+"${failed[@]}"}; do
    printf '\n---- %s\n' "$line"
    grep -avE '^\[ RUN|^\[ +OK' "$logs/$line.log" | tail -n 40
    status=1
  done
  return $status
}

# ---- compute-sanitizer ---------------------------------------------------------------------------

# Whether the target has a kernel of this pass and dimension.
has_kernel() {
  "$fagen" emit "$2" "$1" bf16 "$3" -o "$logs/emitted" >/dev/null 2>"$logs/emit.log"
}

sanitize_one() { # name, tool, sizes, specs...
  local name=$1 tool=$2 sizes=$3
  shift 3
  # shellcheck disable=SC2086 # words
  timed "$name" "$sanitizer" --tool "$tool" --error-exitcode 99 --print-limit 5 \
    "$fagen" check "$@" $sizes
}

# add_case TARGET TOOL QUERIES KEYS TITLE SPECS...: one run of the tool in the background.
add_case() {
  local target=$1 tool=$2 queries=$3 keys=$4 title=$5 name
  shift 5
  cases=$((cases + 1))
  name=${target}_$cases
  echo "$tool|$name|$title, $# kinds|$queries x $keys" >>"$logs/cases"
  start sanitize_one "$name" "$tool" "--batch 2 --heads 3 --seqlen $queries --seqlen-k $keys" "$@"
}

# Racecheck looks at shared memory alone, and takes long: few dimensions, two tiles with a rest. It
# orders what a lane read or wrote only behind that lane's own arrival at an mbarrier. In sm90's backward
# __syncwarp orders the lanes of a warp, and one lane arrives for all: each access of the others is a
# false alarm. A copy of its templates in which every lane arrives has none (bench/NOTES.md).
add_racecheck() {
  local target=$1 pass=$2
  shift 2
  if [ "$pass $target" = "bwd sm90" ]; then
    echo "SKIP racecheck of $pass $target: of lanes that __syncwarp orders it sees only the one that arrives for all"
    return
  fi
  add_case "$target" racecheck 65 129 "$pass $target d40,128" "${@/$dims/d40,128}"
  add_case "$target" racecheck 65 129 "$pass $target d64, variants" "${variants[@]}"
}

# The odd shapes of one target: dimensions at and between tile widths, with and without a group,
# mask and order, each at lengths of one row, part of a tile, and two tiles with a rest. And what only
# variants have: the search for tiles and their order, gradients by tables, the sink's sum.
sanitize_target() {
  local target=$1 tool lengths pass dims arch=''
  [ "$target" != sm80 ] || arch=" cc$(compute_capability)"
  for pass in fwd bwd; do
    if ! has_kernel "$target" "$pass" d64; then
      echo "SKIP $pass $target: $(head -n 1 "$logs/emit.log")"
      continue
    fi
    dims=d8,40,72,96,128,192,256
    has_kernel "$target" "$pass" d256 || dims=d8,40,72,96,128
    local -a specs=("$pass $target bf16 $dims" "$pass $target f16 $dims gqa3 causal")
    local -a variants=("$pass $target bf16 d64 gqa3 causal document bias sink"
      "$pass $target f16 d64 block_draft softcap")
    if [ "$pass" = bwd ]; then
      specs+=("$pass $target bf16 $dims gqa3 causal det" "$pass $target f16 $dims det")
    fi
    "$fagen" compile --jobs "$jobs" "${specs[@]/$target/$target$arch}" \
      "${variants[@]/$target/$target$arch}" >/dev/null 2>&1
    for tool in ${FAGEN_TOOLS:-memcheck initcheck racecheck}; do
      if [ "$tool" = racecheck ]; then
        add_racecheck "$target" "$pass" "${specs[@]}"
        continue
      fi
      for lengths in "1 1" "13 8" "65 129"; do
        # shellcheck disable=SC2086 # two words
        add_case "$target" "$tool" $lengths "$pass $target $dims" "${specs[@]}"
      done
      for lengths in "13 8" "65 129"; do
        # shellcheck disable=SC2086 # two words
        add_case "$target" "$tool" $lengths "$pass $target d64, variants" "${variants[@]}"
      done
    done
  done
}

# One line of the table; 1 unless all is right.
print_sanitized() {
  local tool=$1 name=$2 specs=$3 sizes=$4 rc errors verdict=right
  rc=$(cat "$logs/$name.rc")
  errors=$(sed -nE 's/.*(ERROR|RACECHECK) SUMMARY: ([0-9]+) (error|hazard).*/\2/p' "$logs/$name.log" | tail -n 1)
  [ "$rc" = 0 ] && [ "$errors" = 0 ] || verdict="WRONG, exit code $rc"
  printf '%-10s %-42s %-9s %7s %8s  %s\n' "$tool" "$specs" "$sizes" "${errors:-none}" \
    "$(cat "$logs/$name.seconds")" "$verdict"
  [ "$verdict" != right ] || return 0
  grep -aE '=========|WRONG|fagen:' "$logs/$name.log" | head -n 30
  return 1
}

sanitize() {
  local target tool name specs sizes status=0
  sanitizer=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer)}
  sanitizer=${sanitizer:-/usr/local/cuda/bin/compute-sanitizer}
  if [ ! -x "$sanitizer" ] || [ ! -x "$fagen" ]; then
    echo "compute-sanitizer or $fagen is not there; COMPUTE_SANITIZER may name the first"
    return 1
  fi
  : >"$logs/cases"
  cases=0
  for target in $targets; do sanitize_target "$target"; done
  wait
  printf '%-10s %-42s %-9s %7s %8s  %s\n' tool specs lengths errors seconds verdict
  while IFS='|' read -r tool name specs sizes; do
    print_sanitized "$tool" "$name" "$specs" "$sizes" || status=1
  done <"$logs/cases"
  [ -s "$logs/cases" ] || status=1
  return $status
}

if [ $mode = sanitize ]; then sanitize; else run_programs; fi
status=$?
echo "$((SECONDS - began)) s in all; exit code $status"
exit $status
