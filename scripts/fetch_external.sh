#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fetch_external.sh [--vllm]: sources of the CUDA and Triton providers, from wheels of the Python package index whose
# contents are pinned, into external/ as archives of 4 MB together: copy that folder along to a machine without
# network. Nothing of the wheels is imported; CMake unpacks the archives where it builds. What is there stays.
# --vllm also takes the sources of the provider `mamba` out of vLLM's wheel (304 MB).
set -euo pipefail
external="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/external"

# fetch NAME WHEEL SHA256 FOLDER PATHS...: external/NAME.tar.xz with PATHS of FOLDER of the wheel.
downloads="$(mktemp -d)"
trap 'rm -rf "$downloads"' EXIT
fetch() {
  local name="$1" wheel="$2" sum="$3" folder="$4" work="$downloads/$2"
  shift 4
  [[ -f "$external/$name.tar.xz" ]] && return 0
  if [[ ! -d "$work" ]]; then
    echo "fetching $wheel" >&2
    mkdir -p "$work"
    if ! python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
         --retries 1 --timeout 20 --disable-pip-version-check -d "$work" "$wheel" >&2 ||
       ! echo "$sum  $(echo "$work"/*.whl)" | sha256sum -c --quiet - >&2; then
      echo "$wheel could not be fetched; the provider that needs it is left out" >&2
      rm -f "$work"/*.whl
    fi
  fi
  [[ -f "$(echo "$work"/*.whl)" ]] || return 1
  python3 -m zipfile -e "$work"/*.whl "$work/wheel"
  mkdir -p "$external"
  tar -C "$work/wheel/$folder" -cJf "$work/archive" "$@"
  mv "$work/archive" "$external/$name.tar.xz"
}

status=0
fetch flashinfer-0.6.16 flashinfer-python==0.6.16 059d629cf352dae2d2e17c9b632f1be7c12fd7feb4979d71cdffd96104219e53 flashinfer/data \
  include/flashinfer cutlass/include cutlass/tools/util/include cccl/cub/cub cccl/libcudacxx/include cccl/thrust/thrust spdlog/include || status=1
fetch cudnn-frontend-1.32.0 nvidia-cudnn-frontend==1.32.0 c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0 . include || status=1
fetch fla-core-0.6.0 fla-core==0.6.0 b0708b70e0b119cd58a0a5146ea56cb175cef6ed969d8ac60267e3e077ce3ebd . fla || status=1
if [[ "${1:-}" == --vllm ]]; then
  vllm=(vllm==0.26.0 adb1e4c9b46d0dfdb094121ae5aad670a42412dd813ed4e5db069ed6a15006de)
  fetch vllm-mamba-0.26.0 "${vllm[@]}" . vllm/model_executor/layers/mamba/ops || status=1
fi
exit "$status"
