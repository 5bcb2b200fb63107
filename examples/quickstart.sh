#!/usr/bin/env bash
# From a fresh Debian machine to a model in training: installs what is missing, builds into build/, emits
# a kernel, checks one against float64, and trains a small transformer on the project's own text.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s\n' "$*"; }

step "Building into build/"
./cmake/packages.sh build-essential cmake libtcc-dev liblua5.4-dev libxxhash-dev
cmake -S . -B build -DBUILD_TESTING=OFF >/dev/null
cmake --build build -j "$(nproc)" | tail -n 1

step "fagen emit: the source of one kernel and of its launch plan"
./build/fagen emit "fwd cpu f32 d64 causal" -o build/emitted

step "fagen check: gradients against a float64 reference"
./build/fagen check "bwd cpu bf16 d64 gqa2 causal"

step "train_text: a causal transformer on this project's text, for about a minute"
./build/train_text --seconds 60 README.md include/*.h gen/*.[ch] gen/*.lua runtime/*.[ch] templates/*/*
