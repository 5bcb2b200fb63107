#!/bin/bash
# compare_shows.sh: what compare.py makes of runs, without a GPU: medians of all turns of all files,
# ratios to the best, FlashAttention-3 as recorded or as timed, and whose call it times.
set -u
bench=$(cd "$(dirname "$0")" && pwd)
if ! command -v python3 >/dev/null; then
  echo "SKIP compare_shows: no python3 on PATH"
  exit 77
fi
export PYTHONDONTWRITEBYTECODE=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failed=0
same() { # what, got, wanted
  if [ "$2" = "$3" ]; then
    echo "ok: $1"
  else
    failed=1
    printf 'FAILED: %s: got\n%s\nwanted\n%s\n' "$1" "$2" "$3"
  fi
}

# run FILE PEERS: one cell as compare.py saves it; cuDNN as fast as when FA3 was recorded.
run() {
  cat >"$folder/$1" <<END
[{"cell": {"dim": 128, "causal": 1, "seqlen": 4096, "batch": 4, "heads": 16, "heads_kv": 16,
           "cudnn_fwd": 500, "fa3_fwd": 520}, "pass": "fwd", "missing": {}, "mhz": {}, "tflops": {$2}}]
END
}
shown() { (cd "$folder" && python3 "$bench/compare.py" --show "$@" --markdown) | grep -o 'S4096.*'; }
name="S4096 B4 H16/16"

run plain.json '"cudnn": [499, 500, 501], "fagen": [600, 610, 605]'
same "FA3 as recorded is the best other" "$(shown plain.json)" \
  "$name | - | 500 (0.4 %) | 520 | 605 (1.7 %) | - | 1.21 | 1.16 | 0/0 |"
run slow.json '"cudnn": [100], "fagen": [600]'
same "cuDNN much slower than then lowers FA3 by 0.88 at most" "$(shown slow.json)" \
  "$name | - | 100 (0.0 %) | 458 | 600 (0.0 %) | - | 6.00 | 1.31 | 0/0 |"
run timed.json '"cudnn": [500], "fa3": [550], "fagen": [605]'
same "FA3 as timed comes before its record" "$(shown timed.json)" \
  "$name | - | 500 (0.0 %) | 550 (0.0 %) | 605 (0.0 %) | - | 1.21 | 1.10 | 0/0 |"
run more.json '"cudnn": [502, 503], "fagen": [620, 630]'
same "turns of two files are merged" "$(shown plain.json more.json)" \
  "$name | - | 501 (0.8 %) | 521 | 610 (4.9 %) | - | 1.22 | 1.17 | 0/0 |"

# The built FA3 that is given is the one that is called.
echo 'def flash_attn_func(q, k, v, causal=False): return f"FA3 of {q}{k}{v}, causal {causal}", "lse"' \
  >"$folder/flash_attn_interface.py"
same "a built FA3 is called" "$(cd "$bench" && python3 - "$folder" <<'END'
import sys
import compare


class Tensor(str):
    def detach(self): return self
    def requires_grad_(self, wanted): return self


print(compare.built_fa3(None, sys.argv[1], *map(Tensor, "qkvd"), True, "fwd")())
END
)" "FA3 of qkv, causal True"
exit $failed
