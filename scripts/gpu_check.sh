#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu_check.sh OUT [--ranks] [--full] [--only PART ...] [--built DIR]: on a machine with a GPU: builds with CUDA, has everything that a
# GPU can show shown, and writes what it saw to OUT/gpu_check.txt and, with all rows, to OUT/gpu_check.json. Exit 0 when all passed.
# The parts, each with a time of its own; those of one line run side by side, because they measure nothing:
#   tests verify large torch              the GPU's tests, the reference cases of the models, cases from transformers that reach the fast
#                                         kernels, plugins in a torch model
#   bad                                   a plugin for every rule of a device, which `check` has to name
#   check                                 the conformance of every provider on every smoke and ci case as it is written or in bf16 (nccl: exchanges);
#                                         with --full in every variant
#   communicator                          messages between processes, and the suite of communicators (test/backend)
#   attacks                               plugins that cheat and honest ones that look odd (docs/attacks.md)
#   captured                              what a tiny mixtral calls its ops with: `cuda` is right on it, routings are timed, kernels are judged
#   scenarios                             llama3.1, mixtral and bge_m3 with the tiny profile, and with the full one a request at a time; what
#                                         fk-host says is too large for one GPU runs on two where there are, or is left out
# with several GPUs (the first two with --full, too):
#   failing collectives                   ranks that die, hang or do something else (test/ranks/odd.cu); every collective as a candidate
#   exchanges divided                     conformance of collectives with a GPU for each rank; every model with laws of division, between 2 and 4 ranks
# with --full also:
#   sanitize                              compute-sanitizer over the smoke cases of `cuda`
#   precision latency neighbours ops      the judge's clock, its speed, what a candidate leaves; times of the main ops at real sizes
#   workloads                             all workloads of the three scenarios
#   rivals                                with several GPUs: scripts/gpu/ranks.py, what is wanted of them beside its rivals
# --ranks has only the parts of several ranks, --only those that are named. --built takes the programs in DIR as they are. FK_COMMIT names
# the commit where there is no .git. Needs no network: flashinfer and cudnn are built where external/ has been copied along
# (scripts/fetch_external.sh makes it), else left out, and the summary says so.
set -uo pipefail
usage() { echo "gpu_check.sh: $1; usage: gpu_check.sh OUT [--ranks] [--full] [--only PART ...] [--built DIR]" >&2; exit 2; }
[[ $# -ge 1 && $1 != -* ]] || usage "no folder for what it sees"
out="$(realpath -m "$1")" words="" full="" ranks_only="" only=() build=build-gpu built=""
shift
while (($#)); do
  words+=" $1"
  case "$1" in
    --full) full=1 ;;
    --ranks) ranks_only=1 ;;
    --built) [[ $# -ge 2 && -x ${2:-}/fk-host ]] || usage "no fk-host in '${2:-}'"; built="$(realpath "$2")" words+=" $(basename "$2")"; shift ;;
    --only) while [[ $# -ge 2 && $2 != -* ]]; do only+=("$2") words+=" $2"; shift; done; ((${#only[@]})) || usage "--only what?" ;;
    *) usage "unknown $1" ;;
  esac
  shift
done
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
[[ -z $built ]] || build="$(realpath --relative-base="$PWD" "$built")"
one_gpu=("tests verify large torch" bad check) ranks=(communicator) judged=(attacks captured scenarios) ranked=(failing collectives) several=("exchanges divided")
slow=(sanitize precision latency neighbours ops workloads) slow_several=(rivals)
all=" ${one_gpu[*]} ${ranks[*]} ${judged[*]} ${ranked[*]} ${several[*]} ${slow[*]} ${slow_several[*]} "
for part in "${only[@]}"; do [[ $all == *" $part "* ]] || usage "no part $part; there are$all"; done
mkdir -p "$out"
summary="$out/gpu_check.txt" parts="$(mktemp -d)"
trap 'rm -rf "$parts"' EXIT
plan=("${ranks[@]}")
[[ -n $ranks_only ]] || plan=("${one_gpu[@]}" "${ranks[@]}" "${judged[@]}")
# All rows, again after every line: what was seen stays where the rest is stopped.
report() { python3 scripts/gpu/check_report.py "$parts" "$summary" "$words" >"$out/gpu_check.json"; }
if ! [[ -e /dev/nvidiactl ]]; then
  for part in ${plan[*]}; do
    ((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $part "* ]] || continue
    echo "== $part: skipped: no NVIDIA GPU on this machine"
  done | tee "$summary"
  report
  exit 0
fi
export PATH="$PATH:/usr/local/cuda/bin"
host=$build/fk-host gpus="$(nvidia-smi -L | wc -l)"
[[ -z ${CUDA_VISIBLE_DEVICES:-} ]] || gpus="$(tr ',' '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)"
if [[ -z $built ]]; then
  { cmake -S . -B build-gpu -G Ninja -DCMAKE_BUILD_TYPE=Release -DFK_CUDA=ON -DFK_UNITY=48 &&
    ninja -C build-gpu fk-host fk_providers fk_attacks fk_known fk_gpu_tests fk_device_suite_cuda fk_comm_suite_cuda fk_gpu_rank_tests fk_odd_on_gpus fk_bad_on_device plugin_bad_segfault; } >"$out/build.log" 2>&1 ||
    { tail -40 "$out/build.log"; echo "the build failed" | tee "$summary"; exit 3; }
fi
{
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  if [[ -n "${FK_COMMIT:-}" ]]; then echo "commit $FK_COMMIT"; else git log -1 --format='commit %h' 2>/dev/null; fi
  date -u '+%F %T UTC'
  [[ -n $built ]] || echo "built in $SECONDS s"
  sed 's/^/left out: /' "$build/plugins/missing.txt"
} >"$summary"

# A part prints its lines of the summary and answers with 0 when all is well; its reports go to $parts/<name>.json.
summarize() { python3 scripts/gpu/check_summary.py "$@"; }
verify() { # NAME CASES... -- OPTIONS...
  local name="$1" cases=()
  shift
  while [[ $1 != -- ]]; do cases+=("$1"); shift; done
  shift
  timeout -k 10 300 "$host" verify "${cases[@]}" "$@" --json "$parts/verify-$name.json" >/dev/null
  summarize "$parts/verify-$name.json"
}
check() { # NAME PLUGIN OPTIONS...
  local name="check-$1"
  shift
  timeout -k 10 900 "$host" check "$@" --size ci --json "$parts/$name.json" >/dev/null
  local status=$?
  summarize "$parts/$name.json" && return $status
}
all_of() { # its arguments are commands, side by side
  local pids=() pid bad=0
  for command in "$@"; do $command & pids+=($!); done
  for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
  return $bad
}

part_tests() {
  { "$build/test/gpu/fk_gpu_tests" && FK_SUITE_DEVICE=cuda:0 "$build/test/backend/fk_device_suite_cuda"; } >"$out/tests.log" 2>&1
  local status=$?
  sed '/^$/d' "$out/tests.log" | tail -1
  return $status
}
part_bad() {
  ctest --test-dir "$build/test/bad_plugins" -L bad_on_device --output-on-failure >"$out/bad.log" 2>&1
  local status=$?
  grep -E 'tests passed|Failed  |Not Run' "$out/bad.log" || tail -1 "$out/bad.log"
  return $status
}
part_verify() {
  local cases=(test/golden/*/config.json)
  cases=("${cases[@]%config.json}")
  verify_f32() { verify f32 "${cases[@]}" -- --device cuda:0 --provider cuda_reference --stress; }
  verify_bf16() { verify bf16 "${cases[@]}" -- --device cuda:0 --provider cuda_reference --dtype bf16; }
  verify_ranked() { verify ranked-bf16 "${cases[@]}" -- --device cuda:0 --dtype bf16 --stress; }
  all_of verify_f32 verify_bf16 verify_ranked
}
part_large() {
  if ! python3 test/golden/make/large.py "$parts/large" >"$out/large.log" 2>&1; then
    echo "not made: $(tail -1 "$out/large.log")"
    return 77
  fi
  large_f32() { verify large-f32 "$parts"/large/*/ -- --device cuda:0 --provider cuda_reference --stress; }
  # Random routers have near-ties, which rounding to bfloat16 decides: the dense models alone.
  large_bf16() { verify large-bf16 "$parts"/large/{llama,qwen3,mistral}*/ -- --device cuda:0 --dtype bf16 --stress; }
  all_of large_f32 large_bf16
}
# Rules look at all of the device's memory, and processes beside each other wait for turns that take longer than calls: one at a time.
part_check() {
  local plugin bad=0 quick=()
  [[ -n $full ]] || quick=(--quick)
  for plugin in "$build"/plugins/*.so; do
    plugin="$(basename "$plugin" .so)"
    # NCCL needs a GPU for each rank.
    [[ $plugin == reference || $plugin == cpu || $plugin == nccl ]] || check "$plugin" "$plugin" --device cuda:0 "${quick[@]}" || bad=1
  done
  return $bad
}
part_torch() {
  python3 test/torch/torch_check.py "$build/plugins" --device cuda --json "$parts/torch.json" >"$out/torch.log" 2>&1
  local status=$?
  tail -1 "$out/torch.log"
  return $status
}
attack() { # NAME OPTIONS...
  python3 test/attacks/suite.py --device cuda:0 --jobs 1 --host "$host" --naive "$build/test/attacks/fk_naive_judge" --plugins "$build/test/attacks/plugins" \
    --json "$parts/$1.json" "${@:2}" >"$out/$1.log" 2>&1
  local status=$?
  grep '<-' "$out/$1.log"
  tail -1 "$out/$1.log"
  return $status
}
part_attacks() { attack attacks --serve; }
part_captured() {
  local kept="$parts/captured" bad=0
  timeout -k 10 60 "$host" record mixtral --profile tiny --requests 2 --device cuda:0 --out "$kept" >"$out/captured.log" 2>&1 || bad=1
  tail -1 "$out/captured.log" | sed "s#$parts#OUT#"
  check captured cuda --recorded "$kept" --device cuda:0 --quick || bad=1
  timeout -k 10 60 "$host" bench moe_align --recorded "$kept" --device cuda:0 --seconds 0.05 --json "$parts/bench-captured.json" >/dev/null || bad=1
  summarize "$parts/bench-captured.json" || bad=1
  timeout -k 10 60 "$host" bench cuda --op rms_norm --op topk_softmax --recorded "$kept" --device cuda:0 --no-store --seconds 0.05 --json "$parts/judged-captured.json" >/dev/null || bad=1
  summarize "$parts/judged-captured.json" || bad=1
  return $bad
}
scenario() { # NAME PROFILE [--tp N] WORKLOAD...
  local run="run-$1-$2" options=("$1" --profile "$2" --device cuda:0) word status found again=()
  [[ $gpus -lt 2 || ${3:-} == --tp ]] || again=("$1" "$2" --tp 2 "${@:3}")
  shift 2
  [[ ${1:-} != --tp ]] || { run+="-tp$2"; options+=(--tp "$2"); shift 2; }
  for word in "$@"; do options+=(--workload "$word"); done
  timeout -k 10 "${scenario_most:-120}" "$host" run "${options[@]}" --json "$parts/$run.json" >"$out/$run.log" 2>&1
  status=$?
  summarize "$parts/$run.json"
  found=$?
  if [[ $found -eq 4 ]]; then # the device is too small for it, as the report says
    ((${#again[@]})) || return 0
    scenario "${again[@]}"
    return
  fi
  [[ $status -eq 0 ]] || echo "$run: exit $status: $(tail -1 "$out/$run.log")"
  return $((found ? found : status))
}
# A candidate in a whole model that lifts the protection of the weights it computes with.
tampered() {
  FK_CANDIDATES="$build/test/attacks/plugins/cuda_values" timeout -k 10 60 "$host" run llama3.1 --profile tiny --device cuda:0 --workload single_request --candidate cuda_d1_weights \
    >"$out/tampered.log" 2>&1
  [[ $? -eq 1 ]] && grep -q 'it wrote to the weights, which are read only' "$out/tampered.log" && echo "a candidate that writes to the weights: violation" && return
  echo "a candidate that writes to the weights is not found: $(tail -1 "$out/tampered.log")"
  return 1
}
part_scenarios() {
  local bad=0
  tiny_llama() { scenario llama3.1 tiny; }
  tiny_mixtral() { scenario mixtral tiny; }
  tiny_bge() { scenario bge_m3 tiny; }
  all_of tiny_llama tiny_mixtral tiny_bge || bad=1
  tampered || bad=1
  for name in llama3.1 mixtral bge_m3; do scenario "$name" full single_request || bad=1; done
  return $bad
}

collectives="all_reduce all_gather all_gather_columns reduce_scatter all_to_all"
divided="all_reduce_add_rms_norm vocab_parallel_embedding" experts="moe_dispatch moe_combine fused_moe_ep"
products="linear_all_reduce linear_reduce_scatter all_gather_linear"
part_communicator() {
  local form status forms="own libraries"; ((gpus < 2)) || forms+=" machines"
  { timeout -k 10 300 "$build/test/gpu/fk_gpu_rank_tests"; status=$?
    for form in $forms; do FK_SUITE_DEVICE=cuda FK_SUITE_COMM=$form timeout -k 10 300 "$build/test/backend/fk_comm_suite_cuda" || status=1; done; } >"$out/communicator.log" 2>&1
  grep -E ': (good|BAD)$|^All tests passed|^test cases:' "$out/communicator.log" || tail -1 "$out/communicator.log"
  return $status
}
part_failing() {
  timeout -k 10 240 python3 test/ranks/odd_on_gpus.py --host "$host" --plugins "$build/test/ranks/gpu_plugins" --json "$parts/failing.json" >"$out/failing.log" 2>&1
  local status=$?
  grep '^BAD' "$out/failing.log"
  tail -1 "$out/failing.log"
  return $status
}
part_collectives() {
  local op ops=() bad=0  # every rank's answers, and their times where each has a GPU
  for op in $collectives $divided $experts $products; do ops+=(--op "$op"); done
  timeout -k 10 600 "$host" bench cuda "${ops[@]}" --device cuda --size ci --seconds 0.2 --no-store --json "$parts/judged-collectives.json" >/dev/null || bad=1
  summarize "$parts/judged-collectives.json"
  # Else with all other attacks.
  [[ -z $ranks_only ]] || attack attacks-ranks --only '^cuda_(g2|ranks)_' || bad=1
  return $bad
}
part_exchanges() {
  local plugin op bad=0
  for plugin in cuda nccl; do
    for op in $collectives $divided $experts $products; do
      # It has nothing to do with NCCL.
      [[ $plugin == nccl && $op == vocab_parallel_embedding ]] && continue
      check "$plugin-$op" "$plugin" --op "$op" --device cuda || bad=1
    done
  done
  return $bad
}
part_divided() { python3 scripts/gpu/divided.py "$parts/divided.json" --host "$host"; }
part_rivals() { python3 scripts/gpu/ranks.py "$parts/ranks.json" --host "$host"; }

part_sanitize() { HOST="$host" scripts/gpu/sanitize.sh "$out"; }
part_precision() { python3 scripts/judge/precision.py --build "$build" --runs 20 --speedups 1 --budget 120 --json "$parts/precision.json" 2>&1; }
part_latency() {
  python3 scripts/judge/verdict_latency.py --host "$host" --device cuda:0 --json "$parts/latency.json" 2>&1
}
part_neighbours() { python3 scripts/judge/neighbours.py --build "$build" --device cuda:0 --rounds 3 --budget 120 --json "$parts/neighbours.json" 2>&1; }
part_ops() { python3 scripts/gpu/ops.py "$parts/ops.json" --host "$host" 2>&1; }
part_workloads() {
  local bad=0 scenario_most=900
  for name in llama3.1 mixtral bge_m3; do scenario "$name" full || bad=1; done
  return $bad
}

bad=0 skipped=""
# The parts of one line, each with its summary and its time; then what they said, in order.
together() {
  local part pids=() names=()
  for part in $1; do
    ((${#only[@]} == 0)) || [[ " ${only[*]} " == *" $part "* ]] || continue
    names+=("$part")
    { start=$SECONDS; "part_$part" >"$parts/$part.txt" 2>&1; status=$?; echo "$part: $((SECONDS - start)) s" >>"$parts/$part.time"; exit $status; } &
    pids+=($!)
  done
  for i in "${!pids[@]}"; do
    wait "${pids[$i]}"
    case $? in
      0) said=ok ;;
      77) said=skipped skipped+=" ${names[$i]}" ;;
      *) said=BAD bad=1 ;;
    esac
    { echo "== $(cat "$parts/${names[$i]}.time"), $said"; cat "$parts/${names[$i]}.txt"; } >>"$summary"
  done
}
[[ -z $ranks_only$full${only[*]} && $gpus -lt 2 ]] || plan+=("${ranked[@]}")
[[ $gpus -lt 2 ]] || plan+=("${several[@]}")
[[ -z $full${only[*]} || -n $ranks_only ]] || plan+=("${slow[@]}")
[[ -z $full${only[*]} || $gpus -lt 2 ]] || plan+=("${slow_several[@]}")
for line in "${plan[@]}"; do
  together "$line"
  report
done
echo "all: $SECONDS s, $([[ $bad -eq 0 ]] && echo passed || echo NOT passed)${skipped:+, but for what was skipped:$skipped}" >>"$summary"
report
cat "$summary"
exit "$bad"
