# SPDX-License-Identifier: Apache-2.0
# For other scripts. `start_cluster` starts a cluster of Slurm with the nodes `one` and `two` on this machine, as any user, and sets
# SLURM_CONF. The script's end ends the cluster. When it does not start, `why` has the reason, and the status is 1.
end_cluster() {
  for file in one.pid two.pid slurmctld.pid munge.pid; do
    [ ! -s "$dir/$file" ] || kill "$(cat "$dir/$file")" 2>/dev/null || true
  done
  sleep 1
  rm -rf "$dir"
}

start_cluster() {
  PATH=$PATH:/usr/sbin
  missing=
  for program in slurmctld slurmd srun sbatch munged; do
    command -v $program >/dev/null || missing="$missing $program"
  done
  if [ -n "$missing" ]; then why="not installed:$missing"; return 1; fi
  dir=$(mktemp -d)
  trap end_cluster EXIT
  node=$(hostname -s)
  port=$((26000 + $$ % 1500 * 4))  # others may try the same here
  mkdir "$dir/state" "$dir/spool.one" "$dir/spool.two"
  head -c 1024 /dev/urandom > "$dir/munge.key"
  chmod 600 "$dir/munge.key"
  cat > "$dir/slurm.conf" <<CONF
ClusterName=fk
SlurmctldHost=$node(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge.socket
SlurmctldPort=$port
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
NodeName=one NodeHostname=$node NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=8 State=UNKNOWN
NodeName=two NodeHostname=$node NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=8 State=UNKNOWN
PartitionName=all Nodes=one,two Default=YES MaxTime=INFINITE State=UP
CONF
  export SLURM_CONF="$dir/slurm.conf"
  if munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munge.pid" \
            --log-file="$dir/munge.log" --seed-file="$dir/munge.seed" &&
     slurmctld -c && slurmd -c -N one && slurmd -c -N two; then
    tries=0
    while [ $tries -lt 60 ]; do
      [ "$(sinfo -h -t idle -o %D)" != 2 ] || return 0
      tries=$((tries + 1))
      sleep 0.5
    done
  fi
  why="the cluster does not start here: $(tail -q -n 5 "$dir"/*.log 2>&1 || true)"
  return 1
}
