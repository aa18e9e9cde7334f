#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds everything and runs all tests: first the unit and ABI tests under
# AddressSanitizer and UndefinedBehaviourSanitizer, then the whole suite. Options: --no-asan, --quick (unit and
# ABI tests only). GPU tests are built where nvcc is, and listed as skipped where there is no GPU. With FK_UNITY=12 in the
# environment files of the host are compiled twelve at once: half the time from scratch, more after a change. With FK_NEED_LAUNCHERS=1
# mpirun and Slurm are installed also where systemd runs, and tests fail that cannot start them.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
asan=1 labels=()
for option in "$@"; do
  case "$option" in
    --no-asan) asan=0 ;;
    --quick) labels=(-L 'unit|abi') ;;
    *) echo "usage: scripts/test.sh [--no-asan] [--quick]" >&2; exit 2 ;;
  esac
done
fk_need_packages $fk_build_packages $fk_test_packages
# shellcheck disable=SC2086
[[ -d /run/systemd/system && -z ${FK_NEED_LAUNCHERS:-} ]] || fk_want_packages $fk_launcher_packages
cd "$fk_root"
cmake_args=(-DBUILD_TESTING=ON "-DFK_UNITY=${FK_UNITY:-0}")
if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then export PATH="$PATH:/usr/local/cuda/bin"; cmake_args+=(-DFK_CUDA=ON); fi
if ((asan)); then
  # Twelve files at once: instances of templates, of which most of the instrumented code is, are compiled once for all of them.
  FK_BUILD_TYPE=Debug FK_CMAKE_ARGS="-DBUILD_TESTING=ON -DFK_SANITIZE=ON -DFK_CUDA=OFF -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_C_FLAGS_DEBUG=-O0 -DFK_UNITY=12" fk_build build-asan fk_sanitized_tests
  echo "unit and ABI tests under AddressSanitizer and UndefinedBehaviourSanitizer"
  # Leaks are not looked for: plugins and tables stay on purpose until the process ends.
  ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build-asan -L 'unit|abi|fuzz' --output-on-failure --no-tests=error -j "$(nproc)"
fi
FK_CMAKE_ARGS="${cmake_args[*]}" fk_build build all
if ! [[ -e /dev/nvidiactl ]]; then
  echo "skipped: GPU tests (no NVIDIA GPU on this machine); they were $( [[ "${cmake_args[*]}" == *CUDA* ]] && echo built || echo "not built: no nvcc")"
fi
ctest --test-dir build "${labels[@]}" --output-on-failure --no-tests=error -j "$(nproc)"
