#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# launcher.sh FK_HOST SOURCE_DIR PLUGINS_DIR: launcher.py with a cluster of Slurm on this machine. 77: there is none.
set -eu
. "$2/test/ranks/slurm_cluster.sh"
start_cluster || { echo "skipped: $why"; exit 77; }
python3 "$2/test/eval/launcher.py" "$@" slurm
