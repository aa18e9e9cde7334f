#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# headers.sh PLUGIN_API GENERATED: every header of the ABI and of every contract compiles alone, as C11, C++17 and
# C++20, with all warnings as errors. Contracts that have grown are compiled at their newest edition, and at every
# older one as C11 and C++20.
set -u
api="$1" generated="$2" bad=0 count=0
warn="-fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wcast-qual -Werror -Wno-unused-const-variable -Wno-unused-function"
try() {  # try COMPILER HEADER [EDITION]
  count=$((count + 1))
  if ! printf '%s\n#include "%s"\n' "${3:-}" "$2" | $1 $warn -I"$api" -I"$generated" - 2>"$log"; then
    bad=$((bad + 1))
    echo "FAILED: $1 $2"
    head -5 "$log"
  fi
}
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
for header in "$api"/fk/*.h "$generated"/fk/ops/*.h; do
  name="fk/${header##*/fk/}"
  edition="$(grep -o '#define FK_[A-Z0-9_]*_EDITION [0-9]*' "$header" | head -1)"
  try "${CC:-cc} -std=c11 -xc" "$name" "$edition"
  try "${CXX:-c++} -std=c++17 -xc++" "$name" "$edition"
  try "${CXX:-c++} -std=c++20 -xc++" "$name" "$edition"
  newest="${edition##* }"
  for ((older = 1; older < ${newest:-1}; older++)); do
    try "${CC:-cc} -std=c11 -xc" "$name" "${edition% *} $older"
    try "${CXX:-c++} -std=c++20 -xc++" "$name" "${edition% *} $older"
  done
done
for header in "$api"/fk/cpp/*.hpp; do
  try "${CXX:-c++} -std=c++17 -xc++" "fk/cpp/${header##*/}"
  try "${CXX:-c++} -std=c++20 -xc++" "fk/cpp/${header##*/}"
done
# Builds of clang exist whose __VERSION__ is longer than the note's field.
if clang="$(command -v clang++)"; then
  long="$(printf '%0120d' 0)" count=$((count + 1))
  if ! printf '#include "fk/plugin.h"\nFK_PLUGIN("x", "1");\n' |
    "$clang" -std=c++17 -fsyntax-only -Wno-builtin-macro-redefined -U__VERSION__ -D__VERSION__="\"$long\"" -I"$api" -xc++ - 2>"$log"; then
    bad=$((bad + 1))
    echo "FAILED: clang with a long version"
    head -5 "$log"
  fi
fi
echo "$((count - bad)) passed, $bad failed"
((count > 30 && bad == 0))
