#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fetch_external.sh: header-only libraries of the CUDA providers, from wheels of the Python package index whose
# contents are pinned, into external/ as archives of 3 MB together: copy that folder along to a machine without
# network. Nothing of the wheels is imported; CMake unpacks the archives where it builds. What is there stays.
set -euo pipefail
external="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/external"

# fetch NAME WHEEL SHA256 FOLDER PATHS...: external/NAME.tar.xz with PATHS of FOLDER of the wheel.
fetch() {
  local name="$1" wheel="$2" sum="$3" folder="$4" work
  shift 4
  [[ -f "$external/$name.tar.xz" ]] && return 0
  echo "fetching the headers of $wheel" >&2
  work="$(mktemp -d)"
  if ! python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
       --retries 1 --timeout 20 --disable-pip-version-check -d "$work" "$wheel" >&2 ||
     ! echo "$sum  $(echo "$work"/*.whl)" | sha256sum -c --quiet - >&2; then
    rm -rf "$work"
    echo "$wheel could not be fetched; the provider that needs it is left out" >&2
    return 1
  fi
  python3 -m zipfile -e "$work"/*.whl "$work/wheel"
  mkdir -p "$external"
  tar -C "$work/wheel/$folder" -cJf "$work/archive" "$@"
  mv "$work/archive" "$external/$name.tar.xz"
  rm -rf "$work"
}

status=0
fetch flashinfer-0.6.16 flashinfer-python==0.6.16 059d629cf352dae2d2e17c9b632f1be7c12fd7feb4979d71cdffd96104219e53 flashinfer/data \
  include/flashinfer cutlass/include cutlass/tools/util/include cccl/cub/cub cccl/libcudacxx/include cccl/thrust/thrust spdlog/include || status=1
fetch cudnn-frontend-1.32.0 nvidia-cudnn-frontend==1.32.0 c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0 . include || status=1
exit "$status"
