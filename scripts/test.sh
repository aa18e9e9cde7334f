#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds it and runs the quick tier of the tests (docs/quickstart.md says what is in it). Options:
#   --all      every test
#   --units    unit, ABI and parser tests only; --quick means the same
#   --no-asan  without AddressSanitizer and UndefinedBehaviourSanitizer
# The commit chooses the seventh of the emulated kernels, and the attacks, that the quick tier has. With --all GPU tests are built where
# nvcc is, and listed as skipped where there is no GPU. With FK_NEED_LAUNCHERS=1 mpirun and Slurm are installed also where systemd runs,
# and tests fail that cannot start them.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
asan=1 tier=quick units='unit|abi|fuzz'
for option in "$@"; do
  case "$option" in
    --no-asan) asan=0 ;;
    --all) tier=all ;;
    --units | --quick) tier=units ;;
    *) echo "usage: scripts/test.sh [--all | --units] [--no-asan]" >&2; exit 2 ;;
  esac
done
fk_need_packages $fk_build_packages $fk_test_packages
# shellcheck disable=SC2086
[[ $tier != all || ( -d /run/systemd/system && -z ${FK_NEED_LAUNCHERS:-} ) ]] || fk_want_packages $fk_launcher_packages
cd "$fk_root"

# fk_ctest DIR LABELS: runs the tests with one of the labels.
fk_ctest() { ctest --test-dir "$1" -L "$2" --output-on-failure --no-tests=error -j "$(nproc)"; }

if ((asan)); then
  FK_BUILD_TYPE=Debug FK_CMAKE_ARGS="-DBUILD_TESTING=ON -DFK_SANITIZE=ON -DFK_CUDA=OFF -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DCMAKE_C_FLAGS_DEBUG=-O0" fk_build build-asan fk_sanitized_tests
  echo "unit and ABI tests under AddressSanitizer and UndefinedBehaviourSanitizer"
  # Leaks are not looked for: plugins and tables stay on purpose until the process ends.
  ASAN_OPTIONS=detect_leaks=0 fk_ctest build-asan "$units"
  [[ $tier != units ]] || exit 0
fi

case "$tier" in
  units) FK_CMAKE_ARGS=-DBUILD_TESTING=ON fk_build build fk_sanitized_tests fk-host fk_providers
         fk_ctest build "$units" ;;
  quick) head="$(git rev-parse HEAD 2>/dev/null || echo 0)"
         seventh=$((16#${head:0:7} % 7))
         FK_CMAKE_ARGS="-DBUILD_TESTING=ON -DFK_SEVENTH=$seventh" fk_build build fk_quick_tests $( ((asan)) || echo fk_sanitized_tests )
         echo "quick tier: seventh $seventh (of 0 to 6) of the emulated kernels; --all runs everything"
         fk_ctest build "quick$( ((asan)) || echo "|$units" )" ;;
  all) cuda=''
       if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then export PATH="$PATH:/usr/local/cuda/bin"; cuda=-DFK_CUDA=ON; fi
       FK_CMAKE_ARGS="-DBUILD_TESTING=ON $cuda" fk_build build all
       if ! [[ -e /dev/nvidiactl ]]; then
         echo "skipped: GPU tests (no NVIDIA GPU on this machine); they were $( [[ $cuda ]] && echo built || echo "not built: no nvcc")"
       fi
       fk_ctest build . ;;
esac
