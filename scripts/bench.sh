#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh [--quick]: runs fk_bench and keeps its numbers as docs/results/<date>-<cpu|device>.json with commit and
# machine; scripts/docs/tables.py redraws docs/results/models.md from them.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
fk_need_packages $fk_build_packages $fk_test_packages
cd "$fk_root"
FK_CMAKE_ARGS=-DBUILD_TESTING=ON fk_build build fk-host fk_providers fk_bench
out="docs/results/$(date +%F)-cpu.json"
mkdir -p docs/results
part="$(mktemp)"
GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-0}" build/test/bench/fk_bench "$@" build/plugins build/test/bench/null.so >"$part"
python3 - "$part" "$out" <<'PY'
import json, os, platform, re, subprocess, sys
data = json.load(open(sys.argv[1]))
cpu = re.search(r"model name\s*:\s*(.*)", open("/proc/cpuinfo").read())
data["machine"] = {"cpu": cpu.group(1) if cpu else platform.processor(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
data["commit"] = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
data["date"] = subprocess.run(["date", "+%F"], capture_output=True, text=True).stdout.strip()
data["command"] = "scripts/bench.sh"
json.dump(data, open(sys.argv[2], "w"), indent=1)
os.remove(sys.argv[1])
PY
echo "$out"
