#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# After a run in which a rank hangs, and after one that was killed, no runner lives on.
# Usage: left_behind.sh FK_HOST CASE
set -u
"$1" verify "$2" --tp 2 --provider odd_hangs --patience 5 >/dev/null 2>&1 &
broker=$!
wait $broker
# Runners have their broker's process id as an argument.
if pgrep -f "__runner $broker" >/dev/null; then echo "a runner outlived its broker's end"; exit 1; fi
"$1" verify "$2" --tp 2 --provider odd_hangs --patience 600 >/dev/null 2>&1 &
broker=$!
tries=0
until pgrep -f "__runner $broker" >/dev/null || [ $tries -gt 200 ]; do tries=$((tries + 1)); sleep 0.1; done
if [ $tries -gt 200 ]; then echo "no runner was started"; exit 1; fi
kill -9 $broker
wait $broker 2>/dev/null
tries=0
while pgrep -f "__runner $broker" >/dev/null; do
  tries=$((tries + 1))
  if [ $tries -gt 50 ]; then echo "a runner outlived its broker's death"; exit 1; fi
  sleep 0.1
done
echo "nobody is left"
