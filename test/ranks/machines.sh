#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks on several machines, which are played here: a launcher's words say which process is on which, and they meet over TCP.
# Usage: machines.sh FK_HOST GOLDEN SCENARIO WHAT, where WHAT is one of those at the end
set -u
host=$1 golden=$2 scenario=$3
log=$(mktemp)
pids=
end() {
  [ -z "$pids" ] || kill -9 $pids 2>/dev/null
  rm -f "$log"
}
trap end EXIT
export MASTER_ADDR=127.0.0.1 FK_LAUNCH_KEY=a-key-of-no-importance
export SLURM_JOB_ID="machines.$$" SLURM_STEP_ID=0
# of RANKS PER_MACHINE: the ranks of a job, with a port of their own.
of() {
  export SLURM_STEP_NUM_TASKS="$1" SLURM_STEP_NUM_NODES=$(($1 / $2)) SLURM_STEP_TASKS_PER_NODE="$2(x$(($1 / $2)))"
  per=$2
  SLURM_STEP_ID=$((SLURM_STEP_ID + 1))
  # Below those that the system gives to connections.
  MASTER_PORT=$((20000 + ($$ * 16 + SLURM_STEP_ID) % 12000))
  export MASTER_PORT
  : >"$log"
  pids=
}
# start RANK COMMAND...: in the background; its process id is in $pid, and all of them in $pids.
start() {
  rank=$1; shift
  SLURM_PROCID=$rank SLURM_LOCALID=$((rank % per)) SLURM_NODEID=$((rank / per)) "$@" >>"$log" 2>&1 &
  pid=$!
  pids="$pids $pid"
}
die() { echo "$1"; cat "$log"; exit 1; }
# says EXPECTED RANKS PER_MACHINE COMMAND...: the ranks say this together, and end.
says() {
  expected=$1; ranks=$2
  of "$2" "$3"; shift 3
  r=0
  while [ $r -lt "$ranks" ]; do start $r "$@"; r=$((r + 1)); done
  wait
  tr '\n' ' ' <"$log" | grep -qE "$expected" || die "not said: $expected ($*)"
}
until_gone() {  # the runners of these processes
  tries=0
  while pgrep -f "__runner ($1)\$" >/dev/null; do
    tries=$((tries + 1))
    [ $tries -le 100 ] || die "still there: $(pgrep -fa "__runner ($1)\$")"
    sleep 0.1
  done
}

models() {
  says 'tp 2.*PASS' 2 1 "$host" verify "$golden/llama" --tp 2
  says 'tp 2, overlap.*PASS' 2 1 "$host" verify "$golden/llama" --tp 2 --overlap
  says 'ep 2.*PASS' 2 1 "$host" verify "$golden/mixtral" --ep 2
  says 'tp 4.*PASS' 4 2 "$host" verify "$golden/llama" --tp 4
}
# The candidate's last rank is the one that goes wrong, which is on the other machine.
candidates() {
  run() { says "$1" 2 1 "$host" run "$scenario" --profile full --device cpu --tp 2 --candidate "$2" --patience 5; }
  run '1 candidate: 1 correct' odd_honest
  run '1 candidate: 1 wrong' odd_alone
  run 'failed   rank 1: crashed: SIGKILL.*, in all_reduce' odd_dies
}
# Whoever dies in the midst, nobody is left, and it is told who did.
deaths() {
  for victim in leader broker; do
    of 2 1
    start 0 "$host" verify "$golden/llama" --tp 2 --provider odd_hangs --patience 600; broker=$pid
    start 1 "$host" verify "$golden/llama" --tp 2 --provider odd_hangs --patience 600; leader=$pid
    tries=0
    until pgrep -f "__runner $leader\$" >/dev/null; do
      tries=$((tries + 1))
      [ $tries -le 200 ] || die "no runner was started at rank 1"
      sleep 0.1
    done
    sleep 0.5
    if [ $victim = leader ]; then kill -9 "$leader"; else kill -9 "$broker"; fi
    wait $broker && [ $victim = leader ] && die "rank 0 ended well without rank 1"
    until_gone "$leader|$broker"
    wait $leader
    if [ $victim = leader ]; then grep -q "rank 1" "$log" || die "rank 1 is not named"; fi
  done
}
refusals() {
  # Who has another key is told so, and the rest goes on waiting for who has it.
  of 2 1
  start 0 "$host" verify "$golden/llama" --tp 2; broker=$pid
  FK_LAUNCH_KEY=another-key-that-is-long-enough start 1 "$host" verify "$golden/llama" --tp 2
  wait $pid && die "a machine with another key"
  grep -q "who listens there does not know the key" "$log" || die "the key is not told"
  kill -0 $broker || die "rank 0 did not wait"
  start 1 "$host" verify "$golden/llama" --tp 2
  wait $broker || die "rank 0 failed after a stranger came"
  wait $pid
  ! grep -q "$FK_LAUNCH_KEY" "$log" || die "the key is in the log"

  for name in MASTER_ADDR MASTER_PORT FK_LAUNCH_KEY; do
    of 2 1
    start 0 env -u $name "$host" verify "$golden/llama" --tp 2
    wait $pid && die "without $name"
    grep -q "its processes are on several machines, and $name is not set" "$log" || die "$name is not told"
  done
}
"$4" && echo "as it should be"
