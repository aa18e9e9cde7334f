#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make.sh LANGUAGE OUT.so: how each frozen plugin was made, once. GENERATED: the folder with fk/ops. Triton,
# TileLang and CuTe DSL need a PYTHON with their packages; they and CUDA need the CUDA toolkit.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)" api="$(cd "$(dirname "$0")/../../../plugin_api" && pwd)"
language="$1" out="$(realpath -m "$2")" python="${PYTHON:-python3}" cuda="${CUDA_HOME:-/usr/local/cuda}"
generated="${GENERATED:-$here/../../../build/gen}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
gpu=()
includes=(-I "$api" -I "$generated")
hidden=(-O2 -fPIC -fvisibility=hidden)
cpp=("${CXX:-c++}" -std=c++17 "${hidden[@]}" -fvisibility-inlines-hidden -fno-gnu-unique -ftls-model=global-dynamic "${includes[@]}")
link=(-shared -s -Wl,--version-script="$api/fk/plugin.map" -Wl,-z,now -Wl,-z,defs -Wl,--exclude-libs,ALL -Wl,--gc-sections -o "$out")

# translate OP SOURCE [WORDS]: a language's own build.py writes C++, and a library beside it for some.
translate() {
  "$python" "$api/adapters/$language/build.py" "$here/$language/$2" --header "$generated/fk/ops/$1.h" --out "$work/made.cpp" "${@:3}"
  "${cpp[@]}" -ffunction-sections -I "$api/adapters/$language" "${gpu[@]}" -c "$work/made.cpp" -o "$work/made.o"
}

case "$language" in
  c) "${CC:-cc}" -std=c11 "${hidden[@]}" "${includes[@]}" "$here/c/silu_and_mul.c" "${link[@]}" -lm ;;
  cpp) "${cpp[@]}" "$here/cpp/rms_norm.cpp" "${link[@]}" ;;
  rust)
    # Rust's runtime is large: it is optimised for size, with the kernel.
    printf '#!/bin/sh\ncase "$*" in *staticlib*) exec rustc "$@" -C lto=fat -C opt-level=z ;; *) exec rustc "$@" ;; esac\n' >"$work/rustc"
    chmod +x "$work/rustc"
    RUSTC="$work/rustc" translate rms_norm rms_norm.rs
    "${CXX:-c++}" "$work/made.o" "$work/made.a" "${link[@]}"
    ;;
  opencl)
    translate rms_norm rms_norm.cl
    "${CXX:-c++}" "$work/made.o" "${link[@]}" -lOpenCL
    ;;
  cuda)
    "$cuda/bin/nvcc" -O3 -std=c++17 -arch=sm_90a -cudart shared -DFK_BUILD_SM='"90a"' \
      -Xcompiler=-fPIC,-fvisibility=hidden,-fvisibility-inlines-hidden,-fno-gnu-unique "${includes[@]}" \
      -c "$here/cuda/silu_and_mul.cu" -o "$work/made.o"
    "${CXX:-c++}" "$work/made.o" "${link[@]}" -L"$cuda/lib64" -lcudart
    ;;
  triton | tilelang | cutedsl)
    gpu=(-I "$cuda/include" -DFK_BUILD_SM='"90a"')
    translate rms_norm rms_norm.py --arch 90a
    archive=("$work/made.a")
    [ -f "${archive[0]}" ] || archive=()
    "${CXX:-c++}" "$work/made.o" "${archive[@]}" "${link[@]}" -L"$cuda/lib64" -lcudart
    ;;
  *) echo "make.sh: no such language: $language" >&2; exit 2 ;;
esac
