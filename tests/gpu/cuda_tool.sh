# Sourced. want_tool TEST NAME: a program of the CUDA toolkit comes onto PATH, or the test is skipped.
want_tool() {
  local home
  command -v "$2" >/dev/null && return
  for home in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    [ ! -x "$home/bin/$2" ] || { PATH=$PATH:$home/bin; return; }
  done
  echo "SKIP $1: no $2 on PATH, in \$CUDA_HOME, \$CUDA_PATH or /usr/local/cuda"
  exit 77
}
