#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the other scripts: fk_need_packages WORDS... makes sure that Debian packages are there. As root (or
# with a password-less sudo) it installs what is missing; otherwise it prints the one command and stops with 3.
set -euo pipefail

fk_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# What the host, the CPU providers and the tests are built from. oneDNN is in Debian and not in Ubuntu 24.04,
# where OpenBLAS takes its place; either is enough.
fk_build_packages="g++ cmake ninja-build libboost-dev libyaml-cpp-dev libcli11-dev nlohmann-json3-dev libfmt-dev libpcre2-dev libutf8proc-dev"
fk_test_packages="catch2 python3"
# The host is built without them too: verdicts are then not stored, receipts not signed, the service has no workers on
# other machines, pages have no images, and there are no OpenCL devices.
fk_library_packages="libsqlite3-dev libssl-dev libhiredis-dev libpng-dev ocl-icd-opencl-dev"
fk_optional_packages="$fk_library_packages pocl-opencl-icd"
# Programs which scripts/package.sh runs.
fk_packaging_packages="dpkg-dev file git python3-hatchling xz-utils"
# With which the tests start ranks. Installing them starts daemons where systemd runs, which nobody asked for there.
fk_launcher_packages="openmpi-bin slurmctld slurmd slurm-client munge"

fk_installed() { dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

# Installs what may be missing where that can be done without further ado.
fk_want_packages() {
  local missing=() package sudo=()
  for package in "$@"; do fk_installed "$package" || missing+=("$package"); done
  ((${#missing[@]})) || return 0
  [[ $EUID -eq 0 ]] || sudo=(sudo -n)
  # An empty machine has no lists of packages yet.
  apt-cache show "${missing[@]}" >/dev/null 2>&1 || "${sudo[@]}" apt-get update -qq >/dev/null 2>&1 || true
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
    echo "built without ${missing[*]}: what needs them is off" >&2
}

fk_need_packages() {
  local missing=() package
  command -v dpkg-query >/dev/null || return 0  # not a Debian: CMake says what is missing
  # shellcheck disable=SC2086
  fk_want_packages $fk_optional_packages
  for package in "$@"; do fk_installed "$package" || missing+=("$package"); done
  if ! fk_installed libdnnl-dev && ! fk_installed libopenblas-dev; then missing+=(fk-blas); fi
  ((${#missing[@]})) || return 0
  local sudo=()
  if [[ $EUID -ne 0 ]]; then
    if ! sudo -n true 2>/dev/null; then
      echo "packages are missing; install them with" >&2
      echo "  sudo apt-get install -y ${missing[*]/fk-blas/libdnnl-dev}   # libopenblas-dev where there is no libdnnl-dev" >&2
      exit 3
    fi
    sudo=(sudo -n)
  fi
  echo "installing ${missing[*]/fk-blas/libdnnl-dev or libopenblas-dev}" >&2
  "${sudo[@]}" apt-get update -qq >&2 || true
  if [[ " ${missing[*]} " == *" fk-blas "* ]]; then
    missing=("${missing[@]/fk-blas/}")
    if apt-cache show libdnnl-dev >/dev/null 2>&1; then missing+=(libdnnl-dev); else missing+=(libopenblas-dev); fi
  fi
  # shellcheck disable=SC2086
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ${missing[*]} >&2 || {
    echo "the packages could not be installed" >&2
    exit 3
  }
}

# fk_ninja DIR LOG TARGET...: builds, with all output in LOG. Standard error gets a count of the files: a line that
# changes on a terminal, elsewhere a line every ten seconds. Nothing is printed for a build of less than a second.
fk_ninja() {
  local dir="$1" log="$2" line last=$SECONDS eol='\n' every=10 status=0
  shift 2
  [[ ! -t 2 ]] || { eol='\r' every=1; }
  NINJA_STATUS='[%f/%t] ' ninja -C "$dir" "$@" 2>&1 | tee "$log" | while IFS= read -r line; do
    [[ "$line" =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    ((SECONDS - last >= every)) || continue
    last=$SECONDS
    printf "  %s of %s files$eol" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
  done || status=${PIPESTATUS[0]}
  [[ ! -t 2 ]] || printf '\033[K' >&2
  return "$status"
}

# fk_build DIR TARGET...: configures once, builds quietly; the compiler's words are shown only on failure. Where ccache is,
# what another clone has compiled is not compiled again. From nothing the host is compiled 48 files at once, a third of the time; with
# FK_UNITY=0 each file by itself, which is quicker after a change. A folder keeps its setting until another one is asked for.
fk_build() {
  local dir="$1" log args="${FK_CMAKE_ARGS:-}${FK_UNITY:+ -DFK_UNITY=$FK_UNITY}"
  export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$fk_root}" CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"
  shift
  log="$(mktemp)"
  # The header-only libraries of CUDA providers; without network the build goes on without them.
  if [[ "${FK_CMAKE_ARGS:-}" == *FK_CUDA=ON* || ( -e /dev/nvidiactl && -n "$(PATH="$PATH:/usr/local/cuda/bin" command -v nvcc)" ) ]]; then
    "$fk_root/scripts/fetch_external.sh" || true
  fi
  # Configured again when asked for other settings than last time; without a wish any settings are good.
  if [[ ! -f "$dir/build.ninja" || ( -n "$args" && "$args" != "$(cat "$dir/.fk-args" 2>/dev/null)" ) ]]; then
    [[ -f "$dir/CMakeCache.txt" || -n "${FK_UNITY:-}" ]] || args+=" -DFK_UNITY=48"
    echo "configuring $dir" >&2
    # shellcheck disable=SC2086
    if ! cmake -S "$fk_root" -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE="${FK_BUILD_TYPE:-Release}" $args >"$log" 2>&1; then
      cat "$log" >&2
      rm -f "$log"
      exit 3
    fi
    printf '%s' "${args% -DFK_UNITY=48}" >"$dir/.fk-args"
  fi
  if ! fk_ninja "$dir" "$log" "$@"; then
    grep -E "error|FAILED|ninja:" "$log" | head -40 >&2 || tail -40 "$log" >&2
    echo "the build failed; the whole output is in $log" >&2
    exit 3
  fi
  rm -f "$log"
}
