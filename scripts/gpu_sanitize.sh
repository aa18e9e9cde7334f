#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_sanitize.sh OUT [PLUGIN [OPTIONS OF CHECK...]]: the smoke cases of a plugin's ops (default: cuda) under each tool of
# compute-sanitizer, side by side on one GPU. OUT/sanitize-<tool>.txt has what a tool said, OUT/sanitize.txt a line for each. Without
# `--op` all ops but those of several ranks: ranks that share a GPU wait for each other's turns, which a tool makes too long.
# racecheck, the slowest, has the cases as they are written alone (`check --quick`).
# Exit 1 when one found something, 0 with a line that says so where compute-sanitizer cannot run. HOST names fk-host
# (default: build-gpu/fk-host); PATIENCE the seconds for each tool (default: 300); TOOLS some of the four; SIZE the cases (default: smoke; attention and most of
# linear of `cuda` begin at ci); DEVICE the device (default: cuda:0; cuda gives every rank a GPU of its own where there are as many).
set -uo pipefail
out="${1:?usage: gpu_sanitize.sh OUT [PLUGIN [OPTIONS...]]}" plugin="${2:-cuda}"
shift $(($# < 2 ? $# : 2))
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$out"
host="${HOST:-build-gpu/fk-host}"
sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer /usr/local/cuda/compute-sanitizer/compute-sanitizer 2>/dev/null | head -1)"
if [[ -z "$sanitizer" ]]; then
  echo "compute-sanitizer: not installed" | tee "$out/sanitize.txt"
  exit 0
fi
options=("$@")
if [[ " $* " != *" --op "* ]]; then
  while read -r op; do options+=(--op "$op"); done < <("$host" list plugins --json | python3 -c '
import json, pathlib, sys
several = {p.stem for p in pathlib.Path("registry/ops").rglob("*.yaml") if "type: comm" in p.read_text()}
rows = [r for r in json.load(sys.stdin)["rows"] if sys.argv[1] in (r["plugin"], r.get("path"))]
print("\n".join(op for r in rows for op in r["ops"] if op not in several))' "$plugin")
fi
read -ra tools <<<"${TOOLS:-memcheck racecheck initcheck synccheck}"
for tool in "${tools[@]}"; do
  quick=()
  [[ $tool == racecheck ]] && quick=(--quick)
  # The runner is a process of the host's; sealed in, it could not be attached to.
  # Errors of the API are no findings: what is not a pointer in a captured graph is found out by asking the driver.
  timeout -k 10 "${PATIENCE:-300}" "$sanitizer" --tool "$tool" --report-api-errors no --target-processes all --error-exitcode 9 --print-limit 20 \
    "$host" check "$plugin" --device "${DEVICE:-cuda:0}" --size "${SIZE:-smoke}" --no-sandbox --patience 280 "${quick[@]}" "${options[@]}" >"$out/sanitize-$tool.txt" 2>&1 &
  pids+=($!)
done
bad=0
for i in "${!tools[@]}"; do
  wait "${pids[$i]}"
  status=$?
  log="$out/sanitize-${tools[$i]}.txt"
  found="$(grep -c '^========= \(Error\|Warning\|Invalid\|Uninitialized\|Race\|Barrier\|Hazard\)' "$log")"
  case $status in
    124 | 137) echo "compute-sanitizer ${tools[$i]}: not done after ${PATIENCE:-300} s, $found findings until then" && bad=1 ;;
    0) echo "compute-sanitizer ${tools[$i]}: clean, $(awk '$2 ~ /^[0-9]+$/ && NF == 7 {ops++; ok += $2} END {print ok + 0 " rows of " ops + 0 " ops"}' "$log")" ;;
    *)
      if grep -q 'Device not supported\|failed to initialize' "$log"; then
        echo "compute-sanitizer ${tools[$i]}: cannot run here: $(grep -m1 'not supported\|failed to initialize' "$log")"
      else
        echo "compute-sanitizer ${tools[$i]}: exit $status, $found findings, the first: $(grep -m1 '^========= [A-Z]' <(grep -v 'COMPUTE-SANITIZER' "$log"))" && bad=1
      fi ;;
  esac
done >"$out/sanitize.txt"
grep -q 'findings' "$out/sanitize.txt" && bad=1
cat "$out/sanitize.txt"
exit "$bad"
