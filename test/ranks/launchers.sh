#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Models divided between ranks that mpirun and srun start, each for real on this machine, as one machine and as two that meet over
# TCP: mpirun is given a second name for it, and for Slurm a cluster of two nodes is started and ended here. Ranks that die or hang end
# the run soon, with who and in what, and leave no process. What is not installed (Debian: openmpi-bin; slurmctld slurmd slurm-client
# munge) or starts nothing is skipped with a reason, or with FK_NEED_LAUNCHERS in the environment a failure.
# Usage: test/ranks/launchers.sh [BUILD_FOLDER [mpirun|srun]]; the build has the tests; 77: nothing was tried
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build}")
host=$build/fk-host
export FK_CANDIDATES="$build/test/ranks/plugins"
only=${2:-}
[ -x "$host" ] || { echo "there is no $host: build first"; exit 2; }
bad=0
tried=

# leave: with what is to be said of all that was tried.
leave() { [ -n "$tried" ] || exit 77; exit $bad; }
# absent LAUNCHER WHY: it is not installed, or starts nothing here.
absent() {
  if [ -z "${FK_NEED_LAUNCHERS:-}" ]; then echo "skip  $1: $2"; else echo "FAIL  $1: $2"; tried=$1 bad=1; fi
}

# says EXPECTED COMMAND...: the output has this expression, and the command ends.
says() {
  expected=$1; shift
  out=$(timeout 120 "$@" 2>&1) || true
  if echo "$out" | tr '\n' ' ' | grep -qE "$expected"; then echo "ok    $*"; else echo "FAIL  $*"; echo "$out" | tail -20; bad=1; fi
}

# Processes of this script's runs, and of runners those whose host is gone.
left() {
  pgrep -fa -- "--patience [0-9]+\.$$\$" || true
  pgrep -fa '__runner [0-9]+$' | while read -r line; do [ -d "/proc/${line##* }" ] || echo "$line"; done
}

# ends EXPECTED PROVIDER PATIENCE LAUNCHER...: with this provider the run says this soon, and nobody is left.
ends() {
  expected=$1 provider=$2 patience=$3.$$; shift 3
  begin=$(date +%s)
  out=$(timeout 120 "$@" 2 "$host" verify test/golden/llama --tp 2 --provider "$provider" --patience "$patience" 2>&1) || true
  took=$(($(date +%s) - begin))
  tries=0
  while still=$(left); [ -n "$still" ] && [ $tries -lt 50 ]; do tries=$((tries + 1)); sleep 0.2; done
  if ! echo "$out" | tr '\n' ' ' | grep -qE "$expected"; then why="not said: $expected"
  elif [ $took -gt 15 ]; then why="it took $took s"
  elif [ -n "$still" ]; then why="still there: $still"
  else echo "ok    $* 2 ... --provider $provider, $took s"; return; fi
  echo "FAIL  $* 2 ... --provider $provider: $why"; echo "$out" | tail -20; bad=1
}

# deaths LAUNCHER...: rank 1 is killed, and does not come; of the first nobody's patience is needed.
deaths() {
  ends 'rank 1: crashed: SIGKILL.*, in all_reduce .*FAIL' odd_dies 600 "$@"
  ends 'rank 1 did not come to all_reduce of [0-9]+ f32 within 2\.[0-9] s.*FAIL' odd_hangs 5 "$@"
}

# models LAUNCHER...: everything that is tried, where the last argument of the launcher takes a number of processes.
models() {
  tried=$1
  says 'tp 2.*PASS' "$@" 2 "$host" verify test/golden/llama --tp 2
  says 'tp 4.*PASS' "$@" 4 "$host" verify test/golden/llama --tp 4
  says 'tp 2, ep 2.*PASS' "$@" 2 "$host" verify test/golden/mixtral --tp 2 --ep 2
  says 'baseline.*correct' "$@" 4 "$host" run test/ranks/uneven_mixtral.yaml --profile full --device cpu --tp 4 --ep 4
  says 'it started 3 processes, and there are to be 2 ranks' "$@" 3 "$host" verify test/golden/llama --tp 2
  deaths "$@"
}

# across LAUNCHER...: the same, where the launcher takes two machines.
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 6000)) FK_LAUNCH_KEY=a-key-of-no-importance
across() {
  says 'tp 2.*PASS' "$@" 2 "$host" verify test/golden/llama --tp 2
  says 'tp 4.*PASS' "$@" 4 "$host" verify test/golden/llama --tp 4
  says 'baseline.*correct' "$@" 4 "$host" run test/ranks/uneven_mixtral.yaml --profile full --device cpu --tp 4 --ep 4
  says 'MASTER_ADDR is not set' env -u MASTER_ADDR "$@" 2 "$host" verify test/golden/llama --tp 2
  deaths "$@"
}

if [ "$only" = srun ]; then
  :
elif command -v mpirun >/dev/null; then
  root=; [ "$(id -u)" = 0 ] && root=--allow-run-as-root
  if ! why=$(mpirun $root --oversubscribe -n 2 true 2>&1); then
    absent mpirun "it starts nothing here: $why"
  else
    models mpirun $root --oversubscribe -n
    agent=$(mktemp)
    printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >"$agent"
    chmod +x "$agent"
    # More slots than ranks: what a launcher counts differs between versions and machines.
    across mpirun $root --host "$(hostname):4,another:4" --map-by node --mca plm_rsh_agent "$agent" \
           -x MASTER_ADDR -x MASTER_PORT -x FK_LAUNCH_KEY -n
    rm -f "$agent"
  fi
else
  absent mpirun "it is not installed (openmpi-bin)"
fi
[ "$only" != mpirun ] || leave

. test/ranks/slurm_cluster.sh
start_cluster || { absent srun "$why"; leave; }
models srun --overcommit -N 1 -n
across srun --overcommit -N 2 -n
leave
