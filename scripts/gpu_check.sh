#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh OUT [--full]: on a machine with a GPU: builds with CUDA, runs the GPU's tests, the reference cases, the conformance
# check of every CUDA provider, the attacks and a torch model on the device, with several GPUs models that are divided between 2, 3
# and 4 of them, and writes what it saw to OUT/gpu_check.txt and, with all rows, to OUT/gpu_check.json. With --full also
# compute-sanitizer over the smoke cases of the provider `cuda`, how exact the judge's clock is, the times of the main ops at real
# sizes, Llama 3.1 8B, and with several GPUs scripts/gpu_ranks.py: what is wanted of them beside its rivals. Exit 0 when all passed.
# gpu_check.sh OUT --ranks [--full]: only what needs several GPUs.
# Without a GPU it says so and ends with 0. FK_COMMIT names the commit where there is no .git. Needs no network: flashinfer and
# cudnn are built where external/ has been copied along (scripts/fetch_external.sh makes it), else left out, and the summary says so.
set -uo pipefail
out="$(realpath -m "${1:?usage: gpu_check.sh OUT [--ranks] [--full]}")" full="" ranks_only=""
for word in "${@:2}"; do
  case "$word" in --full) full=--full ;; --ranks) ranks_only=--ranks ;; *) echo "gpu_check.sh: unknown $word"; exit 2 ;; esac
done
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p "$out"
summary="$out/gpu_check.txt"
if ! [[ -e /dev/nvidiactl ]]; then
  echo "skipped: no NVIDIA GPU on this machine" | tee "$summary"
  exit 0
fi
export PATH="$PATH:/usr/local/cuda/bin"
host=build-gpu/fk-host log="$out/build.log" parts="$(mktemp -d)"
trap 'rm -rf "$parts"' EXIT
{ cmake -S . -B build-gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DFK_CUDA=ON && ninja -C build-gpu fk-host fk_providers fk_attacks fk_known fk_gpu_tests fk_gpu_rank_tests fk_bad_on_device; } >"$log" 2>&1 ||
  { tail -40 "$log"; echo "the build failed" | tee "$summary"; exit 3; }
bad=0
{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  if [[ -n "${FK_COMMIT:-}" ]]; then echo "commit $FK_COMMIT"; else git log -1 --format='commit %h' 2>/dev/null; fi
  date -u '+%F %T UTC'
  sed 's/^/left out: /' build-gpu/plugins/missing.txt
} >"$summary"

# The communicator between processes and collectives that are judged; where there are several GPUs, divided models and times.
gpus="$(nvidia-smi -L | wc -l)"
ranks() {
  timeout -k 10 300 build-gpu/test/gpu/fk_gpu_rank_tests >"$out/ranks.log" 2>&1 || bad=1
  tail -1 "$out/ranks.log" | sed 's/^/communicator: /' >>"$summary"
  local op name how plugin
  local collectives="all_reduce all_gather all_gather_columns reduce_scatter all_to_all"
  local products="linear_all_reduce linear_reduce_scatter all_gather_linear"
  # Collectives as candidates: every rank's answers, and their times where each rank has a GPU.
  for op in $collectives all_reduce_add_rms_norm moe_dispatch moe_combine $products; do
    timeout -k 10 300 "$host" bench cuda --op "$op" --device cuda --size ci --seconds 0.2 --no-store --json "$parts/judged-$op.json" 2>>"$summary" || bad=1
    python3 scripts/check_summary.py "$parts/judged-$op.json" >>"$summary"
  done
  if [[ -n "$ranks_only" ]]; then  # else with all other attacks
    python3 test/attacks/suite.py --device cuda:0 --only '^cuda_(g2|ranks)_' --jobs 1 --host "$host" --naive build-gpu/test/attacks/fk_naive_judge \
      --plugins build-gpu/test/attacks/plugins --json "$parts/attacks-ranks.json" >"$out/attacks-ranks.txt" 2>&1 || bad=1
    grep '<-' "$out/attacks-ranks.txt" >>"$summary"
    tail -1 "$out/attacks-ranks.txt" | sed 's/^/attacks: /' >>"$summary"
  fi
  [[ "$gpus" -ge 2 ]] || return 0
  if [[ -n "$ranks_only" ]]; then  # else with all other checks
    for plugin in cuda nccl; do
      for op in $collectives $([[ $plugin == nccl ]] || echo all_reduce_add_rms_norm vocab_parallel_embedding moe_dispatch moe_combine) $products; do
        timeout -k 10 300 "$host" check "$plugin" --op "$op" --device cuda --size ci --json "$parts/check-$plugin-$op.json" 2>>"$summary" || bad=1
        python3 scripts/check_summary.py "$parts/check-$plugin-$op.json" >>"$summary"
      done
    done
  fi
  for how in "llama --tp 2" "qwen3 --tp 2" "mixtral --tp 2" "mixtral --ep 2" "mixtral --ep 3" "mixtral --tp 2 --ep 2" "llama --tp 4" "mixtral --tp 4"; do
    name="verify-${how//[ -]/}"
    # shellcheck disable=SC2086
    timeout -k 10 300 "$host" verify test/golden/$how --device cuda --json "$parts/$name.json" 2>>"$summary" || bad=1
    python3 scripts/check_summary.py "$parts/$name.json" >>"$summary"
  done
  [[ "$full" == --full ]] || return 0
  # Beside its rivals, and divided models; each step with a time of its own.
  python3 scripts/gpu_ranks.py "$parts/ranks.json" --host "$host" >>"$summary" 2>&1 || bad=1
}
one_gpu() {
  said="$(build-gpu/test/gpu/fk_gpu_tests 2>&1)" || bad=1
  echo "gpu tests: $(tail -1 <<<"$(sed '/^$/d' <<<"$said")")" >>"$summary"
  # A plugin for every rule of a device, each of which `check` has to name.
  ctest --test-dir build-gpu -L bad_on_device --output-on-failure >"$out/bad_on_device.txt" 2>&1 || bad=1
  { grep 'tests passed' "$out/bad_on_device.txt" || tail -1 "$out/bad_on_device.txt"; } | sed 's/^/bad plugins on a device: /' >>"$summary"

  verify() {  # verify NAME OPTIONS...: the models in cases
    local name="$1"
    shift
    "$host" verify "${cases[@]}" --device cuda:0 "$@" --json "$parts/verify-$name.json" 2>>"$summary" || bad=1
    python3 scripts/check_summary.py "$parts/verify-$name.json" >>"$summary"
  }
  cases=(test/golden/*/config.json)
  cases=("${cases[@]%config.json}")
  verify f32 --provider cuda_reference --stress
  verify bf16 --provider cuda_reference --dtype bf16
  verify ranked-bf16 --dtype bf16 --stress
  # Cases that reach the fast kernels, from transformers where it is.
  if python3 test/golden/make/large.py "$parts/large" >"$out/large.log" 2>&1; then
    cases=("$parts"/large/*/)
    verify large-f32 --provider cuda_reference --stress
    # Random routers have near-ties, which rounding to bfloat16 decides: the dense models alone.
    cases=("$parts"/large/{llama,qwen3,mistral}*/)
    verify large-bf16 --dtype bf16 --stress
  else
    echo "large cases: not made: $(tail -1 "$out/large.log")" >>"$summary"
  fi
  # Conformance of every CUDA provider on every smoke and ci case: lifecycle, guards, capture, values.
  for plugin in build-gpu/plugins/*.so; do
    name="$(basename "$plugin" .so)"
    [[ "$name" == reference || "$name" == cpu ]] && continue
    "$host" check "$name" --device cuda:0 --size ci --json "$parts/check-$name.json" 2>>"$summary" || bad=1
    python3 scripts/check_summary.py "$parts/check-$name.json" >>"$summary"
  done
  # Plugins that cheat, and honest ones that look odd (docs/attacks.md).
  python3 test/attacks/suite.py --device cuda:0 --serve --jobs 1 --host "$host" --naive build-gpu/test/attacks/fk_naive_judge \
    --plugins build-gpu/test/attacks/plugins --json "$parts/attacks.json" >"$out/attacks.txt" 2>&1 || bad=1
  grep '<-' "$out/attacks.txt" >>"$summary"
  tail -1 "$out/attacks.txt" | sed 's/^/attacks: /' >>"$summary"
  # Plugins inside a torch model, eager and in CUDA graphs.
  said="$(python3 test/torch/torch_check.py build-gpu/plugins --device cuda --json "$parts/torch.json" 2>&1)"
  case $? in 0 | 77) ;; *) bad=1 ;; esac
  echo "$said" | tail -1 | sed 's/^/torch: /' >>"$summary"
  if [[ "$full" == --full ]]; then
    HOST="$host" scripts/gpu_sanitize.sh "$out" >>"$summary" || bad=1
    # Kernels of known speed before the judge, and what a launch's time depends on.
    python3 scripts/judge_precision.py --build build-gpu --runs 20 --speedups 1 --budget 120 --json "$parts/precision.json" >"$out/precision.txt" 2>&1 || bad=1
    sed 's/^/precision: /' "$out/precision.txt" >>"$summary"
    # Values and time of the real sizes.
    for op in linear linear_fp8_block batched_linear paged_attention rms_norm silu_and_mul rotary_embedding fused_moe; do
      "$host" bench "$op" --device cuda:0 --seconds 0.2 --json "$parts/bench-$op.json" 2>>"$summary" || bad=1
    done
    "$host" run llama3.1 --profile full --device cuda:0 --workload single_request --workload fixed_batch_32 \
      --json "$parts/run-llama3.1.json" 2>>"$summary" >>"$summary" || bad=1
  fi
}
[[ -n "$ranks_only" ]] || one_gpu
ranks
python3 - "$parts" "$summary" "$ranks_only $full" >"$out/gpu_check.json" <<'PY'
import json, os, pathlib, subprocess, sys
def said(*command):
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()
report = {"command": " ".join(f"scripts/gpu_check.sh OUT {sys.argv[3]}".split()),
          "device": said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"),
          "driver": said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
          "commit": os.environ.get("FK_COMMIT") or said("git", "rev-parse", "--short", "HEAD"), "date": said("date", "-u", "+%F"),
          "summary": pathlib.Path(sys.argv[2]).read_text().splitlines()}
for part in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    report[part.stem] = json.loads(part.read_text() or "null")
json.dump(report, sys.stdout, indent=1)
PY
cat "$summary"
exit "$bad"
