#!/usr/bin/env bash
# test_doctor.sh PROGRAM FAKE_NVRTC FAKE_CUDA: `fagen doctor` where parts are there, missing or
# broken. The driver and NVRTC are those that stand in for them.
set -u
fagen=$(realpath "${1:?usage: test_doctor.sh PROGRAM FAKE_NVRTC FAKE_CUDA}")
nvrtc=$(realpath "${2:?}")
drivers=$(dirname "$(realpath -s "${3:?}")")
. "$(dirname "$(realpath "$0")")/support.sh"
unset FA_TEMPLATE_DIR FA_THREADS FA_LOG FAKE_NVRTC_ERROR FAKE_CUDA
export FA_NVRTC=$nvrtc LD_LIBRARY_PATH=$drivers

# part NAME WORD: the line of that part begins so.
part() {
  if grep -qE "^$1 +$2 " stdout; then ok "$1 $2"; else not_ok "$1 $2" "$(cat stdout)"; fi
}

run doctor
expect "everything is there" 0
for name in processor libtcc driver "device 0" NVRTC cache templates; do part "$name" ok; done
has "the devices" stdout "compute capability 8.6, runs kernels of cc86"
has "the cache to be" stdout "$FA_CACHE_DIR is not there yet"
lacks "and nothing is wrong" stdout WRONG
if [ -e "$FA_CACHE_DIR" ]; then not_ok "the folder is not made" "it is"; else ok "the folder is not made"; fi

"$fagen" compile fwd sm80 bf16 d64 >/dev/null
run doctor
has "the cache's entries" stdout "$FA_CACHE_DIR: 2 entries"
for entry in "$FA_CACHE_DIR"/*.entry; do truncate -s -1 "$entry"; done
run doctor
expect "damaged entries" 1
part cache WRONG
has "they are counted" stdout "2 damaged"

chmod 770 "$FA_CACHE_DIR"
run doctor
expect "a cache that others may write to" 1
has "says what to do" stdout "chmod 700"

export FA_CACHE_DIR=
FAKE_CUDA=stub run doctor
expect "the toolkit's stub" 0
part driver none
FAKE_CUDA=old run doctor
has "an old driver" stdout "CUDA 11.8; 12.0 or later"
FAKE_CUDA=older run doctor
expect "an NVRTC newer than the driver" 1
part NVRTC WRONG
has "is told" stdout "the driver, of CUDA 12, may not load what it makes"
FAKE_NVRTC_ERROR=7 run doctor
expect "NVRTC without its builtins" 1
has "the missing file" stdout "libnvrtc-builtins.so"
FA_NVRTC=$scratch/none.so run doctor
expect "an NVRTC that is named and not there" 1
part cache none
FA_LOG=loud run doctor
expect "FA_LOG" 1
part FA_LOG WRONG
FA_THREADS=0 run doctor
part processor WRONG

mkdir -p overlay/variants
echo 'return 5' >overlay/variants/odd.lua
FA_TEMPLATE_DIR=overlay run doctor
expect "a variant that does not load" 1
has "is named" stdout "overlay/variants/odd.lua"
run doctor now
expect "no arguments" 2
summary
