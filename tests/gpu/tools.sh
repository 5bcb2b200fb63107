# Sourced. What the tests of GPU code use and this machine lacks, NVRTC and nvdisasm, from NVIDIA's
# Python packages into build/gpu_tools; neither needs a GPU. Without Python or a network the
# tests are skipped, and say so.
gpu_tools=$PWD/build/gpu_tools

have_nvrtc() {
  [ -n "${FA_NVRTC:-}" ] || ldconfig -p | grep -q 'libnvrtc\.so' ||
    ls "${CUDA_HOME:-/usr/local/cuda}"/lib*/libnvrtc.so.* >/dev/null 2>&1
}

have_nvdisasm() { command -v nvdisasm >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvdisasm" ]; }

fetch() { # what, version; the package nvidia-cuda-WHAT comes into a folder of that name
  [ ! -d "$gpu_tools/$1/nvidia" ] || return 0
  python3 -m pip --version >/dev/null 2>&1 || ./cmake/packages.sh python3-pip || return 0
  echo "Fetching nvidia-cuda-$1 into build/gpu_tools"
  python3 -m pip install -q --no-deps --target "$gpu_tools/$1" "nvidia-cuda-$1$2" \
    2>"$gpu_tools/$1.log" || echo "It cannot be had here: $(tail -n 1 "$gpu_tools/$1.log")"
}

mkdir -p "$gpu_tools"
if ! have_nvrtc; then
  fetch nvrtc '==13.0.*' # spills and registers that tests demand are this version's
  nvrtc=$gpu_tools/nvrtc/nvidia/cu13/lib/libnvrtc.so.13
  [ ! -e "$nvrtc" ] || export FA_NVRTC=$nvrtc
fi
have_nvdisasm || fetch nvdisasm '~=13.0'
PATH=$PATH:$gpu_tools/nvdisasm/nvidia/cu13/bin
