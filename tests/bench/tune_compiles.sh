#!/bin/bash
# tune_compiles.sh FAGEN: the part of tune.py that needs no GPU: it lists what fits, and keeps what
# the compiler does not serialise.
set -u
fagen=$1
tune=$(cd "$(dirname "$0")" && pwd)/tune.py

if ! command -v python3 >/dev/null; then
  echo "SKIP tune_compiles: no python3 on PATH"
  exit 77
fi
code=0
FA_CACHE_DIR='' "$fagen" compile fwd sm90 bf16 d8 >/dev/null 2>&1 || code=$?
if [ $code = 3 ]; then
  echo "SKIP tune_compiles: no NVRTC, which FA_NVRTC may name"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failed=0
expect() { # what, pattern
  if grep -qE -- "$2" "$folder/log"; then
    echo "ok: $1"
  else
    failed=1
    echo "FAILED: $1: no '$2' in:"
    cat "$folder/log"
  fi
}
compile() { python3 "$tune" compile "$@" --program "$fagen" --out "$folder/out" >"$folder/log" 2>&1; }

compile 'fwd bf16 d128 S4096,16384' --only warpgroups=3 keys=80,96 stages=2 q_buffers=2 turns=1 every_peak=0
expect "two fit" "^fwd bf16 d128 S4096,16384: 2 candidates"
expect "of 80 keys one compiles" "^  192x80_[a-z0-9_]+ +[0-9]+ registers"
expect "of 96 keys registers run out" "^  192x96_[a-z0-9_]+ +out: (C75|[0-9]+ bytes of spills)"
cp "$folder/out/rows.json" "$folder/log"
expect "what is left goes to the GPU" '"keys": 80'
cp "$folder/out"/fwd_sm90_bf16_d128/192x80_*/sm90/candidate.lua "$folder/log"
expect "as an overlay" 'forward = .*keys = 80, .*turns = true'

compile 'fwd bf16 d160 S4096' --only keys=80 stages=2 q_buffers=1 turns=1 every_peak=0 q_registers=1
expect "Q in registers is tried" "^  128x80_[a-z0-9_]+_q_registers +[0-9]+ registers"
compile 'bwd f16 d192 causal S1024' --only warpgroups=3
expect "backward has candidates" "^  64x96_[a-z0-9_]+ +[0-9]+ registers"
compile 'bwd f16 causal S1024'
expect "a row without a dimension is refused" "^tune.py: row 'bwd f16 causal S1024'"

# What `time` makes of figures.
python3 - "$(dirname "$tune")" >"$folder/log" 2>&1 <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import tune
class Tried:
    def __init__(self, candidate): self.candidate = candidate
contestants = {"now": Tried(None), "a": Tried({"keys": 64, "turns": True}), "b": Tried({"keys": 96})}
def speed(tflops, of_now, least):
    return {"tflops": tflops, "mhz": 1500, "busy": 60, "spread": 1.0, "of_now": of_now, "least_of_now": least}
measured = {"now": speed(500, 1.0, 1.0), "a": speed(550, 1.1, 1.05), "b": speed(600, 1.2, 1.15)}
errors = {"now": 2.2e-3, "a": 2.2e-3, "b": 2.3e-3, "cuDNN": 2.2e-3, "FA2": 2.1e-3}
precise = tune.precise_ones(contestants, errors)
print("precise:", *precise)
tune.print_proposal({"now": measured["now"], "a": measured["a"]}, precise)
tune.print_proposal({"now": measured["now"], "a": speed(550, 1.1, 0.99)}, precise)
END
expect "an error of more than 1.08 of the better peer's falls out" "^precise: now a$"
expect "the fastest is proposed" \
  'proposal: \{ keys = 64, turns = true, reason = "550 TFLOP/s .*; 1.100 of the row before; now 1.000" \}'
expect "but not if it is behind in one turn" "proposal: keep the row, 500 TFLOP/s; first is a: 550 "
exit $failed
