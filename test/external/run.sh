#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD: installs fk-host into a fresh prefix, builds a vendor's plugin with find_package(fk_plugin) there, and
# has the host find op and plugin without a rebuild. An op without a reference is reported as unjudged.
set -euo pipefail
build="$1" here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
unset FK_CANDIDATES # candidates are made where the user is
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cp -r "$here/vendor" "$work/vendor"
cmake -G Ninja -S "$work/vendor" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
export FK_PLUGIN_PATH="$work/build" FK_REGISTRY_PATH="$work/vendor"
host="$build/fk-host"
"$host" list ops | grep -E '^vendor_square +L1 +activation +vendor'
"$host" show vendor_square | grep -q 'fk_vendor_square_forward'
"$host" check vendor >"$work/out" && exit 1 || test $? = 3  # nobody can judge it: no success
grep -q 'unjudged' "$work/out"
! grep -qE 'wrong +[a-z]|violation +[a-z]' "$work/out"
"$host" bench vendor_square --size smoke --seconds 0.01 >/dev/null && exit 1 || test $? = 3

# The vendor's own reference judges the op: the right plugin passes, a wrong one fails.
for name in reference.vendor wrong_square; do
  mkdir "$work/$name"
  sed "s/FK_PLUGIN(\"vendor\"/FK_PLUGIN(\"$name\"/" "$work/vendor/square.c" >"$work/$name/square.c"
  sed "s/fk_plugin_add(vendor/fk_plugin_add($name/; s#\${CMAKE_CURRENT_SOURCE_DIR}/ops#$work/vendor/ops#" \
    "$work/vendor/CMakeLists.txt" >"$work/$name/CMakeLists.txt"
done
sed -i 's/x \* x;/x * x + 1;/' "$work/wrong_square/square.c"
for name in reference.vendor wrong_square; do
  cmake -G Ninja -S "$work/$name" -B "$work/$name/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
  cmake --build "$work/$name/build" >/dev/null
done
judged="$work/build:$work/reference.vendor/build:$work/wrong_square/build"
FK_PLUGIN_PATH="$judged" "$host" check vendor >"$work/out"
grep -q '^PASS' "$work/out"
FK_PLUGIN_PATH="$judged" "$host" check wrong_square >"$work/out" && exit 1 || test $? = 1
grep -q 'vendor_square .* wrong ' "$work/out"
FK_PLUGIN_PATH="$judged" "$host" bench vendor_square --size smoke --seconds 0.01 --provider vendor --provider reference.vendor >/dev/null
# A candidate cannot make itself the judge.
mkdir "$work/judges"
cp "$work/reference.vendor/build/"*.so "$work/judges/"
FK_CANDIDATES="$work/judges" "$host" check reference.vendor >"$work/out" && exit 1 || test $? = 3
grep -q 'UNJUDGED' "$work/out"

# The installed program: its baselines, its templates, its headers. Candidates are made where the user is.
export FK_CACHE="$work/cache"
cd "$work"
host="$work/prefix/bin/fk-host"
"$host" list plugins | grep -q "^reference .*$work/prefix/lib/fk-host/plugins"
"$host" list plugins | grep -q '^vendor '
"$host" new silu_and_mul --name mine | grep -q 'plain and correct'
"$host" build mine
test -f candidates/mine/mine.so
if find "$work/prefix" -name 'mine*' | grep .; then exit 1; fi
"$host" check mine | grep -q '^PASS'
"$host" run smoke --candidate mine >"$work/out"
grep -q 'correct' "$work/out"

# The templates in C and C++ build by the documented lines of CMake, outside of the repository.
mkdir "$work/mine"
cp "$work/prefix/share/fk-host/template/plugin.c" "$work/mine/"
sed -n '/^```cmake/,/^```$/p' "$here/../../plugin_api/README.md" | sed '/^```/d' >"$work/mine/CMakeLists.txt"
cmake -G Ninja -S "$work/mine" -B "$work/mine/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/mine/build" >/dev/null
"$host" check "$work/mine/build/mine.so" | grep -q '^PASS'

# A vendor's op in Rust beside a source in C; then a candidate in Rust, with the installed adapter.
if command -v "${RUSTC:-rustc}" >/dev/null; then
  mkdir "$work/rust"
  cp "$work/prefix/share/fk-host/adapters/rust/template/rms_norm.rs" "$work/prefix/share/fk-host/template/plugin.c" "$work/rust/"
  sed -i 's/FK_PLUGIN("template_c", "0.1.0");//' "$work/rust/plugin.c"
  sed "s/(mine plugin.c)/(mixed rms_norm.rs plugin.c)/" "$work/mine/CMakeLists.txt" >"$work/rust/CMakeLists.txt"
  cmake -G Ninja -S "$work/rust" -B "$work/rust/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
  cmake --build "$work/rust/build" >/dev/null
  "$host" check "$work/rust/build/mixed.so" >"$work/out"
  grep -q '^PASS' "$work/out" && grep -q '  silu_and_mul  ' "$work/out" && grep -q '  rms_norm  ' "$work/out"
  # A mistake has its file and line.
  sed -i 's/fk::op!(rms_norm/fk::op!(rms_nrm/' "$work/rust/rms_norm.rs"
  if cmake --build "$work/rust/build" >"$work/out"; then exit 1; fi
  grep -q 'rms_norm.rs:[0-9]*: error: fk::op! names the op `rms_nrm`' "$work/out"
  "$host" new linear --lang rust --name from_prefix && "$host" build from_prefix && "$host" check from_prefix | grep -q '^PASS'
else
  echo "rustc is not on the PATH: plugins in Rust were not built"
fi

# The page for an agent, and the reference's source.
"$host" new topk_softmax --task | grep -q 'the whole task'
test -f candidates/my_topk_softmax/op.hpp

# Man pages and completions.
share="$work/prefix/share"
grep -q '^.TH FK-HOST-BENCH 1' "$share/man/man1/fk-host-bench.1"
test -f "$share/man/man1/fk-host.1"
bash -n "$share/bash-completion/completions/fk-host"
grep -q '^#compdef fk-host' "$share/zsh/site-functions/_fk-host"
grep -q 'complete -c fk-host' "$share/fish/vendor_completions.d/fk-host.fish"
echo "1 passed, 0 failed"
