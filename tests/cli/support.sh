# support.sh: what the scripts that test the program share. It is sourced with $fagen set, and leaves
# the script in an empty folder, with a disk cache of its own.
# Prints `ok - name`, `not ok - name: details` or `skip - name: reason`.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
export FA_CACHE_DIR=$scratch/.disk_cache
passed=0 failed=0 skipped=0

ok() { echo "ok - $1"; passed=$((passed + 1)); }
not_ok() { echo "not ok - $1: $2"; failed=$((failed + 1)); }
skip() { echo "skip - $1: $2"; skipped=$((skipped + 1)); }

# run ARGUMENTS...: leaves the exit code in $code, the streams in ./stdout and ./stderr.
run() {
  timeout 120 "$fagen" "$@" >stdout 2>stderr </dev/null
  code=$?
}

# expect NAME CODE: what the last run did.
expect() {
  if [ "$code" -eq "$2" ]; then
    ok "$1"
  else
    not_ok "$1" "exit $code, wanted $2; $(head -c 400 stderr)"
  fi
}

# has NAME FILE TEXT, lacks NAME FILE TEXT: fixed strings.
has() {
  if grep -qF -- "$3" "$2"; then
    ok "$1"
  else
    not_ok "$1" "'$3' is not in $2: $(head -c 600 "$2")"
  fi
}
lacks() {
  if grep -qF -- "$3" "$2"; then not_ok "$1" "'$3' is in $2"; else ok "$1"; fi
}
empty() {
  if [ -s "$2" ]; then not_ok "$1" "$2 holds: $(head -c 200 "$2")"; else ok "$1"; fi
}
same() {
  if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "got '$2', wanted '$3'"; fi
}

# names FOLDER: what is in it, hidden files too, sorted.
names() { find "$1" -mindepth 1 -printf '%f\n' | LC_ALL=C sort; }

# refuses NAME TEXT ARGUMENTS...: exit 2, nothing on stdout, and a message with TEXT.
refuses() {
  local name=$1 text=$2
  shift 2
  run "$@"
  if [ "$code" -ne 2 ]; then
    not_ok "$name" "exit $code, wanted 2; $(head -c 400 stderr)"
  elif [ -s stdout ]; then
    not_ok "$name" "stdout holds $(head -c 200 stdout)"
  elif ! grep -qF -- "$text" stderr; then
    not_ok "$name" "'$text' is not in the message: $(cat stderr)"
  else
    ok "$name"
  fi
}

# The script's last command: exit code 1 if anything failed.
summary() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ]
}
