#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh OUT [--full]: on a machine with a GPU: builds with CUDA, runs the reference cases and the conformance check of every CUDA
# provider on the device and writes what it saw to OUT (verify-*.json, check-*.json, summary.txt); with --full also the times of the
# main ops at real sizes (bench-*.json) and Llama 3.1 8B whole (run-llama3.1.json). Exit 0 when all passed.
# Without a GPU it says so and ends with 0. FK_COMMIT names the commit where there is no .git. Needs no network: flashinfer and
# cudnn are built where external/ has been copied along (scripts/fetch_external.sh makes it), else left out, and the summary says so.
set -uo pipefail
out="${1:?usage: gpu_check.sh OUT [--full]}" full="${2:-}"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$out"
if ! [[ -e /dev/nvidiactl ]]; then
  echo "skipped: no NVIDIA GPU on this machine" | tee "$out/summary.txt"
  exit 0
fi
export PATH="$PATH:/usr/local/cuda/bin"
log="$out/build.log"
{ cmake -S . -B build-gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DFK_CUDA=ON -DBUILD_TESTING=OFF && ninja -C build-gpu fk-host fk_providers; } >"$log" 2>&1 ||
  { tail -40 "$log"; echo "the build failed" | tee "$out/summary.txt"; exit 3; }
bad=0
{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  if [[ -n "${FK_COMMIT:-}" ]]; then echo "commit $FK_COMMIT"; else git log -1 --format='commit %h' 2>/dev/null; fi
  date -u '+%F %T UTC'
  sed 's/^/left out: /' build-gpu/plugins/missing.txt
} >"$out/summary.txt"
cases=(test/golden/*/config.json)
cases=("${cases[@]%config.json}")
check() {  # check NAME OPTIONS...
  local name="$1"
  shift
  build-gpu/fk-host verify "${cases[@]}" --device cuda:0 "$@" --json "$out/verify-$name.json" 2>>"$out/summary.txt" || bad=1
  python3 - "$name" "$out/verify-$name.json" >>"$out/summary.txt" <<'PY'
import json, sys
cases = json.load(open(sys.argv[2]))["cases"]
print(f"{sys.argv[1]}: {sum(c['passed'] for c in cases)} of {len(cases)} models pass")
for case in cases:
    if not case["passed"]:
        print(f"  {case['name']}: {case['error'] or [row['what'] for row in case['rows'] if not row['ok']]}")
PY
}
check f32 --provider cuda_reference --stress
check bf16 --provider cuda_reference --dtype bf16
check ranked-bf16 --dtype bf16 --stress
# Conformance of every CUDA provider on every smoke and ci case: lifecycle, guards, capture, values.
for plugin in build-gpu/plugins/*.so; do
  name="$(basename "$plugin" .so)"
  [[ "$name" == reference || "$name" == cpu ]] && continue
  build-gpu/fk-host check "$name" --device cuda:0 --size ci --json "$out/check-$name.json" 2>>"$out/summary.txt" || bad=1
  python3 scripts/check_summary.py "$out/check-$name.json" >>"$out/summary.txt"
done
# Plugins that cheat, and honest ones that look odd (docs/attacks.md).
if ninja -C build-gpu fk_attacks >>"$log" 2>&1; then
  python3 test/attacks/suite.py --device cuda:0 --host build-gpu/fk-host --naive build-gpu/test/attacks/fk_naive_judge \
    --plugins build-gpu/test/attacks/plugins --json "$out/attacks.json" >"$out/attacks.txt" 2>&1 || bad=1
  tail -1 "$out/attacks.txt" | sed 's/^/attacks: /' >>"$out/summary.txt"
else
  bad=1
  echo "attacks: the build failed, see build.log" >>"$out/summary.txt"
fi
# Plugins inside a torch model, eager and in CUDA graphs.
said="$(python3 test/torch/torch_check.py build-gpu/plugins --device cuda --json "$out/torch.json" 2>&1)"
case $? in 0 | 77) ;; *) bad=1 ;; esac
echo "$said" | tail -1 | sed 's/^/torch: /' >>"$out/summary.txt"
if [[ "$full" == --full ]]; then
  # Values and time of the real sizes.
  for op in linear linear_fp8_block batched_linear paged_attention rms_norm silu_and_mul rotary_embedding fused_moe; do
    build-gpu/fk-host bench "$op" --device cuda:0 --seconds 0.2 --json "$out/bench-$op.json" 2>>"$out/summary.txt" || bad=1
  done
  build-gpu/fk-host run llama3.1 --profile full --device cuda:0 --workload single_request --workload fixed_batch_32 \
    --json "$out/run.json" 2>>"$out/summary.txt" >>"$out/summary.txt" || bad=1
  python3 - "$out" <<'PY'
import json, os, subprocess, sys
out = sys.argv[1]
def said(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
json.dump({"command": "scripts/gpu_check.sh OUT --full", "driver": said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
           "commit": os.environ.get("FK_COMMIT") or said("git", "rev-parse", "--short", "HEAD"), "date": said("date", "-u", "+%F"),
           "report": json.load(open(f"{out}/run.json"))}, open(f"{out}/run-llama3.1.json", "w"), indent=1)
PY
fi
cat "$out/summary.txt"
exit "$bad"
