#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sanitize.sh OUT [PLUGIN [OPTIONS OF CHECK...]]: the smoke cases of a plugin's ops (default: cuda) under each tool of
# compute-sanitizer, an op at a time, JOBS of them side by side (default: 8; every one is a process of its own, whose start alone takes
# a tool seconds). OUT/sanitize-<tool>.txt has what a tool said, OUT/sanitize.txt a line for each. Without `--op` all ops but those of
# several ranks: ranks that share a GPU wait for each other's turns, which a tool makes long; where there are as many GPUs,
# `DEVICE=cuda JOBS=1 sanitize.sh OUT cuda --ranks 2 --op all_reduce` gives each one of its own.
# racecheck, the slowest, has the cases as they are written alone (`check --quick`).
# Exit 1 when one found something or was not done, 0 with a line that says so where compute-sanitizer cannot run. HOST names fk-host
# (default: build-gpu/fk-host); PATIENCE the seconds for all (default: 300); TOOLS some of the four; SIZE the cases (default: smoke;
# attention and most of linear of `cuda` begin at ci); DEVICE the device (default: cuda:0); KERNELS what the names of the kernels that are
# looked at have in them (default: all, also the oracle's, which takes minutes for ci cases of attention), but for initcheck, which has
# to see who writes.
set -uo pipefail
out="${1:?usage: sanitize.sh OUT [PLUGIN [OPTIONS...]]}" plugin="${2:-cuda}"
shift $(($# < 2 ? $# : 2))
mkdir -p "$out"
out="$(cd "$out" && pwd)"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
export host="${HOST:-build-gpu/fk-host}" plugin
sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer 2>/dev/null | head -1)"
if [[ -z "$sanitizer" ]]; then
  echo "compute-sanitizer: not installed" | tee "$out/sanitize.txt"
  exit 0
fi
ops=() options=()
while (($#)); do
  if [[ $1 == --op && $# -gt 1 ]]; then ops+=("$2") && shift; else options+=("$1"); fi
  shift
done
if ((${#ops[@]} == 0)); then
  mapfile -t ops < <("$host" list plugins --json | python3 -c '
import json, pathlib, sys
several = {p.stem for p in pathlib.Path("registry/ops").rglob("*.yaml") if "type: comm" in p.read_text()}
rows = [r for r in json.load(sys.stdin)["rows"] if sys.argv[1] in (r["plugin"], r.get("path"))]
print("\n".join(op for r in rows for op in r["ops"] if op not in several))' "$plugin")
fi
if [[ -z ${ops[0]:-} ]]; then
  echo "sanitize.sh: $host lists no ops of $plugin; name them with --op" >&2
  exit 2
fi
read -ra tools <<<"${TOOLS:-racecheck memcheck initcheck synccheck}"
export sanitizer logs="$out/sanitize-logs" deadline=$(($(date +%s) + ${PATIENCE:-300})) given="${options[*]}"
rm -rf "$logs"
mkdir "$logs"

one() { # TOOL OP
  local log="$logs/$1.$2" left=$((deadline - $(date +%s))) quick="" start=$SECONDS
  [[ $1 == racecheck ]] && quick=--quick
  local kernels=()
  [[ -z ${KERNELS:-} || $1 == initcheck ]] || kernels=(--kernel-name "kernel_substring=$KERNELS")
  if ((left < 2)); then
    echo "# $2: 124 in 0 s" >"$log"
    return
  fi
  # The runner is a process of the host's; sealed in, it could not be attached to.
  # Errors of the API are no findings: what is not a pointer in a captured graph is found out by asking the driver.
  # shellcheck disable=SC2086 # words
  timeout -k 10 "$left" "$sanitizer" --tool "$1" --report-api-errors no --target-processes all --error-exitcode 9 --print-limit 20 "${kernels[@]}" \
    "$host" check "$plugin" --op "$2" --device "${DEVICE:-cuda:0}" --size "${SIZE:-smoke}" --no-sandbox --patience 280 $quick $given >"$log" 2>&1
  echo "# $2: $? in $((SECONDS - start)) s" >>"$log"
}
export -f one
for tool in "${tools[@]}"; do printf "$tool %s\n" "${ops[@]}"; done | xargs -P "${JOBS:-8}" -L 1 bash -c 'one "$@"' _

for tool in "${tools[@]}"; do
  log="$out/sanitize-$tool.txt"
  cat "$logs/$tool".* >"$log"
  found="$(grep -c '^========= \(Error\|Warning\|Invalid\|Uninitialized\|Race\|Barrier\|Hazard\)' "$log")"
  late="$(sed -n 's/^# \(.*\): \(124\|137\) in .*/\1/p' "$log" | xargs)"
  # What has no case for this device that it takes is named, and nobody's fault.
  refused="$(awk '/^FAIL: every case was refused/ {none = 1} /^# / {sub(":", "", $2); if (none) print $2; none = 0}' "$log" | xargs)"
  failed="$(sed -n 's/^# \(.*\): [0-9]* in .*/&/p' "$log" | grep -v ': \(0\|9\|124\|137\) in' | sed 's/^# \(.*\): [0-9]* in .*/\1/' |
    grep -vxF "$(tr ' ' '\n' <<<"${refused:-none}")" | xargs)"
  if ! grep -q '^# .*: [09] in ' "$log" && grep -q 'Device not supported\|failed to initialize' "$log"; then
    echo "compute-sanitizer $tool: cannot run here: $(grep -m1 'not supported\|failed to initialize' "$log")"
    continue
  fi
  say="clean, $(awk '$2 ~ /^[0-9]+$/ && NF == 7 {ops++; ok += $2} END {print ok + 0 " rows of " ops + 0 " ops"}' "$log")"
  if ((found > 0)) || grep -q '^# .*: 9 in ' "$log"; then
    say="$found findings, the first: $(grep -m1 '^========= [A-Z]' <(grep -v 'COMPUTE-SANITIZER' "$log"))"
  fi
  if [[ -n $failed ]]; then
    say+="; no row of $failed, the first because: $(grep -m1 ' \(violation\|unsupported\|wrong\|unjudged\) .*:' "$log" | tr -s ' ')"
  fi
  if [[ -n $refused ]]; then say+="; no case that it takes: $refused"; fi
  if [[ -n $late ]]; then say+="; not done after ${PATIENCE:-300} s: $late"; fi
  echo "compute-sanitizer $tool: $say"
done >"$out/sanitize.txt"
rm -rf "$logs"
bad=0
grep -q ' findings, \|; no row of\|; not done' "$out/sanitize.txt" && bad=1
cat "$out/sanitize.txt"
exit "$bad"
