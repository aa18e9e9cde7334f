#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# vendor.sh BUILD SUITE: installs fk-host into a fresh prefix, builds a vendor's device backend there with
# find_package(fk_plugin), and runs it: through the device suite, and with a plugin through `check`. Broken libraries
# are refused with a clear word, or fail the suite.
set -euo pipefail
build="$1" suite="$2" here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
unset FK_BACKENDS FK_PLUGIN_PATH
fail() {
  echo "FAILED: $*"
  cat "$work/out"
  exit 1
}
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cp -r "$here/vendor" "$work/vendor"
cmake -G Ninja -S "$work/vendor" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >"$work/out" || fail "the vendor's project does not build"
host="$work/prefix/bin/fk-host" queue="$work/build/queue/queue.so"

# The right library passes the suite, by its path.
FK_SUITE_DEVICE="$queue" "$suite" >"$work/out" 2>&1 || fail "the suite"
grep -q 'All tests passed' "$work/out" || fail "no test ran"

# The host finds it in FK_BACKENDS and beside its own, and shows its origin.
FK_BACKENDS="$work/build/queue" "$host" list devices >"$work/out"
grep -qE "^queue:0 +queue:0 Queue One +1 +$queue" "$work/out" || fail "list devices"
grep -q '^queue:0: no file in registry' "$work/out" && fail "its peaks are not read"
cp "$queue" "$work/prefix/lib/fk-host/backends/"
"$host" list devices >"$work/out"
grep -q "^queue:0 .*prefix/lib/fk-host/backends/queue.so" "$work/out" || fail "list devices, installed"
rm "$work/prefix/lib/fk-host/backends/queue.so"
"$host" check rms_norm --device queue:0 >"$work/out" 2>&1 && fail "a device without a backend"
grep -q 'no backend here brings devices of the kind `queue`' "$work/out" || fail "no reason"
# No candidate brings a backend.
mkdir -p "$work/candidates/evil"
cp "$queue" "$work/candidates/evil/"
FK_CANDIDATES="$work/candidates" FK_BACKENDS="$work/candidates/evil" "$host" list devices >"$work/out"
grep -q 'lies in the folder of candidates' "$work/out" || fail "a candidate's backend"
grep -q '^queue:0' "$work/out" && fail "a candidate's backend was loaded"

# A plugin for it is checked, with a capture, and judged in the sandbox.
mkdir -p "$work/candidates/silu"
rm -r "$work/candidates/evil"
cp "$work/build/queue_silu.so" "$work/candidates/silu/"
export FK_CANDIDATES="$work/candidates" FK_CACHE="$work/cache" FK_DATA="$work/data"
FK_BACKENDS="$work/build/queue" "$host" check queue_silu --device queue:0 >"$work/out" 2>&1 || fail "check"
grep -q '^PASS' "$work/out" || fail "check says no PASS"

# Refused when they are loaded, each with its reason.
refused() {
  FK_BACKENDS="$2" "$host" list devices >"$work/out" 2>&1 || fail "list devices with $1"
  grep -qF "$3" "$work/out" || fail "$1: no \`$3\`"
  FK_BACKENDS="$2" "$host" check silu_and_mul --device queue:0 >"$work/out" 2>&1 && fail "$1 works"
  FK_SUITE_DEVICE="$2" "$suite" >"$work/out" 2>&1 && fail "the suite passes $1"
  grep -qF "$3" "$work/out" || fail "$1: the suite does not say \`$3\`"
}
so() { echo "$work/build/load_$1/load_$1.so"; }
refused major "$(so major)" 'was built for fk_backend_v7, this host speaks v0'
refused missing "$(so missing)" 'its table has a null `fill`'
refused group "$(so group)" 'and a null `launch_or_null`; the group `capture` is complete or absent'
refused size "$(so size)" 'its table has 64 bytes, at least 512 are needed'
refused minor "$(so minor)" 'it needs minor 7 of fk_backend_v0, this host has 0'
refused name "$(so name)" 'its table says `other 1.0`, its note `queue 1.0`'
refused type "$(so type)" 'its table has device_type 1'
refused null "$(so null)" 'this machine has no driver for it'
refused unresolved "$(so unresolved)" 'undefined symbol: missing_in_every_library'
echo 'int main' >"$work/text.so"
refused text "$work/text.so" 'is not an ELF file'
head -c 6000 "$queue" >"$work/short.so"
refused short "$work/short.so" 'is truncated'
refused plugin "$work/build/queue_silu.so" 'is no device backend: it has no note of FK_BACKEND'
refused absent "$work/absent.so" 'cannot be opened'

# Loaded, and found wrong by the suite; the test's name says why.
wrong() {
  FK_SUITE_DEVICE="$work/build/run_$1/run_$1.so" timeout 120 "$suite" >"$work/out" 2>&1 && fail "the suite passes $1"
  grep -q "^device_$2" "$work/out" || fail "$1: device_$2 does not fail"
}
wrong alignment memory_is_aligned_and_apart
wrong upload copies_in_the_order_of_the_calls
wrong order copies_in_the_order_of_the_calls
wrong fill writes_only_the_bytes_of_a_copy
wrong share shares_memory_by_a_descriptor
wrong hold holds_its_stream_until_it_is_let_go
wrong capture runs_captured_work_at_every_launch_and_not_before
wrong clock stopwatch_measures_enqueued_work
echo passed
