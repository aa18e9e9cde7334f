#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks whose processes a launcher has started, which is played here: they find each other, and whoever dies, nobody is left.
# Usage: launched.sh FK_HOST CASE
set -u
export OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# start RANK COMMAND...: in the background, as that rank of job $job; its process id is in $pid.
start() {
  rank=$1; shift
  OMPI_COMM_WORLD_RANK=$rank PMIX_NAMESPACE="launched.$$.$job" "$@" >>"$log" 2>&1 &
  pid=$!
}
die() { echo "$1"; cat "$log"; exit 1; }
until_gone() {  # the processes that this expression finds
  tries=0
  while pgrep -f "$1" >/dev/null; do
    tries=$((tries + 1))
    [ $tries -le 100 ] || die "still there: $(pgrep -fa "$1")"
    sleep 0.1
  done
}

job=1
start 1 "$1" verify "$2" --tp 2; place=$pid
start 0 "$1" verify "$2" --tp 2; broker=$pid
wait $broker || die "rank 0 failed"
wait $place || die "rank 1 failed"
grep -q PASS "$log" || die "no verdict"

# A rank that waits in a collective for ever, with a patience of minutes.
for victim in place broker; do
  job=$victim
  : >"$log"
  start 0 "$1" verify "$2" --tp 2 --provider odd_hangs --patience 600; broker=$pid
  start 1 "$1" verify "$2" --tp 2 --provider odd_hangs --patience 600; place=$pid
  tries=0
  # The runner of rank 1 is the child of its place.
  until pgrep -f "__runner $place\$" >/dev/null; do
    tries=$((tries + 1))
    [ $tries -le 200 ] || die "no runner was started at rank 1"
    sleep 0.1
  done
  if [ $victim = place ]; then kill -9 "$place"; else kill -9 "$broker"; fi
  wait $broker && [ $victim = place ] && die "rank 0 ended well without rank 1"
  wait $place
  until_gone "__runner ($place|$broker)\$"
  if [ $victim = place ]; then grep -q "rank 1" "$log" || die "rank 1 is not named"; fi
done

# Fewer ranks than processes.
job=2
start 0 "$1" verify "$2"
wait $pid && die "two processes for one rank"
grep -q "it started 2 processes, and there are to be 1 ranks" "$log" || die "the number is not told"
echo "nobody is left"
